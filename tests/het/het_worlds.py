"""Small worlds by hand, and jobs of any world made into heterogeneous ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

import unrack
from unrack.cluster.spec import Cluster
from unrack.sim.result import Result
from unrack.sim.world import World
from unrack.workload.formats.rules import Intake
from unrack.workload.job import JobTable, Workload, job_table
from unrack.workload.site.sessions import components_of

S = 10**6
PARTED = {
    "nodes": [{"count": 2, "cores": 4}, {"count": 2, "cores": 8}],
    "gpus": {"machines": [{"machine": {"gpus": 2, "per_socket": 2}, "nodes": "2-3"}]},
    "site": {"partitions": [{"name": "cpu", "nodes": ["0-1"]}, {"name": "gpu", "nodes": ["2-3"]}]},
}
"""A partition of nodes without GPUs, and one of nodes that have some."""


def workload(jobs: JobTable) -> Workload:
    """Jobs as a workload."""
    return Workload("het", jobs, Intake("", "", 0, 0))


def table(rows: Sequence[dict[str, Any]]) -> JobTable:
    """Jobs from rows; times in s. Without a request a job asks for as long as it runs."""
    defaults = {"submit": 0, "tasks": 1, "cores": 1, "mb": 0, "user": "u", "het": "", "partition": "", "gpus": 0}
    full = [{**defaults, "dependency": "", "qos": "", **row} for row in rows]

    def column(name: str, scale: int = 1) -> Any:
        return np.array([row[name] for row in full], np.int64) * scale

    return job_table(
        ids=pl.Series([row["id"] for row in full]), submit_us=column("submit", S), work_us=column("work", S),
        request_us=np.array([row.get("request", row["work"]) for row in full], np.int64) * S,
        tasks=column("tasks"), cores=column("cores"), memory_mb=column("mb"),
        user=pl.Series([row["user"] for row in full]), devices={("gpus", "count"): column("gpus")},
        extra=pl.DataFrame({name: [row[name] for row in full] for name in ("het", "partition", "dependency", "qos")}),
    )  # fmt: skip


def run(cluster: dict[str, Any], rows: Sequence[dict[str, Any]], policy: str = "easy", **more: Any) -> Result:
    """A run, which is audited."""
    return unrack.simulate(Cluster.from_dict(cluster), workload(table(rows)), policy, **more)


def starts(result: Result) -> dict[str, float | None]:
    """Job → start, s."""
    return dict(zip(result.jobs["job"].to_list(), result.jobs["start_s"].to_list(), strict=True))


def with_components(jobs: JobTable, seed: int) -> JobTable:
    """The jobs, of which some that stand beside each other become components of one."""
    draw, count, at = np.random.default_rng(seed), len(jobs), 0
    het, submit, user = [""] * count, jobs.submit_us.copy(), jobs.user.copy()
    while at < count:
        rows = slice(at, min(count, at + int(draw.choice([1, 1, 2, 3]))))
        if rows.stop - at > 1:
            het[rows] = [str(at + 1)] * (rows.stop - at)
            submit[rows], user[rows] = submit[at], user[at]
        at = rows.stop
    extra = jobs.extra.with_columns(pl.Series("het", het)) if jobs.extra.width else pl.DataFrame({"het": het})
    return replace(jobs, submit_us=submit, user=user, extra=extra)


def together(result: Result, jobs: JobTable) -> int:
    """How many heterogeneous jobs ran, all of whose components started, ended and were stopped at the same times."""
    ids, attempts = jobs.ids.to_list(), dict[Any, set[tuple[Any, ...]]]()
    for job, *attempt in result.placements.select("job", "start_s", "end_s", "outcome").unique().iter_rows():
        attempts.setdefault(job, set()).add(tuple(attempt))
    state = dict(zip(result.jobs["job"].to_list(), result.jobs["state"].to_list(), strict=True))
    found = components_of(jobs)
    for rows in found.values():
        assert len({frozenset(attempts.get(ids[row], ())) for row in rows}) == 1
        assert len({state[ids[row]] for row in rows}) == 1
    return sum(ids[first] in attempts for first in found)


def physics(world: Any) -> World:
    """The world of a mix."""
    return World(models=world.models, contention=world.contention, faults=world.faults)
