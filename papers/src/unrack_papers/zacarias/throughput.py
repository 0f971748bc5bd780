"""Disaggregated memory: throughput on six systems, and the memory that can be saved (Fig. 6.4, section 6.3.1)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from unrack_papers.claim import Check, Checks, Claim, close, exceeds, lies, together
from unrack_papers.measured import Measured, known_within
from unrack_papers.pages.figure import bars
from unrack_papers.pages.sheet import Sheet, grid, line, texts
from unrack_papers.reproduction import Numbers, Place, Point, Quantity, Values
from unrack_papers.verdict import SIGNS
from unrack_papers.within import Value, Within
from unrack_papers.zacarias.published import CROWDED, IDLE, LENDING, costs_lie, costs_sheet, steps
from unrack_papers.zacarias.systems import (
    BASELINE,
    DISAGGREGATED,
    NOTES,
    SHARES,
    THROUGHPUT,
    Scenario,
    lent,
    mix,
    normalised,
    row,
    runs,
)

ROWS = (BASELINE, DISAGGREGATED)
ENOUGH = 0.95
"""Throughput that counts as enough: at most 5 % lost."""
EVERYWHERE = "all systems"
PAPER_SAVED = {15: 14.0, 25: 20.0, 50: 33.0, 75: 15.0}
"""Mix → memory saved at 5 % lost throughput, %."""
SAVED = Quantity("memory saved", "saved", 100, 1, "%", tolerance=3, steps=True)
NEEDED = tuple(Quantity(f"{name} needs", f"least.{name}", 100, 0, "%") for name in (BASELINE, DISAGGREGATED))
BETWEEN = Quantity("memory saved, interpolated", "saved.between", 100, 1, "%")


def title(large_jobs: int) -> str:
    """The panel of a mix."""
    return f"{large_jobs} % large jobs"


STEPS = ((title(50), 0), (title(50), 25), (title(50), 50))
"""Where the cost of lending is taken apart: the mix of the headline, on systems of no to enough large nodes."""


def points() -> tuple[Point, ...]:
    """Every mix on every system, under the baseline where it can run the mix, and under the disaggregated policy."""
    return tuple(
        Point(
            title(jobs),
            nodes,
            mix(jobs),
            (*(row(name, nodes) for name in (BASELINE, DISAGGREGATED)
               if name != BASELINE or runs(Scenario(jobs, nodes))),
             *(steps(nodes) if (title(jobs), nodes) in STEPS else ())),
        )
        for jobs in SHARES
        for nodes in SHARES
    )  # fmt: skip


def least_share(throughput: Mapping[float, float | None]) -> tuple[float | None, float | None]:
    """The least share of large nodes that is enough, going down from the system of the greatest.

    Parameters
    ----------
    throughput
        Large nodes of a system, % → its throughput over that of the baseline on large nodes only; ``None``: it cannot
        run the mix.

    Returns
    -------
    tuple
        Of the systems that there are; and between them, where a straight line crosses 0.95. ``None``: not even the
        greatest is enough.

    Examples
    --------
    >>> least_share({0: 0.85, 50: 0.95, 100: 1.0})
    (0.5, 0.5)
    >>> least_share({0: None, 50: 0.75, 100: 1.15})
    (1.0, 0.75)
    """
    least: float | None = None
    for share in sorted(throughput, reverse=True):
        here = throughput[share]
        if here is None or here < ENOUGH:
            if least is None:
                return None, None
            above = throughput[least]
            if here is None or above is None:
                return least / 100, least / 100
            return least / 100, (share + (least - share) * (ENOUGH - here) / (above - here)) / 100
        least = share
    return (None, None) if least is None else (least / 100, least / 100)


def of_the_tried(share: float | None, least: float, most: float, nothing: float = 0.0) -> Value:
    """What is needed of what was tried: above the most if ``None`` was enough, at most the least if that was.

    Parameters
    ----------
    share
        As of :func:`least_share`.
    least, most
        Of what was tried.
    nothing
        What would be no memory at all.

    Examples
    --------
    >>> of_the_tried(0.5, 0.25, 1.0), of_the_tried(None, 0.25, 1.0)
    (0.5, Within(shown=1.0, low=1.0, high=inf))
    """
    if share is None:
        return Within(most, most, math.inf)
    return Within(least, nothing, least) if share <= least else share


def with_savings(values: Values) -> Values:
    """Throughput normalised, and for each mix a place of its own with the memory that can be saved."""
    found = normalised(values)
    for jobs in SHARES[1:]:
        place: Place = (title(jobs), EVERYWHERE, DISAGGREGATED)
        count = len(found.get((title(jobs), 100, BASELINE), ()))
        found[place] = tuple(_savings(found, title(jobs), i) for i in range(count))
    return found


def _savings(values: Values, group: str, seed: int) -> Numbers:
    least: dict[str, tuple[Value, Value]] = {}
    for name in (BASELINE, DISAGGREGATED):
        throughput: dict[float, float | None] = {
            nodes: values[group, nodes, name][seed].get(THROUGHPUT.metric) if (group, nodes, name) in values else None
            for nodes in SHARES
        }
        whole, between = (
            of_the_tried(share, SHARES[0] / 100, SHARES[-1] / 100, -1.0) for share in least_share(throughput)
        )
        least[name] = whole, between
    numbers: Numbers = {}
    for name, (share, _) in least.items():
        numbers |= known_within(f"least.{name}", share)
    for key, i in (("saved", 0), ("saved.between", 1)):
        numbers |= known_within(key, 1 - (1 + least[DISAGGREGATED][i]) / (1 + least[BASELINE][i]))
    return numbers


def saves(by: float) -> Checks:
    """Memory saved for each mix is at least the thesis's figure less ``by`` points."""

    def checks(measured: Measured) -> Iterable[Check]:
        for jobs, paper in PAPER_SAVED.items():
            value = measured.at((title(jobs), EVERYWHERE, DISAGGREGATED), SAVED.label)
            where = f"{title(jobs)} ({paper:.0f} %)"
            yield Check(SAVED.label, where, value, paper - by, math.inf, SAVED.unit, steps=SAVED.steps)

    return checks


