"""The contract of a slowdown model: how fast jobs run, given what they share with which others."""

from __future__ import annotations

from typing import Protocol

from unrack.kernels.arrays import Floats, Ints
from unrack.ledger.lease import Lease
from unrack.view import View


class Slowdown(Protocol):
    """Speeds of running jobs: 1 = as fast as alone on what it asked for."""

    def touched(self, view: View, lease: Lease) -> Ints:
        """int64[k]: the running jobs that may change speed because this lease came, went or changed.

        Called after the change. The job of the lease is asked about too if it still runs.
        """
        ...

    def speeds(self, view: View, jobs: Ints) -> Floats:
        """float64[jobs]: their speeds now; above 0."""
        ...

    def feels(self, before: Lease, after: Lease) -> bool:
        """False: no speed changes if a running job gets another lease on the same nodes, with the same devices."""
        ...
