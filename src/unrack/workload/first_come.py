"""Compiled: jobs on one node, first come first served."""

from __future__ import annotations

import numpy as np

from unrack.jit import compiled, inlined
from unrack.workload.job import Ints


@inlined
def _sink(heap: Ints, size: int, end: Ints) -> None:
    """Restore the heap, ordered by end, after its root was replaced."""
    at = 0
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and end[heap[child + 1]] < end[heap[child]]:
            child += 1
        if end[heap[at]] <= end[heap[child]]:
            break
        heap[at], heap[child] = heap[child], heap[at]
        at = child


@inlined
def _add(heap: Ints, size: int, job: int, end: Ints) -> None:
    at = size
    heap[at] = job
    while at > 0 and end[heap[at]] < end[heap[(at - 1) // 2]]:
        above = (at - 1) // 2
        heap[at], heap[above] = heap[above], heap[at]
        at = above


@compiled
def first_come(submit: Ints, work: Ints, demand: Ints, capacity: Ints) -> tuple[Ints, Ints]:
    """First come, first served, for each as soon as all it asks for is free; none passes another.

    Parameters
    ----------
    submit, work : int64[jobs]
        In order of submission.
    demand : int64[jobs, resources]
    capacity : int64[resources]

    Returns
    -------
    int64[jobs], int64[jobs]
        Starts and ends; -1 = more than the capacity, left out.
    """
    jobs, resources = demand.shape
    start = np.full(jobs, -1, np.int64)
    end = np.full(jobs, -1, np.int64)
    heap = np.empty(jobs, np.int64)  # of running jobs, by end
    running = 0
    free = capacity.copy()
    now = 0
    for job in range(jobs):
        fits = True
        for r in range(resources):
            fits = fits and demand[job, r] <= capacity[r]
        if not fits:
            continue
        now = max(now, submit[job])
        while True:
            while running > 0 and end[heap[0]] <= now:
                for r in range(resources):
                    free[r] += demand[heap[0], r]
                running -= 1
                heap[0] = heap[running]
                _sink(heap, running, end)
            fits = True
            for r in range(resources):
                fits = fits and demand[job, r] <= free[r]
            if fits:
                break
            now = end[heap[0]]
        for r in range(resources):
            free[r] -= demand[job, r]
        start[job] = now
        end[job] = now + work[job]
        _add(heap, running, job, end)
        running += 1
    return start, end
