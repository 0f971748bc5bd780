"""What it costs to look at the load of the network, and what it saves (Tables 9 and 10, Figs. 28 to 31)."""

from __future__ import annotations

from math import inf
from typing import Any

from unrack import estimate
from unrack.resources.links import RODINIA, Profiles
from unrack_papers.amaral.flow.chart import along, beside, lines_over, ours, without
from unrack_papers.amaral.flow.makespan import ALL, USED, WAIT
from unrack_papers.amaral.flow.worlds import PAPER, POOL, WITH, WITHOUT, placed
from unrack_papers.claim import MORE, Check, Claim, exceeds, lies, together
from unrack_papers.measured import Measured
from unrack_papers.options import Options
from unrack_papers.pages.figure import rows_of_figures
from unrack_papers.pages.sheet import Sheet
from unrack_papers.reproduction import Numbers, Place, Point, Quantity, Reproduction, Row, Task, Values
from unrack_papers.workloads.rodinia import NETWORK_SHARES

MAKESPAN = Quantity("makespan", "makespan", 1, 2, "s", share=0.05)
SPEEDUP = Quantity("speed-up by disaggregation", "speedup", 1, 2, tolerance=0.05)
BY_AWARENESS = Quantity("speed-up by awareness", "by_awareness", 1, 2, tolerance=0.05)
LATE = Quantity("SLOs missed", "late", 100, 1, "%")
SLOWED = Quantity("mean slowdown running", "slowdown", 1, 3)
STEP = Quantity("slowdown", "step", 1, 3)
AWARE = Row("Without, aware", "flow(cost=network, remote=no)", POOL)
WITH_AWARE = Row("With, aware", "flow(cost=network)", POOL)
ROWS = (WITHOUT, WITH, AWARE, WITH_AWARE)
NAMES = [row.name for row in ROWS]
DISAGGREGATED = {WITH.name: WITHOUT.name, WITH_AWARE.name: AWARE.name}
AWARENESS = {AWARE.name: WITHOUT.name, WITH_AWARE.name: WITH.name}
SMALL, LARGE = "4 machines, 64 jobs", "128 machines, 4096 jobs"
SIZES: dict[str, dict[str, Any]] = {
    SMALL: {"machines": 4, "jobs": 64, "links": True, "step_s": 100, "until_s": 0},
    LARGE: {"machines": 128, "jobs": 4096, "links": True, "step_s": 100, "until_s": 0},
}
SENDING = {group: f"{group}, all send" for group in SIZES}
TEN = f"{SMALL}, 10 of 16 GPUs"
PRINTED: dict[str, tuple[tuple[float, ...], ...]] = {
    SMALL: ((413.08,), (261.77, 1.58), (418.83, 0.99), (300.07, 1.40, 0.87)),
    LARGE: ((1087.73,), (972.20, 1.12), (959.21, 1.13), (862.15, 1.11, 1.13)),
}
LABELS = ((MAKESPAN,), (MAKESPAN, SPEEDUP), (MAKESPAN, BY_AWARENESS), (MAKESPAN, SPEEDUP, BY_AWARENESS))
"""What the tables print of each row, in order."""


def aware(task: Task) -> list[Numbers]:
    """The numbers of each row, and how many times sooner it ends than its partners."""
    found = dict(zip([row.name for row in task.rows], placed(task), strict=True))
    for metric, partners in (("speedup", DISAGGREGATED), ("by_awareness", AWARENESS)):
        for name, partner in partners.items():
            if name in found and partner in found:
                found[name][metric] = (found[partner]["makespan"] or 0) / (found[name]["makespan"] or 1)
    return list(found.values())


def by_rank(values: Values) -> Values:
    """Places for each share of the jobs, from the one that is slowed down most."""
    return without(values, "at", "wait", "slowdown") | along(values, "slowdown", "step", NAMES, "{}, slowdown")


def most_by_awareness() -> float:
    """How many times sooner jobs can end at best if a neighbour that fills the link is never met, in place of always.

    The mean run time of all applications, which are alike in number and take alike, beside a full link.

    Examples
    --------
    >>> round(most_by_awareness(), 3)
    1.112
    """
    profiles = Profiles(RODINIA)
    return sum(map(profiles.full_factor, NETWORK_SHARES)) / len(NETWORK_SHARES)


def _tables(measured: Measured) -> tuple[Sheet, ...]:
    return beside(measured), ours(measured, (MAKESPAN, SPEEDUP, BY_AWARENESS, LATE, SLOWED, USED, WAIT))


def _at_best(_: Measured) -> list[Check]:
    best = estimate([most_by_awareness()])
    return [Check("run time beside a full link over that alone", "all applications", best, high=1.125, exact=True)]


def _printed() -> dict[Place, dict[str, float]]:
    """The paper's values by place."""
    return {
        (group, ALL, row.name): {one.label: value for one, value in zip(labels, values, strict=True)}
        for group, rows in PRINTED.items()
        for row, labels, values in zip(ROWS, LABELS, rows, strict=True)
    }


