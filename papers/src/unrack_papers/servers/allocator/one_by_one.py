"""Servers placed one after the other: the paper's allocator, first fit as published, and best fit.

*slo*: clusters in order of utilisation, most used first; the first with enough cores, and pools that can meet the
server's SLOs, takes it, at the lowest price (:mod:`unrack.solver.servers`). A cluster's utilisation is
floor(cores in use in %) / 2 + floor(memory in use in %) / 2, in whole numbers, over all its pools; the order is that of
a stable sort before each server (:mod:`unrack_papers.servers.allocator.ranking`).

*first-fit*: the first cluster in order of id with enough cores and enough memory in all; memory is taken from its pools
in their order. SLOs do not count (but everything else that a server asks does).

*best-fit*: of the clusters that can meet the SLOs, the one with least free: the sum over its cores and each of its
pools of the free share, in millionths; then lowest id. Memory as under *slo*. This is unrack's own baseline.

Why a server has no place: what each cluster of pools lacks for it, in words.

References
----------
Farshin, A., Roozbeh, A., Schulte, C., Maguire, G. Q., Kostić, D. (2021). Scheduling - a secret sauce for resource
disaggregation, section 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from unrack.jit import Bools, Ints, compiled, inlined
from unrack.solver import NOWHERE, Asked, Supply, cheapest
from unrack_papers.servers.allocator.holdings import (
    BEST_FIT,
    FIRST_FIT,
    RATIOS,
    RULES,
    WEIGHED,
    Pools,
    Servers,
    could_take,
    give,
    hold,
    join_group,
    mark_domains,
    note_need,
    refresh,
    take_out,
    takes,
    touched,
)
from unrack_papers.servers.allocator.ranking import Ranking, make_ranking
from unrack_papers.servers.problem import Allocation


@inlined
def _first(
    pools: Pools, servers: Servers, server: int, tree: Ints, ranked: Ints, taken: Ints, offer: Ints, need: Ints, meets:
    bool, full: bool,
) -> int:  # fmt: skip
    """The first cluster of the ranking that can take a server; -1: none."""
    slots = len(ranked)
    stack = np.empty(64, np.int64)
    stack[0], depth = 1, 1
    while depth:
        depth -= 1
        node = stack[depth]
        if not could_take(tree, node, need):
            continue
        if node >= slots:
            cluster = ranked[node - slots]
            if cluster >= 0 and takes(pools, servers, server, cluster, taken, offer, meets, full):
                return int(cluster)
        else:
            stack[depth], stack[depth + 1] = 2 * node + 1, 2 * node
            depth += 2
    return NOWHERE


@inlined
def _fullest(
    pools: Pools, servers: Servers, server: int, tree: Ints, ranked: Ints, taken: Ints, offer: Ints, need: Ints, full:
    bool,
) -> int:  # fmt: skip
    """Of the clusters that can take a server, the one with least free; then the lowest id; -1: none.

    The last column of the tree tells any two clusters apart by that; the fuller half of a part is entered first, and
    no part of which the fullest is behind one that was found.
    """
    slots, last = len(ranked), tree.shape[1] - 1
    stack = np.empty(64, np.int64)
    stack[0], depth = 1, 1
    best, value = NOWHERE, -1
    while depth:
        depth -= 1
        node = stack[depth]
        if tree[node, last] <= value or not could_take(tree, node, need):
            continue
        if node < slots:
            fuller = 2 * node + (tree[2 * node + 1, last] > tree[2 * node, last])
            stack[depth], stack[depth + 1] = fuller ^ 1, fuller
            depth += 2
        elif takes(pools, servers, server, ranked[node - slots], taken, offer, True, full):
            best, value = ranked[node - slots], tree[node, last]
    if best >= 0:  # the offer of the last one looked at may be another's
        takes(pools, servers, server, best, taken, offer, True, full)
    return best


@compiled
def place(
    pools: Pools, servers: Servers, tree: Ints, ranked: Ints, at: Ints, used: Ints, span: Ints,
    seen: Ints, taken: Ints, which: Ints, rule: int, most: int,
) -> int:  # fmt: skip
    """Place servers one after the other; returns how many found a cluster.

    Parameters
    ----------
    seen : int64[clusters], taken : int64[domains]
        Work space, at first all -1.
    which : int64[any]
        The servers, in order.
    rule
        SLO, FIRST_FIT or BEST_FIT.
    most
        How many clusters may be in use; -1: any number.
    """
    placed, on = 0, 0
    for cluster in range(len(pools.load)):
        on += pools.load[cluster] > 0
    width = len(pools.lightest)
    offer, need = np.zeros((3, width), np.int64), np.zeros(WEIGHED + width + len(pools.ratios), np.int64)
    meets = rule != FIRST_FIT
    for k in range(len(which)):
        server = which[k]
        if servers.level[server] >= 0:
            mark_domains(pools, servers, server, taken, server)
        full = 0 <= most <= on
        note_need(pools, servers, server, meets, need)
        if rule == BEST_FIT:
            cluster = _fullest(pools, servers, server, tree, ranked, taken, offer, need, full)
        else:
            cluster = _first(pools, servers, server, tree, ranked, taken, offer, need, meets, full)
        if servers.level[server] >= 0:
            mark_domains(pools, servers, server, taken, NOWHERE)
        if cluster < 0:
            continue
        parts = servers.parts[server]
        width = pools.first[cluster + 1] - pools.first[cluster]
        if meets:
            mb, floor, ceiling = servers.mb[server], servers.floor[server], servers.ceiling[server]
            cheapest(mb, floor, ceiling, offer[0], offer[1], offer[2], width, parts)
        else:
            left = servers.mb[server]
            for i in range(width):
                parts[i] = min(left, offer[0, i])
                left -= parts[i]
        servers.cluster[server] = cluster
        on += pools.load[cluster] == 0
        give(pools, servers, server, cluster, 1)
        join_group(servers, server)
        refresh(pools, tree, ranked, at, used, span, touched(pools, servers, server, seen, server), rule)
        placed += 1
    return placed


class OneByOne:
    """An allocator with its ranking: servers come and go one at a time.

    Parameters
    ----------
    supply
        What there is; ``cores`` and ``mb`` are copied.
    asked
        The servers that may come.
    rule
        One of ``RULES``.
    now
        Where some of the servers are already; default: none is anywhere. What they hold is taken from the supply first.

    Attributes
    ----------
    cluster : int64[servers], mb : int64[servers, width]
        Where each server is (-1: nowhere) and its MB from each pool of that cluster, by place.

    Examples
    --------
    >>> from unrack.solver import asked
    >>> from unrack_papers.servers.problem import regular_supply
    >>> supply = regular_supply(2, (4, 100), ((400, 1, 50, 1), (800, 2, 25, 1)), price=100)
    >>> asks = asked(np.array([1, 1]), np.array([200, 300]), np.array([20, 30]), np.array([270, 400]), tiers=3)
    >>> allocator = OneByOne(supply, asks, "slo")
    >>> allocator.place([0, 1]), allocator.cluster.tolist(), allocator.mb.tolist()
    (2, [0, 0], [[20, 90, 90], [30, 140, 130]])
    """

    def __init__(self, supply: Supply, asked: Asked, rule: str, now: Allocation | None = None) -> None:
        clusters, width = supply.clusters, supply.width
        self.rule = RULES.index(rule)
        self.most = asked.most_clusters
        self.supply = supply
        lengths = np.diff(supply.first)
        cluster_of = np.repeat(np.arange(clusters, dtype=np.int64), lengths)
        by_pool = np.argsort(supply.member, kind="stable")
        lightest = np.full(width, np.iinfo(np.int64).max // 4, np.int64)
        np.minimum.at(lightest, np.arange(len(supply.member)) - supply.first[cluster_of], supply.weight[supply.member])
        self.pools = Pools(
            cores=supply.cores.copy(),
            mb=supply.mb.copy(),
            all_cores=supply.all_cores,
            all_mb=supply.all_mb,
            weight=supply.weight,
            price=supply.price,
            tier=supply.tier,
            first=supply.first,
            member=supply.member,
            domain=np.ascontiguousarray(supply.domain),
            sharing=np.searchsorted(supply.member[by_pool], np.arange(len(supply.mb) + 1)).astype(np.int64),
            sharers=cluster_of[by_pool],
            lightest=lightest,
            ratios=_ratios(asked.mb, asked.floor, asked.cores, self.rule),
            load=np.zeros(clusters, np.int64),
        )
        count = len(asked)
        groups = int(asked.group.max(initial=-1)) + 1
        self.servers = Servers(
            asked.cores, asked.mb, asked.floor, asked.ceiling, asked.forbidden, asked.group, asked.level, asked.pinned,
            np.full(count, NOWHERE, np.int64), np.zeros((count, width), np.int64), np.full(count + groups, -1,
            np.int64),
        )  # fmt: skip
        if now is not None:
            self.servers.cluster[:], self.servers.parts[:] = now.cluster, now.mb
            hold(self.pools, self.servers)
        self._seen = np.full(clusters, -1, np.int64)
        self._stamp = -1
        self._taken = np.full(int(supply.domain.max(initial=-1)) + 1, -1, np.int64)
        columns = WEIGHED + width + len(self.pools.ratios) + (self.rule == BEST_FIT)
        self.ranking: Ranking = make_ranking(np.zeros(clusters, np.int64), columns)
        self._refresh(np.arange(clusters, dtype=np.int64))

    @property
    def cluster(self) -> Ints:
        """int64[servers]: where each server is; -1: nowhere."""
        return self.servers.cluster

    @property
    def mb(self) -> Ints:
        """int64[servers, width]: MB from each pool of the server's cluster."""
        return self.servers.parts

    @property
    def order(self) -> Ints:
        """int64[clusters]: the clusters in the order in which the next server tries them."""
        ranked = self.ranking.ranked
        return ranked[ranked >= 0]

    @property
    def allocation(self) -> Allocation:
        """Where every server is now (not a copy)."""
        return Allocation(self.servers.cluster, self.servers.parts)

    def place(self, which: Iterable[int] | Ints) -> int:
        """Place servers in this order; returns how many found a cluster."""
        order = which if isinstance(which, np.ndarray) else np.array(list(which), np.int64)
        return place(
            self.pools, self.servers, *self.ranking, self._seen, self._taken, order, self.rule, self.most
        )  # fmt: skip

    def remove(self, server: int) -> None:
        """Take a placed server out again."""
        self._stamp -= 1  # below 0: a placement is stamped with its server
        take_out(self.pools, self.servers, *self.ranking, self._seen, self._stamp, server, self.rule)

    def _refresh(self, changed: Ints) -> None:
        refresh(self.pools, *self.ranking, changed, self.rule)


