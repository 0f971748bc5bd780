"""Data centres and servers of every sort at random, small enough to enumerate."""

from __future__ import annotations

import numpy as np

from unrack.solver.servers import Asked, Supply, asked

MOST_MB = 9
"""The most that a server asks, MB."""


def random_supply(draws: np.random.Generator, clusters: int) -> Supply:
    """Pools of one to five tiers with any weights and prices, in any clusters; compute pools may be shared too."""
    tiers = int(draws.integers(1, 6))
    weight_of = np.concatenate([[0], np.sort(draws.integers(0, 5, tiers - 1))]).astype(np.int64)
    price_of = draws.integers(0, 8, tiers)
    computing = int(draws.integers(1, clusters + 1)) if draws.random() < 0.3 else clusters
    remote = int(draws.integers(tiers - 1, 2 * clusters + tiers)) if tiers > 1 else 0
    tier = np.concatenate([np.zeros(computing, np.int64), draws.integers(1, max(tiers, 2), remote)])
    pools = len(tier)
    member, first = [], [0]
    in_all = int(draws.integers(computing, pools)) if remote and draws.random() < 0.3 else -1
    for cluster in range(clusters):
        width = int(draws.integers(0, 4))
        others = set(draws.choice(np.arange(computing, pools), min(width, remote), replace=False).tolist())
        if in_all >= 0:
            others.add(in_all)
        home = cluster if computing == clusters else int(draws.integers(computing))
        member += [home, *sorted(others, key=lambda pool: (weight_of[tier[pool]], pool))]
        first.append(len(member))
    all_cores = np.where(np.arange(pools) < computing, draws.integers(1, 9, pools), 0).astype(np.int64)
    all_mb = draws.integers(0, 3 * MOST_MB, pools)
    part = draws.random(2) < 0.2
    return Supply(
        cores=(all_cores * draws.random(pools)).astype(np.int64) if part[0] else all_cores.copy(),
        mb=(all_mb * draws.random(pools)).astype(np.int64) if part[1] else all_mb.copy(),
        weight=weight_of[tier],
        price=price_of[tier] if draws.random() < 0.7 else draws.integers(0, 8, pools),
        tier=tier,
        first=np.array(first, np.int64),
        member=np.array(member, np.int64),
        domain=np.stack([draws.integers(-1, 4, pools), np.arange(pools) % 5, np.arange(pools) // 3]).astype(np.int64),
        all_cores=all_cores,
        all_mb=all_mb,
    )


def random_asked(draws: np.random.Generator, supply: Supply, servers: int, *, plain: bool = False) -> Asked:
    """Servers with everything that they can ask; some ask what they cannot have."""
    mb = draws.integers(0, MOST_MB + 1, servers)
    floor = (mb * draws.random(servers) * draws.integers(0, 2, servers)).astype(np.int64)
    ceiling = ((mb - floor) * draws.uniform(0, 4, servers)).astype(np.int64)
    ceiling[draws.random(servers) < 0.3] = 2**53
    cores, tiers = draws.integers(0, 5, servers), int(supply.tier.max()) + 1
    if plain:
        return asked(cores, mb, floor, ceiling, tiers=tiers)
    group = np.where(draws.random(servers) < 0.5, draws.integers(0, 3, servers), -1)
    pinned = np.where(draws.random(servers) < 0.15, draws.integers(0, supply.clusters, servers), -1)
    return asked(
        cores,
        mb,
        floor,
        ceiling,
        tiers=tiers,
        forbidden=draws.random((servers, tiers)) < 0.1,
        group=group,
        level=np.where(group >= 0, group % len(supply.domain), -1),
        pinned=pinned,
        most_clusters=int(draws.integers(-1, supply.clusters + 1)),
    )
