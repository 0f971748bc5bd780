"""What servers hold of pools while they are placed, and what a cluster can still give: compiled."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unrack.jit import Bools, Ints, compiled, inlined
from unrack.solver import least_weight, order_of
from unrack_papers.servers.allocator.ranking import rank

RULES = ("slo", "first-fit", "best-fit")
SLO, FIRST_FIT, BEST_FIT = range(len(RULES))
MILLIONTHS = 1_000_000
CORES, LOCAL, TOTAL, WEIGHED = 0, 1, 2, 2
"""Columns of the ranking's tree: free cores, local MB, all MB; and WEIGHED + i for every place i > 0 of a cluster.

A server fits if what is free has ``floor`` local MB, ``mb`` MB in all, and a split of weight at most ``ceiling``. The
least weight is by duality the maximum over t of t mb - sum max(t - w_i, 0) free_i, where t need only be a weight of the
cluster's pools. So it is enough that these sums are large: they are kept for the least weight at each place.

Maxima of single columns let pass a part of the list where one cluster has the cores and another the memory, as is usual
once clusters are full of either. Therefore further columns hold min(memory, ratio x cores), of local MB, or of all MB
where floors do not count: a server that fits has at least the server's own. The ratios are those of the servers asked.
"""
RATIOS = 6
"""How many different ratios of memory to cores the tree knows."""


class Pools(NamedTuple):
    """A supply while servers are placed on it; only ``cores``, ``mb`` and ``load`` change."""

    # cores, mb, int64[pools]: free now
    cores: Ints
    mb: Ints
    all_cores: Ints
    all_mb: Ints
    weight: Ints
    price: Ints
    tier: Ints
    first: Ints
    member: Ints
    domain: Ints
    sharing: Ints  # int64[pools + 1]: the clusters that a pool is in are ``sharers[sharing[p]:sharing[p + 1]]``
    sharers: Ints
    lightest: Ints  # int64[width]: the least weight at each place of a cluster
    ratios: Ints  # int64[RATIOS]: MB a core
    load: Ints  # int64[clusters]: servers in each cluster


class Servers(NamedTuple):
    """What is asked, and where it went."""

    cores: Ints
    mb: Ints
    floor: Ints
    ceiling: Ints
    forbidden: Bools
    group: Ints
    level: Ints
    pinned: Ints
    cluster: Ints
    parts: Ints
    # int64[servers + groups]: the server of the same group placed before each (-1: none); then, per group, the one
    # placed last
    before: Ints


@inlined
def could_take(tree: Ints, node: int, need: Ints) -> bool:
    """Whether what is free below a node could take a server, as far as maxima tell."""
    for i in range(len(need)):
        if tree[node, i] < need[i]:
            return False
    return True


@inlined
def note_need(pools: Pools, servers: Servers, server: int, meets: bool, need: Ints) -> None:
    """What each column of the tree must have for a server."""
    cores, mb = servers.cores[server], servers.mb[server]
    width = len(pools.lightest)
    need[CORES], need[TOTAL] = cores, mb
    need[LOCAL] = servers.floor[server] if meets else 0
    for i in range(1, width):
        need[WEIGHED + i] = pools.lightest[i] * mb - servers.ceiling[server] if meets else 0
    for i in range(len(pools.ratios)):
        need[WEIGHED + width + i] = min(servers.floor[server] if meets else mb, cores * pools.ratios[i])


@inlined
def _offer(pools: Pools, servers: Servers, server: int, cluster: int, taken: Ints, offer: Ints) -> int:
    """What a cluster has for a server, after what it must not use; returns the free cores (-1: the pool is forbidden).

    ``offer`` receives three rows: MB, weight and price of each pool of the cluster; then least weight can be asked.
    """
    start, width = pools.first[cluster], pools.first[cluster + 1] - pools.first[cluster]
    level = servers.level[server]
    free = pools.cores[pools.member[start]]
    for i in range(width):
        pool = pools.member[start + i]
        offer[0, i], offer[1, i], offer[2, i] = pools.mb[pool], pools.weight[pool], pools.price[pool]
        if servers.forbidden.shape[1] and servers.forbidden[server, pools.tier[pool]]:
            offer[0, i] = 0
        if level >= 0:
            domain = pools.domain[level, pool]
            if domain >= 0 and taken[domain] == server:
                offer[0, i] = 0
                if i == 0:
                    free = -1
    for i in range(width, offer.shape[1]):
        offer[0, i] = 0
    return int(free)


@inlined
def takes(
    pools: Pools, servers: Servers, server: int, cluster: int, taken: Ints, offer: Ints, meets: bool, full: bool
) -> bool:
    """Whether a cluster can take a server; ``full``: as many clusters are in use as may be."""
    if full and pools.load[cluster] == 0:
        return False
    if servers.pinned[server] >= 0 and servers.pinned[server] != cluster:
        return False
    if _offer(pools, servers, server, cluster, taken, offer) < servers.cores[server]:
        return False
    width = pools.first[cluster + 1] - pools.first[cluster]
    if meets:
        weight = least_weight(servers.mb[server], servers.floor[server], offer[0], offer[1], width)
        return bool(0 <= weight <= servers.ceiling[server])
    return bool(offer[0, :width].sum() >= servers.mb[server])


@inlined
def _percent(pools: Pools, cluster: int) -> int:
    """A cluster's utilisation, as the paper's allocator counts it."""
    start, end = pools.first[cluster], pools.first[cluster + 1]
    compute = pools.member[start]
    free, installed = 0, 0
    for k in range(start, end):
        free += pools.mb[pools.member[k]]
        installed += pools.all_mb[pools.member[k]]
    percent = 0
    if pools.all_cores[compute] > 0:
        percent += (pools.all_cores[compute] - pools.cores[compute]) * 100 // pools.all_cores[compute] // 2
    if installed > 0:
        percent += (installed - free) * 100 // installed // 2
    return percent


@inlined
def _emptiness(pools: Pools, cluster: int) -> int:
    """The free share of a cluster's cores and of each of its pools, in millionths, added up."""
    start, end = pools.first[cluster], pools.first[cluster + 1]
    compute = pools.member[start]
    total = pools.cores[compute] * MILLIONTHS // max(pools.all_cores[compute], 1)
    for k in range(start, end):
        pool = pools.member[k]
        total += pools.mb[pool] * MILLIONTHS // max(pools.all_mb[pool], 1)
    return int(total)


