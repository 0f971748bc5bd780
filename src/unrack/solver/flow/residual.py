"""The residual graph of a flow: what each arc can still take, and what can be taken back."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unrack.jit import compiled
from unrack.kernels.arrays import Ints
from unrack.solver.flow.network import Network


class Residual(NamedTuple):
    """Two slots an arc, one in each direction, those of a node side by side: its arcs by number, then those into it."""

    first: Ints
    """int64[nodes + 1]: where the slots of a node begin."""
    head: Ints
    """int64[slots]: the node that a slot leads to."""
    twin: Ints
    """int64[slots]: the slot of the same arc in the other direction."""
    room: Ints
    """int64[slots]: units that can be sent; what is sent on one slot is room on its twin."""
    cost: Ints
    """int64[slots]: of a unit; that of the twin, negated."""
    slot: Ints
    """int64[arcs]: the slot of each arc from tail to head."""


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
