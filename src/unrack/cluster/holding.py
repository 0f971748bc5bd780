"""Compiled: take what a lease names from the free columns, and give it back, exactly."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unrack.jit import compiled, inlined

Ints = NDArray[np.int64]

MEETS = 0
PROBLEMS = {
    -1: "its lease names a node that does not exist, or holds nothing there",
    -2: "its lease holds more cores or memory than is free on a node",
    -3: "its lease does not hold all its tasks",
    -4: "its lease holds fewer cores than its tasks ask",
    -5: "its lease holds less memory than its tasks ask",
}


@inlined
def add_rows(free: Ints, rows: Ints, first: int, last: int, sign: int) -> int:
    """Add (sign 1) or take (-1) the amounts of ``rows[first:last]``; returns the cores added or taken."""
    cores = 0
    for r in range(first, last):
        for node in range(rows[r, 0], rows[r, 0] + rows[r, 1]):
            free[0, node] += sign * rows[r, 3]
            free[1, node] += sign * rows[r, 4]
        cores += rows[r, 1] * rows[r, 3]
    return cores


@inlined
def first_at_least(values: Ints, low: int, high: int, value: int) -> int:
    """The first place in the ascending ``values[low:high]`` that holds ``value`` or more; ``high``: none does."""
    while low < high:
        middle = (low + high) // 2
        if values[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def place_of(running: Ints, count: int, end: int, job: int) -> int:
    """Where (end, job) is, or belongs, in the order of (booked end, job)."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if running[0, middle] < end or (running[0, middle] == end and running[1, middle] < job):
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def hold_job(
    job: int, end: int, rows: Ints, borrowed_mb: int, asks: Ints, free: Ints, total: Ints, running: Ints, count: int,
    pool: Ints, used: int, lease_at: Ints,
) -> int:  # fmt: skip
    """Check a lease against the job's demand and the free columns, then take it and note the job as running.

    Returns
    -------
    int
        The cores taken, or a key of ``PROBLEMS``; then nothing has changed.
    """
    nodes = free.shape[1]
    tasks, cores, mb = 0, 0, borrowed_mb
    for r in range(rows.shape[0]):
        first, length = rows[r, 0], rows[r, 1]
        if first < 0 or length < 1 or first + length > nodes or rows[r, 2] < 1 or rows[r, 3] < 0 or rows[r, 4] < 0:
            return -1
        if rows[r, 3] < rows[r, 2] * asks[1, job]:
            return -4
        tasks += length * rows[r, 2]
        cores += length * rows[r, 3]
        mb += length * rows[r, 4]
    if tasks != asks[0, job]:
        return -3
    if mb < tasks * asks[2, job]:
        return -5
    if borrowed_mb == 0:
        for r in range(rows.shape[0]):
            if rows[r, 4] < rows[r, 2] * asks[2, job]:
                return -5
    add_rows(free, rows, 0, rows.shape[0], -1)
    for r in range(rows.shape[0]):
        for node in range(rows[r, 0], rows[r, 0] + rows[r, 1]):
            if free[0, node] < 0 or free[1, node] < 0:
                add_rows(free, rows, 0, rows.shape[0], 1)
                return -2
    at = place_of(running, count, end, job)
    for i in range(count, at, -1):
        running[0, i] = running[0, i - 1]
        running[1, i] = running[1, i - 1]
    running[0, at] = end
    running[1, at] = job
    for r in range(rows.shape[0]):
        for c in range(5):
            pool[used + r, c] = rows[r, c]
    lease_at[0, job] = used
    lease_at[1, job] = rows.shape[0]
    return cores


@compiled
def release_job(job: int, free: Ints, running: Ints, count: int, pool: Ints, lease_at: Ints) -> int:
    """Give back the rows of a running job and strike it from the running ones; returns the cores given back."""
    at = 0
    while running[1, at] != job:
        at += 1
    for i in range(at, count - 1):
        running[0, i] = running[0, i + 1]
        running[1, i] = running[1, i + 1]
    first = lease_at[0, job]
    return add_rows(free, pool, first, first + lease_at[1, job], 1)


@compiled
def strike(queue: Ints, start: int, end: int, job: int) -> bool:
    """Take a job out of the ascending ``queue[start:end]`` by moving the shorter side; True: the start moved up."""
    low = first_at_least(queue, start, end, job)
    if low - start < end - low:
        for i in range(low, start, -1):
            queue[i] = queue[i - 1]
        return True
    for i in range(low, end - 1):
        queue[i] = queue[i + 1]
    return False
