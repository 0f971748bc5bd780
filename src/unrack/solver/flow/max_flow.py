"""As many units as can be sent, along ways of fewest arcs first.

References
----------
E. A. Dinic, "Algorithm for solution of a problem of maximum flow in networks with power estimation", Soviet Mathematics
Doklady 11 (1970). R. K. Ahuja, T. L. Magnanti, J. B. Orlin, "Network Flows" (1993), section 7.5.
"""

from __future__ import annotations

import numpy as np

from unrack.jit import compiled, inlined
from unrack.kernels.arrays import Ints
from unrack.solver.flow.network import Residual


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
