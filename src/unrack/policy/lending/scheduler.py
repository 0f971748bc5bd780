"""List schedulers on whole nodes whose jobs may borrow memory of other nodes.

``fcfs``, ``easy`` and ``slurm`` decide as :mod:`unrack.policy.discipline.list_scheduler` and
:mod:`unrack.policy.discipline.skyline` do, with a placement of :mod:`unrack.policy.lending` and borrowed memory in
every reservation: where nothing is borrowed, their schedules are the same. ``conservative`` is the plain one until a
job comes that may have to borrow; from then on its reservations name their nodes, and none is later than it was.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from unrack.cluster.spec import Cluster
from unrack.kernels.arrays import Bools, Ints
from unrack.ledger.lease import Lease, loans_of
from unrack.ledger.memory.use import MemoryUse
from unrack.ledger.promises import PromisedRows, Promises
from unrack.policy.columns import LedgerColumns, columns_of
from unrack.policy.contract import EVERYTHING, Ability, Decision, Estimates, Need, Start, Traits
from unrack.policy.discipline.conservative import Conservative, freed
from unrack.policy.discipline.list_scheduler import BACKFILL, UNLIMITED, ListScheduler
from unrack.policy.discipline.slurm_like import SlurmLike
from unrack.policy.lending.backfill_kernel import Classes, plan_round
from unrack.policy.lending.lease_kernel import place_now, room_for_leases, somebody
from unrack.policy.lending.lender_cost import Aware
from unrack.policy.lending.notes import LendingNotes, StandIn, named_leases, with_claims
from unrack.policy.lending.queue_kernel import pass_over
from unrack.policy.lending.reservations_kernel import Reserved, reserve_round, take_if_free
from unrack.policy.lending.rules import RULES, THRESHOLDS, LendingRule, Terms, make_terms
from unrack.policy.orders import Order, in_order, is_fixed, reads_of
from unrack.policy.placement.lent_memory import LentMemory
from unrack.reasons import Code, Reason
from unrack.sealed import sealed
from unrack.units import SECOND_US
from unrack.view import View
from unrack.workload.job import CORES, MEMORY, TASKS, JobTable

SCHEDULERS = ("slurm", "fcfs", "easy", "conservative")


@dataclass(frozen=True)
class Lending:
    """A list scheduler with borrowed memory.

    Parameters
    ----------
    rule
        A name in ``RULES``.
    scheduler
        ``"slurm"``, ``"fcfs"``, ``"easy"`` or ``"conservative"``.
    depth
        How many jobs backfill looks at; ``None``: 100 of slurm, all otherwise.
    queue, interval_us
        Of slurm: how many jobs either loop looks at, and the time between two backfills.
    main
        Of slurm: ``"events"``, its main loop runs at every event; ``"interval"``: only at multiples of the interval.
    compress
        Of conservative, as for :class:`unrack.policy.discipline.conservative.Conservative`.
    order, estimates, label
        As for :class:`unrack.policy.discipline.list_scheduler.ListScheduler`.
    threshold
        Share of a node's memory that must be free for it to compute; 1: a node that lends does not compute. ``None``:
        as ``THRESHOLDS`` says.
    group
        ``"all"``, ``"rack"`` or a number of nodes that lend each other, within what the cluster allows.
    near
        Whether the nearest lenders are asked first.
    place
        Which nodes and devices are taken where jobs ask for devices: a name in
        :data:`unrack.policy.placement.mixed.PLACES`.
    counts
        Whether conservative may count nodes while nobody can have to borrow; not where leases grow.
    """

    rule: str = "disaggregated"
    scheduler: str = "slurm"
    depth: int | None = None
    queue: int = 100
    interval_us: int = 30 * SECOND_US
    main: str = "events"
    order: str | Order = "fcfs"
    estimates: Estimates = Estimates.REQUESTED
    threshold: float | None = None
    group: str | int = "all"
    near: bool = False
    label: str = "lending"
    place: str = "first-fit"
    counts: bool = True
    compress: str = "early"

    @cached_property
    def traits(self) -> Traits:
        """It lends memory among nodes that are one job's at a time."""
        reads = reads_of(self.order) | ({Need.RACKS} if self.near else frozenset())
        does = {Ability.POSSIBLE, Ability.TERMS} | ({Ability.PROMISED} if self.scheduler == "conservative" else set())
        return Traits(
            frozenset(), EVERYTHING | {Need.LOANS}, reads, self.estimates, whole_nodes=True, does=frozenset(does)
        )

    @property
    def name(self) -> str:
        """The label."""
        return self.label

    def share(self) -> float:
        """The threshold in force."""
        return THRESHOLDS.get(RULES[self.rule], 1.0) if self.threshold is None else self.threshold

    def terms(self, cluster: Cluster) -> Terms:
        """The terms on a cluster."""
        return make_terms(cluster, RULES[self.rule], self.share(), self.group, self.near)

    def possible(self, cluster: Cluster, jobs: JobTable) -> Bools:
        """bool[jobs]: which jobs have a place on the empty cluster."""
        terms, total = self.terms(cluster), sealed(np.stack([cluster.cores, cluster.memory_mb]))
        asks, inverse = np.unique(jobs.asks[[TASKS, CORES, MEMORY]], axis=1, return_inverse=True)
        found = np.empty(asks.shape[1], np.bool_)
        for i, (tasks, cores, mb) in enumerate(asks.T.tolist()):
            found[i] = tasks * cores <= cluster.total_cores and len(
                place_now(terms, total, total, somebody(tasks, cores, mb), None)[0]
            )
        return found[inverse.ravel()]

    def begin(self, view: View) -> LendingNotes:
        """Nothing planned yet."""
        cluster, jobs, nodes = view.cluster, view.columns.asks.shape[1], len(view.cluster)
        computes = np.flatnonzero(cluster.cores > 0)
        kinds, of = np.unique(view.total[:, computes], axis=1, return_inverse=True)
        class_of = np.full(nodes, -1, np.int64)
        class_of[computes] = of.ravel()
        first = np.array([int(np.flatnonzero(class_of == k)[0]) for k in range(kinds.shape[1])])
        rank = np.argsort(first).astype(np.int64)
        terms = self.terms(cluster)
        memory = LendingNotes(
            terms=terms,
            classes=Classes(
                class_of,
                np.stack([*kinds, rank, rank[np.argsort(-kinds[1][rank], kind="stable")]]),
                bool((terms.threshold_mb >= cluster.memory_mb).all()),
            ),
            begins=np.full(jobs, -1, np.int64),
            spans=np.zeros((4, jobs), np.int64),
            kept=room_for_leases(4 * nodes, 8 * nodes),
            out=room_for_leases(4 * nodes, 8 * nodes),
        )
        if self.scheduler == "conservative":
            self._resume(view, memory)
        return memory

    def _resume(self, view: View, memory: LendingNotes) -> None:
        """Go on with the reservations that were promised before, if there are any."""
        promises, made = view.promises, view.promises.by_job()
        memory.freed = freed(view, self.compress) if promises.freed is None else promises.freed
        if promises.beyond:
            memory.other = self._over_devices(view)
            return
        counted = any(promise.grain for promise in made.values())
        if self.counts and (self.never_borrows(view, memory) or counted):
            plain = Conservative(order=self.order, nodes="whole", estimates=self.estimates, compress=self.compress)
            memory.other = StandIn(plain, plain.begin(view), counts=True)
            if counted:
                memory.asked = 0  # whoever came since the last round may have to borrow
            return
        leases = [
            (job, made[job].start_us, lease) for job in view.queue.tolist()
            if job in made and (lease := made[job].lease) is not None and made[job].turn < 0
        ]  # fmt: skip
        memory.grow(sum(len(lease.rows) + len(lease.borrowed) for _, _, lease in leases))
        memory.kept = room_for_leases(len(memory.out.rows), len(memory.out.loans))
        row = loan = 0
        for job, start_us, lease in leases:
            rows, loans = lease.rows, loans_of(lease.borrowed)
            memory.kept.rows[row : row + len(rows)], memory.kept.loans[loan : loan + len(loans)] = rows, loans
            memory.begins[job] = start_us
            memory.spans[:, job] = row, row + len(rows), loan, loan + len(loans)
            row, loan = row + len(rows), loan + len(loans)

    def promised(self, view: View, memory: LendingNotes) -> Promises:
        """What is promised to waiting jobs; asked of the conservative scheduler alone."""
        if memory.other is not None:
            others: Promises = memory.other.policy.promised(view, memory.other.notes)
            return others
        made = PromisedRows(0, memory.begins, memory.spans, *memory.kept)
        return Promises(made, memory.freed)

    def never_borrows(self, view: View, memory: LendingNotes) -> bool:
        """Whether every job that came since has all its memory on whichever nodes it gets, and never has to borrow."""
        if RULES[self.rule] < LendingRule.LOCAL:
            return False
        tasks, cores, mb = view.asks[[TASKS, CORES, MEMORY], memory.asked :]
        memory.asked = view.jobs
        if not len(tasks):
            return True
        for node_cores, node_mb in np.unique(view.total[:, view.cluster.cores > 0], axis=1).T.tolist():
            each = np.where(cores > 0, node_cores // np.maximum(cores, 1), tasks)
            if bool((np.minimum(each, tasks) * mb > node_mb).any()):
                return False
        return True

    # --- deciding -----------------------------------------------------------------------------------------------

    def decide(self, view: View, memory: LendingNotes, now: int) -> tuple[list[Decision], LendingNotes]:
        """Start what may start now."""
        if (memory.other is None or memory.other.counts) and not memory.plenty.lasts(view):
            memory.other = self._over_devices(view)
        memory.make_room(view.columns.asks.shape[1])
        other = memory.other
        if other is not None and other.counts and not self.never_borrows(view, memory):
            memory.take_over(other.notes, named_leases(other.notes, view, view.queue, now))
        elif other is not None:
            decisions, other.notes = other.policy.decide(view, other.notes, now)
            return decisions, memory
        mark = freed(view, self.compress)
        compress, memory.freed = mark != memory.freed, mark
        if not view.waiting:
            return [], memory
        return with_claims(view, self._counted(view, memory, now, compress)), memory

    def _counted(self, view: View, memory: LendingNotes, now: int, compress: bool) -> list[Decision]:
        """Who starts, where nodes and memory are all that counts."""
        if self.scheduler == "slurm":
            return self._slurm(view, memory, now)
        if self.scheduler == "conservative":
            return self._conservative(view, memory, now, compress)
        rule = "easy" if self.scheduler == "easy" else "none"
        jobs = in_order(self.order, view, now)
        return self._pass(view, memory, jobs, now, BACKFILL[rule], self.depth or UNLIMITED)

    def _over_devices(self, view: View) -> StandIn:
        """The same scheduler over whatever jobs ask for, once one asks for devices."""
        return StandIn(self._beyond, self._beyond.begin(view), counts=False)

    @cached_property
    def _beyond(self) -> Any:
        rule = LentMemory(self.rule, self.place, self.threshold, self.group, self.near)
        both: dict[str, Any] = {
            "order": self.order, "estimates": self.estimates, "place": self.place, "nodes": "whole", "memory": rule,
            "label": self.label,
        }  # fmt: skip
        if self.scheduler == "conservative":
            return Conservative(compress=self.compress, **both)
        if self.scheduler == "slurm":
            return SlurmLike(self.interval_us, self.depth or 100, self.queue, self.main, **both)
        backfill = "easy" if self.scheduler == "easy" else "none"
        return ListScheduler(backfill=backfill, depth=self.depth or UNLIMITED, **both)

    def _pass(
        self, view: View, memory: LendingNotes, jobs: Ints, now: int, backfill: int, depth: int
    ) -> list[Decision]:
        """A pass in order; without backfill none if the head was blocked before and nothing was given back since."""
        nobody_passes = backfill == BACKFILL["none"]
        if nobody_passes and memory.blocked.still(view, jobs):
            return []
        seen, uses, aware = self._seen(view, memory)
        jobs = jobs if jobs.flags.writeable else jobs.copy()
        while True:
            count = pass_over(jobs, backfill, depth, now, memory.terms, seen, uses, aware, memory.started, memory.out)
            if count >= 0:
                break
            memory.grow(-count)
        if nobody_passes:
            memory.blocked.note(view, jobs, count)
        return memory.leases(count)

    def _slurm(self, view: View, memory: LendingNotes, now: int) -> list[Decision]:
        """The main loop; at a multiple of the interval, plan and backfill as well."""
        off = now % self.interval_us != 0
        if off and self.main == "interval":
            return []
        jobs = in_order(self.order, view, now)[: self.queue]
        if off or (memory.planned_at == now and memory.planned_version == view.version):
            return self._pass(view, memory, jobs, now, BACKFILL["none"], 0)
        jobs = jobs[: self.depth or 100].copy()
        memory.begins[jobs] = -1
        seen, uses, aware = self._seen(view, memory)
        while True:
            count = plan_round(
                jobs, now, memory.terms, seen, uses, aware, memory.classes, memory.begins, memory.started, memory.out
            )
            if count >= 0:
                break
            memory.grow(-count)
        memory.planned_at, memory.planned_version = now, -1 if count else view.version
        return memory.leases(count)

    def _conservative(self, view: View, memory: LendingNotes, now: int, compress: bool) -> list[Decision]:
        """Reserve for new jobs, move reservations forward if they may, start whose turn it is."""
        jobs = in_order(self.order, view, now).copy()
        seen, uses, aware = self._seen(view, memory)
        while True:
            short = reserve_round(
                jobs, now, memory.terms, seen, uses, aware, Reserved(memory.begins, memory.spans), memory.kept,
                compress, memory.out,
            )  # fmt: skip
            if short == 0:
                break
            memory.grow(-short)
        memory.out, memory.kept = memory.kept, memory.out
        free = seen.free.copy()
        decisions: list[Decision] = []
        for job in jobs[memory.begins[jobs] == now].tolist():
            first, last, loan, end = memory.spans[:, job].tolist()
            rows, loans = memory.kept.rows[first:last].copy(), memory.kept.loans[loan:end].copy()
            if take_if_free(free, memory.terms.threshold_mb, rows, loans):
                decisions.append(Start(Lease(job, rows, loans)))
                memory.begins[job] = -1
        return decisions

    def next_round(self, view: View, memory: LendingNotes, now: int) -> int | None:
        """Of slurm the next multiple of the interval, if jobs wait and something may come of it.

        Of conservative the next reservation that falls due, which need not be when something ends.
        """
        if memory.other is not None:
            wanted: int | None = memory.other.policy.next_round(view, memory.other.notes, now)
            return wanted
        if self.scheduler == "conservative" and view.waiting:
            due = memory.begins[view.queue]
            due = due[due > now]
            # jobs past their booked end are taken to end 1 µs from now, and reservations move on with that
            return int(due.min()) if len(due) and view.first_end_us > now else None
        if self.scheduler != "slurm" or not view.waiting:
            return None
        following = (now // self.interval_us + 1) * self.interval_us
        if memory.planned_version == view.version and is_fixed(self.order) and view.first_end_us > following:
            return None
        return following

    def why(self, view: View, memory: LendingNotes, job: int, now: int) -> Reason:
        """Too few nodes or too little memory, a reservation for later, or behind the head."""
        if memory.other is not None:
            reason: Reason = memory.other.policy.why(view, memory.other.notes, job, now)
            return reason
        tasks, cores, mb = (int(view.asks[row, job]) for row in (TASKS, CORES, MEMORY))
        free, total = view.columns.free, view.columns.total
        if not len(place_now(memory.terms, free, total, somebody(tasks, cores, mb), None)[0]):
            if not len(place_now(memory.terms, free, total, somebody(tasks, cores, 0), None)[0]):
                idle = int(((view.free[0] == view.total[0]) & (view.total[0] > 0)).sum())
                words = "whole idle nodes that do not lend" if self.share() > 0 else "whole idle nodes"
                return Reason(Code.NO_ROOM, words, -(-tasks * max(cores, 1) // int(view.total[0].max())), idle)
            return Reason(Code.NO_ROOM, "MB, local and borrowed", tasks * mb, int(view.free[1].sum()))
        if job < len(memory.begins) and memory.begins[job] > now:
            return Reason(Code.RESERVED, f"from {memory.begins[job] / SECOND_US:.0f} s")
        jobs = in_order(self.order, view, now)
        place = int(np.flatnonzero(jobs == job)[0])
        depth = min(self.queue, self.depth or 100) if self.scheduler == "slurm" else (self.depth or UNLIMITED)
        if place >= depth:
            return Reason(Code.TOO_DEEP, "jobs looked at", len(jobs), depth)
        if place and self.scheduler in ("fcfs", "easy"):
            code = Code.BEHIND if self.scheduler == "fcfs" else Code.WOULD_DELAY
            return Reason(code, f"job {view.job(int(jobs[0])).id}")
        return Reason(Code.NOT_YET)

    def _seen(self, view: View, memory: LendingNotes) -> tuple[LedgerColumns, MemoryUse, Aware | None]:
        """The ledger, who uses whose memory, and in runs with contention what ranks lenders under the rule for that."""
        uses = view.columns.memory
        assert uses is not None
        return columns_of(view), uses, memory.scratch.aware(view, RULES[self.rule] == LendingRule.AWARE)
