"""Many waiting jobs start at once on nodes alone: all of them, or none."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from unrack.jit import compiled
from unrack.ledger.holding import MEETS, add_lease, check_free, check_held
from unrack.ledger.lease import NO_LOANS, Lease
from unrack.ledger.names import ENDS_US, FIRST_ROW, ROW_COUNT, WHO
from unrack.ledger.state import INT64, QUEUED, RUNNING, ClusterState
from unrack.resources.places import NO_CLAIMS

Ints = NDArray[np.int64]
MANY = 32
"""From how many jobs on it is worth while."""
ROWS = attrgetter("rows")


def on_nodes_alone(lease: Lease) -> bool:
    """Whether a lease is of nodes and their memory, and of nothing else."""
    return lease.borrowed is NO_LOANS and not lease.shares and lease.claims is NO_CLAIMS


def start_many(state: ClusterState, leases: Sequence[Lease], expected_us: Sequence[int], now: int) -> bool:
    """Start waiting jobs as their leases say; False: not possible in this way, and nothing has changed.

    Then they are to be started one after the other, which says what is wrong where something is. Each job may ask for
    nodes and their memory alone. O(jobs log jobs + rows + running + queue).

    Parameters
    ----------
    expected_us
        How long each of the jobs is expected to run.
    """
    devices, claimed = state.devices, state.claimed
    if state.memory is not None or not all(map(on_nodes_alone, leases)):
        return False
    every = list(map(ROWS, leases))
    if any(rows.dtype != INT64 or rows.ndim != 2 or rows.shape[1] != 5 for rows in every):
        return False
    jobs = np.array([lease.job for lease in leases], np.int64)
    order = np.sort(jobs)
    if order[0] < 0 or order[-1] >= state.known or (order[1:] == order[:-1]).any():
        return False
    if (state.status[jobs] != QUEUED).any():
        return False
    if devices is not None and any(devices.asking[job] for job in jobs.tolist()):
        return False
    if claimed is not None and claimed.asked[:, jobs].any():
        return False
    rows = np.concatenate(every)
    ends = np.cumsum([len(own) for own in every])
    state.make_room(len(rows), len(jobs))
    starts = np.concatenate([[0], ends])
    cores = hold_jobs(jobs, rows, starts, state.group, state.asks, state.free)
    if cores < MEETS:
        return False
    used, count = state.pool_used, state.running_count
    state.pool[used : used + len(rows)] = rows
    state.lease_at[FIRST_ROW, jobs], state.lease_at[ROW_COUNT, jobs] = used + starts[:-1], np.diff(starts)
    booked = now + np.array(expected_us, np.int64)
    among = np.concatenate([state.running[:, :count], np.stack([booked, jobs])], axis=1)
    state.running[:, : among.shape[1]] = among[:, np.lexsort((among[WHO], among[ENDS_US]))]
    state.running_count, state.pool_used = among.shape[1], used + len(rows)
    state.free_cores -= cores
    state.status[jobs] = RUNNING
    queue = state.queue[state.queue_start : state.queue_end]
    stay = queue[state.status[queue] == QUEUED]
    state.queue[state.queue_start : state.queue_start + len(stay)] = stay
    state.queue_end = state.queue_start + len(stay)
    if state.runs is not None:
        state.runs.started_us[jobs] = now
    state.version += len(jobs)
    return True


@compiled
def hold_jobs(jobs: Ints, rows: Ints, starts: Ints, group: Ints, asks: Ints, free: Ints) -> int:
    """Check leases, rows ``starts[i]`` to ``starts[i + 1]`` each, one after the other, and take them.

    Returns
    -------
    int
        The cores taken, or a number below ``MEETS``; then nothing has changed.
    """
    cores, loans = 0, np.empty((0, 3), np.int64)
    for i in range(jobs.shape[0]):
        own = rows[starts[i] : starts[i + 1]]
        problem = check_held(jobs[i], own, loans, False, group, asks, free.shape[1])
        if problem >= MEETS:
            taken = add_lease(free, own, 0, own.shape[0], loans, 0, 0, -1)
            problem = check_free(free, own, loans)
            if problem >= MEETS:
                cores += taken
                continue
            add_lease(free, own, 0, own.shape[0], loans, 0, 0, 1)
        for before in range(i):
            given = rows[starts[before] : starts[before + 1]]
            add_lease(free, given, 0, given.shape[0], loans, 0, 0, 1)
        return problem
    return cores
