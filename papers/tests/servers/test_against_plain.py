"""The compiled allocators against plain ones that sort and enumerate, step by step."""

from __future__ import annotations

import numpy as np
import pytest
from plain_tiers import PlainAllocator
from tier_worlds import random_asked, random_supply

from unrack_papers.servers.allocator.holdings import RULES
from unrack_papers.servers.allocator.one_by_one import OneByOne, place_one_by_one
from unrack_papers.servers.problem import Allocation

WORLDS = 300


def agree(fast: OneByOne, plain: PlainAllocator) -> None:
    """Both keep the same books, what is free and what is held is what was there, and the clusters are in one order."""
    assert fast.pools.cores.tolist() == plain.cores
    assert fast.pools.mb.tolist() == plain.mb
    assert min([*plain.cores, *plain.mb]) >= 0
    assert fast.cluster.tolist() == plain.home
    cores, mb = fast.pools.cores.copy(), fast.pools.mb.copy()
    for server, cluster in enumerate(fast.cluster.tolist()):
        if cluster >= 0:
            pools = fast.supply.pools(cluster)
            cores[pools[0]] += fast.servers.cores[server]
            mb[pools] += fast.mb[server, : len(pools)]
    assert cores.tolist() == fast.supply.cores.tolist()
    assert mb.tolist() == fast.supply.mb.tolist()
    if plain.rule != "best-fit":
        assert fast.order.tolist() == plain.order


def place_both(fast: OneByOne, plain: PlainAllocator, server: int) -> None:
    """One server in both: the same cluster, and a split that is allowed and as cheap as any."""
    cluster, price = plain.choice(server)
    assert fast.place([server]) == (cluster >= 0)
    assert fast.cluster[server] == cluster
    if cluster < 0:
        assert not fast.mb[server].any()
        return
    parts = fast.mb[server].tolist()
    free, asked = plain.offer(server, cluster), plain.asked
    assert free is not None
    assert not any(parts[len(free) :])
    assert all(0 <= part <= mb for part, mb in zip(parts, free, strict=False))
    assert sum(parts) == asked.mb[server]
    if plain.rule == "first-fit":
        assert parts[: len(free)] == plain.filled(server, free)
    else:
        pools = plain.members[cluster]
        assert parts[0] >= asked.floor[server]
        weight = sum(int(plain.supply.weight[pool]) * part for pool, part in zip(pools, parts, strict=False))
        assert weight <= asked.ceiling[server]
    plain.put(server, cluster, parts)
    assert plain.cost(server) == price


@pytest.mark.long
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("plain_asks", [True, False])
def test_servers_come_and_go_as_under_a_plain_allocator(rule: str, plain_asks: bool) -> None:
    placed = removed = refused = 0
    for seed in range(WORLDS):
        draws = np.random.default_rng([seed, plain_asks])
        supply = random_supply(draws, int(draws.integers(1, 9)))
        asks = random_asked(draws, supply, 14, plain=plain_asks)
        fast, plain = OneByOne(supply, asks, rule), PlainAllocator(supply, asks, rule)
        agree(fast, plain)
        for _ in range(30):
            server = int(draws.integers(len(asks)))
            if fast.cluster[server] >= 0:
                fast.remove(server)
                plain.remove(server)
                removed += 1
            else:
                place_both(fast, plain, server)
                placed += fast.cluster[server] >= 0
                refused += fast.cluster[server] < 0
            agree(fast, plain)
    assert min(placed, removed, refused) > WORLDS


@pytest.mark.long
@pytest.mark.parametrize("rule", RULES)
def test_an_allocator_goes_on_from_where_servers_are_already(rule: str) -> None:
    found = 0
    for seed in range(WORLDS):
        draws = np.random.default_rng([seed, 2])
        supply = random_supply(draws, int(draws.integers(1, 7)))
        asks = random_asked(draws, supply, 12)
        before = place_one_by_one(supply, asks, str(draws.choice(RULES)))
        some = draws.random(len(asks)) < 0.6
        now = Allocation(np.where(some, before.cluster, -1), np.where(some[:, None], before.mb, 0))
        fast, plain = OneByOne(supply, asks, rule, now), PlainAllocator(supply, asks, rule, now)
        found += int((now.cluster >= 0).sum())
        agree(fast, plain)
        for server in draws.permutation(len(asks)).tolist():
            if fast.cluster[server] < 0:
                place_both(fast, plain, server)
            elif draws.random() < 0.5:
                fast.remove(server)
                plain.remove(server)
            agree(fast, plain)
    assert found > WORLDS
