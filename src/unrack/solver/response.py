"""The least total response time that a resource allows: shortest remaining processing time first.

On one processor that may be interrupted at will, serving the job with least work left minimises the sum of the times
from release to end (Schrage 1968). A resource that gives itself whole to one job at a time can do whatever a schedule
that splits it among jobs does, so its optimum, with each job's energy over the capacity as work, is a lower bound.

References
----------
Schrage, L. (1968). A proof of the optimality of the shortest remaining processing time discipline. Operations Research.
"""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np

from unrack.jit import compiled
from unrack.kernels.arrays import Floats, Ints


def least_response(release: Ints, work: Floats) -> float:
    """The least sum over jobs of end minus release on a processor of speed 1, interrupted at will.

    O(jobs x log jobs).

    Parameters
    ----------
    release : int64[jobs]
        From when a job may run, in any order.
    work : float64[jobs]
        In the same unit of time.

    Examples
    --------
    >>> least_response(np.array([0, 1]), np.array([10.0, 2.0]))
    14.0
    """
    if len(release) == 0:
        return 0.0
    order = np.argsort(release, kind="stable")
    return float(_shortest_left_first(release[order] - release[order[0]], work[order].astype(np.float64)))


@compiled
def _shortest_left_first(release: Ints, work: Floats) -> float:
    heap = [(0.0, 0)]  # a first entry tells the compiler its type
    heap.pop()
    now, total, at = 0.0, 0.0, 0
    while at < len(release) or len(heap) > 0:
        if len(heap) == 0:
            now = max(now, float(release[at]))
        while at < len(release) and release[at] <= now:
            heappush(heap, (work[at], at))
            at += 1
        left, job = heappop(heap)
        if at < len(release) and release[at] < now + left:
            heappush(heap, (left - (release[at] - now), job))
            now = float(release[at])
        else:
            now += left
            total += now - release[job]
    return total
