"""A job that no empty cluster could hold is turned away, also if only all that it asks together is too much."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from device_worlds import PLACERS, D, World, cluster, play, pool, random_world, table, workload, worlds
from hypothesis import given
from tries import draws, seeds

from unrack import Cluster, simulate
from unrack.core.room import most_tasks
from unrack.kernels.arrays import Ints
from unrack.ledger.state import REJECTED
from unrack.sim.world import World as Physics
from unrack.slowdown.model import Pace
from unrack.workload.job import JobTable

JOBS = (
    D(0, 10, 8, 4, nvme=(500,)),
    D(0, 10, 8, 5, nvme=(500,)),
    D(0, 10, 8, 1, gpu=(10,), fpga=(5,)),
    D(1, 10, 8, 1, nvme=(500,), due=5),
)
"""A drive serves one node, on which two tasks have room: two drives serve four tasks. GPUs and FPGAs are apart."""


@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative", "slurm", "fcfs(memory=naive)", *PLACERS])
def test_a_job_that_never_finds_all_that_it_asks_at_once_holds_up_no_other(policy: str) -> None:
    pools = (
        pool("nvme", 2, 2000, 600, share=3),
        pool("gpu", 2, 100, 10, reach=["0-2"]),
        pool("fpga", 2, 10, reach=["3-5"]),
    )
    done = simulate(cluster([16] * 6, *pools), workload(*JOBS), policy).jobs
    assert done["state"].to_list() == ["finished", "rejected", "rejected", "finished"]
    said = "too-big: places for tasks, each with what it asks of "
    assert done["reason"][1] == f"{said}nvme.bandwidth_mb_s (asked 5, free 4)"
    assert done["reason"][2] == f"{said}gpu.bandwidth_mb_s, fpga.luts (asked 1, free 0)"


@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative", "slurm"])
def test_nor_does_one_that_finds_each_amount_that_it_asks_elsewhere(policy: str) -> None:
    fast, big = pool("nvme", 2, 5000, 100, name="fast"), pool("nvme", 2, 500, 9000, name="big")
    jobs = workload(D(0, 10, nvme=(4000, 5000)), D(1, 10, nvme=(400, 90)))
    done = simulate(cluster([8] * 4, fast, big), jobs, policy).jobs
    assert done["state"].to_list() == ["rejected", "finished"]
    counters = [
        {"name": "a", "amount": 2, "per": "node", "nodes": ["0-1"]},
        {"name": "b", "amount": 2, "per": "node", "nodes": ["2-3"]},
    ]
    columns = {("counted", "a"): np.array([1, 1]), ("counted", "b"): np.array([1, 0])}
    plain = workload(D(0, 10), D(1, 10))
    both = replace(plain, jobs=replace(plain.jobs, devices=columns))
    centre = Cluster.from_dict({"nodes": [{"count": 4, "cores": 8}], "counted": counters})
    assert simulate(centre, both, policy).jobs["state"].to_list() == ["rejected", "finished"]


def known_of(world: World) -> tuple[JobTable, Pace, Ints]:
    """The jobs, how fast they run on devices, and what they want of them."""
    jobs = table(world.jobs)
    pace = Physics(world.models).pace(world.cluster)(jobs)
    return jobs, pace, world.cluster.devices.wanted(jobs.devices, len(jobs))


def has_place(world: World, known: tuple[JobTable, Pace, Ints], job: int, by_models: bool = True) -> bool:
    """Whether a job has a place on the empty cluster: every way to give its tasks nodes and devices is tried.

    Without ``by_models`` devices have to have what is asked of them also where a model says how jobs run there.
    """
    (jobs, pace, wants), devices = known, world.cluster.devices
    kinds = np.flatnonzero(wants[:, :, job].any(axis=1)).tolist()
    needs = [(kind, task) for task in range(int(jobs.tasks[job])) for kind in [-1, *kinds]]

    def give(at: int, node: int, cores: tuple[int, ...], left: tuple[int, ...], groups: tuple[Group, ...]) -> bool:
        if at == len(needs):
            return True
        kind = needs[at][0]
        if kind < 0:
            asked = int(jobs.cores[job])
            return any(
                give(at + 1, n, (*cores[:n], free - asked, *cores[n + 1 :]), left, groups)
                for n, free in enumerate(cores)
                if free >= asked and (n == cores.index(free) or kinds)
            )
        for i, group in enumerate(groups):
            more = replace(group, jobs=group.jobs + 1)
            ours = devices.pools[group.pool].kind == devices.kinds[kind] and fits(kind, node, more)
            if ours and give(at + 1, node, cores, left, (*groups[:i], more, *groups[i + 1 :])):
                return True
        for p, other in enumerate(devices.pools):
            if other.kind == devices.kinds[kind]:
                for size in range(1, min(other.compose, left[p]) + 1):
                    parts = range(1, other.split + 1) if other.split > 1 else (0,)
                    made = [one for n in parts if fits(kind, node, one := Group(p, node, size, 1, n))]
                    rest = (*left[:p], left[p] - size, *left[p + 1 :])
                    if any(give(at + 1, node, cores, rest, (*groups, one)) for one in made):
                        return True
        return False

    def fits(kind: int, node: int, group: Group) -> bool:
        pool, model = devices.pools[group.pool], int(pace.model[kind, job])
        if not devices.reach[group.pool, node] or (pool.single and group.node != node):
            return False
        if group.jobs > min(group.parts or pool.share, pool.share):
            return False
        speeds = pace.speeds[model]
        if model >= 0 and not (
            group.jobs < len(speeds[0]) and speeds[min(group.size, len(speeds) - 1), group.jobs] > 0
        ):
            return False
        for q, has in enumerate(devices.capacity[:, pool.first].tolist()):
            asked = int(wants[kind, q, job])
            if group.parts and asked > has // group.parts:
                return False
            free = by_models and model >= 0 and pace.governed[model, q]
            if not group.parts and not free and asked * group.jobs > has * group.size:
                return False
        return True

    counts = tuple(one.count for one in devices.pools)
    return give(0, -1, tuple(world.cluster.cores.tolist()), counts, ())


@dataclass(frozen=True)
class Group:
    """A composition in use: of so many devices of a pool, with so many tasks."""

    pool: int
    node: int
    size: int
    jobs: int
    parts: int


@draws(150)
@given(world=worlds())
def test_who_is_turned_away_has_no_place_however_tasks_are_given_nodes_and_devices(world: World) -> None:
    jobs, pace, _ = known = known_of(world)
    most = most_tasks(world.cluster, jobs, pace)
    for job in np.flatnonzero(most < jobs.tasks).tolist():
        assert not has_place(world, known, job)


@pytest.mark.long
@pytest.mark.draws(500)
@pytest.mark.parametrize(
    ("policy", "by_models"),
    [("first-fit", False), ("easy(place=best-fit)", False), ("flow(interval=0)", False), ("min-fragmentation", True)],
)
def test_of_jobs_without_a_place_nearly_all_are_turned_away(policy: str, by_models: bool) -> None:
    """A rule that looks at no models turns away those for which these would have been a way around what is asked."""
    found = never = 0
    for seed in seeds(500):
        world = random_world(seed)
        jobs, *_ = known = known_of(world)
        done = play(world._replace(faults=()), policy).log
        asks = np.any([amounts > 0 for amounts in jobs.devices.values()] or [jobs.tasks < 0], axis=0)
        for job in np.flatnonzero(asks).tolist():
            away = done.state[job] == REJECTED
            if not has_place(world, known, job, by_models):
                never, found = never + 1, found + int(away)
            else:
                assert not away, (seed, job)
    assert found > 0.99 * never > 0
