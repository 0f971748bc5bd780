"""Jobs affected by node failures: those that run there, borrow memory there, or use a device that sits there."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unrack.kernels.arrays import Ints
from unrack.ledger.lease import FIRST, LENDER, NODES, Share
from unrack.ledger.state import ClusterState


def struck(state: ClusterState, nodes: Sequence[int]) -> dict[int, list[int]]:
    """Node → the running jobs that hold something of it or of a device in it, in order of id.

    A job that holds something of several of the nodes is named once, at the first of them. O(leases x log nodes).
    ``nodes``: those that fail, ascending.
    """
    found: dict[int, list[int]] = {}
    jobs = np.sort(state.running[1, : state.running_count])
    if not len(jobs) or not len(nodes):
        return found
    failing = np.array(nodes, np.int64)
    at, count = state.lease_at[:, jobs]
    place = np.arange(count.sum()) + np.repeat(at - (np.cumsum(count) - count), count)
    first = np.full(len(jobs), len(state.online), np.int64)
    np.minimum.at(first, np.repeat(np.arange(len(jobs)), count), first_of(failing, state.pool[place]))
    number = {int(job): i for i, job in enumerate(jobs)} if state.extra else {}
    for job, extra in state.extra.items():
        elsewhere = np.concatenate([extra.borrowed[:, LENDER], *_homes(state, extra.shares)])
        there = elsewhere[np.isin(elsewhere, failing)]
        if len(there):
            first[number[job]] = min(first[number[job]], there.min())
    for i in np.flatnonzero(first < len(state.online)).tolist():
        found.setdefault(int(first[i]), []).append(int(jobs[i]))
    return found


def first_of(failing: Ints, rows: Ints) -> Ints:
    """int64[rows]: the first of the failing nodes (ascending) in each row of a lease; ``2**62``: none of them.

    Examples
    --------
    >>> rows = np.array([[0, 4, 1, 1, 0], [6, 2, 1, 1, 0]])
    >>> first_of(np.array([2, 3, 8]), rows) < 2**62
    array([ True, False])
    """
    place = np.searchsorted(failing, rows[:, FIRST])
    node = np.append(failing, 2**62)[place]
    return np.where(node < rows[:, FIRST] + rows[:, NODES], node, 2**62)


def _homes(state: ClusterState, shares: Sequence[Share]) -> list[Ints]:
    if state.devices is None:
        return []
    home = state.devices.devices.home
    return [home[list(share.devices)] for share in shares]
