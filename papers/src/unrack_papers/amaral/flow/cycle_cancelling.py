"""Least cost by cycle cancelling: send everything somehow, then take what costs most round a cheaper way.

O(nodes arcs² C U) for costs up to C and capacities up to U. The cycles are found in what Bellman's and Ford's
algorithm says each node is reached from; those found in one pass share no node, and are cancelled together.

References
----------
M. Klein, "A primal method for minimal cost flows with applications to the assignment and transportation problems",
Management Science 14 (1967). R. K. Ahuja, T. L. Magnanti, J. B. Orlin, "Network Flows" (1993), section 9.6.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unrack.jit import compiled, inlined
from unrack.solver import Network, Residual, amounts_of, push_all, residual_of

Ints = NDArray[np.int64]


def cycle_cancelling(network: Network) -> Ints | None:
    """int64[arcs]: a flow of least cost; ``None`` if the network cannot carry its supply.

    Parameters
    ----------
    network
        As :func:`unrack.solver.network.checked` returns it.
    """
    residual = residual_of(network, np.zeros_like(network.tail))
    if push_all(residual, network.supply.copy()) > 0:
        return None
    cancel_cycles(residual)
    return amounts_of(residual)


@inlined
def cancel_found(residual: Residual, via: Ints, seen: Ints) -> int:
    """Send round each cycle of ``via``, the slot by which each node is reached, what it takes: how many there are."""
    head, twin, room = residual.head, residual.twin, residual.room
    seen[:] = -1
    found = 0
    for start in range(len(via)):
        node = start
        while seen[node] < 0 and via[node] >= 0:
            seen[node] = start
            node = head[twin[via[node]]]
        if via[node] < 0 or seen[node] != start:
            continue
        found += 1
        end, amount = node, room[via[node]]
        node = head[twin[via[node]]]
        while node != end:
            amount = min(amount, room[via[node]])
            node = head[twin[via[node]]]
        turning = True
        while turning:
            room[via[node]] -= amount
            room[twin[via[node]]] += amount
            node = head[twin[via[node]]]
            turning = node != end
    return found


@compiled
def cancel_cycles(residual: Residual) -> None:
    """Change the room of the residual graph until it has no cycle of negative cost."""
    nodes = len(residual.first) - 1
    distance, via, seen = np.zeros(nodes, np.int64), np.full(nodes, -1), np.empty(nodes, np.int64)
    changed = True
    while changed:
        changed = False
        for node in range(nodes):
            for slot in range(residual.first[node], residual.first[node + 1]):
                other, new = residual.head[slot], distance[node] + residual.cost[slot]
                if residual.room[slot] > 0 and new < distance[other]:
                    distance[other], via[other] = new, slot
                    changed = True
        if changed and cancel_found(residual, via, seen) > 0:
            distance[:] = 0
            via[:] = -1
