"""One look at those who wait and may preempt others, and what is remembered from one look to the next."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from unrack.kernels.arrays import Bools, Ints
from unrack.ledger.lease import Lease
from unrack.policy.contract import Decision, Policy, Reject, Requeue, Start
from unrack.policy.members import traits_of
from unrack.policy.preemption.victims import Victim, in_turn, lease_by, least
from unrack.reasons import Code, Reason
from unrack.resources.site.installed import QUANTITIES, WHERE
from unrack.resources.site.ranks import Ranks
from unrack.units import NEVER_US
from unrack.view import Draft, View


@dataclass(slots=True)
class Notes:
    """What is remembered."""

    inner: Any  # of the policy inside
    ranks: Ranks | None  # who may preempt whom; ``None``: nobody
    started: dict[int, int]  # job → when it started, µs; and of some that have ended
    failed: set[tuple[object, ...]] = field(default_factory=set)  # asks that had no place, whoever was stopped
    mark: tuple[int, ...] = ()  # of the ledger when that was found
    version: int = -1  # of the ledger after the last look
    wanted_us: int = NEVER_US  # when the policy inside wants its next round
    exempt_us: int = NEVER_US  # when the first of those that have not run for long enough will have
    stopped: tuple[int, ...] = ()  # who was just stopped: what the policy inside remembers is to be made anew
    over: bool = False  # whether the policy inside has been asked in this round, and has nothing to add


LOOKS = 100
"""How many jobs are tried in a round, at most."""


class Look:
    """One look at those who wait and may preempt others."""

    def __init__(
        self, inner: Policy[Any], view: View, memory: Notes, ranks: Ranks, starts: dict[int, Start], now: int
    ) -> None:
        self.view, self.memory, self.ranks, self.now = view, memory, ranks, now
        self.inner, self.stepwise = inner, traits_of(inner).stepwise
        self.base: Draft | None = None
        self.starts = starts
        self.stops: list[tuple[list[Decision], Start]] = []
        self.dropped: set[int] = set()
        self.ahead: list[tuple[int, Bools]] = []  # who had no place, and whom they may preempt
        self.tried = 0
        running = view.running_jobs
        self.running: Ints = np.concatenate([running, np.array(list(starts), np.int64)])
        self.classes = classes_of(view, ranks, self.running)
        self.gone: set[int] = set()

    def tries(self, job: int) -> bool:
        """Let a job have a place if it may; False: enough were tried."""
        of = int(classes_of(self.view, self.ranks, np.array([job], np.int64))[0])
        rights, key = self.ranks.may[of], asks_of(self.view, job, of)
        ahead = [other for other, more in self.ahead if bool((rights <= more).all())]
        if key not in self.memory.failed and (victims := self._victims(rights)):
            self.tried += 1
            found = self._placed(job, [*ahead, job], victims)
            if found is None:
                self.memory.failed.add(key)
            elif found[1]:
                self._stop(job, *found)
                return self.tried < LOOKS
        self.ahead.append((job, rights))
        return self.tried < LOOKS

    def _placed(self, job: int, jobs: list[int], victims: list[Victim]) -> tuple[Lease, list[int]] | None:
        if self.base is None:
            self.base = Draft(self.view, self.now)
            for start in self.starts.values():
                self.base.start(start.lease)
        inner, stepwise = self.inner, self.stepwise
        order = in_turn(victims, self.ranks.victims, self.now)
        return least(self.base.view, order, lambda draft: lease_by(inner, draft, jobs, job, stepwise), self.now)

    def _victims(self, rights: Bools) -> list[Victim]:
        found = []
        for i in np.flatnonzero(rights[self.classes]).tolist():
            job, mode = int(self.running[i]), self.ranks.mode[int(self.classes[i])]
            fresh = job in self.starts
            since = self.now if fresh else self.memory.started.get(job, self.now)
            if job in self.gone:
                continue
            if not fresh and self.now - since < self.ranks.exempt_us:
                self.memory.exempt_us = min(self.memory.exempt_us, since + self.ranks.exempt_us)
                continue
            found.append(Victim(job, fresh, since, self.view.cores_asked(job), mode == "checkpoint"))
        return found

    def _stop(self, job: int, lease: Lease, victims: list[int]) -> None:
        assert self.base is not None
        reason = Reason(Code.PREEMPTED, f"for job {self.view.job(job).id}")
        stops: list[Decision] = []
        for victim in victims:
            self.base.stop(victim)
            self.gone.add(victim)
            if victim in self.starts:
                self.dropped.add(victim)
                continue
            mode = self.ranks.mode[int(self.classes[np.flatnonzero(self.running == victim)[0]])]
            stops.append(Requeue(victim, reason, keep_work=mode == "checkpoint"))
            if mode == "cancel":
                stops.append(Reject(victim, reason))
        self.base.start(lease)
        self.memory.failed.clear()  # nobody is behind it any more
        self.stops.append((stops, Start(lease)))


def classes_of(view: View, ranks: Ranks, jobs: Ints) -> Ints:
    """int64[k]: the classes of jobs."""
    claimed = view.columns.claimed
    assert claimed is not None
    row = claimed.places.quantities.index(("site", QUANTITIES[WHERE]))
    found: Ints = ranks.of[claimed.asked_by(jobs)[row]]
    return found


def asks_of(view: View, job: int, of: int) -> tuple[object, ...]:
    """What decides whether a job has a place: equal for jobs that have one or none together."""
    claimed, devices = view.columns.claimed, view.columns.devices
    assert claimed is not None
    wants = b"" if devices is None else devices.columns.wants[:, :, job].tobytes()
    alone = job if view.slo is not None else -1
    return (
        of, view.asks[:, job].tobytes(), claimed.asked(job).tobytes(), wants, int(view.deadline_us[job]),
        int(view.app[job]), alone,
    )  # fmt: skip