REPRODUCTION = Reproduction(
    name="flow-network",
    shows="Tables 9 and 10, Figures 28 to 31",
    paper=PAPER,
    summary="what it costs to look at network load, and what it saves",
    setup="As flow-makespan, with links of 10 Gb/s. A job whose GPU is remote claims its share of time in the network "
    "of both links, and is slower the more others claim of them, by the published profiles. The aware policy's costs "
    "are load times sensitivity, and it postpones a job up to 10 times where it would run 1.05 times as long or more.",
    points=(
        *(Point(group, ALL, keys, ROWS) for group, keys in SIZES.items()),
        Point(SENDING[SMALL], ALL, {**SIZES[SMALL], "sends": True}, ROWS),
        Point(SENDING[LARGE], ALL, {**SIZES[LARGE], "sends": True}, (WITHOUT, AWARE)),
        Point(TEN, ALL, {**SIZES[SMALL], "warm_up_cores": [18, 18, 18]}, ROWS),
    ),
    quantities=(MAKESPAN, SPEEDUP, BY_AWARENESS, LATE, SLOWED, USED, WAIT, STEP),
    claims=(
        Claim("Disaggregation is faster with awareness and without: at least 1.05 times", "Tables 9 and 10",
              together(*(lies(SPEEDUP.label, name, [*SIZES], [ALL], 1.05, inf) for name in DISAGGREGATED))),
        Claim("With 64 jobs awareness lengthens the makespan, with disaggregation (1.15 times) and without (1.01)",
              "Table 9", together(*(lies(BY_AWARENESS.label, name, [SMALL], [ALL], 0, 1 - MORE)
                                    for name in AWARENESS))),
        Claim("With 4096 jobs awareness shortens the makespan, with disaggregation and without (1.13 times each)",
              "Table 10", together(*(lies(BY_AWARENESS.label, name, [LARGE], [ALL], 1 + MORE, inf)
                                     for name in AWARENESS))),
        Claim("Awareness makes slowdowns smaller with disaggregation", "§5.6.5.1, Figs. 29 and 31",
              exceeds(SLOWED.label, WITH.name, WITH_AWARE.name, [*SIZES], [ALL])),
        Claim("Awareness makes slowdowns smaller without disaggregation", "§5.6.5.1, Figs. 29 and 31",
              exceeds(SLOWED.label, WITHOUT.name, AWARE.name, [*SIZES], [ALL])),
        Claim("Disaggregation slows more jobs down", "§5.6.5.1, Fig. 29",
              exceeds(SLOWED.label, WITH.name, WITHOUT.name, [*SIZES], [ALL])),
        Claim("With disaggregation awareness misses fewer SLOs", "this project",
              exceeds(LATE.label, WITH.name, WITH_AWARE.name, [*SIZES], [ALL])),
        Claim("No awareness can shorten run times 1.13 times: by the published profiles the mean application runs 1.11 "
              "times as long beside a full link", "this project", _at_best),
        Claim("If jobs use the network without remote GPUs, awareness misses fewer SLOs without disaggregation, too",
              "this project", exceeds(LATE.label, WITHOUT.name, AWARE.name, [*SENDING.values()], [ALL])),
    ),
    draw=rows_of_figures([
        lines_over(STEP.label, [f"{group}, slowdown" for group in groups],
                   "jobs, %, from the one that is slowed down most", "run time over the undisturbed one", NAMES)
        for groups in ((SMALL, LARGE), tuple(SENDING.values()), (TEN,))
    ]),
    x_title="jobs",
    group_title="size",
    printed=_printed(),
    notes=(
        "Run times, warm-up and makespan are as of flow-makespan: 68 s in the mean, 6 of 16 GPUs beside a free core. "
        "64 jobs in 413 s without disaggregation take 10 GPUs of jobs of 65 s, which the last panel has.",
        "Without remote GPUs these jobs send nothing, and awareness changes nothing. The text has it shorten the "
        "makespan 1.13 times all the same (1087 to 959 s), so that jobs must have met load there. In the panels called "
        "\"all send\" those that warm up send half of what a link carries, and the others their share of it wherever "
        "their GPUs are: a guess, in round numbers. It does not explain the speed-up.",
        "Nor could other loads: if every job of the unaware policy ran beside a full link and none of the aware one, "
        "run times by the published profiles would be 1.11 times as long.",
        "Awareness does little here, as jobs wait nearly all the time: a GPU that becomes free is the only one, and "
        "there is nothing to choose but who gets it. A job is postponed at most 10 times, with rounds of a second "
        "10 s, and at loads of up to a half only nw can miss its SLO. The text's 38 s more for 64 jobs would take "
        "longer rounds.",
        "The traces behind the paper's slowdowns are not published. Ours grow in a straight line with load.",
        "The paper's makespans without awareness in Table 10 are those of Figure 26, to the digit: there, network load "
        "slowed nobody down.",
        "Costs see the load before a round, not what the round itself adds, and not what a job does to its neighbours.",
        "Speed-ups are of the same jobs, seed by seed.",
    ),
    defaults=Options(seeds=3),
    takes=frozenset({"seeds"}),
    solve=aware,
    derive=by_rank,
    tables=_tables,
)  # fmt: skip
