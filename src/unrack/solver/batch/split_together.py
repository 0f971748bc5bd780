"""The memory of all servers of some clusters, split over their pools together at the lowest price.

With m_ip MB of server i from pool p of its cluster: sum_p m_ip = memory_i, local m_i0 >= floor_i, sum_p w_p m_ip <=
ceiling_i, sum_i m_ip <= free_p, whole numbers, least sum price_p m_ip. Splitting servers one after the other can do
worse, and can fail where this does not: what the first takes of a pool the next might need more.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from unrack.extras import needed_for
from unrack.kernels.arrays import Ints
from unrack.solver.clock import Clock, until_up
from unrack.solver.servers.problem import Asked, Supply

EFFORT = 1.0
"""Deterministic seconds of the solver; a linear optimum is all but whole, so a hundredth of it is enough as a rule."""


def split_together(
    supply: Supply, asked: Asked, which: Ints, cluster: Ints, clock: Clock | None = None
) -> Ints | None:  # fmt: skip
    """Split the memory of servers that are together in clusters; cores and failure domains are not looked at.

    Returns int64[some, width] or None: MB from each pool of the server's cluster: the cheapest. None: there is no such
    split, or none was found.

    Parameters
    ----------
    which : int64[some]
        Servers; every one that is to hold memory of these clusters' pools.
    cluster : int64[some]
        The cluster of each.
    clock
        When the search must end. Default: by what it has worked only.
    """
    with needed_for("memory of servers split together"):
        from ortools.sat.python import cp_model

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
    model = cp_model.CpModel()
    parts = [model.new_int_var(a, b, "") for a, b in zip(low.tolist(), high.tolist(), strict=True)]

    def weighed(rows: Ints, factors: Ints) -> Any:
        return cp_model.LinearExpr.weighted_sum([parts[k] for k in rows.tolist()], factors.tolist())

    ones, first = np.ones(len(server), np.int64), np.cumsum(width) - width
    for i, begin, size in zip(which.tolist(), first.tolist(), width.tolist(), strict=True):
        own = np.arange(begin, begin + size)
        model.add(weighed(own, ones[own]) == int(asked.mb[i]))
        model.add(weighed(own, supply.weight[pool[own]]) <= int(asked.ceiling[i]))
    for one in np.unique(pool).tolist():
        takers = np.flatnonzero(pool == one)
        model.add(weighed(takers, ones[takers]) <= int(supply.mb[one]))
    model.minimize(weighed(np.arange(len(server)), supply.price[pool]))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_deterministic_time = EFFORT

    def solve(wall_s: float) -> Any:
        solver.parameters.max_time_in_seconds = wall_s
        return solver.solve(model)

    known = (cp_model.OPTIMAL, cp_model.INFEASIBLE)
    if until_up(clock or Clock(), solve, lambda status: status in known) != cp_model.OPTIMAL:
        return None
    mb = np.zeros((count, supply.width), np.int64)
    mb[server, place] = [solver.value(part) for part in parts]
    return mb
