"""Compiled: what tasks use at a progress, and when a job next needs more than it holds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unrack.jit import compiled, inlined
from unrack.kernels.arrays import Ints
from unrack.ledger.lease import LOCAL_MB, NODES, TASKS
from unrack.ledger.memory.use import AT, FOR, MB, NEXT_OF
from unrack.ledger.names import FIRST_ROW, ROW_COUNT
from unrack.workload.usage.curves import WHOLE


class Curves(NamedTuple):
    """The columns of :class:`unrack.workload.usage.curves.UsageCurves`."""

    first: Ints
    point: Ints
    at: Ints
    mb: Ints


@inlined
def step_at(c: Curves, curve: int, progress: int) -> int:
    """The point of a curve whose step a progress is in."""
    low, high = c.point[curve], c.point[curve + 1]
    while high - low > 1:
        middle = (low + high) // 2
        if c.at[middle] <= progress:
            low = middle
        else:
            high = middle
    return int(low)


@inlined
def use_of(c: Curves, curve: int, progress: int) -> int:
    """What a curve says at a progress."""
    return int(c.mb[step_at(c, curve, progress)])


@compiled
def uses_at(c: Curves, jobs: Ints, progress: Ints, first: Ints) -> Ints:
    """What the tasks of jobs use, each at its progress: of job i ``first[i + 1] - first[i]`` entries, one a curve."""
    mb = np.empty(first[jobs.shape[0]], np.int64)
    for i in range(jobs.shape[0]):
        for k in range(first[i + 1] - first[i]):
            mb[first[i] + k] = use_of(c, c.first[jobs[i]] + k, progress[i])
    return mb


@compiled
def next_lack(
    c: Curves, job: int, progress: int, pool: Ints, lease_at: Ints, use: Ints, first_of: Ints, borrowed: Ints
) -> int:
    """The first progress, from this one on, at which some node of a job needs more than it holds; WHOLE: never.

    O(its nodes x points of a curve x tasks on a node + its loans). ``borrowed`` : int64[nodes], zeros, and left so.
    """
    begin, count = c.first[job], c.first[job + 1] - c.first[job]
    found, task = WHOLE, 0
    entry = first_of[job]
    while entry >= 0:
        if use[FOR, entry] != use[AT, entry]:
            borrowed[use[FOR, entry]] += use[MB, entry]
        entry = use[NEXT_OF, entry]
    for r in range(lease_at[FIRST_ROW, job], lease_at[FIRST_ROW, job] + lease_at[ROW_COUNT, job]):
        for node in range(pool[r, 0], pool[r, 0] + pool[r, NODES]):
            held = pool[r, LOCAL_MB] + borrowed[node]
            borrowed[node] = 0
            if count == 1:
                found = min(found, crosses(c, begin, progress, held // pool[r, TASKS], found))
            elif pool[r, TASKS] == 1:
                found = min(found, crosses(c, begin + task, progress, held, found))
            else:
                found = min(found, together_cross(c, begin + task, pool[r, TASKS], progress, held, found))
            task += pool[r, TASKS]
    return found


@inlined
def crosses(c: Curves, curve: int, progress: int, held: int, before: int) -> int:
    """The first progress below ``before`` at which a curve is above what is held; WHOLE: none."""
    low = step_at(c, curve, progress)
    for p in range(low, c.point[curve + 1]):
        if c.at[p] >= before:
            break
        if c.mb[p] > held:
            return int(max(progress, c.at[p]))
    return WHOLE


@inlined
def together_cross(c: Curves, curve: int, tasks: int, progress: int, held: int, before: int) -> int:
    """The same for several tasks of one node, with a curve each."""
    best = before
    total = 0
    for k in range(curve, curve + tasks):
        total += use_of(c, k, progress)
    if total > held:
        return progress
    for k in range(curve, curve + tasks):
        for p in range(c.point[k], c.point[k + 1]):
            if progress < c.at[p] < best:
                total = 0
                for other in range(curve, curve + tasks):
                    total += use_of(c, other, c.at[p])
                if total > held:
                    best = c.at[p]
    return int(best) if best < before else WHOLE
