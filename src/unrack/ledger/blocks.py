"""Compiled: the most free cores of any node by blocks of nodes, so that a search skips nodes that are full.

``most`` is int64[blocks + groups]: first one entry for every block of ``SIZE`` consecutive nodes, then one for every
group of ``SIZE`` consecutive blocks. It always says exactly what the free cores say: whoever changes ``free`` while a
``most`` of it is in use changes both, by :func:`take_rows` and :func:`give_rows`.
"""

from __future__ import annotations

import numpy as np

from unrack.jit import compiled, inlined
from unrack.kernels.arrays import Ints
from unrack.ledger.columns import CPU, MEM
from unrack.ledger.lease import CORES, FIRST, LOCAL_MB, NODES

SIZE = 64
"""Nodes of a block, and blocks of a group."""


@inlined
def count_blocks(nodes: int) -> int:
    """How many blocks so many nodes have, or how many groups so many blocks."""
    return (nodes + SIZE - 1) // SIZE


@inlined
def refresh_groups(most: Ints, blocks: int, first: int, last: int) -> None:
    """Set the entries of the groups with the blocks ``first`` to ``last``."""
    for group in range(first // SIZE, last // SIZE + 1):
        top = 0
        for block in range(group * SIZE, min(group * SIZE + SIZE, blocks)):
            top = max(top, most[block])
        most[blocks + group] = top


@inlined
def refresh(free: Ints, most: Ints, first: int, last: int) -> None:
    """Set the entries of the blocks ``first`` to ``last``, and of their groups."""
    nodes = free.shape[1]
    for block in range(first, last + 1):
        top = 0
        for node in range(block * SIZE, min(block * SIZE + SIZE, nodes)):
            top = max(top, free[CPU, node])
        most[block] = top
    refresh_groups(most, count_blocks(nodes), first, last)


@inlined
def most_free(free: Ints) -> Ints:
    """int64[blocks + groups]: the summary of free cores and MB (int64[2, nodes])."""
    blocks = count_blocks(free.shape[1])
    most = np.zeros(blocks + count_blocks(blocks), np.int64)
    refresh(free, most, 0, blocks - 1)
    return most


@inlined
def add_everywhere(free: Ints, first: int, end: int, cores: int, mb: int) -> None:
    """Add cores and MB on the nodes ``first`` to ``end - 1``; two loops, as they run many nodes at once."""
    for node in range(first, end):
        free[CPU, node] += cores
    if mb != 0:
        for node in range(first, end):
            free[MEM, node] += mb


@inlined
def take_rows(free: Ints, most: Ints, rows: Ints, first: int, last: int) -> int:
    """Take ``rows[first:last]`` from ``free``; returns the cores taken. Fastest where rows go up by node."""
    cores = 0
    low, high = 0, -1
    for r in range(first, last):
        node, end = rows[r, FIRST], rows[r, FIRST] + rows[r, NODES]
        add_everywhere(free, node, end, -rows[r, CORES], -rows[r, LOCAL_MB])
        cores += rows[r, NODES] * rows[r, CORES]
        a, b = node // SIZE, (end - 1) // SIZE
        if high < low:
            low, high = a, b
        elif low <= a <= high + 1:
            high = max(high, b)
        else:
            refresh(free, most, low, high)
            low, high = a, b
    if high >= low:
        refresh(free, most, low, high)
    return cores


@inlined
def give_rows(free: Ints, most: Ints, rows: Ints, first: int, last: int) -> int:
    """Give ``rows[first:last]`` back to ``free``; returns the cores given back."""
    cores = 0
    blocks = count_blocks(free.shape[1])
    for r in range(first, last):
        low, end = rows[r, FIRST], rows[r, FIRST] + rows[r, NODES]
        add_everywhere(free, low, end, rows[r, CORES], rows[r, LOCAL_MB])
        cores += rows[r, NODES] * rows[r, CORES]
        while low < end:
            block = low // SIZE
            high = min(block * SIZE + SIZE, end)
            top = most[block]
            for node in range(low, high):
                top = max(top, free[CPU, node])
            most[block] = top
            group = blocks + block // SIZE
            most[group] = max(top, most[group])
            low = high
    return cores


@compiled
def whole_summary(free: Ints) -> Ints:
    """As :func:`most_free`, from Python."""
    return most_free(free)
