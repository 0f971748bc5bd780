"""Which clusters should be open, when one fewer is to do."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unrack.solver.batch.case import MB, Case

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]

VICTIMS = 4
"""Clusters that are tried to be emptied before another look for fewer clusters is given up."""


def fewer(case: Case, at: Ints, opened: Ints, capacity: Floats, core_mb: float) -> list[Ints]:
    """Choices of one cluster fewer, the most promising first: without a small one that holds little, or all anew.

    Parameters
    ----------
    at : int64[servers], opened : int64[open]
        Where servers are, and which clusters are in use.
    capacity : float64[clusters]
        Size of each, in mean servers' memory.
    core_mb
        What a core counts as, MB.

    Returns
    -------
    list of int64[open - 1]
        Busy clusters, and those that placed servers are pinned to, are in all of them.
    """
    need = case.need
    mean_mb = max(float(need[MB].mean()), 1.0)
    load = np.bincount(at[at >= 0], weights=need[MB, at >= 0], minlength=case.supply.clusters) / mean_mb
    must = case.busy.copy()
    must[case.asked.pinned[(case.asked.pinned >= 0) & (at >= 0)]] = True
    may = opened[~must[opened]]
    promising = may[np.argsort((load + capacity)[may], kind="stable")][:VICTIMS]
    found = [opened[opened != c] for c in promising]
    if len(may) and (case.crowd.kind.max() > 0 or case.part.max() + 1 < case.supply.clusters):
        found += [_roomiest(case, must, len(opened) - 1, measure, core_mb) for measure in range(3)]
    return found


def _roomiest(case: Case, must: Bools, count: int, measure: int, core_mb: float) -> Ints:
    """int64[count]: clusters with the most room, one after the other; those in use share their pools equally.

    Room is measured in memory and cores at their share of it, in local memory, or in cores.
    """
    supply = case.supply
    users = np.zeros(len(supply.mb), np.int64)
    chosen = must.copy()
    for c in np.flatnonzero(must).tolist():
        users[supply.pools(c)] += 1
    compute = supply.member[supply.first[:-1]]
    cores = core_mb * supply.cores[compute]
    mb = supply.mb[supply.member].copy()
    if measure:
        mb[:] = 0
        mb[supply.first[:-1]] = supply.mb[compute] if measure == 1 else 0
    while int(chosen.sum()) < count:
        room = np.add.reduceat(mb / (users[supply.member] + 1.0), supply.first[:-1]) + (measure != 1) * cores
        best = int(np.argmax(np.where(chosen, -1.0, room)))
        chosen[best] = True
        users[supply.pools(best)] += 1
    return np.flatnonzero(chosen)
