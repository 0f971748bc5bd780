"""Figures laid out like the papers', as Vega-Lite specifications with their numbers in them.

Figures of bars, side by side or stacked, as Vega-Lite specifications with their numbers in them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from unrack.report import colour_of
from unrack.study import RunTimes
from unrack_papers.measured import BOUND, Measured
from unrack_papers.reproduction import Spec, in_world
from unrack_papers.verdict import interval

Draw = Callable[[Measured], Spec]
BOUND_NAME = "no policy can do better"
BOUND_COLOUR = "#666666"
PANEL = {"width": 230, "height": 190}
INTERVAL = "isValid(datum.low) && datum.high > datum.low"
_FONT = "Helvetica, Arial, sans-serif"


def curves(
    label: str,
    y_title: str,
    panels: Mapping[str, tuple[str, Sequence[str]]] | None = None,
    doubling: bool = False,
    width: int | None = None,
) -> Draw:
    """Lines over x with 95 % intervals, one a row; the paper's values as hollow points; the bound dashed grey.

    Parameters
    ----------
    label
        The quantity.
    y_title
        Words for it.
    panels
        Title of a panel → (group, names of rows); ``None``: a panel a group with all its rows.
    doubling
        Every doubling of x is as wide.
    width
        Of a panel, px.
    """

    def draw(measured: Measured) -> Spec:
        chosen = panels or {
            measured.titled(group): (group, [row.name for row in measured.rows(group)]) for group in measured.groups
        }
        lines = []
        for title, (group, shown) in chosen.items():
            for name in shown:
                lines += curve_lines(measured, title, group, name, label)
        lines = _least_bound(lines)
        rows = list(dict.fromkeys(line["row"] for line in lines if line["row"] != BOUND_NAME))
        bounded = any(line["row"] == BOUND_NAME for line in lines)
        domain = [*rows, *[BOUND_NAME] * bounded]
        xs = [x for group in measured.groups for x in measured.xs(group)]
        x_axis: Spec = {"values": sorted(set(xs), key=float), "labelOverlap": "greedy", "format": "~f"}
        if any(round(10 * float(one), 6) % 1 for one in xs):
            x_axis["format"] = ".2~f"
        wide = {"type": "log", "base": 2} if doubling else {"zero": False}
        x = numbers("x", measured.reproduction.x_title, scale={**wide, "nice": False, "padding": 12}, axis=x_axis)
        colour = names("row", domain, [*colours(rows), *[BOUND_COLOUR] * bounded], legend=LINES)
        dash = names("row", domain, [[1, 0]] * len(rows) + [[4, 3]] * bounded)
        y = numbers("y", y_title, scale={"domainMin": 0, "nice": True})
        layers: list[Spec] = [
            {"mark": {"type": "line", "strokeWidth": 1.6}, "encoding": {"y": y, "color": colour, "strokeDash": dash}},
            {
                "transform": [{"filter": INTERVAL}],
                "mark": {"type": "rule", "strokeWidth": 1.4, "clip": True},
                "encoding": {"y": {**y, "field": "low"}, "y2": {"field": "high"}, "color": colour},
            },
            {
                "transform": [{"filter": f"datum.row != '{BOUND_NAME}'"}],
                "mark": {"type": "point", "filled": True, "size": 28, "opacity": 1},
                "encoding": {"y": y, "color": colour},
            },
        ]
        if any(line["paper"] is not None for line in lines):
            layers.append({
                "transform": [{"filter": "isValid(datum.paper)"}],
                "mark": {"type": "point", "shape": "diamond", "size": 75, "strokeWidth": 1.4, "filled": False},
                "encoding": {"y": {**y, "field": "paper"}, "color": colour},
            })  # fmt: skip
        return framed(measured, lines, [*chosen], {"encoding": {"x": x}, "layer": layers}, width)

    return draw


def colours(names: Sequence[str]) -> list[str]:
    """A colour for each name, in order."""
    return [colour_of(i) for i in range(len(names))]


def numbers(field: str, title: str | None, **more: Any) -> Spec:
    """A channel on a field of numbers."""
    return {"field": field, "type": "quantitative", "title": title, **more}


def names(field: str, shown: Sequence[str] | None = None, shades: Sequence[Any] | None = None, **more: Any) -> Spec:
    """A channel on a field of names; with what is shown, in order, each in a colour or shade of its own."""
    scale = {} if shown is None else {"scale": {"domain": list(shown), "range": list(shades or colours(shown))}}
    return {"field": field, "type": "nominal", "title": None, **scale, **more}


LINES = {"symbolType": "stroke", "symbolSize": 300}
"""A legend of lines."""


def plain(name: str) -> str:
    """The policy alone: the panel says which layout it is.

    Examples
    --------
    >>> plain("PA First Fit"), plain("First Fit · split")
    ('First Fit', 'First Fit')
    """
    return name.removeprefix("PA ").partition(" · ")[0]


def curve_lines(measured: Measured, title: str, group: str, name: str, label: str) -> list[dict[str, Any]]:
    """What is drawn of a row in a panel: mean, interval, the paper's value at each x; the bound as a row."""
    lines: list[dict[str, Any]] = []
    worlds = {row.name: row.world for row in measured.rows(group)}
    shown = in_world(plain(name), worlds.get(name, RunTimes.STUDY))
    for x in measured.xs(group):
        found = measured.compared((group, x, name), label)
        low, high = interval(found.ours) or (None, None)
        mean = None if found.ours is None else found.ours.mean
        low, high = (mean if end is None or math.isinf(end) else end for end in (low, high))
        lines.append({"panel": title, "row": shown, "x": x, "y": mean, "low": low, "high": high,
                      "paper": found.paper})  # fmt: skip
        if label != "% missed":
            continue
        bound = measured.at((group, x, name), BOUND.label)
        if bound is not None:
            lines.append({"panel": title, "row": BOUND_NAME, "x": x, "y": bound.mean, "low": None, "high": None,
                          "paper": None})  # fmt: skip
    return lines


