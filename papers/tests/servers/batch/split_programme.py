"""One server in one cluster as a constraint programme: the reference of :mod:`unrack.solver.servers`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from ortools.sat.python import cp_model

Ints = NDArray[np.int64]


def cheapest_cp(memory: Ints, floor: Ints, ceiling: Ints, free: Ints, weight: Ints, price: Ints) -> tuple[Ints, Ints]:
    """The cheapest split of each of many servers, each alone in a cluster of its own, in one programme.

    Parameters
    ----------
    memory, floor, ceiling : int64[servers]
        MB asked, MB of it that must be local, most weighted remote MB.
    free, weight, price : int64[servers, pools]
        MB free in each pool of the server's cluster, its compute pool first; weight and price of a MB.

    Returns
    -------
    tuple[int64[servers], int64[servers, pools]]
        The least price of each (-1: no split meets its SLOs) and a split that has it.
    """
    model = cp_model.CpModel()
    gain: list[Any] = []
    placed: list[Any] = []
    mb: list[list[Any]] = []
    for k in range(len(memory)):
        fits = model.new_bool_var("")
        parts = [model.new_int_var(0, int(min(top, memory[k])), "") for top in np.maximum(free[k], 0)]
        model.add(sum(parts) == int(memory[k]) * fits)
        model.add(parts[0] >= int(floor[k]) * fits)
        model.add(cp_model.LinearExpr.weighted_sum(parts, weight[k].tolist()) <= int(ceiling[k]) * fits)
        dearest = int(memory[k]) * int(np.abs(price[k]).max(initial=0)) + 1
        gain.append(dearest * fits - cp_model.LinearExpr.weighted_sum(parts, price[k].tolist()))
        placed.append(fits)
        mb.append(parts)
    model.maximize(sum(gain))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    assert solver.solve(model) == cp_model.OPTIMAL
    split = np.array([[solver.value(part) for part in parts] for parts in mb], np.int64)
    return np.where([solver.value(fits) for fits in placed], (split * price).sum(axis=1), -1), split
