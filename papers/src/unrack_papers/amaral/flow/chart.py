"""Figures over time and over shares of the jobs: lines without points, a panel a group.

Tables: the paper's values beside ours, and what else was measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from unrack_papers.measured import Measured
from unrack_papers.pages.figure import LINES, Draw, framed, names, numbers
from unrack_papers.pages.sheet import TONES, Cell, Sheet, line, named, number, signed, texts
from unrack_papers.reproduction import Quantity, Spec, Values


def along(values: Values, prefix: str, metric: str, rows: Sequence[str], title: str = "{}") -> Values:
    """Values that are called ``prefix.X``, as a place on the axis each, of the panel of that title."""
    found: Values = {}
    for (group, _, row), seeds in values.items():
        keys = [key for key in seeds[0] if key.startswith(f"{prefix}.")] if seeds and row in rows else []
        for key in keys:
            x = int(key.removeprefix(f"{prefix}."))
            found[title.format(group), x, row] = tuple({metric: seed.get(key)} for seed in seeds)
    return found


def without(values: Values, *prefixes: str) -> Values:
    """The same without values that stand elsewhere."""
    return {
        place: tuple({k: v for k, v in seed.items() if k.partition(".")[0] not in prefixes or "." not in k}
                     for seed in seeds)
        for place, seeds in values.items()
    }  # fmt: skip


def lines_over(
    label: str, panels: Sequence[str], x_title: str, y_title: str, order: Sequence[str], mark: str = "linear"
) -> Draw:
    """A quantity over x, a panel a group, a line a row; each panel has axes of its own."""

    def draw(measured: Measured) -> Spec:
        shown: list[dict[str, Any]] = []
        for group in panels:
            for own, x, row in measured.values:
                found = measured.at((own, x, row), label) if own == group else None
                if found is not None:
                    shown.append({"panel": group, "row": row, "x": x, "y": found.mean})
        encoding = {
            "x": numbers("x", x_title),
            "y": numbers("y", y_title, scale={"zero": False}),
            "color": names("row", order, legend=LINES),
        }
        line = {"type": "line", "interpolate": mark, "strokeWidth": 1.6, "opacity": 0.9}
        spec = framed(measured, shown, list(panels), {"mark": line, "encoding": encoding}, 330)
        spec["resolve"] |= {"scale": {"x": "independent", "y": "independent"}}
        return spec

    return draw


def beside(measured: Measured) -> Sheet:
    """A line a value of the paper: paper, ours, difference, verdict."""
    lines = []
    for point in measured.reproduction.points:
        for row in point.rows:
            for quantity in measured.reproduction.quantities:
                found = measured.compared((point.group, point.x, row.name), quantity.label)
                if found.paper is None:
                    continue
                verdict = Cell(("–",)) if found.verdict is None else Cell((str(found.verdict),), TONES[found.verdict])
                gap = "–" if found.difference is None else signed(found.difference, quantity.decimals)
                words = f"{quantity.label}, {quantity.unit}" if quantity.unit else quantity.label
                paper, ours = f"{found.paper:.{quantity.decimals}f}", number(found.ours, quantity.decimals)
                lines.append(line(point.group, named(row), words, paper, ours, gap, verdict))
    heads = (measured.reproduction.group_title, "", "", "paper", "ours ± 95 %", "difference", "verdict")
    return Sheet("a value of the paper, and ours", heads, tuple(lines), 3)


def ours(measured: Measured, quantities: Sequence[Quantity]) -> Sheet:
    """A line a panel and row."""
    lines = [
        line(point.group, named(row), *texts(measured, (point.group, point.x, row.name), quantities))
        for point in measured.reproduction.points
        for row in point.rows
    ]
    units = [f"{one.label}\n{one.unit}" if one.unit else one.label for one in quantities]
    return Sheet("ours ± 95 %", (measured.reproduction.group_title, "", *units), tuple(lines), 2)
