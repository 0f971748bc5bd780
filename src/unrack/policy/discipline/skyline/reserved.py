"""What is reserved for waiting jobs, and what is known of what they ask.

Reservations count nodes or cores as long as that is exact; with the first job for which it is not they are laid onto
nodes, none later than it was.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np

from unrack.kernels.arrays import Ints
from unrack.ledger.columns import CPU, grown, grown_rows
from unrack.ledger.jobs import FINISHED, REJECTED, Promise, PromisedRows, Promises
from unrack.ledger.lease import NODES as LEASE_NODES
from unrack.ledger.lease import TASKS as LEASE_TASKS
from unrack.ledger.lease import Lease, as_rows, attached, from_rows, nodes_of
from unrack.policy.contract import Decision, Start
from unrack.policy.discipline.skyline.columns import (
    CHOICE,
    DEVICES,
    ELSEWHERE,
    KEPT,
    LEDGER,
    LENT,
    LENT_DEVICES,
    Grain,
    Ledger,
    PlanColumns,
    PlanRule,
    Wants,
    columns_for,
    kept_of,
    limits_of,
    met,
    spans_of,
    windows_of,
)
from unrack.policy.discipline.skyline.starting import first_due
from unrack.policy.placement.claiming import claims_anywhere, claims_at_least, nodes_of_its_own
from unrack.policy.placement.lent_memory import FITS
from unrack.resources.places import NO_CLAIMS
from unrack.units import NEVER_US
from unrack.view import DeviceLine, View
from unrack.workload.job import CORES as CORES_ASKED
from unrack.workload.job import ESTIMATE, TASKS

NODES = int(Grain.NODES)
MOST_KEPT = 62
"""Of how many kinds of places on nodes kernels know."""
FEW_ASKED = 100
"""So many choices are made outside of kernels before the one that makes them would be compiled."""
NO_LIMITS: Ints = np.zeros(0, np.int64)
BY_JOB = {"start": -1, "where": 0, "held": -1, "wants": 0, "fixed_at": 0, "kind": -1, "kept_of": 0, "due": -1}
"""Columns by job, and what they are of a job that is not known yet."""


@dataclass(slots=True)
class Reserved:
    """What is reserved, and how the cluster is grouped for planning."""

    in_pass: ClassVar[bool] = True  # whether nodes with kept cores are chosen by a kernel

    rule: PlanRule
    columns: PlanColumns
    replaced: int = -1  # how many of its columns the ledger had replaced when these were taken over
    fixed: int = 0  # how many claims are noted that are the same wherever a job runs
    later: bool = True  # whether what is free at times to come is asked about
    known: int = 0  # of how many jobs it is known what decides where they go
    chosen: bool = False  # whether of any of them that is a choice
    every: bool = False  # whether it is of all of them
    lends: bool = False  # whether memory may be that of other nodes
    only_lent: bool = False  # whether nodes and memory can be chosen without all else
    in_kernel: bool = False  # whether nodes, memory and devices can be chosen in a kernel
    completes: bool = False  # whether what is ample is chosen when a job starts, and not before
    ample: set[int] = field(default_factory=set)  # jobs that find all that depends on where they run, wherever they do
    modelled: bool = False  # whether one of them asks for devices on which jobs slow each other down
    noted: dict[str, Any] = field(default_factory=dict)  # of orders: a :data:`unrack.policy.orders.Noted`
    leases: dict[int, Lease] = field(default_factory=dict)  # reservations that hold devices, or of several components
    choosing: int = -1  # the place in the order of the job for which a choice was made last
    # whether a promise was taken over with a lease that means nothing here: all are to be made anew, in order of start
    lost: bool = False
    freed: int = 0  # what had been given back by the last round: if more has been since, reservations may move forward
    planned_version: int = -1
    planned_at: int = -1
    rounds: int = 0  # how many there were
    asked: int = 0  # how many choices were made outside of kernels
    notes: Any = None  # of the placement, where a choice was made
    line: DeviceLine | None = None  # devices over time, where a choice was made
    ledger: Ledger = field(default_factory=Ledger)

    @classmethod
    def begin(
        cls, view: View, whole: bool, place: Any, every: bool = False, lends: bool = False, may_lend: Ints = NO_LIMITS
    ) -> Self:
        """Nothing is reserved.

        ``every``: where all jobs go is chosen. ``lends``: and their memory may be elsewhere; how much of it a node may
        lend and run tasks says ``may_lend``, where that counts.
        """
        nodes, jobs = view.total.shape[1], view.columns.asks.shape[1]
        rule = PlanRule(int(Grain.NODES), whole, FITS.get(place, 0))
        plan = cls(rule, columns_for(Ledger().of(view, lends), nodes, jobs), chosen=every, every=every, lends=lends)
        plan.replace(may_lend=may_lend, aside=limits_of(view))
        plan.look_at_sets(view)
        servers = lends and not whole and view.cluster.tiers is not None
        plan.only_lent = servers or (place == "first-fit" and len(may_lend) > 0)
        kernels = lends or not every  # they know no rule for GPUs
        plan.in_kernel = kernels and place in FITS and view.slo is None and lends == (len(may_lend) > 0)
        plan.note_jobs(view)
        plan.group(view, place)
        return plan

    def group(self, view: View, place: Any) -> None:
        """Group the nodes; a plan does."""

    @classmethod
    def resumed(cls, view: View, *how: Any) -> Self:
        """As :meth:`begin`, with the promises made so far."""
        plan, promised = cls.begin(view, *how), view.promises.by_job()
        kept = [(job, promised[job]) for job in view.queue.tolist() if job in promised] if promised else []
        leases = [plan._lease_of(view, job, promise) for job, promise in kept]
        grains = {promise.grain for _, promise in kept}
        plan.lost = any(lease is None for lease in leases) or len(grains) > 1
        rows, claims = [plan.columns.rows[:0]], [NO_CLAIMS]
        row = claim = 0
        for (job, promise), lease in zip(kept, leases, strict=True):
            plan.columns.start[job] = promise.start_us
            if lease is not None:
                own = as_rows(lease, plan.places)
                length = max(1, int(view.asks[ESTIMATE, job]))
                plan.columns.where[:, job] = row, row + len(own[0]), claim, claim + len(own[1]), length
                if lease.shares or lease.parts:
                    plan.leases[job] = lease
                rows.append(own[0])
                claims.append(own[1])
                row, claim = row + len(own[0]), claim + len(own[1])
        if kept and not plan.lost:
            c = plan.columns  # with room for as many as the kernel may write before it asks for more
            own_rows, own_claims = np.concatenate(rows), np.concatenate(claims)
            plan.replace(rows=grown_rows(own_rows, len(c.new_rows)), claims=grown_rows(own_claims, len(c.new_claims)))
            plan.lay(view, np.array([job for job, _ in kept]), None if NODES in grains else plan._promised_groups(view))
        return plan

    def lay(self, view: View, jobs: Ints, before: Ints | None) -> None:
        """Lay reservations of other groups (int64[nodes]; by default nodes) on those of this plan; a plan does."""

    def _promised_groups(self, view: View) -> Ints | None:
        """int64[nodes]: the groups that promises count; ``None``: not known, as they were kept without them.

        Where all jobs may use all nodes at all times there is one way to group them.
        """
        alone = len(view.columns.open_to) == 1 and not len(self.columns.windows)
        return self.columns.of if view.promises.of is None and alone else view.promises.of

    def _lease_of(self, view: View, job: int, promise: Promise) -> Lease | None:
        """What was promised, in groups of this plan; ``None``: it means nothing here."""
        tasks, lease = int(view.asks[TASKS, job]), promise.lease
        if job in view.components.of and (lease is None or not lease.parts):
            return None
        claims = NO_CLAIMS if lease is None else lease.claims
        counts, of = self.grain == Grain.CORES, None if promise.grain == NODES else self._promised_groups(view)
        first, last = self.columns.group_spans[self.columns.set_of[job]].tolist()
        if counts and lease is None and last == first + 1 and self.columns.wants[job] == Wants.NODES:
            node = int(np.argmax(self.columns.of == first))  # one stands for its group
            rows = np.array([[node if of is None else of[node], 1, tasks, tasks, 0]], np.int64)
            return Lease(job, rows, claims=claims)
        if lease is None or promise.grain not in (self.grain, NODES) or (len(lease.borrowed) and not self.lends):
            return None
        rows, groups, seen = lease.rows, lease.rows[:, LEASE_NODES], view.columns.claimed
        if not (self.completes or lease.parts or seen is None):  # what was ample then is claimed now
            on_each, devices = np.repeat(rows[:, LEASE_TASKS], groups), attached(lease.shares, seen.home)
            if not seen.places.agree(seen.asked(job), nodes_of(rows), on_each, lease.claims, devices):
                return None
        last = len(self.columns.of) if promise.grain == NODES else 0 if of is None else int(of.max()) + 1
        there = len(rows) > 0 and int((rows[:, 0] + groups).max()) <= last
        there = there and (not len(claims) or int(claims[:, 0].max()) < len(self.columns.slot))
        return lease if there and int(groups @ rows[:, LEASE_TASKS]) == tasks else None

    @property
    def grain(self) -> Grain:
        """What a group of the plan is."""
        return Grain(self.rule.grain)

    @property
    def places(self) -> int:
        """How many places there are of resources."""
        nodes: int = self.columns.now.shape[1]
        return len(self.columns.slot) - self.lends * nodes

    def promised(self) -> Promises:
        """What is promised after a round."""
        c = self.columns
        made = PromisedRows(self.rule.grain, c.start, c.where, c.rows, c.claims, self.places, self.leases)
        return Promises(made, self.freed, None if self.rule.grain == NODES else c.of)

    def note_jobs(self, view: View) -> None:
        """Note of jobs that were submitted since what decides where they go."""
        first, self.known = self.known, view.jobs
        if first == self.known:
            return
        seen, devices, components, status = view.columns.claimed, view.columns.devices, view.components.of, view.status
        plain = seen is None and devices is None and not components
        if plain and not self.every:
            return
        self.make_room(view)
        wants, own, before = self.columns.wants, self.rule.whole and not self.lends, self.chosen
        if plain:
            some = view.asks[CORES_ASKED, first:] > 0
            lent = self.only_lent and (some | self.rule.whole)
            self.chosen, wants[first : self.known] = True, np.where(lent, Wants.LENT, self._elsewhere)
            return
        completes = self.completes and (self.only_lent if self.lends else not self.every)
        for job in range(first, self.known):
            if status[job] in (FINISHED, REJECTED):
                continue
            asks = devices is not None and devices.asks(job)
            claims, several = claims_anywhere(view, job, own), job in components
            kept = 0 if claims is not None or asks or several else self._claims_cores(view, job)
            chooses = completes and (asks or claims is None) and not (several or kept)
            if chooses and (found := self._beside_ample(view, job, own)) is not None:
                self.ample.add(job)
                asks, (claims, kept) = False, found
            if kept:
                wants[job], self.columns.kept_of[job] = Wants.CLAIMS, kept
            elif asks or claims is None or several or self.every:
                wants[job], self.chosen = self._wants(view, job, asks, claims is not None and not several), True
            elif claims is not None and len(claims):
                wants[job] = Wants.CLAIMS
            if asks and devices is not None:
                self.modelled = self.modelled or bool((devices.columns.model[:, job] >= 0).any())
            claims = claims_at_least(view, job) if claims is None else claims
            if len(claims):
                end = self.fixed
                self.fixed += len(claims)
                if self.fixed > len(self.columns.fixed):
                    self.replace(fixed=grown_rows(self.columns.fixed, self.fixed))
                self.columns.fixed[end : self.fixed] = claims
                self.columns.fixed_at[:, job] = end, self.fixed

        if self.chosen and not before and self.columns.kept_of.any():  # in a pass in which some are chosen these are
            wants[self.columns.kept_of > 0], self.columns.kept_of[:] = Wants.CHOICE, 0
        new = wants[: self.known]
        if self.ample and ((new >= CHOICE) & (new != LENT)).any():  # these choose among what the others hold
            self.completes, self.lost, self.ample = False, self.lost or min(self.ample) < first, set()
            self.known = self.fixed = wants[:] = self.columns.fixed_at[:] = 0
            self.note_jobs(view)

    def _beside_ample(self, view: View, job: int, own: bool) -> tuple[Ints, int] | None:
        """What a job claims wherever it runs, and in which rows of ``kept_at`` beside that, if all else is ample.

        Suspended jobs hold what is ample, and no cores.
        """
        seen, cores, tasks = view.columns.claimed, int(view.asks[CORES_ASKED, job]), int(view.asks[TASKS, job])
        full = -(-view.total[CPU] // max(1, cores))
        if not cores or view.columns.suspended or not (view.devices is None or view.devices.ample(job, full)):
            return None
        if seen is None:
            return NO_CLAIMS, 0
        claims = seen.anywhere(job, tasks, nodes_of_its_own(view, job) if own else 0, full)
        kept = 0 if claims is not None else self._claims_cores(view, job, full)
        return (seen.at_least(job, tasks, full), kept) if kept else None if claims is None else (claims, 0)

    def _claims_cores(self, view: View, job: int, full: Ints | None = None) -> int:
        """In which rows of ``kept_at`` a job claims, a bit each, if a kernel may choose its nodes; else 0.

        ``full``: as of :meth:`unrack.resources.places.Places.anywhere`.
        """
        seen, places = view.columns.claimed, view.cluster.places
        plain = self.in_pass and not (self.chosen or self.lends) and 0 < len(places.by_node) <= MOST_KEPT
        first = not self.rule.whole and self.rule.fit == FITS["first-fit"] and view.asks[CORES_ASKED, job] > 0
        if not (plain and first) or seen is None:
            return 0
        return sum(1 << row for row in places.by_cores(seen.asked(job), int(view.asks[TASKS, job]), full) or ())

    def _wants(self, view: View, job: int, asks: bool, anywhere: bool) -> Wants:
        """Of a job with a choice; ``asks``: for devices; ``anywhere``: what it claims is the same wherever it runs."""
        some = view.asks[CORES_ASKED, job] > 0
        if asks and anywhere and some and self.in_kernel:
            return Wants.LENT_DEVICES if self.lends else Wants.DEVICES
        if not asks and anywhere and self.only_lent and (self.rule.whole or some):
            return Wants.LENT
        return self._elsewhere

    @property
    def _elsewhere(self) -> Wants:
        return Wants.ELSEWHERE if self.lends else Wants.CHOICE

    def chosen_in_kernel(self, jobs: Ints) -> bool:
        """Whether the devices of all that ask for any can be chosen in a kernel, and that is worth it."""
        if self.asked <= FEW_ASKED or not (self.in_kernel and self.chosen) or self.modelled:
            return False
        wants = set(self.columns.wants[jobs].tolist())
        return not wants.isdisjoint((DEVICES, LENT_DEVICES)) and wants.isdisjoint((CHOICE, ELSEWHERE))

    def outgrown(self, view: View, scheduler: Any) -> bool:
        """Whether a job has come for which counting cores is never exact, or nodes where memory is lent from now on."""
        since = self.known
        self.note_jobs(view)
        if self.chosen and self.rule.grain != NODES:
            return True
        return scheduler.lends and not self.lends and bool(scheduler.borrows(view, since))

    def by_start(self, jobs: Ints) -> Ints:
        """The jobs in order of reserved start, those without a reservation last.

        Where all may use the same nodes, a job that is given the earliest place in this order, on whatever groups,
        never starts later than reserved: at its start those before it have begun, so that what is free then stays free.
        """
        start = self.columns.start[jobs]
        return jobs[np.argsort(np.where(start < 0, NEVER_US, start), kind="stable")]

    def reserved(self, job: int) -> int:
        """When a job is to start, µs; -1: not known."""
        return int(self.columns.start[job]) if job < len(self.columns.start) else -1

    def forget(self, jobs: Ints) -> None:
        """Nothing is reserved for these jobs."""
        self.columns.start[jobs] = -1

    def due_us(self, view: View, now: int) -> int | None:
        """When the next reservation falls due after ``now``, µs, as of :func:`starting.due_after`; ``None``: never."""
        due = first_due(self.columns.start, view.queue, now, view.first_end_us <= now)
        return None if due == NEVER_US else due

    def make_room(self, view: View) -> None:
        """Make room for as many jobs as the ledger has."""
        room = view.columns.asks.shape[1]
        if len(self.columns.start) < room:
            self.replace(**{name: grown(getattr(self.columns, name), room, fill) for name, fill in BY_JOB.items()})

    def look_at_sets(self, view: View) -> None:
        """Take over which nodes jobs may use, and when."""
        seen, (windows, rows, claims), (kept, kept_at) = view.columns, windows_of(view), kept_of(view)
        self.replace(
            installed=seen.open_to.copy(), spans=spans_of(seen.open_to), set_free=np.zeros(len(seen.open_to), np.int64),
            stays=np.zeros(len(seen.open_to), np.int64),
            set_owner=seen.set_owner.copy(), meets=met(seen.open_to), windows=windows,
            window_rows=rows, window_groups=rows, window_claims=claims, kept=kept, kept_at=kept_at,
            grown=np.full((2, len(seen.open_to) + len(self.columns.slot)), NEVER_US),
        )  # fmt: skip
        self.columns.cursor[KEPT] = 0

    def look(self, view: View) -> None:
        """Take over columns of the ledger that it has replaced."""
        mark, own, seen = self.mark(view), self.columns, view.columns
        if seen.asks is not own.asks or seen.free is not own.free or self.replaced != mark:
            self.replaced = mark
            self.take_over(view)

    def mark(self, view: View) -> int:
        """What grows whenever the ledger replaces columns."""
        claims = 0 if view.columns.claimed is None else view.columns.claimed.replaced
        return view.columns.replaced + claims + (view.version if self.lends or view.grows is not None else 0)

    def take_over(self, view: View, **expected: Ints) -> None:
        """Take over the columns of the ledger, with others in place of some."""
        self.replace(**dict(zip(LEDGER, self.ledger.of(view, self.lends, self.later), strict=True)) | expected)
        if len(self.columns.installed) != len(view.columns.open_to):
            self.look_at_sets(view)
        self.make_room(view)

    def expect(self, running: Ints) -> None:
        """Running jobs are to end at other times than they are booked to, until the next look at the ledger."""
        self.replace(running=running)
        self.replaced = -1

    def replace(self, **columns: Ints) -> None:
        """Other columns in place of some; those that are the same change nothing."""
        if all(getattr(self.columns, name) is column for name, column in columns.items()):
            return
        self.columns = self.columns._replace(**columns)

    def lease(self, s: int) -> Lease:
        """What the job holds that is number ``s`` among those that start, but for devices."""
        c = self.columns
        job, row, end, claim, claim_end = c.started[:5, s].tolist()
        claims = c.new_claims[claim:claim_end]
        claims = claims[claims[:, 0].argsort()] if c.kept_of[job] else claims
        return from_rows(job, c.out[row:end], claims, self.places)

    def counted(self, count: int) -> list[Start]:
        """Starts of those on places that were not chosen."""
        if count == 0:
            return []
        if len(self.columns.slot):
            return [Start(self.lease(s)) for s in range(count)]
        c = self.columns
        jobs, first, end = c.started[:3, :count].tolist()
        return [Start(Lease(jobs[i], c.out[first[i] : end[i]].copy())) for i in range(count)]

    def by_rule(self, view: View, scheduler: Any, starts: list[Start]) -> list[Decision]:
        """Starts with the rule that placed them; there is none where nodes are counted."""
        nameless = (self.chosen or self.notes is not None) and not all(start.rule for start in starts)
        if not nameless or not scheduler.beyond_nodes(view):
            return [*starts]
        rule = scheduler.placement.rule(scheduler.notes(view, self))
        return [start if start.rule else start._replace(rule=rule) for start in starts]
