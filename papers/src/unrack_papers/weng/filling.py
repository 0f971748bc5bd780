"""A cluster of shared GPUs that is filled with pods until it turns some away."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from unrack import Cluster, Result, Workload, simulate
from unrack.cluster import content_of
from unrack.errors import InputError
from unrack.resources.gpus import WHOLE
from unrack.workload import JobTable, draw_again
from unrack_papers.reproduction import Numbers, Task
from unrack_papers.weng.pods import read_openb

RUN = "100 d"
"""Pods stay."""
ASKED = 1.3
"""What they ask for in all, over the GPUs that there are."""
LEVELS = tuple(range(5, 131, 5))
"""Demand that has arrived, % of the GPUs, at which it is noted how many are allocated."""
WITHOUT_MEMORY, WITH_MEMORY = "DEMANDS", "DEMANDS-WITH-MEMORY"
"""Stand in a policy for a file of what the pods of the list ask."""

Floats = NDArray[np.float64]


def filled(task: Task) -> list[Numbers]:
    """``at.100`` …: for each row and each of ``LEVELS`` the share of the GPUs that is allocated then.

    Raises
    ------
    InputError
        There are no files of pods and nodes.
    """
    pods, nodes = task.workload.get("pods"), task.workload.get("nodes")
    if pods is None or nodes is None:
        got = f"no {'--pods' if pods is None else '--nodes'}"
        raise InputError("gpu-fragmentation", got, "--pods FILE and --nodes FILE, openb lists of pods and nodes")
    cluster, gpus = cluster_of(nodes)
    pod_list = read_openb(pods, cpu="milli", run=RUN)
    drawn = draw_again(pod_list, {"amount": "gpus", "of": gpus, "share": task.workload.get("asked", ASKED)}, task.seed)
    with TemporaryDirectory() as folder:
        files = {
            WITH_MEMORY: write_demands(pod_list.jobs, Path(folder) / "with-memory.csv", True),
            WITHOUT_MEMORY: write_demands(pod_list.jobs, Path(folder) / "demands.csv", False),
        }
        return [allocated(_run(cluster, drawn, row.policy, files, task.seed), gpus) for row in task.rows]


def _run(cluster: Cluster, drawn: Workload, policy: str, files: Mapping[str, str], seed: int) -> Result:
    for name, path in files.items():
        policy = policy.replace(f"demands={name})", f"demands={path})")
    return simulate(cluster, drawn, policy, seed=seed, audit=False)


def cluster_of(path: str) -> tuple[Cluster, int]:
    """The nodes with GPUs of a list, cores in thousandths, and how many GPUs they have."""
    content = content_of(path, milli=True)
    gpus = sum(run["count"] * of["machine"]["gpus"] for run, of in zip(content["nodes"], content["gpus"], strict=True))
    return Cluster.from_dict({**content, "name": "openb"}, path), gpus


def write_demands(jobs: JobTable, path: Path, memory: bool) -> str:
    """Write what the pods of a list ask and how often; ``memory``: count that in, too. Returns the path."""
    counts = Counter(
        zip(
            jobs.cores.tolist(),
            jobs.memory_mb.tolist() if memory else [0] * len(jobs),
            jobs.devices["gpus", "count"].tolist(),
            np.where(jobs.devices["gpus", "milli"] == 0, WHOLE, jobs.devices["gpus", "milli"]).tolist(),
            strict=True,
        )
    )
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["cores", "memory_mb", "gpus", "milli", "share"])
        rows.writerows([*demand, count / len(jobs)] for demand, count in sorted(counts.items()))
    return str(path)


def allocated(result: Result, gpus: int) -> Numbers:
    """The share of the GPUs that is allocated when demand has first reached each level; none where it never does."""
    jobs = result.jobs
    milli = jobs["gpus.milli"].to_numpy()
    asked: Floats = jobs["gpus.count"].to_numpy() * np.where(milli == 0, WHOLE, milli) / WHOLE
    demand, held = np.cumsum(asked), np.cumsum(asked * jobs["start_s"].is_not_null().to_numpy())
    values: Numbers = {"turned_away": float(jobs["start_s"].is_null().sum())}
    for level in LEVELS:
        at = int(np.searchsorted(demand, gpus * level / 100))
        values[f"at.{level}"] = float(held[at] / gpus) if at < len(held) else None
    return values
