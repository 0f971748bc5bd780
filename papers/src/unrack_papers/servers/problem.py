"""Where servers were placed, what that costs at least, and equal clusters of pools to place them on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unrack.solver import Asked, Supply, least_prices

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Allocation:
    """Where servers were placed.

    Attributes
    ----------
    cluster : int64[servers]
        -1: not placed.
    mb : int64[servers, width]
        From each pool of the server's cluster, in the cluster's order; 0 beyond.
    """

    cluster: Ints
    mb: Ints

    def parts(self, supply: Supply) -> Iterator[tuple[Ints, Ints, Ints]]:
        """Place by place of the clusters: int64[some] each, servers there, the pool at that place, their MB of it."""
        there = np.flatnonzero(self.cluster >= 0)
        first = supply.first[self.cluster[there]]
        lengths = supply.first[self.cluster[there] + 1] - first
        for place in range(supply.width):
            has = lengths > place
            yield there[has], supply.member[first[has] + place], self.mb[there[has], place]

    def sums(self, supply: Supply, column: Ints) -> Ints:
        """int64[servers]: MB of each server times a column of the pools; 0 where it is not placed."""
        total = np.zeros(len(self.cluster), np.int64)
        for servers, pools, mb in self.parts(supply):
            total[servers] += mb * column[pools]
        return total

    def held(self, supply: Supply, cores: Ints) -> tuple[Ints, Ints]:
        """int64[pools] each: cores and MB in use; ``cores``: of each server."""
        on, mb = np.zeros(len(supply.mb), np.int64), np.zeros(len(supply.mb), np.int64)
        there = np.flatnonzero(self.cluster >= 0)
        np.add.at(on, supply.member[supply.first[self.cluster[there]]], cores[there])
        for _, pools, parts in self.parts(supply):
            np.add.at(mb, pools, parts)
        return on, mb


def least_price(supply: Supply, asks: Asked, allocation: Allocation) -> int:
    """What the servers that an allocation has placed cost at least, together; those that fit nowhere count nothing."""
    return int(least_prices(supply, asks)[allocation.cluster >= 0].clip(0).sum())


def regular_supply(
    clusters: int, compute: tuple[int, int], remote: tuple[tuple[int, int, int, int], ...], price: int
) -> Supply:
    """Equal clusters, each with a compute pool and remote pools that may be shared by consecutive clusters.

    Parameters
    ----------
    clusters
        How many.
    compute
        Cores and MB of each compute pool.
    remote
        Of each remote tier, in ascending order of weight: MB of a pool, weight, price, and how many clusters share it.
    price
        Of a MB of local memory.

    Examples
    --------
    The basic clustering of the paper, Table 1 and 3:

    >>> basic = regular_supply(100, (112, 32768), ((131072, 1, 50, 1), (262144, 2, 25, 1)), price=100)
    >>> basic.pools(1).tolist(), basic.clusters
    ([1, 101, 201], 100)
    """
    counts = [clusters, *(-(-clusters // shared) for *_, shared in remote)]
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    member = np.empty((clusters, len(counts)), np.int64)
    member[:, 0] = np.arange(clusters)
    for tier, (*_, shared) in enumerate(remote, 1):
        member[:, tier] = starts[tier] + np.arange(clusters) // shared

    def of_tiers(values: list[int]) -> Ints:
        return np.repeat(np.array(values, np.int64), counts)

    return Supply(
        cores=of_tiers([compute[0]] + [0] * len(remote)),
        mb=of_tiers([compute[1], *(mb for mb, *_ in remote)]),
        weight=of_tiers([0, *(weight for _, weight, _, _ in remote)]),
        price=of_tiers([price, *(each for _, _, each, _ in remote)]),
        tier=np.repeat(np.arange(len(counts), dtype=np.int64), counts),
        first=np.arange(0, member.size + 1, len(counts), dtype=np.int64),
        member=member.reshape(-1),
    )
