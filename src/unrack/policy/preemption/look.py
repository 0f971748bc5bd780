"""One look at waiting jobs that may preempt others, and what is remembered from one look to the next.

Suspended jobs go on in the order of those that may preempt most, then of those that started first. One goes on as soon
as its cores are free on all of its nodes and those before it leave them to it. Until then what is free of its cores is
kept for it from all that may not preempt it, and policies that plan expect it to go on when enough of the others are
booked to end: see :func:`unrack.ledger.changes.keep_cores`. So no job waits behind later ones of its own rank.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from unrack.kernels.arrays import Bools, Ints
from unrack.ledger.lease import CORES, FIRST, Lease, by_node
from unrack.policy.contract import Decision, Policy, Reject, Requeue, Resume, Start, Suspend
from unrack.policy.preemption.reclaim import Reclaim
from unrack.policy.preemption.victims import Victim, classes_of, fits, in_turn, leases_by, least
from unrack.reasons import Code, Reason
from unrack.resources.site.ranks import Ranks
from unrack.units import NEVER_US
from unrack.view import Draft, View

SUSPEND = "suspend"
"""The ``Mode`` of those that are suspended."""


def in_turn_to_go_on(view: View, ranks: Ranks, started: Mapping[int, int]) -> list[int]:
    """The suspended jobs, in the order in which they go on; ``started``: job → when it started, µs."""
    jobs = sorted(view.columns.suspended)
    height = dict(zip(jobs, ranks.height[classes_of(view, ranks, np.array(jobs, np.int64))].tolist(), strict=True))
    return sorted(jobs, key=lambda job: (-height[job], started.get(job, view.columns.suspended[job].since_us), job))


def kept_for(view: View, ranks: Ranks, started: Mapping[int, int], now: int) -> View:
    """The view in which suspended jobs hold the cores that they go on with; the same if no job is suspended."""
    if not view.columns.suspended:
        return view
    draft = Draft(view, now)
    draft.keep_cores(in_turn_to_go_on(view, ranks, started))
    return draft.view


def going_on(
    view: View, ranks: Ranks, started: Mapping[int, int], plan: Sequence[Decision], now: int
) -> list[Decision]:
    """Which suspended jobs go on beside what a plan does."""
    draft, found = carried_out(view, plan, now), list[Decision]()
    assert draft is not None
    after = draft.view
    free = after.free[0].copy()
    for job in in_turn_to_go_on(after, ranks, started):
        stood = after.columns.suspended[job]
        need = by_node(stood.rows)
        nodes, cores = need[:, FIRST], need[:, CORES]
        fits = bool((free[nodes] >= cores).all())
        if fits and _kept_for_nobody(view, job, need[:, FIRST], now, now + stood.lead_us + stood.left_us):
            found.append(Resume(job))
        free[nodes] -= np.minimum(cores, free[nodes])
    return found


def carried_out(view: View, plan: Sequence[Decision], now: int) -> Draft | None:
    """What would be after the stops and starts of a plan; ``None``: it cannot be carried out in its order."""
    draft = Draft(view, now)
    for decision in plan:
        if isinstance(decision, Requeue):
            draft.stop(decision.job)
        elif isinstance(decision, Suspend):
            draft.suspend(decision.job)
        elif isinstance(decision, Start) and not fits(draft, decision.lease):
            return None
    return draft


def _kept_for_nobody(view: View, job: int, nodes: Ints, now: int, until: int) -> bool:
    """Whether no window keeps these nodes for others before a job that goes on now is expected to end."""
    mine = abs(int(view.columns.set_owner[view.columns.set_of[job]]))
    return not any(
        window.owner != mine and now < window.end_us and window.start_us < until and window.nodes[nodes].any()
        for window in view.cluster.places.windows
    )


@dataclass(slots=True)
class PreemptionNotes:
    """What is remembered."""

    inner: Any  # of the policy inside
    ranks: Ranks | None  # which jobs may preempt which; ``None``: none
    started: dict[int, int]  # job → when it started, µs; and of some that have ended
    failed: set[int] = field(default_factory=set)  # jobs that had no place, whichever were stopped
    held: set[int] = field(default_factory=set)  # jobs that had one without that
    mark: tuple[int, ...] = ()  # of the ledger when that was found
    version: int = -1  # of the ledger after the last look
    wanted_us: int = NEVER_US  # when the policy inside wants its next round
    exempt_us: int = NEVER_US  # when the first of those that have not run for long enough will have
    stopped: tuple[int, ...] = ()  # jobs that were just stopped: what the policy inside remembers is to be made anew
    gone: set[tuple[int, int]] = field(default_factory=set)  # by quota: when which job was stopped; once at a time
    kept: bool = False  # whether the policy inside was shown the cores of suspended jobs as theirs
    ranked: int = 0  # how many heterogeneous jobs were known when ``ranks`` were made
    over: bool = False  # whether the policy inside has been asked in this round, and has nothing to add


KEEPS = ("checkpoint", SUSPEND)
"""Modes in which work is kept."""
LOOKS = 100
"""How often jobs that may preempt the same are looked at in a round, at most."""


class Look:
    """One look at waiting jobs that may preempt others."""

    def __init__(
        self, inner: Policy[Any], view: View, memory: PreemptionNotes, ranks: Ranks, starts: dict[int, Start], now: int
    ) -> None:
        self.view, self.memory, self.ranks, self.now = view, memory, ranks, now
        self.inner = inner
        self.base: Draft | None = None
        self.starts = starts
        self.stops: list[tuple[list[Decision], Start]] = []
        self.dropped: set[int] = set()
        self.ahead: list[tuple[int, Bools]] = []  # jobs that had no place, and those that they may preempt
        self.looks = 0
        self.closed: list[int] = []  # places of which nothing is free on drafts, as what is there would be borrowed
        running = view.running_jobs
        self.running: Ints = np.concatenate([running, np.array(list(starts), np.int64)])
        self.classes = classes_of(view, ranks, self.running)
        self.gone: set[int] = set()

    def give_places(self, jobs: Sequence[int], rights: Bools) -> None:
        """Let those of some jobs, in order, that may all preempt the same have places if they may; by quota, of one."""
        memory, ahead = self.memory, [job for job, more in self.ahead if bool((rights <= more).all())]
        rest, turn = list(jobs), self._turn(rights)
        reclaim = Reclaim(self._ledger()) if self.ranks.by_quota and turn and rest else None
        if reclaim is not None:
            turn, ahead = reclaim.victims(rest[0], turn), [job for job in ahead if reclaim.has_quota(job)]
        while rest and self.looks < LOOKS and turn and not (memory.failed | memory.held).issuperset(rest):
            base = self._ledger()
            held = self._started(self._without(()), [*ahead, *rest])
            able = self._started(self._without(turn), [*ahead, *rest])
            self.looks += 1
            memory.held |= held
            memory.failed.update(job for job in rest if job not in able)
            found = None
            while rest and found is None:
                job = rest.pop(0)
                front = reclaim is None and not held.isdisjoint(ahead)  # what is lent is given back whoever waits
                waits = job in held or (front and job in self._started(self._without(()), [job]))
                if job in able and not waits:
                    found = least(self._without, base.lease, turn, partial(self._lease, [*ahead, job], job))
                if found is not None and reclaim is not None and not reclaim.allows(job, *found):
                    self.closed = reclaim.borrowed(job, ahead)
                    again = partial(self._lease, [*ahead, job], job)
                    found = least(self._without, base.lease, turn, again) if self.closed else None
                    self.closed = []
                if found is None or not found[1]:
                    found = None
                    ahead.append(job)
                    self.ahead.append((job, rights))
            if found is not None:
                self._stop(job, *found)
                left = set(turn) - self.gone
                turn = [other for other in self._turn(rights) if other in left]
        self.ahead += [(job, rights) for job in rest]

    def _ledger(self) -> View:
        if self.base is None:
            self.base = Draft(self.view, self.now)
            for start in self.starts.values():
                self.base.start(start.lease)
        return self.base.view

    def _without(self, jobs: Sequence[int]) -> Draft:
        """What would be if these jobs were stopped, or suspended; others that are keep what they go on with."""
        draft = Draft(self._ledger(), self.now)
        for job in jobs:
            self._end(draft, job)
        if suspended := draft.suspended:
            order = in_turn_to_go_on(self._ledger(), self.ranks, self.memory.started)
            draft.keep_cores([job for job in order if job not in jobs and job in suspended])
        if self.closed:
            draft.close(self.closed)
        return draft

    def _end(self, draft: Draft, job: int) -> None:
        if job in draft.suspended:
            return
        if self._is_suspended(job):
            draft.suspend(job)
        else:
            draft.stop(job)

    def _is_suspended(self, job: int) -> bool:
        """Whether a job is suspended if it is preempted: not in the moment in which it starts, as it loses nothing."""
        runs = job not in self.starts and self.memory.started.get(job, self.now) < self.now
        return runs and self._mode(job) == SUSPEND

    def _mode(self, job: int) -> str:
        return self.ranks.mode[int(self.classes[np.flatnonzero(self.running == job)[0]])]

    def _started(self, draft: Draft, jobs: Sequence[int]) -> set[int]:
        return set(leases_by(self.inner, draft, jobs))

    def _lease(self, jobs: Sequence[int], job: int, draft: Draft) -> Lease | None:
        return leases_by(self.inner, draft, jobs, job).get(job)

    def _turn(self, rights: Bools) -> list[int]:
        """Jobs that may be stopped, in order."""
        return in_turn(self._victims(rights), self.ranks.victims, self.now)

    def _victims(self, rights: Bools) -> list[Victim]:
        found, draining = [], self.view.columns.draining
        for i in np.flatnonzero(rights[self.classes]).tolist():
            job, mode = int(self.running[i]), self.ranks.mode[int(self.classes[i])]
            fresh = job in self.starts
            since = self.now if fresh else self.memory.started.get(job, self.now)
            stood = job in self._ledger().columns.suspended  # nothing more is lost
            if not stood and job in self.gone:
                continue
            if not (stood or fresh):
                if (self.now, job) in self.memory.gone:
                    continue
                if self.now - since < self.ranks.exempt_us:
                    self.memory.exempt_us = min(self.memory.exempt_us, since + self.ranks.exempt_us)
                    continue
                if mode == SUSPEND and not draining.isdisjoint(self.view.lease(job).nodes.tolist()):
                    continue  # its cores would not come back
            cores, priority = self.view.cores_asked(job), int(self.view.priority[job])
            found.append(Victim(job, fresh or stood, since, cores, stood or mode in KEEPS, priority))
        return found

    def _stop(self, job: int, lease: Lease, victims: list[int]) -> None:
        assert self.base is not None
        reason = Reason(Code.PREEMPTED, f"for job {self.view.job(job).id}")
        stops: list[Decision] = []
        for victim in victims:
            if victim in self.base.suspended:
                continue
            self._end(self.base, victim)
            if self._is_suspended(victim):
                stops.append(Suspend(victim, reason))
                continue
            self.gone.add(victim)
            if victim in self.starts:
                self.dropped.add(victim)
                continue
            self.memory.gone |= {(self.now, victim)} if self.ranks.by_quota else set()
            mode = self._mode(victim)
            stops.append(Requeue(victim, reason, keep_work=mode == "checkpoint"))
            if mode == "cancel":
                stops.append(Reject(victim, reason))
        self.base.start(lease)
        self.memory.failed.clear()  # no job is behind it any more
        self.memory.held.clear()
        self.stops.append((stops, Start(lease)))
