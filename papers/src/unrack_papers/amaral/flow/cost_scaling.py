"""Least cost by cost scaling: a flow that is nearly optimal, and each time more nearly.

Costs are multiplied by nodes + 1. A flow and potentials are ε-optimal if no residual arc has a reduced cost below -ε;
at ε = 1 such a flow costs least, since a cycle of negative cost would cost at most -(nodes + 1). Each scale begins with
the flow of the one before: arcs of negative reduced cost are filled, and nodes that get too much push it on along arcs
of negative reduced cost, or else lower their potential. From time to time all potentials are lowered by the distance to
the nodes that lack units, as in Goldberg's CS2.

O(nodes² arcs log(nodes C)) for costs up to C.

References
----------
A. V. Goldberg, R. E. Tarjan, "Finding minimum-cost circulations by successive approximation", Mathematics of Operations
Research 15 (1990). A. V. Goldberg, "An efficient implementation of a scaling minimum-cost flow algorithm", Journal of
Algorithms 22 (1997). R. K. Ahuja, T. L. Magnanti, J. B. Orlin, "Network Flows" (1993), section 10.3.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unrack.jit import compiled, inlined, melted
from unrack.solver import Network, Residual, amounts_of, push_all, residual_of

Ints = NDArray[np.int64]


class Heap(NamedTuple):
    """Nodes, the nearest first, of the equally near the one with the least number."""

    node: Ints  # int64[nodes]: the heap
    place: Ints  # int64[nodes]: where a node is in the heap; -1 if it is not
    distance: Ints  # int64[nodes]: of all nodes
    size: Ints  # int64[1]


@melted
def goes_before(heap: Heap, one: int, other: int) -> bool:
    """True if the one is nearer, or as near and of a lower number."""
    return heap.distance[one] < heap.distance[other] or (heap.distance[one] == heap.distance[other] and one < other)


@melted
def put_nearer(heap: Heap, node: int) -> None:
    """Put a node in, or move it up after its distance has fallen. O(log nodes)."""
    at = heap.place[node]
    if at < 0:
        at = heap.size[0]
        heap.size[0] += 1
    while at > 0:
        above = (at - 1) >> 1
        if not goes_before(heap, node, heap.node[above]):
            break
        heap.node[at] = heap.node[above]
        heap.place[heap.node[at]] = at
        at = above
    heap.node[at], heap.place[node] = node, at


@melted
def take_nearest(heap: Heap) -> int:
    """Take the nearest node out. O(log nodes)."""
    nearest: int = heap.node[0]
    heap.place[nearest] = -1
    heap.size[0] -= 1
    size = heap.size[0]
    if size > 0:
        node, at = heap.node[size], 0
        while 2 * at + 1 < size:
            below = 2 * at + 1
            if below + 1 < size and goes_before(heap, heap.node[below + 1], heap.node[below]):
                below += 1
            if not goes_before(heap, heap.node[below], node):
                break
            heap.node[at] = heap.node[below]
            heap.place[heap.node[at]] = at
            at = below
        heap.node[at], heap.place[node] = node, at
    return nearest


STEP = 16
"""ε is divided by so much from scale to scale."""
FAR = 2**62


def cost_scaling(network: Network) -> Ints | None:
    """int64[arcs]: a flow of least cost; ``None`` if the network cannot carry its supply.

    ``network``: as :func:`unrack.solver.network.checked` returns it.
    """
    residual = residual_of(network, np.zeros_like(network.tail))
    if push_all(residual, network.supply.copy()) > 0:
        return None
    scale_down(residual)
    return amounts_of(residual)


@inlined
def fill_negative(residual: Residual, potential: Ints, excess: Ints) -> None:
    """Fill every slot of negative reduced cost."""
    for node in range(len(potential)):
        for slot in range(residual.first[node], residual.first[node + 1]):
            amount, other = residual.room[slot], residual.head[slot]
            if amount > 0 and residual.cost[slot] + potential[node] - potential[other] < 0:
                residual.room[slot] = 0
                residual.room[residual.twin[slot]] += amount
                excess[node] -= amount
                excess[other] += amount


@inlined
def _lower_all(residual: Residual, potential: Ints, excess: Ints, epsilon: int, heap: Heap) -> None:
    """Lower each potential by ε times the distance to a node that lacks units, in slots of length ⌊reduced / ε⌋ + 1.

    A node that has units then has a way along which reduced costs are negative. The flow stays ε-optimal.
    """
    heap.distance[:] = FAR
    waiting = 0
    for node in range(len(potential)):
        if excess[node] < 0:
            heap.distance[node] = 0
            put_nearer(heap, node)
        elif excess[node] > 0:
            waiting += 1
    last = 0
    while heap.size[0] > 0 and waiting > 0:
        node = take_nearest(heap)
        last = heap.distance[node]
        if excess[node] > 0:
            waiting -= 1
        for slot in range(residual.first[node], residual.first[node + 1]):
            back = residual.twin[slot]
            if residual.room[back] == 0:
                continue
            other = residual.head[slot]
            new = last + (residual.cost[back] + potential[other] - potential[node]) // epsilon + 1
            if new < heap.distance[other]:
                heap.distance[other] = new
                put_nearer(heap, other)
    for node in range(len(potential)):
        potential[node] -= epsilon * min(heap.distance[node], last)
    for i in range(heap.size[0]):
        heap.place[heap.node[i]] = -1
    heap.size[0] = 0


@inlined
def lower(residual: Residual, node: int, potential: Ints, epsilon: int) -> None:
    """Lower one potential as far as the flow stays ε-optimal."""
    highest = -FAR
    for slot in range(residual.first[node], residual.first[node + 1]):
        if residual.room[slot] > 0:
            highest = max(highest, potential[residual.head[slot]] - residual.cost[slot])
    potential[node] = highest - epsilon


@inlined
def push_on(residual: Residual, potential: Ints, excess: Ints, epsilon: int, queue: Ints, heap: Heap) -> None:
    """Push from nodes that have too much, first come first served, until none has."""
    nodes = len(potential)
    head, room, cost = residual.head, residual.room, residual.cost
    current = residual.first[:-1].copy()
    at, size, lowered = 0, 0, nodes
    for node in range(nodes):
        if excess[node] > 0:
            queue[size] = node
            size += 1
    while size > 0:
        if lowered >= nodes:
            _lower_all(residual, potential, excess, epsilon, heap)
            current[:] = residual.first[:-1]
            lowered = 0
        node = queue[at]
        at = at + 1 if at + 1 < nodes else 0
        size -= 1
        while excess[node] > 0:
            slot = current[node]
            if slot == residual.first[node + 1]:
                lower(residual, node, potential, epsilon)
                current[node] = residual.first[node]
                lowered += 1
                continue
            other = head[slot]
            if room[slot] == 0 or cost[slot] + potential[node] - potential[other] >= 0:
                current[node] += 1
                continue
            amount = min(excess[node], room[slot])
            room[slot] -= amount
            room[residual.twin[slot]] += amount
            excess[node] -= amount
            excess[other] += amount
            if 0 < excess[other] <= amount:  # it was not waiting
                queue[(at + size) % nodes] = other
                size += 1


@compiled
def scale_down(residual: Residual) -> None:
    """Change the room of the residual graph of any flow until it is that of one of least cost."""
    nodes = len(residual.first) - 1
    potential, excess, queue = np.zeros(nodes, np.int64), np.zeros(nodes, np.int64), np.empty(nodes, np.int64)
    heap = Heap(np.empty(nodes, np.int64), np.full(nodes, -1), np.empty(nodes, np.int64), np.zeros(1, np.int64))
    epsilon = 1
    for slot in range(len(residual.cost)):
        residual.cost[slot] *= nodes + 1
        epsilon = max(epsilon, residual.cost[slot])
    while epsilon > 1:
        epsilon = max(1, epsilon // STEP)
        fill_negative(residual, potential, excess)
        push_on(residual, potential, excess, epsilon, queue, heap)
