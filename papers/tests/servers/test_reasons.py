"""Reasons for refusals say what is true: how many clusters lack what, and how near the best of them comes."""

from __future__ import annotations

import re

import numpy as np
import pytest
from plain_tiers import PlainAllocator, lowest_price
from tier_worlds import random_asked, random_supply

from unrack.solver.servers import Asked, Supply, least_prices
from unrack_papers.servers.allocator.holdings import RULES
from unrack_papers.servers.allocator.one_by_one import OneByOne, Refusals

WORLDS = 120
LACK = re.compile(r"(\d+) ([a-z ]+?)(?: \(at best (\d+) (?:of|weighted MB, above) (\d+)(?: MB)?\))?(?:, |$)")


def said(reason: str) -> tuple[int, dict[str, tuple[int, int | None, int | None]]]:
    """What a reason says: of how many clusters, and what is lacking → how many, best, and wanted."""
    found = re.fullmatch(r"of (\d+) clusters (.*)", reason)
    assert found, reason
    parts = LACK.findall(found[2])
    return int(found[1]), {
        what: (int(n), int(best) if best else None, int(want) if want else None) for n, what, best, want in parts
    }


def lightest(plain: PlainAllocator, server: int, cluster: int, free: list[int], floor: int) -> int | None:
    """The least weight of all splits over what is free."""
    weight = [int(plain.supply.weight[pool]) for pool in plain.members[cluster]]
    return lowest_price(int(plain.asked.mb[server]), floor, 2**60, free, weight, weight)


def lacks(plain: PlainAllocator, server: int, cluster: int) -> tuple[str, int | None, int | None]:
    """The first thing that a cluster lacks for a server, what it has of it, and what would do."""
    asked, pools = plain.asked, plain.members[cluster]
    on = {home for home in plain.home if home >= 0}
    if asked.pinned[server] not in (-1, cluster):
        return "are not the one it is pinned to", None, None
    if 0 <= asked.most_clusters <= len(on) and cluster not in on:
        return "are off while no more may be in use", None, None
    near, level = plain.taken(server), int(asked.level[server])
    close = [level >= 0 and int(plain.supply.domain[level, pool]) in near for pool in pools]
    if close[0]:
        return "share a failure domain with its group", None, None
    if plain.cores[pools[0]] < asked.cores[server]:
        return "have too few cores free", plain.cores[pools[0]], int(asked.cores[server])
    free = [
        0 if shut or asked.forbidden[server, plain.supply.tier[pool]] else plain.mb[pool]
        for pool, shut in zip(pools, close, strict=True)
    ]
    mb, floor = int(asked.mb[server]), int(asked.floor[server])
    if sum(free) < mb:
        return "have too little memory free", sum(free), mb
    if free[0] < floor:
        return "have too little local memory free", free[0], floor
    weight = lightest(plain, server, cluster, free, floor)
    assert weight is not None
    assert weight > asked.ceiling[server], "then it could have been placed"
    return "have only memory that is too remote", weight, int(asked.ceiling[server])


@pytest.mark.long
@pytest.mark.parametrize("rule", RULES)
def test_reasons_agree_with_a_look_at_every_cluster(rule: str) -> None:
    kinds: dict[str, int] = {}
    for seed in range(WORLDS):
        draws = np.random.default_rng([seed, 7])
        supply = random_supply(draws, int(draws.integers(1, 7)))
        asks = random_asked(draws, supply, 16)
        fast, plain = OneByOne(supply, asks, rule), PlainAllocator(supply, asks, rule)
        refusals = Refusals(fast, 1)
        for server in range(len(asks)):
            before = refusals.of(server)
            if fast.place([server]):
                cluster = int(fast.cluster[server])
                plain.put(server, cluster, fast.mb[server, : len(plain.members[cluster])].tolist())
                assert cluster not in _hit(before.lacks), "a cluster that lacked nothing took it"
                continue
            truth: dict[str, list[tuple[int | None, int | None]]] = {}
            for cluster in range(supply.clusters):
                what, has, want = lacks(plain, server, cluster)
                truth.setdefault(what, []).append((has, want))
            count, words = said(refusals.of(server).among(fast.order))
            assert count == supply.clusters
            assert {what: entry[0] for what, entry in words.items()} == {what: len(hit) for what, hit in truth.items()}
            for what, (_, best, want) in words.items():
                amounts = [has for has, _ in truth[what] if has is not None]
                if amounts:
                    assert best == (min(amounts) if "remote" in what else max(amounts))
                    assert want == truth[what][0][1]
                kinds[what] = kinds.get(what, 0) + 1
    assert len(kinds) == (5 if rule == "first-fit" else 7), kinds


def _hit(all_lacks: tuple) -> set[int]:  # type: ignore[type-arg]
    return {cluster for lack in all_lacks for cluster in np.flatnonzero(lack.fails).tolist()}


def emptied(supply: Supply, asks: Asked) -> PlainAllocator:
    """A plain allocator with all that is installed free."""
    plain = PlainAllocator(supply, asks, "slo")
    plain.cores, plain.mb = supply.all_cores.tolist(), supply.all_mb.tolist()
    return plain


def test_an_empty_data_centre_could_hold_a_server_if_one_of_all_splits_in_all_clusters_is_within_its_slos() -> None:
    counts = [0, 0]
    for seed in range(WORLDS):
        draws = np.random.default_rng([seed, 8])
        supply = random_supply(draws, int(draws.integers(1, 7)))
        asks = random_asked(draws, supply, 12)
        plain, could = emptied(supply, asks), (least_prices(supply, asks) >= 0).tolist()
        for server in range(len(asks)):
            weights = []
            for cluster, pools in enumerate(plain.members):
                if asks.pinned[server] not in (-1, cluster) or plain.cores[pools[0]] < asks.cores[server]:
                    continue
                free = [0 if asks.forbidden[server, supply.tier[pool]] else plain.mb[pool] for pool in pools]
                weights.append(lightest(plain, server, cluster, free, int(asks.floor[server])))
            fits = any(weight is not None and weight <= asks.ceiling[server] for weight in weights)
            assert could[server] == fits
            counts[fits] += 1
    assert min(counts) > 10
