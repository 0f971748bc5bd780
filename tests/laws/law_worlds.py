"""Random small worlds for the laws: every policy in every kind of world that it declares, and runs to be watched."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from unrack.cluster.spec import Cluster
from unrack.core import Core
from unrack.events import Event
from unrack.ledger.lease import Lease
from unrack.policy.contract import Decision, Policy, Resize, Start
from unrack.policy.table import POLICIES, parse_policy
from unrack.sim.faults import Fault
from unrack.sim.kernel import Kernel
from unrack.sim.log import RunLog
from unrack.sim.simulate import prepared
from unrack.sim.world import World as Physics
from unrack.workload.job import JobTable, job_table
from unrack.workload.tier_asks import NO_CEILING, tier_asks

S = 1_000_000
"""Microseconds in a second."""


DRIVES = {"bandwidth_mb_s": 1800, "capacity_mb": 40_000}
"""What a task asks of a drive."""


class World(NamedTuple):
    """A run's input without its policy."""

    cluster: Cluster
    jobs: JobTable
    models: tuple[str, ...] = ()
    contention: str | None = None
    faults: tuple[Fault, ...] = ()


def times(random: np.random.Generator, count: int, span: int) -> dict[str, Any]:
    """Submissions in whole seconds with many equal ones, run times, and requests of which some are too short."""
    run = random.integers(0, 30, count) * S
    off = random.integers(-5, 20, count) * S
    return {
        "submit_us": np.sort(random.integers(0, span, count)) * S,
        "work_us": run,
        "request_us": np.maximum(run + off, 0),
    }


