"""Disaggregated memory: the 1838 published jobs, what lending costs them, and what choosing lenders gains."""

from __future__ import annotations

from dataclasses import replace

from unrack_papers.claim import Claim, exceeds, lies, together
from unrack_papers.measured import Measured
from unrack_papers.options import Options
from unrack_papers.pages.bars import bars
from unrack_papers.pages.sheet import Sheet, columns
from unrack_papers.reproduction import Point, Quantity, Values
from unrack_papers.zacarias.costs import (
    BY_SHARE,
    CONTENTION,
    IDLE,
    LENDING,
    costs_lie,
    costs_sheet,
    steps,
)
from unrack_papers.zacarias.counts import HOUR
from unrack_papers.zacarias.systems import (
    BASELINE,
    DISAGGREGATED,
    OWN,
    PROFILED,
    TAKES,
    THROUGHPUT,
    lent,
    mix,
    normalised,
    ratio,
    reference,
    row,
)

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
