"""A heap of nodes by distance, in which distances fall."""

from __future__ import annotations

from typing import NamedTuple

from unrack.jit import melted
from unrack.kernels.arrays import Ints


class Heap(NamedTuple):
    """Nodes, the nearest first, of the equally near the one with the least number."""

    node: Ints
    """int64[nodes]: the heap."""
    place: Ints
    """int64[nodes]: where a node is in the heap; -1 if it is not."""
    distance: Ints
    """int64[nodes]: of all nodes."""
    size: Ints
    """int64[1]."""


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
