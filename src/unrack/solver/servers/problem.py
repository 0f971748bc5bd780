"""Servers, pools and clusters of pools as arrays: what every allocator over memory tiers is given and gives back."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from unrack.kernels.arrays import Bools, Ints

NOWHERE = -1
"""Instead of a cluster, a group, a level or a domain: none."""
COLUMNS = ("cores", "mb", "floor", "ceiling", "forbidden", "group", "level", "pinned")
"""Those of :class:`Asked` that have an entry a server."""


@dataclass(frozen=True, eq=False)
class Supply:
    """Pools, and the clusters that they form.

    A pool may be in several clusters: it is then shared by them. The first pool of a cluster is its compute pool, the
    memory of which is local and has weight 0; the others follow in ascending order of weight.

    Attributes
    ----------
    cores, mb : int64[pools]
        What each pool has to give now. Only the cores of compute pools are used.
    weight : int64[pools]
        What a MB of the pool counts towards a server's ceiling; 0 for compute pools.
    price : int64[pools]
        Of a MB.
    tier : int64[pools]
        The tier that each pool is of, 0 and up.
    first : int64[clusters + 1]
        The pools of cluster c are ``member[first[c]:first[c + 1]]``.
    member : int64[members]
    domain : int64[levels, pools]
        The failure domain of each pool at each level (chassis, rack, power feed …); -1: in none.
    all_cores, all_mb : int64[pools]
        What is installed; default: all of it is free.
    """

    cores: Ints
    mb: Ints
    weight: Ints
    price: Ints
    tier: Ints
    first: Ints
    member: Ints
    domain: Ints = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    all_cores: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    all_mb: Ints = field(default_factory=lambda: np.zeros(0, np.int64))

    def __post_init__(self) -> None:
        if not len(self.all_cores):
            object.__setattr__(self, "all_cores", self.cores.copy())
        if not len(self.all_mb):
            object.__setattr__(self, "all_mb", self.mb.copy())
        if not self.domain.size:
            object.__setattr__(self, "domain", np.zeros((0, len(self.mb)), np.int64))

    @property
    def clusters(self) -> int:
        """How many clusters there are."""
        return len(self.first) - 1

    @property
    def width(self) -> int:
        """The most pools in one cluster."""
        return int(np.diff(self.first).max(initial=0))

    def pools(self, cluster: int) -> Ints:
        """int64[members]: the pools of a cluster, its compute pool first."""
        return self.member[self.first[cluster] : self.first[cluster + 1]]

    def kinds(self) -> Ints:
        """int64[clusters]: clusters of one kind have equal pools (size, weight, price, tier); numbered by first."""
        columns = np.stack([self.cores, self.mb, self.weight, self.price, self.tier])
        numbers: dict[bytes, int] = {}
        told = [numbers.setdefault(columns[:, self.pools(c)].tobytes(), len(numbers)) for c in range(self.clusters)]
        return np.array(told, np.int64)


@dataclass(frozen=True, eq=False)
class Asked:
    """Servers to be placed, in order.

    Attributes
    ----------
    cores, mb, floor, ceiling : int64[servers]
        Cores; MB; MB of them that must be local; and the most weighted remote MB, in units of the pools' weights.
    forbidden : bool[servers, tiers]
        Tiers that a server must not have memory of.
    group, level : int64[servers]
        Servers of one group must not share a failure domain of the level (a row of :attr:`Supply.domain`): no two of
        them may hold anything (cores or memory) in one. -1: no group; every server of a group has the same level.
    pinned : int64[servers]
        The only cluster that a server may be in; -1: any.
    most_clusters
        At most so many clusters may be in use; -1: any number.
    """

    cores: Ints
    mb: Ints
    floor: Ints
    ceiling: Ints
    forbidden: Bools
    group: Ints
    level: Ints
    pinned: Ints
    most_clusters: int = -1

    def __len__(self) -> int:
        return len(self.cores)

    def some(self, which: Ints) -> Asked:
        """Some of the servers, in the order of their numbers given."""
        return replace(self, **{name: getattr(self, name)[which] for name in COLUMNS})


def asked(
    cores: Ints,
    mb: Ints,
    floor: Ints,
    ceiling: Ints,
    *,
    tiers: int,
    forbidden: Bools | None = None,
    group: Ints | None = None,
    level: Ints | None = None,
    pinned: Ints | None = None,
    most_clusters: int = -1,
) -> Asked:
    """Servers, with nothing beyond their SLOs asked where it is not given."""
    count = len(cores)

    def column(values: Ints | None) -> Ints:
        return np.full(count, NOWHERE, np.int64) if values is None else np.asarray(values, np.int64)

    return Asked(
        np.asarray(cores, np.int64),
        np.asarray(mb, np.int64),
        np.asarray(floor, np.int64),
        np.asarray(ceiling, np.int64),
        np.zeros((count, tiers), np.bool_) if forbidden is None else forbidden,
        column(group),
        column(level),
        column(pinned),
        most_clusters,
    )
