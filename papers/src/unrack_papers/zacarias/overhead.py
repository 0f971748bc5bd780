"""Disaggregated memory: the work of scheduling (Fig. 6.10, section 6.3.6)."""

from __future__ import annotations

import math
import time

from unrack import Result
from unrack.study import Run, simulated
from unrack_papers.claim import Claim, changes, exceeds
from unrack_papers.measured import Measured
from unrack_papers.pages.figure import bars
from unrack_papers.pages.sheet import Sheet, grid
from unrack_papers.reproduction import Numbers, Point, Quantity, Values
from unrack_papers.zacarias.counts import jobs_with_memory
from unrack_papers.zacarias.systems import BASELINE, DISAGGREGATED, NOTES, SHARES, lent, mean, mix, row
from unrack_papers.zacarias.throughput import title

ATTEMPTS = Quantity("attempts a job", "attempts", 1, 1)
ALL = "all mixes"
SYSTEMS = tuple(share for share in SHARES if share)
"""Systems on which the baseline runs every mix."""


_timed: set[str] = set()
"""Policies that this process has run."""


def with_time(run: Run, result: Result, took_s: float) -> Numbers:
    """Counts of jobs with memory, and ``wall_s``; the first run of a policy in a process is timed again."""
    if run.policy.name not in _timed:
        _timed.add(run.policy.name)
        began = time.perf_counter()
        simulated(run)
        took_s = time.perf_counter() - began
    return {**jobs_with_memory(run, result, took_s), "wall_s": took_s}


def with_means(values: Values) -> Values:
    """A panel more: the mean over the mixes."""
    found = dict(values)
    for nodes in SYSTEMS:
        for name in (BASELINE, DISAGGREGATED):
            own = [values[title(jobs), nodes, name] for jobs in SHARES if (title(jobs), nodes, name) in values]
            found[ALL, nodes, name] = tuple(
                {key: mean(seed.get(key) for seed in seeds) for key in ("attempts", "wall_s")}
                for seeds in zip(*own, strict=True)
            )
    return found


def _aside(measured: Measured) -> list[str]:
    """The time on the wall, which is another on every run."""
    lines = ["Time of this run on the wall, which is another each time; simulating included, not only scheduling:"]
    for nodes in SYSTEMS:
        seeds = {name: measured.values.get((ALL, nodes, name), ()) for name in (BASELINE, DISAGGREGATED)}
        took = {name: [seed.get("wall_s") or 0.0 for seed in own] for name, own in seeds.items()}
        base, own = (1000 * sum(took[name]) / max(len(took[name]), 1) for name in (BASELINE, DISAGGREGATED))
        if base > 0 and own > 0:
            jobs = measured.options.jobs
            lines.append(
                f"  {nodes} % large nodes: {BASELINE} {base / jobs:.3f} ms a job, {DISAGGREGATED} {own / jobs:.3f}; "
                f"{BASELINE} / {DISAGGREGATED} = {base / own:.2f}"
            )
    return lines


def _tables(measured: Measured) -> tuple[Sheet, ...]:
    return (grid(measured, ATTEMPTS.label, "attempts to place a job, a job"),)


REPRODUCTION = lent(
    name="memory-overhead",
    shows="Figure 6.10",
    summary="work of the scheduler for each job: attempts to place it",
    setup="Every mix on the systems with large nodes. Counted are attempts: every 30 s the scheduler looks at the "
    "first 100 jobs that wait. The thesis measures seconds and explains them `almost completely` by attempts. Time on "
    "the wall is another on every run, and so is printed by the command alone, as a ratio.",
    points=tuple(
        Point(title(jobs), nodes, mix(jobs), (row(BASELINE, nodes), row(DISAGGREGATED, nodes)))
        for jobs in SHARES
        for nodes in SYSTEMS
    ),
    quantities=(ATTEMPTS,),
    claims=(
        Claim("The baseline's work falls as there are more large nodes: from 15 to 100 %, mean over the mixes",
              "§6.3.6, Fig. 6.10", changes(ATTEMPTS.label, BASELINE, [ALL], 15, 100, -math.inf, -1e-9)),
        Claim("Where memory is short (15, 25 % large nodes) the disaggregated policy has less work than the baseline",
              "§6.3.6, Fig. 6.10", exceeds(ATTEMPTS.label, BASELINE, DISAGGREGATED, [ALL], [15, 25])),
    ),
    draw=bars(ATTEMPTS.label, "attempts a job"),
    x_title="large nodes, %",
    group_title="mix",
    measure=with_time,
    notes=NOTES,
    derive=with_means,
    tables=_tables,
    aside=_aside,
)  # fmt: skip
