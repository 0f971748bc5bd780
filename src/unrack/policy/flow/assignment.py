"""One round's network for one group of resources: equal sub-tasks on one side, hosts on the other, and waiting.

Sub-tasks that are alike are one node of the network (a *class*), hosts that are alike another (a *group*); the flow is
split among their members afterwards. From a class an arc leads to the aggregator of its sort (X in the thesis), from
there to every group that has room; further arcs lead to hosts that the class prefers; and one leads past all hosts,
which means to wait (U in the thesis). O(classes + sorts x hosts) arcs before hosts are grouped.

References
----------
Amaral, M. (2019). Improving resource efficiency in virtualized datacenters, section 5.3.3 and figure 22.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unrack.jit import compiled
from unrack.kernels.arrays import Ints
from unrack.solver.min_cost_flow import solve
from unrack.solver.network import Flow, Network

NO_ARCS = np.empty((0, 3), np.int64)
MIXING = 0x9E3779B97F4A7C15


class Sides(NamedTuple):
    """What is to be assigned to what."""

    # supply, sort, waiting, int64[classes]: how many sub-tasks a class has, of which sort they are, and what it costs
    # to leave one of them waiting
    supply: Ints
    sort: Ints
    waiting: Ints
    # fits, cost, int64[sorts, hosts]: how many sub-tasks of a sort a host could take from the aggregator if it took no
    # others, and what each costs
    fits: Ints
    cost: Ints
    room: Ints  # int64[hosts]: how many sub-tasks a host could take in all
    preferred: Ints = NO_ARCS  # int64[arcs, 3]: class, host and cost, where a class has an arc of its own to a host
    # int64[sorts, hosts]: how many sub-tasks of a sort a host could take by both ways; ``None``: as many as there is
    # room for
    most: Ints | None = None


class Arcs(NamedTuple):
    """Where the arcs of each kind begin in a network; the last begin at ``into_sink``."""

    to_sort: int
    to_waiting: int
    to_preferred: int
    to_group: int
    into_sink: int


class Built(NamedTuple):
    """A network, and what its parts stand for."""

    network: Network
    arcs: Arcs
    group: Ints  # int64[hosts]: the group of each host; groups are numbered by their first hosts
    pairs: Ints  # int64[arcs, 2]: sort and group of each arc from an aggregator to a group


class Assignment(NamedTuple):
    """Which host each sub-task goes to."""

    # owner, host, int64[assigned]: class and host of every sub-task that is assigned, by class
    owner: Ints
    host: Ints
    cost: int  # of all of it, waiting included, in 1/UNIT
    # built, flow: the network and its optimum, to look at
    built: Built
    flow: Flow


def assign(sides: Sides, solver: str = "auto") -> Assignment:
    """The assignment of least cost; of those that cost the same always the same one, whatever the solver."""
    built = build(sides)
    flow = solve(built.network, solver)
    owner, host = split(sides, built, flow.amount)
    return Assignment(owner, host, flow.cost, built, flow)


def build(sides: Sides) -> Built:
    """The network of a round."""
    classes, sorts = len(sides.supply), len(sides.fits)
    group = groups_of(sides)
    first = np.unique(group, return_index=True)[1]
    size = np.bincount(group, minlength=len(first))
    liked_class, liked_host, liked_cost = sides.preferred.T
    liked_sort = sides.sort[liked_class]
    most = np.broadcast_to(sides.room, sides.fits.shape) if sides.most is None else sides.most
    narrow = most[liked_sort, liked_host] < sides.room[liked_host]
    # sort and host of nodes through which one sort must go, as a host takes fewer of it than of others
    gates = np.unique(np.stack([liked_sort[narrow], liked_host[narrow]], axis=1), axis=0).reshape(-1, 2)
    at_sort, at_gate = classes, classes + sorts
    at_group = at_gate + len(gates)
    sink = at_group + len(first)
    gate_of = {(s, h): at_gate + i for i, (s, h) in enumerate(gates.tolist())}
    every = np.arange(classes)
    pair_sort, pair_group = np.nonzero(sides.fits[:, first] > 0)
    pair_host = first[pair_group]
    through = np.array([gate_of.get(pair, -1) for pair in zip(pair_sort.tolist(), pair_host.tolist(), strict=True)]
                       if gate_of else np.full(len(pair_sort), -1), np.int64)  # fmt: skip
    liked_to = np.array(
        [gate_of.get(pair, -1) for pair in zip(liked_sort.tolist(), liked_host.tolist(), strict=True)], np.int64
    ).reshape(-1)
    gate_sort, gate_host = gates.T
    parts = (
        (every, at_sort + sides.sort, sides.supply, np.zeros(classes, np.int64)),
        (every, np.full(classes, sink), sides.supply, sides.waiting),
        (liked_class, np.where(liked_to >= 0, liked_to, at_group + group[liked_host]), sides.supply[liked_class],
         liked_cost),
        (at_sort + pair_sort, np.where(through >= 0, through, at_group + pair_group),
         sides.fits[pair_sort, pair_host] * size[pair_group], sides.cost[pair_sort, pair_host]),
        (at_gate + np.arange(len(gates)), at_group + group[gate_host], most[gate_sort, gate_host],
         np.zeros(len(gates), np.int64)),
        (at_group + np.arange(len(first)), np.full(len(first), sink), sides.room[first] * size,
         np.zeros(len(first), np.int64)),
    )  # fmt: skip
    tail, head, capacity, cost = (np.concatenate([part[i] for part in parts]).astype(np.int64) for i in range(4))
    ends = np.cumsum([len(part[0]) for part in parts]).tolist()
    supply = np.zeros(sink + 1, np.int64)
    supply[:classes], supply[sink] = sides.supply, -sides.supply.sum()
    arcs = Arcs(0, ends[0], ends[1], ends[2], ends[3])
    pairs = np.stack([pair_sort, pair_group], axis=1)
    return Built(Network(supply, tail, head, capacity, cost), arcs, group, pairs)


def groups_of(sides: Sides) -> Ints:
    """int64[hosts]: hosts that are alike for every sort have one number; those that a class prefers stay alone."""
    hosts = sides.fits.shape[1]
    alone = np.zeros(hosts, np.int64)
    liked = np.unique(sides.preferred[:, 1])
    alone[liked] = np.arange(1, len(liked) + 1)
    rows = np.concatenate([sides.room[None], alone[None], sides.fits, np.where(sides.fits > 0, sides.cost, 0)])
    mixed = np.zeros(hosts, np.uint64)
    for row in rows.astype(np.uint64):
        mixed = (mixed ^ row) * np.uint64(MIXING)
        mixed ^= mixed >> np.uint64(29)
    _, first, number = np.unique(mixed, return_index=True, return_inverse=True)
    if not np.array_equal(rows[:, first[number]], rows):  # two different hosts with one number
        _, first, number = np.unique(rows, axis=1, return_index=True, return_inverse=True)
    order = np.empty(len(first), np.int64)
    order[np.argsort(first)] = np.arange(len(first))
    return order[number.ravel()]


def split(sides: Sides, built: Built, amount: Ints) -> tuple[Ints, Ints]:
    """Class and host of every sub-task that a flow assigns, by class and then by host.

    Within a sort the first classes get the first hosts; within a group hosts are filled one after the other.
    """
    arcs, sorts, hosts = built.arcs, *sides.fits.shape
    by_group = np.zeros((sorts, int(built.group.max(initial=-1)) + 1), np.int64)
    to_group = amount[arcs.to_group : arcs.to_group + len(built.pairs)]
    by_group[built.pairs[:, 0], built.pairs[:, 1]] = to_group
    members = np.argsort(built.group, kind="stable")
    starts = np.searchsorted(built.group[members], np.arange(by_group.shape[1] + 1))
    taken = np.zeros((sorts, hosts), np.int64)
    liked = amount[arcs.to_preferred : arcs.to_group]
    left = sides.room - np.bincount(sides.preferred[:, 1], liked, hosts).astype(np.int64)
    deal(by_group, members, starts, sides.fits, left, taken)
    through_sort = amount[arcs.to_sort : arcs.to_waiting]
    owners, places = [np.repeat(sides.preferred[:, 0], liked)], [np.repeat(sides.preferred[:, 1], liked)]
    for sort in np.flatnonzero(taken.any(axis=1)).tolist():
        own = np.flatnonzero(sides.sort == sort)
        owners.append(np.repeat(own, through_sort[own]))
        places.append(np.repeat(np.arange(hosts), taken[sort]))
    owner, host = np.concatenate(owners), np.concatenate(places)
    order = np.lexsort((host, owner))
    return owner[order], host[order]


@compiled
def deal(by_group: Ints, members: Ints, starts: Ints, fits: Ints, room: Ints, taken: Ints) -> None:
    """Deal what each group takes of each sort to its hosts, one after the other as full as may be; fills ``taken``.

    A host takes at least what the others behind it could not. As all hosts of a group are alike, and together take at
    most their room and at most what fits of each sort, that never is more than it has room for.
    """
    for g in range(by_group.shape[1]):
        behind = starts[g + 1] - starts[g]
        for at in range(starts[g], starts[g + 1]):
            host = members[at]
            behind -= 1
            left = room[host]
            for s in range(by_group.shape[0]):
                must = by_group[s, g] - behind * fits[s, host]
                if must > 0:
                    taken[s, host] = must
                    by_group[s, g] -= must
                    left -= must
            for s in range(by_group.shape[0]):
                more = min(left, by_group[s, g], fits[s, host] - taken[s, host])
                if more > 0:
                    taken[s, host] += more
                    by_group[s, g] -= more
                    left -= more
