"""Figures of bars, side by side or stacked, as Vega-Lite specifications with their numbers in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from unrack_papers.measured import Measured
from unrack_papers.pages.figure import BOUND_NAME, INTERVAL, Draw, curve_lines, framed, names, numbers
from unrack_papers.reproduction import Spec

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
