"""Reservations of jobs that ask for nodes alone: the notes of schedulers that plan ahead, around a compiled round.

On shared nodes reservations count cores as long as every task so far asks one core and no memory; with the first that
asks otherwise they are laid onto nodes, none later than it was.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from unrack.ledger.growing import grown
from unrack.ledger.lease import NODES as LEASE_NODES
from unrack.ledger.lease import TASKS as LEASE_TASKS
from unrack.ledger.promises import Promise, PromisedRows, Promises
from unrack.policy.columns import columns_of
from unrack.policy.contract import Decision
from unrack.policy.discipline.list_pass import Pass
from unrack.policy.discipline.list_scheduler import Blocked, Buffers
from unrack.policy.discipline.plan_kernel import BookedRows, Grain, Groups, first_due, plan_round
from unrack.policy.discipline.reservations import Book
from unrack.policy.placement.local_memory import FITS
from unrack.units import NEVER_US
from unrack.view import View
from unrack.workload.job import TASKS

Ints = NDArray[np.int64]


@dataclass(slots=True)
class Plan:
    """Reservations, and how the cluster is grouped for planning."""

    groups: Groups
    start: Ints  # int64[jobs]: reserved start, µs; -1: none
    # per job (first row, number of rows) of its reservation in `rows`
    where: Ints
    rows: Ints
    spare: Ints
    buffers: Buffers = field(default_factory=Buffers)
    # whether a promise was taken over whose lease means nothing here: all are to be made anew, in order of start
    lost: bool = False
    freed: int = 0  # what had been given back by the last round: if more has been since, reservations may move forward
    blocked: Blocked = field(default_factory=Blocked)  # of the main loop of a Slurm-like scheduler
    planned_version: int = -1
    planned_at: int = -1
    # once a job has asked for more than nodes: the reservations, and the main loop of a Slurm-like scheduler
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
        groups = Groups(
            int(grain),
            np.ascontiguousarray(group_of.ravel(), np.int64),
            np.ascontiguousarray(total, np.int64).copy(),
            np.ascontiguousarray(rank, np.int64),
        )
        return cls(
            groups=groups,
            start=np.full(jobs, -1, np.int64),
            where=np.zeros((2, jobs), np.int64),
            rows=empty,
            spare=empty.copy(),
        )

    @classmethod
    def resumed(cls, view: View, whole: bool, fit: str) -> Plan:
        """As :meth:`begin`, with the promises made so far."""
        plan, promised = cls.begin(view, whole, fit), view.promises.by_job()
        kept = [(job, promised[job]) for job in view.queue.tolist() if job in promised] if promised else []
        leases = [plan._rows_of(view, job, promise) for job, promise in kept]
        plan.lost = any(rows is None for rows in leases)
        if kept and not plan.lost:
            plan.rows = np.concatenate([plan.rows[:0], *(rows for rows in leases if rows is not None), plan.spare])
        at = 0
        for (job, promise), rows in zip(kept, leases, strict=True):
            plan.start[job] = promise.start_us
            if rows is not None:
                plan.where[:, job] = at, len(rows)
                at += len(rows)
        return plan

    def _rows_of(self, view: View, job: int, promise: Promise) -> Ints | None:
        """The rows of a promise, in groups of this plan; ``None``: it has none that mean anything here."""
        tasks, lease = int(view.asks[TASKS, job]), promise.lease
        if self.groups.grain == Grain.CORES:
            return np.array([[0, 1, tasks, tasks, 0]], np.int64)
        if lease is None or promise.grain != self.groups.grain or promise.turn >= 0 or len(lease.borrowed):
            return None
        rows, groups = lease.rows, lease.rows[:, LEASE_NODES]
        there = len(rows) > 0 and int((rows[:, 0] + groups).max()) <= self.groups.total.shape[1]
        return rows if there and int(groups @ rows[:, LEASE_TASKS]) == tasks else None

    def promised(self) -> Promises:
        """What is promised after a round."""
        return Promises(PromisedRows(self.groups.grain, self.start, self.where, self.rows), self.freed)

    def too_coarse(self, view: View) -> bool:
        """Whether a job has come for which counting cores is not exact any more."""
        return self.groups.grain == Grain.CORES and not view.equal_cores()

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

    def due_us(self, view: View, now: int) -> int | None:
        """When the next reservation falls due after ``now``, µs; ``None`` while a job is overdue: then ends show it."""
        if view.first_end_us <= now:
            return None
        due = first_due(self.start, view.queue, now)
        return None if due == NEVER_US else due

    def make_room(self, view: View) -> None:
        """Make room for as many jobs as the ledger has."""
        room = view.columns.asks.shape[1]
        if len(self.start) < room:
            self.start, self.where = grown(self.start, room, -1), grown(self.where, room)

    def round(self, view: View, jobs: Ints, now: int, fit: str, compress: bool, trust: bool) -> list[Decision]:
        """Plan for ``jobs`` in order; start those whose reservation is now."""
        seen = columns_of(view)
        self.make_room(view)
        while True:
            kept = BookedRows(self.start, self.where, self.rows)
            count = plan_round(
                jobs, now, seen, self.groups, FITS[fit], kept, compress, trust, self.buffers.started,
                self.buffers.rows, self.spare,
            )  # fmt: skip
            if count >= 0:
                break
            self.buffers.grow(-count)
            self.spare = np.empty((-2 * count, 5), np.int64)
        self.rows, self.spare = self.spare, self.rows
        if self.spare.shape[0] < self.rows.shape[0]:
            self.spare = np.empty_like(self.rows)
        return self.buffers.leases(count)
