"""Jobs that wait for other jobs or for a time, while a run goes on: when each of them may be queued."""

from __future__ import annotations

from enum import IntEnum
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from unrack.events import RELEASE, Held, Submitted, Withdrawn
from unrack.reasons import Code, Reason
from unrack.units import NEVER_US
from unrack.workload.site.graph import After, JobGraph, graph_of

if TYPE_CHECKING:
    from unrack.sim.kernel import Kernel


class Fate(IntEnum):
    """What has become of a job, as others wait for it."""

    OPEN = 0
    STARTED = 1
    ENDED_WELL = 2
    FAILED = 3


MET, OPEN, NEVER = 1, 0, -1


class Graph:
    """Which jobs wait for which in a run. ``kernel``: the run; ``graph``: what its jobs wait for."""

    def __init__(self, kernel: Kernel, graph: JobGraph) -> None:
        self.kernel, self.graph = kernel, graph
        submit_us = kernel.jobs.submit_us
        self.fate = np.zeros(len(submit_us), np.int8)
        self.since_us = np.full((2, len(submit_us)), NEVER_US)  # when each started and ended
        self.waits = dict(graph.waits)
        self.followers: dict[int, list[int]] = {}
        for job, waits in graph.waits.items():
            for other in dict.fromkeys(other for ways in waits for other, _, _ in ways):
                self.followers.setdefault(other, []).append(job)
        self.eligible_us = submit_us.copy()
        self.waiting: set[int] = set()  # those that have come and may not be queued yet
        self.due: dict[int, int] = {}  # of these, those that may be queued at a time that is known

    @classmethod
    def of(cls, kernel: Kernel) -> Graph | None:
        """Of the jobs of a run; ``None``: none waits for anything."""
        found = graph_of(kernel.jobs)
        return None if found is None else cls(kernel, found)

    def arrives(self, job: int, now: int) -> bool:
        """Whether a job that comes is to be queued at once."""
        self.waiting.add(job)
        self._look(job, now)
        if self.due.get(job) == now:
            self._released(job, now)
            return True
        if self.kernel.core.handle(Held(*self.kernel.told(job)), now):  # it is too big whenever it starts
            self.waiting.discard(job)
            self.due.pop(job, None)
            self.ended(job, now, well=False)
        elif job not in self.waiting:
            self._give_up(job, now)
        return False

    def release(self, job: int, now: int) -> bool:
        """Queue a job at its time; False: it was queued already, or will never be."""
        if self.due.get(job, now + 1) > now:
            return False
        self._released(job, now)
        if self.kernel.core.handle(Submitted(job), now):
            self.ended(job, now, well=False)
        return True

    def _released(self, job: int, now: int) -> None:
        self.waiting.discard(job)
        self.due.pop(job)
        self.eligible_us[job] = now
        if job in self.graph.follow:
            self.kernel.core.store.comes(job, now)

    def started(self, job: int, now: int) -> None:
        """A job has started."""
        if self.fate[job] == Fate.OPEN:
            self._becomes(job, Fate.STARTED, now)

    def ended(self, job: int, now: int, well: bool = True) -> None:
        """A job has ended by itself, or will never run (not ``well``)."""
        if self.fate[job] == Fate.OPEN:
            self._hand_over(job)
        well = well and bool(self.graph.ends_well[job])
        self._becomes(job, Fate.ENDED_WELL if well else Fate.FAILED, now)

    def _hand_over(self, job: int) -> None:
        """Let those whose turn comes after one that will never run wait for what that would have waited for."""
        left = [way for ways in self.waits.get(job, ()) for way in ways
                if way[1] >= After.ALONE and self.met(*way)[0] == OPEN]  # fmt: skip
        for follower, (other, kind, _) in product(self.followers.get(job, ()), left):
            gone = job, kind, 0
            for ways in [ways for ways in self.waits[follower] if gone in ways]:
                others = [way for way in ways if way != gone]
                self.waits[follower] = [*self.waits[follower], (*others, (other, kind, 0))]
            self.followers[other].append(follower)

    def _give_up(self, job: int, now: int) -> None:
        """Drop one that will never run, and those that wait for it to end well."""
        reason = Reason(Code.DEPENDENCY, "what it waits for went another way")
        self.kernel.core.handle(Withdrawn(job, reason), now)
        self.ended(job, now, well=False)

    def _becomes(self, job: int, fate: Fate, now: int) -> None:
        self.fate[job] = fate
        self.since_us[0 if fate == Fate.STARTED else 1, job] = now
        for follower in self.followers.get(job, ()):
            if follower in self.waiting and self.due.get(follower, NEVER_US) > now:
                self._look(follower, now)
                if follower not in self.waiting:
                    self._give_up(follower, now)

    def _look(self, job: int, now: int) -> None:
        """Find out whether it is known when a job may be queued; one that never may waits no more."""
        at = max(now, int(self.graph.begin_us[job]))
        for ways in self.waits.get(job, ()):
            answers = [self.met(*way) for way in ways]
            met = [time for answer, time in answers if answer == MET]
            if not met:
                if all(answer == NEVER for answer, _ in answers):
                    self.waiting.discard(job)
                    return
                at = -1
            elif at >= 0:
                at = max(at, min(met))
        if at < 0 or self.due.get(job) == at:
            return
        self.due[job] = at
        self.kernel.push(at, RELEASE, job, 0)

    def met(self, other: int, kind: After, delay_us: int) -> tuple[int, int]:
        """Whether what is waited for has come, and from when on (µs)."""
        fate = self.fate[other]
        started, ended = self.since_us[:, other].tolist()
        if kind in (After.START, After.TURN):
            if fate == Fate.FAILED and started == NEVER_US:
                return MET, ended  # it will never start: nothing is left to wait for
            return (MET, started + delay_us) if fate != Fate.OPEN else (OPEN, 0)
        if fate <= Fate.STARTED:
            return OPEN, 0
        fits = kind >= After.END or (kind == After.OK) == (fate == Fate.ENDED_WELL)
        return (MET, ended + delay_us) if fits else (NEVER, 0)
