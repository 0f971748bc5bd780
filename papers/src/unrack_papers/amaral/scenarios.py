"""Many training jobs on several machines: slowdown by policy, and what a decision costs (Figs. 19 and 20).

What backfill adds to placements on machines with several GPUs, which nobody has published.

A policy around another one, which takes the time that its decisions take.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from unrack import Workload, simulate
from unrack.policy import parse_policy
from unrack.workload import jitter
from unrack_papers.amaral.chart import ranked
from unrack_papers.amaral.machines import (
    AWARE,
    BEST_FIT,
    FCFS,
    GPUS,
    NAMES,
    OF_THE_TEXT,
    OWN_ROWS,
    PAPER,
    POSTPONING,
    ROWS,
    RUNNING,
    STEPS,
    UTILITY,
    WAITING,
    minsky,
    numbers_of,
)
from unrack_papers.amaral.times import networks_of, profiles_of, times_file
from unrack_papers.claim import Check, Claim, exceeds, lies, together
from unrack_papers.measured import Measured
from unrack_papers.options import Options
from unrack_papers.pages.figure import bars
from unrack_papers.pages.sheet import Sheet, line, named, texts
from unrack_papers.reproduction import Numbers, Point, Quantity, Reproduction, Row, Task, Values, X
from unrack_papers.simulation import JITTER_US
from unrack_papers.workloads.training import generate_training, read_minsky


class Timed:
    """The same policy, with a stopwatch.

    Attributes
    ----------
    asked
        How often it was asked to decide.
    took_s
        How long that took in all, s.
    """

    def __init__(self, inner: Any, clock_s: Callable[[], float]) -> None:
        self._inner, self._clock_s = inner, clock_s
        self.asked, self.took_s = 0, 0.0

    def __getattr__(self, member: str) -> Any:
        """All else is the other policy's."""
        if member.startswith("__") or member == "_inner":
            raise AttributeError(member)
        return getattr(self._inner, member)

    def decide(self, view: Any, memory: Any, now: int) -> Any:
        """The other policy's decisions."""
        began = self._clock_s()
        found = self._inner.decide(view, memory, now)
        self.took_s += self._clock_s() - began
        self.asked += 1
        return found


PER_HOUR = 600
"""Arrivals: ten a minute."""
LARGE, LARGE_JOBS = 1000, 10_000
"""Machines and jobs of scenario 2."""
SLOWED = Quantity("mean slowdown running", f"{RUNNING}.mean", 1, 3)
HURT = Quantity("jobs slowed down", f"{RUNNING}.slowed", 100, 1, "%")
WAITED = Quantity("mean slowdown with waiting", f"{WAITING}.mean", 1, 2)
WAIT = Quantity("mean wait", "wait_s_mean", 1 / 60, 1, "min")
BELOW = Quantity("SLO violations", "below_min_utility", 1, 1)
USED = Quantity("GPUs in use", "used_gpus", 100, 1, "%")
ACROSS = Quantity("across sockets", "gpus_across_sockets", 100, 1, "%")
SLOWDOWN = Quantity("slowdown", "slowdown", 1, 3)
MADE = (SLOWED, HURT, WAITED, WAIT, BELOW, USED, ACROSS)
PAPER_DECISION_S = {BEST_FIT.name: 0.44, FCFS.name: 0.45, AWARE.name: 3.0, POSTPONING.name: 3.0}


def jobs_of(keys: Mapping[str, Any], seed: int) -> Workload:
    """Drawn jobs, or those of a list; with seed 0 as they are, else with arrivals moved."""
    times = keys.get("times")
    with times_file(times) as path:
        if "trace" in keys:
            return jitter(read_minsky(keys["trace"], profiles=path), JITTER_US if seed else 0, seed)
        rate = PER_HOUR * machines_of(keys) / LARGE if keys.get("scaled") else PER_HOUR
        spec = {
            "training_jobs": int(keys["jobs"]),
            "arrivals": {"kind": "poisson", "rate_per_h": rate},
            "networks": networks_of(times),
            "profiles": path,
        }
        return generate_training(spec, seed)


def machines_of(keys: Mapping[str, Any]) -> int:
    """How many machines: so many, or one for every ten jobs."""
    return int(keys["machines"]) if "machines" in keys else max(1, round(int(keys["jobs"]) * LARGE / LARGE_JOBS))


