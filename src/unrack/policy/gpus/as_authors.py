"""Compiled: packing and clustering as the authors' plug-ins mark nodes (Weng et al., ATC 2023), from 0 to 100.

Marks are whole numbers, the greatest wins, and of equal ones the first node, in the order of the cluster. They differ
from ``packing`` and ``clustering``, which leave no such ties:

* A pod without GPUs has the mark 0 everywhere: it goes to the first node with room, and takes its cores and memory.
* Packing marks a busy node by how many idle GPUs a pod takes of it, not by how much is free there: all that hold a pod
  on whole GPUs are equal. GPUs in use that have room differ by tenths of a GPU.
* Clustering knows pods on a part of a GPU, all alike, and pods on 1, 2, … whole ones. It asks whether a node has such
  pods and whether it has others, not how many; how full the node is counts in steps of 320/1000 of a GPU.
"""

from __future__ import annotations

from unrack.jit import inlined
from unrack.kernels.arrays import Ints
from unrack.resources.gpus.asks import WHOLE, Ask
from unrack.resources.gpus.columns import Gpus
from unrack.resources.gpus.utility import Neighbours

BEST = 100
MOST_MILLI = 8 * WHOLE
"""The GPUs of the largest node, to which clustering relates what is free."""
SHARED = 0
"""The kind of jobs on parts of GPUs; of others it is how many GPUs they ask for."""


@inlined
def packing_mark(gpus: Gpus, free: Ints, ask: Ask, node: int) -> int:
    """GPUs in use with room 50 to 100, the fuller the better; idle ones of a busy node 33 to 49; an idle node less."""
    kind, first = gpus.kind[node], gpus.first[node]
    if ask.gpus == 0 or kind < 0 or gpus.slices[kind]:
        return 0
    idle = 0
    for i in range(gpus.size[kind]):
        idle += free[first + i] == WHOLE
    if idle == gpus.size[kind]:
        return int(max(BEST // 3 - idle, idle))
    taken, idle, left = 0, 0, 0
    for _ in range(ask.gpus):
        best, least = 0, WHOLE + 1
        for i in range(gpus.size[kind]):
            if not taken >> i & 1 and ask.milli <= free[first + i] < least:
                best, least = i, free[first + i]
        taken |= 1 << best
        idle += least == WHOLE
        left += least * 100 // WHOLE
    if idle:
        return max(BEST // 2 - idle, BEST // 3)
    return int(max(BEST - left // 10, BEST // 2))


@inlined
def clustering_mark(gpus: Gpus, peers: Neighbours, free: Ints, kinds: Ints, ask: Ask, job: int, node: int) -> int:
    """Nodes with jobs of its kind alone, with such among others, idle, with others: 75, 50, 25 and 0, and how full."""
    kind, first = gpus.kind[node], gpus.first[node]
    if ask.gpus == 0 or kind < 0 or gpus.slices[kind]:
        return 0
    seen, left = 0, 0
    for i in range(first, first + gpus.size[kind]):
        left += free[i]
        if peers.holders[0, i] == 1 and free[i] == 0:
            seen |= 1 << kinds[peers.holders[1, i]]
        elif peers.holders[0, i]:
            seen |= 1 << SHARED
    own = 1 << kinds[job]
    mark = 75 if seen == own else 50 if seen & own else 0 if seen else 25
    return int(mark + BEST // 4 * (MOST_MILLI - min(left, MOST_MILLI)) // MOST_MILLI)
