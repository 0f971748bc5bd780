"""Repacking a running system: limits are kept, every step of the plan fits, and what is said about it is true."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from batch_systems import random_asked, random_supply
from check import faults, objective
from tries import some

from unrack.errors import InputError
from unrack.solver.servers import Asked, Supply, asked
from unrack_papers.servers.allocator.one_by_one import place_one_by_one
from unrack_papers.servers.batch.case import split_together
from unrack_papers.servers.batch.running.repack import Repacking, repack
from unrack_papers.servers.batch.solution import first_fault
from unrack_papers.servers.problem import Allocation, regular_supply


def spread_out(draws: np.random.Generator, supply: Supply, asks: Asked) -> Allocation:
    """A running system nobody took care of: servers one at a time, each pinned to a cluster at random first."""
    anywhere = np.where(draws.random(len(asks)) < 0.7, draws.integers(0, supply.clusters, len(asks)), -1)
    return place_one_by_one(supply, replace(asks, pinned=anywhere), "slo")


def replay(supply: Supply, asks: Asked, now: Allocation, found: Repacking) -> int:
    """Make the steps one by one, each beside all that is there; returns the MB that were written."""
    at, mb = now.cluster.copy(), now.mb.copy()
    free_cores, free_mb = supply.cores.copy(), supply.mb.copy()
    for i in np.flatnonzero(at >= 0).tolist():
        pools = supply.pools(int(at[i]))
        free_cores[pools[0]] -= asks.cores[i]
        free_mb[pools] -= mb[i, : len(pools)]
    written = 0
    for step in found.plan:
        i, row = step.server, np.array(step.mb)
        assert step.before == at[i]
        old, new = supply.pools(int(at[i])), supply.pools(step.cluster)
        if step.cluster == at[i]:
            more = np.maximum(row - mb[i], 0)
        else:
            more = row
            assert free_cores[new[0]] >= asks.cores[i]
        assert (free_mb[new] >= more[: len(new)]).all()
        written += int(more.sum())
        free_cores[old[0]] += asks.cores[i]
        free_mb[old] += mb[i, : len(old)]
        at[i], mb[i] = step.cluster, row
        free_cores[new[0]] -= asks.cores[i]
        free_mb[new] -= row[: len(new)]
        assert faults(supply, replace(asks, most_clusters=-1), Allocation(at.copy(), mb.copy())) == []
    assert at.tolist() == found.allocation.cluster.tolist()
    assert mb.tolist() == found.allocation.mb.tolist()
    return written


def check_repacking(supply: Supply, asks: Asked, now: Allocation, found: Repacking, moves: int) -> None:
    assert found.moved.tolist() == np.flatnonzero(now.cluster != found.allocation.cluster).tolist()
    assert len(found.moved) <= moves
    assert replay(supply, asks, now, found) == found.copied_mb
    assert objective(supply, found.allocation) == found.objective
    before = objective(supply, now)
    assert found.objective[0] == before[0]
    assert found.clusters_used <= before[1]
    assert all(bound <= value for bound, value in zip(found.bound, found.objective, strict=True))
    assert (found.status == "optimal") == (found.bound == found.objective)


@pytest.mark.long
@pytest.mark.parametrize("resplit", [False, True])
@pytest.mark.parametrize("plain", [True, False])
def test_every_prefix_of_a_plan_fits_and_its_limits_are_kept(plain: bool, resplit: bool) -> None:
    emptied = 0
    for seed in range(40):
        draws = np.random.default_rng(seed)
        supply = random_supply(draws, int(draws.integers(2, 6)), mb=80)
        asks = random_asked(draws, supply, int(draws.integers(2, 12)), plain=plain)
        if not plain:
            asks = replace(asks, pinned=np.full(len(asks), -1), most_clusters=-1)
        now = spread_out(draws, supply, asks)
        moves = int(draws.integers(0, 6))
        found = repack(supply, asks, now, moves=moves, effort_s=1, resplit=resplit)
        check_repacking(supply, asks, now, found, moves)
        emptied += objective(supply, now)[1] - found.clusters_used
        if not resplit:
            stayed = now.cluster == found.allocation.cluster
            assert (now.mb[stayed] == found.allocation.mb[stayed]).all()
    assert emptied >= 20


def best_reachable(supply: Supply, asks: Asked, now: Allocation, moves: int) -> tuple[int, int]:
    """Fewest clusters, and then least price, of all allocations that differ in so many servers: a plan may do worse."""
    best = (supply.clusters + 1, 0)
    there = np.flatnonzero(now.cluster >= 0)
    for choice in product(range(supply.clusters), repeat=len(there)):
        cluster = np.array(choice, np.int64)
        if (cluster != now.cluster[there]).sum() > moves:
            continue
        split = split_together(supply, asks, there, cluster)
        if split is None:
            continue
        every, mb = np.full(len(asks), -1, np.int64), np.zeros((len(asks), supply.width), np.int64)
        every[there], mb[there] = cluster, split
        if not faults(supply, asks, Allocation(every, mb)):
            best = min(best, objective(supply, Allocation(every, mb))[1:])
    return best


def test_on_small_systems_most_plans_are_as_good_as_can_be_and_bounds_are_never_above_that() -> None:
    same = 0
    for seed in range(16):
        draws = np.random.default_rng(seed)
        supply = random_supply(draws, 3, mb=80)
        asks = random_asked(draws, supply, 4, plain=True)
        now = spread_out(draws, supply, asks)
        moves = int(draws.integers(1, 4))
        found = repack(supply, asks, now, moves=moves, effort_s=1, resplit=True)
        best = best_reachable(supply, asks, now, moves)
        assert found.bound_clusters <= best[0]
        if found.clusters_used == best[0]:
            assert found.bound_price <= best[1]
        assert found.objective[1:] >= best
        same += found.objective[1:] == best
    assert same >= 13


def test_a_server_moves_on_to_make_room_for_one_that_fits_nowhere_else() -> None:
    supply = regular_supply(3, (10, 100), (), price=1)
    size = np.array([60, 30, 50, 70], np.int64)
    asks = asked(np.ones(4, np.int64), size, size, 0 * size, tiers=1)
    now = Allocation(np.array([0, 1, 1, 2]), size[:, None].copy())  # 70 has no room beside 60, nor beside 30 + 50
    found = repack(supply, asks, now, moves=2, effort_s=2)
    assert found.clusters_used == 3
    now = Allocation(
        np.array([0, 1, 2, 1]), size[:, None].copy()
    )  # 60 | 30 + 70 | 50: 50 goes to none; 30 to 60, then?
    found = repack(supply, asks, now, moves=2, effort_s=2)
    assert found.clusters_used == 3
    small = replace(asks, mb=np.array([60, 30, 40, 40]), floor=np.array([60, 30, 40, 40]))
    now = Allocation(np.array([0, 1, 2, 1]), small.mb[:, None].copy())  # 60 | 30 + 40 | 40
    assert repack(supply, small, now, moves=1, effort_s=2).clusters_used == 2
    full = replace(asks, mb=np.array([60, 30, 50, 70]), floor=np.array([60, 30, 50, 70]))
    now = Allocation(np.array([0, 1, 2, -1]), np.array([[60], [30], [50], [0]]))
    found = repack(supply, full, now, moves=1, effort_s=2)
    assert (found.clusters_used, found.unplaced.tolist()) == (2, [3])


def test_without_moves_nothing_changes() -> None:
    draws = np.random.default_rng(1)
    supply = random_supply(draws, 4)
    asks = random_asked(draws, supply, 8, plain=True)
    now = spread_out(draws, supply, asks)
    found = repack(supply, asks, now, moves=0, effort_s=1)
    assert (found.plan, found.copied_mb) == ([], 0)
    assert found.allocation.mb.tolist() == now.mb.tolist()
    assert found.status == "optimal"


def best_beside(supply: Supply, asks: Asked, now: Allocation, moves: int) -> tuple[int, int]:
    """Fewest clusters, and then least price, if those that stay keep their split: a plan may do worse."""
    best = (supply.clusters + 1, 0)
    there = np.flatnonzero(now.cluster >= 0)
    for choice in product(range(supply.clusters), repeat=len(there)):
        cluster = now.cluster.copy()
        cluster[there] = choice
        movers = np.flatnonzero(cluster != now.cluster)
        if len(movers) > moves:
            continue
        left = supply.mb.copy()
        for i in np.flatnonzero((cluster >= 0) & (cluster == now.cluster)).tolist():
            left[supply.pools(int(cluster[i]))] -= now.mb[i, : len(supply.pools(int(cluster[i])))]
        split = split_together(replace(supply, mb=left), asks, movers, cluster[movers])
        if split is None:
            continue
        mb = now.mb.copy()
        mb[movers] = split
        if not faults(supply, asks, Allocation(cluster, mb)):
            best = min(best, objective(supply, Allocation(cluster, mb))[1:])
    return best


@pytest.mark.draws(16)
def test_on_small_systems_bounds_hold_where_splits_stay() -> None:
    proven = 0
    for seed in range(100, 100 + some(16)):
        draws = np.random.default_rng(seed)
        supply = random_supply(draws, 3, mb=80)
        asks = random_asked(draws, supply, 4, plain=True)
        now = spread_out(draws, supply, asks)
        moves = int(draws.integers(0, 3))
        found = repack(supply, asks, now, moves=moves, effort_s=1)
        best = best_beside(supply, asks, now, moves)
        assert found.objective[1:] >= best
        assert found.bound_clusters <= best[0]
        if found.clusters_used == best[0]:
            assert found.bound_price <= best[1]
        proven += found.status == "optimal"
    assert proven >= some(16) // 2


FAULTS = {
    "wanted 60 MB": {"mb": []},
    "local memory": {"floor": [10]},
    "weighted": {"ceiling": [59]},
    "tier 1": {"forbidden": [[False, True]]},
    "pinned": {"pinned": [1]},
    "2 cores": {"cores": [2]},
}


@pytest.mark.parametrize("words", FAULTS)
def test_what_servers_do_not_ask_for_is_refused_with_its_reason(words: str) -> None:
    supply = regular_supply(2, (1, 100), ((100, 1, 50, 1),), price=100)
    one, size = np.array([1]), np.array([60])
    asks = asked(one, size, 0 * one, size, tiers=2)
    now = Allocation(np.array([0]), np.array([[0, 60]]))
    assert first_fault(supply, asks, now) is None
    if "mb" in FAULTS[words]:
        now = Allocation(np.array([0]), np.array([[0, 40]]))
    else:
        asks = replace(asks, **{key: np.array(value) for key, value in FAULTS[words].items()})
    with pytest.raises(InputError, match=words):
        repack(supply, asks, now, moves=1)


@pytest.mark.parametrize("seed", range(40))
def test_a_fault_is_found_exactly_where_the_plain_check_finds_any(seed: int) -> None:
    draws = np.random.default_rng(seed)
    supply = random_supply(draws, 4)
    asks = replace(random_asked(draws, supply, 6), most_clusters=-1)
    now = place_one_by_one(supply, asks, "slo")
    assert first_fault(supply, asks, now) is None
    other = replace(random_asked(draws, supply, 6), cores=asks.cores, mb=asks.mb, most_clusters=-1)
    assert (first_fault(supply, other, now) is None) == (faults(supply, other, now) == [])
    again = place_one_by_one(supply, replace(asks, group=np.full(6, -1), level=np.full(6, -1)), "slo")
    assert (first_fault(supply, asks, again) is None) == (faults(supply, asks, again) == [])


def test_what_cannot_run_now_is_refused() -> None:
    supply = regular_supply(1, (2, 100), (), price=1)
    asks = asked(np.array([3]), np.array([50]), np.array([50]), np.array([0]), tiers=1)
    with pytest.raises(InputError, match="moves"):
        repack(supply, asks, Allocation(np.array([-1]), np.array([[0]])), moves=-1)
    with pytest.raises(InputError, match="cores"):
        repack(supply, asks, Allocation(np.array([0]), np.array([[50]])), moves=1)
