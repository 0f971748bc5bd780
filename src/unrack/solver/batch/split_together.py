"""The memory of all servers of some clusters, split over their pools together at the lowest price.

With m_ip MB of server i from pool p of its cluster: sum_p m_ip = memory_i, local m_i0 >= floor_i, sum_p w_p m_ip <=
ceiling_i, sum_i m_ip <= free_p, whole numbers, least sum price_p m_ip. Splitting servers one after the other can do
worse, and can fail where this does not: what the first takes of a pool the next might need more.
"""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unrack.solver.clock import Clock, until_up
from unrack.solver.servers.problem import Asked, Supply

Ints = NDArray[np.int64]

NODES = 2000
"""Most nodes of the search for whole numbers; the linear optimum is all but whole, so few are needed."""


def split_together(
    supply: Supply, asked: Asked, which: Ints, cluster: Ints, clock: Clock | None = None, was: Ints | None = None
) -> Ints | None:  # fmt: skip
    """Split the memory of servers that are together in clusters; cores and failure domains are not looked at.

    Parameters
    ----------
    which : int64[some]
        Servers; every one that is to hold memory of these clusters' pools.
    cluster : int64[some]
        The cluster of each.
    clock
        When the search must end. Default: by the number of its nodes only.
    was : int64[some, width]
        The split until now: then not the price counts but how many MB are added to pools.

    Returns
    -------
    int64[some, width] or None
        MB from each pool of the server's cluster: the cheapest, but for a share of 1e-9. None: there is no such
        split, or none was found.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_matrix, eye_array, hstack

    count = len(which)
    if not count:
        return np.zeros((0, supply.width), np.int64)
    width = np.diff(supply.first)[cluster]
    server = np.repeat(np.arange(count), width)
    place = np.arange(len(server)) - np.repeat(np.cumsum(width) - width, width)
    pool = supply.member[supply.first[cluster][server] + place]
    asks = which[server]
    high = np.minimum(supply.mb[pool], asked.mb[asks])
    tiers = asked.forbidden.shape[1]
    if tiers:
        tier = np.minimum(supply.tier[pool], tiers - 1)
        high[asked.forbidden[asks, tier] & (supply.tier[pool] < tiers)] = 0
    low = np.where(place == 0, asked.floor[asks], 0)
    if (low > high).any():
        return None
    pools, row = np.unique(pool, return_inverse=True)
    every = np.arange(len(server))
    ones = np.ones(len(server))
    rules = [
        LinearConstraint(csr_matrix((ones, (server, every))), asked.mb[which], asked.mb[which]),
        LinearConstraint(
            csr_matrix((supply.weight[pool].astype(float), (server, every))), -np.inf, asked.ceiling[which]
        ),
        LinearConstraint(csr_matrix((ones, (row, every))), -np.inf, supply.mb[pools]),
    ]
    cost = supply.price[pool].astype(float)
    if was is not None:  # as many variables more: at least what is added
        n = len(server)
        rules = [
            LinearConstraint(hstack([rule.A, csr_matrix((rule.A.shape[0], n))]), rule.lb, rule.ub) for rule in rules
        ]
        rules.append(LinearConstraint(hstack([eye_array(n), -eye_array(n)]), -np.inf, was[server, place]))
        cost, low, high = np.repeat([0.0, 1.0], n), np.append(low, 0 * low), np.append(high, high)

    def solve(wall_s: float) -> Any:
        options = {"mip_rel_gap": 1e-9, "node_limit": NODES, **({} if wall_s == inf else {"time_limit": wall_s})}
        return milp(cost, constraints=rules, bounds=Bounds(low, high), integrality=np.ones(len(cost)), options=options)

    found = until_up(clock or Clock(), solve, lambda found: bool(found.status == 0))
    if found is None or found.x is None:
        return None
    mb = np.zeros((count, supply.width), np.int64)
    mb[server, place] = np.rint(found.x[: len(server)]).astype(np.int64)
    return mb if fits_together(supply, asked, which, cluster, mb) else None


def fits_together(supply: Supply, asked: Asked, which: Ints, cluster: Ints, mb: Ints) -> bool:
    """Whether a split meets every SLO and no pool gives more than it has; exact, in whole numbers."""
    given = np.zeros(len(supply.mb), np.int64)
    for i, c, row in zip(which.tolist(), cluster.tolist(), mb, strict=True):
        pools = supply.pools(c)
        parts = row[: len(pools)]
        given[pools] += parts
        if parts.min() < 0 or parts.sum() != asked.mb[i] or parts[0] < asked.floor[i]:
            return False
        if parts @ supply.weight[pools] > asked.ceiling[i]:
            return False
    return bool((given <= supply.mb).all())
