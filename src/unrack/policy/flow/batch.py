"""Who takes part in a round: jobs in order, as long as all of them together ask no more than what is free."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unrack.jit import compiled
from unrack.policy.flow.left import Left
from unrack.policy.flow.sorts import Sorts

Ints = NDArray[np.int64]


def batch_of(left: Left, sorts: Sorts, jobs: Ints, local: bool) -> NDArray[np.bool_]:
    """bool[jobs]: which of the jobs, in their order, take part (Amaral 2019, section 5.3.3); others may pass by.

    ``local``: whether memory is that of the node where a task runs.
    """
    of = sorts.of[jobs]
    kinds, number = np.unique(of, return_inverse=True)
    rows = []
    for kind in kinds.tolist():
        sort = sorts.every[kind]
        devices = sort.devices or {}
        own = [sort.cores, sort.mb * local, *(devices.get(kind, 0) for kind in left.hosts)]
        rows.append([sort.tasks * amount for amount in own])
    demands = np.array(rows, np.int64).reshape(len(kinds), -1)
    usable = left.cores >= 0
    free = [int(left.cores[usable].sum()), int(left.mb[usable].sum())]
    free += [int(left.counts(kind).sum()) for kind in left.hosts]
    return together(demands, number.ravel(), np.array(free, np.int64))


@compiled
def together(demands: Ints, of: Ints, free: Ints) -> NDArray[np.bool_]:
    """bool[jobs]: whose demands (row ``of`` each of int64[sorts, amounts]) those before them leave enough for.

    Examples
    --------
    >>> together(np.array([[3], [1]]), np.array([0, 0, 1]), np.array([4])).tolist()
    [True, False, True]
    """
    left, taken = free.copy(), np.zeros(len(of), np.bool_)
    for at in range(len(of)):
        own = demands[of[at]]
        fits = True
        for amount in range(len(left)):
            fits = fits and own[amount] <= left[amount]
        if fits:
            taken[at] = True
            for amount in range(len(left)):
                left[amount] -= own[amount]
    return taken
