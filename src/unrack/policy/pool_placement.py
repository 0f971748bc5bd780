"""The rules for pools of devices as a placement, for any discipline."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unrack.cluster.lease import Lease
from unrack.policy.pooled import NAMES, RULES, Pooled
from unrack.policy.pooling import RANDOM_FIT
from unrack.policy.waiting import Queue
from unrack.reasons import Code, Reason
from unrack.units import NEVER_US
from unrack.view import View
from unrack.workload.job import ESTIMATE, TASKS

PLACES = ("first-fit", "best-fit", "max-composition", "min-fragmentation", "disaggregation-aware", "resource-aware")
"""Rules of :class:`unrack.policy.pooled.Pooled` that disciplines may place by; each places jobs without devices too."""


@dataclass(frozen=True)
class PoolPlacement:
    """Places jobs, with the devices that they ask for, by a rule of :class:`unrack.policy.pooled.Pooled`."""

    pooled: Pooled

    def begin(self, view: View) -> Queue:
        """Room for answers, and the shapes of jobs."""
        return self.pooled.begin(view)

    def find(self, view: View, notes: Queue, job: int, now: int) -> Lease | None:
        """A lease by the rule that is in force now."""
        notes.rule = self.pooled.rule_now(view, notes)
        found = self.pooled.find(view, notes, job, notes.rule, now)
        return None if isinstance(found, int) else found

    def kind(self, view: View, notes: Queue, job: int) -> object:
        """Its shape; beside it, where deadlines count, its own and its run time."""
        shape = notes.shape(view, job)
        if self._simple:
            return shape
        return shape, int(view.deadline_us[job]), int(view.asks[ESTIMATE, job])

    def opens_us(self, view: View, notes: Queue, jobs: list[int], now: int) -> int | None:
        """As :meth:`unrack.policy.pooled.Pooled.next_round`."""
        if self._simple:
            return None
        rule, tasks = self.pooled.rule_now(view, notes), view.asks[TASKS]
        notes.rule = rule
        alone = np.array([job for job in jobs if tasks[job] == 1], np.int64)
        first = self.pooled.opens_us(view, notes, alone, rule, now) if len(alone) else NEVER_US
        first = self.pooled.gangs_open_us(view, notes, [job for job in jobs if tasks[job] > 1], now, first)
        return first if first < NEVER_US else None

    def rule(self, notes: Queue) -> str:
        """The rule in force; of the disaggregation-aware policy, one of its two."""
        return NAMES.get(notes.rule, self.pooled.rule)

    def why(self, view: View, notes: Queue, job: int, now: int) -> Reason | None:
        """What there is too little of."""
        reason = self.pooled.why(view, notes, job, now)
        return None if reason.code == Code.NOT_YET else reason

    @property
    def _simple(self) -> bool:
        """Whether deadlines do not count, so that time alone changes nothing."""
        return RULES.get(self.pooled.rule, RANDOM_FIT + 1) <= RANDOM_FIT
