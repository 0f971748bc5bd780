"""Compiled: the cluster of pools for a server, and how much memory it has of each pool there.

Every cluster is looked at, on what the ledger has free: O(clusters x pools of one) a server, and one split at the
lowest price (:mod:`unrack.solver.servers`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from unrack.jit import compiled, inlined, melted, plain
from unrack.kernels.arrays import Bools, Ints
from unrack.ledger.columns import CPU, MEM
from unrack.ledger.lease import BORROWER, LENDER, LOAN_MB
from unrack.policy.discipline.heads_kernel import lacking
from unrack.policy.discipline.queue_kernel import passed
from unrack.policy.discipline.skyline.columns import CHOOSE, CLAIMED, LENT, STARTS
from unrack.policy.discipline.skyline.steps import always_open, close_kept, usable
from unrack.policy.discipline.walk import ASKING, CLAIMS, CLAIMS_FOUND, FOUND, HELD_US, LOOK, PLACED, ROWS, STAGE, WHOLE
from unrack.policy.lending.answers import write
from unrack.policy.lending.lease_kernel import Leases
from unrack.policy.placement.node_kernel import add_node, gang_of
from unrack.sealed import shown
from unrack.solver.servers import cheapest, least_weight
from unrack.view import View
from unrack.workload.tier_asks import NO_CEILING

SLO, FIRST_FIT, BEST_FIT = range(3)
MILLIONTHS = 1_000_000


class Clusters(NamedTuple):
    """The clusters of pools, which go by the nodes that their pools are, and the rule by which one is chosen."""

    rule: int
    most: int  # how many of them may be in use; -1: any number
    first: Ints  # int64[clusters + 1]: the pools of cluster c are ``member[first[c]:first[c + 1]]``
    member: Ints
    all_cores: Ints  # int64[nodes]
    all_mb: Ints
    weight: Ints  # int64[nodes]: what a MB counts towards a ceiling
    price: Ints
    tier: Ints
    scale: int  # units of weight for each MB of a tier of cost 1
    online: Bools  # bool[nodes]: which are in service now


class ServerAsks(NamedTuple):
    """What servers ask beside cores and memory; all of it empty: nothing."""

    floor: Ints  # int64[jobs]: MB
    ceiling: Ints
    spread: Ints  # int64[jobs]: -1: replicas may be anywhere
    forbidden: Bools  # bool[jobs, names]
    tier_of: Ints  # int64[names]: the tier that is called so


def server_asks(view: View) -> ServerAsks:
    """What the servers of a view ask."""
    slo, tiers = view.slo, view.cluster.tiers
    if slo is None or tiers is None:
        none = shown(np.zeros(0, np.int64))
        return ServerAsks(none, none, none, shown(np.zeros((0, 0), np.bool_)), none)
    tier_of = [tiers.names.index(name) if name in tiers.names else -1 for name in slo.tier_names]
    floor, ceiling, spread = map(shown, (slo.floor_mb, slo.ceiling_mb, slo.spread))
    return ServerAsks(floor, ceiling, spread, shown(slo.forbidden), shown(np.array(tier_of, np.int64)))


@melted
def rank_of(t: Clusters, free: Ints, c: int) -> int:
    """Where a cluster stands: the highest is chosen, and of equal ones the first.

    By SLO its utilisation in whole percent, as the paper's allocator counts it; by best fit, the less is free the more.
    """
    compute, mb, installed, shares = t.member[t.first[c]], 0, 0, 0
    if t.rule == FIRST_FIT:
        return 0
    for k in range(t.first[c], t.first[c + 1]):
        pool = t.member[k]
        mb += free[MEM, pool]
        installed += t.all_mb[pool]
        if t.rule == BEST_FIT:
            shares += free[MEM, pool] * MILLIONTHS // max(t.all_mb[pool], 1)
    if t.rule == BEST_FIT:
        return int(-shares - free[CPU, compute] * MILLIONTHS // max(t.all_cores[compute], 1))
    used = (t.all_cores[compute] - free[CPU, compute]) * 100 // max(t.all_cores[compute], 1) // 2
    return int(used + (installed - mb) * 100 // max(installed, 1) // 2)


@inlined
def in_use(t: Clusters, free: Ints) -> int:
    """In how many clusters servers hold cores."""
    compute = t.member[t.first[:-1]]
    return int((t.online[compute] & (free[CPU, compute] < t.all_cores[compute])).sum())


@inlined
def cluster_for(
    t: Clusters, free: Ints, is_open: Bools, barred: Bools, cores: int, mb: int, floor: int, ceiling: int, only: int,
    parts: Ints,
) -> int:  # fmt: skip
    """The cluster for a server, with ``parts`` filled; -1: none.

    ``is_open``: bool[nodes], compute pools that take it; ``barred``: bool[nodes], of which it must have no memory;
    ``only``: no other cluster; -1: any.
    """
    best, value, width = -1, 0, len(parts)
    offer, meets, full = np.zeros((3, width), np.int64), t.rule != FIRST_FIT, t.most >= 0 and in_use(t, free) >= t.most
    for turn in range(2):
        for c in range(len(t.first) - 1):
            compute = t.member[t.first[c]]
            if (only >= 0 and c != only) or (turn == 1 and c != best):
                continue
            if not is_open[compute] or free[CPU, compute] < cores or (meets and free[MEM, compute] < floor):
                continue
            if full and free[CPU, compute] == t.all_cores[compute]:
                continue
            here = rank_of(t, free, c) if turn == 0 else value + 1
            if best >= 0 and here <= value:
                continue
            pools, there = t.first[c + 1] - t.first[c], 0
            for i in range(pools):
                pool = t.member[t.first[c] + i]
                offer[0, i] = 0 if barred[pool] else free[MEM, pool]
                offer[1, i], offer[2, i] = t.weight[pool], t.price[pool]
                there += offer[0, i]
            if there < mb:
                continue
            if turn == 1:
                parts[:] = 0
                if meets:
                    cheapest(mb, floor, ceiling, offer[0], offer[1], offer[2], pools, parts)
                for i in range(0 if meets else pools):
                    parts[i] = min(mb, offer[0, i])
                    mb -= parts[i]
                return c
            if not meets or 0 <= least_weight(mb, floor, offer[0], offer[1], pools) <= ceiling:
                best, value = c, here
                if t.rule == FIRST_FIT:
                    break
        if best < 0:
            break
    return -1


choose_cluster = compiled(plain(cluster_for))
"""The same from Python."""


@compiled
def pass_over(t: Clusters, slo: ServerAsks, order: Ints, second: Ints, now: int, running: int, sky: Any) -> int:
    """As :func:`unrack.policy.discipline.queue_kernel.pass_over`; for servers without replicas it asks nothing."""
    nodes, width = sky.installed.shape[2], (t.first[1:] - t.first[:-1]).max()
    is_open, barred, parts = np.empty(nodes, np.bool_), np.zeros(nodes, np.bool_), np.empty(width, np.int64)
    out = Leases(np.empty((1, 5), np.int64), np.empty((width, 3), np.int64))
    while True:
        count = passed(order, second, now, running, sky)
        job, walk, asks = sky.walk[ASKING], sky.walk, len(slo.floor) > 0
        if count != CHOOSE or walk[STAGE] != PLACED or sky.wants[job] != LENT or walk[WHOLE] == 1:
            return int(count)
        if asks and slo.spread[job] >= 0:
            return int(count)
        fixed = sky.fixed_at[1, job] - sky.fixed_at[0, job]
        if walk[ROWS] + 1 + width > sky.out.shape[0]:
            return lacking(sky, LOOK, STARTS)
        if walk[CLAIMS] + width + fixed > sky.new_claims.shape[0]:
            return lacking(sky, LOOK, CLAIMED)
        asked, installed = gang_of(sky.asks, job), usable(job, now, sky)
        is_open[:], barred[:] = installed[CPU] > 0, False
        for name in range(len(slo.tier_of) if asks else 0):
            barred |= slo.forbidden[job, name] & (t.tier == slo.tier_of[name])
        floor, ceiling = (slo.floor[job], slo.ceiling[job]) if asks else (0, NO_CEILING)
        ceiling = min(ceiling, NO_CEILING // t.scale) * t.scale
        free = sky.now
        if not always_open(job, sky):  # of nodes that are kept for others it has no memory
            free = free.copy()
            close_kept(job, now, free, sky)
            free[CPU] = sky.now[CPU]
        found = cluster_for(t, free, is_open, barred, asked.cores, asked.mb, floor, ceiling, -1, parts)
        if asked.tasks != 1 or found < 0:
            sky.refused[sky.kind[job]] = 1
            continue
        compute, loans = t.member[t.first[found]], 0
        for i in range(1, t.first[found + 1] - t.first[found]):
            if parts[i] > 0:
                out.loans[loans, BORROWER], out.loans[loans, LENDER] = compute, t.member[t.first[found] + i]
                out.loans[loans, LOAN_MB] = parts[i]
                loans += 1
        add_node(out.rows, 0, 0, compute, 1, asked.cores, parts[0])
        write(job, out, 1, loans, sky, sky.out, walk[ROWS], sky.new_claims, walk[CLAIMS])
        walk[FOUND] = walk[ROWS] + 1 + loans
        walk[CLAIMS_FOUND] = walk[CLAIMS] + fixed + loans
        walk[HELD_US] = max(1, asked.us)
