"""Small data centres with tiers of memory, servers that come and go on them, and their results counted plainly."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np
import polars as pl

import unrack
from unrack.cluster.spec import Cluster
from unrack.sim.faults import Fault
from unrack.sim.log import RunLog
from unrack.sim.result import Result
from unrack.workload.formats.rules import Intake
from unrack.workload.job import JobTable, Workload, job_table
from unrack.workload.tier_asks import NO_CEILING, tier_asks

S = 1_000_000
RULES = ("slo", "slo-first-fit", "slo-best-fit", "slo(full=reject)", "fcfs")


def centre(draws: np.random.Generator) -> Cluster:
    """One to four compute pools, pools of one or two tiers further away, each in any clusters; some of them empty."""
    computing, remote = int(draws.integers(1, 5)), int(draws.integers(0, 5))
    tiers = [
        {"name": "local", "price": 4},
        {"name": "rack", "cost": 1, "price": 1.5},
        {"name": "far", "cost": 2.5, "price": 0.25},
    ]
    kinds = [int(kind) for kind in np.sort(draws.integers(1, 3, remote))]
    nodes = [
        {"count": 1, "name": f"c{i}", "cores": int(draws.integers(1, 6)), "memory": f"{draws.integers(1, 6)} MB"}
        for i in range(computing)
    ]
    pools = [
        {"name": f"p{i}", "count": 1, "memory": f"{draws.integers(1, 9)} MB", "tier": tiers[kind]["name"]}
        for i, kind in enumerate(kinds)
    ]
    clusters = [
        [f"node{i}", *(f"node{computing + pool}" for pool in range(remote) if draws.random() < 0.6)]
        for i in range(computing)
    ]
    table: dict[str, Any] = {"name": "small", "nodes": nodes, "tiers": tiers, "pool_clusters": clusters}
    return Cluster.from_dict({**table, **({"memory_pools": pools} if pools else {})})


def servers(draws: np.random.Generator, count: int) -> Workload:
    """Servers that come and go in whole seconds, some of which ask for more than there is."""
    mb = draws.integers(1, 8, count)
    floor = (mb * draws.random(count) * draws.integers(0, 2, count)).astype(np.int64)
    ceiling = np.where(draws.random(count) < 0.3, NO_CEILING, ((mb - floor) * draws.uniform(0, 3, count)))
    submit = np.sort(draws.integers(0, 60, count)) * S
    run = draws.integers(0, 40, count) * S
    names = np.where(draws.random(count) < 0.2, "far", None).tolist()
    jobs = job_table(
        submit_us=submit, work_us=run, request_us=run, tasks=np.ones(count, np.int64),
        cores=draws.integers(1, 4, count), memory_mb=mb,
        slo=tier_asks(floor, ceiling.astype(np.int64), forbidden=pl.Series(names, dtype=pl.String)),
    )  # fmt: skip
    return workload(jobs)


def workload(jobs: JobTable) -> Workload:
    return Workload("some", jobs, Intake("some", "test", len(jobs), len(jobs)))


@functools.cache
def some_run(seed: int) -> Result:
    """A run of random servers on a random data centre, with failures."""
    draws = np.random.Generator(np.random.PCG64(seed))
    cluster = centre(draws)
    faults = [
        Fault(f"node{draws.integers(len(cluster))}", int(draws.integers(0, 90)) * S, int(draws.integers(0, 30)) * S)
        for _ in range(int(draws.integers(0, 4)))
    ]
    rule = RULES[int(draws.integers(len(RULES)))]
    return unrack.simulate(cluster, servers(draws, int(draws.integers(1, 25))), rule, world=unrack.World(faults=faults))


# --- the same, plainly ------------------------------------------------------------------------------------------------


def held_by(log: RunLog, attempt: int) -> dict[int, int]:
    """Pool → MB of an attempt."""
    held: dict[int, int] = {}
    for first, nodes, _, _, mb in log.rows[log.attempt_rows[attempt] : log.attempt_rows[attempt + 1]].tolist():
        for node in range(first, first + nodes):
            held[node] = held.get(node, 0) + mb
    for _, lender, mb in log.loans[log.attempt_loans[attempt] : log.attempt_loans[attempt + 1]].tolist():
        held[lender] = held.get(lender, 0) + mb
    return held


def status_of(log: RunLog, attempt: int) -> str:
    """Which SLO an attempt breaks."""
    tiers, job = log.cluster.tiers, int(log.attempt_job[attempt])
    asks = log.jobs.slo
    local = sum(mb for node, mb in held_by(log, attempt).items() if tiers.tier[node] == 0)
    weighted = sum(mb * float(tiers.cost[node]) / tiers.cost_scale for node, mb in held_by(log, attempt).items())
    low, far = local < asks.floor_mb[job], weighted > asks.ceiling_mb[job]
    return ["met", "local", "remote", "both"][low + 2 * far]


def price_of(log: RunLog, attempt: int) -> float:
    """Price of an hour."""
    tiers = log.cluster.tiers
    return sum(mb / 1024 * tiers.price[node] / tiers.price_scale for node, mb in held_by(log, attempt).items())


def state_at(log: RunLog, time_us: int) -> dict[str, float]:
    """A row of the table of tiers, from its definitions, just after what happens at a time."""
    cluster, tiers, jobs = log.cluster, log.cluster.tiers, log.jobs
    now = [
        attempt for attempt in range(len(log.attempt_job))
        if log.attempt_start_us[attempt] <= time_us < log.attempt_end_us[attempt]
    ]  # fmt: skip
    down = {
        node for failure in log.failures for node in cluster.domain(failure.domain)
        if failure.at_us <= time_us < failure.repaired_us
    }  # fmt: skip
    free_mb = dict(enumerate(cluster.memory_mb.tolist()))
    free_cores = dict(enumerate(cluster.cores.tolist()))
    busy: set[int] = set()
    for attempt in now:
        for node, mb in held_by(log, attempt).items():
            free_mb[node] -= mb
        for first, nodes, _, cores, _ in log.rows[log.attempt_rows[attempt] : log.attempt_rows[attempt + 1]].tolist():
            busy |= set(range(first, first + nodes))
            for node in range(first, first + nodes):
                free_cores[node] -= cores
    least = int(jobs.cores.min()), int(jobs.memory_mb.min()), int(jobs.slo.floor_mb.min())

    def closed(pools: list[int]) -> bool:
        home = pools[0]
        if home in down or free_cores[home] < least[0] or free_mb[home] < least[2]:
            return True
        return sum(free_mb[pool] for pool in pools if pool not in down) < least[1]

    clusters = [tiers.pools(c).tolist() for c in range(tiers.clusters)]
    stranded = {
        pool for pool in free_mb
        if pool not in down and all(closed(pools) for pools in clusters if pool in pools)
    }  # fmt: skip
    opened = {pool for pools in clusters if pools[0] in busy for pool in pools}
    row: dict[str, float] = {
        "clusters_used": len(busy),
        "servers": sum(int(jobs.tasks[log.attempt_job[attempt]]) for attempt in now),
        "broken_local": sum(status_of(log, attempt) in ("local", "both") for attempt in now),
        "broken_remote": sum(status_of(log, attempt) in ("remote", "both") for attempt in now),
        "price_per_h": sum(price_of(log, attempt) for attempt in now),
        "least_price_per_h": sum(least_price(log, int(log.attempt_job[attempt])) for attempt in now),
        "opened_mb": sum(int(cluster.memory_mb[pool]) for pool in opened),
        "stranded_opened_mb": sum(free_mb[pool] for pool in opened & stranded),
    }
    for tier, name in enumerate(tiers.names):
        mine = [pool for pool in free_mb if tiers.tier[pool] == tier]
        row[f"used_mb_{name}"] = sum(int(cluster.memory_mb[pool]) - free_mb[pool] for pool in mine)
        row[f"stranded_mb_{name}"] = sum(free_mb[pool] for pool in mine if pool in stranded)
    return row


def least_price(log: RunLog, job: int) -> float:
    """The least price of an hour of a server alone, by trying every split over every empty cluster."""
    cluster, tiers, jobs = log.cluster, log.cluster.tiers, log.jobs
    memory, floor = int(jobs.memory_mb[job]), int(jobs.slo.floor_mb[job])
    no = {tiers.names.index(name) for name in jobs.slo.forbidden_of(job)}
    found: dict[bool, list[float]] = {True: [], False: []}
    for c in range(tiers.clusters):
        pools = tiers.pools(c).tolist()
        if jobs.cores[job] > cluster.cores[pools[0]]:
            continue
        most = [0 if tiers.tier[pool] in no else min(int(cluster.memory_mb[pool]), memory) for pool in pools]
        for split in itertools.product(*(range(mb + 1) for mb in most[:-1])):
            rest = memory - sum(split)
            if not 0 <= rest <= most[-1]:
                continue
            parts = list(zip(pools, [*split, rest], strict=True))
            weighted = sum(mb * float(tiers.cost[pool]) / tiers.cost_scale for pool, mb in parts)
            within = parts[0][1] >= floor and weighted <= jobs.slo.ceiling_mb[job]
            price = sum(mb / 1024 * tiers.price[pool] / tiers.price_scale for pool, mb in parts)
            found[within].append(price)
            found[False].append(price)
    return min(found[True] or found[False] or [0.0])
