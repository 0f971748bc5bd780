"""Compiled: a stable order by keys, in one small kernel; the general sorts of numba take seconds to compile."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from unrack.jit import inlined
from unrack.kernels.arrays import Ints


@inlined
def zeros(count: int) -> Ints:
    """int64[count]: zeros."""
    found = np.empty(count, np.int64)
    for i in range(count):
        found[i] = 0
    return found


RUN = 16
"""Runs of so many are sorted by insertion, and then merged."""


@inlined
def order_of(keys: NDArray[Any]) -> Ints:
    """int64[n]: the places of ``keys`` (int64[n] or float64[n], no NaN) in ascending order, equal ones as they are.

    O(n log n), by merging.
    """
    n = keys.shape[0]
    order, spare = np.empty(n, np.int64), np.empty(n, np.int64)
    for start in range(0, n, RUN):
        for i in range(start, min(start + RUN, n)):
            at = i
            while at > start and keys[order[at - 1]] > keys[i]:
                order[at] = order[at - 1]
                at -= 1
            order[at] = i
    width = RUN
    while width < n:
        for start in range(0, n, 2 * width):
            middle, end = min(start + width, n), min(start + 2 * width, n)
            i, k = start, middle
            for at in range(start, end):
                if i < middle and (k == end or keys[order[i]] <= keys[order[k]]):
                    spare[at] = order[i]
                    i += 1
                else:
                    spare[at] = order[k]
                    k += 1
        order, spare = spare, order
        width *= 2
    return order
