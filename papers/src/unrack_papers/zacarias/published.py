"""Disaggregated memory: the 1838 published jobs, what lending costs them, and what choosing lenders gains.

What lending costs, part by part: each step from large nodes only to lent memory is a row, and a world, of its own.

Rows that say "no contention" are of a world in which nobody slows anybody down; all others run under contention.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from unrack import Estimate
from unrack_papers.claim import Check, Checks, Claim, exceeds, lies, together
from unrack_papers.measured import Measured
from unrack_papers.options import Options
from unrack_papers.pages.figure import bars
from unrack_papers.pages.sheet import Sheet, columns, line, number
from unrack_papers.reproduction import Contended, Place, Point, Quantity, Row, Values, X
from unrack_papers.within import mean_of
from unrack_papers.zacarias.counts import HOUR
from unrack_papers.zacarias.systems import (
    BASELINE,
    DISAGGREGATED,
    OWN,
    PROFILED,
    REFERENCE,
    TAKES,
    THROUGHPUT,
    lent,
    mix,
    normalised,
    ratio,
    reference,
    row,
)

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


NOBODY, SOME = "no large node", "25 % large nodes"
PLACES = ((NOBODY, 0), (SOME, 25))
RESPONSE = Quantity("mean response", "response.all.mean", 1 / HOUR, 2, "h")
AGAINST = Quantity("mean response against Disaggregated", "response.against", 100, 1, "%")
STRETCH = Quantity("run time over that undisturbed", "stretch_mean", 1, 3)
COLUMNS = {
    THROUGHPUT: "throughput over that of the baseline where all nodes are large",
    RESPONSE: "mean response, h",
    AGAINST: "mean response less that under Disaggregated, % of it, seed by seed",
    STRETCH: "run time over that undisturbed, mean over jobs",
}
BY_TRAFFIC = replace(row(DISAGGREGATED, 0), name=BY_SHARE, printed=False, contention="share")


def against_disaggregated(values: Values) -> Values:
    """Throughput normalised, and mean responses against those of the disaggregated policy on the same jobs."""
    found = dict(normalised(values))
    for (group, x, name), seeds in list(found.items()):
        base = values.get((group, x, DISAGGREGATED), ())
        if name != DISAGGREGATED and base:
            found[group, x, name] = tuple(
                {**own, AGAINST.metric: None if share is None else share - 1}
                for own, other in zip(seeds, base, strict=True)
                for share in [ratio(own.get(RESPONSE.metric), other.get(RESPONSE.metric))]
            )
    return found


def _tables(measured: Measured) -> tuple[Sheet, ...]:
    rows = list(dict.fromkeys(one.name for group in measured.groups for one in measured.rows(group)))
    return (
        *(
            columns(measured, one.label, words, [BASELINE, OWN] if one is AGAINST else rows)
            for one, words in COLUMNS.items()
        ),
        costs_sheet(measured, PLACES, lambda group, _: group),
    )


CLAIMS = (
    Claim("With 50 % large jobs lending loses 5 % of the throughput without any large node (within 3 points)",
          "§6.3.1, Fig. 6.4", lies(THROUGHPUT.label, DISAGGREGATED, [NOBODY], [0], 0.92, 0.98)),
    Claim("What it loses are cores of lenders that do not compute, and contention: more than 5 points each; borrowing "
          "by itself costs at most 2", "this project",
          together(
              *(costs_lie(PLACES[:1], step, 5) for step in (IDLE, CONTENTION)), costs_lie(PLACES[:1], LENDING, -2, 2)
          )),
    Claim("Lenders chosen by predicted slowdown give shorter mean responses than those of the disaggregated policy",
          "this project", exceeds(RESPONSE.label, DISAGGREGATED, OWN, [SOME], [25])),
    Claim("And they give more throughput", "this project",
          exceeds(THROUGHPUT.label, OWN, DISAGGREGATED, [SOME], [25])),
)  # fmt: skip

REPRODUCTION = lent(
    name="memory-published-jobs",
    shows="Section 6.3.1",
    summary="what lending costs, part by part, and what lenders chosen by predicted slowdown gain",
    setup="1838 jobs on 1024 nodes, half of whose node-hours are of large jobs, on systems without large nodes and "
    "with 25 %. With --trace they are those that come with the thesis's simulator: one log, so that seed 0 is "
    "the log as it is, and each other a copy in which every arrival is moved by up to 30 s either way, the interval "
    "of the scheduler's rounds. "
    "Without, they are drawn. Throughput is normalised for each seed to the baseline where all nodes are large.",
    points=(
        Point(NOBODY, 0, mix(50), (reference(), row(DISAGGREGATED, 0), *steps(0), BY_TRAFFIC)),
        Point(SOME, 25, mix(50), (reference(), row(BASELINE, 25), row(DISAGGREGATED, 25), row(OWN, 25), *steps(25))),
    ),
    quantities=tuple(COLUMNS),
    claims=CLAIMS,
    draw=bars(THROUGHPUT.label, "normalised throughput"),
    x_title="large nodes, %",
    group_title="system",
    notes=(
        "The jobs and the measured profiles are files that are not part of unrack (--trace, --profiles).",
        PROFILED,
        "What is published is one list of jobs. Jitter says how much of a difference is chance of arrival; it does not "
        "say what another list of jobs would give.",
    ),
    defaults=Options(seeds=10, jobs=1838, load=1.1),
    takes=TAKES | {"trace"},
    derive=against_disaggregated,
    tables=_tables,
)
