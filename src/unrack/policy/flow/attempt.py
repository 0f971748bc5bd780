"""One attempt of a round: a network for each group of resources, one after the other, and leases of whole gangs.

First tasks go to nodes, by cores, memory and what is built into nodes; then each device that a task asks for goes to a
host, with the task's node as its preference (Amaral 2019, algorithm 5). A job of which a sub-task stays without a host
gets nothing.

For jobs that ask for more than nodes and whole devices (lent memory, shares and parts of devices, GPUs by a rule) the
network says on which nodes their tasks go; the rest is placed there as other disciplines place it. A rule for GPUs,
where one is given, chooses among all machines for the jobs that it is for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import numpy as np

from unrack.kernels.arrays import Bools, Floats, Ints
from unrack.ledger.lease import Lease
from unrack.policy.around import UNIT
from unrack.policy.flow.assignment import Assignment, Sides, assign
from unrack.policy.flow.costs import CostModel, Costs, NetworkLoad, Phase, load_at, postpones
from unrack.policy.flow.left import MOST, Left, Sort, Sorts
from unrack.policy.gpus.rule import GpuRule
from unrack.policy.placement.contract import MemoryRule, MixedNotes
from unrack.policy.placement.lent_memory import LocalMemory
from unrack.policy.placement.mixed import Mixed
from unrack.view import Draft, View

MOST_COST = 1000
"""Costs above this, or below its negative, are no different; so is waiting for more rounds than come to it."""


class FlowTerms(NamedTuple):
    """How networks are made and solved: see :class:`unrack.policy.flow.scheduler.Flow`."""

    cost: CostModel
    weight: float
    solver: str
    local: bool


class Classes(NamedTuple):
    """Sub-tasks that are alike."""

    supply: Ints  # int64[classes]: how many there are
    row: Ints  # int64[classes]: which row of the phase they are of
    rounds: Ints  # int64[classes]: in how many rounds they were left waiting
    at: Ints  # int64[classes]: the host that is the node they were given; -1: none
    stay: Ints  # int64[classes]: the host that they have, of running jobs; -1: none


class Solved(NamedTuple):
    """A phase after its network was solved, for explanations."""

    phase: Phase
    alike: Ints  # int64[sorts]: which sort stands for each in the network
    classes: Classes
    sides: Sides
    assignment: Assignment


def solved(
    terms: FlowTerms, phase: Phase, costs: Costs, alike: Ints, classes: Classes, room: Ints, force: bool, move: float
) -> Solved:
    """Assign the sub-tasks of a phase to its hosts.

    ``alike``: of :func:`stand_ins`; ``room``: int64[hosts], how many sub-tasks each host could take in all; ``force``:
    whether waiting costs more than any placement; ``move``: what it costs to have a sub-task of a running job elsewhere
    than where it is.
    """
    supplied = np.bincount(classes.row, classes.supply, len(phase.sorts)).astype(np.int64)
    room = np.minimum(room, supplied.sum())
    most = np.minimum(phase.fits, np.minimum(room[None], supplied[:, None]))
    may = np.isfinite(costs.place)
    place = np.where(may, costs.place, 0)
    waiting = whole(costs.waiting[classes.row] + terms.weight * classes.rounds) + 1  # never just as good as a place
    if force:
        waiting = np.full(len(classes.row), 10 * MOST_COST * UNIT)
    preferred = [arcs_to(classes.at, room, costs.preferred[classes.row] + move * (classes.at != classes.stay))]
    if move:
        stay = np.where((classes.stay != classes.at) & (classes.stay >= 0), classes.stay, -1)
        preferred.append(arcs_to(stay, room, place[classes.row, classes.stay]))
    sides = Sides(
        classes.supply, classes.row, waiting, np.where(may, most, 0), whole(place + move), room,
        np.concatenate(preferred), None if phase.chosen else most,
    )  # fmt: skip
    return Solved(phase, alike, classes, sides, assign(sides, terms.solver))


def stand_ins(phase: Phase, costs: Costs, ample: Ints) -> Ints:
    """int64[sorts]: the first sort that is the same to the network, so that what no job lacks divides no sort.

    Those are that ask for as many cores and MB, cost as much, and find room for as many as others that ask for no more
    (``ample``: int64[sorts, hosts]), wherever they find any.
    """
    found = np.arange(len(phase.sorts))
    asks = np.array([(sort.cores, sort.mb) for sort in phase.sorts], np.int64).T
    own, _ = numbered(np.concatenate([asks, costs.waiting[None], costs.preferred[None]]))
    first: dict[tuple[int, bytes, bytes], int] = {}
    for row in np.flatnonzero(np.bincount(own)[own] > 1).tolist():
        fits = phase.fits[row]
        if ((fits == 0) | (fits == ample[row])).all():
            place = np.where(fits > 0, costs.place[row], 0.0)
            found[row] = first.setdefault((int(own[row]), fits.tobytes(), place.tobytes()), row)
    return found


def arcs_to(host: Ints, room: Ints, cost: Floats) -> Ints:
    """int64[arcs, 3]: arcs of the classes that have a host of their own (-1: none), if it has room."""
    own = np.flatnonzero((host >= 0) & (room[host] > 0))
    return np.stack([own, host[own], whole(cost[own])], axis=1)


def whole(cost: Floats) -> Ints:
    """Costs as whole numbers of 1/UNIT."""
    return np.rint(np.clip(cost, -MOST_COST, MOST_COST) * UNIT).astype(np.int64)


class Tasks(NamedTuple):
    """The tasks of jobs: which job (by its place in the attempt), and its node; -1: none."""

    job: Ints
    node: Ints


class RunningSubTasks(NamedTuple):
    """Where the sub-tasks of running jobs are."""

    nodes: Ints  # int64[tasks]: the node of each task, by job
    hosts: dict[int, Ints]  # kind to the host of each device, int64[devices], by job
    move: float  # what it costs to have a sub-task elsewhere


class Members(NamedTuple):
    """The sub-tasks of a network, int64[sub-tasks] each: their job (by its place in the attempt), class and host.

    The host is -1 where a sub-task was left waiting.
    """

    job: Ints
    of: Ints
    host: Ints


@dataclass
class FlowAttempt:
    """Networks for some jobs, and what came out."""

    jobs: Ints  # int64[k]: the jobs, in their order
    phases: list[Solved] = field(default_factory=list)  # every network with the group of resources that it is about
    members: list[Members] = field(default_factory=list)  # the sub-tasks of each of them
    # where each task goes
    tasks: Tasks = field(default_factory=lambda: Tasks(np.empty(0, np.int64), np.empty(0, np.int64)))
    # kind to the host of each device of each task, int64[tasks, devices] of the tasks that ask for it by job
    hosts: dict[int, dict[int, list[list[int]]]] = field(default_factory=dict)
    # int64[k]: the phase in which a sub-task of a job stayed without a host; -1: none
    lost: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    # those of which a task cannot have its devices from the node that it was given
    cut: set[int] = field(default_factory=set)
    force: bool = False  # whether to wait cost more than any place


def attempted(
    terms: FlowTerms, left: Left, sorts: Sorts, network: NetworkLoad, jobs: Ints, open_nodes: Bools, now: int,
    force: bool, held: RunningSubTasks | None = None,
) -> FlowAttempt:  # fmt: skip
    """Solve the networks of all groups of resources for some jobs.

    ``force``: whether to wait costs more than any place; ``held``: of jobs that run: where they are.
    """
    found = FlowAttempt(jobs, lost=np.full(len(jobs), -1, np.int64), force=force)
    kinds = sorts.of[jobs]
    late = sorts.rounds[jobs] >= postpones(terms.cost) if postpones(terms.cost) else np.zeros(len(jobs), np.bool_)
    rounds = sorts.rounds[jobs]
    row, first = numbered(np.stack([kinds, late]))
    every = [sorts.every[kind] for kind in kinds[first].tolist()]
    per_job = np.array([sort.tasks for sort in every], np.int64)[row]
    fits = np.stack([left.fits(sort, open_nodes, terms.local) for sort in every])
    nodes = np.arange(len(left.cores))
    phase = Phase(
        left.view, now, "nodes", every, nodes, fits, late[first], False, network.on_nodes(left.view, every),
        np.ones(len(every)), network.load(left.view), network.sensitivity(left.view, every), network.seen(every, nodes),
    )  # fmt: skip
    sub_job = np.repeat(np.arange(len(jobs)), per_job)
    none = np.full(len(sub_job), -1, np.int64)
    wants = Wants(row[sub_job], rounds[sub_job], none, none if held is None else held.nodes)
    move = 0.0 if held is None else held.move
    ample = np.stack([left.tasks_on(sort.cores, sort.mb * terms.local) for sort in every])
    at = _assigned(found, terms, phase, sub_job, wants, fits.max(axis=0), move, ample)
    found.tasks = Tasks(sub_job, at)
    np.maximum.at(found.lost, sub_job[at < 0], 0)
    for kind, hosts in left.hosts.items():
        if held is not None and (found.lost >= 0).any():
            break  # no task moves then
        if hosts.built_in:
            continue
        asks = np.array([(sort.devices or {}).get(kind, 0) for sort in every], np.int64)[row]
        tasks = np.flatnonzero((asks[sub_job] > 0) & (found.lost[sub_job] < 0))
        if len(tasks):
            _devices(found, terms, left, network, kind, tasks, asks, (kinds, late, rounds), now, sorts, held)
    return found


def _devices(
    found: FlowAttempt, terms: FlowTerms, left: Left, network: NetworkLoad, kind: int, tasks: Ints, asks: Ints,
    of_jobs: tuple[Ints, Bools, Ints], now: int, sorts: Sorts, held: RunningSubTasks | None,
) -> None:  # fmt: skip
    hosts, free = left.hosts[kind], left.counts(kind)
    kinds, late, rounds = of_jobs
    job, node = found.tasks.job[tasks], found.tasks.node[tasks]
    count = asks[job]
    unit_job, unit_node = np.repeat(job, count), np.repeat(node, count)
    away = network.room_away(left, [sorts.every[one] for one in kinds[job].tolist()], node)
    row, first = numbered(np.stack([kinds[unit_job], late[unit_job], hosts.reach[unit_node], np.repeat(away, count)]))
    every = [sorts.every[one] for one in kinds[unit_job[first]].tolist()]
    near = hosts.patterns[hosts.reach[unit_node[first]]]
    ample = np.where(near, free, 0)
    fits = np.minimum(ample, network.room_at(left, every, hosts))
    fits *= np.repeat(away, count)[first][:, None]
    slowdown, home = network.elsewhere(left.view, every, hosts)
    load = load_at(network.load(left.view), hosts.home)
    phase = Phase(
        left.view, now, hosts.name, every, hosts.home, fits, late[unit_job[first]], True, slowdown, home, load,
        network.sensitivity(left.view, every), network.seen(every, hosts.home),
    )  # fmt: skip
    local = hosts.local[unit_node]
    local = np.where((local >= 0) & near[row, np.maximum(local, 0)], local, -1)
    stay = np.full(len(unit_job), -1, np.int64)
    if held is not None:  # a task that goes to another node takes all of its devices anew
        same = np.repeat(held.nodes[tasks] == node, count)
        stay[same] = held.hosts[kind][same]
    wants = Wants(row, rounds[unit_job], local, stay)
    at = _assigned(found, terms, phase, unit_job, wants, free, 0.0 if held is None else held.move, ample)
    np.maximum.at(found.lost, unit_job[at < 0], len(found.phases) - 1)
    first_unit = np.cumsum(count) - count
    own = np.where(local >= 0, free[np.maximum(local, 0)], 0)[first_unit]
    found.cut.update(job[fits.sum(axis=1)[row[first_unit]] + own < count].tolist())
    by_task = found.hosts.setdefault(kind, {})
    ends = np.cumsum(count).tolist()
    for task_job, end, many in zip(job.tolist(), ends, count.tolist(), strict=True):
        by_task.setdefault(task_job, []).append(at[end - many : end].tolist())


class Wants(NamedTuple):
    """Sub-tasks, int64[sub-tasks] each: row of the phase, rounds waited, host at their node, host where they are."""

    row: Ints
    rounds: Ints
    at: Ints
    stay: Ints


def _assigned(
    found: FlowAttempt, terms: FlowTerms, phase: Phase, job: Ints, wants: Wants, room: Ints, move: float, ample: Ints
) -> Ints:
    """int64[sub-tasks]: the host of each, -1: none; ``job``: the job of each, by its place in the attempt."""
    costs = terms.cost(phase)
    alike = stand_ins(phase, costs, ample)
    wants = wants._replace(row=alike[wants.row])
    of, first = numbered(np.stack(wants))
    row, rounds, at, stay = (column[first] for column in wants)
    classes = Classes(np.bincount(of).astype(np.int64), row, rounds, at, stay)
    one = solved(terms, phase, costs, alike, classes, np.minimum(room, MOST), found.force, move)
    found.phases.append(one)
    owner, host = one.assignment.owner, one.assignment.host
    order = np.argsort(of, kind="stable")
    starts = np.cumsum(classes.supply) - classes.supply
    rank = np.arange(len(owner)) - np.searchsorted(owner, owner)
    hosts = np.full(len(of), -1, np.int64)
    hosts[order[starts[owner] + rank]] = host
    found.members.append(Members(job, of, hosts))
    return hosts


def numbered(keys: Ints) -> tuple[Ints, Ints]:
    """A number for every column, equal where columns are, in order of first appearance; and where each is first.

    Examples
    --------
    >>> numbered(np.array([[5, 2, 5], [0, 0, 0]]))[0].tolist()
    [0, 1, 0]
    """
    _, first, number = np.unique(keys, axis=1, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(first), np.int64)
    rank[order] = np.arange(len(first))
    return rank[number.ravel()], first[order]


Way = tuple[Mixed, MixedNotes]
"""A placement, and its notes."""


@dataclass(eq=False)
class Inside:
    """Another rule for memory, kept to some nodes; lenders may be anywhere. All else is as the rule says."""

    rule: MemoryRule
    nodes: Bools | None = None  # where tasks may run; ``None``: everywhere

    def open_nodes(self, view: View, notes: Any, lent: Ints | None = None) -> Bools:
        """Those of the rule, within bounds."""
        found = self.rule.open_nodes(view, notes, lent)
        return found if self.nodes is None else found & self.nodes

    def __getattr__(self, name: str) -> Any:
        if name == "rule":  # of a copy in the making
            raise AttributeError(name)
        return getattr(self.rule, name)


@dataclass
class Beyond:
    """The placement of such jobs, and the ledger as it is after the first ``done`` leases of the round."""

    general: Way
    inside: Inside
    by_gpus: Way | None = None
    draft: Draft | None = None
    done: int = 0

    @staticmethod
    def of(view: View, place: str, memory: MemoryRule, whole: bool, gpus: GpuRule | None) -> Beyond:
        """For a cluster as it is now."""
        inside = Inside(memory)
        ways = [Mixed(place, cast(MemoryRule, inside), whole)]
        if gpus is not None and isinstance(memory, LocalMemory):
            ways.append(Mixed(place, memory, whole, gpus))
        general, *by_gpus = [(mixed, mixed.begin(view)) for mixed in ways]
        return Beyond(general, inside, by_gpus[0] if by_gpus else None)

    def forget(self) -> None:
        """A new round begins."""
        self.draft, self.done = None, 0

    def open_nodes(self, view: View) -> Bools:
        """bool[nodes]: which may run tasks at all."""
        return self.inside.open_nodes(view, self.general[1].memory)

    def needed(self, view: View, job: int, sort: Sort) -> bool:
        """Whether a job asks for more than nodes and whole devices; the same for all of a sort."""
        if sort.devices is None or not isinstance(self.inside.rule, LocalMemory):
            return True
        return self._by_rule(view, job, sort) is not None

    def _by_rule(self, view: View, job: int, sort: Sort) -> Way | None:
        """The placement by the rule for GPUs, if it is for the job."""
        if self.by_gpus is None or sort.devices != {}:
            return None
        mixed, notes = self.by_gpus
        return self.by_gpus if mixed.gpus is not None and mixed.gpus.serves(view, notes.gpus) else None

    def placing(self, view: View, job: int, sort: Sort) -> Way:
        """The placement of a job on any nodes, as other disciplines place it, and its notes."""
        return self._by_rule(view, job, sort) or self.general

    def opens_us(self, view: View, jobs: list[int], now: int) -> int | None:
        """When, if nothing happens, one of these jobs has a place that it has not now, µs; ``None``: never."""
        ways = [way for way in (self.general, self.by_gpus) if way is not None]
        found = [mixed.opens_us(view, notes, jobs, now) for mixed, notes in ways if jobs]
        return min((time for time in found if time is not None), default=None)

    def lease(
        self, view: View, left: Left, job: int, sort: Sort, given: tuple[list[int], Ints | None] | None, now: int,
        decided: list[Lease],
    ) -> Lease | None:  # fmt: skip
        """A lease, taken out of what is left; ``None``: there is none.

        Parameters
        ----------
        given
            The node of each of its tasks, and rows of these if there is room (int64[rows, 5]), on which all tasks stay
            if they find what else they ask there; ``None``: they may be anywhere. A rule for GPUs chooses among all
            nodes.
        decided
            The leases of this round so far.
        """
        if self.draft is None:
            self.draft, self.done = Draft(view, now), 0
        for lease in decided[self.done :]:
            self.draft.start(lease)
        self.done = len(decided)
        mixed, notes = self.placing(view, job, sort)
        found = None
        if given is not None and notes is self.general[1]:
            nodes, rows = given
            self.inside.nodes = np.zeros(len(left.cores), np.bool_)
            self.inside.nodes[nodes] = True
            if rows is not None:
                found = mixed.on(self.draft.view, notes, job, now, Lease(job, rows))
        if found is None:
            found = mixed.find(self.draft.view, notes, job, now)
        self.inside.nodes = None
        if found is None or not left.holds(found):
            return None
        left.take(found)
        return found