def _ratios(mb: Ints, floor: Ints, cores: Ints, rule: int) -> Ints:
    """int64[ratios]: MB a core of the servers asked, from the least to the most."""
    ratio = (mb if rule == FIRST_FIT else floor) // np.maximum(cores, 1)
    if not len(ratio):
        return np.zeros(0, np.int64)
    places = (np.arange(RATIOS) * 2 + 1) * len(ratio) // (2 * RATIOS)
    return np.unique(np.maximum(np.sort(ratio)[places], 1))


def place_one_by_one(supply: Supply, asked: Asked, rule: str) -> Allocation:
    """All servers, in their order, under one of ``RULES``."""
    allocator = OneByOne(supply, asked, rule)
    allocator.place(np.arange(len(asked), dtype=np.int64))
    return allocator.allocation


class Lack(NamedTuple):
    """Something that a cluster may lack."""

    what: str  # in words, of clusters
    fails: Bools  # bool[clusters]: which clusters lack it
    amount: Ints | None = None  # int64[clusters]: how much each has of it, the more the better; `None`: it is no amount
    words: str = ""  # how to say an amount
    scale: int = 1  # what amounts are divided by in words; negative amounts stand for what should be small


@dataclass(frozen=True)
class Refusal:
    """What each cluster lacks for a server, tests in order; a cluster counts for the first that it fails."""

    lacks: tuple[Lack, ...]

    def among(self, clusters: Ints) -> str:
        """In words, for some clusters: how many lack what, and how near the best of them comes."""
        parts = []
        rest = clusters
        for lack in self.lacks:
            hit = rest[lack.fails[rest]]
            rest = rest[~lack.fails[rest]]
            if len(hit):
                parts.append(f"{len(hit)} {lack.what}")
                if lack.amount is not None:
                    best = int(lack.amount[hit].max())
                    parts[-1] += f" (at best {lack.words.format(_scaled(abs(best), lack.scale))})"
        return f"of {len(clusters)} clusters " + ", ".join(parts) if parts else "no cluster"


