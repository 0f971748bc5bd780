"""Law 11 where jobs ask for several things: rules for GPUs, counted plans of lent memory, preemption, sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import polars as pl
import pytest
from law_worlds import S, begun
from law_worlds import World as Run
from test_irrelevance import (
    World,
    apart,
    difference,
    drives,
    drives_of_nodes,
    gpus,
    licence,
    link,
    random_world,
    starts,
)

from unrack.cluster.spec import Cluster
from unrack.policy.discipline.skyline import reserved
from unrack.workload.job import job_table


def hours(world: World) -> World:
    """A partition of all nodes, of every other job, that is open for three months."""
    count, last = len(world.jobs["tasks"]), sum(kind["count"] for kind in world.cluster["nodes"]) - 1
    partition = {"name": "h", "nodes": [f"0-{last}"], "hours": [{"start": 0, "duration": "90 d"}]}
    extra = pl.DataFrame({"partition": ["h" if job % 2 else "" for job in range(count)]})
    return World(world.cluster | {"site": {"partitions": [partition]}}, world.jobs | {"extra": extra})


def kept_licences(world: World) -> World:
    """Three licences of a million are kept, from the beginning on."""
    kept = {"name": "kept", "licences": {"matlab": 3}, "start": 0, "duration": "90 d", "users": ["other"]}
    more = licence(world)
    return World(more.cluster | {"site": {"reservations": [kept]}}, more.jobs)


@pytest.mark.parametrize("worlds", [range(40), pytest.param(range(40, 2000), marks=pytest.mark.slow)])
def test_nor_where_a_counted_plan_lends(worlds: range) -> None:
    """Until a time at which nodes are kept is met, a Slurm-like plan of lent memory goes on to count."""
    unscarce, changed = (far_reservation, hours, kept_licences), 0
    for seed in worlds:
        random, rule = np.random.default_rng([9, seed]), ("disaggregated", "naive", "local", "strawman")[seed % 4]
        policy = f"{rule}(scheduler=slurm, interval={(1, 7)[seed % 2]} s)"
        world = random_world(random, alike=False)
        wide = random.random(len(world.jobs["tasks"])) < 0.4
        jobs = world.jobs | {"memory_mb": np.where(wide, random.integers(0, 9, len(wide)), world.jobs["memory_mb"])}
        world = World(world.cluster | {"lending": "all"}, jobs)
        plain = starts(world, policy)
        told = difference(plain, starts(unscarce[seed % 3](world), policy))
        assert not told, f"{policy}, {unscarce[seed % 3].__name__}, world {seed}: {told}"
        last = sum(kind["count"] for kind in world.cluster["nodes"]) - 1
        from_s = int(np.median([*plain.values(), 40])) + 3
        kept = {"name": "k", "nodes": [f"0-{last}"], "start": from_s, "duration": 50, "maintenance": True}
        near = starts(World(world.cluster | {"site": {"reservations": [kept]}}, jobs), policy)
        assert all(at >= from_s + 50 or at + jobs["request_us"][job] / S <= from_s for job, at in near.items()), seed
        changed += near != plain
    assert changed > len(worlds) // 2


RULED = ("fcfs", "easy", "conservative", "slurm(interval=7 s)", "list(backfill=any)")
GPU_RULES = ("best-fit", "worst-fit", "pack", "spread", "drb", "topology", "fgd", "dot-product", "packing")


def capped(world: World) -> World:
    """A cap on power that is never met."""
    return World(world.cluster | {"power": {"idle": 50, "core": 10, "cap": "1000000 kW"}}, world.jobs)


def far_reservation(world: World) -> World:
    """All nodes are kept in three months."""
    last = sum(kind["count"] for kind in world.cluster["nodes"]) - 1
    kept = {"name": "far", "nodes": [f"0-{last}"], "start": "90 d", "duration": "1 d", "maintenance": True}
    return World(world.cluster | {"site": {"reservations": [kept]}}, world.jobs)


def beside(made: Callable[[World], World]) -> Callable[[World], World]:
    """The same, beside what jobs ask already."""

    def both(world: World) -> World:
        more = made(world)
        asked = world.jobs.get("devices", {}) | more.jobs.get("devices", {})
        return World(more.cluster, more.jobs | {"devices": asked})

    return both


@pytest.mark.parametrize("worlds", [[*range(60), 137], pytest.param(range(60, 2000), marks=pytest.mark.slow)])
def test_nor_under_a_rule_for_gpus(worlds: Sequence[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """It says where jobs go whatever else they ask for, on the nodes that have that."""
    monkeypatch.setattr(reserved, "FEW_ASKED", -1)
    unscarce = licence, link, apart, drives, drives_of_nodes, capped, far_reservation
    for seed in worlds:
        random, rule = np.random.default_rng([8, seed]), GPU_RULES[seed % len(GPU_RULES)]
        policy = RULED[seed % len(RULED)].rstrip(")")
        policy += f"{', ' if '(' in policy else '('}gpus={rule})"
        world = gpus(random_world(random, alike=False))
        count = len(world.jobs["tasks"])
        sort = random.integers(0, 3, count)
        asks = {("gpus", "count"): np.where(sort == 1, random.integers(1, 5, count), 0),
                ("gpus", "milli"): np.where(sort == 2, random.integers(1, 9, count) * 100, 0)}  # fmt: skip
        world = World(world.cluster, world.jobs | {"devices": asks})
        other = beside(unscarce[seed % len(unscarce)])(world)
        told = difference(starts(world, policy), starts(other, policy))
        assert not told, f"{policy}, {unscarce[seed % len(unscarce)].__name__}, world {seed}: {told}"


def test_a_drive_for_all_is_no_reason_to_stop_a_further_job() -> None:
    """The last job takes a drive that another is to give back; with that one left alone, it takes the next drive."""
    submit, run, request, tasks = np.array(
        [(0, 17, 17, 1), (11, 4, 16, 1), (13, 21, 21, 1), (18, 24, 24, 4), (24, 19, 30, 1), (32, 7, 7, 1)], np.int64
    ).T
    one = np.ones(6, np.int64)
    jobs = {"submit_us": submit * S, "work_us": run * S, "request_us": request * S, "tasks": tasks, "cores": one,
            "extra": pl.DataFrame({"partition": ["", "", "l", "l", "k", "k"]}), "priority": 2 * (tasks == 4),
            "memory_mb": 0 * one}  # fmt: skip
    site = {
        "partitions": [{"name": "k", "nodes": ["0", "1", "4"], "tier": 2}, {"name": "l", "nodes": ["0-4"]}],
        "preempt": {"by": "partition", "exempt_time": 5, "mode": "checkpoint", "victims": "lowest"},
    }
    nodes = [{"count": 3, "cores": 3, "memory": 2}, {"count": 2, "cores": 4, "memory": 5}]
    world = World({"nodes": nodes, "site": site}, jobs)
    more = drives(world)
    asked = {key: np.isin(np.arange(6), (2, 5)).astype(np.int64) for key in more.jobs["devices"]}
    other = World(more.cluster, jobs | {"devices": asked})
    spans = [
        sorted(zip(log.attempt_job.tolist(), log.attempt_start_us.tolist(), strict=True))
        for log in (begun(Run(Cluster.from_dict(w.cluster), job_table(**w.jobs)), "easy(nodes=whole)").run()
                    for w in (world, other))
    ]  # fmt: skip
    assert spans[0] == spans[1]
    assert len(spans[0]) == 7  # one was stopped, once


SIZES = ("easy(resizing=egs)", "easy(resizing=fpsma)", "fcfs(resizing=egs)", "easy(molding=working-set, resizing=egs)")


@pytest.mark.parametrize("worlds", [range(40), pytest.param(range(40, 2000), marks=pytest.mark.slow)])
def test_nor_which_sizes_malleable_jobs_have(worlds: range) -> None:
    for seed in worlds:
        random, policy, made = np.random.default_rng([10, seed]), SIZES[seed % 4], (link, apart, licence)[seed % 3]
        world = random_world(random, alike=False)
        tasks = world.jobs["tasks"]
        sizes = {
            "min_tasks": random.integers(1, tasks + 1), "max_tasks": tasks + random.integers(0, 3, len(tasks)),
            "speedup": ["linear"] * len(tasks), "flexibility": ["malleable"] * len(tasks),
            "change_s": np.zeros(len(tasks), np.int64),
        }  # fmt: skip
        world = World(world.cluster, world.jobs | {"extra": pl.DataFrame(sizes)})
        told = difference(starts(world, policy), starts(made(world), policy))
        assert not told, f"{policy}, {made.__name__}, world {seed}: {told}"


@pytest.mark.parametrize(("policy", "node"), [("best-fit", 1), ("worst-fit", 2)])
def test_a_job_with_drives_goes_where_one_without_does_of_nodes_with_equal_cores(policy: str, node: int) -> None:
    """By memory: the tightest or the emptiest node of three."""
    nodes = [{"count": 1, "cores": 2, "memory": memory} for memory in (4, 2, 8)]
    one = np.ones(1, np.int64)
    world = World({"nodes": nodes}, {"submit_us": 0 * one, "work_us": S * one, "tasks": one, "memory_mb": one})
    found = []
    for each in (world, drives(world)):
        log = begun(Run(Cluster.from_dict(each.cluster), job_table(**each.jobs)), policy).run()
        found.append(log.rows[0, 0])
    assert found == [node, node]


@pytest.mark.parametrize("policy", RULED)
def test_a_drive_that_is_being_detached_is_not_waited_for_until_a_far_reservation_is_over(policy: str) -> None:
    """The only drive is free 3 s after its job has ended, early or not: then the next job is to start."""
    pool = {"name": "drives", "kind": "nvme", "count": 1, "share": 1, "quantities": {"capacity_mb": 1000},
            "detach_latency": "3 s"}  # fmt: skip
    cluster, two = {"nodes": [{"count": 3, "cores": 2, "memory": 4}], "pools": [pool]}, np.ones(2, np.int64)
    for request in (10, 50):
        jobs = {
            "submit_us": np.array([0, 1]) * S, "work_us": 10 * S * two, "request_us": request * S * two, "tasks": two,
            "cores": two, "memory_mb": 0 * two, "devices": {("nvme", "capacity_mb"): 500 * two},
        }  # fmt: skip
        world = World(cluster, jobs)
        assert starts(world, policy) == starts(far_reservation(world), policy)
        assert starts(world, policy)[1] in (13, 14)  # Slurm-like: at a multiple of 7 s
