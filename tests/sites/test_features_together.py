"""What a site may say, several things at once: every job is over in the end, and the audit finds nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import unrack
from unrack.cluster.spec import Cluster
from unrack.workload.formats.rules import Intake
from unrack.workload.job import JobTable, Workload, job_table

S = 10**6
LIMIT = 2
"""So many members of the array run at once."""
POLICIES = (
    "fcfs", "easy", "conservative", "slurm(interval=7 s)", "easy(order=multifactor)", "list(backfill=any)",
    "conservative(order=multifactor)", "easy(extension=5 s)", "easy(molding=working-set)",
)  # fmt: skip


def site_of(draw: np.random.Generator) -> dict[str, Any]:
    """Six nodes in overlapping partitions, with any of preemption, reservations, limits and a cap of power."""

    def some(count: int) -> list[str]:
        return sorted(str(node) for node in draw.choice(6, count, replace=False))

    mode = str(draw.choice(["requeue", "checkpoint", "cancel", "suspend"]))
    site: dict[str, Any] = {
        "partitions": [
            {"name": "a", "tier": 1, "nodes": some(4), "preempt_mode": mode},
            {"name": "b", "tier": int(draw.integers(1, 4)), "nodes": some(3)}, {"name": "c", "tier": 3},
        ],
        "accounts": [{"name": "x", "users": ["u0", "u1"]}, {"name": "y", "shares": 3, "users": ["u2"]}],
        "reservations": [],
    }  # fmt: skip
    preempts, own, limits, maintenance, capped = (draw.random(5) < 0.45).tolist()
    if preempts:
        by = str(draw.choice(["partition", "qos"]))
        site["qos"] = [{"name": "low"}, {"name": "high", "preempts": ["low"] if by == "qos" else []}]
        site["preempt"] = {"by": by, "mode": mode, "victims": str(draw.choice(["youngest", "fewest", "cheapest"]))}
    if own:
        start, length = draw.integers(10, 60, 2).tolist()
        one = {"name": "r", "nodes": some(2), "start": start, "duration": length, "users": ["u0"]}
        site["reservations"].append(one)
    if limits:
        site["limits"] = [{"per": "user", "amounts": {"cores": int(draw.integers(4, 9))}}]
    if maintenance:
        one = {"name": "m", "nodes": some(1), "start": 40, "duration": 20, "maintenance": True}
        site["reservations"].append(one)
    power = {"power": {"idle": "100 W", "core": "50 W", "cap": "1200 W"}} if capped else {}
    return {"nodes": [{"count": 6, "cores": 4, "memory": 8}], "site": site, **power}


def jobs_of(draw: np.random.Generator, count: int = 30) -> JobTable:
    """Jobs of three users, of which some are components, or wait for others and are members of a throttled array."""
    work, submit, user = draw.integers(2, 40, count), np.sort(draw.integers(0, 120, count)), draw.integers(0, 3, count)
    words = {name: [""] * count for name in ("het", "dependency", "array")}
    if draw.random() < 0.5:
        for first in range(0, count - 1, 5):
            words["het"][first] = words["het"][first + 1] = str(first + 1)
            submit[first + 1], user[first + 1] = submit[first], user[first]
    else:
        for job in range(5, count):
            if draw.random() < 0.3:
                words["dependency"][job] = f"{draw.choice(['afterany', 'afterok', 'after'])}:{draw.integers(1, job)}"
            words["array"][job] = "9" if draw.random() < 0.3 else ""
    extra = words | {
        "partition": [str(name) for name in draw.choice(["a", "b", "c", ""], count)],
        "account": ["x" if one < 2 else "y" for one in user],
        "array_limit": [LIMIT if one else 0 for one in words["array"]],
        "qos": [str(draw.choice(["low", "high", ""]))] * count if words["het"][0] else
               [str(name) for name in draw.choice(["low", "high", ""], count)],
        "begin_s": np.where(draw.random(count) < 0.2 * (not words["het"][0]), submit + draw.integers(0, 60, count), 0),
    }  # fmt: skip
    return job_table(
        submit_us=submit * S, work_us=work * S, tasks=draw.integers(1, 4, count), cores=draw.integers(1, 4, count),
        request_us=(work + draw.integers(0, 20, count) * (draw.random(count) < 0.5)) * S,
        memory_mb=draw.integers(0, 4, count), user=pl.Series([f"u{one}" for one in user]), extra=pl.DataFrame(extra),
    )  # fmt: skip


@pytest.mark.parametrize("seeds", [range(27), pytest.param(range(27, 1_000), marks=pytest.mark.slow)])
def test_whatever_a_site_says_at_once_no_job_is_left_and_components_run_together(seeds: range) -> None:
    for seed in seeds:
        draw, policy = np.random.default_rng(seed), POLICIES[seed % len(POLICIES)]
        cluster, jobs = Cluster.from_dict(site_of(draw)), jobs_of(draw)
        intake = Intake("", "", 0, 0)
        result = unrack.simulate(cluster, Workload("together", jobs, intake), policy)
        left = result.jobs.filter(pl.col("state").is_in(["queued", "held", "running"]))
        assert left.is_empty(), (seed, policy, left["job"].to_list())
        parts = result.jobs.filter(pl.col("het") != "").group_by("het")
        times = parts.agg(pl.col("start_s", "end_s", "state").n_unique())
        assert (times.select("start_s", "end_s", "state").to_numpy() == 1).all(), (seed, policy)
        assert (result.jobs["start_s"] >= result.jobs["begin_s"]).fill_null(True).all(), (seed, policy)
        members = result.jobs.filter(pl.col("array") != "")["job"].implode()
        spans = result.placements.filter(pl.col("job").is_in(members), pl.col("cores_per_node") > 0)
        for start in spans["start_s"]:
            at_once = spans.filter(pl.col("start_s") <= start, pl.col("end_s") > start)["job"].n_unique()
            assert at_once <= LIMIT, (seed, policy, start)
