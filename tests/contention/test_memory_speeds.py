"""Speeds of jobs that use each other's memory: worked by hand, and held to the plain twin on random leases."""

from __future__ import annotations

import numpy as np
import pytest
from applications import drawn, pair, profile, worked
from hypothesis import given
from hypothesis import strategies as st
from lending import Bench, jobs_of, random_lease
from tries import draws

from unrack.cluster.spec import Cluster
from unrack.ledger.lease import Lease, Loan
from unrack.slowdown.contention.profile import ProfileSet
from unrack.slowdown.memory.settings import Distances, MemoryContention

CLUSTER = Cluster.from_dict(
    {
        "nodes": [{"count": 8, "cores": 2, "memory": 1200}],
        "nodes_per_rack": 2,
        "racks_per_group": 2,
        "memory_pools": [{"count": 1, "memory": 900}],
    }
)
POOL = 8
SETTINGS = (
    MemoryContention(drawn(1), missing="none"),
    MemoryContention(drawn(2, apps=6), "interpolate", tolerance=0.6, floor=0.05, missing="none"),
    MemoryContention(
        drawn(3), missing="none", traffic="share", distance=Distances(rack=0.0, group=0.5, far=3.0, pool=1.5)
    ),
)


def bench(tasks: list[int], apps: list[object] | None = None, **settings: object) -> Bench:
    """Jobs of application 5, unless said otherwise, on the small cluster."""
    contention = MemoryContention(worked(), **settings)  # type: ignore[arg-type]
    return Bench(CLUSTER, jobs_of(apps or [5] * len(tasks), tasks), contention)


def held(job: int, nodes: list[int], mb: list[int], loans: list[Loan] | None = None) -> Lease:
    """A lease of one task a node."""
    ones = [1] * len(nodes)
    return Lease.on(job, nodes, ones, ones, mb, loans or [])


def near(speeds: dict[int, float]) -> object:
    return pytest.approx(speeds, rel=1e-12)


# --- worked by hand ---------------------------------------------------------------------------------------------


def test_borrower_and_lender_slow_each_other_down_until_one_ends() -> None:
    world = bench([1, 1])
    world.start(held(0, [0], [600], [Loan(0, 1, 200)]))
    assert world.known == near({0: 0.75 + 0.25 * 0.8})  # nobody interferes: (1 - r) + r q
    world.start(held(1, [1], [500]))
    # on job 0 press 1000 MB/s, reads 75 %: S_local between 0.8 and 0.9, S_remote between 0.4 and 0.6
    # on job 1 press 500 MB/s: S_local between 0.9 and 0.95
    assert world.known == near({0: 0.75 * 0.85 + 0.25 * 0.5, 1: 0.925})
    assert world.told == [0, 1]
    world.stop(0)
    assert world.known == {1: 1.0}


def test_with_traffic_by_share_a_borrower_draws_by_what_it_borrows() -> None:
    world = bench([1, 1], traffic="share")
    world.start(held(0, [0], [600], [Loan(0, 1, 200)]))
    world.start(held(1, [1], [500]))
    assert world.known == near({0: 0.75 * 0.85 + 0.25 * 0.5, 1: (1 - 0.2 * 0.125 + 1 - 0.1 * 0.125) / 2})


def test_two_borrowers_of_one_idle_node_interfere() -> None:
    world = bench([1, 1])
    world.start(held(0, [0], [0], [Loan(0, 2, 100)]))
    world.start(held(1, [1], [0], [Loan(1, 2, 100)]))
    # each is pressed by 500 MB/s on all its memory: remote curves from 0.8, down 0.4 and 0.2 by 1000 MB/s
    assert world.known == near({0: (0.6 + 0.7) / 2, 1: (0.6 + 0.7) / 2})


@pytest.mark.parametrize(("tolerance", "count"), [(0.0, 1), (0.25, 2), (0.5, 3)])
def test_as_many_nodes_interfere_as_are_pressed_nearly_as_hard_as_the_worst(tolerance, count) -> None:
    profiles = ProfileSet(
        (
            profile(5, 4, 0.7), profile(1, 1, remote_mb_s=1000.0), profile(2, 1, remote_mb_s=800.0),
            profile(3, 1, remote_mb_s=500.0),
        ),
        (*pair(5, 4, 1, (0.1, 0.1)), *pair(5, 4, 4, (0.4, 0.4))),
    )  # fmt: skip
    settings = MemoryContention(profiles, tolerance=tolerance)
    world = Bench(CLUSTER, jobs_of([5, 1, 2, 3], [4, 1, 1, 1]), settings)
    world.start(held(0, [0, 1, 2, 3], [100] * 4))
    for job in (1, 2, 3):
        world.start(held(job, [job + 3], [0], [Loan(job + 3, job - 1, 50)]))
    assert world.known[0] == pytest.approx(1 - (0.1 + 0.3 * (count - 1) / 3))


def test_who_draws_nothing_does_not_press_whatever_the_tolerance() -> None:
    profiles = ProfileSet(
        (
            profile(5, 4, 0.7), profile(1, 1, remote_mb_s=1000.0, reads=100.0),
            profile(2, 1, remote_mb_s=0.0, reads=50.0),
        ),
        (*pair(5, 4, 1, (0.4, 0.1)), *pair(5, 4, 4, (0.8, 0.7))),
    )  # fmt: skip
    world = Bench(CLUSTER, jobs_of([5, 1, 2], [4, 1, 1]), MemoryContention(profiles, tolerance=1.0))
    world.start(held(0, [0, 1, 2, 3], [100] * 4))
    for job in (1, 2):
        world.start(held(job, [job + 3], [0], [Loan(job + 3, job - 1, 50)]))
    assert world.known[0] == pytest.approx(0.9)  # one node, all reads


