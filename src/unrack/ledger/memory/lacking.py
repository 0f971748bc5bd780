"""Which running jobs use more memory on a node than they hold there."""

from __future__ import annotations

import numpy as np

from unrack.kernels.arrays import Ints
from unrack.ledger.lease import BORROWER, LOAN_MB, LOCAL_MB, NODES, TASKS, Lease, nodes_of


def needs_of(lease: Lease, task_mb: Ints) -> Ints:
    """int64[nodes]: what the tasks on each node of a lease use together, in the order of its rows.

    ``task_mb``: int64[k], what a task uses: one for all, or one a task.
    """
    tasks = lease.rows[:, TASKS]
    if len(lease.rows) > 1 or lease.rows[0, NODES] > 1:
        tasks = tasks.repeat(lease.rows[:, NODES])
    if len(task_mb) == 1:
        each: Ints = tasks * task_mb[0]
        return each
    if len(tasks) == len(task_mb):  # one on each node
        return task_mb
    return np.add.reduceat(task_mb, np.cumsum(tasks) - tasks)


def held_of(lease: Lease) -> Ints:
    """int64[nodes]: the memory of a lease by node, local and borrowed, in the order of its rows."""
    held: Ints = lease.rows[:, LOCAL_MB].repeat(lease.rows[:, NODES])
    if len(lease.borrowed):
        nodes = nodes_of(lease.rows)
        order = np.argsort(nodes, kind="stable")
        at = order[np.searchsorted(nodes[order], lease.borrowed[:, BORROWER])]
        np.add.at(held, at, lease.borrowed[:, LOAN_MB])
    return held


def lacks(lease: Lease, task_mb: Ints) -> bool:
    """Whether the tasks on any node use more than the lease has there."""
    return bool((needs_of(lease, task_mb) > held_of(lease)).any())
