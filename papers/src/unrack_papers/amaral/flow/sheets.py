"""Tables: the paper's values beside ours, and what else was measured."""

from __future__ import annotations

from collections.abc import Sequence

from unrack_papers.measured import Measured
from unrack_papers.pages.sheet import TONES, Cell, Sheet, line, named, number, signed, texts
from unrack_papers.reproduction import Quantity


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