def scheduled(task: Task) -> list[Numbers]:
    """The numbers of each row, and what its decisions took on the wall."""
    cluster = minsky(machines_of(task.workload), profiles_of(task.workload.get("times")))
    workload, values = jobs_of(task.workload, task.seed), []
    for row in task.rows:
        policy = Timed(parse_policy(row.policy), time.perf_counter)
        values.append(numbers_of(simulate(cluster, workload, policy, seed=task.seed)))
        values[-1] |= {
            "decisions": float(policy.asked),
            "deciding_s": policy.took_s,
            "tried": float(len(workload.jobs)),
        }
    return values


def by_rank(values: Values) -> Values:
    """Places more: the slowdown at each step from the job that is slowed down most, alone and with waiting."""
    found: Values = {}
    for place, seeds in values.items():
        found[place] = tuple({key: value for key, value in seed.items() if not _stepped(key)} for seed in seeds)
        for kind in (RUNNING, WAITING):
            for step in STEPS:
                found[kind, step, place[2]] = tuple({"slowdown": seed.get(f"{kind}.{step}")} for seed in seeds)
    return found


def _stepped(key: str) -> bool:
    kind, _, step = key.partition(".")
    return kind in (RUNNING, WAITING) and step.isdigit()


def _aside(group: str, x: X, measured: Measured) -> list[str]:
    """What a decision took on the wall, beside the paper's."""
    lines = ["Time of this run on the wall, which is another each time, in the policy, for each job that was placed:"]
    took = {}
    for row in measured.rows(group):
        seeds = measured.values[group, x, row.name]
        took[row.name] = sum(seed["deciding_s"] or 0 for seed in seeds) / sum(seed["tried"] or 1 for seed in seeds)
    for name, own in took.items():
        ratio = own / took[FCFS.name]
        paper = PAPER_DECISION_S.get(name)
        words = f"; the paper {paper:g} s, {paper / PAPER_DECISION_S[FCFS.name]:.1f} times FCFS" if paper else ""
        lines.append(f"  {name}: {own * 1e3:.3f} ms, {ratio:.1f} times FCFS{words}")
    return lines


def tables(quantities: tuple[Quantity, ...], measured: Measured) -> tuple[Sheet, ...]:
    """A line a panel, place and row that was run."""
    lines = [
        line(point.group, str(point.x), named(row), *texts(measured, (point.group, point.x, row.name), quantities))
        for point in measured.reproduction.points
        for row in point.rows
    ]
    units = [f"{one.label}\n{one.unit}" if one.unit else one.label for one in quantities]
    heads = (measured.reproduction.group_title, measured.reproduction.x_title, "", *units)
    return (Sheet("ours ± 95 %", heads, tuple(lines), 3),)


def _violating(measured: Measured, group: str, x: X) -> Iterable[Check]:
    for row in (BEST_FIT, FCFS, AWARE):
        yield Check("SLO violations", row.name, measured.at((group, x, row.name), BELOW.label), 1)


def _tables_note(scaled: bool) -> str:
    return (
        "The text has ten arrivals a minute for 1000 machines. With fewer machines they are as much fewer: one "
        "machine for every ten jobs, and the load of the text's 1000." if scaled else
        "Jobs arrive ten a minute, as in the text: far more than five machines serve, so that the queue grows until "
        "the last arrival."
    )  # fmt: skip


