"""What users' past jobs used of what they asked, learnt from jobs that have ended."""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from unrack.ledger.state import FINISHED
from unrack.view import View

Ints = NDArray[np.int64]
FEWEST = 3
"""Ended jobs of a user from which on they say something of the next."""


@dataclass(slots=True)
class PastUse:
    """Shares of requests that were used, by user.

    Attributes
    ----------
    open
        Jobs that were seen to run and had not ended when it was last looked.
    shares
        User → the shares of jobs that ended, in ascending order; -1: of all users.
    """

    open: dict[int, int] = field(default_factory=dict)
    shares: dict[int, list[float]] = field(default_factory=dict)

    def see(self, view: View, jobs: Ints, most_mb: Ints) -> None:
        """Jobs run, and have used so much at most so far."""
        for job in jobs.tolist():
            self.open[job] = int(most_mb[job])

    def quantile(self, view: View, job: int, share: float) -> float | None:
        """The quantile of the use of the same user's past jobs, over what they asked; ``None``: too few ended.

        Only jobs that have ended by themselves count: nothing of the future is known.
        """
        status = view.status
        for other in [one for one in self.open if status[one] == FINISHED]:
            asked = view.job(other).demand.memory_mb
            part = self.open.pop(other) / asked if asked else 1.0
            for key in (int(view.user[other]), -1):
                insort(self.shares.setdefault(key, []), part)
        known = self.shares.get(int(view.user[job]), [])
        if len(known) < FEWEST:
            known = self.shares.get(-1, [])
        if len(known) < FEWEST:
            return None
        return known[min(len(known) - 1, int(np.ceil(share * len(known))) - 1 if share > 0 else 0)]
