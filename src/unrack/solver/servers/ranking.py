"""Clusters in a stable order of utilisation, and the first of them that could take a server, without looking at all.

The paper's allocator sorts its clusters by utilisation, in whole percent, before each server: stably, so that among
equals the order of before stays. That order is kept here instead of sorted again. Each of the 101 utilisations has a
run of slots; a cluster that was filled goes to the end of its new run (it stood behind all of them), one that was
emptied goes to the front. Slots in ascending order are then the sorted list.

Over the slots stands a tree of maxima of what the clusters have free, in columns such that more is never worse. Where
not even the maxima of a part of the list could take a server, no cluster of that part can. So the first cluster that
fits is found from left to right without entering hopeless parts. A placement touches one leaf and its ancestors, O(log
clusters); a run that is out of slots has all of them laid out again, which happens at most once in (slots / 404) moves.

One server's memory over the tiers of one cluster: does it fit, and which split is cheapest.

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
from typing import NamedTuple

import numpy as np

from unrack.jit import compiled, inlined
from unrack.kernels.arrays import Ints

FULL = 100
"""The highest utilisation, percent."""
HEAD, TAIL, BEGIN, END = range(4)
"""Rows of :attr:`Ranking.span`."""


class Ranking(NamedTuple):
    """The order and the tree over it."""

    # int64[2 * slots, columns]: node 1 is the root, ``slots + s`` the leaf of slot s. What the columns say is the
    # allocator's; -1 in leaves without a cluster.
    tree: Ints
    ranked: Ints  # int64[slots]: the cluster in a slot; -1: none
    # at, used, int64[clusters]: the slot of each cluster (-1: none yet) and its utilisation
    at: Ints
    used: Ints
    # int64[4, 101]: per utilisation: first slot taken, one after the last taken, first and one after the last slot of
    # its run
    span: Ints


def make_ranking(used: Ints, columns: int) -> Ranking:
    """Clusters in order of utilisation (percent, 0 to 100), then of id; their leaves are still to be filled in.

    ``used``: int64[clusters], utilisation of each; ``columns``: of the tree.
    """
    slots = 1
    while slots < 4 * len(used) + 4 * (FULL + 1):
        slots *= 2
    ranking = Ranking(
        np.full((2 * slots, columns), -1, np.int64),
        np.full(slots, -1, np.int64),
        np.full(len(used), -1, np.int64),
        used.astype(np.int64),
        np.zeros((4, FULL + 1), np.int64),
    )
    _lay_out(*ranking, np.argsort(-used, kind="stable").astype(np.int64))
    return ranking


@compiled
def _lay_out(tree: Ints, ranked: Ints, at: Ints, used: Ints, span: Ints, order: Ints) -> None:
    """Give the clusters slots in this order, with room in every run; leaves move along, -1 where there was no slot."""
    slots, width = len(ranked), tree.shape[1]
    leaves = np.full((len(order), width), -1, np.int64)
    counts = np.zeros(FULL + 1, np.int64)
    for k in range(len(order)):
        counts[used[order[k]]] += 1
        if at[order[k]] >= 0:
            leaves[k] = tree[slots + at[order[k]]]
    tree[:] = -1
    ranked[:] = -1
    spare = (slots - len(order)) // (FULL + 1)
    slot, k = 0, 0
    for percent in range(FULL, -1, -1):
        span[BEGIN, percent] = slot
        slot += spare // 3
        span[HEAD, percent] = slot
        for _ in range(counts[percent]):
            ranked[slot], at[order[k]] = order[k], slot
            tree[slots + slot] = leaves[k]
            slot += 1
            k += 1
        span[TAIL, percent] = slot
        slot += spare - spare // 3
        span[END, percent] = slot
    for node in range(slots - 1, 0, -1):
        for i in range(width):
            tree[node, i] = max(tree[2 * node, i], tree[2 * node + 1, i])


@inlined
def climb(tree: Ints, leaf: int) -> None:
    """Make the maxima above a leaf right again."""
    node = leaf // 2
    while node >= 1:
        same = True
        for i in range(tree.shape[1]):
            most = max(tree[2 * node, i], tree[2 * node + 1, i])
            if most != tree[node, i]:
                tree[node, i] = most
                same = False
        if same:
            return
        node //= 2


@inlined
def rank(tree: Ints, ranked: Ints, at: Ints, used: Ints, span: Ints, cluster: int, percent: int, row: Ints) -> None:
    """Tell what a cluster has free now, and move it if its utilisation is another: up to the end, down to the front.

    ``percent``: its utilisation now; ``row``: int64[columns], its leaf.
    """
    slots = len(ranked)
    slot = at[cluster]
    if used[cluster] != percent:
        up = percent > used[cluster]
        tree[slots + slot] = -1
        climb(tree, slots + slot)
        ranked[slot], at[cluster] = -1, -1
        if (span[TAIL, percent] == span[END, percent]) if up else (span[HEAD, percent] == span[BEGIN, percent]):
            others = np.empty(len(at) - 1, np.int64)
            k = 0
            for s in range(slots):
                if ranked[s] >= 0:
                    others[k] = ranked[s]
                    k += 1
            _lay_out(tree, ranked, at, used, span, others)
        if up:
            slot = span[TAIL, percent]
            span[TAIL, percent] += 1
        else:
            span[HEAD, percent] -= 1
            slot = span[HEAD, percent]
        ranked[slot], at[cluster], used[cluster] = cluster, slot, percent
    for i in range(tree.shape[1]):
        tree[slots + slot, i] = row[i]
    climb(tree, slots + slot)


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
