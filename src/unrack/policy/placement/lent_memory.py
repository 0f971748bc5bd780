"""Memory of other nodes, by the rules of :mod:`unrack.policy.lending`, on shared or on whole nodes.

On whole nodes, where jobs ask for nothing else, the leases are those of the lending policies. On shared nodes a node
that lends starts no tasks while it lends more than its threshold leaves it, whichever jobs run there already.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from unrack.cluster.spec import Cluster
from unrack.kernels.arrays import Bools, Ints
from unrack.ledger.lease import FIRST, LOCAL_MB, NODES, TASKS, Loan
from unrack.policy.contract import Ability
from unrack.policy.lending.lease_kernel import ANY, Asker, any_asker, spread_tasks
from unrack.policy.lending.lender_cost import RULES, THRESHOLDS, LendingRule, LendingTerms, Scratch, make_terms
from unrack.policy.placement.contract import Room, Spot
from unrack.policy.placement.node_kernel import Fit, place_one, room_for
from unrack.reasons import Code, Reason
from unrack.sealed import sealed
from unrack.view import View
from unrack.vocabulary import Need
from unrack.workload.job import CORES, ESTIMATE, MEMORY, JobTable
from unrack.workload.job import TASKS as ALL_TASKS

RUNS = "tightest-run"
FITS = {"first-fit": int(Fit.FIRST), "best-fit": int(Fit.BEST), "worst-fit": int(Fit.WORST), RUNS: int(Fit.RUN)}
PLACES = (
    "first-fit", "best-fit", "worst-fit", "max-composition", "min-fragmentation", "disaggregation-aware",
    "resource-aware", "lookahead", RUNS,
)  # fmt: skip
"""Rules for nodes and pools of devices; each places jobs without devices too."""
OF_DEVICES = PLACES[:-1]
"""Those that say something of devices."""
"""Which nodes are filled first, of jobs that ask for nothing but nodes; under any other rule the first."""


@dataclass(frozen=True)
class LocalMemory:
    """Every task has its memory where it runs."""

    place: str = "first-fit"  # which nodes are filled first: a name in ``FITS``; any other is first fit

    places: ClassVar[frozenset[Need]] = frozenset()
    does: ClassVar[frozenset[Ability]] = frozenset()
    near: ClassVar[bool] = False

    def begin(self, view: View) -> None:
        """Nothing."""

    def open_nodes(self, view: View, notes: None, lent: Ints | None = None) -> Bools:
        """All of them."""
        return np.ones(len(view.columns.online), np.bool_)

    def offers(self, view: View, notes: None, job: int, room: Room) -> Iterator[Ints]:
        """What is free there."""
        yield room.free[1]

    def spread(self, view: View, notes: None, job: int, room: Room, tasks: int, now: int) -> list[Spot] | None:
        """Nodes in the order of the rule."""
        cores, mb = view.asks[[CORES, MEMORY], job].tolist()
        return fill(room, tasks, cores, mb, self.place)

    def kind(self, view: View, job: int) -> object:
        """Nothing else counts."""
        return None

    def lacks(self, view: View, notes: None, job: int, room: Room) -> Reason:
        """Places with enough memory."""
        tasks, cores, mb = view.asks[[ALL_TASKS, CORES, MEMORY], job].tolist()
        free, total = shown(room)
        return Reason(Code.NO_ROOM, f"places for tasks of {mb} MB", tasks, int(room_for(free, total, cores, mb, False)))

    def possible(self, cluster: Cluster, jobs: JobTable) -> Bools:
        """bool[jobs]: which fit on the empty nodes."""
        asks, inverse = np.unique(jobs.asks[[ALL_TASKS, CORES, MEMORY]], axis=1, return_inverse=True)
        total = sealed(np.stack([cluster.cores, cluster.memory_mb]))
        fits = [room_for(total, total, cores, mb, False) >= tasks for tasks, cores, mb in asks.T.tolist()]
        return np.array(fits, np.bool_)[inverse.ravel()]


def shown(room: Room) -> tuple[Ints, Ints]:
    """Free and installed amounts as the kernels take them: nodes that take no task have nothing."""
    closed = room.cores < 0
    free = np.concatenate([np.where(closed, 0, room.cores), np.where(closed, 0, room.free[1])]).reshape(2, -1)
    return sealed(free), sealed(np.where(closed, 0, np.maximum(free, 1)))


def fill(room: Room, tasks: int, cores: int, mb: int, place: str) -> list[Spot] | None:
    """Nodes with all memory that tasks ask for, in the order of a rule; ``None``: they do not hold all tasks."""
    free, total = shown(room)
    rows = place_one(free, total, tasks, cores, mb, room.whole, FITS.get(place, int(Fit.FIRST)))
    if not len(rows):
        return None
    return [
        Spot(node, row[TASKS], row[LOCAL_MB])
        for row in rows.tolist()
        for node in range(row[FIRST], row[FIRST] + row[NODES])
    ]


def on_one_node(room: Room, node: int) -> Room:
    """The same where no other node takes a task."""
    cores = np.full(len(room.cores), -1, np.int64)
    cores[node] = room.free[0, node]
    return room._replace(cores=cores)


def room_on(view: View, job: int, whole: bool, open_nodes: Bools) -> Room:
    """What a job finds; ``whole``: only on nodes of which no job holds a core."""
    state = view.columns
    usable = open_nodes & (state.total[0] > 0) & state.online
    if whole:
        usable &= state.free[0] == state.total[0]
    free = state.free.copy()
    if view.cluster.places.windows:  # nodes that are kept for others lend it nothing
        free[1, ~view.outside_windows(job)] = 0
    lent = np.zeros(len(usable), np.int64) if state.memory is None else state.memory.lent.copy()
    return Room(np.where(usable, free[0], -1), free, lent, whole)


def hold(room: Room, spot: Spot, cores: int) -> None:
    """Take out of a room what tasks of so many cores each hold."""
    room.cores[spot.node] -= cores * spot.tasks
    room.free[:, spot.node] -= (cores * spot.tasks, spot.mb)
    for loan in spot.loans:
        room.free[1, loan.lender] -= loan.mb
        room.lent[loan.lender] += loan.mb


def joined_loans(spots: list[Spot]) -> list[Loan]:
    """One loan for each node with tasks and lender, in order of the nodes."""
    mb = dict[tuple[int, int], int]()
    for spot in sorted(spots, key=lambda spot: spot.node):
        for loan in spot.loans:
            mb[loan.node, loan.lender] = mb.get((loan.node, loan.lender), 0) + loan.mb
    return [Loan(*pair, amount) for pair, amount in mb.items()]


@dataclass(slots=True)
class Lenders:
    """What does not change in a run, and scratch for the choice by contention."""

    terms: LendingTerms
    scratch: Scratch = field(default_factory=Scratch)
    section: Ints = field(init=False)  # int64[nodes]: the group of each; those of none are one behind the others
    grouped: Bools = field(init=False)  # bool[nodes]: which are of a group

    def __post_init__(self) -> None:
        """Work out what the terms say of nodes."""
        self.grouped = self.terms.group != -1
        self.section = np.where(self.grouped, self.terms.group, self.terms.groups)


@dataclass(frozen=True)
class LentMemory:
    """Tasks may borrow memory of other nodes."""

    rule: str  # a name in ``RULES``
    place: str = "first-fit"  # which nodes are filled first where no task has to borrow
    # threshold, group, near: as of ``make_terms``; threshold ``None``: as of the rule
    threshold: float | None = None
    group: str | int = "all"
    near: bool = False

    places: ClassVar[frozenset[Need]] = frozenset({Need.LOANS})
    does: ClassVar[frozenset[Ability]] = frozenset({Ability.POSSIBLE, Ability.TERMS})

    def terms(self, cluster: Cluster) -> LendingTerms:
        """The terms on a cluster."""
        share = THRESHOLDS.get(RULES[self.rule], 1.0) if self.threshold is None else self.threshold
        return make_terms(cluster, RULES[self.rule], share, self.group, self.near)

    def may_lend(self, cluster: Cluster) -> Ints:
        """int64[nodes]: how many MB a node may lend and run tasks."""
        return np.ascontiguousarray(cluster.memory_mb - self.terms(cluster).threshold_mb)

    def may_borrow(self, view: View, since: int) -> bool:
        """Whether memory is lent, or a job from number ``since`` on may lack some wherever it runs on whole nodes."""
        if RULES[self.rule] < LendingRule.LOCAL or bool(view.lent.any()):
            return True
        tasks, cores, mb = view.asks[[ALL_TASKS, CORES, MEMORY], since:]
        if not len(tasks) or int((tasks * mb).max()) <= int(view.total[1, view.cluster.cores > 0].min()):
            return False
        for node_cores, node_mb in np.unique(view.total[:, view.cluster.cores > 0], axis=1).T.tolist():
            each = np.where(cores > 0, node_cores // np.maximum(cores, 1), tasks)
            if bool((np.minimum(each, tasks) * mb > node_mb).any()):
                return True
        return False

    def begin(self, view: View) -> Lenders:
        """The terms."""
        return Lenders(self.terms(view.cluster))

    def open_nodes(self, view: View, notes: Lenders, lent: Ints | None = None) -> Bools:
        """bool[nodes]: which do not lend more than they may while they compute."""
        lent = view.lent if lent is None else lent
        return np.asarray(lent <= view.columns.total[1] - notes.terms.threshold_mb)

    def offers(self, view: View, notes: Lenders, job: int, room: Room) -> Iterator[Ints]:
        """What is free there; and what is free within reach."""
        if self._local_first:
            yield room.free[1]
        section, own, limits = notes.section, room.free[1], self._lendable(view, room)
        lend = np.minimum(own, limits) if len(limits) else own
        free = np.bincount(section, lend, notes.terms.groups + 1).astype(np.int64)
        yield free[section] + free[-1] * notes.grouped + own - lend

    def spread(self, view: View, notes: Lenders, job: int, room: Room, tasks: int, now: int) -> list[Spot] | None:
        """Nodes that have all memory, under rules that look for them first; or nodes and lenders."""
        cores, mb = view.asks[[CORES, MEMORY], job].tolist()
        found = fill(room, tasks, cores, mb, self.place) if self._local_first else None
        return self._lent(view, notes, job, room, tasks, now) if found is None else found

    def chosen_by(self, view: View, notes: Lenders) -> tuple[LendingTerms, Any]:
        """The terms, and what ranks lenders (``None``: nothing does), for kernels."""
        return notes.terms.kernel, self._aware(view, notes)

    def _lendable(self, view: View, room: Room) -> Ints:
        """What each node may lend besides what it does; none: all that is free."""
        return ANY if view.lendable is None else view.lendable - (room.lent - view.lent)

    def _aware(self, view: View, notes: Lenders) -> Any:
        if view.contention is None:
            return None
        return notes.scratch.aware(view, RULES[self.rule] == LendingRule.AWARE)

    def kind(self, view: View, job: int) -> object:
        """Nothing else counts: contention decides which nodes lend, not whether any does."""
        return None

    def lacks(self, view: View, notes: Lenders, job: int, room: Room) -> Reason:
        """Memory, wherever it is."""
        tasks, mb = view.asks[[ALL_TASKS, MEMORY], job].tolist()
        return Reason(Code.NO_ROOM, "MB, local and borrowed", tasks * mb, int(room.free[1].sum()))

    def possible(self, cluster: Cluster, jobs: JobTable) -> Bools:
        """bool[jobs]: which have nodes and memory on the empty cluster."""
        terms, free = self.terms(cluster), sealed(np.stack([cluster.cores, cluster.memory_mb]))
        asks, inverse = np.unique(jobs.asks[[ALL_TASKS, CORES, MEMORY]], axis=1, return_inverse=True)
        fits = []
        for tasks, cores, mb in asks.T.tolist():
            each = np.where(cluster.cores > 0, cluster.cores // cores if cores else tasks, 0)
            there = int(each.sum()) >= tasks and int(free[1].sum()) >= tasks * mb
            if there and self._local_first and int(np.minimum(each, free[1] // mb if mb else tasks).sum()) >= tasks:
                fits.append(True)
            elif there and terms.groups > 1:
                room = sealed(np.where(cluster.cores > 0, cluster.cores, -1))
                fits.append(len(spread_tasks(terms.kernel, room, free, free, any_asker(tasks, cores, mb), None)[0]) > 0)
            else:
                fits.append(there)
        return np.array(fits, np.bool_)[inverse.ravel()]

    @property
    def _local_first(self) -> bool:
        return RULES[self.rule] >= LendingRule.DISAGGREGATED

    def _lent(self, view: View, notes: Lenders, job: int, room: Room, tasks: int, now: int) -> list[Spot] | None:
        state = view.columns
        cores, mb, length = view.asks[[CORES, MEMORY, ESTIMATE], job].tolist()
        runs, limits = (state.running, state.running_count), self._lendable(view, room)
        asker = Asker(job, now, *runs, tasks, cores, mb, max(1, length), ANY, ANY, limits)
        own, aware = (sealed(room.cores), sealed(room.free)), self._aware(view, notes)
        nodes, taken, local, loans = spread_tasks(notes.terms.kernel, *own, state.total, asker, aware)
        if not len(nodes):
            return None
        lent: dict[int, list[Loan]] = {}
        for loan in loans.tolist():
            lent.setdefault(loan[0], []).append(Loan(*loan))
        return [
            Spot(node, count, mb_here, tuple(lent.get(node, ())))
            for node, count, mb_here in zip(nodes.tolist(), taken.tolist(), local.tolist(), strict=True)
        ]
