"""The exhaustive search itself, against what can be worked out by hand or by another search."""

from __future__ import annotations

import random
from itertools import permutations

import pytest
from exhaustive import Ask, Instance, Shelf, fewest_late, least_response
from tiny_worlds import SMUFIN, STEEP, random_instance
from tries import some

STORE = (2000, 600)


def one_by_one(instance: Instance) -> tuple[int, float]:
    """The same two optima for jobs of cores on one node: every order, each job as early as it fits."""
    jobs, (cores,) = instance.jobs, instance.cores
    fewest, least = len(jobs), float("inf")
    for order in permutations(range(len(jobs))):
        for drop in (True, False):
            spans: list[tuple[float, float, int]] = []
            late, total = 0, 0.0
            for job in order:
                ask = jobs[job]
                for start in sorted({ask.release, *(end for _, end, _ in spans if end > ask.release)}):
                    times = [start, *(begin for begin, _, _ in spans if start < begin < start + ask.work)]
                    if all(sum(c for b, e, c in spans if b <= t < e) + ask.cores <= cores for t in times):
                        break
                missed = ask.due is not None and start + ask.work > ask.due
                late += missed
                total += start + ask.work - ask.release
                if not (missed and drop):
                    spans.append((start, start + ask.work, ask.cores))
            fewest = min(fewest, late)
            if not drop:
                least = min(least, total)
    return fewest, least


@pytest.mark.draws(60)
def test_jobs_of_cores_agree_with_placing_them_one_by_one_in_every_order() -> None:
    rng = random.Random(5)
    late = 0
    for _ in range(some(60)):
        asks = []
        for _ in range(rng.choice([3, 4, 5])):
            release, work = rng.randrange(0, 10), rng.randrange(1, 9)
            asks.append(Ask(release, work, rng.randrange(1, 5), release + work + rng.randrange(0, 8)))
        instance = Instance((4,), tuple(asks))
        expected = one_by_one(instance)
        assert (fewest_late(instance), least_response(instance)) == pytest.approx(expected)
        late += expected[0]
    assert late > some(60) // 2


def test_waiting_for_a_big_job_to_end_may_be_better_than_beginning_now() -> None:
    instance = Instance((4,), (Ask(0, 10, 2, 100), Ask(1, 5, 4, 6)))
    assert fewest_late(instance) == 0


def test_sharers_slow_each_other_from_the_moment_they_share_until_one_leaves() -> None:
    jobs = (Ask(0, 400, 1, None, (1, 0), "steep"), Ask(100, 75, 1, None, (1, 0), "steep"))
    instance = Instance((2,), jobs, (Shelf(1, (0,)),), STORE, {"steep": STEEP})
    assert least_response(instance) == pytest.approx(100 + 100 + 225 + 100)  # alone 100, both 100 at 0.75, alone 225


def test_devices_are_composed_when_that_makes_a_deadline() -> None:
    job = Ask(0, 1900, 1, 1000, (1, 0), "steep")
    worlds = [Instance((2,), (job,), (Shelf(2, (0,), compose=c),), STORE, {"steep": STEEP}) for c in (1, 2)]
    assert [fewest_late(world) for world in worlds] == [1, 0]


def test_what_unmodelled_jobs_ask_adds_up_and_a_model_keeps_them_away() -> None:
    def world(*jobs: Ask) -> Instance:
        return Instance((9,), jobs, (Shelf(1, (0,)),), STORE, {"smufin": SMUFIN})

    def plain(bandwidth: int, capacity: int) -> Ask:
        return Ask(0, 100, 1, 100, (bandwidth, capacity))

    modelled = Ask(0, 100, 1, 130, (1800, 43), "smufin")
    assert fewest_late(world(plain(1000, 300), plain(1000, 300))) == 0
    assert fewest_late(world(plain(1001, 300), plain(1000, 300))) == 1
    assert fewest_late(world(modelled, modelled, modelled)) == 0
    assert fewest_late(world(modelled, plain(100, 10))) == 1


def test_a_composition_stays_on_its_node_unless_devices_are_multi_attached() -> None:
    jobs = tuple(Ask(0, 100, 2, 100, (100, 10)) for _ in range(2))
    worlds = [Instance((2, 2), jobs, (Shelf(1, (0, 1), compose=1, single=s),), STORE) for s in (True, False)]
    assert [fewest_late(world) for world in worlds] == [1, 0]
    out_of_reach = Instance((1, 9), jobs, (Shelf(2, (0,)),), STORE)
    assert fewest_late(out_of_reach) == 2


@pytest.mark.draws(60)
def test_more_devices_and_cores_never_make_more_jobs_late() -> None:
    for seed in range(some(60)):
        small = random_instance(seed, jobs=4)
        more = tuple(Shelf(s.count + 1, s.reach, s.compose, s.share, s.single) for s in small.shelves)
        large = Instance(tuple(c + 4 for c in small.cores), small.jobs, more, small.device, small.models)
        assert fewest_late(large) <= fewest_late(small), seed