DRAWN = (
    "The text gives no parameters of its binomial distributions, no shares of numbers of GPUs and no bounds of the "
    "least utilities: 0.5; 1, 2 and 4 alike; 0.3 to 0.5 evenly. --trace takes a list of jobs in place of drawn ones."
)
EXCLUSIVE = (
    "Waits are not to be compared with those of the authors' program, such as a mean of 716 s for 1000 jobs "
    "on 20 machines: it gives GPUs to several jobs at once (of the 100 jobs, 11 pairs overlap on a GPU), and "
    "so serves more than the machines hold. Here a GPU has one job. So held, 1000 jobs drawn from the "
    "authors' 100, one every 1.2 s on average, wait on 20 machines for 891 ± 63 s under BF, 845 ± 50 s under "
    "FCFS, 810 ± 65 s under TOPO-AWARE and 570 ± 53 s under TOPO-AWARE-P (five draws, measured times); the "
    "authors' own list of 1000 was not at hand."
)
FIRST, FIRST_X = "5 machines", "all jobs"
SECOND, SECOND_X = "a machine for every ten jobs", "all jobs"
placed = partial(
    Reproduction,
    paper=f"{PAPER}, section 4.4",
    group_title="",
    solve=scheduled,
    derive=by_rank,
    tables=partial(tables, MADE),
    quantities=(*MADE, SLOWDOWN),
    draw=ranked(
        SLOWDOWN.label, [RUNNING, WAITING], "jobs, %, from the one that is slowed down most", "slowdown", NAMES
    ),
)
SCENARIO_1 = placed(
    name="gpu-scenario1",
    shows="Figure 19",
    summary="100 training jobs on 5 machines: slowdown with and without waiting, and violated SLOs",
    setup="100 jobs arrive, ten a minute, at five machines of two sockets with two GPUs each. Slowdown is over the run "
    "time at the best place; an SLO is violated where a job starts at a place of less utility than it asks for.",
    points=(Point(FIRST, FIRST_X, {"machines": 5}, ROWS),),
    claims=(
        Claim("TOPO-AWARE-P violates no SLO", "§4.4.2.1",
              lies(BELOW.label, POSTPONING.name, [FIRST], [FIRST_X], 0, 0)),
        Claim("The others violate some", "§4.4.2.1", partial(_violating, group=FIRST, x=FIRST_X)),
        Claim("Without waiting TOPO-AWARE-P slows jobs down least", "§4.4.2.1, Fig. 19a",
              together(*(exceeds(SLOWED.label, row.name, POSTPONING.name, [FIRST], [FIRST_X])
                         for row in (BEST_FIT, FCFS, AWARE)))),
        Claim("FCFS slows down more jobs than BF and TOPO-AWARE", "§4.4.2.1, Fig. 19a",
              together(*(exceeds(HURT.label, FCFS.name, row.name, [FIRST], [FIRST_X]) for row in (BEST_FIT, AWARE)))),
        Claim("With waiting TOPO-AWARE and TOPO-AWARE-P both outperform BF and FCFS", "§4.4.2.1, Fig. 19b",
              together(*(exceeds(WAITED.label, greedy.name, own.name, [FIRST], [FIRST_X])
                         for greedy in (BEST_FIT, FCFS) for own in (AWARE, POSTPONING)))),
        Claim("With waiting TOPO-AWARE-P is better than TOPO-AWARE", "§4.4.2.1, Fig. 19b",
              exceeds(WAITED.label, AWARE.name, POSTPONING.name, [FIRST], [FIRST_X])),
    ),
    x_title="",
    notes=(_tables_note(False), EXCLUSIVE, DRAWN, OF_THE_TEXT, UTILITY, OWN_ROWS),
    defaults=Options(seeds=10, jobs=100),
    takes=frozenset({"seeds", "jobs", "times", "trace"}),
)  # fmt: skip
SCENARIO_2 = placed(
    name="gpu-scenario2",
    shows="Figure 20 and section 4.4.2.3",
    summary="10 000 training jobs on 1000 machines, or fewer on fewer: slowdown, and the time of a decision",
    setup="Jobs arrive at machines of two sockets with two GPUs each, one machine for every ten jobs: with "
    "--workload-jobs 10000 the text's 1000 machines. Time on the wall is another on every run, and so is printed by "
    "the command alone, beside the paper's: that spent in the policy, over the number of jobs that it placed.",
    points=(Point(SECOND, SECOND_X, {"scaled": True}, ROWS),),
    claims=(
        Claim("FCFS slows jobs down most, then BF: both more than TOPO-AWARE", "§4.4.2.2, Fig. 20",
              together(exceeds(SLOWED.label, FCFS.name, BEST_FIT.name, [SECOND], [SECOND_X]),
                       exceeds(SLOWED.label, BEST_FIT.name, AWARE.name, [SECOND], [SECOND_X]))),
        Claim("TOPO-AWARE-P slows jobs down less than either", "§4.4.2.2, Fig. 20",
              together(*(exceeds(SLOWED.label, row.name, POSTPONING.name, [SECOND], [SECOND_X])
                         for row in (BEST_FIT, FCFS)))),
        Claim("With waiting both are ahead of BF and FCFS", "§4.4.2.2, Fig. 20",
              together(*(exceeds(WAITED.label, greedy.name, own.name, [SECOND], [SECOND_X])
                         for greedy in (BEST_FIT, FCFS) for own in (AWARE, POSTPONING)))),
        Claim("TOPO-AWARE-P violates no SLO", "§4.4.2.2",
              lies(BELOW.label, POSTPONING.name, [SECOND], [SECOND_X], 0, 0)),
    ),
    x_title="",
    notes=(_tables_note(True), DRAWN, OF_THE_TEXT, UTILITY, OWN_ROWS,
           "The text's seconds are of its own program, and it does not say what one decision covers."),
    defaults=Options(seeds=3, jobs=1000),
    takes=frozenset({"seeds", "jobs", "times"}),
    aside=partial(_aside, SECOND, SECOND_X),
)  # fmt: skip


