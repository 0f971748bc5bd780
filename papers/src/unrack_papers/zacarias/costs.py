"""What lending costs, part by part: each step from large nodes only to lent memory is a row, and a world, of its own.

Rows that say "no contention" are of a world in which nobody slows anybody down; all others run under contention.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from unrack import Estimate
from unrack_papers.claim import Check, Checks
from unrack_papers.measured import Measured
from unrack_papers.pages.sheet import Sheet, line, number
from unrack_papers.reproduction import Contended, Place, Row, X
from unrack_papers.within import mean_of
from unrack_papers.zacarias.systems import BASELINE, DISAGGREGATED, REFERENCE, THROUGHPUT, row

ALL_COMPUTE = "Lenders compute, no contention"
SOME_COMPUTE = "Lenders do not compute, no contention"
CONTENDING = "Lenders compute, contention"
BY_SHARE = "Lenders do not compute, contention by share"


def steps(large_nodes: int) -> tuple[Row, ...]:
    """The rows between the baseline on large nodes only and the disaggregated policy, on a system."""
    lending: dict[str, tuple[int, Contended]] = {
        ALL_COMPUTE: (0, "off"), SOME_COMPUTE: (1, "off"), CONTENDING: (0, "whole"),
    }  # fmt: skip
    return tuple(
        replace(row(DISAGGREGATED, large_nodes, threshold=threshold), name=name, printed=False, contention=contention)
        for name, (threshold, contention) in lending.items()
    )


class CostStep(NamedTuple):
    """A part of what lending costs: the throughput of one row less that of another, less the same of a second pair."""

    words: str
    more: str
    less: str
    beside: tuple[str, str] | None = None


LENDING = CostStep("lending itself", REFERENCE, ALL_COMPUTE)
IDLE = CostStep("lenders do not compute", ALL_COMPUTE, SOME_COMPUTE)
CONTENTION = CostStep("contention", SOME_COMPUTE, DISAGGREGATED)
ALL_OF_IT = CostStep("all together", REFERENCE, DISAGGREGATED)
CROWDED = CostStep("more contention if lenders compute", ALL_COMPUTE, CONTENDING, (SOME_COMPUTE, DISAGGREGATED))
NET = CostStep("lenders that compute gain", CONTENDING, DISAGGREGATED)
COSTS = (LENDING, IDLE, CONTENTION, ALL_OF_IT)


def cost(measured: Measured, group: str, x: X, step: CostStep) -> Estimate | None:
    """A step at a place, in points of the throughput of large nodes only, seed by seed; ``None``: it was not run."""
    gaps = measured.gaps(_place(measured, group, x, step.more), _place(measured, group, x, step.less), THROUGHPUT.label)
    if step.beside is not None:
        more, less = (_place(measured, group, x, name) for name in step.beside)
        other = measured.gaps(more, less, THROUGHPUT.label)
        gaps = [None if a is None or b is None else a - b for a, b in zip(gaps, other, strict=False)]
    return mean_of(None if gap is None else 100 * gap for gap in gaps)


def _place(measured: Measured, group: str, x: X, name: str) -> Place:
    """Where a row stands; the reference is at the same place, or the baseline at 100 on the axis."""
    if name == REFERENCE and not measured.values.get((group, x, name)):
        return (group, 100, BASELINE)
    return (group, x, name)


def costs_sheet(measured: Measured, places: Sequence[tuple[str, X]], named: Callable[[str, X], str]) -> Sheet:
    """A line a place: what each step costs, and why the threshold hardly matters."""
    every = (*COSTS, CROWDED, NET)
    lines = tuple(
        line(named(group, x), *(number(cost(measured, group, x, step), 1) for step in every)) for group, x in places
    )
    words = "throughput lost, in points of that of large nodes only, step by step and seed by seed: ours ± 95 %; then "
    words += "what lenders that compute cost in contention, and what they gain in all (lenders that do not compute "
    words += "cost the third column)"
    return Sheet(words, ("system", *(step.words.replace(" if ", "\nif ") for step in every)), lines, 1)


def costs_lie(places: Sequence[tuple[str, X]], step: CostStep, low: float, high: float = math.inf) -> Checks:
    """A step costs between ``low`` and ``high`` points at every place."""

    def checks(measured: Measured) -> Iterable[Check]:
        for group, x in places:
            where = f"{group}, {x} % large nodes"
            yield Check(f"throughput, {step.words}", where, cost(measured, group, x, step), low, high, "points")

    return checks
