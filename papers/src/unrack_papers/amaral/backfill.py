"""What backfill adds to placements on machines with several GPUs, which nobody has published."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from unrack import Workload, simulate
from unrack_papers.amaral.machines import GPUS, OF_THE_TEXT, PAPER, UTILITY, minsky, numbers_of
from unrack_papers.amaral.scenarios import ACROSS, DRAWN, SLOWED, USED, WAIT, tables
from unrack_papers.amaral.times import networks_of, profiles_of, times_file
from unrack_papers.claim import Claim, exceeds, together
from unrack_papers.options import Options
from unrack_papers.pages.bars import bars
from unrack_papers.reproduction import Numbers, Point, Quantity, Reproduction, Row, Task
from unrack_papers.workloads.training import generate_training

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
