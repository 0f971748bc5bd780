"""One look at those who wait and may preempt others, and what is remembered from one look to the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from unrack.kernels.arrays import Bools, Ints
from unrack.ledger.lease import Lease
from unrack.policy.contract import Decision, Policy, Reject, Requeue, Start
from unrack.policy.preemption.reclaim import Reclaim
from unrack.policy.preemption.victims import Victim, in_turn, leases_by, least, without
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
    failed: set[int] = field(default_factory=set)  # who had no place, whoever was stopped
    held: set[int] = field(default_factory=set)  # who had one without that
    mark: tuple[int, ...] = ()  # of the ledger when that was found
    version: int = -1  # of the ledger after the last look
    wanted_us: int = NEVER_US  # when the policy inside wants its next round
    exempt_us: int = NEVER_US  # when the first of those that have not run for long enough will have
    stopped: tuple[int, ...] = ()  # who was just stopped: what the policy inside remembers is to be made anew
    gone: set[tuple[int, int]] = field(default_factory=set)  # by quota: when who was stopped; once at a time, no more
    over: bool = False  # whether the policy inside has been asked in this round, and has nothing to add


LOOKS = 100
"""How often those who may preempt the same are looked at in a round, at most."""


class Look:
    """One look at those who wait and may preempt others."""

    def __init__(
        self, inner: Policy[Any], view: View, memory: Notes, ranks: Ranks, starts: dict[int, Start], now: int
    ) -> None:
        self.view, self.memory, self.ranks, self.now = view, memory, ranks, now
        self.inner = inner
        self.base: Draft | None = None
        self.starts = starts
        self.stops: list[tuple[list[Decision], Start]] = []
        self.dropped: set[int] = set()
        self.ahead: list[tuple[int, Bools]] = []  # who had no place, and whom they may preempt
        self.looks = 0
        running = view.running_jobs
        self.running: Ints = np.concatenate([running, np.array(list(starts), np.int64)])
        self.classes = classes_of(view, ranks, self.running)
        self.gone: set[int] = set()

    def give_places(self, jobs: Sequence[int], rights: Bools) -> None:
        """Let those of some jobs, in order, that may all preempt the same have places if they may; by quota, of one."""
        memory, ahead = self.memory, [job for job, more in self.ahead if bool((rights <= more).all())]
        rest, turn = list(jobs), self._turn(rights)
        reclaim = Reclaim(self._ledger()) if self.ranks.by_quota and turn and rest else None
        turn = turn if reclaim is None else reclaim.victims(rest[0], turn)
        while rest and self.looks < LOOKS and turn and not (memory.failed | memory.held).issuperset(rest):
            before = self._ledger()
            held = self._started(without(before, (), self.now), [*ahead, *rest])
            able = self._started(without(before, turn, self.now), [*ahead, *rest])
            self.looks += 1
            memory.held |= held
            memory.failed.update(job for job in rest if job not in able)
            found = None
            while rest and found is None:
                job = rest.pop(0)
                if job in able and job not in held:
                    found = least(before, turn, partial(self._lease, [*ahead, job], job), self.now)
                if found is not None and reclaim is not None and not reclaim.allows(job, *found):
                    found = None
                if found is None or not found[1]:
                    found = None
                    ahead.append(job)
                    self.ahead.append((job, rights))
            if found is not None:
                self._stop(job, *found)
                turn = [other for other in turn if other not in self.gone]
        self.ahead += [(job, rights) for job in rest]

    def _ledger(self) -> View:
        """What the ledger will be like."""
        if self.base is None:
            self.base = Draft(self.view, self.now)
            for start in self.starts.values():
                self.base.start(start.lease)
        return self.base.view

    def _started(self, draft: Draft, jobs: Sequence[int]) -> set[int]:
        return set(leases_by(self.inner, draft, jobs))

    def _lease(self, jobs: Sequence[int], job: int, draft: Draft) -> Lease | None:
        return leases_by(self.inner, draft, jobs, job).get(job)

    def _turn(self, rights: Bools) -> list[int]:
        """Who may be stopped, in order."""
        return in_turn(self._victims(rights), self.ranks.victims, self.now)

    def _victims(self, rights: Bools) -> list[Victim]:
        found = []
        for i in np.flatnonzero(rights[self.classes]).tolist():
            job, mode = int(self.running[i]), self.ranks.mode[int(self.classes[i])]
            fresh = job in self.starts
            since = self.now if fresh else self.memory.started.get(job, self.now)
            if job in self.gone or (not fresh and (self.now, job) in self.memory.gone):
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
            self.memory.gone |= {(self.now, victim)} if self.ranks.by_quota else set()
            mode = self.ranks.mode[int(self.classes[np.flatnonzero(self.running == victim)[0]])]
            stops.append(Requeue(victim, reason, keep_work=mode == "checkpoint"))
            if mode == "cancel":
                stops.append(Reject(victim, reason))
        self.base.start(lease)
        self.memory.failed.clear()  # nobody is behind it any more
        self.memory.held.clear()
        self.stops.append((stops, Start(lease)))


def classes_of(view: View, ranks: Ranks, jobs: Ints) -> Ints:
    """int64[k]: the classes of jobs."""
    claimed = view.columns.claimed
    assert claimed is not None
    row = claimed.places.quantities.index(("site", QUANTITIES[WHERE]))
    found: Ints = ranks.of[claimed.asked_by(jobs)[row]]
    return found
