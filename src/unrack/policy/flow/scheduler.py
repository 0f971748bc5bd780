"""Flow rounds (Amaral 2019, chapter 5, DRMaestro): all that wait are placed at once, at least total cost.

A round takes the jobs that wait, in order, as far as all they ask together is free. A network for each group of
resources says which task goes where: first tasks to nodes, then each of their devices to a host, which need not be the
node. A job starts with all it asks for, or not at all; what a job without all of it would have held goes to others in
the same round. Each network is solved by min-cost flow: O(classes + sorts x hosts) arcs, where equal tasks are one
class and equal hosts one group.

What differs from the thesis: its flows are normalised sums of resources (eq. 10), which may split a task between
machines; here each task is one unit, and a host takes as many as fit by each resource. Running tasks are not in the
network: they hold what they hold, but in the rounds in which tasks may move. A job that ``passes``
others have passed is placed before all others, and until it has its place only those start that are done before it has
one, as booked: so no job starves.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from unrack.kernels.arrays import Ints
from unrack.ledger.lease import Lease
from unrack.policy.around import RoundCount, RoundStory
from unrack.policy.contract import EVERYTHING, Decision, Estimates, Start, Traits
from unrack.policy.flow.attempt import MOST_COST, Beyond, FlowAttempt, FlowTerms, attempted
from unrack.policy.flow.costs import COSTS, CostModel, NetworkLoad, postpones
from unrack.policy.flow.left import Left, Sort, Sorts, batch_of, hosts_of
from unrack.policy.flow.notes import (
    FEW,
    FlowNotes,
    RoundFate,
    lease_of,
    left_beside,
    moves,
    node_rows,
    plain_leases,
    promised,
)
from unrack.policy.flow.stories import counted, told, why
from unrack.policy.gpus.rule import GpuRule
from unrack.policy.orders import Order, changes_us, in_order, learns_of, reads_of
from unrack.policy.placement.contract import MemoryRule
from unrack.policy.placement.lent_memory import LocalMemory
from unrack.policy.placement.mixed import Mixed
from unrack.reasons import Reason
from unrack.units import NEVER_US, SECOND_US
from unrack.view import View

SINGLY = 20
"""How many jobs that came apart in every network of a round are tried one by one at its end."""


@dataclass(frozen=True)
class Flow:
    """Rounds in which all that wait are placed together.

    Parameters
    ----------
    cost
        What a placement costs: a name in ``COSTS`` or a function of one's own.
    interval_us
        Time between rounds, at whole multiples of it; 0: a round at every event.
    weight
        What each round of waiting adds to the cost of waiting.
    passes
        How many jobs behind it may start before a job; then it goes before all others.
    solver
        A name in :data:`unrack.solver.min_cost_flow.SOLVERS`; results are the same.
    remote
        Whether a device may be used from another node than the one in which it sits.
    migrate_us
        Time between rounds in which running tasks may move, at whole multiples of it; 0: they never do.
    move
        What it costs to move a sub-task.
    order
        In which order jobs are taken into a round.
    place
        By which rule shares and parts of devices are chosen, on the nodes that the network chose.
    nodes, estimates, memory, gpus, label
        As for :class:`unrack.policy.discipline.reservations.Conservative`.
    """

    cost: str | CostModel = "utility"
    interval_us: int = SECOND_US
    weight: float = 1.0
    passes: int = 20
    solver: str = "auto"
    remote: bool = True
    migrate_us: int = 0
    move: float = 1.0
    order: str | Order = "fcfs"
    nodes: str = "shared"
    estimates: Estimates = Estimates.REQUESTED
    label: str = "flow"
    memory: MemoryRule = field(default_factory=LocalMemory)
    place: str = "first-fit"
    gpus: GpuRule | None = None

    @property
    def name(self) -> str:
        """The label."""
        return self.label

    @cached_property
    def traits(self) -> Traits:
        """It places all that jobs ask for."""
        return Traits(
            places=self.memory.places | EVERYTHING,
            reads=reads_of(self.order, None),
            estimates=self.estimates,
            whole_nodes=self.nodes == "whole",
            by_models=Mixed(self.place).pooled.by_models,
            learns=learns_of(self.order),
        )

    def begin(self, view: View) -> FlowNotes:
        """No job has waited yet."""
        devices = view.cluster.devices
        hosts = {kind: hosts_of(devices, kind, not self.remote) for kind in range(len(devices.kinds))}
        beyond = Beyond.of(view, self.place, self.memory, self.nodes == "whole", self.gpus)
        return FlowNotes(Sorts(), hosts, NetworkLoad.of(view), beyond)

    def decide(self, view: View, memory: FlowNotes, now: int) -> tuple[list[Decision], FlowNotes]:
        """Start all that a round gives a place; in a migration round, move the jobs that gain by it."""
        if self.migrate_us and now % self.migrate_us == 0 and memory.moved_us != now and view.running_count:
            memory.moved_us = now
            if decisions := self._moves(view, memory, now):
                return decisions, memory
        if not view.waiting or (self.interval_us and now % self.interval_us):
            return [], memory
        if memory.version == view.version and now < memory.again_us:
            return [], memory
        return FlowRound(self, view, memory, now).run(), memory

    def next_round(self, view: View, memory: FlowNotes, now: int) -> int | None:
        """The next multiple of the interval at which something may have changed; at interval 0 when time changes it."""
        first = self._next(view, memory, now)
        if not self.migrate_us or not view.running_count:
            return first
        move = (now // self.migrate_us + 1) * self.migrate_us
        return move if first is None else min(first, move)

    def _moves(self, view: View, memory: FlowNotes, now: int) -> list[Decision]:
        open_nodes = memory.beyond.open_nodes(view)
        left = Left.of(view, memory.hosts, self.nodes == "whole", open_nodes, now)
        if decisions := moves(view, memory, left, self.terms, open_nodes, self.move, now):
            memory.counts.extend(counted(memory, now))
        return decisions

    def _next(self, view: View, memory: FlowNotes, now: int) -> int | None:
        if not view.waiting:
            return None
        every = self.interval_us or SECOND_US
        if memory.version == view.version:
            if memory.again_us >= NEVER_US:
                return None
            if not self.interval_us:
                return max(memory.again_us, now + 1)
            return max(-(-memory.again_us // every), now // every + 1) * every
        return (now // every + 1) * every if self.interval_us else None

    def why(self, view: View, memory: FlowNotes, job: int, now: int) -> Reason:
        """What was dearer or full."""
        return why(view, memory, self.passes, job, now)

    def rounds(self, memory: FlowNotes) -> Ints:
        """Numbers of all rounds."""
        return np.array(memory.counts, np.int64).reshape(-1, len(RoundCount._fields))

    def round_story(self, view: View, memory: FlowNotes) -> RoundStory | None:
        """The last round: its networks, which jobs were placed and which were left."""
        return told(view, memory, self.passes)

    @cached_property
    def terms(self) -> FlowTerms:
        """How networks are made and solved."""
        cost = COSTS[self.cost] if isinstance(self.cost, str) else self.cost
        return FlowTerms(cost, self.weight, self.solver, isinstance(self.memory, LocalMemory))


class FlowRound:
    """One round: attempts on what is left, until no waiting job can be given a place any more."""

    def __init__(self, flow: Flow, view: View, notes: FlowNotes, now: int) -> None:
        self.flow, self.view, self.notes, self.now = flow, view, notes, now
        self.open_nodes = notes.beyond.open_nodes(view)
        self.left = Left.of(view, notes.hosts, flow.nodes == "whole", self.open_nodes, now)
        self.leases: list[Lease] = []
        self.full = set[int]()  # jobs for which nodes were too full, in the last attempt

    def run(self) -> list[Decision]:
        """The decisions."""
        notes, sorts = self.notes, self.notes.sorts
        jobs = in_order(self.flow.order, self.view, self.now, notes.noted).copy()
        sorts.learn(self.view, jobs, self.view.app[None])
        notes.attempts, notes.rounds = [], notes.rounds + 1
        if len(notes.fate) < len(sorts.of):
            notes.fate = np.zeros(len(sorts.of), np.int64)
        notes.fate[jobs] = RoundFate.NOT_SEEN
        notes.beyond.forget()
        passed = sorts.passed[jobs] >= self.flow.passes
        self._beside(jobs[passed], jobs[~passed])
        gone = np.isin(jobs, [lease.job for lease in self.leases])
        stay = jobs[~gone]
        sorts.rounds[stay] += 1
        sorts.passed[stay] += np.cumsum(gone[::-1])[::-1][~gone]
        self._note_applications()
        notes.waited, notes.started = jobs, self.leases
        notes.counts.extend(counted(notes, self.now))
        notes.idle = 0 if self.leases or notes.version != self.view.version else notes.idle + 1
        notes.version = self.view.version + len(self.leases)
        notes.again_us = self._again_us(stay)
        rule = self.flow.cost if isinstance(self.flow.cost, str) else ""
        return [Start(lease, rule) for lease in self.leases]

    def _beside(self, passed: Ints, others: Ints) -> None:
        """Place those that many have passed, each alone and in order, and the others together.

        Once one of the first has no place, others start on what will be left beside it, or if they are done before.
        """
        for at in range(len(passed)):
            if self._alone(int(passed[at]), force=True):
                continue
            others = np.concatenate([passed[at + 1 :], others])
            left, done = self.left, len(self.leases)
            until, beside = self._promised(int(passed[at]))
            if beside is None:
                self._together(others)
                return
            self.left = beside
            self._together(others)
            for lease in self.leases[done:]:
                left.take(lease)
            self.left = left
            rest = others[~np.isin(others, [lease.job for lease in self.leases[done:]])]
            late = self.now + self.view.estimate_us[rest] > until
            self._together(rest[~late])
            self.notes.fate[rest[late]] = RoundFate.BEHIND
            return
        self.notes.promise = None
        self._together(others)

    def _promised(self, job: int) -> tuple[int, Left | None]:
        """When a job that has no place now will have one (µs), as was promised or is booked now, and what is beside.

        ``None``: it never will, and nothing is kept for it.
        """
        notes, beyond = self.notes, self.notes.beyond
        mixed, own = beyond.placing(self.view, job, notes.sorts.every[int(notes.sorts.of[job])])
        if notes.promise is None or notes.promise.job != job or notes.promise.start_us <= self.now:
            notes.promise = promised(self.view, mixed, own, job, self.leases, self.now)
        if notes.promise.start_us >= NEVER_US:
            return NEVER_US, None
        return notes.promise.start_us, left_beside(self.left, self.view, mixed, own, notes.promise, self.leases)

    def _together(self, jobs: Ints) -> None:
        """Place the others together, and again if gangs that came apart would have held what others may have now."""
        rest, apart = jobs, True
        while apart and len(rest):
            count = len(rest)
            rest, apart = self._pass(rest)
            if len(rest) == count:
                break
        lone = rest[self.notes.fate[rest] == RoundFate.APART]
        for job in lone[:SINGLY].tolist():
            self._alone(job)

    def _alone(self, job: int, force: bool = False) -> bool:
        """Place one job by networks of its own, or as other disciplines place it; whether it has a place."""
        if not self._fits(int(self.notes.sorts.of[job])):
            self.notes.fate[job] = RoundFate.NO_PLACE
            return False
        if self._attempt(np.array([job], np.int64), force):
            return True
        if not force and self.notes.fate[job] != RoundFate.APART:
            return False
        sort = self.notes.sorts.every[int(self.notes.sorts.of[job])]
        lease = self.notes.beyond.lease(self.view, self.left, job, sort, None, self.now, self.leases)
        if lease is not None:
            self.leases.append(lease)
        return lease is not None

    def _pass(self, rest: Ints) -> tuple[Ints, bool]:
        """Place jobs in batches; which are left, and whether gangs among them came apart.

        A sort of which one has no place is not tried again: nothing is given back meanwhile, but what gangs would have
        held. Nor are sorts that ask for as much of the same nodes, if it was these that were too full.
        """
        fate, of, apart = self.notes.fate, self.notes.sorts.of, False
        closed = np.zeros(len(self.notes.sorts.every), np.bool_)
        while len(rest):
            can = rest[~closed[of[rest]]]
            closed[[kind for kind in np.unique(of[can]).tolist() if not self._fits(kind)]] = True
            fate[can[closed[of[can]]]] = RoundFate.NO_PLACE
            can = can[~closed[of[can]]]
            if not len(can):
                break
            fits = batch_of(self.left, self.notes.sorts, can, self.flow.terms.local)
            batch = can[fits]
            fate[can[~fits]] = RoundFate.TOO_MUCH
            if not len(batch):
                break
            alike = {kind: self._alike(kind) for kind in np.unique(of[can]).tolist()}
            done = np.isin(batch, self._attempt(batch))
            rest = rest[~np.isin(rest, batch[done])]
            if done.all():
                break
            closed[of[batch[~done]]] = True
            full = {alike[kind] for kind in of[sorted(self.full)].tolist()}
            closed[[kind for kind, own in alike.items() if own in full]] = True
            apart = apart or self._came_apart(batch[~done])
        return rest, apart

    def _fits(self, kind: int) -> bool:
        return bool(self.left.fits(self.notes.sorts.every[kind], self.open_nodes, self.flow.terms.local).any())

    def _alike(self, kind: int) -> tuple[int, int, int, bytes]:
        """What the nodes know of a sort."""
        sort = self.notes.sorts.every[kind]
        fits = self.left.fits(sort, self.open_nodes, self.flow.terms.local)
        return sort.tasks, sort.cores, sort.mb, fits.tobytes()

    def _came_apart(self, jobs: Ints) -> bool:
        """Whether one of these jobs of the last attempt would have held something that is free again."""
        last, sorts = self.notes.attempts[-1], self.notes.sorts
        lost = last.lost[np.isin(last.jobs, jobs)]
        gangs = [sorts.every[sort].tasks > 1 for sort in np.unique(sorts.of[jobs]).tolist()]
        return bool((lost != 0).any()) or any(gangs)

    def _attempt(self, jobs: Ints, force: bool = False) -> list[int]:
        """Networks for some jobs, and leases of those with all they ask; which started."""
        notes, sorts = self.notes, self.notes.sorts
        found = attempted(self.flow.terms, self.left, sorts, notes.network, jobs, self.open_nodes, self.now, force)
        notes.attempts.append(found)
        notes.fate[jobs[found.lost >= 0]] = RoundFate.WAITS
        notes.fate[jobs[sorted(found.cut)]] = RoundFate.APART
        of, before, placed = sorts.of[jobs], len(self.leases), np.flatnonzero(found.lost < 0)
        kinds = np.unique(of).tolist()
        simple = np.zeros(len(sorts.every), np.bool_)
        simple[kinds] = [self._on_nodes_alone(sorts.every[kind]) for kind in kinds]
        self.full = set(jobs[found.lost == 0].tolist())
        ends = np.searchsorted(found.tasks.job, np.arange(len(jobs) + 1)).tolist()
        for run in np.split(placed, np.flatnonzero(np.diff(simple[of[placed]])) + 1):  # in the order of the jobs
            if len(run) > FEW and simple[of[run[0]]]:
                self._plain(found, run, slice(ends[run[0]], ends[run[-1] + 1]))
                continue
            for at in run.tolist():
                self._lease(found, sorts.every[int(of[at])], at, found.tasks.node[ends[at] : ends[at + 1]].tolist())
        return [lease.job for lease in self.leases[before:]]

    def _on_nodes_alone(self, sort: Sort) -> bool:
        """Whether jobs of a sort ask for cores and memory of their nodes, and for nothing else."""
        return not sort.devices and not sort.claims.any() and not self.notes.beyond.needed(self.view, sort.job, sort)

    def _lease(self, found: FlowAttempt, sort: Sort, at: int, nodes: list[int]) -> None:
        """Give one job what the networks say, if it can be held together."""
        job, beyond, rows = int(found.jobs[at]), self.notes.beyond, node_rows(self.left, sort, nodes)
        if rows is None:
            self.full.add(job)
        if beyond.needed(self.view, job, sort):
            lease = beyond.lease(self.view, self.left, job, sort, (nodes, rows), self.now, self.leases)
        else:
            hosts = {kind: by_job.get(at, []) for kind, by_job in found.hosts.items()}
            lease = lease_of(self.left, sort, job, rows, nodes, hosts)
        if lease is None:
            self.notes.fate[job] = RoundFate.APART
        else:
            self.leases.append(lease)

    def _plain(self, found: FlowAttempt, at: Ints, tasks: slice) -> None:
        """The same for jobs that ask for nodes alone, all at once; ``tasks``: where theirs are, beside others'."""
        sorts, (of_task, node) = self.notes.sorts, found.tasks
        jobs, mine = found.jobs[at], np.isin(of_task[tasks], at)
        task_job = np.searchsorted(at, of_task[tasks][mine])
        every, of = np.unique(sorts.of[jobs], return_inverse=True)
        own = [sorts.every[sort] for sort in every.tolist()]
        leases = plain_leases(self.left, own, jobs, of.ravel(), task_job, node[tasks][mine])
        self.leases += leases
        if len(leases) < len(at):
            full = jobs[~np.isin(jobs, [lease.job for lease in leases])]
            self.notes.fate[full] = RoundFate.APART
            self.full.update(full.tolist())

    def _note_applications(self) -> None:
        ran, sorts = self.notes.network.ran, self.notes.sorts
        for lease in self.leases if self.flow.cost == "locality" or callable(self.flow.cost) else ():
            ran.setdefault(sorts.every[int(sorts.of[lease.job])].app, set()).update(lease.nodes.tolist())

    def _again_us(self, stay: Ints) -> int:
        """When time alone may give one that stays a place: waiting grows dearer with every round, and patience ends."""
        notes, fate = self.notes, self.notes.fate[stay]
        first = NEVER_US if len(stay) < 2 else changes_us(notes.noted, self.now) or NEVER_US
        dearest = MOST_COST / self.flow.weight + postpones(self.flow.terms.cost)
        of = self.notes.sorts.of[stay[(fate == RoundFate.WAITS) & (notes.sorts.passed[stay] < self.flow.passes)]]
        if notes.idle <= dearest and any(self._fits(kind) for kind in np.unique(of).tolist()):
            first = min(first, self.now + (self.flow.interval_us or SECOND_US))
        opens = notes.beyond.opens_us(self.view, stay[fate == RoundFate.APART].tolist(), self.now)
        return first if opens is None else min(first, opens)
