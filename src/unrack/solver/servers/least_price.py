"""What servers cost at least: each by itself, in the empty cluster where it is cheapest."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unrack.jit import compiled
from unrack.kernels.arrays import Bools, Ints
from unrack.solver.servers.problem import Asked, Supply, cheapest

NONE = -1
"""In place of a price: no empty cluster takes the server within its SLOs."""
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
