"""Provisioning: throughput on six systems, for requests that are exact and 60 % too high (Fig. 8.3, section 8.4.1)."""

from __future__ import annotations

import math
from collections.abc import Iterable

from unrack_papers.claim import Check, Checks, Claim, exceeds, lies, together
from unrack_papers.measured import Measured
from unrack_papers.pages.figure import bars
from unrack_papers.pages.sheet import Sheet, grid
from unrack_papers.reproduction import Place, Point, X
from unrack_papers.zacarias.charts import in_columns
from unrack_papers.zacarias.dynamic.systems import (
    AXIS,
    BASELINE,
    DYNAMIC,
    GRIZZLY,
    GRIZZLY_NOTE,
    MIXES,
    NOTES,
    ROWS,
    STATIC,
    SYSTEMS,
    large_nodes,
    mix,
    normalised,
    provisioned,
    rows_at,
    runs,
    title,
)
from unrack_papers.zacarias.response import FoundNumber, Headline, claims_of, gained, greatest, headlines_sheet
from unrack_papers.zacarias.systems import THROUGHPUT

OVER = (0, 60)
ALL_MIXES = (*MIXES, GRIZZLY)
GROUPS = {title(large, over): (large, over) for large in ALL_MIXES for over in OVER}


def base(place: Place) -> Place:
    """The baseline on 100 % memory, for the same jobs, asked for what they use."""
    return title(GROUPS[place[0]][0], 0), 100, BASELINE


def gain(measured: Measured, group: str, x: X) -> FoundNumber:
    """How much more throughput dynamic has than static, %."""
    return gained(measured, (group, x, DYNAMIC), (group, x, STATIC), THROUGHPUT.label, f"{group}, {x} % memory")


def _greatest_gain(measured: Measured) -> FoundNumber:
    return greatest(gain(measured, title(large, 0), x) for large in MIXES for x in SYSTEMS)


def _short_of_memory(measured: Measured) -> FoundNumber:
    place = (title(15, 60), 25, DYNAMIC)
    values = [None if one is None else 100 * one for one in measured.each(place, THROUGHPUT.label)]
    return FoundNumber(f"{place[0]}, 25 % memory", values)


HEADLINES = (
    Headline(
        "dynamic over static, at most, +0 %",
        "With exact requests dynamic has up to 12 % more throughput than static (within 4 points)",
        "§8.4.1, Fig. 8.3",
        12,
        _greatest_gain,
        8,
        16,
    ),
    Headline(
        "dynamic over static",
        "With 15 % large jobs that ask 60 % too much, on 25 % of the memory, dynamic has "
        "18 % more throughput than static (within 6 points)",
        "§8.4.1, Fig. 8.3",
        18,
        lambda measured: gain(measured, title(15, 60), 25),
        12,
        24,
    ),
    Headline(
        "throughput of dynamic",
        "Its throughput there is over 95 %",
        "§8.4.1, Fig. 8.3",
        95,
        _short_of_memory,
        95,
        sign=">",
    ),
)


def _no_loss(by: float) -> Checks:
    """Where no job is large, both policies need 25 % of the memory only."""
    return together(
        *(lies(THROUGHPUT.label, name, [title(0, 0)], [25], 1 - by, math.inf) for name in (STATIC, DYNAMIC))
    )


def _short(over: int, more: str, less: str) -> Checks:
    """Where large nodes are fewer than large jobs, one policy has more than another."""
    several = []
    for large in MIXES:
        xs = [x for x in SYSTEMS if large_nodes(x) < large and (less != BASELINE or runs(large, over, x))]
        several.append(exceeds(THROUGHPUT.label, more, less, [title(large, over)], xs))
    return together(*several)


def _grows(measured: Measured) -> Iterable[Check]:
    """On 25 % of the memory the gain is greater if requests are 60 % too high, for every mix."""
    for large in MIXES:
        more, less = (gain(measured, title(large, over), 25) for over in (60, 0))
        pairs = zip(more.values, less.values, strict=False)
        values = [None if a is None or b is None else a - b for a, b in pairs]
        found = FoundNumber(f"{large} % large jobs", values).mean
        yield Check(
            "gain of dynamic over static at +60 % less that at +0 %, 25 % memory",
            f"{large} % large jobs",
            found,
            0.0,
            math.inf,
            "points",
        )


CLAIMS = (
    *claims_of(HEADLINES),
    Claim(
        "Without large jobs 25 % of the memory are enough for either policy: at most 2 % of the throughput is lost",
        "§8.4.1, Fig. 8.3",
        _no_loss(0.02),
    ),
    Claim(
        "Where large nodes are too few for the large jobs, static has more throughput than the baseline",
        "§8.4.1, Fig. 8.3",
        _short(0, STATIC, BASELINE),
    ),
    Claim(
        "With requests 60 % too high dynamic has more throughput than static wherever large nodes are too few",
        "§8.4.1, Fig. 8.3",
        _short(60, DYNAMIC, STATIC),
    ),
    Claim("Where memory is short dynamic gains more if requests are too high", "§8.4.1, Fig. 8.3", _grows),
)


def _tables(measured: Measured) -> tuple[Sheet, ...]:
    words = "throughput over that of the baseline on 100 % memory with exact requests"
    return headlines_sheet(measured, HEADLINES), grid(measured, THROUGHPUT.label, words, ROWS)


REPRODUCTION = provisioned(
    name="dynamic-throughput",
    shows="Figure 8.3",
    summary="throughput of six mixes and Grizzly-like jobs, by memory",
    setup="1024 nodes of 32 cores (1490 for Grizzly-like jobs) with 25 to 100 % of 128 GB a node; jobs take whole "
    "nodes, and large ones, which need more than 64 GB a node, do 0 to 100 % of the node-hours. Left: jobs ask for "
    "the most that they will use; right: for 60 % more. Throughput is jobs finished over the makespan, normalised for "
    "each mix and seed to the baseline on 100 % memory with exact requests. The baseline runs only where nodes are "
    "large enough for every request: its other bars are missing, and so are all at +60 %.",
    points=tuple(Point(group, x, mix(*jobs), rows_at(*jobs, x)) for group, jobs in GROUPS.items() for x in SYSTEMS),
    quantities=(THROUGHPUT,),
    claims=CLAIMS,
    draw=in_columns(bars(THROUGHPUT.label, "normalised throughput", ROWS, width=300), 2, SYSTEMS),
    x_title=AXIS,
    group_title="mix",
    notes=(*NOTES, GRIZZLY_NOTE),
    derive=lambda values: normalised(values, base),
    tables=_tables,
)
