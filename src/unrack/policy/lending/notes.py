"""What the lending scheduler remembers; and how reservations that count nodes become ones that name them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from unrack.kernels.arrays import Bools, Ints
from unrack.ledger.growing import grown
from unrack.ledger.lease import Lease
from unrack.policy.contract import Decision, Start
from unrack.policy.discipline.skyline.plan import Plan
from unrack.policy.discipline.skyline.reserved import Blocked
from unrack.policy.lending.backfill_kernel import Classes
from unrack.policy.lending.lease_kernel import Leases, room_for_leases
from unrack.policy.lending.lender_cost import Scratch
from unrack.policy.lending.rules import Terms
from unrack.resources.places import AMOUNT, PLACE
from unrack.view import View
from unrack.workload.job import CORES, ESTIMATE, MEMORY, TASKS


@dataclass(slots=True)
class StandIn:
    """A scheduler that decides in place of the lending one, and what it remembers.

    ``counts``: it counts nodes, as long as nobody so far can have to borrow; else it decides for good, as a job has
    asked for devices.
    """

    policy: Any
    notes: Any
    counts: bool


@dataclass(slots=True)
class Plenty:
    """What waiting jobs claim in all."""

    known: int = 0  # of how many jobs it is noted what they claim
    most: Ints = field(default_factory=lambda: np.zeros(0, np.int64))  # int64[places]: at most so much

    def lasts(self, view: View) -> bool:
        """Whether all that wait could claim at once what they ask, wherever they run, and none asks for devices."""
        seen, devices = view.columns.claimed, view.columns.devices
        if devices is not None and bool(devices.columns.asked.any()):
            return False
        if seen is None or not seen.asking:
            return True
        first, self.known = self.known, view.jobs
        if not len(self.most):
            self.most = np.zeros(len(seen.free), np.int64)
        if not self._add(view, range(first, self.known)):
            return False
        if not (self.most > seen.free).any():
            return True
        self.most[:] = 0
        return self._add(view, view.queue.tolist()) and not bool((self.most > seen.free).any())

    def _add(self, view: View, jobs: Iterable[int]) -> bool:
        """Add what jobs claim; False: of one of them that is a choice."""
        seen = view.columns.claimed
        assert seen is not None
        for job in jobs:
            if seen.asks(job):
                claims = seen.anywhere(job, int(view.asks[TASKS, job]))
                if claims is None:
                    self.known = 0
                    return False
                self.most[claims[:, PLACE]] += claims[:, AMOUNT]
        return True


@dataclass(slots=True)
class LendingNotes:
    """The terms of a lending scheduler, room for its answers, its reservations, and what the last pass had seen."""

    terms: Terms
    classes: Classes
    begins: Ints  # int64[jobs]: when waiting jobs are planned to start, µs; -1: no plan
    # of the conservative scheduler: where in `kept` the leases of its reservations are
    spans: Ints
    kept: Leases
    out: Leases
    started: Ints = field(default_factory=lambda: np.empty((5, 64), np.int64))
    other: StandIn | None = None  # the scheduler that decides in place of this one, if one does
    asked: int = 0  # how many jobs have been looked at for whether they may have to borrow
    freed: int = 0
    planned_version: int = -1
    planned_at: int = -1
    blocked: Blocked = field(default_factory=Blocked)
    scratch: Scratch = field(default_factory=Scratch)
    plenty: Plenty = field(default_factory=Plenty)

    def grow(self, needed: int) -> None:
        """Make room for ``needed`` jobs, rows and loans."""
        self.started = np.empty((5, max(needed, self.started.shape[1])), np.int64)
        self.out = room_for_leases(max(needed, len(self.out.rows)), max(needed, len(self.out.loans)))

    def make_room(self, jobs: int) -> None:
        """Make room for so many jobs."""
        if len(self.begins) < jobs:
            self.begins, self.spans = grown(self.begins, jobs, -1), grown(self.spans, jobs)

    def take_over(self, plan: Plan, leases: Mapping[int, Ints]) -> None:
        """Go on without the scheduler that counted, whose reservations now have these rows."""
        at = 0
        needed = sum(map(len, leases.values()))
        if needed > len(self.kept.rows):
            self.kept = room_for_leases(2 * needed, len(self.kept.loans))
        for job, rows in leases.items():
            self.kept.rows[at : at + len(rows)] = rows
            self.begins[job], self.spans[:, job] = plan.columns.start[job], (at, at + len(rows), 0, 0)
            at += len(rows)
        self.freed, self.other = plan.freed, None

    def leases(self, count: int) -> list[Decision]:
        """The first ``count`` answers as decisions."""
        decisions: list[Decision] = []
        for job, first, last, loan, end in self.started[:, :count].T.tolist():
            decisions.append(Start(Lease(job, self.out.rows[first:last].copy(), self.out.loans[loan:end].copy())))
        return decisions


def named_leases(plan: Plan, view: View, jobs: Ints, now: int) -> dict[int, Ints]:
    """Job → the rows of its lease (int64[rows, 5]) at its reserved start, of the jobs that have a reservation.

    Each keeps its start and how many nodes of each kind it has. In order of start there are always as many: a node that
    is free when a reservation begins is not promised to anyone who begins later, for whom no node was named yet. A job
    that nothing can be named for (its reservation has slipped meanwhile) is left out, and gets a new one.

    Parameters
    ----------
    plan
        Counted in nodes of each kind.
    jobs
        Those that wait, in order.
    """
    seen = view.columns
    busy_until = np.where(view.online, now, np.iinfo(np.int64).max)
    for end, job in seen.running[:, : seen.running_count].T.tolist():
        first, count = seen.lease_at[:, job].tolist()
        for node, nodes in seen.pool[first : first + count, :2].tolist():
            held = busy_until[node : node + nodes]
            np.maximum(held, now if end == now else max(end, now + 1), out=held)
    found: dict[int, Ints] = {}
    for job in plan.by_start(jobs).tolist():
        start = plan.reserved(job)
        if start < now:
            continue
        first, end = plan.columns.where[:2, job].tolist()
        rows = _named(plan, plan.columns.rows[first:end], busy_until <= start, view, job)
        if rows is not None:
            busy_until[rows[:, 0]] = start + max(1, int(seen.asks[ESTIMATE, job]))
            found[job] = rows
    return found


def _named(plan: Plan, counted: Ints, free: Bools, view: View, job: int) -> Ints | None:
    """Rows of single nodes for rows that count nodes of each kind; ``None``: too few are free."""
    cores, mb = (int(view.columns.asks[row, job]) for row in (CORES, MEMORY))
    rows: list[tuple[int, int, int, int, int]] = []
    for first, kinds, tasks, nodes, _ in counted.tolist():
        for kind in range(first, first + kinds):
            there = np.flatnonzero(free & (plan.columns.of == kind))[:nodes]
            if len(there) < nodes:
                return None
            left = tasks
            for node in there.tolist():
                node_cores, node_mb = view.total[:, node].tolist()
                room = left if cores == 0 else node_cores // cores
                here = min(left, room, node_mb // mb if mb else room)
                rows.append((node, 1, here, node_cores, here * mb))
                left -= here
    return np.array(sorted(rows), np.int64)


def with_claims(view: View, decisions: list[Decision]) -> list[Decision]:
    """The decisions, with what those who start claim wherever they run."""
    seen = view.columns.claimed
    if seen is None or not seen.asking:
        return decisions
    made: list[Decision] = []
    for decision in decisions:
        if isinstance(decision, Start) and not len(decision.lease.claims) and seen.asks(decision.lease.job):
            job = decision.lease.job
            claims = seen.anywhere(job, int(view.asks[TASKS, job]))
            assert claims is not None, "it was counted"
            decision = decision._replace(lease=decision.lease._replace(claims=claims.copy()))
        made.append(decision)
    return made
