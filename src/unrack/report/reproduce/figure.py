"""Figures laid out like the papers', as Vega-Lite specifications with their numbers in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from unrack.report.reproduce.experiment import Spec
from unrack.report.reproduce.measured import BOUND, Measured, interval
from unrack.report.spec import COLOURS

Draw = Callable[[Measured], Spec]
BOUND_NAME = "no policy can do better"
BOUND_COLOUR = "#666666"
PANEL = {"width": 230, "height": 190}
INTERVAL = "isValid(datum.low) && datum.high > datum.low"
_FONT = "Helvetica, Arial, sans-serif"


def curves(
    label: str, y_title: str, panels: Mapping[str, tuple[str, Sequence[str]]] | None = None, doubling: bool = False
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
    """

    def draw(measured: Measured) -> Spec:
        chosen = panels or {
            measured.titled(group): (group, [row.name for row in measured.rows(group)]) for group in measured.groups
        }
        lines = []
        for title, (group, names) in chosen.items():
            for name in names:
                lines += _curve(measured, title, group, name, label)
        lines = _least_bound(lines)
        names = list(dict.fromkeys(line["row"] for line in lines if line["row"] != BOUND_NAME))
        bounded = any(line["row"] == BOUND_NAME for line in lines)
        domain = [*names, *([BOUND_NAME] if bounded else [])]
        shades = [*colours(names), *[BOUND_COLOUR] * bounded]
        dashes = [[1, 0]] * len(names) + [[4, 3]] * bounded
        xs = [x for group in measured.groups for x in measured.xs(group)]
        x_axis: Spec = {"values": sorted(set(xs), key=float), "labelOverlap": "greedy", "format": "~f"}
        x = {"field": "x", "type": "quantitative", "title": measured.reproduction.x_title,
             "scale": {"zero": False, "nice": False, "padding": 12}, "axis": x_axis}  # fmt: skip
        if doubling:
            x["scale"] = {"type": "log", "base": 2, "nice": False, "padding": 12}
        colour = {"field": "row", "type": "nominal", "title": None, "scale": {"domain": domain, "range": shades},
                  "legend": {"symbolType": "stroke", "symbolSize": 300}}  # fmt: skip
        dash = {"field": "row", "type": "nominal", "title": None, "scale": {"domain": domain, "range": dashes}}
        y = {"field": "y", "type": "quantitative", "title": y_title, "scale": {"domainMin": 0, "nice": True}}
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
        return framed(measured, lines, [*chosen], {"encoding": {"x": x}, "layer": layers})

    return draw


def colours(names: Sequence[str]) -> list[str]:
    """A colour for each name, in order."""
    return [COLOURS[i % len(COLOURS)] for i in range(len(names))]


def plain(name: str) -> str:
    """The policy alone: the panel says which layout it is.

    Examples
    --------
    >>> plain("PA First Fit"), plain("First Fit · split")
    ('First Fit', 'First Fit')
    """
    return name.removeprefix("PA ").partition(" · ")[0]


def _curve(measured: Measured, title: str, group: str, name: str, label: str) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    for x in measured.xs(group):
        found = measured.compared((group, x, name), label)
        low, high = interval(found.ours) or (None, None)
        mean = None if found.ours is None else found.ours.mean
        lines.append({"panel": title, "row": plain(name), "x": x, "y": mean, "low": low, "high": high,
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


def bars(label: str, y_title: str, rows: Sequence[str] | None = None, groups: Sequence[str] | None = None) -> Draw:
    """Bars side by side at each x, one a row, with 95 % intervals; the paper's values as hollow points.

    Parameters
    ----------
    label
        The quantity.
    y_title
        Words for it.
    rows, groups
        Which ones; ``None``: all. A panel a group.
    """

    def draw(measured: Measured) -> Spec:
        lines: list[dict[str, Any]] = []
        shown = measured.groups if groups is None else tuple(groups)
        for group in shown:
            for row in measured.rows(group):
                if rows is None or row.name in rows:
                    lines += _curve(measured, measured.titled(group), group, row.name, label)
        lines = [line for line in lines if line["row"] != BOUND_NAME]
        names = list(dict.fromkeys(line["row"] for line in lines))
        title = measured.reproduction.x_title
        x = {"field": "x", "type": "nominal", "title": title, "sort": None, "axis": {"labelAngle": 0}}
        y = {"field": "y", "type": "quantitative", "title": y_title}
        scale = {"domain": names, "range": colours(names)}
        colour = {"field": "row", "type": "nominal", "title": None, "scale": scale}
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
        offset = {"field": "row", "type": "nominal", "sort": names}
        titles = [measured.titled(group) for group in shown]
        spec = framed(measured, lines, titles, {"encoding": {"x": x, "xOffset": offset}, "layer": layers})
        if len({measured.xs(group) for group in shown}) > 1:
            spec["resolve"] = {**spec["resolve"], "scale": {"x": "independent"}}
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
        scale = {"domain": list(parts), "range": colours(parts)}
        unit: Spec = {
            "mark": {"type": "bar"},
            "encoding": {
                "x": {"field": "x", "type": "nominal", "sort": None, "title": x_title or measured.reproduction.x_title,
                      "axis": {"labelAngle": 0}},
                "y": {"field": "y", "type": "quantitative", "title": y_title, "stack": "zero"},
                "color": {"field": "part", "type": "nominal", "title": None, "scale": scale},
                "order": {"field": "place", "type": "quantitative"},
            },
        }  # fmt: skip
        return framed(measured, lines, [measured.titled(group) for group in measured.groups], unit)

    return draw


def rows_of_figures(draws: Sequence[Draw]) -> Draw:
    """Several figures, one below the other."""

    def draw(measured: Measured) -> Spec:
        parts = [one(measured) for one in draws]
        shared = {key: value for key, value in parts[0].items() if key in ("$schema", "title", "config", "background")}
        return {**shared, "vconcat": [{k: v for k, v in part.items() if k not in shared} for part in parts],
                "spacing": 28}  # fmt: skip

    return draw


def framed(measured: Measured, lines: Sequence[Mapping[str, Any]], panels: Sequence[str], unit: Spec) -> Spec:
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
        "spec": {**PANEL, **unit},
        "resolve": {"axis": {"x": "independent"}},
        "config": {
            "font": _FONT,
            "view": {"stroke": "#ccc"},
            "axis": {"gridColor": "#eee", "labelFontSize": 10, "titleFontSize": 11},
            "legend": {"orient": "bottom", "labelLimit": 260, "columns": 4, "symbolStrokeWidth": 2},
            "title": {"fontSize": 14, "subtitleFontSize": 11, "subtitleColor": "#555", "offset": 12},
        },
    }  # fmt: skip
