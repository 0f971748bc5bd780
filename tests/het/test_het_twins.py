"""Random worlds with heterogeneous jobs: the engine against schedulers in plain Python."""

from __future__ import annotations

import pytest
from het_twins import Loop, Reserving, World, easy, fcfs, random_world

import unrack

FEW = range(60)


def starts(world: World, policy: str) -> dict[int, int]:
    """Job → start, of those that ran; all components of each start and end together, and are audited."""
    jobs = unrack.simulate(world.cluster, world.workload, policy, audit=True).jobs
    ran = jobs.filter(jobs["state"] == "finished")
    found: dict[int, set[tuple[float, float]]] = {}
    for name, start, end in ran.select("job", "start_s", "end_s").iter_rows():
        found.setdefault(int(name.split("+")[0]) - 1000, set()).add((start, end))
    assert all(len(times) == 1 for times in found.values())
    counts = ran["job"].str.split("+").list.first().value_counts().rows()
    assert all(count == len(world.jobs[int(name) - 1000].parts) for name, count in counts)
    return {number: round(times.pop()[0]) for number, times in found.items()}


@pytest.mark.parametrize("seed", FEW)
def test_first_come_first_served(seed: int) -> None:
    world = random_world(seed)
    assert starts(world, "fcfs") == Loop(world).run(fcfs)


@pytest.mark.parametrize("seed", FEW)
def test_easy(seed: int) -> None:
    world = random_world(seed)
    assert starts(world, "easy") == Loop(world).run(easy)


@pytest.mark.parametrize("seed", FEW)
def test_conservative(seed: int) -> None:
    world = random_world(seed, exact=True)
    twin = Reserving(world)
    assert starts(world, "conservative") == twin.run(twin.decide)
