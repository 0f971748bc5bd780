"""GPUs in use, waits, and what a round takes on the wall (Figs. 23 to 27)."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

from unrack.policy import parse_policy
from unrack_papers.amaral.flow.chart import along, lines_over, ours, without
from unrack_papers.amaral.flow.makespan import ALL, LARGE, MAKESPAN, SIZES, SMALL, USED, WAIT
from unrack_papers.amaral.flow.worlds import PAPER, WITH, WITHOUT, numbers_of, run
from unrack_papers.amaral.scenarios import Timed
from unrack_papers.claim import Claim, exceeds, lies, together
from unrack_papers.measured import Measured
from unrack_papers.options import Options
from unrack_papers.pages.sheet import Sheet
from unrack_papers.reproduction import Numbers, Point, Quantity, Reproduction, Task, Values

MEDIAN = Quantity("median wait", "wait.50", 1, 0, "s")
LATEST = Quantity("95th percentile", "wait.95", 1, 0, "s")
LONGEST = Quantity("longest wait", "wait.100", 1, 0, "s")
BEGIN = Quantity("GPUs in use, first 300 s", "begin", 100, 1, "%")
WAITED = Quantity("wait", "waited", 1, 0, "s")
PAIR = (WITHOUT, WITH)
NAMES = [row.name for row in PAIR]
PAPER_TIMES = {SMALL: "about 2 times", LARGE: "no slower"}
"""A round with disaggregation over one without (Figs. 24 and 27)."""


class TimedRounds(Timed):
    """A stopwatch for each round in which jobs were looked at.

    Attributes
    ----------
    rounds_s
        How long each took, s.
    """

    def __init__(self, inner: Any, clock_s: Callable[[], float]) -> None:
        super().__init__(inner, clock_s)
        self.rounds_s: list[float] = []

    def decide(self, view: Any, memory: Any, now: int) -> Any:
        """The other policy's decisions."""
        before, took_s = memory.rounds, self.took_s
        found = super().decide(view, memory, now)
        if memory.rounds > before:
            self.rounds_s.append(self.took_s - took_s)
        return found


def timed(task: Task) -> list[Numbers]:
    """The numbers of each row, and what its rounds took on the wall."""
    values = []
    for row in task.rows:
        policy = TimedRounds(parse_policy(row.policy), time.perf_counter)
        values.append(numbers_of(run(task, row, policy), task.workload))
        took = sorted(policy.rounds_s) or [0.0]
        values[-1] |= {
            "round_s": sum(took) / len(took), "median_s": median(took), "late_s": took[len(took) * 95 // 100],
        }  # fmt: skip
    return values


def by_share(values: Values) -> Values:
    """Places for each time, and for each share of the jobs by wait."""
    kept = {place: tuple({**seed, **{one.metric.replace(".", "_"): seed.get(one.metric) for one in WAITS}}
                         for seed in seeds) for place, seeds in values.items()}  # fmt: skip
    return without(kept, "at", "wait", "slowdown") | along(values, "wait", "waited", NAMES, "{}, waits")


WAITS = (MEDIAN, LATEST, LONGEST)
SHOWN = tuple(one._replace(metric=one.metric.replace(".", "_")) for one in WAITS)


def _tables(measured: Measured) -> tuple[Sheet, ...]:
    return (ours(measured, (USED, BEGIN, WAIT, *SHOWN, MAKESPAN)),)


def _aside(measured: Measured) -> list[str]:
    """What a round took on the wall, which is another each time, beside the paper's ratio."""
    lines = ["Measured on this machine, another on every run, and in no file: a round of the policy on the wall, ms"]
    for group in SIZES:
        mean = {}
        for name in NAMES:
            seeds = measured.values[group, ALL, name]
            found = [sum(seed[key] or 0 for seed in seeds) / len(seeds) for key in ("round_s", "median_s", "late_s")]
            mean[name] = found[0]
            words = ", ".join(f"{what} {1e3 * one:.2f}" for what, one in
                              zip(("mean", "median", "95th percentile"), found, strict=True))  # fmt: skip
            lines.append(f"  {group}, {name}: {words}")
        ratio = mean[WITH.name] / max(mean[WITHOUT.name], 1e-9)
        lines.append(f"  {group}: with disaggregation {ratio:.2f} times; the paper {PAPER_TIMES[group]}")
    return lines


REPRODUCTION = Reproduction(
    name="flow-utilisation",
    shows="Figures 23, 26, 24 and 27",
    paper=PAPER,
    summary="GPUs in use, waits, and the time of a round",
    setup="The jobs and machines of flow-makespan. Wait is from arrival to start, in simulated time. What a round "
    "takes on the wall is another on every run, and so is printed by the command alone.",
    points=tuple(Point(group, ALL, keys, PAIR) for group, keys in SIZES.items()),
    quantities=(USED, BEGIN, WAIT, *SHOWN, MAKESPAN, WAITED),
    claims=(
        Claim("Disaggregation raises the mean utilisation of GPUs", "§5.6.2, §5.6.4",
              exceeds(USED.label, WITH.name, WITHOUT.name, [*SIZES], [ALL])),
        Claim("Jobs are placed earlier: the mean wait is shorter", "§5.6.2",
              exceeds(WAIT.label, WITHOUT.name, WITH.name, [*SIZES], [ALL])),
        Claim("On 128 machines GPUs are not all in use in the first 300 s: at most 90 %", "§5.6.4, Fig. 26",
              together(*(lies(BEGIN.label, name, [LARGE], [ALL], 0, 90) for name in NAMES))),
    ),
    draw=lines_over(WAITED.label, [f"{group}, waits" for group in SIZES],
                    "jobs, %, from the one that waits least", "wait, s", NAMES),
    x_title="jobs",
    group_title="size",
    notes=(
        "Run times and warm-up are as of flow-makespan; GPUs over time are drawn there.",
        "The paper's time of a round is of its own program, which solves with cost scaling and starts containers. Ours "
        "counts rounds in which jobs wait, in the policy alone.",
        "At 16 jobs a second and 68 s each, 512 GPUs are full after 32 s. The text has them so after 300 s.",
    ),
    defaults=Options(seeds=3),
    takes=frozenset({"seeds"}),
    solve=timed,
    derive=by_share,
    tables=_tables,
    aside=_aside,
)  # fmt: skip
