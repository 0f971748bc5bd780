"""Machines with disaggregated GPUs, the jobs of the experiments, and what is kept of a run there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from unrack import Cluster, Result, Workload, simulate
from unrack_papers.reproduction import Numbers, Row, Task
from unrack_papers.workloads.rodinia import WARM_UP, generate_rodinia

PAPER = "Amaral 2019, section 5.6"
CORES, GPUS = 20, 4
"""Of a machine."""
WARM_S = 800
"""How long the jobs run that take cores and memory before the experiment."""
POOL, APART = "GPUs of a pool", "GPUs of each machine"
"""How GPUs are modelled: a pool of which each machine is home to four, or the machine's own, which no other may use."""
WITHOUT = Row("Without", "flow(remote=no)", POOL)
WITH = Row("With", "flow", POOL)
SLO = 1.05
"""Times the undisturbed run time: jobs that take longer miss their SLO."""
LINK_MB_S = 1250
"""What the link of a machine carries: 10 Gb/s."""
SENT_BY_WARM_UP = LINK_MB_S // 2
"""MB/s, in the variant in which jobs send something wherever their GPUs are."""


def cluster_of(keys: Mapping[str, Any], design: str) -> Cluster:
    """So many machines, with links where ``keys`` has them."""
    count = int(keys["machines"])
    content: dict[str, Any] = {"nodes": [{"count": count, "cores": CORES, "memory": "512 GB"}]}
    if design == POOL:
        home = [f"0-{count - 1}"]
        content["pools"] = [{"kind": "gpu", "count": GPUS * count, "share": 1, "home": home}]
    else:
        content["gpus"] = {"machine": {"gpus": GPUS}}
    if keys.get("links"):
        content["links"] = {"mb_s": LINK_MB_S, "profiles": "rodinia"}
    return Cluster.from_dict({"name": design, **content}, "reproduction")


def jobs_of(keys: Mapping[str, Any], seed: int, design: str) -> Workload:
    """Drawn jobs, after three that warm up for every four machines.

    With ``sends``, those that warm up send half of what a link carries, and each other job sends over the link of its
    machine, wherever its GPU is, as much as it would to a remote one; a remote one adds as much again.
    """
    spec: dict[str, Any] = {
        "rodinia_jobs": keys["jobs"],
        "warm_up": 3 * int(keys["machines"]) // 4,
        "gpus": "pool" if design == POOL else "topology",
        "leave_out": [] if keys.get("links") else ["links"],
    }
    spec |= {name: keys[name] for name in ("run_s", "warm_up_cores") if name in keys}
    drawn = generate_rodinia(spec, seed)
    return _sending(drawn) if keys.get("sends") else drawn


def _sending(workload: Workload) -> Workload:
    jobs = workload.jobs
    warm = jobs.app == list(jobs.app_names).index(WARM_UP)
    share = jobs.devices["links", "remote_mb_s"]
    sends = {("links", "mb_s"): np.where(warm, SENT_BY_WARM_UP, share)}
    return replace(workload, jobs=replace(jobs, devices={**jobs.devices, **sends}))


def placed(task: Task) -> list[Numbers]:
    """The numbers of each row."""
    return [numbers_of(run(task, row), task.workload) for row in task.rows]


def run(task: Task, row: Row, policy: Any = None) -> Result:
    """One row, under its policy or another one."""
    keys, design = task.workload, str(row.cluster)
    return simulate(cluster_of(keys, design), jobs_of(keys, task.seed, design), policy or row.policy, seed=task.seed)


def own_jobs(result: Result) -> pl.DataFrame:
    """The jobs without those that warm up."""
    return result.jobs.filter(pl.col("app") != WARM_UP)


def in_use(jobs: pl.DataFrame, at_s: ArrayLike) -> NDArray[np.float64]:
    """float64[times]: GPUs in use, one for each job that runs."""
    begun, ended = (np.sort(jobs[name].to_numpy()) for name in ("start_s", "end_s"))
    running = np.searchsorted(begun, at_s, "right") - np.searchsorted(ended, at_s, "right")
    return np.asarray(running, np.float64)


def numbers_of(result: Result, keys: Mapping[str, Any]) -> Numbers:
    """What is kept of a run; ``at.T``: GPUs in use at T s, for every ``step_s`` of ``keys``."""
    jobs, gpus = own_jobs(result), GPUS * int(keys["machines"])
    first_s, last_s = float(jobs["submit_s"].to_numpy().min()), float(jobs["end_s"].to_numpy().max())
    wait_s, run_s = jobs["wait_s"].to_numpy(), jobs["run_s"].to_numpy()
    slowdown = np.sort(run_s / jobs["work_s"].to_numpy())[::-1]
    values: Numbers = {
        "makespan": last_s - first_s,
        "utilisation": float(run_s.sum()) / (gpus * (last_s - first_s)),
        "wait_s": float(wait_s.mean()),
        "slowdown": float(slowdown.mean()),
        "late": float((slowdown > SLO).mean()),
        **{f"wait.{share}": float(np.quantile(wait_s, share / 100)) for share in range(0, 101, 5)},
        **{f"slowdown.{share}": float(_at(slowdown, share / 100)) for share in range(0, 101, 5)},
    }
    at_s = np.arange(np.ceil(first_s), last_s) + 0.5
    used = in_use(jobs, at_s)
    waiting = at_s < jobs["start_s"].to_numpy().max()
    values["early"] = _median(used[waiting & (at_s < WARM_S)])
    values["afterwards"] = _median(used[waiting & (at_s >= WARM_S)])
    values["begin"] = float(in_use(jobs, np.arange(300) + 0.5).mean()) / gpus
    step_s = int(keys["step_s"])
    ticks = np.arange(0, int(keys["until_s"]) + step_s, step_s)
    values |= {f"at.{time}": float(one) for time, one in zip(ticks, in_use(jobs, ticks), strict=True)}
    return values


def _at(ordered: NDArray[np.float64], share: float) -> float:
    return float(ordered[round(share * (len(ordered) - 1))])


def _median(values: NDArray[np.float64]) -> float | None:
    return float(np.median(values)) if values.size else None


def needed(without_s: float, with_s: float, jobs: int, gpus: int) -> tuple[float, float]:
    """The mean run time in s and the GPUs beside free cores that two makespans imply if no GPU is ever idle.

    With disaggregation all GPUs are busy throughout; without it those beside free cores are, until the jobs that warm
    up end after 800 s, and all from then on. Jobs that end one by one at the end are not looked at.

    Examples
    --------
    >>> [round(one, 1) for one in needed(2486, 2191, 512, 16)]
    [68.5, 10.1]
    >>> [round(one, 1) for one in needed(413.08, 261.77, 64, 16)]
    [65.4, 10.1]
    """
    run_s = with_s * gpus / jobs
    if without_s <= WARM_S:
        return run_s, jobs * run_s / without_s
    return run_s, (jobs * run_s - (without_s - WARM_S) * gpus) / WARM_S
