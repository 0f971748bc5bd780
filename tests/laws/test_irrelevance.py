"""Law 11, irrelevance: what is not scarce changes no schedule. Over all disciplines and resources.

Each case is a small world twice: as it is, and with something of which there is plenty. Partitions are carried along
with the jobs and decide nothing, so that there is no case of one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
from law_worlds import S, begun
from law_worlds import World as Run
from tries import some

from unrack.cluster.spec import Cluster
from unrack.workload.job import JobTable, job_table

NODES = [{"count": 4, "cores": 2, "memory": 4}]
DISCIPLINES = (
    "fcfs", "sjf", "list(backfill=any)", "easy", "easy(backfill_order=sjf)", "conservative", "conservative(order=sjf)",
    "slurm(interval=10 s)", "flow(interval=0)", "first-fit", "lookahead",
)  # fmt: skip
LENDERS = ("naive(scheduler=easy)", "disaggregated(scheduler=conservative)", "disaggregated(scheduler=slurm)")


class World(NamedTuple):
    """A cluster as of a file, what its jobs are made of, and models of how they run."""

    cluster: dict[str, Any]
    jobs: dict[str, Any]
    models: tuple[Any, ...] = ()


def plain(seed: int, count: int = 24) -> World:
    """Tasks of one or two cores on four nodes; every other request is longer than the run."""
    random = np.random.default_rng(seed)
    work = random.integers(1, 20, count) * S
    over = np.where(random.random(count) < 0.5, 0, random.integers(0, 20, count)) * S
    jobs = {
        "submit_us": np.sort(random.integers(0, 90, count)) * S, "work_us": work, "request_us": work + over,
        "tasks": random.integers(1, 4, count), "cores": random.integers(1, 3, count),
        "memory_mb": random.integers(0, 2, count),
    }  # fmt: skip
    return World({"nodes": NODES}, jobs)


def asked(world: World, kind: str, one: int = 1) -> dict[tuple[str, str], Any]:
    """Every third job asks for so much of something."""
    return {("counted", kind): np.where(np.arange(len(world.jobs["tasks"])) % 3 == 0, one, 0)}


def licence(world: World) -> World:
    """A licence of which there are a million, asked by every third job."""
    counted = [{"name": "matlab", "amount": 1_000_000}]
    return World(world.cluster | {"counted": counted}, world.jobs | {"devices": asked(world, "matlab")})


def licence_nobody_asks(world: World) -> World:
    """The same, and no job asks for it."""
    return World(world.cluster | {"counted": [{"name": "matlab", "amount": 1_000_000}]}, world.jobs)


def uplink(world: World) -> World:
    """An uplink of a rack that is never full."""
    counted = [{"name": "uplink_mb_s", "amount": "1000000 GB/s", "per": "rack"}]
    cluster = world.cluster | {"nodes_per_rack": 2, "counted": counted}
    return World(cluster, world.jobs | {"devices": asked(world, "uplink_mb_s")})


def link(world: World) -> World:
    """Links of the nodes that are never full."""
    devices = {("links", "mb_s"): asked(world, "", 1)["counted", ""]}
    return World(world.cluster | {"links": {"mb_s": 1_000_000}}, world.jobs | {"devices": devices})


def gpus(world: World) -> World:
    """GPUs for everybody, in every node, asked by every third job: a hundredth of one a task."""
    machine = {"gpus": 8, "per_socket": 4}
    last = sum(kind["count"] for kind in world.cluster["nodes"]) - 1
    cluster = world.cluster | {"gpus": {"machines": [{"machine": machine, "nodes": f"0-{last}"}]}}
    devices = {("gpus", "milli"): asked(world, "", 10)["counted", ""]}
    return World(cluster, world.jobs | {"devices": devices})


def drives(world: World) -> World:
    """A pool of drives of which a task of every third job takes a thousandth."""
    pool = {"name": "drives", "kind": "nvme", "count": 64, "share": 64, "quantities": {"capacity_mb": 1_000_000}}
    devices = {("nvme", "capacity_mb"): asked(world, "", 1)["counted", ""]}
    return World(world.cluster | {"pools": [pool]}, world.jobs | {"devices": devices})


def drives_of_nodes(world: World) -> World:
    """A drive in each node for each of its cores, and more, of which a task of every third job takes a part."""
    pool = {"name": "drives", "kind": "nvme", "count": 8, "per": "node", "quantities": {"capacity_mb": 1_000_000}}
    return World(drives(world).cluster | {"pools": [pool]}, drives(world).jobs)


def gateway(world: World) -> World:
    """A gateway in each rack, for a million jobs."""
    gate = {"name": "gate", "amount": 1_000_000, "per": "rack", "asked_by": "job"}
    cluster = world.cluster | {"nodes_per_rack": 1, "counted": [gate]}
    return World(cluster, world.jobs | {"devices": asked(world, "gate")})


def apart(world: World) -> World:
    """A group of tasks of which a million may be on one node."""
    devices = {
        ("spread", "group"): asked(world, "", 1)["counted", ""],
        ("spread", "most"): asked(world, "", 1_000_000)["counted", ""],
    }
    return World(world.cluster | {"spread": {"groups": 1}}, world.jobs | {"devices": devices})


def useless_node(world: World) -> World:
    """A node behind the others that no job may use: it is out of service from the beginning to the end."""
    nodes = [*world.cluster["nodes"], {"count": 1, "cores": 2, "memory": 4, "name": "gone"}]
    return World(world.cluster | {"nodes": nodes, "drained": "4"}, world.jobs)


def useless_first_node(world: World) -> World:
    """The same before the others."""
    nodes = [{"count": 1, "cores": 2, "memory": 4, "name": "gone"}, *world.cluster["nodes"]]
    return World(world.cluster | {"nodes": nodes, "drained": "0"}, world.jobs)


def memory_to_lend(world: World) -> World:
    """Nodes may lend each other memory, and none has to."""
    return World(world.cluster | {"lending": "all"}, world.jobs)


UNSCARCE: tuple[Callable[[World], World], ...] = (
    licence, licence_nobody_asks, uplink, link, gpus, drives, apart, useless_node, useless_first_node,
    memory_to_lend,
)  # fmt: skip

MORE_THAN_NODES = (licence, uplink, link, gpus, drives, apart)
"""What jobs ask for beside nodes."""
SEEDS = (0, 1, 5)


def starts(world: World, policy: str) -> dict[int, float]:
    """When each job starts, s."""
    jobs: JobTable = job_table(**world.jobs)
    log = begun(Run(Cluster.from_dict(world.cluster), jobs, world.models), policy).run()
    return dict(zip(log.attempt_job.tolist(), (log.attempt_start_us / S).tolist(), strict=True))


@cache
def as_it_is(policy: str, seed: int) -> dict[int, float]:
    """The starts of a plain world."""
    return starts(plain(seed), policy)


def difference(before: dict[Any, float], after: dict[Any, float]) -> str:
    """How many starts differ, and which is the first; nothing if none does."""
    wrong = sorted((at, job) for job, at in before.items() if after.get(job) != at)
    if not wrong:
        return ""
    at, job = wrong[0]
    later = f"starts at {after[job]:g} s" if job in after else "never starts"
    return f"{len(wrong)} of {len(before)} starts differ; first job {job}, which starts at {at:g} s and now {later}"


CASES = [
    pytest.param(policy, unscarce, id=f"{policy}-{unscarce.__name__}")
    for unscarce in UNSCARCE
    for policy in (*DISCIPLINES, *LENDERS)
]
"""Every discipline beside everything of which there is plenty."""


@pytest.mark.parametrize(("policy", "unscarce"), CASES)
def test_what_is_not_scarce_changes_no_schedule(policy: str, unscarce: Callable[[World], World]) -> None:
    before = {(seed, job): at for seed in SEEDS for job, at in as_it_is(policy, seed).items()}
    after = {(seed, job): at for seed in SEEDS for job, at in starts(unscarce(plain(seed)), policy).items()}
    told = difference(before, after)
    assert not told, told


BORROWERS = (
    "disaggregated(scheduler=fcfs)", "disaggregated(scheduler=easy)", "disaggregated(scheduler=slurm)",
    "disaggregated(scheduler=conservative)", "naive(scheduler=slurm)", "local(scheduler=conservative)",
)  # fmt: skip


@pytest.mark.parametrize("policy", BORROWERS)
@pytest.mark.draws(12)
def test_a_licence_of_which_there_is_plenty_changes_nothing_where_jobs_borrow(policy: str) -> None:
    for seed in range(some(12)):
        random = np.random.default_rng([BORROWERS.index(policy), seed])
        world = plain(seed, 40)
        wide = random.random(40) < 0.4
        jobs = world.jobs | {"memory_mb": np.where(wide, random.integers(4, 7, 40), world.jobs["memory_mb"])}
        lending = World({"nodes": [{"count": 6, "cores": 2, "memory": 4}], "lending": "all"}, jobs)
        before, after = starts(lending, policy), starts(licence(lending), policy)
        told = difference(before, after)
        assert not told, f"world {seed}: {told}"


def random_world(random: np.random.Generator, alike: bool) -> World:
    """Up to 30 jobs on nodes of up to three kinds; ``alike``: every task asks for a core and no memory."""
    count = int(random.integers(8, 31))
    kinds = [
        {"count": int(random.integers(1, 4)), "cores": int(random.integers(1, 5)), "memory": int(random.integers(1, 9))}
        for _ in range(int(random.integers(1, 4)))
    ]
    one = np.ones(count, np.int64)
    run = random.integers(1, 30, count) * S
    jobs = {
        "submit_us": np.sort(random.integers(0, int(random.integers(5, 150)), count)) * S, "work_us": run,
        "request_us": run + np.where(random.random(count) < 0.5, 0, random.integers(-3, 30, count)).clip(0) * S,
        "tasks": random.integers(1, 5, count), "cores": one if alike else random.integers(1, 3, count),
        "memory_mb": 0 * one if alike else random.integers(0, 3, count),
    }  # fmt: skip
    return World({"nodes": kinds}, jobs)


VARIANTS = (
    "conservative", "conservative(order=sjf)", "conservative(compress=ends)", "conservative(place=best-fit)",
    "conservative(place=worst-fit)", "slurm(interval=7 s)", "slurm(interval=20 s, depth=4)", "easy",
    "list(backfill=any)", "easy(place=best-fit)", "easy(place=worst-fit)", "conservative(place=tightest-run)",
)  # fmt: skip
WORLDS = 400


@pytest.mark.parametrize(
    ("policy", "worlds"),
    [*((policy, 8) for policy in VARIANTS), *(pytest.param(p, WORLDS, marks=pytest.mark.slow) for p in VARIANTS)],
)
def test_what_is_not_scarce_changes_nothing_on_random_worlds(policy: str, worlds: int) -> None:
    for seed in range(worlds):
        random = np.random.default_rng([VARIANTS.index(policy), seed])
        world = random_world(random, alike=seed % 4 == 0)
        nodes = sum(kind["count"] for kind in world.cluster["nodes"])
        unscarce = [licence, link, apart, drives]
        other = unscarce[seed % len(unscarce)](world)
        told = difference(starts(world, policy), starts(other, policy))
        assert not told, f"{unscarce[seed % len(unscarce)].__name__} in world {seed} of {nodes} nodes: {told}"


@pytest.mark.parametrize("worlds", [range(12), pytest.param(range(12, WORLDS), marks=pytest.mark.slow)])
def test_nor_where_a_plan_counts_cores_or_whole_nodes(worlds: range) -> None:
    """Whatever a job asks on its nodes: of what is ample the plan knows nothing, and so goes on to count."""
    counting = ("conservative", "slurm(interval=7 s)", "conservative(nodes=whole)", "slurm(interval=7 s, nodes=whole)",
                "conservative(nodes=whole, place=best-fit)", "naive(scheduler=conservative)")  # fmt: skip
    for seed in worlds:
        policy = counting[seed % len(counting)]
        world = random_world(np.random.default_rng([6, seed]), alike="whole" not in policy and "naive" not in policy)
        plain = starts(world, policy)
        nodes = sum(kind["count"] for kind in world.cluster["nodes"])
        for unscarce in (link, apart, drives, gpus, drives_of_nodes, *((gateway,) if nodes > 1 else ())):
            told = difference(plain, starts(unscarce(world), policy))
            assert not told, f"{policy}, {unscarce.__name__}, world {seed}: {told}"


@pytest.mark.long
def test_on_whole_nodes_the_tightest_run_is_of_the_first_nodes_whatever_jobs_ask_there() -> None:
    for seed in range(6):
        world = random_world(np.random.default_rng([7, seed]), alike=False)
        for beside in (link, apart, drives):
            for rule in ("easy(nodes=whole)", "conservative(nodes=whole)", "easy(nodes=whole, memory=disaggregated)"):
                made = beside(World(world.cluster | ({"lending": "all"} if "memory" in rule else {}), world.jobs))
                told = difference(starts(made, rule), starts(made, rule.replace(")", ", place=tightest-run)")))
                assert not told, f"{rule}, {beside.__name__}, world {seed}: {told}"


BORROWING = (
    *(f"{name}(memory={rule})" for name in ("easy", "conservative") for rule in ("naive", "local", "disaggregated")),
    "slurm(interval=7 s, memory=disaggregated)", "easy(memory=disaggregated, nodes=whole)",
)  # fmt: skip


@pytest.mark.parametrize(
    ("policy", "worlds"),
    [*((policy, 8) for policy in BORROWING), *(pytest.param(p, WORLDS, marks=pytest.mark.slow) for p in BORROWING)],
)
def test_nor_does_it_where_tasks_borrow_memory(policy: str, worlds: int) -> None:
    for seed in range(worlds):
        random = np.random.default_rng([BORROWING.index(policy), seed])
        world = random_world(random, alike=False)
        wide = random.random(len(world.jobs["tasks"])) < 0.3
        jobs = world.jobs | {"memory_mb": np.where(wide, random.integers(0, 6, len(wide)), world.jobs["memory_mb"])}
        lending, unscarce = World(world.cluster | {"lending": "all"}, jobs), (licence, link, apart, drives, drives)
        other = unscarce[seed % len(unscarce)](lending)
        told = difference(starts(lending, policy), starts(other, policy))
        assert not told, f"{unscarce[seed % len(unscarce)].__name__} in world {seed}: {told}"


TEN = [
    (2, 4, 21, 1), (4, 17, 17, 2), (7, 8, 25, 2), (10, 10, 13, 1), (11, 17, 27, 3), (13, 13, 31, 3), (13, 15, 24, 1),
    (14, 13, 15, 2), (16, 2, 2, 3), (24, 11, 15, 1),
]  # fmt: skip
"""Submission, run, request (s) and tasks of ten jobs."""


def test_one_licence_of_a_million_asked_by_one_job_of_ten_changes_no_conservative_plan() -> None:
    submit, run, request, tasks = np.array(TEN, np.int64).T
    jobs = {
        "submit_us": submit * S, "work_us": run * S, "request_us": request * S, "tasks": tasks,
        "cores": np.array([2, 1, 2, 2, 2, 2, 1, 2, 2, 2]),
    }  # fmt: skip
    world = World({"nodes": [{"count": 2, "cores": 4, "memory": 4}]}, jobs)
    one = {("counted", "matlab"): (np.arange(10) == 0).astype(np.int64)}
    counted = [{"name": "matlab", "amount": 1_000_000}]
    other = World(world.cluster | {"counted": counted}, jobs | {"devices": one})
    told = difference(starts(world, "conservative"), starts(other, "conservative"))
    assert not told, told
