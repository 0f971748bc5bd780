"""Provisioning: throughput by how much too high requests are, and jobs that run out of memory (Fig. 8.9, 8.1)."""

from __future__ import annotations

from unrack_papers.claim import Claim, close, exceeds, together
from unrack_papers.measured import Measured
from unrack_papers.pages.figure import bars
from unrack_papers.pages.sheet import Sheet, grid, line, texts
from unrack_papers.reproduction import Place, Point
from unrack_papers.zacarias.charts import in_columns
from unrack_papers.zacarias.dynamic.systems import (
    AXIS,
    BASELINE,
    DYNAMIC,
    FAILED,
    GRIZZLY,
    GRIZZLY_NOTE,
    NOTES,
    ROWS,
    STATIC,
    SYSTEMS,
    mix,
    normalised,
    provisioned,
    rows_at,
    title,
)
from unrack_papers.zacarias.response import FoundNumber, Headline, apart, claims_of, headlines_sheet
from unrack_papers.zacarias.systems import THROUGHPUT

LARGE = 50
OVER = (0, 30, 60, 100)
GROUPS: dict[str, tuple[int | str, int]] = {
    title(jobs, over): (jobs, over) for over in OVER for jobs in (LARGE, GRIZZLY)
}
ONLY_LARGE = 100
EXTREMES: dict[str, tuple[int | str, int]] = {title(ONLY_LARGE, over): (ONLY_LARGE, over) for over in (0, 100)}
EXTREME_GROUP, EXTREME_MEMORY = title(ONLY_LARGE, 100), 50
"""The most extreme scenario, of a footnote to section 8.1: large jobs only, requests doubled, on half of the memory."""


def base(place: Place) -> Place:
    """The baseline on 100 % memory, for the same jobs, asked for what they use."""
    return title({**GROUPS, **EXTREMES}[place[0]][0], 0), 100, BASELINE


def _ahead(measured: Measured) -> FoundNumber:
    group = title(LARGE, 100)
    return apart(measured, (group, 37.5, DYNAMIC), (group, 37.5, STATIC), THROUGHPUT.label, f"{group}, 37.5 % memory")


def _kept(measured: Measured) -> FoundNumber:
    group = title(LARGE, 100)
    values = [None if one is None else 100 * one for one in measured.each((group, 37.5, DYNAMIC), THROUGHPUT.label)]
    return FoundNumber(f"{group}, 37.5 % memory", values)


def _failed(measured: Measured) -> FoundNumber:
    place = (EXTREME_GROUP, EXTREME_MEMORY, DYNAMIC)
    return FoundNumber(f"{EXTREME_GROUP}, {EXTREME_MEMORY} % memory", measured.each(place, FAILED.label))


HEADLINES = (
    Headline(
        "throughput of dynamic less that of static",
        "With requests that are doubled, on 37 % of the memory, "
        "dynamic has over 38 points more of the throughput than static (6 points less would do)",
        "§8.4.7, Fig. 8.9",
        38,
        _ahead,
        32,
        unit="points",
        sign=">",
    ),
    Headline(
        "throughput of dynamic",
        "There dynamic keeps over 80 % of the throughput",
        "§8.4.7, Fig. 8.9",
        80,
        _kept,
        80,
        sign=">",
    ),
    Headline(
        "jobs out of memory under dynamic",
        "In the most extreme scenario (large jobs only, requests doubled, "
        "half of the memory) less than 1 % of the jobs fail for lack of memory",
        "§8.1",
        1,
        _failed,
        0,
        1,
        sign="<",
        decimals=2,
    ),
)


def _tables(measured: Measured) -> tuple[Sheet, ...]:
    words = "throughput over that of the baseline on 100 % memory with exact requests"
    lines = tuple(
        line(group, f"{x}", *texts(measured, (group, x, DYNAMIC), [FAILED]))
        for group in measured.groups
        for x in measured.xs(group)
    )
    heads = ("mix", AXIS, f"{FAILED.label}, %")
    return (
        headlines_sheet(measured, HEADLINES),
        grid(measured, THROUGHPUT.label, words, ROWS),
        Sheet("jobs that were ever stopped for lack of memory under dynamic: ours ± 95 %", heads, lines, 2),
    )


SHORT = [x for x in SYSTEMS if x < 75]
REPRODUCTION = provisioned(
    name="dynamic-overestimation",
    shows="Figure 8.9",
    summary="throughput by overestimate and memory",
    setup="Half of the node-hours by large jobs (left) and Grizzly-like jobs (right), which ask for what they use (+0 "
    "%) up to twice that (+100 %), on systems of 25 to 100 % of 128 GB a node. Throughput is normalised for each seed "
    "to the baseline on 100 % memory with exact requests. Last row: large jobs only, with the scenario that the "
    "thesis calls the most extreme.",
    points=(
        *(Point(group, x, mix(*jobs), rows_at(*jobs, x)) for group, jobs in GROUPS.items() for x in SYSTEMS),
        *(
            Point(group, x, mix(*jobs), rows_at(*jobs, x))
            for group, jobs in EXTREMES.items()
            for x in (EXTREME_MEMORY, 100)
        ),
    ),
    quantities=(THROUGHPUT, FAILED),
    claims=(
        *claims_of(HEADLINES),
        Claim(
            "With exact requests static and dynamic have the same throughput on 75 % of the memory and more: within "
            "3 points",
            "§8.4.7, Fig. 8.9",
            close(THROUGHPUT.label, DYNAMIC, STATIC, [title(LARGE, 0)], [75, 100], by=0.03),
        ),
        Claim(
            "With requests that are 60 and 100 % too high dynamic has more, on systems below 75 %",
            "§8.4.7, Fig. 8.9",
            together(*(exceeds(THROUGHPUT.label, DYNAMIC, STATIC, [title(LARGE, over)], SHORT) for over in (60, 100))),
        ),
    ),
    draw=in_columns(bars(THROUGHPUT.label, "normalised throughput", ROWS, width=300), 2, SYSTEMS),
    x_title=AXIS,
    group_title="mix",
    notes=(
        "`Over 38 %` is read as points of normalised throughput, as its figure has it. The levels between +0 and +100 "
        "% are in its pictures only; ours are 30 and 60 %.",
        *NOTES,
        GRIZZLY_NOTE,
    ),
    derive=lambda values: normalised(values, base),
    tables=_tables,
)
