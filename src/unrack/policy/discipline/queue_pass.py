"""Passes over the queue, and what a list scheduler remembers from one to the next."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from unrack.kernels.arrays import Ints
from unrack.ledger.columns import grown
from unrack.ledger.lease import Lease
from unrack.ledger.memory.use import from_rows
from unrack.policy.contract import Start
from unrack.policy.discipline.heads_kernel import PassRule
from unrack.policy.discipline.pass_choices import PassChoices
from unrack.policy.discipline.queue_kernel import Backfill, pass_over
from unrack.policy.discipline.skyline.choosing import Choices
from unrack.policy.discipline.skyline.columns import CHOOSE, CLOSES_US, JOB, LENT, OPENS_US
from unrack.policy.discipline.skyline.reserved import Reserved
from unrack.policy.discipline.skyline.room import more_room
from unrack.policy.discipline.walk import BEGIN, HEADS, PLACE, STAGE
from unrack.view import View

Chooser = Callable[[int, bool], Choices]
"""(now, trust) → choices of a round."""
NO_SECOND: Ints = np.empty(0, np.int64)
"""Those behind the head are tried in the order of the queue."""


@dataclass(slots=True)
class Passes(Reserved):
    """What is known of jobs and of the ledger from one pass to the next."""

    kinds: dict[object, int] = field(default_factory=dict)  # to the number of a kind
    # of the ledger after the last pass: as long as they stay, nothing was given back and nothing started
    seen: tuple[int, int] = (-1, -1)
    timeless: bool = True  # whether time alone gives no job a place
    opening: list[int] = field(default_factory=list)  # jobs without a place that time alone may give one
    opens: tuple[Ints, Ints] = (NO_SECOND, NO_SECOND)  # windows, and when they open and close, µs: ascending

    def pass_over(
        self, view: View, order: Ints, second: Ints, now: int, rule: PassRule, choices: Chooser
    ) -> list[Start]:
        """Choose which jobs start now; parameters as of :func:`unrack.policy.discipline.queue_kernel.pass_over`."""
        self.look(view)
        self.columns.walk[STAGE] = BEGIN
        self.note_moments(now)
        asked = PassChoices(self, choices(now, False), rule) if self.chosen and view.cluster.devices.detach_us else None
        running, free_cores, alike = view.running_count, view.free_cores, self.counts_cores(view)
        if self.chosen and not (self.timeless and self.seen == (view.releases, running)):
            self.columns.refused[:] = 0
        kernel: Callable[..., int] = pass_over
        if self.lends and self.only_lent:
            made = asked.made if asked is not None else choices(now, False)
            for job in order[(self.columns.kind[order] < 0) & (self.columns.wants[order] == LENT)].tolist():
                self.kind_of(job, made)
            kernel = made.alone.pass_over
        while True:
            count = kernel(order, second, now, running, free_cores, *rule, alike, self.columns.kernel)
            if count >= 0:
                break
            if count == CHOOSE:
                asked = asked or PassChoices(self, choices(now, False), rule)
                asked.answer()
            else:
                self.replace(**more_room(self.columns, len(order), running))
        if not self.chosen:
            return self.counted(count)
        chosen = asked.end() if asked is not None else {}
        jobs = self.columns.started[JOB, :count]
        self.columns.kind[jobs] = -1
        self.seen = view.releases, running + count
        self.opening = [] if self.timeless else self._opening(order, second, rule)
        for job in jobs.tolist():
            self.leases.pop(job, None)
        return [chosen.get(job) or Start(self.lease(s)) for s, job in enumerate(jobs.tolist())]

    def note_moments(self, now: int, more: Ints = NO_SECOND) -> None:
        """When more is free though no job ends: windows open and close after ``now``; and others, µs."""
        windows = self.columns.windows
        if len(windows) or len(more) or len(self.columns.moments):
            if self.opens[0] is not windows:
                self.opens = windows, np.unique(windows[:, [OPENS_US, CLOSES_US]])
            times = self.opens[1]
            times = times[np.searchsorted(times, now, "right") :]
            self.replace(moments=np.unique(np.concatenate([times, more])) if len(more) else times)

    def kind_of(self, job: int, made: Choices) -> int:
        """The number of a job's kind, which is noted."""
        c = self.columns
        if c.kind[job] < 0:
            c.kind[job] = self.kinds.setdefault(made.kind(job), len(self.kinds))
            if c.kind[job] >= len(c.refused):
                self.replace(refused=grown(c.refused, 2 * int(c.kind[job])))
        return int(c.kind[job])

    def lease(self, s: int) -> Lease:
        """What the job holds that is number ``s`` among those that start, but for devices."""
        c = self.columns
        job, row, end, claim, claim_end = c.started[:5, s].tolist()
        claims = c.new_claims[claim:claim_end]
        claims = claims[claims[:, 0].argsort()] if c.kept_of[job] else claims
        return from_rows(job, c.out[row:end], claims, self.places)

    def counted(self, count: int) -> list[Start]:
        """Starts of those on places that were not chosen."""
        if count == 0:
            return []
        if len(self.columns.slot):
            return [Start(self.lease(s)) for s in range(count)]
        c = self.columns
        jobs, first, end = c.started[:3, :count].tolist()
        return [Start(Lease(jobs[i], c.out[first[i] : end[i]].copy())) for i in range(count)]

    def _opening(self, order: Ints, second: Ints, rule: PassRule) -> list[int]:
        """Those that were tried and had no place."""
        c = self.columns
        if c.walk[HEADS] == 0:
            return []
        head = int(c.heads[0, PLACE])
        tried = order[head : head + 1]
        if rule.backfill != Backfill.NONE:
            behind = order[second[second > head]] if len(second) else order[head + 1 :]
            tried = np.concatenate([tried, behind[: min(len(behind), rule.depth)]])
        kinds = c.kind[tried]
        found: list[int] = tried[(kinds >= 0) & (c.refused[kinds] > 0)].tolist()
        return found
