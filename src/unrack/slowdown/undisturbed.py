"""Nobody slows anybody down."""

from __future__ import annotations

import numpy as np

from unrack.kernels.arrays import Floats, Ints
from unrack.ledger.lease import Lease
from unrack.ledger.state import RUNNING
from unrack.view import View


class Undisturbed:
    """Every job runs as fast as alone."""

    def touched(self, view: View, lease: Lease) -> Ints:
        """int64[k]: the lease's own job, if it runs."""
        runs = view.status[lease.job] == RUNNING
        return np.array([lease.job] if runs else [], np.int64)

    def speeds(self, view: View, jobs: Ints) -> Floats:
        """float64[jobs]: 1."""
        return np.ones(len(jobs))

    def feels(self, before: Lease, after: Lease) -> bool:
        """False."""
        return False
