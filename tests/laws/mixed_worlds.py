"""Random small worlds in which jobs hold several kinds of things at once, and the disciplines that run on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from unrack.cluster.spec import Cluster
from unrack.workload.job import JobTable, job_table
from unrack.workload.tier_asks import NO_CEILING, tier_asks
from unrack.workload.watts import with_watts

S = 1_000_000
DRIVES = {"name": "drives", "kind": "nvme", "count": 4, "compose": 3, "share": 6,
          "quantities": {"bandwidth_mb_s": 2000, "capacity_mb": 600_000}}  # fmt: skip
ASKS = {"bandwidth_mb_s": 1800, "capacity_mb": 40_000}
DISCIPLINES = ("fcfs", "list(backfill=any)", "easy", "conservative", "slurm(interval=60 s)", "flow(interval=60 s)")


def with_rules(discipline: str, **rules: str) -> str:
    """A discipline with further parameters."""
    name, _, given = discipline.rstrip(")").partition("(")
    return f"{name}({', '.join([*([given] if given else []), *(f'{key}={value}' for key, value in rules.items())])})"


def everything(seed: int, count: int = 24) -> tuple[Cluster, JobTable, tuple[str, ...]]:
    """Nodes that lend, a pool of drives that are composed and shared, deadlines; in two of three worlds models."""
    random = np.random.default_rng(seed)
    cluster = Cluster.from_dict({
        "nodes": [{"count": 3, "cores": 4, "memory": 8, "torus": [2, 2]},
                  {"count": 2, "cores": 4, "memory": 16, "torus": [2, 2]}],
        "nodes_per_rack": 3, "lending": "all" if seed % 2 else "rack", "pools": [DRIVES],
    })  # fmt: skip
    asks = random.random(count) < 0.6
    submit = np.sort(random.integers(0, 4000, count)) * S
    work = np.where(asks, 1600, random.integers(1, 900, count)) * S
    due = submit + random.integers(1000, 5000, count) * S
    jobs = job_table(
        submit_us=submit, work_us=work, request_us=np.maximum(work + random.integers(-3, 9, count) * 50 * S, 0),
        tasks=random.integers(1, 3, count), cores=random.integers(1, 4, count),
        memory_mb=(12 * random.random(count)).astype(np.int64), priority=random.integers(0, 2, count),
        deadline_us=np.where(random.random(count) < 0.8, due, -1),
        app=pl.Series(np.where(asks, "smufin", "other").tolist()),
        devices={("nvme", name): np.where(asks, most, 0) for name, most in ASKS.items()},
    )  # fmt: skip
    return cluster, jobs, ("smufin",) if seed % 3 else ()


def tiers_and_pools(seed: int, count: int = 24) -> tuple[Cluster, JobTable, tuple[str, ...]]:
    """Servers on tiers of memory, of which some ask for drives that only two of three compute pools reach."""
    random = np.random.default_rng(seed)
    pools = [{"name": f"p{i}", "count": 1, "memory": f"{random.integers(3, 9)} MB", "tier": tier}
             for i, tier in enumerate(("rack", "far"))]  # fmt: skip
    nodes = [{"count": 1, "name": f"c{i}", "cores": 4, "memory": f"{random.integers(4, 7)} MB", "torus": [2, 2]}
             for i in range(3)]  # fmt: skip
    cluster = Cluster.from_dict({
        "nodes": nodes, "memory_pools": pools, "pools": [{**DRIVES, "reach": ["0-1"]}],
        "tiers": [{"name": "local", "price": 4}, {"name": "rack", "cost": 1, "price": 2}, {"name": "far", "cost": 2}],
        "pool_clusters": [[f"node{i}", "node3", "node4"] for i in range(3)],
    })  # fmt: skip
    asks = random.random(count) < 0.5
    mb = random.integers(1, 8, count)
    floor = (mb * random.random(count) * random.integers(0, 2, count)).astype(np.int64)
    ceiling = np.where(random.random(count) < 0.4, NO_CEILING, (mb - floor) * 3)
    group = pl.Series(np.where(random.random(count) < 0.3, "g", None).tolist(), dtype=pl.String)
    work = random.integers(1, 60, count) * S
    jobs = job_table(
        submit_us=np.sort(random.integers(0, 250, count)) * S, work_us=work,
        request_us=np.maximum(work + random.integers(-3, 9, count) * S, 0),
        tasks=np.ones(count, np.int64), cores=random.integers(1, 4, count), memory_mb=mb,
        slo=tier_asks(floor, ceiling.astype(np.int64), group=group),
        devices={("nvme", name): np.where(asks, most, 0) for name, most in ASKS.items()},
    )  # fmt: skip
    return cluster, jobs, ()


COUNTED = [{"name": "matlab", "amount": 3}, {"name": "seats", "amount": 6, "asked_by": "task"},
           {"name": "uplink_mb_s", "amount": "2 GB/s", "per": "rack"},
           {"name": "gateway", "amount": 2, "per": "rack", "asked_by": "job"}]  # fmt: skip


def licences(seed: int, count: int = 24) -> tuple[Cluster, JobTable, tuple[str, ...]]:
    """Three racks with uplinks and gateways, licences that jobs and tasks hold; in two of four worlds drives."""
    random = np.random.default_rng(seed)
    cluster = Cluster.from_dict({
        "nodes": [{"count": 3, "cores": 4, "memory": 8}, {"count": 3, "cores": 6, "memory": 16}],
        "nodes_per_rack": 2, "counted": COUNTED, "pools": [DRIVES] if seed % 2 else [],
    })  # fmt: skip
    submit = np.sort(random.integers(0, 400, count)) * S
    work = random.integers(1, 90, count) * S
    asked = {("counted", "matlab"): random.integers(0, 3, count), ("counted", "seats"): random.integers(0, 3, count),
             ("counted", "uplink_mb_s"): random.integers(0, 3, count) * 700,
             ("counted", "gateway"): random.integers(0, 2, count)}  # fmt: skip
    drives = random.random(count) < 0.4 * (seed % 2)
    jobs = job_table(
        submit_us=submit, work_us=work, request_us=np.maximum(work + random.integers(-3, 9, count) * 5 * S, 0),
        tasks=random.integers(1, 4, count), cores=random.integers(1, 4, count),
        memory_mb=random.integers(0, 8, count), priority=random.integers(0, 2, count),
        deadline_us=np.where(random.random(count) < 0.5, submit + random.integers(50, 500, count) * S, -1),
        devices=asked | {("nvme", name): np.where(drives, most, 0) for name, most in ASKS.items()},
    )  # fmt: skip
    return cluster, jobs, ()


def kept_apart(seed: int, count: int = 24) -> tuple[Cluster, JobTable, tuple[str, ...]]:
    """Instances of groups that must not crowd a node, beside licences, nodes that lend and, in two worlds, drives."""
    random = np.random.default_rng(seed)
    cluster = Cluster.from_dict({
        "nodes": [{"count": 3, "cores": 4, "memory": 8}, {"count": 2, "cores": 6, "memory": 16}],
        "nodes_per_rack": 3, "lending": "all" if seed % 2 else "rack", "pools": [DRIVES] if seed % 2 else [],
        "counted": [{"name": "matlab", "amount": 3}], "spread": {"groups": 3},
    })  # fmt: skip
    submit = np.sort(random.integers(0, 400, count)) * S
    work = random.integers(1, 90, count) * S
    drives = random.random(count) < 0.3 * (seed % 2)
    asked = {
        ("spread", "group"): random.integers(0, 4, count), ("spread", "most"): random.integers(0, 5, count),
        ("counted", "matlab"): random.integers(0, 2, count),
    }  # fmt: skip
    jobs = job_table(
        submit_us=submit, work_us=work, request_us=np.maximum(work + random.integers(-3, 9, count) * 5 * S, 0),
        tasks=random.integers(1, 4, count), cores=random.integers(1, 4, count), memory_mb=random.integers(0, 8, count),
        priority=random.integers(0, 2, count),
        devices=asked | {("nvme", name): np.where(drives, most, 0) for name, most in ASKS.items()},
    )  # fmt: skip
    return cluster, jobs, ()


MACHINES = [{"machine": "minsky", "nodes": "0-1"}, {"machine": {"gpus": 2, "per_socket": 1}, "nodes": "2-3"},
            {"machine": {"gpus": 1, "slices": 8}, "nodes": "4"}]  # fmt: skip
APPS = ("alexnet/1", "alexnet/16", "googlenet/4", "other")


def machines(seed: int, count: int = 24, profiles: str = "deep-learning") -> tuple[Cluster, JobTable, tuple[str, ...]]:
    """GPUs whole, in parts and in slices, beside drives, nodes that lend and licences; nodes 5 and 6 have no GPUs."""
    random = np.random.default_rng(seed)
    cluster = Cluster.from_dict({
        "nodes": [{"count": 4, "cores": 6, "memory": 8}, {"count": 3, "cores": 6, "memory": 16}],
        "nodes_per_rack": 4, "lending": "all" if seed % 2 else "rack", "pools": [DRIVES],
        "counted": [{"name": "matlab", "amount": 3}], "gpus": {"machines": MACHINES, "profiles": profiles},
    })  # fmt: skip
    sort = random.integers(0, 4, count)  # nothing, whole GPUs, parts, slices
    gpus = np.where(sort == 1, random.integers(1, 4, count), np.where(sort == 2, random.integers(0, 2, count), 0))
    tasks = np.where(gpus > 1, 1, random.integers(1, 3, count))
    submit = np.sort(random.integers(0, 400, count)) * S
    work = random.integers(1, 90, count) * S
    drives = random.random(count) < 0.2
    asked = {
        ("gpus", "count"): gpus, ("gpus", "milli"): np.where(sort == 2, random.integers(1, 7, count) * 125, 0),
        ("gpus", "slices"): np.where(sort == 3, random.integers(1, 5, count), 0),
        ("gpus", "apart"): np.where((sort == 1) & (tasks > 1), random.integers(0, 2, count), 0),
        ("gpus", "min_utility"): np.where(sort == 1, random.integers(0, 3, count) * 3500, 0),
        ("counted", "matlab"): random.integers(0, 3, count),
    }  # fmt: skip
    jobs = job_table(
        submit_us=submit, work_us=work, request_us=np.maximum(work + random.integers(-3, 9, count) * 5 * S, 0),
        tasks=tasks, cores=random.integers(1, 3, count), memory_mb=random.integers(0, 6, count),
        priority=random.integers(0, 2, count), app=pl.Series([APPS[i] for i in random.integers(0, 4, count)]),
        devices=asked | {("nvme", name): np.where(drives, most, 0) for name, most in ASKS.items()},
    )  # fmt: skip
    return cluster, jobs, ()


def disaggregated_gpus(
    seed: int, count: int = 24, profiles: str = "rodinia"
) -> tuple[Cluster, JobTable, tuple[str, ...]]:
    """GPUs at home in nodes that all others reach over links and uplinks, beside drives, licences and lent memory."""
    random = np.random.default_rng(seed)
    gpus = {"name": "gpus", "kind": "gpu", "count": 12, "share": 1, "home": ["0-5"], "attach_latency": "2 s"}
    cluster = Cluster.from_dict({
        "nodes": [{"count": 4, "cores": 6, "memory": 8}, {"count": 2, "cores": 6, "memory": 16}],
        "nodes_per_rack": 3, "lending": "all" if seed % 2 else "rack",
        "pools": [{**gpus, "detach_latency": "1 s"} if seed % 4 == 3 else gpus, DRIVES],
        "counted": [{"name": "matlab", "amount": 3}],
        "links": {"mb_s": 1000, "oversubscribe": 1.5, "profiles": profiles, "racks": {"mb_s": "12 Gb/s"}},
    })  # fmt: skip
    submit = np.sort(random.integers(0, 400, count)) * S
    work = random.integers(1, 90, count) * S
    drives = random.random(count) < 0.2
    asked = {
        ("gpu", "devices"): random.integers(0, 4, count), ("links", "mb_s"): random.integers(0, 3, count) * 240,
        ("links", "remote_mb_s"): random.integers(0, 3, count) * 170,
        ("counted", "matlab"): random.integers(0, 3, count),
    }  # fmt: skip
    names = ("nw", "gaussian", "srad", "other")
    jobs = job_table(
        submit_us=submit, work_us=work, request_us=np.maximum(work + random.integers(-3, 9, count) * 5 * S, 0),
        tasks=random.integers(1, 3, count), cores=random.integers(1, 4, count), memory_mb=random.integers(0, 6, count),
        priority=random.integers(0, 2, count), app=pl.Series([names[i] for i in random.integers(0, 4, count)]),
        devices=asked | {("nvme", name): np.where(drives, most, 0) for name, most in ASKS.items()},
    )  # fmt: skip
    return cluster, jobs, ()


POWER = {"idle": 50, "core": 10, "off": 5, "cap": "620 W", "devices": {"counted.matlab": 7.5},
         "nodes": [{"nodes": ["3-4"], "idle": 70, "peak": 130}],
         "switch_off": {"after": 20, "shutdown": 3, "boot": 15, "boot_watts": 75, "keep_on": 1}}  # fmt: skip


def capped(seed: int, count: int = 24) -> tuple[Cluster, JobTable, tuple[str, ...]]:
    """Nodes under a power cap, of which idle ones are switched off, beside licences, drives and memory that is lent."""
    random = np.random.default_rng(seed)
    cluster = Cluster.from_dict({
        "nodes": [{"count": 3, "cores": 4, "memory": 8}, {"count": 2, "cores": 6, "memory": 16}],
        "nodes_per_rack": 3, "lending": "all" if seed % 2 else "rack", "pools": [DRIVES],
        "counted": [{"name": "matlab", "amount": 9, "asked_by": "task"}], "power": POWER,
    })  # fmt: skip
    submit = np.sort(random.integers(0, 900, count)) * S
    work = random.integers(1, 90, count) * S
    drives = random.random(count) < 0.3
    asked = {("counted", "matlab"): random.integers(0, 3, count)}
    jobs = job_table(
        submit_us=submit, work_us=work, request_us=np.maximum(work + random.integers(-3, 9, count) * 5 * S, 0),
        tasks=random.integers(1, 4, count), cores=random.integers(1, 4, count), memory_mb=random.integers(0, 8, count),
        priority=random.integers(0, 2, count),
        devices=asked | {("nvme", name): np.where(drives, most, 0) for name, most in ASKS.items()},
    )  # fmt: skip
    return cluster, with_watts(cluster, jobs), ()


def honest(jobs: JobTable, exact: bool) -> JobTable:
    """The same, and nobody runs for longer than was asked; or just as long as was asked."""
    asks = jobs.asks.copy()
    asks[3] = jobs.work_us if exact else np.maximum(asks[3], jobs.work_us)
    return replace(jobs, asks=asks)


MIXES: dict[str, tuple[Callable[[int], Any], dict[str, str]]] = {
    "everything": (everything, {"memory": "disaggregated", "place": "disaggregation-aware"}),
    "everything-whole": (everything, {"memory": "contention-aware", "nodes": "whole"}),
    "counted": (licences, {"place": "best-fit"}),
    "counted-lent": (licences, {"memory": "disaggregated", "nodes": "whole"}),
    "spread": (kept_apart, {"place": "best-fit"}),
    "spread-lent": (kept_apart, {"memory": "disaggregated"}),
    "gpus": (machines, {"place": "best-fit"}),
    "gpus-lent": (machines, {"memory": "disaggregated", "gpus": "topology"}),
    "gpus-fgd": (partial(machines, profiles=""), {"gpus": "fgd"}),
    "gpus-whole": (partial(machines, profiles=""), {"gpus": "drb", "nodes": "whole"}),
    "links": (disaggregated_gpus, {"place": "best-fit"}),
    "links-lent": (disaggregated_gpus, {"memory": "disaggregated"}),
    "links-whole": (partial(disaggregated_gpus, profiles=""), {"place": "worst-fit", "nodes": "whole"}),
    "power": (capped, {"place": "best-fit"}),
    "power-lent": (capped, {"memory": "disaggregated"}),
    "tiers-and-pools": (tiers_and_pools, {"memory": "slo", "place": "best-fit"}),
}
"""Mixes by name: a world and the rules for it."""


def mixed_cases() -> Iterator[tuple[str, str]]:
    """Every discipline over every mix: a policy, and the name of the mix."""
    for mix, (_, rules) in MIXES.items():
        for discipline in DISCIPLINES:
            yield with_rules(discipline, **rules), mix
    for scheduler in ("slurm", "easy", "conservative"):
        yield f"local-spread(scheduler={scheduler})", "everything"
    yield "max-composition(memory=naive)", "everything"
    yield "lookahead(memory=local)", "everything"
    yield "easy(place=lookahead, memory=strawman)", "everything"
    for policy in ("first-fit", "disaggregation-aware", "lookahead", "random-fit", "local(scheduler=easy)", "baseline"):
        yield policy, "counted"
    for policy in (
        "topo-aware",
        "topo-aware-p(patience=60 s)",
        "topo-aware-p(gpus=topology)",
        "first-fit",
        "lookahead",
    ):
        yield policy, "gpus"
    for policy in ("first-fit", "random-fit", "disaggregation-aware", "lookahead"):
        yield policy, "links"
    yield "naive(scheduler=easy)", "gpus-lent"
    yield "slo", "tiers-and-pools"
    yield "slo-first-fit(place=worst-fit)", "tiers-and-pools"
