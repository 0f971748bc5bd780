"""One server's memory over the tiers of one cluster: does it fit, and which split is cheapest.

A server asks for ``memory`` MB, at least ``floor`` of it local, so that the weighted remote memory stays within
``ceiling``: with m_i MB from the i-th pool of a cluster (0: its compute pool), of weight w_i and price p_i,

    sum m_i = memory,  m_0 >= floor,  sum w_i m_i <= ceiling,  0 <= m_i <= free_i,  minimise sum p_i m_i

(Farshin et al. 2021, eq. 1 to 5). Pools are in ascending order of weight, and w_0 = 0.

*Feasible* is the split of least weight, pool by pool in that order. *Cheapest* starts there and exchanges MB of a pool
for MB of another while that saves, the most saved for a unit of weight first: the parametric simplex of a problem with
one budget, which ends in the linear optimum, with less than one exchange cut short by the budget. Where that fraction
could hide a better whole split, the two pools of the exchange are branched on. So the answer is the optimum, always;
and with weights 0, 1, 2 there is nothing to branch on. O(pools^2) a server otherwise.

References
----------
Farshin, A., Roozbeh, A., Schulte, C., Maguire, G. Q., Kostić, D. (2021). Scheduling - a secret sauce for resource
disaggregation. KTH, technical report.
"""

from __future__ import annotations

from math import gcd

import numpy as np

from unrack.jit import compiled, inlined
from unrack.kernels.arrays import Ints

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
