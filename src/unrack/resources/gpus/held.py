"""Compiled: whether claims are what a job asks where it runs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unrack.jit import compiled
from unrack.resources.gpus.asks import WHOLE, Ask
from unrack.resources.gpus.choice import may_begin
from unrack.resources.gpus.columns import Gpus

Ints = NDArray[np.int64]


@compiled
def holds_what_it_asks(gpus: Gpus, ask: Ask, nodes: Ints, tasks: Ints, claims: Ints) -> bool:
    """Whether every claim belongs to a task, and every task has what it asks; places ascend."""
    row = 0
    for i in range(nodes.shape[0]):
        node, on_it = nodes[i], tasks[i]
        first, end = gpus.first[node], gpus.first[node + 1]
        begin, total = row, 0
        while row < claims.shape[0] and first <= claims[row, 0] < end:
            amount = claims[row, 1]
            total += amount
            if ask.slices == 0 and (amount % ask.milli or amount < 1 or amount > min(WHOLE, on_it * ask.milli)):
                return False
            row += 1
        if ask.gpus == 0:
            if row > begin:
                return False
        elif ask.slices:
            if gpus.slices[gpus.kind[node]] == 0 or not are_blocks(gpus, node, ask.slices, on_it, claims[begin:row]):
                return False
        elif gpus.kind[node] < 0 or gpus.slices[gpus.kind[node]] or total != on_it * ask.gpus * ask.milli:
            return False
    return bool(row == claims.shape[0])


@compiled
def are_blocks(gpus: Gpus, node: int, size: int, tasks: int, claims: Ints) -> bool:
    """Whether claims are so many blocks of slices, each where a block may begin."""
    each = gpus.slices[gpus.kind[node]]
    if claims.shape[0] != tasks * size:
        return False
    for block in range(tasks):
        start = claims[block * size, 0] - gpus.first[node]
        if not may_begin(each, size, start % each):
            return False
        for i in range(size):
            if claims[block * size + i, 0] != gpus.first[node] + start + i or claims[block * size + i, 1] != 1:
                return False
    return True
