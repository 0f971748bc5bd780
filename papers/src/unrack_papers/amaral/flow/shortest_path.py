"""Least cost by successive shortest paths: each unit goes from its source the cheapest way that is left.

Arcs of negative cost are filled first, so that no residual cost is negative: beside them, what they carry has to go
back from head to tail or on from there. (Potentials by Bellman-Ford's algorithm would do where there is no cycle of
negative cost; this does always.) Node potentials keep reduced costs at 0 or above, so that Dijkstra's algorithm finds
the ways; it ends at the first node that lacks units, and changes the potentials of those alone that are nearer. In a
network of tasks and machines, it looks at few of them as long as there is room.

O(units (arcs + nodes) log nodes) at worst.

References
----------
R. G. Busacker, P. J. Gowen, "A procedure for determining a family of minimal-cost network flow patterns" (1960).
J. Edmonds, R. M. Karp, "Theoretical improvements in algorithmic efficiency for network flow problems", J. ACM 19
(1972). R. K. Ahuja, T. L. Magnanti, J. B. Orlin, "Network Flows" (1993), section 9.7.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unrack.jit import compiled, inlined
from unrack.solver import Network, Residual, amounts_of, residual_of
from unrack_papers.amaral.flow.cost_scaling import Heap, put_nearer, take_nearest

Ints = NDArray[np.int64]

FAR = 2**62


def shortest_path(network: Network) -> Ints | None:
    """int64[arcs]: a flow of least cost; ``None`` if the network cannot carry its supply.

    Parameters
    ----------
    network
        As :func:`unrack.solver.network.checked` returns it.
    """
    amount = np.where(network.cost < 0, network.capacity, 0)
    excess = network.supply.copy()
    np.subtract.at(excess, network.tail, amount)
    np.add.at(excess, network.head, amount)
    residual = residual_of(network, amount)
    return amounts_of(residual) if send_by_shortest_paths(residual, excess) else None


@inlined
def find_nearest(
    residual: Residual, source: int, excess: Ints, potential: Ints, heap: Heap, via: Ints, seen: Ints
) -> tuple[int, int]:
    """The cheapest way from the source to a node that lacks units: that node, or -1, and how many nodes were seen.

    ``via`` has the slot by which each node was reached, ``seen`` the nodes that have a distance.
    """
    first, head, room, cost = residual.first, residual.head, residual.room, residual.cost
    distance = heap.distance
    distance[source] = 0
    seen[0], count = source, 1
    found, least = -1, FAR
    put_nearer(heap, source)
    while heap.size[0] > 0:
        node = take_nearest(heap)
        so_far = distance[node]
        if so_far >= least:
            break
        before = so_far + potential[node]
        for slot in range(first[node], first[node + 1]):
            if room[slot] == 0:
                continue
            other = head[slot]
            new = before + cost[slot] - potential[other]
            if new >= distance[other] or new >= least:
                continue
            if distance[other] == FAR:
                seen[count] = other
                count += 1
            distance[other], via[other] = new, slot
            if excess[other] < 0:
                found, least = other, new
                if least == so_far:  # nothing is nearer
                    break
            else:
                put_nearer(heap, other)
        if least == so_far:
            break
    return found, count


@compiled
def send_by_shortest_paths(residual: Residual, excess: Ints) -> bool:
    """Send all units; False if some cannot be sent. Room and excess are changed."""
    nodes = len(excess)
    head, twin, room = residual.head, residual.twin, residual.room
    potential, via, seen = np.zeros(nodes, np.int64), np.empty(nodes, np.int64), np.empty(nodes, np.int64)
    heap = Heap(np.empty(nodes, np.int64), np.full(nodes, -1), np.full(nodes, FAR), np.zeros(1, np.int64))
    for source in range(nodes):
        while excess[source] > 0:
            found, count = find_nearest(residual, source, excess, potential, heap, via, seen)
            if found < 0:
                return False
            amount, node = min(excess[source], -excess[found]), found
            while node != source:
                amount = min(amount, room[via[node]])
                node = head[twin[via[node]]]
            node = found
            while node != source:
                room[via[node]] -= amount
                room[twin[via[node]]] += amount
                node = head[twin[via[node]]]
            excess[source] -= amount
            excess[found] += amount
            least = heap.distance[found]
            for i in range(count):
                node = seen[i]
                potential[node] += min(heap.distance[node] - least, 0)
                heap.distance[node] = FAR
            for i in range(heap.size[0]):
                heap.place[heap.node[i]] = -1
            heap.size[0] = 0
    return True