class Refusals:
    """Reasons, from the state of an allocator at the time of asking.

    ``allocator``: what places; ``cost_scale``: units of weight for each MB of a tier of cost 1.
    """

    def __init__(self, allocator: OneByOne, cost_scale: int) -> None:
        self._by = allocator
        self._scale = cost_scale
        supply = allocator.supply
        lengths = np.diff(supply.first)
        self._member = np.full((supply.clusters, supply.width), -1, np.int64)
        for place in range(supply.width):
            has = lengths > place
            self._member[has, place] = supply.member[supply.first[:-1][has] + place]

    def of(self, server: int) -> Refusal:
        """What the clusters lack for a server, as things stand."""
        pools, asks, member = self._by.pools, self._by.servers, self._member
        ids = np.arange(len(member))
        mb = np.where(member >= 0, pools.mb[member], 0)
        if asks.forbidden.shape[1]:
            mb[asks.forbidden[server][pools.tier[member]]] = 0
        near = self._near(server)
        mb[near] = 0
        cores, need = pools.cores[member[:, 0]], int(asks.mb[server])
        left, weight = np.full(len(ids), need), np.zeros(len(ids), np.int64)
        for place in range(mb.shape[1]):
            part = np.minimum(left, mb[:, place])
            weight += part * pools.weight[member[:, place]]
            left -= part
        pin, floor, ceiling = int(asks.pinned[server]), int(asks.floor[server]), int(asks.ceiling[server])
        full = 0 <= self._by.most <= int((pools.load > 0).sum())
        lacks = [
            Lack("are not the one it is pinned to", (ids != pin) & (pin >= 0)),
            Lack("are off while no more may be in use", (pools.load == 0) & full),
            Lack("share a failure domain with its group", near[:, 0]),
            Lack("have too few cores free", cores < asks.cores[server], cores, f"{{}} of {asks.cores[server]}"),
            Lack("have too little memory free", left > 0, mb.sum(axis=1), f"{{:,}} of {need:,} MB"),
        ]
        if RULES[self._by.rule] != "first-fit":
            words = f"{{:,}} of {floor:,} MB"
            lacks.append(Lack("have too little local memory free", mb[:, 0] < floor, mb[:, 0], words))
            words = f"{{:,}} weighted MB, above {_scaled(ceiling, self._scale):,}"
            lacks.append(Lack("have only memory that is too remote", weight > ceiling, -weight, words, self._scale))
        return Refusal(tuple(lacks))

    def _near(self, server: int) -> Bools:
        """bool[clusters, width]: pools in a failure domain where the server's group holds something."""
        asks, pools, member = self._by.servers, self._by.pools, self._member
        level, group = int(asks.level[server]), int(asks.group[server])
        found = np.zeros(member.shape, np.bool_)
        if level < 0:
            return found
        others = np.flatnonzero((asks.group == group) & (asks.cluster >= 0))
        taken = set()
        for other in others.tolist():
            its = self._member[asks.cluster[other]]
            held = (asks.parts[other] > 0) | (np.arange(len(its)) == 0)
            taken.update(pools.domain[level, its[held & (its >= 0)]].tolist())
        taken.discard(-1)
        return np.isin(pools.domain[level, member], sorted(taken)) & (member >= 0)


def _scaled(value: int, scale: int) -> int | float:
    """A whole number of units of 1 / scale as a plain number."""
    return value // scale if value % scale == 0 else value / scale
