"""Figures of servers on tiers of memory: the use of every cluster, fullest first; figures of several scales."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from unrack.papers.figure import Draw, framed, names, numbers, rows_of_figures
from unrack.papers.measured import Measured
from unrack.papers.reproduction import Spec


def ranked(label: str, groups: Sequence[str], x_title: str, y_title: str) -> Draw:
    """Steps over ranks, a panel a group, a line a row.

    Parameters
    ----------
    label
        The quantity, in per cent.
    groups
        The panels; their places on the axis are ranks from 1.
    x_title, y_title
        Words for the axes.
    """

    def draw(measured: Measured) -> Spec:
        lines: list[dict[str, Any]] = []
        for group, x, name in measured.values:
            found = measured.at((group, x, name), label) if group in groups else None
            if found is not None:
                lines.append({"panel": measured.titled(group), "row": name, "x": x, "y": found.mean})
        encoding = {
            "x": numbers("x", x_title, scale={"zero": False, "nice": False}),
            "y": numbers("y", y_title, scale={"domain": [0, 100]}),
            "color": names("row", list(dict.fromkeys(line["row"] for line in lines))),
        }
        mark = {"type": "line", "strokeWidth": 1.8, "interpolate": "step"}
        return framed(
            measured, lines, [measured.titled(group) for group in groups], {"mark": mark, "encoding": encoding}
        )

    return draw


def resized(draw: Draw, width: int, x_title: str) -> Draw:
    """A figure with panels of another width, px, and other words for its x axis."""

    def again(measured: Measured) -> Spec:
        spec = draw(measured)
        unit = {**spec["spec"], "width": width}
        unit["encoding"] = {**unit["encoding"], "x": {**unit["encoding"]["x"], "title": x_title}}
        return {**spec, "spec": unit}

    return again


def apart(draws: Sequence[Draw], rows: Sequence[str]) -> Draw:
    """Several figures, one below the other: rows have the same colour in all, and bars the width of their own."""
    scale = names("row", rows)["scale"]

    def coloured(part: Any) -> Any:
        if isinstance(part, list):
            return [coloured(one) for one in part]
        if not isinstance(part, dict):
            return part
        found = {key: coloured(value) if key != "values" else value for key, value in part.items()}
        colour = found.get("color")
        if isinstance(colour, dict) and colour.get("field") == "row":
            found["color"] = {**colour, "scale": scale}
        return found

    def draw(measured: Measured) -> Spec:
        found = coloured(rows_of_figures(draws)(measured))
        return {**found, "resolve": {"scale": {"x": "independent", "xOffset": "independent", "y": "independent"}}}

    return draw