def _least_bound(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of the bounds of a panel's rows the least at each x: what holds for all of them."""
    bounds: dict[tuple[str, Any], dict[str, Any]] = {}
    for line in lines:
        key = (line["panel"], line["x"])
        if line["row"] == BOUND_NAME and (key not in bounds or line["y"] < bounds[key]["y"]):
            bounds[key] = line
    return [*(line for line in lines if line["row"] != BOUND_NAME), *bounds.values()]


def rows_of_figures(draws: Sequence[Draw], *own: str) -> Draw:
    """Several figures, one below the other; each has its own scale of some channels."""
    scales = dict.fromkeys(own, "independent")
    resolve = {"scale": scales, "legend": {name: scales[name] for name in own if name in ("color", "strokeDash")}}

    def draw(measured: Measured) -> Spec:
        parts = [one(measured) for one in draws]
        shared = {key: value for key, value in parts[0].items() if key in ("$schema", "title", "config", "background")}
        return {**shared, "vconcat": [{k: v for k, v in part.items() if k not in shared} for part in parts],
                "spacing": 28, "resolve": resolve}  # fmt: skip

    return draw


def framed(
    measured: Measured, lines: Sequence[Mapping[str, Any]], panels: Sequence[str], unit: Spec, width: int | None = None
) -> Spec:
    """A specification: panels side by side over shared axes, a title and the seeds below it."""
    reproduction, options = measured.reproduction, measured.options
    about = "Ours: exact" if reproduction.exact else f"Ours: means over {options.seeds} seeds"
    about += " with 95 % intervals" if any(line.get("low") is not None for line in lines) else ""
    if any(line.get("paper") is not None for line in lines):
        about += "; hollow diamonds: the paper's values"
    columns = min(3, len(panels))
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "background": "white",
        "title": {"text": f"{reproduction.shows}: {reproduction.summary}", "subtitle": about, "anchor": "start"},
        "data": {"values": list(lines)},
        "facet": {"field": "panel", "type": "nominal", "title": None, "sort": list(panels),
                  "header": {"labelFontSize": 12, "labelFontWeight": "bold"}},
        "columns": columns,
        "spacing": 24,
        "spec": {**PANEL, **({} if width is None else {"width": width}), **unit},
        "resolve": {"axis": {"x": "independent"}},
        "config": {
            "font": _FONT,
            "view": {"stroke": "#ccc"},
            "axis": {"gridColor": "#eee", "labelFontSize": 10, "titleFontSize": 11},
            "legend": {"orient": "bottom", "labelLimit": 260, "columns": 4, "symbolStrokeWidth": 2},
            "title": {"fontSize": 14, "subtitleFontSize": 11, "subtitleColor": "#555", "offset": 12},
        },
    }  # fmt: skip


