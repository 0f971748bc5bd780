"""First fit as a placement of a user's own: the twin of the compiled one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unrack.ledger.lease import Lease
from unrack.workload.seen_job import SeenJob

Ints = NDArray[np.int64]


def first_fit(free: Ints, total: Ints, job: SeenJob) -> Lease | None:
    """First fit on shared nodes in plain NumPy."""
    cores, mb, left = job.demand.cores, job.demand.memory_mb, job.demand.tasks
    nodes, tasks = [], []
    for node in range(free.shape[1]):
        here = left
        if cores:
            here = min(here, int(free[0, node]) // cores)
        if mb:
            here = min(here, int(free[1, node]) // mb)
        if here > 0:
            nodes.append(node)
            tasks.append(here)
            left -= here
            if left == 0:
                held = [here * cores for here in tasks]
                return Lease.on(job.index, nodes, tasks, held, [here * mb for here in tasks])
    return None
