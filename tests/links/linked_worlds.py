"""Small clusters with links and pooled GPUs at home in their nodes, and jobs for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from unrack.cluster.spec import Cluster
from unrack.sim.result import Result
from unrack.sim.simulate import simulate
from unrack.workload.formats.rules import Intake
from unrack.workload.job import JobTable, Workload, job_table

S = 1_000_000


def linked(gpus: int = 4, nodes: int = 4, latency: str = "0 s", compose: int | None = None, **links: Any) -> Cluster:
    """Nodes of 20 cores, two in a rack, with so many GPUs at home in each, and links of 1000 MB/s."""
    pool = {"kind": "gpu", "count": gpus * nodes, "share": 1, "home": [f"0-{nodes - 1}"], "attach_latency": latency}
    return Cluster.from_dict({
        "nodes": [{"count": nodes, "cores": 20, "memory": 64}], "nodes_per_rack": 2,
        "pools": [pool if compose is None else {**pool, "compose": compose}], "links": {"mb_s": 1000, **links},
    })  # fmt: skip


def jobs_of(*rows: dict[str, Any]) -> JobTable:
    """Jobs of a task of one core and 100 s unless a row says otherwise; gpus, own and remote MB/s of each task."""
    get = lambda key, default: np.array([row.get(key, default) for row in rows], np.int64)  # noqa: E731  # short
    return job_table(
        submit_us=get("submit", 0) * S, work_us=get("work", 100) * S, tasks=get("tasks", 1), cores=get("cores", 1),
        memory_mb=get("mb", 0), app=pl.Series([row.get("app", "other") for row in rows]),
        devices={("gpu", "devices"): get("gpus", 0), ("links", "mb_s"): get("own", 0),
                 ("links", "remote_mb_s"): get("remote", 0)},
    )  # fmt: skip


def run(cluster: Cluster, jobs: JobTable, policy: str = "easy") -> Result:
    """A run with its audit."""
    return simulate(cluster, Workload("w", jobs, Intake("", "", len(jobs), len(jobs))), policy)


def claimed(result: Result, job: int) -> dict[str, int]:
    """What a job claims, by the name of the place."""
    rows = result.table("claims").filter(pl.col("job") == job)
    return dict(rows.select("place", "amount").rows())
