"""The rules for pooled devices, and their parameters.

O(devices + nodes) for a job.

References
----------
Call et al. 2022 ("Workload-aware placement"), Algorithms 1 and 2, equations 1 to 4; Call 2022 (thesis), Algorithms 3
and 4, equation 5.1. What differs: a composition in use with bandwidth that a model governs may be oversubscribed in
MB/s (the model says what that costs); quantities that are used up count as 1 in equation 2; a job that is not to be
late is one with a predicted end of at most its deadline.
"""

from __future__ import annotations

from dataclasses import dataclass

from unrack.policy.pools.pool_notes import PoolNotes
from unrack.policy.pools.pool_placement import TEXT, PoolPlacement
from unrack.view import View


@dataclass(frozen=True)
class Pooled(PoolPlacement):
    """Where a job with its pooled devices goes, for ``pools`` of a list scheduler.

    Parameters
    ----------
    rule
        A name in ``RULES``, or ``"disaggregation-aware"``: max-composition or min-fragmentation, by load.
    low, high
        Of the disaggregation-aware rule: max-composition where the loads of bandwidth and capacity are both at most
        ``low``, or bandwidth is at least ``high`` and capacity at most ``high`` (eq. 4).
    bandwidth, capacity
        Which quantities these are.
    seed
        Of the random fit.
    reading
        A name in ``READINGS``. ``"authors"``, for jobs of the class that a model is about beside others, differs from
        the text in this:

        * A job past its deadline has none: it may join others, which are protected as ever, and it gets as few devices
          as its demand needs.
        * The loads of eq. 4 are of running jobs, as they are when each job is tried; that of capacity has to be below
          ``high``.
        * A job that would join others is expected to run at the speed that they have without it, and under
          min-fragmentation for its base time.
        * Equation 2 divides whole numbers, where what is free of an oversubscribed composition is less than nothing;
          the cores count as 1.
        * Where a pool has fewer free devices than a composition should have, it composes none.
        * Time goes in whole seconds: it looks again at whole seconds, also at the next one after a start, and when a
          job is past its deadline. Run times are the model's (``whole_seconds``).
    """

    rule: str = "first-fit"
    low: float = 0.5
    high: float = 0.7
    bandwidth: str = "bandwidth_mb_s"
    capacity: str = "capacity_mb"
    seed: int = 0
    reading: str = TEXT

    def begin(self, view: View) -> PoolNotes:
        """Notes on a cluster as it is now."""
        return PoolNotes(**self.scratch(view))