def faults(random: np.random.Generator, nodes: int, span: int = 80, most: int = 3) -> tuple[Fault, ...]:
    """Fewer than ``most`` nodes that go down for a while, in the first ``span`` seconds."""
    return tuple(
        Fault(f"node{random.integers(nodes)}", int(at) * S, int(random.integers(1, 3 * span // 8)) * S)
        for at in random.integers(0, span, int(random.integers(0, most)))
    )


def users(count: int) -> pl.Series:
    """A few users who come again and again, and jobs of which no user is known; as many draws as ever for the rest."""
    random = np.random.default_rng(count)
    return pl.Series([f"user {u}" if u else None for u in random.integers(0, 4, count)], dtype=pl.String)


def plain(seed: int) -> World:
    """Tasks of one core on nodes of several."""
    random = np.random.default_rng(seed)
    cluster = Cluster.homogeneous(nodes=int(random.integers(2, 5)), cores=int(random.integers(1, 4)))
    count = 40
    tasks = random.integers(1, cluster.total_cores + 1, count)
    jobs = job_table(tasks=tasks, user=users(count), **times(random, count, 200))
    return World(cluster, jobs, faults=faults(random, len(cluster)))


def mixed(seed: int) -> World:
    """Unequal nodes; tasks of several cores and some memory; priorities."""
    random = np.random.default_rng(seed)
    cluster = Cluster.from_dict(
        {"nodes": [{"count": 3, "cores": 2, "memory": 8}, {"count": 2, "cores": 6, "memory": 24}], "nodes_per_rack": 2}
    )
    count = 40
    jobs = job_table(
        tasks=random.integers(1, 5, count), cores=random.integers(1, 3, count), memory_mb=random.integers(0, 5, count),
        priority=random.integers(0, 3, count), user=users(count), **times(random, count, 120),
    )  # fmt: skip
    return World(cluster, jobs, faults=faults(random, len(cluster)))


def lending(seed: int) -> World:
    """Whole nodes with little and with much memory; every second world is contended."""
    random = np.random.default_rng(seed)
    cluster = Cluster.from_dict(
        {"nodes": [{"count": 4, "cores": 2, "memory": 8}, {"count": 2, "cores": 2, "memory": 16}],
         "nodes_per_rack": 3, "lending": "all" if seed % 3 else "rack"}
    )  # fmt: skip
    count = 40
    early = np.where(np.arange(count) < 12, 4, 12)  # at first nobody has to borrow
    jobs = job_table(
        tasks=random.integers(1, 5, count), cores=random.integers(1, 3, count),
        memory_mb=(early * random.random(count)).astype(np.int64), **times(random, count, 250),
    )  # fmt: skip
    return World(cluster, jobs, contention="synthetic" if seed % 2 else None, faults=faults(random, len(cluster)))


def pooled(seed: int) -> World:
    """A pool of drives that are composed and shared, jobs with deadlines, and a model of what sharing costs."""
    random = np.random.default_rng(seed)
    pool = {"name": "drives", "kind": "nvme", "count": 4, "compose": 3, "share": 6,
            "quantities": {"bandwidth_mb_s": 2000, "capacity_mb": 600_000}}  # fmt: skip
    cluster = Cluster.from_dict({"nodes": [{"count": 3, "cores": 8}], "pools": [pool]})
    count = 36
    asks = random.random(count) < 0.7
    table = times(random, count, 5000)
    table["work_us"] = np.where(asks, 1600, random.integers(1, 900, count)) * S
    table["request_us"] = table["work_us"] + random.integers(-3, 3, count) * 50 * S
    due = table["submit_us"] + random.integers(1000, 5000, count) * S
    jobs = job_table(
        tasks=random.integers(1, 3, count), cores=random.integers(1, 4, count),
        deadline_us=np.where(random.random(count) < 0.8, due, -1), priority=random.integers(0, 2, count),
        app=pl.Series(np.where(asks, "smufin", "other").tolist()),
        devices={("nvme", name): np.where(asks, most, 0) for name, most in DRIVES.items()},
        **table,
    )  # fmt: skip
    return World(cluster, jobs, ("smufin",) if seed % 3 else (), faults=faults(random, len(cluster)))


def tiered(seed: int) -> World:
    """Servers that come and go on clusters of pools in three tiers."""
    random = np.random.default_rng(seed)
    computing = 3
    pools = [{"name": f"p{i}", "count": 1, "memory": f"{random.integers(2, 9)} MB", "tier": tier}
             for i, tier in enumerate(("rack", "rack", "far"))]  # fmt: skip
    nodes = [
        {"count": 1, "name": f"c{i}", "cores": 4, "memory": f"{random.integers(3, 7)} MB"} for i in range(computing)
    ]
    cluster = Cluster.from_dict({
        "nodes": nodes, "memory_pools": pools,
        "tiers": [{"name": "local", "price": 4}, {"name": "rack", "cost": 1, "price": 2}, {"name": "far", "cost": 2}],
        "pool_clusters": [[f"node{i}", *(f"node{computing + p}" for p in range(3) if random.random() < 0.7)]
                          for i in range(computing)],
    })  # fmt: skip
    count = 40
    mb = random.integers(1, 8, count)
    floor = (mb * random.random(count) * random.integers(0, 2, count)).astype(np.int64)
    ceiling = np.where(random.random(count) < 0.4, NO_CEILING, (mb - floor) * 3)
    group = pl.Series(np.where(random.random(count) < 0.3, "g", None).tolist(), dtype=pl.String)
    jobs = job_table(
        tasks=np.ones(count, np.int64), cores=random.integers(1, 4, count), memory_mb=mb,
        slo=tier_asks(floor, ceiling.astype(np.int64), group=group), **times(random, count, 250),
    )  # fmt: skip
    return World(cluster, jobs, faults=faults(random, computing))


def cases() -> Iterator[tuple[str, Callable[[int], World]]]:
    """Every policy, with variants, and every kind of world that it declares."""
    for name, entry in POLICIES.items():
        policy = parse_policy(name)
        if policy.traits.tiers:
            yield name, tiered
            yield f"{name}(full=reject)", tiered
            continue
        if "scheduler" in entry.parameters:
            for scheduler in ("slurm", "easy", "conservative"):
                yield f"{name}(scheduler={scheduler})", lending
            continue
        if "nodes" not in entry.parameters:
            yield name, pooled
            yield name, mixed
            continue
        yield name, plain
        yield name, mixed
        if name == "easy++":
            yield f"{name}(correction=request, rounds=events)", plain
            yield f"{name}(correction=double, predict_at=submission)", mixed
            yield f"{name}(nodes=whole, backfill_order=wfp3)", mixed
        if name in ("fcfs", "easy", "conservative", "slurm"):
            yield f"{name}(nodes=whole)", mixed
            yield f"{name}(estimates=exact)", mixed
        if name in ("easy", "conservative", "list"):
            yield f"{name}(order=wfp3)", mixed
        if name in ("easy", "conservative"):
            yield name, pooled


CASES = list(cases())
IDS = [f"{text}-{world.__name__}" for text, world in CASES]


def begun(world: World, policy: str | Policy[Any], *, arrivals: bool = False, jobs: JobTable | None = None) -> Kernel:
    """A run that is about to begin; ``arrivals``: of a core that knows no jobs and is brought them."""
    chosen = parse_policy(policy) if isinstance(policy, str) else policy
    return prepared(
        world.cluster,
        world.jobs if jobs is None else jobs,
        chosen,
        5,
        Physics(models=world.models, contention=world.contention, faults=world.faults),
        arrivals=arrivals,
    )


def words(decision: Decision) -> tuple[Any, ...]:
    """A decision as values that can be compared."""
    if isinstance(decision, Start | Resize):
        lease = decision.lease
        return type(decision).__name__, lease.job, lease.rows.tolist(), lease.borrowed.tolist(), lease.shares
    return (type(decision).__name__, *decision)


def recorded(kernel: Kernel) -> list[tuple[Event, int, list[tuple[Any, ...]]]]:
    """What the core will be told and what it will answer, written down while the run goes on."""
    found: list[tuple[Event, int, list[tuple[Any, ...]]]] = []
    handle = kernel.core.handle

    def writing(event: Event, now: int) -> list[Decision]:
        decisions = handle(event, now)
        found.append((event, now, [words(decision) for decision in decisions]))
        return decisions

    kernel.core.handle = writing  # type: ignore[method-assign]
    return found


def attempts(log: RunLog, before_us: int) -> list[tuple[Any, ...]]:
    """What was started before a moment: when, where, on which devices, with whose memory."""
    shares: dict[int, list[Any]] = {}
    for span, share in zip(log.share_span.tolist(), log.shares, strict=True):
        shares.setdefault(span, []).append(share)
    found = []
    for span, attempt in enumerate(log.span_attempt.tolist()):
        if log.span_start_us[span] < before_us:
            rows = log.rows[log.span_rows[span] : log.span_rows[span + 1]].tolist()
            loans = log.loans[log.span_loans[span] : log.span_loans[span + 1]].tolist()
            found.append((int(log.attempt_job[attempt]), int(log.span_start_us[span]), rows, loans, shares.get(span)))
    return sorted(found, key=repr)


def held(lease: Lease) -> tuple[Any, ...]:
    """All that a lease says, as values that can be compared."""
    columns = (column.tolist() for column in (lease.rows, lease.borrowed, lease.claims))
    return lease.job, *columns, lease.shares, *map(held, lease.parts)


def ledger(core: Core) -> dict[str, Any]:
    """All that a core's ledger says: amounts, the queue, who runs on what until when, devices."""
    state = core.state
    running = state.running[:, : state.running_count]
    found = {
        "free": state.free.tolist(), "free_cores": state.free_cores, "online": state.online.tolist(),
        "status": bytes(state.conditions), "running": running.tolist(), "asks": state.asks.tobytes(),
        "queue": state.queue[state.queue_start : state.queue_end].tolist(),
        "versions": (state.version, state.releases, state.capacity_version),
        "leases": [held(state.lease(job)) for job in sorted(running[1].tolist())],
    }  # fmt: skip
    if state.memory is not None:
        found |= {"lent": state.memory.lent.tolist(), "borrowed": state.memory.borrowed.tolist()}
    if state.claimed is not None:
        found |= {"claimed": state.claimed.free.tolist(), "asking": state.claimed.asking}
    if state.devices is not None:
        found |= {name: column.tobytes() for name, column in state.devices.columns._asdict().items()}
    return found
