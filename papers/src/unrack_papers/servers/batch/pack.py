"""Servers moved and swapped between open clusters until none has more than it can hold, or until they cost less.

A cluster is looked at as if it held one server that asks the sum of what its servers ask (cores, memory, floor,
ceiling, each as tightened in ``case.py``): a relaxation that O(pools) steps decide, and that is
rarely wrong, as there is room among fifteen servers to share out what their sum may have. What it lacks is its
*excess*, in MB: floor above local memory, memory beyond all pools, least weighted remote memory above the ceiling,
and cores (a core counts as its share of the memory). A pool that several clusters share has for each what the others
left at their last move.

Simulated annealing over moves (a server to an open cluster) and swaps (two servers of different clusters, or of a
cluster and of those left out). It either drives the excess to nothing, or, from there, the sum of the clusters'
prices down. What it finds is a wish: ``case.py`` splits the memory exactly, or refuses.
"""

from __future__ import annotations

from math import exp
from typing import NamedTuple

import numpy as np

from unrack.jit import Ints, compiled, inlined, plain
from unrack.solver import cheapest
from unrack_papers.servers.batch.case import CEILING, CORES, FLOOR, MB, Crowd, Land, clash


@inlined
def weigh(
    land: Land, cluster: int, total: Ints, held: Ints, core_mb: float, reserve: int, priced: bool, work: Ints
) -> tuple[float, int]:
    """A cluster's excess and price with servers that ask ``total`` in all.

    Parameters
    ----------
    total : int64[4]
        Sums of what its servers need.
    held : int64[2, pools]
        Cores and MB that other clusters have of each pool.
    reserve
        Weighted remote memory that the ceilings must leave.
    work : int64[4, width]
        Work space; its row 3 receives the MB from each pool.
    """
    start = land.first[cluster]
    width = land.first[cluster + 1] - start
    compute = land.member[start]
    excess = core_mb * max(0, total[CORES] - (land.cores[compute] - held[0, compute]))
    left, load, cost = total[MB], 0, 0
    for j in range(width):
        pool = land.member[start + j]
        work[0, j], work[1, j], work[2, j] = land.mb[pool] - held[1, pool], land.weight[pool], land.price[pool]
        mb = min(left, work[0, j])
        work[3, j] = mb
        left -= mb
        load += mb * work[1, j]
        cost += mb * work[2, j]
    excess += left + max(0, total[FLOOR] - work[0, 0]) + max(0, load + reserve - total[CEILING])
    if priced and excess == 0 and total[MB] > 0:
        cost = cheapest(
            total[MB], total[FLOOR], total[CEILING] - reserve, work[0], work[1], work[2], width, work[3]
        )  # fmt: skip
    return excess, cost


@inlined
def _hold(land: Land, cluster: int, total: Ints, take: Ints, held: Ints, sign: int) -> None:
    """Count what a cluster has of its pools as held (sign 1), or no longer (-1)."""
    start = land.first[cluster]
    held[0, land.member[start]] += sign * total[CORES]
    for j in range(land.first[cluster + 1] - start):
        held[1, land.member[start + j]] += sign * take[j]


class Annealing(NamedTuple):
    """How long it goes on, and what is worse."""

    steps: int  # moves and swaps tried, at most
    # temperature at first and at last: the rise in cost that is taken in one try of e
    hot: float
    cold: float
    penalty: float  # cost of a MB of excess
    priced: bool  # whether prices count
    target: float  # stop once there is no excess and the price is not above this