@inlined
def _level(pools: Pools, cluster: int, rule: int) -> int:
    """Where a cluster stands in the ranking of a rule, 0 to 100."""
    if rule == SLO:
        return _percent(pools, cluster)
    if rule == BEST_FIT:
        most = MILLIONTHS * (1 + len(pools.lightest))
        return (most - _emptiness(pools, cluster)) * 100 // most
    return 0


@inlined
def _refresh(pools: Pools, tree: Ints, ranked: Ints, at: Ints, used: Ints, span: Ints, cluster: int, rule: int) -> None:
    """Bring the ranking up to date with what a cluster has free."""
    row = np.zeros(tree.shape[1], np.int64)
    start = pools.first[cluster]
    row[CORES], row[LOCAL] = pools.cores[pools.member[start]], pools.mb[pools.member[start]]
    for k in range(start, pools.first[cluster + 1]):
        mb, weight = pools.mb[pools.member[k]], pools.weight[pools.member[k]]
        row[TOTAL] += mb
        for i in range(1, len(pools.lightest)):
            row[WEIGHED + i] += max(pools.lightest[i] - weight, 0) * mb
    for i in range(len(pools.ratios)):
        paired = row[TOTAL] if rule == FIRST_FIT else row[LOCAL]
        row[WEIGHED + len(pools.lightest) + i] = min(paired, row[CORES] * pools.ratios[i])
    if rule == BEST_FIT:
        fullness = MILLIONTHS * (1 + len(pools.lightest)) - _emptiness(pools, cluster)
        row[-1] = fullness * len(pools.load) + len(pools.load) - 1 - cluster  # of equally full ones, the lowest id
    rank(tree, ranked, at, used, span, cluster, _level(pools, cluster, rule), row)


