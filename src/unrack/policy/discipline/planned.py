"""Schedulers that plan ahead: conservative backfill, and a Slurm-like scheduler.

Conservative backfill (Mu'alem and Feitelson 2001): every job gets a reservation when it arrives, the earliest that
disturbs no other, and never a later one. When a job ends early, reservations move forward one by one, in order.
O(waiting x steps of the plan) a round. On shared nodes reservations count cores as long as every task so far asks one
core and no memory; with the first that asks otherwise they are laid onto nodes, none later than it was.

Slurm-like: the main loop runs at every event and starts jobs in order until one does not fit. Every ``interval``
seconds, backfill plans from scratch for the first ``depth`` jobs, in order, and starts those whose turn is now.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from unrack.ledger.growing import grown
from unrack.policy.contract import Decision, Estimates, Need
from unrack.policy.discipline.list_pass import ListPass, Pass
from unrack.policy.discipline.list_scheduler import UNLIMITED, Buffers, choose, short_of
from unrack.policy.discipline.plan_kernel import Grain, plan_round
from unrack.policy.discipline.queue_kernel import Backfill
from unrack.policy.discipline.reservations import Book, Reservations
from unrack.policy.orders import Order, in_order, is_fixed
from unrack.policy.placement.any_resource import AnyResource
from unrack.policy.placement.contract import MemoryRule
from unrack.policy.placement.local_memory import FITS, LocalMemory
from unrack.reasons import Code, Reason
from unrack.units import NEVER_US, SECOND_US
from unrack.view import View

Ints = NDArray[np.int64]
MAINS = ("events", "interval")
"""When the main loop of a Slurm-like scheduler runs."""


@dataclass(slots=True)
class Plan:
    """Reservations, and how the cluster is grouped for planning.

    Attributes
    ----------
    start : int64[jobs]
        Reserved start, µs; -1: none.
    where, rows
        Per job (first row, number of rows) of its reservation in ``rows``.
    running
        How many jobs ran after the last round: fewer now means that some ended.
    head, releases
        The first of the queue and ``view.releases`` when the main loop of a Slurm-like scheduler ran last.
    book, main
        Once a job has asked for more than nodes: the reservations, and the main loop of a Slurm-like scheduler.
    """

    grain: Grain
    group_of: Ints
    total: Ints
    rank: Ints
    start: Ints
    where: Ints
    rows: Ints
    spare: Ints
    buffers: Buffers = field(default_factory=Buffers)
    running: int = 0
    head: int = -1
    releases: int = -1
    capacity_version: int = -1
    planned_version: int = -1
    planned_at: int = -1
    book: Book | None = None
    main: Pass | None = None

    @classmethod
    def begin(cls, view: View, whole: bool, fit: str) -> Plan:
        """Group the nodes as coarsely as is exact for the jobs submitted so far."""
        nodes, jobs = view.total.shape[1], view.columns.asks.shape[1]
        if whole:
            grain = Grain.WHOLE
            kinds, group_of = np.unique(view.total, axis=1, return_inverse=True)
            first_node = np.array([int(np.flatnonzero(group_of == g)[0]) for g in range(kinds.shape[1])])
            by_size = np.lexsort((np.arange(kinds.shape[1]), kinds[1], kinds[0]))
            rank = {"first-fit": np.argsort(first_node), "best-fit": by_size, "worst-fit": by_size[::-1]}[fit]
            total = kinds
        elif view.equal_cores():
            grain, group_of, rank = Grain.CORES, np.zeros(nodes, np.int64), np.zeros(1, np.int64)
            total = view.total.sum(axis=1, keepdims=True)
        else:
            grain, group_of, rank = Grain.NODES, np.arange(nodes), np.arange(nodes)
            total = view.total
        empty = np.empty((256, 5), np.int64)
        return cls(
            grain=grain,
            group_of=np.ascontiguousarray(group_of.ravel(), np.int64),
            total=np.ascontiguousarray(total, np.int64).copy(),
            rank=np.ascontiguousarray(rank, np.int64),
            start=np.full(jobs, -1, np.int64),
            where=np.zeros((2, jobs), np.int64),
            rows=empty,
            spare=empty.copy(),
        )

    def too_coarse(self, view: View) -> bool:
        """Whether a job has come for which counting cores is not exact any more."""
        return self.grain == Grain.CORES and not view.equal_cores()

    def by_start(self, jobs: Ints) -> Ints:
        """The jobs in order of reserved start, those without a reservation last.

        Who is given the earliest place in this order, on whatever groups, never starts later than reserved: at the
        reserved start of a job those before it have begun, so that what is free then stays free.
        """
        start = self.start[jobs]
        return jobs[np.argsort(np.where(start < 0, NEVER_US, start), kind="stable")]

    def reserved(self, job: int) -> int:
        """When a job is to start, µs; -1: nobody has said."""
        return int(self.start[job]) if job < len(self.start) else -1

    def make_room(self, view: View) -> None:
        """Make room for as many jobs as the ledger has."""
        room = view.columns.asks.shape[1]
        if len(self.start) < room:
            self.start, self.where = grown(self.start, room, -1), grown(self.where, room)

    def round(self, view: View, jobs: Ints, now: int, fit: str, compress: bool, trust: bool) -> list[Decision]:
        """Plan for ``jobs`` in order; start those whose reservation is now."""
        state = view.columns
        self.make_room(view)
        while True:
            count = plan_round(
                jobs, now, state.asks, state.free, state.total, state.running, state.running_count, state.pool,
                state.lease_at, int(self.grain), FITS[fit], self.group_of, self.total, self.rank, self.start,
                self.where, self.rows, compress, trust, self.buffers.started, self.buffers.rows, self.spare,
            )  # fmt: skip
            if count >= 0:
                break
            self.buffers.grow(-count)
            self.spare = np.empty((-2 * count, 5), np.int64)
        self.rows, self.spare = self.spare, self.rows
        if self.spare.shape[0] < self.rows.shape[0]:
            self.spare = np.empty_like(self.rows)
        return self.buffers.leases(count)


@dataclass(frozen=True)
class Conservative(AnyResource):
    """Backfill in which every job holds a reservation that only ever moves forward.

    Parameters
    ----------
    order
        In which order new jobs get reservations and later move forward: a name in ``ORDERS`` or a function.
    place, nodes, estimates, label
        As for :class:`unrack.policy.discipline.list_scheduler.ListScheduler`; ``place`` is a name here.
    memory
        As there.
    """

    order: str | Order = "fcfs"
    place: str = "first-fit"
    nodes: str = "shared"
    estimates: Estimates = Estimates.REQUESTED
    label: str = "conservative"
    memory: MemoryRule = field(default_factory=LocalMemory)

    needs: ClassVar[frozenset[Need]] = frozenset()

    @property
    def name(self) -> str:
        """The label."""
        return self.label

    def begin(self, view: View) -> Plan:
        """No reservations yet."""
        return Plan.begin(view, self.nodes == "whole", self.place)

    def decide(self, view: View, memory: Plan, now: int) -> tuple[list[Decision], Plan]:
        """Reserve for new jobs, move reservations forward if jobs have ended, start whose turn it is."""
        if not view.waiting:
            memory.running = view.running_count
            return [], memory
        jobs = in_order(self.order, view, now).copy()
        if memory.book is None and self.beyond_nodes(view):
            memory.make_room(view)
            jobs, memory.book = memory.by_start(jobs), self._reservations.begin(view)
        if memory.book is not None:
            return self._reservations.keep(view, memory.book, jobs.tolist(), now), memory
        if memory.too_coarse(view):
            memory.make_room(view)
            jobs = memory.by_start(jobs)
            memory = self.begin(view)
        compress = view.running_count < memory.running or view.capacity_version != memory.capacity_version
        decisions = memory.round(view, jobs, now, self.place, compress, trust=True)
        memory.running = view.running_count + len(decisions)
        memory.capacity_version = view.capacity_version
        return decisions, memory

    def next_round(self, view: View, memory: Plan, now: int) -> int | None:
        """Reservations start when jobs end, which is an event; or when they were told that devices are free."""
        return None if memory.book is None or not view.waiting else self._reservations.due_us(view, memory.book, now)

    @cached_property
    def _reservations(self) -> Reservations:
        """Reservations of jobs that ask for more than nodes."""
        return Reservations(self.mixed)

    def why(self, view: View, memory: Plan, job: int, now: int) -> Reason:
        """It holds a reservation for later, or there is no room even then."""
        if memory.book is not None:
            return self._reservations.why(view, memory.book, job, now)
        missing = short_of(view, job, self.nodes == "whole")
        if missing is not None:
            return missing
        if memory.reserved(job) >= 0:
            return Reason(Code.RESERVED, f"from {memory.start[job] / SECOND_US:.0f} s")
        return Reason(Code.NOT_YET)


@dataclass(frozen=True)
class SlurmLike(AnyResource):
    """A main loop at every event, and backfill that plans for part of the queue at intervals.

    Parameters
    ----------
    interval_us
        Time between two backfills. They happen at whole multiples of it, while jobs wait.
    depth
        How many jobs, from the first, a backfill plans for.
    queue
        How many jobs, from the first, are looked at by either loop.
    main
        ``"events"``: the main loop runs at every event; ``"interval"``: it too runs only at multiples of the interval.
    order, place, nodes, estimates, label, memory
        As for :class:`Conservative`.
    """

    interval_us: int = 30 * SECOND_US
    depth: int = 100
    queue: int = 100
    main: str = "events"
    order: str | Order = "fcfs"
    place: str = "first-fit"
    nodes: str = "shared"
    estimates: Estimates = Estimates.REQUESTED
    label: str = "slurm"
    memory: MemoryRule = field(default_factory=LocalMemory)

    needs: ClassVar[frozenset[Need]] = frozenset()

    @property
    def name(self) -> str:
        """The label."""
        return self.label

    def begin(self, view: View) -> Plan:
        """Nothing planned yet."""
        return Plan.begin(view, self.nodes == "whole", self.place)

    def _jobs(self, view: View, now: int) -> Ints:
        return in_order(self.order, view, now)[: self.queue].copy()

    def decide(self, view: View, memory: Plan, now: int) -> tuple[list[Decision], Plan]:
        """Run the main loop; at a multiple of the interval, plan and backfill as well."""
        if not view.waiting:
            return [], memory
        if self.main == "interval" and now % self.interval_us:
            return [], memory
        if memory.book is None and self.beyond_nodes(view):
            memory.book, memory.main = self._reservations.begin(view), self._main_loop.begin(view)
        if memory.book is not None:
            return self._decide_beyond(view, memory, memory.book, now), memory
        jobs = self._jobs(view, now)
        if now % self.interval_us or (memory.planned_at == now and memory.planned_version == view.version):
            head, releases = int(jobs[0]), view.releases
            if head == memory.head and releases == memory.releases:  # it did not fit then
                return [], memory
            memory.releases = releases
            count = choose(
                view, jobs, memory.buffers, now, int(Backfill.NONE), 0, self.nodes == "whole", FITS[self.place]
            )  # fmt: skip
            memory.head = int(jobs[count]) if count < len(jobs) else -1
            return memory.buffers.leases(count), memory
        jobs = jobs[: self.depth]
        if memory.too_coarse(view):
            memory = self.begin(view)
        memory.make_room(view)
        memory.start[jobs] = -1
        decisions = memory.round(view, jobs, now, self.place, compress=False, trust=False)
        memory.planned_at, memory.planned_version = now, -1 if decisions else view.version
        return decisions, memory

    def _decide_beyond(self, view: View, memory: Plan, book: Book, now: int) -> list[Decision]:
        """The same where a job has asked for more than nodes."""
        if now % self.interval_us or (memory.planned_at == now and memory.planned_version == view.version):
            assert memory.main is not None
            return self._main_loop.decide(view, memory.main, now, self.queue)
        jobs = self._jobs(view, now)[: self.depth].tolist()
        decisions = self._reservations.anew(view, book, jobs, now)
        memory.planned_at, memory.planned_version = now, -1 if decisions else view.version
        return decisions

    @cached_property
    def _reservations(self) -> Reservations:
        """The plan of jobs that ask for more than nodes."""
        return Reservations(self.mixed)

    @cached_property
    def _main_loop(self) -> ListPass:
        """The main loop over such jobs."""
        return ListPass(self.mixed, self.order, Backfill.NONE, UNLIMITED)

    def next_round(self, view: View, memory: Plan, now: int) -> int | None:
        """The next multiple of the interval, if jobs wait and a plan then may differ from the last.

        It may where something has changed, where the order ages, or where a running job will be past its booked end.
        """
        if not view.waiting:
            return None
        following = (now // self.interval_us + 1) * self.interval_us
        if memory.planned_version == view.version and is_fixed(self.order) and view.first_end_us > following:
            return None
        return following

    def why(self, view: View, memory: Plan, job: int, now: int) -> Reason:
        """No room, too deep in the queue, a reservation for later, or waiting for the next backfill."""
        if memory.book is not None:
            missing = self.mixed.why(view, memory.book.notes, job, now)
            reserved = memory.book.booked[job].start_us if job in memory.book.booked else -1
        else:
            missing, reserved = short_of(view, job, self.nodes == "whole"), memory.reserved(job)
        if missing is not None:
            return missing
        place = np.flatnonzero(self._jobs(view, now) == job)
        if len(place) == 0 or place[0] >= self.depth:
            return Reason(Code.TOO_DEEP, "jobs looked at", len(view.queue), min(self.queue, self.depth))
        if reserved > now:
            return Reason(Code.RESERVED, f"from {reserved / SECOND_US:.0f} s")
        return Reason(Code.NOT_YET)
