"""Small systems of every sort at random: pools shared in any way, unlike clusters, servers that ask everything."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unrack.solver.servers import Asked, Supply, asked


def random_supply(draws: np.random.Generator, clusters: int, *, mb: int = 40, equal: bool = False) -> Supply:
    """Clusters of one to three pools; remote pools may be in several."""
    shared = int(draws.integers(1, 4))
    cores, size, weight, price, tier = [], [], [], [], []
    member, first = [], [0]

    def pool(n_cores: int, n_mb: int, w: int, p: int, t: int) -> int:
        for column, value in zip((cores, size, weight, price, tier), (n_cores, n_mb, w, p, t), strict=True):
            column.append(value)
        return len(cores) - 1

    like = (int(draws.integers(2, 9)), int(draws.integers(mb // 4, mb)), int(draws.integers(0, mb)))
    tiers = int(draws.integers(0, 3))
    remote: list[list[int]] = [[], []]
    for c in range(clusters):
        n_cores, local, far = like if equal else (int(draws.integers(1, 9)), int(draws.integers(5, mb)), like[2])
        pools = [pool(n_cores, local, 0, 100, 0)]
        for t in range(tiers):
            if c % shared == 0 or not remote[t]:
                remote[t].append(pool(0, far * (t + 1) * shared, t + 1, 50 - 25 * t, t + 1))
            pools.append(remote[t][-1])
        member += pools
        first.append(len(member))
    columns = [np.array(column, np.int64) for column in (cores, size, weight, price, tier)]
    domain = np.stack([draws.integers(-1, 3, len(cores)), np.arange(len(cores)) % 5]).astype(np.int64)
    return Supply(*columns, np.array(first, np.int64), np.array(member, np.int64), domain)


def random_asked(
    draws: np.random.Generator, supply: Supply, servers: int, *, mb: int = 40, plain: bool = False
) -> Asked:
    """Servers, some with more than they can have."""
    size = draws.integers(1, mb, servers)
    floor = (size * draws.random(servers) * 0.5).astype(np.int64)
    ceiling = ((size - floor) * draws.uniform(0.3, 2, servers)).astype(np.int64)
    asks = asked(draws.integers(0, 5, servers), size, floor, ceiling, tiers=3)
    if plain:
        return asks
    rare = draws.random((4, servers))
    group = np.where(rare[0] < 0.5, draws.integers(0, 2, servers), -1)
    return replace(
        asks,
        forbidden=draws.random((servers, 3)) < np.array([0.02, 0.1, 0.1]),
        group=group,
        level=np.where(group >= 0, group % 2, -1),
        pinned=np.where(rare[1] < 0.15, draws.integers(0, supply.clusters, servers), -1),
        most_clusters=int(draws.integers(-1, supply.clusters + 1)),
    )
