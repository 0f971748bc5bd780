"""Compiled: a heap of planned ends in columns, in order of (time, rank, sequence)."""

from __future__ import annotations

from unrack.jit import inlined
from unrack.kernels.arrays import Ints
from unrack.sim.compiled.columns import ABOUT, AT, JOB, KEY


@inlined
def is_before(ends: Ints, a: int, b: int) -> bool:
    """Whether column ``a`` comes before column ``b``."""
    return bool(ends[AT, a] < ends[AT, b] or (ends[AT, a] == ends[AT, b] and ends[KEY, a] < ends[KEY, b]))


@inlined
def swap(ends: Ints, a: int, b: int) -> None:
    """Exchange two columns."""
    for row in range(4):
        ends[row, a], ends[row, b] = ends[row, b], ends[row, a]


@inlined
def push(ends: Ints, count: int, time: int, key: int, job: int, about: int) -> None:
    """Add an end to a heap of ``count``; there is room."""
    i = count
    ends[AT, i], ends[KEY, i], ends[JOB, i], ends[ABOUT, i] = time, key, job, about
    while i > 0 and is_before(ends, i, (i - 1) // 2):
        swap(ends, i, (i - 1) // 2)
        i = (i - 1) // 2


@inlined
def drop_first(ends: Ints, count: int) -> None:
    """Take the first end from a heap of ``count``."""
    last = count - 1
    swap(ends, 0, last)
    i = 0
    while True:
        child = 2 * i + 1
        if child >= last:
            return
        if child + 1 < last and is_before(ends, child + 1, child):
            child += 1
        if not is_before(ends, child, i):
            return
        swap(ends, child, i)
        i = child
