"""Jobs that have another size than they were submitted with, while a run goes on: how fast they run."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from unrack.kernels.arrays import Floats, Ints
from unrack.ledger.changing.sizes import Sizes
from unrack.ledger.lease import Lease
from unrack.ledger.state import RUNNING
from unrack.slowdown.contract import Slowdown
from unrack.view import View
from unrack.workload.job import TASKS


class SizedSpeeds:
    """The speeds that others give, times that of each job's size: what slows a job down does so at any size."""

    def __init__(self, others: Slowdown, sizes: Mapping[int, Sizes]) -> None:
        self.others, self.sizes = others, sizes

    def touched(self, view: View, lease: Lease) -> Ints:
        """int64[k]: those that others touch, and the lease's own job."""
        found = self.others.touched(view, lease)
        own = lease.job in self.sizes and view.status[lease.job] == RUNNING and lease.job not in found
        return np.append(found, lease.job) if own else found

    def speeds(self, view: View, jobs: Ints) -> Floats:
        """float64[jobs]: their speeds now."""
        tasks, sizes = view.columns.asks[TASKS], self.sizes
        own = [sizes[job].speed_at(int(tasks[job])) if job in sizes else 1.0 for job in jobs.tolist()]
        return self.others.speeds(view, jobs) * np.array(own, np.float64)

    def feels(self, before: Lease, after: Lease) -> bool:
        """True: a job may have another size."""
        return True
