"""The jobs of a run: what they ask, which wait, what became of each, how long each is expected to run.

What waiting jobs were promised is kept here, so that a policy that begins anew goes on keeping it.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableSequence
from enum import IntEnum
from math import ceil
from types import MappingProxyType
from typing import NamedTuple, Protocol

import numpy as np

from unrack.errors import RefusedError
from unrack.kernels.arrays import Ints
from unrack.ledger.columns import ASKED_CORES, ASKED_MB, ASKED_TASKS, ASKED_US, grown, plain
from unrack.ledger.holding import strike
from unrack.ledger.lease import Lease, Sizes, Suspended, from_rows
from unrack.units import NEVER_US


class Status(IntEnum):
    """What became of a job so far."""

    UNKNOWN = 0  # not submitted yet
    QUEUED = 1
    RUNNING = 2
    FINISHED = 3
    REJECTED = 4
    HELD = 5  # submitted, and not to be started yet by its own word


UNKNOWN, QUEUED, RUNNING, FINISHED, REJECTED, HELD = (int(status) for status in Status)
"""The same as plain integers: looking up a member of an enumeration is slow in the inner loop."""


NO_GRACE: Ints = np.zeros(0, np.int64)


class Runs(NamedTuple):
    """Columns of the ledger about runs; they are kept for policies that declare ``learns``."""

    started_us: Ints  # int64[jobs]: When the last attempt of a job started. Means nothing for a job that waits.
    ran_us: Ints  # int64[jobs]: how long the attempt ran in which a job ended by itself; -1: it has not ended
    ended: Ints  # int64[ended]: the jobs that ended by themselves, in the order in which they did
    released_us: Ints  # int64[jobs]: since when a job waits that was held when it came; -1: since it came


class Before(Protocol):
    """Keeps what a plan is about to change, so that it can be restored; see :mod:`unrack.ledger.copies.before`."""

    def held(self, job: int) -> None:
        """What a job holds is about to change, or that it waits."""

    def asked(self, job: int) -> None:
        """What a job is told to ask, or expected to run, is about to change."""


class JobLedger:
    """The part of :class:`unrack.ledger.state.ClusterState` that is about jobs, whatever they hold.

    Parameters
    ----------
    asks : int64[4, jobs]
        What the policy is told that jobs ask: tasks, cores and MB of each, expected run time in µs. It is kept.
    learns
        Whether :attr:`runs` is kept.
    """

    def __init__(self, asks: Ints, learns: bool) -> None:
        jobs = asks.shape[1]
        self.asks = asks
        self.jobs: int = jobs
        self.known = 0
        self.latecomers = 0
        unequal = np.flatnonzero((asks[ASKED_CORES] != 1) | (asks[ASKED_MB] != 0))
        self.first_unequal: int = int(unequal[0]) if len(unequal) else NEVER_US
        self.conditions = bytearray(jobs)
        self.status = np.frombuffer(self.conditions, np.int8)
        self.queue = np.zeros(jobs + 1, np.int64)
        self.queue_start = 0
        self.queue_end = 0
        self.expected_us: MutableSequence[int] = plain(asks[ASKED_US])
        self._whole_us: dict[int, int] = {}
        self._before_us: dict[int, int] = {}
        self._own_us: dict[int, int] = {}
        self.sizes: Mapping[int, Sizes] = {}
        self.begun_us: dict[int, int] = {}
        self.wanted: dict[int, int] = {}
        self.least_us: Mapping[int, int] = {}
        self._unlimited_us: dict[int, int] = {}
        self.extended_us: dict[int, int] = {}
        self.grace_us: Ints = NO_GRACE
        self.suspended: dict[int, Suspended] = {}
        none = np.full(jobs, -1, np.int64)
        self.runs = Runs(none, none.copy(), np.zeros(jobs, np.int64), none.copy()) if learns else None
        self.ended_count = 0
        self.promises: Promises = NO_PROMISES
        self.before: Before | None = None

    def condition(self, job: int) -> int:
        """The :class:`Status` of a job, as a plain integer. A RefusedError if there is no such job."""
        if not 0 <= job < self.jobs:
            raise RefusedError(f"job {job}: there is no such job; they are numbered 0 to {self.jobs - 1}")
        return self.conditions[job]

    def note_start(self, job: int, now: int) -> None:
        """Note when a job started, where a policy asks."""
        if self.runs is not None:
            self.runs.started_us[job] = now
        if job in self.sizes:
            self.begun_us[job] = now

    def note_end(self, job: int, now: int) -> None:
        """Note in :attr:`runs` that a job has ended by itself."""
        if self.runs is not None:
            self.runs.ran_us[job] = now - self.runs.started_us[job]
            self.runs.ended[self.ended_count] = job
            self.ended_count += 1

    def note_release(self, job: int, now: int) -> None:
        """Note in :attr:`runs` that a job which was held may start from now on."""
        if self.runs is not None:
            self.runs.released_us[job] = now

    # --- what they ask, and how long they are expected to run -----------------------------------------------------

    def reserve(self, job: int, mb: int) -> None:
        """Let each task of a job be given so many MB when it starts."""
        if self.before is not None:
            self.before.asked(job)
        self.asks[ASKED_MB, job] = mb

    def carry_on(self, job: int, left_us: int, extended_us: int = 0) -> None:
        """Expect of a job that has begun that it runs so long from its next start, or now, and was given more time."""
        if extended_us:
            self.extended_us[job] = extended_us
        self._without_limit(job)
        if self.before is not None:
            self.before.asked(job)
        self._before_us[job] = self.expected_us[job]
        self._whole_us.setdefault(job, self.expected_us[job])
        self.expect(job, left_us)

    def correct(self, job: int, done_us: int) -> None:
        """Of a stopped job so much was kept of what it was expected to do when it last started; others stay."""
        if job in self._before_us and self.condition(job) == QUEUED:
            if job in self.sizes:
                done_us = self.sizes[job].time_us(done_us, int(self.asks[ASKED_TASKS, job]))
            self.expect(job, max(0, self._before_us[job] - done_us))

    def start_over(self, job: int) -> None:
        """Expect of a stopped job as much as at first: nothing is kept of it."""
        self._without_limit(job)
        if job in self._whole_us:
            if self.before is not None:
                self.before.asked(job)
            del self._before_us[job]
            self.expect(job, self._whole_us.pop(job))

    def limit(self, job: int, limit_us: int) -> None:
        """Expect a job that starts or runs now to run up to another limit than it asked for, until it is stopped."""
        if self.before is not None:
            self.before.asked(job)
        self._unlimited_us.setdefault(job, self.expected_us[job])
        self.expect(job, limit_us)

    def _without_limit(self, job: int) -> None:
        if job in self._unlimited_us:
            if self.before is not None:
                self.before.asked(job)
            self.expect(job, self._unlimited_us.pop(job))

    def forget_changes(self, job: int) -> None:
        """A job runs no more: it wants no other size, has been given no time, and is not suspended."""
        self.extended_us.pop(job, None)
        self.wanted.pop(job, None)
        self.suspended.pop(job, None)

    def own_us(self, job: int) -> int:
        """How long a job is expected to run at the size with which it was submitted, µs."""
        return self._own_us.get(job, self.expected_us[job])

    def change_us(self, job: int, now: int) -> int:
        """How long a running job stands still if its size changes now: not at all in the moment in which it starts."""
        return 0 if self.begun_us.get(job) == now else self.sizes[job].change_us

    def _note(self, job: int, sign: int) -> None:
        """A job has come into the system (sign 1), or left it (-1)."""
        raise NotImplementedError

    def ask_for(self, job: int, tasks: int) -> None:
        """Let a job that waits or runs have another of its sizes; how long it is expected to run scales."""
        if self.before is not None:
            self.before.asked(job)
        sizes, before = self.sizes[job], int(self.asks[ASKED_TASKS, job])
        own_us = self._own_us.setdefault(job, self._whole_us.get(job, self.expected_us[job]))
        expected_us = sizes.time_us(own_us, tasks)
        if job in self._whole_us:  # it has run already
            ratio = sizes.speed_at(before) / sizes.speed_at(tasks)
            expected_us = ceil(self.expected_us[job] * ratio)
            self._whole_us[job] = sizes.time_us(own_us, tasks)
            self._before_us[job] = ceil(self._before_us[job] * ratio)
        self._note(job, -1)
        self.asks[ASKED_TASKS, job] = tasks
        self._note(job, 1)
        self.expect(job, expected_us)

    def asks_anew(self) -> None:
        """Of a copy: let what jobs ask be its own, which was shared until now."""
        self.asks, self.expected_us = self.asks.copy(), self.expected_us[:]
        for name in ("_own_us", "_whole_us", "_before_us", "_unlimited_us"):
            setattr(self, name, dict(getattr(self, name)))

    def expect(self, job: int, time_us: int) -> None:
        """Expect a job that waits to run for so long."""
        self.expected_us[job] = time_us
        self.asks[ASKED_US, job] = time_us

    def told(self, job: int) -> tuple[Ints, int | None, int | None]:
        """What a job asks and what is kept of its expected run times, for :meth:`tell_again`."""
        return self.asks[:, job].copy(), self._whole_us.get(job), self._before_us.get(job)

    def tell_again(self, job: int, told: tuple[Ints, int | None, int | None]) -> None:
        """Restore what :meth:`told` gave."""
        self.asks[:, job] = told[0]
        self.expected_us[job] = int(told[0][ASKED_US])
        for kept, value in zip((self._whole_us, self._before_us), told[1:], strict=True):
            if value is None:
                kept.pop(job, None)
            else:
                kept[job] = value

    # --- the queue --------------------------------------------------------------------------------------------------

    def enter_queue(self, job: int) -> None:
        """Put a job at its place in the queue, and do nothing else."""
        queue, start, end = self.queue, self.queue_start, self.queue_end
        if start == end or queue[end - 1] < job:
            if end == len(queue):
                queue[: end - start] = queue[start:end].copy()
                start, end = 0, end - start
                self.queue_start = start
            queue[end] = job
            self.queue_end = end + 1
            return
        at = start + int(np.searchsorted(queue[start:end], job))
        if start > 0:
            queue[start - 1 : at - 1] = queue[start:at].copy()
            queue[at - 1] = job
            self.queue_start = start - 1
        else:
            queue[at + 1 : end + 1] = queue[at:end].copy()
            queue[at] = job
            self.queue_end = end + 1

    def leave_queue(self, job: int) -> None:
        """Take a job out of the queue, and do nothing else."""
        if self.queue[self.queue_start] == job or strike(self.queue, self.queue_start, self.queue_end, job):
            self.queue_start += 1
        else:
            self.queue_end -= 1

    def leave_queue_together(self) -> None:
        """Take all jobs out of the queue of which the status says already that they do not wait."""
        queue = self.queue[self.queue_start : self.queue_end]
        stay = queue[self.status[queue] == QUEUED]
        self.queue[self.queue_start : self.queue_start + len(stay)] = stay
        self.queue_end = self.queue_start + len(stay)

    def _more_jobs(self, room: int) -> tuple[str, ...]:
        """Make room for so many jobs; returns the names of the columns that were replaced."""
        self.asks, self.queue = grown(self.asks, room), grown(self.queue, room + 1)
        self.conditions = self.conditions + bytearray(room - self.jobs)
        self.status = np.frombuffer(self.conditions, np.int8)
        if self.runs is not None:
            started, ran, ended, released = (grown(column, room, -1) for column in self.runs)
            self.runs = Runs(started, ran, ended, released)
        return "asks", "queue", "status"


STIRRED = -1
"""What policies compare, where reservations may move forward whatever was given back."""


class Promise(NamedTuple):
    """When a waiting job is to start, and on what."""

    start_us: int  # when it is to start, µs; or earlier
    turn: int = -1  # which of those that start at one time goes first; -1: that follows from the order of the jobs
    grain: int = 0  # what the rows of the lease count: 0, nodes; 1, nodes of each group; 2, cores of each group
    lease: Lease | None = None  # on what; ``None``: only the time was promised


class PromisedRows(NamedTuple):
    """Promises in the columns of a plan, which are as they are here until the next round."""

    grain: int  # as of :class:`Promise`, of all of them
    start_us: Ints  # int64[jobs]: when each job is to start, µs; below 0: it was promised nothing
    where: Ints  # int64[4 or more, jobs]: of each the first row and end in ``rows``; first and end in ``claims``
    # rows, claims, places: as of :mod:`unrack.ledger.memory_use`
    rows: Ints
    claims: Ints
    places: int
    held: Mapping[int, Lease] = MappingProxyType({})  # leases that hold devices too, by job

    def one_by_one(self) -> dict[int, Promise]:
        """The promises by job."""
        found = {}
        for job in np.flatnonzero(self.start_us >= 0).tolist():
            row, end, claim, last = self.where[:4, job].tolist()
            lease = self.held.get(job) or from_rows(job, self.rows[row:end], self.claims[claim:last], self.places)
            found[job] = Promise(int(self.start_us[job]), -1, int(self.grain), lease)
        return found


class Promises(NamedTuple):
    """All that a policy has promised after a round."""

    made: Mapping[int, Promise] | PromisedRows  # by job, or in columns
    # what the policy compares to see whether anything was given back since; ``None``: nothing was; or STIRRED
    freed: int | None = None
    of: Ints | None = None  # int64[nodes]: the group of each node, where leases count more than nodes

    def by_job(self) -> dict[int, Promise]:
        """Job → what it was promised."""
        return self.made.one_by_one() if isinstance(self.made, PromisedRows) else dict(self.made)

    def start_us(self, job: int) -> int:
        """When a job was promised to start, µs; below 0: it was promised nothing."""
        made = self.made
        if isinstance(made, PromisedRows):
            return int(made.start_us[job]) if job < len(made.start_us) else -1
        return made[job].start_us if job in made else -1

    def and_one(self, job: int, promise: Promise) -> Promises:
        """These and one that was made before this ledger began."""
        return Promises({**self.by_job(), job: promise}, None, self.of)

    def stirred(self) -> Promises:
        """The same, for a policy that has to see that jobs were started, or were not, other than it planned."""
        return self._replace(freed=STIRRED)


NO_PROMISES = Promises({})