@compiled
def refresh(pools: Pools, tree: Ints, ranked: Ints, at: Ints, used: Ints, span: Ints, changed: Ints, rule: int) -> None:
    """Bring the ranking up to date with some clusters, in the order in which a stable sort would.

    ``changed``: int64[clusters], the clusters of which something changed.
    """
    if len(changed) == 1:
        _refresh(pools, tree, ranked, at, used, span, changed[0], rule)
        return
    order = changed[order_of(at[changed])]
    for k in range(len(order)):  # those further up after the change: to the end of their runs, first comes first
        if _level(pools, order[k], rule) >= used[order[k]]:
            _refresh(pools, tree, ranked, at, used, span, order[k], rule)
    for k in range(len(order) - 1, -1, -1):  # those that stand further down: to the front, last comes first
        if _level(pools, order[k], rule) < used[order[k]]:
            _refresh(pools, tree, ranked, at, used, span, order[k], rule)


@inlined
def mark_domains(pools: Pools, servers: Servers, server: int, taken: Ints, mark: int) -> None:
    """Note the failure domains in which servers of the same group hold something; ``mark``: the server, or -1 again."""
    level = servers.level[server]
    other = servers.before[len(servers.cores) + servers.group[server]]
    while other >= 0:
        start = pools.first[servers.cluster[other]]
        width = pools.first[servers.cluster[other] + 1] - start
        for i in range(width):
            domain = pools.domain[level, pools.member[start + i]]
            if domain >= 0 and (i == 0 or servers.parts[other, i] > 0):
                taken[domain] = mark
        other = servers.before[other]


@inlined
def give(pools: Pools, servers: Servers, server: int, cluster: int, sign: int) -> None:
    """Take a server's cores and memory from a cluster's pools (sign 1), or give them back (-1)."""
    start = pools.first[cluster]
    pools.cores[pools.member[start]] -= sign * servers.cores[server]
    for i in range(pools.first[cluster + 1] - start):
        pools.mb[pools.member[start + i]] -= sign * servers.parts[server, i]
    pools.load[cluster] += sign


@compiled
def touched(pools: Pools, servers: Servers, server: int, seen: Ints, stamp: int) -> Ints:
    """int64[clusters]: the clusters that share a pool of which a placed server holds something."""
    cluster = servers.cluster[server]
    start = pools.first[cluster]
    width = pools.first[cluster + 1] - start
    most = 1
    for i in range(width):
        pool = pools.member[start + i]
        most += pools.sharing[pool + 1] - pools.sharing[pool]
    found = np.empty(most, np.int64)
    found[0], seen[cluster] = cluster, stamp
    count = 1
    for i in range(width):
        if i == 0 or servers.parts[server, i] > 0:
            pool = pools.member[start + i]
            for k in range(pools.sharing[pool], pools.sharing[pool + 1]):
                other = pools.sharers[k]
                if seen[other] != stamp:
                    seen[other] = stamp
                    found[count] = other
                    count += 1
    return found[:count]


@compiled
def hold(pools: Pools, servers: Servers) -> None:
    """Take from the pools what the servers that are somewhere hold."""
    for server in range(len(servers.cores)):
        if servers.cluster[server] >= 0:
            give(pools, servers, server, servers.cluster[server], 1)
            join_group(servers, server)


@inlined
def join_group(servers: Servers, server: int) -> None:
    """Note a placed server as the last of its group."""
    if servers.group[server] >= 0:
        last = len(servers.cores) + servers.group[server]
        servers.before[server], servers.before[last] = servers.before[last], server


@compiled
def take_out(
    pools: Pools, servers: Servers, tree: Ints, ranked: Ints, at: Ints, used: Ints, span: Ints,
    seen: Ints, stamp: int, server: int, rule: int,
) -> None:  # fmt: skip
    """Take a placed server out of its cluster, and bring the ranking up to date.

    ``seen``, ``stamp``: as for :func:`touched`.
    """
    changed = touched(pools, servers, server, seen, stamp)
    give(pools, servers, server, servers.cluster[server], -1)
    servers.parts[server] = 0
    servers.cluster[server] = -1
    group = servers.group[server]
    if group >= 0:
        last = len(servers.cores) + group
        while servers.before[last] != server:
            last = servers.before[last]
        servers.before[last] = servers.before[server]
        servers.before[server] = -1
    refresh(pools, tree, ranked, at, used, span, changed, rule)