def test_memory_farther_away_costs_more_where_the_distance_says_so() -> None:
    distance = Distances(rack=0.0, group=1.0, far=2.0, pool=4.0)
    for lender, factor in ((1, 0.0), (2, 1.0), (5, 2.0), (POOL, 4.0)):
        world = bench([1], distance=distance)
        world.start(held(0, [0], [600], [Loan(0, lender, 200)]))
        assert world.known == near({0: 0.75 + 0.25 / (1 + factor * 0.25)})


def test_jobs_beside_each_other_on_a_node_with_local_memory_do_not_interfere() -> None:
    world = bench([1, 1])
    world.start(held(0, [0], [400]))
    world.start(held(1, [0], [400]))
    assert world.known == {0: 1.0, 1: 1.0}
    assert world.told == [1]


def test_a_job_whose_nodes_lend_to_each_other_does_not_disturb_itself() -> None:
    world = bench([2])
    world.start(held(0, [0, 1], [400, 0], [Loan(1, 0, 400)]))
    assert world.known == near({0: 0.5 + 0.5 * 0.8})  # on two nodes, q is that of one


def test_a_job_without_an_application_neither_suffers_nor_disturbs() -> None:
    world = bench([1, 1], [5, 77], missing="none")
    world.start(held(0, [0], [600], [Loan(0, 1, 200)]))
    world.start(held(1, [1], [300], [Loan(1, 0, 300)]))
    assert world.known == near({0: 0.95, 1: 1.0})


# --- properties -------------------------------------------------------------------------------------------------

ACTIONS = st.lists(
    st.tuples(st.sampled_from(["start", "stop", "exchange", "begin again"]), st.integers(0, 7), st.integers(0, 2**31)),
    min_size=4,
    max_size=24,
)


def world_of(settings: MemoryContention) -> Bench:
    """Eight jobs of all kinds of applications, one of them unknown."""
    ids = [*settings.profiles, 999]
    return Bench(CLUSTER, jobs_of([ids[j % len(ids)] for j in range(8)], [1, 2, 1, 3, 1, 2, 1, 3]), settings)


def happen(world: Bench, kind: str, job: int, seed: int) -> bool:
    """Let something happen to a job, if it can."""
    random = np.random.default_rng(seed)
    if (job in world.leases) == (kind == "start"):
        return False
    if kind == "stop":
        world.stop(job)
        return True
    lease = random_lease(world, job, random)
    if lease is None:
        return False
    if kind == "start":
        world.start(lease)
    elif kind == "exchange":
        before = world.leases[job]
        world.hold(lease)
        world.tell(before)
        world.tell(lease)
    else:  # stopped and started within one round: the world hears of it when both have happened
        before = world.drop(job)
        world.hold(lease)
        world.known.pop(job)
        world.tell(before)
        world.tell(lease, starts=True)
    return True


@pytest.mark.draws(60)
@pytest.mark.parametrize("settings", SETTINGS, ids=["plain", "interpolated", "by-share-and-distance"])
def test_speeds_are_those_of_the_plain_twin_whatever_happens(settings) -> None:
    @draws(60)
    @given(ACTIONS)
    def held_to_it(actions: list[tuple[str, int, int]]) -> None:
        world = world_of(settings)
        for action in actions:
            before = dict(world.known)
            if happen(world, *action):
                assert world.known == near(world.wanted())
                others = [job for job in world.told if job != action[1]]
                assert action[0] not in ("start", "stop") or all(world.known[job] != before[job] for job in others)

    held_to_it()


@draws(50)
@given(st.integers(0, 2**31), st.permutations(range(8)), st.permutations(range(8)), st.integers(1, 4))
def test_the_order_of_starts_and_ends_does_not_matter(seed, first, second, together) -> None:
    one, random = world_of(SETTINGS[2]), np.random.default_rng(seed)
    for job in first:
        lease = random_lease(one, job, random)
        if lease is not None:
            one.start(lease)
    other = world_of(SETTINGS[2])
    started = [one.leases[job] for job in second if job in one.leases]
    for lease in started:  # an earlier attempt leaves nothing behind
        other.start(random_lease(other, lease.job, random) or lease)
        other.stop(lease.job)
    for at in range(0, len(started), together):  # several in one round
        for lease in started[at : at + together]:
            other.hold(lease)
        for lease in started[at : at + together]:
            other.tell(lease, starts=True)
            assert other.known[lease.job] == pytest.approx(other.wanted()[lease.job], rel=1e-12)
    assert other.known == one.known
    for job in second[:4]:
        if job in one.leases:
            other.stop(job)
    again = world_of(SETTINGS[2])
    for job in first:
        if job in other.leases:
            again.start(other.leases[job])
    assert again.known == other.known


@draws(30)
@given(ACTIONS)
def test_with_all_memory_local_every_speed_is_exactly_one(actions) -> None:
    world = world_of(SETTINGS[0])
    for kind, job, seed in actions:
        if kind == "stop" and job in world.leases:
            world.stop(job)
        elif job not in world.leases:
            lease = random_lease(world, job, np.random.default_rng(seed))
            if lease is not None:
                world.start(Lease(job, lease.rows))
    assert set(world.known.values()) <= {1.0}
