"""Six jobs on one machine: who is where when, and how long all of them take (Table 7, Figs. 17 and 18)."""

from __future__ import annotations

from collections.abc import Iterable

from unrack import Result, Workload, estimate, simulate
from unrack_papers.amaral.chart import gantt
from unrack_papers.amaral.jobs import Written, written
from unrack_papers.amaral.machines import (
    AWARE,
    BEST_FIT,
    FCFS,
    OF_THE_TEXT,
    OWN_ROWS,
    PAPER,
    POSTPONING,
    ROWS,
    UTILITY,
    minsky,
    numbers_of,
)
from unrack_papers.amaral.times import alone_s, named, profiles_of, times_file
from unrack_papers.claim import Check, Claim, exceeds, lies
from unrack_papers.measured import Measured
from unrack_papers.options import Options
from unrack_papers.reproduction import Numbers, Point, Quantity, Reproduction, Task

TABLE_7 = (
    Written("alexnet/1", 1, 0.51, 0.3),
    Written("googlenet/4", 1, 15.03, 0.3),
    Written("alexnet/1", 1, 24.36, 0.3),
    Written("alexnet/4", 2, 25.33, 0.5),
    Written("alexnet/1", 2, 29.33, 0.5),
    Written("cafferef/1", 2, 29.89, 0.5),
)
PAPER_S = {BEST_FIT.name: 461.7, FCFS.name: 456.2, AWARE.name: 454.2, POSTPONING.name: 356.9}
PAPER_SPEEDUP = {BEST_FIT.name: 1.30, FCFS.name: 1.28, AWARE.name: 1.27}
MACHINE, X = "one machine", "six jobs"
MAKESPAN = Quantity("makespan", "makespan_s", 1, 1, "s", share=0.05)
SPEEDUP = Quantity("speed-up of TOPO-AWARE-P", "speedup", 1, 2, tolerance=0.05)
BELOW = Quantity("starts below the least utility", "below_min_utility", 1, 0)
ACROSS = Quantity("jobs across sockets", "gpus_across_sockets", 100, 0, "%")
THIRD = Quantity("job 3 takes", "job3.run_s", 1, 1, "s")
SLOWDOWN = Quantity("mean slowdown", "running.mean", 1, 2)
ALL = Quantity("with waiting", "waiting and running.mean", 1, 2)


def six_jobs(times: str | None) -> Workload:
    """The jobs of Table 7, with the run times of a file or of the text."""
    jobs = [job._replace(app=named(job.app, times)) for job in TABLE_7]
    with times_file(times) as path:
        return written("Table 7", jobs, [alone_s(path, job.app, job.gpus) for job in jobs])


def placed(task: Task) -> list[Numbers]:
    """The numbers of each row; ``job.gpu.from`` and ``.to`` of every job say where it was when."""
    times = task.workload.get("times")
    cluster, workload = minsky(1, profiles_of(times)), six_jobs(times)
    found = [simulate(cluster, workload, row.policy, seed=task.seed) for row in task.rows]
    values = [{**numbers_of(result), **_spans(result)} for result in found]
    least = next(own["makespan_s"] for row, own in zip(task.rows, values, strict=True) if row.name == POSTPONING.name)
    for row, own in zip(task.rows, values, strict=True):
        if row.name in PAPER_SPEEDUP and least and own["makespan_s"]:
            own["speedup"] = own["makespan_s"] / least
    return values


def _spans(result: Result) -> Numbers:
    values: Numbers = {f"job{job}.run_s": run_s for job, run_s in result.jobs.select("job", "run_s").rows()}
    for job, place, start_s, end_s in result.table("claims").select("job", "place", "start_s", "end_s").rows():
        gpu = place.rpartition("gpu")[2]
        values |= {f"{job}.{gpu}.from": start_s, f"{job}.{gpu}.to": end_s}
    return values


def _third(measured: Measured) -> Iterable[Check]:
    """How long job 3 takes under the greedy policies over that under TOPO-AWARE-P."""
    quick = measured.at((MACHINE, X, POSTPONING.name), THIRD.label)
    for row in (BEST_FIT, FCFS, AWARE):
        slow = measured.at((MACHINE, X, row.name), THIRD.label)
        ratio = None if quick is None or slow is None else slow.mean / quick.mean
        yield Check("job 3, run time over that under TOPO-AWARE-P", row.name, estimate([ratio]), 1.2, 2.2)


REPRODUCTION = Reproduction(
    name="gpu-timeline",
    shows="Table 7, Figures 17 and 18",
    paper=PAPER,
    summary="six jobs on one machine with four GPUs, under four policies",
    setup="Six jobs of Table 7 arrive within half a minute at a machine of two sockets with two GPUs each. Policies "
    "differ in which GPUs a job gets, and TOPO-AWARE-P also lets a job wait for GPUs of the utility that it asks for.",
    points=(Point(MACHINE, X, {}, ROWS),),
    quantities=(MAKESPAN, SPEEDUP, BELOW, ACROSS, THIRD, SLOWDOWN, ALL),
    claims=(
        Claim("TOPO-AWARE-P ends first: the others take 1.15 to 1.45 times as long (1.27 to 1.30)", "§4.3.2.2",
              lambda measured: [check for row in PAPER_SPEEDUP for check in
                                lies(SPEEDUP.label, row, [MACHINE], [X], 1.15, 1.45)(measured)]),
        Claim("BF, FCFS and TOPO-AWARE end within 3 % of each other (the margin is ours)", "§4.3.2.2",
              lambda measured: [check for one, other in ((BEST_FIT, FCFS), (BEST_FIT, AWARE), (AWARE, BEST_FIT))
                                for check in exceeds(MAKESPAN.label, one.name, other.name, [MACHINE], [X], by=0,
                                                     share=1.03)(measured)]),
        Claim("Only TOPO-AWARE-P gives every job GPUs of one socket", "§4.3.2.2",
              lambda measured: [*lies(ACROSS.label, POSTPONING.name, [MACHINE], [X], 0, 0)(measured),
                                *(check for row in PAPER_SPEEDUP for check in
                                  lies(ACROSS.label, row, [MACHINE], [X], 1, 100)(measured))]),
        Claim("Job 3 takes about 120 s under TOPO-AWARE-P and about 240 s under the others: 1.2 to 2.2 times",
              "§4.3.2.2", _third),
        Claim("No job starts below its least utility under TOPO-AWARE-P", "§4.3.2.2",
              lies(BELOW.label, POSTPONING.name, [MACHINE], [X], 0, 0)),
    ),
    draw=gantt,
    x_title="",
    group_title="",
    printed={
        (MACHINE, X, name): {MAKESPAN.label: makespan, **({SPEEDUP.label: PAPER_SPEEDUP[name]}
                                                          if name in PAPER_SPEEDUP else {})}
        for name, makespan in PAPER_S.items()
    },
    notes=(OF_THE_TEXT, UTILITY, OWN_ROWS),
    defaults=Options(seeds=1),
    takes=frozenset({"times"}),
    exact=True,
    solve=placed,
)  # fmt: skip
