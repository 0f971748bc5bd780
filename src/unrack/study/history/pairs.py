"""Two orders of starts: which pairs of jobs are the other way round."""

from __future__ import annotations

import numpy as np

from unrack.kernels.arrays import Ints

MOST_JOBS = 5_000
"""Of more, the first are compared: pairs are many."""


def swapped(real: Ints, told: Ints) -> tuple[Ints, Ints]:
    """The pairs in another order, by their places: which was first, which second.

    ``real``: int64[jobs], when they really started; does not fall; ``told``: int64[jobs], when they started in a
    simulation; -1: they did not.

    Examples
    --------
    >>> [places.tolist() for places in swapped(np.array([0, 5, 9]), np.array([3, 8, 0]))]
    [[0, 1], [2, 2]]
    """
    first, second = [], []
    for place in range(len(real)):
        behind = np.flatnonzero((real[place + 1 :] > real[place]) & (told[place + 1 :] < told[place])) + place + 1
        behind = behind[told[behind] >= 0]
        first.append(np.full(len(behind), place, np.int64))
        second.append(behind)
    none = np.zeros(0, np.int64)
    return np.concatenate([none, *first]), np.concatenate([none, *second])


def in_other_turns(real: Ints) -> int:
    """How many pairs did not really start at the same time; ``real`` does not fall."""
    return sum(int((real[place + 1 :] != real[place]).sum()) for place in range(len(real)))
