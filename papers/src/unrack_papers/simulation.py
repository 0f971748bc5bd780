"""From tasks to runs of the simulator: a run a row, measured where it ran."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any, get_args

from unrack import Cluster, Result, Workload, World, filtered, generate, make_models, read_trace, window_us
from unrack.cluster import PRESETS
from unrack.policy import split_policy
from unrack.slowdown import MemoryContention, read_profiles, synthetic_profiles
from unrack.study import PROCESSES, On, PolicySpec, Run, RunTimes, Workers, measure_runs
from unrack.units import SECOND_US
from unrack.workload import FILTERS, jitter
from unrack_papers.reproduction import Contended, Measurement, Numbers, Task

OPENS_AT = 0.7
"""CPU load of the fat node at which measuring starts."""
JITTER_US = 30 * SECOND_US
"""How far the arrivals of a trace are moved at most, either way: the interval of the scheduler's rounds."""
APPLIED = frozenset(FILTERS) - {"users"}
"""Keys of a task's workload that are filters; ``users`` is a generator's own, how many there are."""


def simulated(
    tasks: Sequence[Task], measure: Measurement, jobs: int = 1, workers: Workers | On = PROCESSES
) -> Generator[tuple[int, int, Numbers]]:
    """The numbers of each row, after its task and itself by number; none where the load never reaches ``OPENS_AT``."""
    runs = (run for i, task in enumerate(tasks) for run in runs_of(task, i))
    with closing(measure_runs(runs, partial(_placed, measure), jobs=jobs, workers=workers)) as answers:
        yield from answers


def _placed(measure: Measurement, run: Run, result: Result, took_s: float) -> tuple[int, int, Numbers]:
    task, row, _ = run.place
    return task, row, measure(run, result, took_s)


def runs_of(task: Task, index: int = 0) -> list[Run]:
    """A run for each row; their ``place`` is the index of the task, then that of the row."""
    workload = workload_of(task)
    window = None
    if task.ideal is not None:
        window = window_us(cluster_of(task.ideal), workload.jobs, OPENS_AT)
        if window is None or window[0] >= window[1]:
            return []
    models, contended = make_models(task.models), contentions(task)
    runs = []
    for i, row in enumerate(task.rows):
        here = row.world == RunTimes.STUDY
        name, parameters = split_policy(row.policy)
        runs.append(
            Run(
                id=f"{row.name}, seed {task.seed}",
                cluster=cluster_of(row.cluster),
                workload=workload,
                workload_digest="",
                policy=PolicySpec(row.policy, name, tuple(parameters.items()), world=row.world),
                seed=task.seed,
                world=World(models, contended[row.contention]) if here else World(),
                window_us=window,
                parameters={},
                place=(index, i, 0),
            )
        )
    return runs


def workload_of(task: Task) -> Workload:
    """The jobs of a task: drawn, or those of a trace; with seed 0 as they are, else with arrivals moved by the seed.

    Keys that are names of filters, such as ``usage``, are applied to the jobs; all others are the generator's.
    """
    filters = {key: value for key, value in task.workload.items() if key in APPLIED}
    if "trace" in task.workload:
        workload = jitter(read_trace(task.workload["trace"]), JITTER_US if task.seed else 0, task.seed)
    else:
        keys = {key: value for key, value in task.workload.items() if key not in APPLIED}
        workload = generate(keys, task.seed)
    return filtered(workload, filters, task.seed)


def contentions(task: Task) -> dict[Contended, MemoryContention | None]:
    """The contention of each kind of world; none where the task has no profiles."""
    if task.profiles is None:
        return dict.fromkeys(get_args(Contended))
    profiles = read_profiles(task.profiles) if task.profiles else synthetic_profiles()
    return {"whole": MemoryContention(profiles), "share": MemoryContention(profiles, traffic="share"), "off": None}


def cluster_of(name: str | Mapping[str, Any]) -> Cluster:
    """A preset by name, or a cluster from its keys."""
    if isinstance(name, str):
        return Cluster.from_dict({"name": name, **PRESETS[name].content}, "preset")
    return Cluster.from_dict(dict(name), "reproduction")
