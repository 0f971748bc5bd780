"""Claims that nobody can lack: as long as there are no others, counting nodes and memory says all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from unrack.policy.contract import Decision, Start
from unrack.resources.places import AMOUNT, PLACE
from unrack.view import View
from unrack.workload.job import TASKS

Ints = NDArray[np.int64]


@dataclass(slots=True)
class Plenty:
    """What waiting jobs claim in all."""

    known: int = 0  # of how many jobs it is noted what they claim
    most: Ints = field(default_factory=lambda: np.zeros(0, np.int64))  # int64[places]: at most so much

    def lasts(self, view: View) -> bool:
        """Whether all that wait could claim at once what they ask, wherever they run, and none asks for devices."""
        seen, devices = view.columns.claimed, view.columns.devices
        if devices is not None and bool(devices.columns.asked.any()):
            return False
        if seen is None or not seen.asking:
            return True
        first, self.known = self.known, view.jobs
        if not len(self.most):
            self.most = np.zeros(len(seen.free), np.int64)
        if not self._add(view, range(first, self.known)):
            return False
        if not (self.most > seen.free).any():
            return True
        self.most[:] = 0
        return self._add(view, view.queue.tolist()) and not bool((self.most > seen.free).any())

    def _add(self, view: View, jobs: Iterable[int]) -> bool:
        """Add what jobs claim; False: of one of them that is a choice."""
        seen = view.columns.claimed
        assert seen is not None
        for job in jobs:
            if seen.asks(job):
                claims = seen.anywhere(job, int(view.asks[TASKS, job]))
                if claims is None:
                    self.known = 0
                    return False
                self.most[claims[:, PLACE]] += claims[:, AMOUNT]
        return True


def with_claims(view: View, decisions: list[Decision]) -> list[Decision]:
    """The decisions, with what those who start claim wherever they run."""
    seen = view.columns.claimed
    if seen is None or not seen.asking:
        return decisions
    made: list[Decision] = []
    for decision in decisions:
        if isinstance(decision, Start) and not len(decision.lease.claims) and seen.asks(decision.lease.job):
            job = decision.lease.job
            claims = seen.anywhere(job, int(view.asks[TASKS, job]))
            assert claims is not None, "it was counted"
            decision = decision._replace(lease=decision.lease._replace(claims=claims.copy()))
        made.append(decision)
    return made