LEVEL = {"labelAngle": 0}


def bars(
    label: str,
    y_title: str,
    rows: Sequence[str] | None = None,
    groups: Sequence[str] | None = None,
    *,
    x_title: str | None = None,
    order: Sequence[str] = (),
    width: int | None = None,
    to_scale: bool = False,
) -> Draw:
    """Bars side by side at each x, one a row, with 95 % intervals; the paper's values as hollow points.

    Parameters
    ----------
    label
        The quantity.
    y_title
        Words for it.
    rows, groups
        Which ones; ``None``: all. A panel a group.
    x_title
        Words for the x axis; ``None``: the reproduction's.
    order
        Rows in the order of their colours; none: that in which they come.
    width
        Of a panel, px.
    to_scale
        Each panel has a y axis of its own.
    """

    def draw(measured: Measured) -> Spec:
        lines: list[dict[str, Any]] = []
        shown = measured.groups if groups is None else tuple(groups)
        for group in shown:
            own = [row.name for row in measured.rows(group)]
            for name in own if rows is None else [name for name in rows if name in own]:
                lines += curve_lines(measured, measured.titled(group), group, name, label)
        lines = [line for line in lines if line["row"] != BOUND_NAME]
        drawn = list(dict.fromkeys(line["row"] for line in lines))
        x = names("x", title=measured.reproduction.x_title if x_title is None else x_title, sort=None, axis=LEVEL)
        y = numbers("y", y_title)
        colour = names("row", order or drawn)
        layers: list[Spec] = [
            {"mark": {"type": "bar"}, "encoding": {"y": y, "color": colour}},
            {
                "transform": [{"filter": INTERVAL}],
                "mark": {"type": "rule", "strokeWidth": 1.2, "color": "#222"},
                "encoding": {"y": {**y, "field": "low"}, "y2": {"field": "high"}},
            },
        ]
        if any(line["paper"] is not None for line in lines):
            layers.append({
                "transform": [{"filter": "isValid(datum.paper)"}],
                "mark": {"type": "point", "shape": "diamond", "size": 45, "strokeWidth": 1.2, "filled": False},
                "encoding": {"y": {**y, "field": "paper"}, "color": {"value": "#222"}},
            })  # fmt: skip
        offset = {"field": "row", "type": "nominal", "sort": drawn}
        titles = [measured.titled(group) for group in shown]
        spec = framed(measured, lines, titles, {"encoding": {"x": x, "xOffset": offset}, "layer": layers}, width)
        own = ["x", "xOffset"] if len({measured.xs(group) for group in shown}) > 1 else []
        spec["resolve"] |= {"scale": dict.fromkeys([*own, *["y"] * to_scale], "independent")}
        return spec

    return draw


def stacks(
    parts: Sequence[str], row: str, y_title: str, x_title: str = "", places: Mapping[str, str] | None = None
) -> Draw:
    """Stacked bars: in each panel a bar an x, made of parts; a part is a quantity's label.

    Parameters
    ----------
    parts
        What a bar is made of.
    row
        The row that is drawn.
    y_title, x_title
        Words for the axes; no ``x_title``: the reproduction's.
    places
        Place on the axis → what stands before the parts' labels there; ``None``: the points' own x.
    """

    def draw(measured: Measured) -> Spec:
        lines: list[dict[str, Any]] = []
        for group in measured.groups:
            for i, part in enumerate(parts):
                for point in measured.xs(group):
                    for x, before in (places or {str(point): ""}).items():
                        found = measured.at((group, point, row), before + part)
                        mean = 0.0 if found is None else found.mean
                        lines.append({"panel": measured.titled(group), "part": part, "x": x, "y": mean, "place": i})
        unit: Spec = {
            "mark": {"type": "bar"},
            "encoding": {
                "x": names("x", title=x_title or measured.reproduction.x_title, sort=None, axis=LEVEL),
                "y": numbers("y", y_title, stack="zero"),
                "color": names("part", parts),
                "order": {"field": "place", "type": "quantitative"},
            },
        }  # fmt: skip
        return framed(measured, lines, [measured.titled(group) for group in measured.groups], unit)

    return draw
