"""Servers on tiers of memory: the arrays that every allocator is given, the cheapest split of one server, and a bound.

Does one server's memory fit over the tiers of one cluster, and which split is cheapest? A server asks for ``memory``
MB, at least ``floor`` of it local, so that the weighted remote memory stays within ``ceiling``: with m_i MB from the
i-th pool of a cluster (0: its compute pool), of weight w_i and price p_i,

    sum m_i = memory,  m_0 >= floor,  sum w_i m_i <= ceiling,  0 <= m_i <= free_i,  minimise sum p_i m_i

(Farshin et al. 2021, eq. 1 to 5). Pools are in ascending order of weight, and w_0 = 0.

*Feasible* is the split of least weight, pool by pool in that order. *Cheapest* starts there and exchanges MB of a pool
for MB of another while that saves, the most saved for a unit of weight first: the parametric simplex of a problem with
one budget, which ends in the linear optimum, with less than one exchange cut short by the budget. Where that fraction
could hide a better whole split, the two pools of the exchange are branched on. So the answer is the optimum, always;
and with weights 0, 1, 2 there is nothing to branch on. O(pools^2) a server otherwise.

Servers cost at least what each costs by itself, in the empty cluster where it is cheapest.

References
----------
Farshin, A., Roozbeh, A., Schulte, C., Maguire, G. Q., Kostić, D. (2021). Scheduling - a secret sauce for resource
disaggregation. KTH, technical report.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import gcd

import numpy as np

from unrack.jit import compiled, inlined
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
        column(cores), column(mb), column(floor), column(ceiling),
        np.zeros((count, tiers), np.bool_) if forbidden is None else forbidden,
        column(group), column(level), column(pinned), most_clusters,
    )  # fmt: skip


NONE = -1
"""Instead of a price: there is no such split."""


@inlined
def least_weight(memory: int, floor: int, free: Ints, weight: Ints, width: int) -> int:
    """The least weighted remote memory that a server can have; -1: memory or floor do not fit."""
    if free[0] < floor:
        return NONE
    left, total = memory, 0
    for i in range(width):
        mb = min(left, free[i])
        total += mb * weight[i]
        left -= mb
    return total if left == 0 else NONE


@inlined
def _relaxed(
    memory: int, ceiling: int, low: Ints, high: Ints, weight: Ints, price: Ints, width: int, step: int, into: Ints
) -> tuple[int, int, int, int]:
    """A whole split within bounds: its price (-1: there is none) and a lower bound on the price of every other.

    Then a pool of which the linear optimum takes no whole amount, and that amount rounded up; -1: all are whole.
    ``step`` divides every difference of prices.
    """
    left, load, cost = memory, 0, 0
    for i in range(width):
        into[i] = low[i]
        left -= low[i]
    if left < 0:
        return NONE, NONE, NONE, 0
    for i in range(width):
        mb = min(left, high[i] - low[i])
        into[i] += mb
        left -= mb
        load += into[i] * weight[i]
        cost += into[i] * price[i]
    if left > 0 or load > ceiling:
        return NONE, NONE, NONE, 0
    bound, branch, above = NONE, NONE, 0
    while True:
        best_from, best_to, best_saved, best_load = NONE, NONE, 0, 1
        for i in range(width):
            if into[i] == low[i]:
                continue
            for j in range(width):
                saved, more = price[i] - price[j], weight[j] - weight[i]
                if saved <= 0 or into[j] == high[j] or (bound != NONE and more > ceiling - load):
                    continue
                if more <= 0:
                    saved, more = 1, 0
                if best_from == NONE or saved * best_load > best_saved * more:
                    best_from, best_to, best_saved, best_load = i, j, saved, more
        if best_from == NONE:
            break
        i, j = best_from, best_to
        most = min(into[i] - low[i], high[j] - into[j])
        saved, more = price[i] - price[j], weight[j] - weight[i]
        mb = most if more <= 0 else min(most, (ceiling - load) // more)
        into[i] -= mb
        into[j] += mb
        load += mb * more
        cost -= mb * saved
        if mb < most and bound == NONE:
            hidden = (ceiling - load) * saved // more
            bound, branch, above = cost - hidden // step * step, i, into[i]
    return cost, (cost if bound == NONE else bound), branch, above


@compiled
def cheapest(
    memory: int, floor: int, ceiling: int, free: Ints, weight: Ints, price: Ints, width: int, into: Ints
) -> int:
    """The cheapest split of a server's memory over the pools of a cluster, and its price.

    Returns the price, or -1: no split meets all conditions.

    Parameters
    ----------
    memory, floor
        MB asked, and MB of it that must be local.
    ceiling
        The most weighted remote memory, in units of the weights.
    free : int64[pools]
        MB free in each pool of the cluster, its compute pool first; the first ``width`` count.
    weight, price : int64[pools]
        Of a MB. Weights ascend from 0.
    into : int64[pools]
        Receives the MB from each pool; of splits that are equally cheap, which one is a fixed rule.
    """
    step = 0
    for i in range(1, width):
        step = gcd(step, abs(price[i] - price[0]))
    step = max(step, 1)
    bounds = np.zeros((8, 2, width), np.int64)
    bounds[0, 0, 0] = floor
    for i in range(width):
        bounds[0, 1, i] = min(free[i], memory)
    count, best = 1, NONE
    split = np.zeros(width, np.int64)
    while count:
        count -= 1
        low, high = bounds[count, 0].copy(), bounds[count, 1].copy()
        if (low > high).any():
            continue
        cost, bound, branch, above = _relaxed(memory, ceiling, low, high, weight, price, width, step, split)
        if cost == NONE:
            continue
        if best == NONE or cost < best:
            best = cost
            for i in range(width):
                into[i] = split[i]
        if bound >= best:
            continue
        if count + 2 > len(bounds):
            more = np.zeros((2 * len(bounds), 2, width), np.int64)
            more[: len(bounds)] = bounds
            bounds = more
        bounds[count, 0], bounds[count, 1] = low, high
        bounds[count, 1, branch] = above - 1
        bounds[count + 1, 0], bounds[count + 1, 1] = low, high
        bounds[count + 1, 0, branch] = above
        count += 2
    return best


_UNKNOWN = np.iinfo(np.int64).max


def least_prices(supply: Supply, asks: Asked) -> Ints:
    """int64[servers]: the lowest price of each server in any empty cluster, within its SLOs; -1: there is none.

    No allocation costs less, whatever it does with the others. A pinned server is looked at in its cluster, others
    once in each kind of equal clusters: O(kinds of clusters x servers). Spread does not count.
    """
    _, examples = np.unique(replace(supply, cores=supply.all_cores, mb=supply.all_mb).kinds(), return_index=True)
    best = np.full(len(asks), _UNKNOWN, np.int64)
    looks = [(cluster, np.flatnonzero(asks.pinned < 0)) for cluster in examples.tolist()]
    pinned = np.flatnonzero(asks.pinned >= 0)
    pinned = pinned[np.argsort(asks.pinned[pinned], kind="stable")]
    of_one = np.split(pinned, np.flatnonzero(np.diff(asks.pinned[pinned])) + 1) if len(pinned) else []
    looks += [(int(asks.pinned[which[0]]), which) for which in of_one]
    for cluster, which in looks:
        pools = supply.pools(cluster)
        _cheapest_of_all(
            which, asks.cores, asks.mb, asks.floor, asks.ceiling, asks.forbidden, int(supply.all_cores[pools[0]]),
            supply.all_mb[pools], supply.weight[pools], supply.price[pools], supply.tier[pools], best,
        )  # fmt: skip
    return np.where(best == _UNKNOWN, NONE, best)


@compiled
def _cheapest_of_all(
    which: Ints, cores: Ints, mb: Ints, floor: Ints, ceiling: Ints, forbidden: Bools, all_cores: int, all_mb: Ints,
    weight: Ints, price: Ints, tier: Ints, best: Ints,
) -> None:  # fmt: skip
    """Lower ``best`` to the price of some servers in an empty cluster."""
    into = np.zeros(len(all_mb), np.int64)
    for server in which:
        if cores[server] > all_cores:
            continue
        free = all_mb.copy()
        for i in range(len(free)):
            if forbidden[server, tier[i]]:
                free[i] = 0
        found = cheapest(mb[server], floor[server], ceiling[server], free, weight, price, len(free), into)
        if 0 <= found < best[server]:
            best[server] = found
