"""Compiled: arrays of zeros. ``np.zeros`` in a kernel compiles longer than most kernels' own code."""

from __future__ import annotations

import numpy as np

from unrack.jit import inlined
from unrack.kernels.arrays import Ints


@inlined
def zeros(count: int) -> Ints:
    """int64[count]: zeros."""
    found = np.empty(count, np.int64)
    for i in range(count):
        found[i] = 0
    return found