def _tables(measured: Measured) -> tuple[Sheet, ...]:
    lines = []
    for jobs in SHARES[1:]:
        place: Place = (title(jobs), EVERYWHERE, DISAGGREGATED)
        found = measured.compared(place, SAVED.label)
        sign = "" if found.verdict is None else f" {SIGNS[found.verdict]}"
        paper = "–" if found.paper is None else f"{found.paper:.0f}{sign}"
        needed, saved = texts(measured, place, NEEDED), texts(measured, place, (SAVED, BETWEEN))
        lines.append(line(title(jobs), *needed, paper, *saved))
    heads = ("mix", "large nodes, %\nBaseline", "large nodes, %\nDisaggregated", "memory saved, %\nthe thesis's",
             "memory saved, %\nours", "memory saved, %\ninterpolated")  # fmt: skip
    words = "least system that keeps 95 % of the throughput of large nodes only, and the memory it saves: ours ± 95 %"
    return (
        grid(measured, THROUGHPUT.label, "throughput over that of the baseline where all nodes are large", ROWS),
        Sheet(words, heads, tuple(lines), 1),
        costs_sheet(measured, STEPS, lambda group, x: f"{group} on {x} % large nodes"),
    )


def _each(check: str, low: float = 0.0, high: float = 0.0) -> Checks:
    """A check at the systems of every mix that are enough (``more``), or too few, for the baseline."""
    several = []
    for jobs in SHARES:
        enough = [nodes for nodes in SHARES if nodes >= jobs and runs(Scenario(jobs, nodes))]
        short = [nodes for nodes in SHARES if 0 < nodes < jobs]
        group = [title(jobs)]
        if check == "close":
            several.append(close(THROUGHPUT.label, BASELINE, DISAGGREGATED, group, enough, by=high))
        elif check == "exceeds":
            several.append(exceeds(THROUGHPUT.label, DISAGGREGATED, BASELINE, group, short))
        else:
            several.append(lies(THROUGHPUT.label, BASELINE, group, enough if low else short, low, high))
    return together(*several)


CLAIMS = (
    Claim("Where large nodes match the large jobs or exceed them, the baseline's throughput is high: 0.95 or more",
          "§6.3.1, Fig. 6.4", _each("lies", 0.95, math.inf)),
    Claim("Where there are fewer, it falls substantially: below 0.9", "§6.3.1, Fig. 6.4", _each("lies", 0, 0.9)),
    Claim("Where large nodes match the large jobs or exceed them, the disaggregated policy has the baseline's "
          "throughput: within 0.02", "§6.3.1, Fig. 6.4", _each("close", high=0.02)),
    Claim("Where there are fewer, it has more than the baseline", "§6.3.1, Fig. 6.4", _each("exceeds")),
    Claim("With 50 % large jobs it loses 5 % without any large node (within 3 points): a third less memory than the "
          "baseline needs", "§6.3.1, Fig. 6.4", lies(THROUGHPUT.label, DISAGGREGATED, [title(50)], [0], 0.92, 0.98)),
    Claim("At 5 % lost throughput it saves 14, 20, 33 and 15 % of the memory with 15, 25, 50 and 75 % large jobs, or "
          "more (within 3 points)", "§6.3.1", saves(by=3)),
    Claim("With 50 % large jobs and no large node, most of what is lost are cores of lenders that do not compute: "
          "more than 10 points; borrowing by itself costs at most 2", "this project",
          together(costs_lie(STEPS[:1], IDLE, 10), costs_lie(STEPS[:1], LENDING, -2, 2))),
    Claim("That lenders compute or not hardly matters because two effects cancel: the cores that are gained, and more "
          "than 10 points lost to contention", "this project", costs_lie(STEPS[:1], CROWDED, 10)),
)  # fmt: skip

REPRODUCTION = lent(
    name="memory-throughput",
    shows="Figure 6.4",
    summary="throughput of six mixes on six systems, and the memory saved",
    setup="1024 nodes of 32 cores, of which 0 to 100 % have 64 GB and the others 32 GB; jobs take whole nodes, and "
    "large ones, which need more than 32 GB a node, do 0 to 100 % of the node-hours. Throughput is jobs finished over "
    "the makespan, normalised for each mix and seed to the baseline where all nodes are large. Without large nodes the "
    "baseline cannot run large jobs: those bars are missing.",
    points=points(),
    quantities=(THROUGHPUT, SAVED, BETWEEN, *NEEDED),
    claims=CLAIMS,
    draw=bars(THROUGHPUT.label, "normalised throughput", ROWS),
    x_title="large nodes, %",
    group_title="mix",
    printed={(title(jobs), EVERYWHERE, DISAGGREGATED): {SAVED.label: paper} for jobs, paper in PAPER_SAVED.items()},
    notes=(
        "The thesis's savings are steps between its six systems: 1 − 1/1.15 = 13 %, 1 − 1/1.25 = 20 % and 1 − 1/1.5 = "
        "33 % are no large node in place of 15, 25 and 50 %, and 1 − 1.5/1.75 = 14 % is 50 % in place of 75 %.",
        *NOTES,
    ),
    derive=with_savings,
    tables=_tables,
)  # fmt: skip