@compiled
def anneal(
    land: Land, crowd: Crowd, choice: Ints, reserve: Ints, core_mb: float, at: Ints, draws: np.random.Generator,
    how: Annealing, home: Ints, most_away: int,
) -> tuple[float, float, int]:  # fmt: skip
    """Improve a placement, in place.

    Returns excess and price of the best found, and steps tried.

    Parameters
    ----------
    choice : int64[open]
        The clusters that are open.
    reserve : int64[clusters]
        See :func:`weigh`.
    at : int64[servers]
        The cluster of each server, an open one; -1: left out (only swaps change how many are). Receives the best found.
    draws
        Where chance comes from.
    home : int64[servers] or int64[0]
        Where servers are now; none given: no server counts as away.
    most_away
        At most so many servers may be elsewhere than at home.
    """
    steps, hot, cold, penalty, priced, target = how
    servers, clusters, width = len(at), len(land.first) - 1, 0
    for c in range(clusters):
        width = max(width, land.first[c + 1] - land.first[c])
    total = np.zeros((clusters, 4), np.int64)
    take, excess, cost = np.zeros((clusters, width), np.int64), np.zeros(clusters), np.zeros(clusters, np.int64)
    held, work = np.zeros((2, len(land.mb)), np.int64), np.zeros((4, width), np.int64)
    old, new = np.zeros((2, width), np.int64), np.zeros((2, 4), np.int64)
    for i in range(servers):
        if at[i] >= 0:
            for k in range(4):
                total[at[i], k] += crowd.need[k, i]
    for k in range(len(choice)):
        c = choice[k]
        excess[c], cost[c] = weigh(land, c, total[c], held, core_mb, reserve[c], priced, work)
        take[c] = work[3]
        _hold(land, c, total[c], take[c], held, 1)
    over, paid = excess.sum(), cost.sum()
    best, best_over, best_paid = at.copy(), over, paid
    heat, cooling = hot, exp(np.log(cold / hot) / max(steps, 1))
    tried, away = 0, 0
    for i in range(len(home)):
        away += at[i] != home[i]
    pair = np.zeros(2, np.int64)
    while tried < steps and not (over == 0 and (not priced or paid <= target)):
        tried += 1
        heat *= cooling
        i = int(draws.random() * servers)
        a, j, b = at[i], -1, -1
        if draws.random() < 0.5:
            j = int(draws.random() * servers)
            b = at[j]
        elif a >= 0:
            b = choice[int(draws.random() * len(choice))]
        if (a < 0 or b < 0) and j < 0:
            continue
        left = 0
        if a == b:
            if a < 0 or excess[a] == 0:
                continue
            j = -1  # look again at what its pools have
        else:
            if b >= 0 and (not crowd.fits[i, crowd.kind[b]] or (crowd.pinned[i] >= 0 and crowd.pinned[i] != b)):
                continue
            if j >= 0 and a >= 0 and not (crowd.fits[j, crowd.kind[a]] and crowd.pinned[j] in (-1, a)):
                continue
            if len(home):
                left = int(b != home[i]) - int(a != home[i])
                if j >= 0:
                    left += int(a != home[j]) - int(b != home[j])
                if left > 0 and away + left > most_away:
                    continue
            away += left
            at[i] = b
            if j >= 0:
                at[j] = a
            if (b >= 0 and clash(land, crowd, at, i)) or (j >= 0 and a >= 0 and clash(land, crowd, at, j)):
                at[i] = a
                if j >= 0:
                    at[j] = b
                away -= left
                continue
        pair[0], pair[1] = a, b
        over_now, paid_now = over, paid
        for k in range(2):  # both let go, then both take again
            c = pair[k]
            if c < 0 or (k == 1 and a == b):
                continue
            over_now -= excess[c]
            paid_now -= cost[c]
            old[k] = take[c]
            sign = 1 if k else -1
            for row in range(4):
                new[k, row] = total[c, row]
                if a != b:
                    new[k, row] += sign * (crowd.need[row, i] - (crowd.need[row, j] if j >= 0 else 0))
            _hold(land, c, total[c], take[c], held, -1)
        over_a, paid_a, over_b, paid_b = 0.0, 0, 0.0, 0
        if a >= 0:
            over_a, paid_a = weigh(land, a, new[0], held, core_mb, reserve[a], priced, work)
            take[a] = work[3]
            _hold(land, a, new[0], take[a], held, 1)
        if b >= 0 and a != b:
            over_b, paid_b = weigh(land, b, new[1], held, core_mb, reserve[b], priced, work)
            take[b] = work[3]
            _hold(land, b, new[1], take[b], held, 1)
        over_now += over_a + over_b
        paid_now += paid_a + paid_b
        rise = penalty * (over_now - over) + (paid_now - paid if priced else 0)
        if rise <= 0 or draws.random() < exp(-rise / heat):
            over, paid = over_now, paid_now
            if a >= 0:
                total[a], excess[a], cost[a] = new[0], over_a, paid_a
            if b >= 0 and a != b:
                total[b], excess[b], cost[b] = new[1], over_b, paid_b
            if over < 1e-6:
                over = 0.0
            if over < best_over or (over == best_over and priced and paid < best_paid):
                best_over, best_paid = over, paid
                best[:] = at
            continue
        if a >= 0:
            _hold(land, a, new[0], take[a], held, -1)
        if b >= 0 and a != b:
            _hold(land, b, new[1], take[b], held, -1)
        for k in range(2):
            c = pair[k]
            if c >= 0 and not (k == 1 and a == b):
                take[c] = old[k]
                _hold(land, c, total[c], take[c], held, 1)
        if a != b:
            at[i] = a
            if j >= 0:
                at[j] = b
            away -= left
    at[:] = best
    return best_over, float(best_paid), tried


@compiled
def clashes(land: Land, crowd: Crowd, at: Ints) -> bool:
    """Whether any two servers of a group are in clusters with a failure domain in common, in pools they may use.

    ``at``: int64[servers], the cluster of each; -1: none.
    """
    for i in range(len(at)):
        if at[i] >= 0 and clash(land, crowd, at, i):
            return True
    return False


clashes_with = compiled(plain(clash))
"""Whether a server that is placed is in such a cluster beside another of its group."""
