"""A network, what is wrong with one, a flow in it, and the residual graph: what arcs can take, and what can go back.

Flows of as many units as can be sent go along ways of fewest arcs first.

References
----------
E. A. Dinic, "Algorithm for solution of a problem of maximum flow in networks with power estimation", Soviet Mathematics
Doklady 11 (1970). R. K. Ahuja, T. L. Magnanti, J. B. Orlin, "Network Flows" (1993), section 7.5.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unrack.errors import InputError
from unrack.jit import compiled, inlined
from unrack.kernels.arrays import Bools, Ints

LIMIT = 2**61
"""Sums of amounts, total cost, and costs times four times the squared number of nodes stay below: nothing overflows."""


class Network(NamedTuple):
    """Nodes that send or receive, and arcs between them, numbered from 0 in the order of the arrays."""

    supply: Ints  # int64[nodes]: units that a node sends, negative for one that receives; they sum to 0
    tail: Ints  # int64[arcs]: the node that an arc leaves
    head: Ints
    """int64[arcs]: the node that it enters, which is another one. Parallel arcs are allowed, in both directions."""
    capacity: Ints  # int64[arcs]: units that it carries at most, 0 or more
    cost: Ints  # int64[arcs]: what a unit on it costs, of any sign


class Flow(NamedTuple):
    """A flow of least cost, and the proof that it is one."""

    amount: Ints  # int64[arcs]: units on each arc
    cost: int  # of all units on all arcs
    potential: Ints
    """int64[nodes]: the greatest optimal duals of which none is above 0. An arc with
    ``cost + potential[tail] - potential[head]`` below 0 is full, and one with that above 0 is empty."""


def checked(network: Network) -> Network:
    """The network in arrays that kernels take: contiguous, int64, writable; copied only where they are not.

    Raises
    ------
    InputError
        For arrays of other shapes or of no whole numbers, nodes that do not exist, loops, capacities below 0, supplies
        that do not sum to 0, and numbers so large that a sum might overflow.

    Examples
    --------
    >>> checked(Network(*map(np.array, ([2, -1], [0], [1], [2], [5]))))
    Traceback (most recent call last):
    unrack.errors.InputError: network.supply: got a sum of 1, wanted 0
    """
    arrays = [_whole(f"network.{name}", column) for name, column in zip(Network._fields, network, strict=True)]
    checked_network = Network(*arrays)
    supply, tail, head, capacity, cost = checked_network
    for name, column in zip(Network._fields[2:], arrays[2:], strict=True):
        if len(column) != len(tail):
            raise InputError(f"network.{name}", f"{len(column)} arcs", f"{len(tail)}, as in network.tail")
    for name, ends in (("tail", tail), ("head", head)):
        _refuse(f"network.{name}", ends, (ends < 0) | (ends >= len(supply)), f"a node from 0 to {len(supply) - 1}")
    _refuse("network.head", head, head == tail, "a node other than its tail")
    _refuse("network.capacity", capacity, capacity < 0, "0 or more")
    sums = {
        "supply": _total(supply),
        "capacity": _total(capacity),
        "cost": 4.0 * (len(supply) + 1) ** 2 * float(np.abs(cost.astype(np.float64)).max(initial=0.0)),
        "cost x network.capacity": float(np.abs(cost.astype(np.float64)) @ capacity.astype(np.float64)),
    }
    for name, total in sums.items():
        if total >= LIMIT:
            raise InputError(f"network.{name}", f"numbers that may add up to {total:.1e}", f"less than {LIMIT:.1e}")
    if supply.sum() != 0:
        raise InputError("network.supply", f"a sum of {supply.sum()}", "0")
    return checked_network


def _total(column: Ints) -> float:
    return float(np.abs(column.astype(np.float64)).sum())


def _whole(where: str, column: Ints) -> Ints:
    given = np.asarray(column)
    if given.ndim != 1:
        raise InputError(where, f"an array of shape {given.shape}", "one of one dimension")
    if given.size and not np.can_cast(given.dtype, np.int64):
        raise InputError(where, f"an array of {given.dtype}", "one of int64")
    return np.require(given, np.int64, ["C", "W"])


def _refuse(where: str, column: Ints, wrong: Bools, want: str) -> None:
    if wrong.any():
        arc = int(np.argmax(wrong))
        raise InputError(f"{where}, arc {arc}", str(column[arc]), want)


class Residual(NamedTuple):
    """Two slots an arc, one in each direction, those of a node side by side: its arcs by number, then those into it."""

    first: Ints  # int64[nodes + 1]: where the slots of a node begin
    head: Ints  # int64[slots]: the node that a slot leads to
    twin: Ints  # int64[slots]: the slot of the same arc in the other direction
    room: Ints  # int64[slots]: units that can be sent; what is sent on one slot is room on its twin
    cost: Ints  # int64[slots]: of a unit; that of the twin, negated
    slot: Ints  # int64[arcs]: the slot of each arc from tail to head


@compiled
def residual_of(network: Network, amount: Ints) -> Residual:
    """The residual graph of ``amount`` (int64[arcs]). O(nodes + arcs)."""
    nodes, arcs = len(network.supply), len(network.tail)
    tail, head = network.tail, network.head
    first, place = np.zeros(nodes + 1, np.int64), np.zeros(nodes, np.int64)
    for arc in range(arcs):
        first[tail[arc] + 1] += 1
        first[head[arc] + 1] += 1
    for node in range(nodes):
        first[node + 1] += first[node]
        place[node] = first[node]
    to, twin = np.empty(2 * arcs, np.int64), np.empty(2 * arcs, np.int64)
    room, cost, slot = np.empty(2 * arcs, np.int64), np.empty(2 * arcs, np.int64), np.empty(arcs, np.int64)
    for arc in range(arcs):
        there = place[tail[arc]]
        place[tail[arc]] += 1
        slot[arc], to[there], cost[there] = there, head[arc], network.cost[arc]
        room[there] = network.capacity[arc] - amount[arc]
    for arc in range(arcs):
        there, back = slot[arc], place[head[arc]]
        place[head[arc]] += 1
        to[back], cost[back], room[back] = tail[arc], -network.cost[arc], amount[arc]
        twin[there], twin[back] = back, there
    return Residual(first, to, twin, room, cost, slot)


@compiled
def amounts_of(residual: Residual) -> Ints:
    """int64[arcs]: what has been sent on each arc."""
    amount = np.empty(len(residual.slot), np.int64)
    for arc in range(len(amount)):
        amount[arc] = residual.room[residual.twin[residual.slot[arc]]]
    return amount


@inlined
def _find_steps(residual: Residual, excess: Ints, steps: Ints, queue: Ints) -> bool:
    """Into ``steps``: how many slots to the next node that lacks units (-1: no way); True if any source has a way."""
    steps[:] = -1
    size, reached = 0, False
    for node in range(len(steps)):
        if excess[node] < 0:
            steps[node] = 0
            queue[size] = node
            size += 1
    at = 0
    while at < size:
        node = queue[at]
        at += 1
        for slot in range(residual.first[node], residual.first[node + 1]):
            other = residual.head[slot]
            if steps[other] < 0 and residual.room[residual.twin[slot]] > 0:
                steps[other] = steps[node] + 1
                reached = reached or excess[other] > 0
                queue[size] = other
                size += 1
    return reached


@inlined
def send_from(residual: Residual, source: int, excess: Ints, steps: Ints, current: Ints, path: Ints) -> None:
    """Send what a node has along ways of fewest steps, until it has nothing or no such way is left."""
    head, twin, room = residual.head, residual.twin, residual.room
    length, node = 0, source
    while excess[source] > 0:
        if excess[node] < 0:
            amount = min(excess[source], -excess[node])
            for i in range(length):
                amount = min(amount, room[path[i]])
            excess[source] -= amount
            excess[node] += amount
            full = length
            for i in range(length - 1, -1, -1):
                room[path[i]] -= amount
                room[twin[path[i]]] += amount
                if room[path[i]] == 0:
                    full = i
            if full < length:
                length = full
                node = head[twin[path[length]]]
            continue
        end = residual.first[node + 1] if steps[node] > 0 else current[node]  # one that was served leads nowhere
        while current[node] < end:
            slot = current[node]
            if room[slot] > 0 and steps[head[slot]] == steps[node] - 1:
                break
            current[node] += 1
        if current[node] < end:
            path[length] = current[node]
            length += 1
            node = head[current[node]]
        elif length == 0:
            return
        else:
            length -= 1
            node = head[twin[path[length]]]
            current[node] += 1


@compiled
def push_all(residual: Residual, excess: Ints) -> int:
    """Send as many units as possible from nodes that have some to nodes that lack some.

    In rounds: each node knows by how few slots units get from it to a node that lacks some; nodes that have units send
    them in order of number, along slots that bring them one nearer, a node's slots in their order. What is left then
    has a longer way in the next round. O(nodes² arcs), in bipartite networks of unit capacities O(√nodes arcs).

    Parameters
    ----------
    residual
        Its room is changed.
    excess : int64[nodes]
        Units that a node has, negative for those that it lacks; changed.

    Returns
    -------
    int
        Units that cannot be sent.
    """
    nodes = len(excess)
    steps, queue, path = np.empty(nodes, np.int64), np.empty(nodes, np.int64), np.empty(nodes, np.int64)
    while _find_steps(residual, excess, steps, queue):
        current = residual.first[:-1].copy()
        for node in range(nodes):
            if excess[node] > 0 and steps[node] > 0:
                send_from(residual, node, excess, steps, current, path)
    left = 0
    for node in range(nodes):
        left += max(excess[node], 0)
    return left