SCHEDULERS = {"FCFS": "fcfs", "EASY": "easy", "Conservative": "conservative", "Slurm-like": "slurm"}
PLACEMENTS = {"nearest": "nearest free GPUs", "drb": "bi-partitioning", "topology": "greatest utility"}
MACHINES = (5, 10, 20)
RESPONSE = Quantity("mean response", "response_s_mean", 1 / 60, 1, "min")
BOUNDED = Quantity("mean bounded slowdown", "bounded_slowdown_mean", 1, 1)
LAST = Quantity("makespan", "makespan_s", 1 / 3600, 2, "h")


def rows(placement: str) -> tuple[Row, ...]:
    """Every scheduler with a placement."""
    return tuple(
        Row(name, f"{scheduler}(gpus={placement})", "minsky", printed=False) for name, scheduler in SCHEDULERS.items()
    )


def drawn(keys: Mapping[str, Any], seed: int) -> Workload:
    """Training jobs that offer a load of GPU-seconds."""
    times = keys.get("times")
    capacity = {"gpus.count": GPUS * int(keys["machines"])}
    load = {"kind": "poisson", "load": float(keys["load"]), "fat_node": capacity, "load_of": [*capacity]}
    with times_file(times) as path:
        spec = {"training_jobs": int(keys["jobs"]), "arrivals": load, "networks": networks_of(times), "profiles": path}
        return generate_training(spec, seed)


def backfilled(task: Task) -> list[Numbers]:
    """The numbers of each row."""
    cluster = minsky(int(task.workload["machines"]), profiles_of(task.workload.get("times")))
    workload = drawn(task.workload, task.seed)
    kept = [numbers_of(simulate(cluster, workload, row.policy, seed=task.seed)) for row in task.rows]
    return [{key: value for key, value in own.items() if not key[-1].isdigit()} for own in kept]


REPRODUCTION = Reproduction(
    name="gpu-backfill",
    shows="No figure",
    paper=f"This project, with the machines and jobs of {PAPER}",
    summary="what backfill adds to placements on machines with several GPUs",
    setup="Training jobs on 1, 2 or 4 GPUs of one machine offer so many GPU-seconds at their best speed to 5, 10 and "
    "20 machines of two sockets with two GPUs each (--load, default 1.1). Four schedulers decide who is next, three "
    "placements where: nearest takes the free GPUs that are nearest to each other, bi-partitioning and greatest "
    "utility also look at neighbours and at what is left.",
    points=tuple(Point(words, count, {"machines": count}, rows(placement))
                 for placement, words in PLACEMENTS.items() for count in MACHINES),
    quantities=(WAIT, RESPONSE, BOUNDED, SLOWED, USED, ACROSS, LAST),
    claims=(
        Claim("Every backfill cuts the mean wait to at most 0.8 of that under FCFS, with any placement",
              "this project",
              together(*(exceeds(WAIT.label, "FCFS", name, [*PLACEMENTS.values()], MACHINES, by=0, share=0.8)
                         for name in SCHEDULERS if name != "FCFS"))),
        Claim("EASY waits least", "this project",
              together(*(exceeds(WAIT.label, name, "EASY", [*PLACEMENTS.values()], MACHINES, by=0)
                         for name in SCHEDULERS if name != "EASY"))),
        Claim("Backfill does not slow running jobs down: the mean slowdown under EASY is at most 1.05 times that "
              "under FCFS", "this project",
              exceeds(SLOWED.label, "FCFS", "EASY", [*PLACEMENTS.values()], MACHINES, by=0, share=1.05)),
    ),
    draw=bars(WAIT.label, "mean wait, min", x_title="machines", order=[*SCHEDULERS], width=300),
    x_title="machines",
    group_title="placement",
    notes=(
        "Estimates of run times are those at the best place: a job that is slowed down runs for longer than it is "
        "estimated, as would be so in practice.",
        DRAWN, OF_THE_TEXT, UTILITY,
    ),
    defaults=Options(seeds=3, jobs=400, load=1.1),
    takes=frozenset({"seeds", "jobs", "load", "times"}),
    tables=partial(tables, (WAIT, RESPONSE, BOUNDED, SLOWED, USED, ACROSS, LAST)),
    solve=backfilled,
)  # fmt: skip
