"""A policy of one's own that lends memory: whoever fits starts, and borrows from the nodes with most free memory.

unrack run examples/my_lending_policy.toml
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from unrack import Cluster
from unrack.policy import CORES, MEMORY, TASKS, Lease, Loan, Placed, SeenJob, View
from unrack.workload import JobTable


def most_free_lends(view: View, job: SeenJob, now: int) -> Lease | None:
    """Compute on idle nodes that do not lend, those with most memory first; borrow from whoever has most left."""
    tasks, cores, mb, _ = view.asks[:, job].tolist()
    cores_free, left = view.free[0], view.free[1].copy()
    idle = np.flatnonzero(view.online & (view.free == view.total).all(axis=0) & (cores_free >= max(cores, 1)))
    nodes: list[int] = []
    counts: list[int] = []
    for node in idle[np.argsort(-left[idle], kind="stable")].tolist():
        if sum(counts) < tasks:
            nodes.append(node)
            counts.append(min(int(cores_free[node]) // max(cores, 1), tasks - sum(counts)))
    if sum(counts) < tasks or tasks * mb > int(left.sum()):
        return None
    local = [min(count * mb, int(left[node])) for node, count in zip(nodes, counts, strict=True)]
    left[nodes] -= local
    loans: list[Loan] = []
    for node, count, has in zip(nodes, counts, local, strict=True):
        lack = count * mb - has
        while lack > 0:
            lender = int(left.argmax())  # never the node itself: it has nothing left if it lacks something
            loans.append(Loan(node, lender, min(lack, int(left[lender]))))
            left[lender] -= loans[-1].mb
            lack -= loans[-1].mb
    return Lease.on(job, nodes, counts, cores_free[nodes].tolist(), local, borrowed=loans)


class Lends(Placed):
    """Goes through the queue in an order, and whole nodes lend each other memory."""

    nodes: ClassVar[str] = "whole"
    lends: ClassVar[bool] = True

    def possible(self, cluster: Cluster, jobs: JobTable) -> np.ndarray:
        """Which jobs have a place on the empty cluster: nodes for their tasks, and memory anywhere."""
        tasks, cores, mb = jobs.asks[[TASKS, CORES, MEMORY]]
        places = sum(node_cores // np.maximum(cores, 1) for node_cores in cluster.cores.tolist())
        return np.asarray((places >= tasks) & (tasks * mb <= cluster.memory_mb.sum()))


MOST_FREE = Lends(most_free_lends, order="fcfs", label="most free lends")
