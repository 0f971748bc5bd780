"""Small worlds in which jobs use less or more memory than they ask, and runs on them."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from curves_by_hand import usage_curves

from unrack.cluster.spec import Cluster
from unrack.sim.result import Result
from unrack.sim.simulate import simulate
from unrack.sim.world import World
from unrack.workload.formats.rules import Intake
from unrack.workload.job import JobTable, Workload, job_table

S = 1_000_000
Points = list[tuple[float, float]]


def nodes(*mb: int, cores: int = 4) -> Cluster:
    """A node for each amount of memory; all lend to all."""
    return Cluster.from_dict(
        {"nodes": [{"count": 1, "name": f"n{i}", "cores": cores, "memory": one} for i, one in enumerate(mb)],
         "lending": "all"}
    )  # fmt: skip


def job(submit: int, run: int, mb: int, *curves: Points, tasks: int = 1, user: str = "u") -> dict[str, Any]:
    """A job that asks ``mb`` a task, each of which fills a node."""
    return {"submit": submit, "run": run, "mb": mb, "curves": curves, "tasks": tasks, "user": user}


def table(*jobs: dict[str, Any], cores: int = 4) -> JobTable:
    """Jobs that ask for as long as they run."""

    def column(key: str) -> np.ndarray:
        return np.array([one[key] for one in jobs], np.int64)

    return job_table(
        submit_us=column("submit") * S, work_us=column("run") * S, tasks=column("tasks"), memory_mb=column("mb"),
        cores=np.full(len(jobs), cores), user=pl.Series([one["user"] for one in jobs]),
        usage=usage_curves([one["curves"] for one in jobs]),
    )  # fmt: skip


def work(jobs: JobTable) -> Workload:
    """A workload of them."""
    return Workload("used", jobs, Intake("used", "test", len(jobs), len(jobs)))


def run(cluster: Cluster, policy: Any, *jobs: dict[str, Any], **how: Any) -> Result:
    """A run, audited."""
    return simulate(cluster, work(table(*jobs)), policy, world=World(**how))


def spans(result: Result, of: int) -> list[tuple[float, float, dict[int, int], dict[tuple[int, int], int]]]:
    """From when until when a job (by id) held how much on which node, and of which lender for which node."""
    found = []
    placed = result.placements.filter(pl.col("job") == of)
    lent = result.table("loans").filter(pl.col("job") == of)
    for (attempt, span), rows in placed.group_by("attempt", "span", maintain_order=True):
        local = {}
        for row in rows.iter_rows(named=True):
            for node in range(row["first_node"], row["first_node"] + row["nodes"]):
                local[node] = row["memory_mb_per_node"]
        mine = lent.filter((pl.col("attempt") == attempt) & (pl.col("span") == span))
        loans = {(row["node"], row["lender"]): row["mb"] for row in mine.iter_rows(named=True)}
        found.append((rows["start_s"][0], rows["end_s"][0], local, loans))
    return sorted(found, key=lambda one: one[:2])


def some(seed: int, count: int = 30, over: float = 0.6, level: float = 0.5) -> tuple[Cluster, JobTable]:
    """Random jobs on six nodes: one curve for all tasks, one a task, or none; requests above the peaks."""
    random = np.random.default_rng(seed)
    cluster = Cluster.from_dict({
        "nodes": [{"count": 4, "cores": 4, "memory": 100}, {"count": 2, "cores": 4, "memory": 200}],
        "nodes_per_rack": 3, "lending": "rack" if seed % 3 == 0 else "all",
    })  # fmt: skip
    jobs = []
    for _ in range(count):
        tasks, peak = int(random.integers(1, 4)), int(random.integers(1, 150))
        curves = int(random.integers(0, 3))
        points: list[Points] = []
        for _ in range((0, 1, tasks)[curves]):
            at = np.unique(np.concatenate([[0.0], random.random(random.integers(0, 6)).round(3)]))
            points.append([(float(one), float(int(peak * random.random() ** level))) for one in at if one < 1])
        asked = int(np.ceil(max([mb for own in points for _, mb in own], default=peak) * (1 + over * random.random())))
        submit, length = int(random.integers(0, 3000)), int(random.integers(1, 4000))
        jobs.append(job(submit, length, asked, *points, tasks=tasks, user=f"u{random.integers(0, 3)}"))
    return cluster, table(*jobs)
