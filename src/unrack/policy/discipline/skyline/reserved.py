"""What is reserved for waiting jobs, and what is known of what they ask.

Reservations count nodes or cores as long as that is exact; with the first job for which it is not they are laid onto
nodes, none later than it was.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from unrack.ledger.growing import grown
from unrack.ledger.lease import NODES as LEASE_NODES
from unrack.ledger.lease import TASKS as LEASE_TASKS
from unrack.ledger.lease import Lease
from unrack.ledger.promises import Promise, PromisedRows, Promises
from unrack.policy.discipline.list_scheduler import Blocked
from unrack.policy.discipline.skyline.columns import Columns, Grain, Rule, Wants, as_rows, ledger_of
from unrack.policy.discipline.skyline.plan_round import first_due
from unrack.policy.discipline.skyline.room import columns_for, grown_rows
from unrack.policy.placement.local_memory import FITS
from unrack.resources.places import NO_CLAIMS
from unrack.units import NEVER_US
from unrack.view import View
from unrack.workload.job import ESTIMATE, TASKS

Ints = NDArray[np.int64]
NODES, CORES = int(Grain.NODES), int(Grain.CORES)
BY_JOB = {"start": -1, "where": 0, "wants": 0, "fixed_at": 0}
"""Columns by job, and what they are of a job that is not known yet."""


@dataclass(slots=True)
class Reserved:
    """What is reserved, and how the cluster is grouped for planning."""

    rule: Rule
    columns: Columns
    replaced: int = -1  # how many of its columns the ledger had replaced when these were taken over
    sky: Any = None  # the columns as the kernel takes them; ``None``: they have changed
    fixed: int = 0  # how many claims are noted that are the same wherever a job runs
    known: int = 0  # of how many jobs it is known what decides where they go
    chosen: bool = False  # whether of any of them that is a choice
    every: bool = False  # whether it is of all of them
    lends: bool = False  # whether memory may be that of other nodes
    modelled: bool = False  # whether one of them asks for devices on which jobs slow each other down
    # reservations that hold devices; all, where memory is lent
    leases: dict[int, Lease] = field(default_factory=dict)
    choosing: int = -1  # the place in the order of the job for which a choice was made last
    # whether a promise was taken over whose lease means nothing here: all are to be made anew, in order of start
    lost: bool = False
    freed: int = 0  # what had been given back by the last round: if more has been since, reservations may move forward
    blocked: Blocked = field(default_factory=Blocked)  # of the main loop of a Slurm-like scheduler
    planned_version: int = -1
    planned_at: int = -1
    notes: Any = None  # of the placement, where a choice was made
    named: Any = None  # a plan of single nodes, for jobs that start in order where reservations count whole nodes

    @classmethod
    def begin(cls, view: View, whole: bool, place: str, every: bool = False, lends: bool = False) -> Self:
        """Group the nodes as coarsely as is exact for the jobs submitted so far.

        ``every``: where all of them go is chosen. ``lends``: and their memory may be elsewhere.
        """
        nodes, jobs = view.total.shape[1], view.columns.asks.shape[1]
        rule = Rule(int(Grain.NODES), whole, FITS.get(place, 0))
        plan = cls(rule, columns_for(ledger_of(view, lends), nodes, jobs), chosen=every, every=every, lends=lends)
        plan.note_jobs(view)
        if whole and not plan.chosen:
            kinds, group_of = np.unique(view.total, axis=1, return_inverse=True)
            first_node = np.array([int(np.flatnonzero(group_of == g)[0]) for g in range(kinds.shape[1])])
            by_size = np.lexsort((np.arange(kinds.shape[1]), kinds[1], kinds[0]))
            rank = {"first-fit": np.argsort(first_node), "best-fit": by_size, "worst-fit": by_size[::-1]}[place]
            plan._group(Grain.WHOLE, group_of.ravel(), kinds, rank)
        elif view.equal_cores() and not plan.chosen:
            plan._group(Grain.CORES, np.zeros(nodes), view.total.sum(axis=1, keepdims=True), np.zeros(1))
        else:
            plan._group(Grain.NODES, np.arange(nodes), view.total, np.arange(nodes))
        return plan

    def _group(self, grain: Grain, of: Any, total: Any, rank: Any) -> None:
        self.rule = self.rule._replace(grain=int(grain))
        of, total, rank = (np.array(array, np.int64, order="C") for array in (of, total, rank))
        width = total.shape[1] + len(self.columns.place_of)
        self._replace(
            of=of, total=total, rank=rank, times=np.zeros(0, np.int64),
            level=np.zeros((0, 2, width), np.int64), low=np.zeros((1, 2, width), np.int64),
        )  # fmt: skip

    @classmethod
    def resumed(cls, view: View, whole: bool, place: str, every: bool = False, lends: bool = False) -> Self:
        """As :meth:`begin`, with the promises made so far."""
        plan, promised = cls.begin(view, whole, place, every, lends), view.promises.by_job()
        kept = [(job, promised[job]) for job in view.queue.tolist() if job in promised] if promised else []
        leases = [plan._lease_of(view, job, promise) for job, promise in kept]
        plan.lost = any(lease is None for lease in leases)
        rows, claims = [plan.columns.rows[:0]], [NO_CLAIMS]
        row = claim = 0
        for (job, promise), lease in zip(kept, leases, strict=True):
            plan.columns.start[job] = promise.start_us
            if lease is not None:
                own = as_rows(lease, plan.places)
                length = max(1, int(view.asks[ESTIMATE, job]))
                plan.columns.where[:, job] = row, row + len(own[0]), claim, claim + len(own[1]), length
                if lease.shares or plan.lends:
                    plan.leases[job] = lease
                rows.append(own[0])
                claims.append(own[1])
                row, claim = row + len(own[0]), claim + len(own[1])
        if kept and not plan.lost:
            plan._replace(rows=np.concatenate(rows), claims=np.concatenate(claims))
        return plan

    def _lease_of(self, view: View, job: int, promise: Promise) -> Lease | None:
        """What was promised, in groups of this plan; ``None``: it means nothing here."""
        tasks, lease = int(view.asks[TASKS, job]), promise.lease
        claims = NO_CLAIMS if lease is None else lease.claims
        if self.grain == Grain.CORES and (lease is not None or self.columns.wants[job] == Wants.NODES):
            return Lease(job, np.array([[0, 1, tasks, tasks, 0]], np.int64), claims=claims)
        if lease is None or promise.grain != self.grain or (len(lease.borrowed) and not self.lends):
            return None
        rows, groups = lease.rows, lease.rows[:, LEASE_NODES]
        there = len(rows) > 0 and int((rows[:, 0] + groups).max()) <= self.columns.total.shape[1]
        there = there and (not len(claims) or int(claims[:, 0].max()) < len(self.columns.slot))
        return lease if there and int(groups @ rows[:, LEASE_TASKS]) == tasks else None

    @property
    def grain(self) -> Grain:
        """What a group of the plan is."""
        return Grain(self.rule.grain)

    @property
    def places(self) -> int:
        """How many places there are of resources."""
        return len(self.columns.slot) - self.lends * len(self.columns.of)

    def promised(self) -> Promises:
        """What is promised after a round."""
        c = self.columns
        made = PromisedRows(self.rule.grain, c.start, c.where, c.rows, claims=c.claims, held=self.leases)
        return Promises(made, self.freed, beyond=self.lends)

    def note_jobs(self, view: View) -> None:
        """Note of jobs that were submitted since what decides where they go."""
        first, self.known = self.known, view.jobs
        seen, devices = view.columns.claimed, view.columns.devices
        if (seen is None and devices is None and not self.every) or first == self.known:
            return
        self.make_room(view)
        wants = self.columns.wants
        for job in range(first, self.known):
            asks = devices is not None and devices.asks(job)
            if asks or self.every:
                wants[job], self.chosen = Wants.ELSEWHERE if self.lends else Wants.CHOICE, True
            if asks and devices is not None:
                self.modelled = self.modelled or bool((devices.columns.model[:, job] >= 0).any())
            if wants[job] >= Wants.CHOICE or seen is None or not seen.asks(job):
                continue
            claims = seen.anywhere(job, int(view.asks[TASKS, job]))
            wants[job] = Wants.CHOICE if claims is None else Wants.CLAIMS
            if claims is None:
                self.chosen = True
                continue
            end = self.fixed
            self.fixed += len(claims)
            if self.fixed > len(self.columns.fixed):
                self._replace(fixed=grown_rows(self.columns.fixed, self.fixed))
            self.columns.fixed[end : self.fixed] = claims
            self.columns.fixed_at[:, job] = end, self.fixed

    def too_coarse(self, view: View) -> bool:
        """Whether a job has come for which counting cores, or nodes, is not exact any more."""
        self.note_jobs(view)
        grain = self.rule.grain
        return (grain == CORES and not view.equal_cores()) or (self.chosen and grain != NODES)

    def by_start(self, jobs: Ints) -> Ints:
        """The jobs in order of reserved start, those without a reservation last.

        Who is given the earliest place in this order, on whatever groups, never starts later than reserved: at the
        reserved start of a job those before it have begun, so that what is free then stays free.
        """
        start = self.columns.start[jobs]
        return jobs[np.argsort(np.where(start < 0, NEVER_US, start), kind="stable")]

    def reserved(self, job: int) -> int:
        """When a job is to start, µs; -1: nobody has said."""
        return int(self.columns.start[job]) if job < len(self.columns.start) else -1

    def forget(self, jobs: Ints) -> None:
        """Nothing is reserved for these jobs."""
        self.columns.start[jobs] = -1

    def due_us(self, view: View, now: int) -> int | None:
        """When the next reservation falls due after ``now``, µs; ``None`` while a job is overdue: then ends show it."""
        if view.first_end_us <= now:
            return None
        due = first_due(self.columns.start, view.queue, now)
        return None if due == NEVER_US else due

    def make_room(self, view: View) -> None:
        """Make room for as many jobs as the ledger has."""
        room = view.columns.asks.shape[1]
        if len(self.columns.start) < room:
            self._replace(**{name: grown(getattr(self.columns, name), room, fill) for name, fill in BY_JOB.items()})

    def _replace(self, **columns: Ints) -> None:
        self.columns, self.sky = self.columns._replace(**columns), None
