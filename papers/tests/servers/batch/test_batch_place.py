"""Batches of servers: what is asked is met, what is claimed is true, and small ones are solved exactly."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from batch_systems import random_asked, random_supply
from check import check, faults, objective
from tries import some

from unrack.errors import InputError
from unrack.solver.servers import Asked, Supply, asked
from unrack_papers.servers.allocator.one_by_one import place_one_by_one
from unrack_papers.servers.batch import solve as batch
from unrack_papers.servers.batch.case import split_together
from unrack_papers.servers.batch.constraint import place_cp
from unrack_papers.servers.batch.solution import Solution
from unrack_papers.servers.batch.solve import place_batch
from unrack_papers.servers.problem import Allocation, regular_supply


def brute(supply: Supply, asks: Asked) -> tuple[int, int, int]:
    """The best of all assignments of servers to clusters; without groups."""
    best = (len(asks), 0, 0)
    for choice in product(range(-1, supply.clusters), repeat=len(asks)):
        cluster = np.array(choice, np.int64)
        which = np.flatnonzero(cluster >= 0)
        mb = np.zeros((len(asks), supply.width), np.int64)
        split = split_together(supply, asks, which, cluster[which])
        if split is None:
            continue
        mb[which] = split
        if not faults(supply, asks, Allocation(cluster, mb)):
            best = min(best, objective(supply, Allocation(cluster, mb)))
    return best


@pytest.fixture
def by_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """No constraint programming: only the search and its bounds."""
    monkeypatch.setattr(batch, "SMALL", 0)
    monkeypatch.setattr(batch, "MIDDLE", 0)


def system(seed: int, *, plain: bool) -> tuple[Supply, Asked, np.ndarray]:
    draws = np.random.default_rng(seed)
    supply = random_supply(draws, int(draws.integers(1, 5)), equal=bool(draws.integers(2)))
    asks = random_asked(draws, supply, int(draws.integers(1, 9)), plain=plain)
    return supply, asks, draws.random(supply.clusters) < 0.2


@pytest.mark.parametrize("seed", range(6))
def test_constraint_programming_finds_the_best_of_all_assignments(seed: int) -> None:
    draws = np.random.default_rng(seed)
    supply = random_supply(draws, 2)
    asks = replace(random_asked(draws, supply, 3), group=np.full(3, -1), level=np.full(3, -1))
    found = place_cp(supply, asks)
    assert found.status == "optimal"
    assert found.objective == brute(supply, asks)


def places(supply: Supply, asks: Asked, i: int) -> list[tuple[int, tuple[int, ...]]]:
    """Every cluster and split that a server by itself may have, and nowhere."""
    nobody = replace(asks, most_clusters=-1)
    found = [(-1, (0,) * supply.width)]
    for c in range(supply.clusters):
        tops = [min(int(mb), int(asks.mb[i])) for mb in supply.mb[supply.pools(c)]]
        for split in product(*(range(top + 1) for top in tops)):
            if sum(split) == asks.mb[i]:
                cluster, mb = np.full(len(asks), -1), np.zeros((len(asks), supply.width), np.int64)
                cluster[i], mb[i, : len(split)] = c, split
                if not faults(supply, nobody, Allocation(cluster, mb)):
                    found.append((c, tuple(mb[i].tolist())))
    return found


@pytest.mark.parametrize("seed", range(12))
def test_with_spread_groups_the_best_of_all_splits_is_found(seed: int) -> None:
    draws = np.random.default_rng(seed)
    supply = random_supply(draws, 3, mb=8)
    asks = random_asked(draws, supply, 3, mb=6)
    asks = replace(asks, group=np.zeros(3, np.int64), level=np.full(3, seed % 2))
    busy = draws.random(3) < 0.2
    best = (3, 3, 0)
    for choice in product(*(places(supply, asks, i) for i in range(3))):
        cluster, mb = (np.array(column) for column in zip(*choice, strict=True))
        value = objective(supply, Allocation(cluster, mb), busy)
        if value < best and not faults(supply, asks, Allocation(cluster, mb), busy):
            best = value
    for found in (place_cp(supply, asks, busy=busy), place_batch(supply, asks, effort_s=20, busy=busy)):
        check(supply, asks, found, busy)
        assert (found.status, found.objective) == ("optimal", best)


@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize("some", range(4))
def test_small_batches_are_solved_exactly_and_meet_everything_asked(some: int, plain: bool) -> None:
    for seed in range(some * 5, some * 5 + 5):
        supply, asks, busy = system(seed, plain=plain)
        found = place_batch(supply, asks, effort_s=20, busy=busy)
        check(supply, asks, found, busy)
        assert found.status == "optimal"
        assert found.objective == place_cp(supply, asks, busy=busy).objective


@pytest.mark.usefixtures("by_search")
@pytest.mark.draws(40)
@pytest.mark.parametrize("plain", [True, False])
def test_the_search_alone_never_claims_more_than_is_true_and_is_mostly_right(plain: bool) -> None:
    right = 0
    for seed in range(100, 100 + some(40)):
        supply, asks, busy = system(seed, plain=plain)
        found = place_batch(supply, asks, effort_s=1, busy=busy)
        check(supply, asks, found, busy)
        best = place_cp(supply, asks, busy=busy)
        assert best.status == "optimal"
        assert found.objective >= best.objective
        for goals in range(3):  # a bound holds once the goals before it are as in the best
            if found.objective[:goals] == best.objective[:goals]:
                assert found.bound[goals] <= best.objective[goals]
        right += found.objective == best.objective
    assert right >= some(40) * (19 if plain else 16) // 20


@pytest.mark.usefixtures("by_search")
def test_the_same_batch_and_seed_have_the_same_answer() -> None:
    draws = np.random.default_rng(5)
    supply = random_supply(draws, 8, mb=200)
    asks = random_asked(draws, supply, 30, mb=60)
    one, two = (place_batch(supply, asks, effort_s=1, seed=3) for _ in range(2))
    assert one.allocation.cluster.tolist() == two.allocation.cluster.tolist()
    assert one.allocation.mb.tolist() == two.allocation.mb.tolist()
    assert one.bound == two.bound


def test_servers_that_are_split_together_fit_where_one_after_the_other_they_do_not() -> None:
    supply = regular_supply(2, (4, 20), ((40, 1, 100, 1),), price=10)
    asks = asked(*(np.array(x, np.int64) for x in ([1, 1], [20, 40], [0, 0], [20, 20])), tiers=2)
    assert place_one_by_one(supply, asks, "slo").cluster.tolist() == [0, 1]  # the first takes all the local memory
    found = place_batch(supply, asks, effort_s=10)
    assert (found.status, found.clusters_used) == ("optimal", 1)
    assert found.allocation.mb.tolist() == [[0, 20], [20, 20]]


def test_where_not_all_fit_the_most_are_placed_whatever_their_order() -> None:
    supply = regular_supply(2, (8, 100), (), price=1)
    size = np.array([90, 50, 50, 90, 45, 45, 10], np.int64)
    asks = asked(np.ones(7, np.int64), size, size, 0 * size, tiers=1)
    found = place_batch(supply, asks, effort_s=10)
    assert (found.status, found.unplaced.tolist()) == ("optimal", [0, 3])


def test_a_server_that_fits_nowhere_is_left_out_and_proven_to_be() -> None:
    supply = regular_supply(2, (8, 100), ((100, 1, 50, 1),), price=100)
    asks = asked(*(np.array(x, np.int64) for x in ([1, 1], [120, 120], [10, 110], [110, 10])), tiers=2)
    found = place_batch(supply, asks, effort_s=10)
    assert (found.status, found.unplaced.tolist(), found.bound_unplaced) == ("optimal", [1], 1)


def test_replicas_of_a_group_avoid_a_domain_even_where_only_a_shared_pool_is_in_it() -> None:
    supply = regular_supply(2, (4, 10), ((40, 1, 50, 2),), price=100)
    supply = replace(supply, domain=np.array([[0, 1, 2]]))
    asks = asked(
        np.array([1, 1]), np.array([20, 20]), np.array([0, 0]), np.array([20, 20]), tiers=2,
        group=np.array([0, 0]), level=np.array([0, 0]),
    )  # fmt: skip
    found = place_batch(supply, asks, effort_s=10)
    assert (found.status, len(found.unplaced)) == ("optimal", 1)  # both need the shared pool
    small = replace(asks, mb=np.array([20, 10]))
    found = place_batch(supply, small, effort_s=10)
    assert (found.status, len(found.unplaced)) == ("optimal", 0)
    check(supply, small, found)


def test_busy_clusters_count_as_used_and_are_filled_first() -> None:
    supply = regular_supply(3, (4, 100), (), price=1)
    asks = asked(np.array([1]), np.array([50]), np.array([50]), np.array([0]), tiers=1)
    found = place_batch(supply, asks, effort_s=10, busy=np.array([False, False, True]))
    assert (found.allocation.cluster.tolist(), found.clusters_used, found.bound_clusters) == ([2], 1, 1)


@pytest.mark.long
@pytest.mark.parametrize("sharing", [1, 3, 40])
def test_a_batch_that_has_no_time_is_still_placed_well_within_its_rules(sharing: int) -> None:
    draws = np.random.default_rng(sharing)
    supply = regular_supply(40, (50, 3000), ((2000, 1, 50, 1), (4000 * sharing, 2, 25, sharing)), price=100)
    supply = replace(supply, domain=(np.arange(len(supply.mb)) % 7)[None])
    asks = random_asked(draws, supply, 200, mb=900)
    apart = asks.level >= 0
    group, level = np.where(apart, np.arange(200) % 30, -1), np.where(apart, 0, -1)
    asks = replace(asks, group=group, level=level, most_clusters=30)
    found = place_batch(supply, asks, limit_s=0)
    check(supply, asks, found)
    assert len(found.unplaced) < 20 + found.bound_unplaced


def test_a_start_is_never_made_worse() -> None:
    supply, asks, _ = system(3, plain=False)
    start = place_cp(supply, asks)
    for limit_s in (0, 0.001):
        assert place_batch(supply, asks, limit_s=limit_s, start=start.allocation).objective == start.objective
        assert place_cp(supply, asks, limit_s=limit_s, start=start.allocation).objective == start.objective


def test_an_empty_batch_is_solved() -> None:
    none = np.zeros(0, np.int64)
    found = place_batch(regular_supply(2, (4, 10), (), price=1), asked(none, none, none, none, tiers=1))
    assert (found.status, found.objective, found.gap) == ("optimal", (0, 0, 0), 0.0)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"busy": np.zeros(3, np.bool_)}, "busy"),
        ({"pinned": np.array([7])}, "pinned"),
        ({"group": np.array([0]), "level": np.array([0])}, "level"),
        ({"start": Allocation(np.array([0]), np.array([[2]]))}, "start, server 0"),
    ],
)
def test_what_cannot_be_is_refused_with_its_name(change: dict[str, Any], field: str) -> None:
    supply = regular_supply(2, (4, 10), (), price=1)
    one = np.ones(1, np.int64)
    asks = asked(one, one, one, one, tiers=1, **{key: change.get(key) for key in ("pinned", "group", "level")})
    with pytest.raises(InputError, match=field):
        place_batch(supply, asks, busy=change.get("busy"), start=change.get("start"))


@pytest.mark.long
@pytest.mark.needs_data
def test_the_papers_servers_need_66_clusters_and_the_price_is_proven(data: Path) -> None:
    path = data / "slo" / "azure-1000-servers.json"
    if not path.exists():
        pytest.skip(f"no {path}")
    servers = json.loads(path.read_text())["servers"]
    columns = [np.array([s[key] for s in servers], np.int64) for key in ("cores", "mem", "local_SLA", "remote_SLA")]
    supply = regular_supply(100, (112, 32768), ((131072, 1, 50, 1), (262144, 2, 25, 1)), price=100)
    asks = asked(*columns, tiers=3)
    found: Solution = place_batch(supply, asks, effort_s=60)
    check(supply, asks, found)
    assert (found.clusters_used, found.bound_clusters) == (66, 66)
    assert found.price <= found.bound_price * 1.0001
