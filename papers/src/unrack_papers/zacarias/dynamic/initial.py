"""Provisioning: jobs that start with less than they ask for (Fig. 8.10 and 8.11, section 8.4.8)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from unrack_papers.claim import MORE, Checks, Claim, changes, lies, together
from unrack_papers.measured import Measured
from unrack_papers.pages.figure import curves, rows_of_figures
from unrack_papers.pages.sheet import Sheet, grid, judged_value, line, signed, texts
from unrack_papers.reproduction import Place, Point, Quantity, Row, Values
from unrack_papers.zacarias.dynamic.systems import (
    BASELINE,
    DYNAMIC,
    NOTES,
    REFERENCE,
    mix,
    normalised,
    provisioned,
    row,
)
from unrack_papers.zacarias.systems import THROUGHPUT, ratio

MIXES = (15, 25, 50, 75, 100)
REDUCED = (0, 25, 50, 75, 100)
"""By how much less than they ask for jobs start with, in %."""
SYSTEMS: dict[float, str] = {50: "0 % large nodes", 75: "50 % large nodes", 100: "100 % large nodes"}
LOST = Quantity("throughput lost", "lost", 100, 1, "%", tolerance=3)
STOPS = Quantity("failures per job", "stops_per_job", 1, 4)
NONE_LARGE = SYSTEMS[50]


def title(large: int) -> str:
    """The panel of a mix."""
    return f"{large} % large jobs"


PANELS = {title(large): (title(large), tuple(SYSTEMS.values())) for large in MIXES}
PAPER_LOST = {50: 1.0, 75: 4.0, 100: 10.0}
"""Mix → throughput lost by starting with nothing, without large nodes, %: of the bottom row of Fig. 8.10."""


def rows(reduced: int) -> tuple[Row, ...]:
    """Dynamic on each system; where nothing is reduced the reference, too."""
    extra: dict[str, Any] = {"initial": f"{1 - reduced / 100:g}"} if reduced else {}
    own = tuple(replace(row(DYNAMIC, memory, **extra), name=name) for memory, name in SYSTEMS.items())
    return own if reduced else (*own, replace(row(BASELINE, 100), name=REFERENCE))


def with_losses(values: Values) -> Values:
    """Throughput normalised, what of it is lost by starting with less, and failures a job."""
    found: Values = {}
    for (group, x, name), seeds in normalised(values, _base).items():
        firsts = values[group, 0, name]
        numbers = []
        for seed, first in zip(seeds, firsts, strict=True):
            kept = ratio(seed.get("jobs_per_h"), first.get("jobs_per_h"))
            stops = ratio(seed.get("memory_stops"), seed.get("jobs_finished"))
            numbers.append({**seed, LOST.metric: None if kept is None else 1 - kept, STOPS.metric: stops})
        found[group, x, name] = tuple(numbers)
    return found


def _base(place: Place) -> Place:
    return place[0], 0, REFERENCE


def _lost(mixes: Sequence[int], systems: Sequence[str], low: float, high: float, xs: Sequence[int]) -> Checks:
    return together(*(lies(LOST.label, name, [title(large)], xs, low, high) for large in mixes for name in systems))


def _tables(measured: Measured) -> tuple[Sheet, ...]:
    lines = []
    for large in MIXES:
        for name in SYSTEMS.values():
            place: Place = (title(large), 100, name)
            found = measured.compared(place, LOST.label)
            gap = "–" if found.difference is None else signed(found.difference, 1)
            lines.append(line(title(large), name, judged_value(found), *texts(measured, place, [LOST]), gap))
    heads = ("mix", "system", "the thesis's", "ours", "difference")
    shown = [*SYSTEMS.values()]
    return (
        Sheet(
            "throughput lost by starting with nothing in place of the request, %: ours ± 95 %", heads, tuple(lines), 2
        ),
        grid(measured, THROUGHPUT.label, "throughput over that of the baseline on 100 % memory", shown),
        grid(measured, STOPS.label, "times that a job was stopped for lack of memory", shown),
    )


REPRODUCTION = provisioned(
    name="dynamic-initial",
    shows="Figures 8.10 and 8.11",
    summary="jobs that start with less than they ask for",
    setup="Jobs ask for what they use, and start with 100 to 0 % of that; dynamic provisioning gives them the rest. "
    "Systems of no, half and only large nodes of 128 GB; the others have 64 GB. Throughput is normalised for each "
    "seed to the baseline on large nodes only. Failures are attempts that were stopped for lack of memory, over jobs.",
    points=tuple(Point(title(large), reduced, mix(large), rows(reduced)) for large in MIXES for reduced in REDUCED),
    quantities=(THROUGHPUT, LOST, STOPS),
    claims=(
        Claim(
            "Starting with less than the request never gains throughput: more than 1 %",
            "§8.4.8, Fig. 8.10",
            _lost(MIXES, [*SYSTEMS.values()], -1, math.inf, REDUCED[1:]),
        ),
        Claim(
            "With 15 and 25 % large jobs it costs nothing: at most 2 %",
            "§8.4.8, Fig. 8.10",
            _lost([15, 25], [*SYSTEMS.values()], -math.inf, 2, REDUCED[1:]),
        ),
        Claim(
            "Where large nodes suffice it costs little with any mix: at most 2 %",
            "§8.4.8, Fig. 8.10",
            together(
                _lost([50], [SYSTEMS[75], SYSTEMS[100]], -math.inf, 2, REDUCED[1:]),
                _lost([75, 100], [SYSTEMS[100]], -math.inf, 2, REDUCED[1:]),
            ),
        ),
        Claim(
            "Without large nodes starting with nothing costs 1, 4 and 10 % with 50, 75 and 100 % large jobs (within "
            "3 points)",
            "§8.4.8, Fig. 8.10",
            together(*(_lost([large], [NONE_LARGE], lost - 3, lost + 3, [100]) for large, lost in PAPER_LOST.items())),
        ),
        Claim(
            "Jobs fail more the less they start with where memory is short: without large nodes and with large jobs "
            "only, more often at 100 than at 0 %",
            "§8.4.8, Fig. 8.11",
            changes(STOPS.label, NONE_LARGE, [title(100)], 0, 100, MORE, math.inf),
        ),
    ),
    draw=rows_of_figures(
        [curves(THROUGHPUT.label, "normalised throughput", PANELS), curves(STOPS.label, "failures a job", PANELS)]
    ),
    x_title="request reduced at the start, %",
    group_title="mix",
    printed={(title(large), 100, NONE_LARGE): {LOST.label: lost} for large, lost in PAPER_LOST.items()},
    notes=(
        "Why starting with nothing costs us nothing is open. A job that needs more than it holds gets it at that "
        "moment, also at its very start; if there is none it is stopped, and starts again with what it was seen to "
        "need. We tried, with large jobs only and no large node: jobs that use nothing in their first 5 minutes, so "
        "that a job which is stopped has worked for nothing; jobs that also start again with nothing; and use nearer "
        "to its peak. In each of these at most 0.3 % of the throughput is lost (one seed): fewer than one job in a "
        "hundred is stopped.",
        "Which 1, 4 and 10 % belong to which mix we take from the order of the panels in the text's bottom row: 50, "
        "75 and 100 % large jobs. The 0 % mix is left out.",
        *NOTES,
    ),
    derive=with_losses,
    tables=_tables,
)
