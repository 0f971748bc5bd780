"""The GPUs of a cluster: where each of them is, and what jobs claim of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from unrack.errors import ClusterError
from unrack.jit import compiled, inlined
from unrack.kernels.arrays import Bools, Ints
from unrack.reasons import Code, Reason
from unrack.resources.contract import ANY_NUMBER, NONE_ATTACHED, Gangs, Nodes, Place, Usual
from unrack.resources.gpus.choice import choose_on_node, may_begin, tasks_that_fit
from unrack.resources.gpus.columns import (
    APART,
    COUNT,
    GRAPH,
    GRAPHS,
    MILLI,
    MIN_UTILITY,
    QUANTITIES,
    SLICES,
    TOGETHER,
    WEIGHT,
    WHOLE,
    Ask,
    FleetFile,
    Gpus,
    ask_of,
    gpu_columns,
    machine_of,
    nodes_named,
)
from unrack.resources.gpus.machines.machine import PRESETS, Machine
from unrack.resources.gpus.machines.written import written
from unrack.resources.gpus.profiles import Profiles, read_profiles
from unrack.sealed import shown

ANY = 1 << 30
"""Vertices of a graph for as many GPUs as there are."""
DECIDE = (COUNT, MILLI, SLICES, TOGETHER, APART)
"""Quantities that decide whether a job has a place."""


@compiled
def holds_what_it_asks(gpus: Gpus, ask: Ask, nodes: Ints, tasks: Ints, claims: Ints) -> bool:
    """Whether every claim belongs to a task, and every task has what it asks; places ascend."""
    row = 0
    for i in range(nodes.shape[0]):
        node, on_it = nodes[i], tasks[i]
        kind = gpus.kind[node]
        first, end = gpus.first[node], gpus.first[node + 1]
        begin, total = row, 0
        while row < claims.shape[0] and first <= claims[row, 0] < end:
            amount = claims[row, 1]
            total += amount
            if ask.slices == 0 and (amount % ask.milli or amount < 1 or amount > min(WHOLE, on_it * ask.milli)):
                return False
            row += 1
        if ask.gpus == 0:
            if row > begin:
                return False
        elif ask.slices:
            if kind < 0 or gpus.slices[kind] == 0 or not are_blocks(gpus, node, ask.slices, on_it, claims[begin:row]):
                return False
        elif kind < 0 or gpus.slices[kind] or total != on_it * ask.gpus * ask.milli:
            return False
    return bool(row == claims.shape[0])


@inlined
def are_blocks(gpus: Gpus, node: int, size: int, tasks: int, claims: Ints) -> bool:
    """Whether claims are so many blocks of slices, each where a block may begin."""
    each = gpus.slices[gpus.kind[node]]
    if claims.shape[0] != tasks * size:
        return False
    for block in range(tasks):
        start = claims[block * size, 0] - gpus.first[node]
        if not may_begin(each, size, start % each):
            return False
        for i in range(size):
            if claims[block * size + i, 0] != gpus.first[node] + start + i or claims[block * size + i, 1] != 1:
                return False
    return True


class Fleet(Usual):
    """The GPUs of a cluster; see :class:`unrack.resources.contract.Installed`.

    Attributes
    ----------
    nodes
        Those of the cluster.
    machines
        Each kind of machine once.
    gpus
        Their GPUs in columns.
    profiles
        How applications get on with each other.
    graphs
        Names of communication graphs, by number.
    """

    quantities = QUANTITIES

    def __init__(self, file: FleetFile, nodes: Nodes, where: str) -> None:
        self._file, self.nodes = file, nodes
        kind = np.full(len(nodes.cores), -1, np.int64)
        machines: dict[Machine, int] = {}
        self._first: list[int] = []
        for i, part in enumerate(file.machines):
            at = nodes_named(part.nodes, nodes.cores, f"{where}.{i}")
            if (kind[at] >= 0).any():
                twice = int(at[kind[at] >= 0][0])
                raise ClusterError(f"{where}.{i}.nodes", f"node {twice}, which is a machine already", "other nodes")
            if (nodes.cores[at] == 0).any():
                raise ClusterError(f"{where}.{i}.nodes", "a node without cores", "nodes on which jobs can run")
            machine = machine_of(part.machine, f"{where}.{i}.machine")
            kind[at] = machines.setdefault(machine, len(machines))
            self._first.append(int(at[0]))
        self.machines = tuple(machines)
        self.profiles: Profiles = read_profiles(file.profiles, f"{where}.profiles")
        weights = [graph.weights for graph in file.graphs or ()]
        self.gpus: Gpus = gpu_columns(self.machines, kind, weights)
        self.graphs = (*GRAPHS, *(graph.name for graph in file.graphs or ()))
        self._vertices = np.array([ANY] * len(GRAPHS) + [len(one) for one in weights] + [0], np.int64)
        self.places = tuple(self._places())
        self.total = np.array([place.amount for place in self.places], np.int64)
        self.node = np.repeat(np.arange(len(kind)), np.diff(self.gpus.first))

    def claims(self, asked: Ints, nodes: Ints, tasks: Ints, free: Ints, devices: Ints = NONE_ATTACHED) -> Ints:
        """int64[claims, 2]: on each node the GPUs that are nearest to each other."""
        ask, left = ask_of(asked, int(tasks.sum()), 0, 0), free.copy()
        found = np.empty((len(self.places), 2), np.int64)
        count = 0
        for node, on_it in zip(nodes.tolist(), tasks.tolist(), strict=True):
            count = choose_on_node(self.gpus, left, node, ask, on_it, found, count)
        rows = found[:count]
        return np.ascontiguousarray(rows[np.argsort(rows[:, 0], kind="stable")])

    def agrees(self, asked: Ints, nodes: Ints, tasks: Ints, claims: Ints, devices: Ints = NONE_ATTACHED) -> bool:
        """Whether each task has its GPUs, on the node where it runs."""
        if len(claims) and (claims[:, 0].min() < 0 or claims[:, 0].max() >= len(self.places)):
            return False
        ask = ask_of(asked, int(tasks.sum()), 0, 0)
        used = tasks > 0
        if (ask.apart and (tasks > 1).any()) or (ask.together and used.sum() > 1):
            return False
        return bool(holds_what_it_asks(self.gpus, ask, nodes[used], tasks[used], claims))

    def open_nodes(
        self, asked: Ints, free: Ints, nodes: Ints, tasks: Ints, left: int = 1, devices: Ints = NONE_ATTACHED
    ) -> Bools:
        """bool[nodes]: where one more task finds its GPUs."""
        ask = ask_of(asked, 1, 0, 0)
        fit = self.fit(ask, free)
        needs = np.full(len(fit), left if ask.together else 1)
        needs[nodes] += tasks
        found: Bools = fit >= needs
        if ask.apart:
            found[nodes[tasks > 0]] = False
        if ask.together and (tasks > 0).any():
            found &= np.isin(np.arange(len(fit)), nodes[tasks > 0])
        return found

    def ample(self, asked: Ints, full: Ints, total: Ints) -> bool:
        """Whether there are whole GPUs for so many tasks, wherever a job may have its own."""
        ask = ask_of(asked, 1, 0, 0)
        alone = ask.together or ask.apart or ask.slices or ask.min_utility
        return not alone and bool((self.fit(ask._replace(milli=WHOLE), total) >= full).all())

    def most_nodes(self, asked: Ints, free: Ints, among: Bools) -> int:
        """One, if the job asks for all tasks on one machine."""
        return 1 if asked[TOGETHER] else ANY_NUMBER

    def fit(self, ask: Ask, free: Ints) -> Ints:
        """int64[nodes]: how many tasks of a job find their GPUs on each node."""
        return tasks_that_fit(self.gpus, shown(free), ask.gpus, ask.milli, ask.slices)

    def never(self, quantity: int, asked: Ints, gangs: Gangs) -> Bools:
        """bool[jobs]: those with tasks that have no place on the empty machines, with all that they ask of GPUs."""
        found = np.zeros(len(asked), np.bool_)
        if quantity == GRAPH:
            sizes = self._vertices[np.clip(asked, 0, len(self.graphs))]
            return _gpus_in_all(gangs) > sizes
        if quantity not in DECIDE:
            return found
        shapes = np.stack([*(gangs.asked.get(name, found) for name in QUANTITIES), gangs.cores, gangs.mb_on_nodes])
        shapes[[MIN_UTILITY, GRAPH, WEIGHT]] = 0  # these say nothing of whether there is room
        kinds, of = np.unique(shapes.astype(np.int64), axis=1, return_inverse=True)
        for i, kind in enumerate(kinds.T):
            same = np.flatnonzero(of.ravel() == i)
            ask = ask_of(kind[: len(QUANTITIES)], 1, *kind[len(QUANTITIES) :].tolist())
            found[same] = gangs.tasks[same] > self._room(ask)
        return found

    def too_big(self, quantity: int, asked: int, gangs: Gangs) -> Reason:
        """What there is too little of."""
        what, tasks = f"gpus.{QUANTITIES[quantity]}", int(gangs.tasks[0])
        if quantity == GRAPH:
            if asked >= len(self.graphs):
                return Reason(Code.TOO_BIG, f"{what}, of {', '.join(self.graphs)}", asked, len(self.graphs) - 1)
            named = f"GPUs that talk as in the graph {self.graphs[asked]}"
            return Reason(Code.TOO_BIG, named, int(_gpus_in_all(gangs)[0]), int(self._vertices[asked]))
        if quantity in (COUNT, SLICES, MILLI):
            most = int(self.gpus.size[self.gpus.kind[self.gpus.kind >= 0]].max(initial=0))
            if quantity != COUNT:
                most = WHOLE if quantity == MILLI else int(self.gpus.slices.max(initial=0))
            if asked > most:
                return Reason(Code.TOO_BIG, f"{what} in one machine", asked, most)
        own = np.array([int(gangs.asked[name][0]) if name in gangs.asked else 0 for name in QUANTITIES], np.int64)
        ask = ask_of(own, tasks, int(gangs.cores[0]), int(gangs.mb_on_nodes[0]))
        return Reason(Code.TOO_BIG, f"places for tasks with {_said(ask)}", tasks, self._room(ask))

    def lacks(self, asked: Ints, free: Ints, tasks: int) -> Reason | None:
        """Too few GPUs that are free."""
        ask = ask_of(asked, tasks, 0, 0)
        fit = self.fit(ask, free)
        if ask.apart:
            fit = np.minimum(fit, 1)
        room = int(fit.max(initial=0) if ask.together else fit.sum())
        if room >= tasks:
            return None
        return Reason(Code.NO_ROOM, f"places for tasks with {_said(ask)}", tasks, room)

    def written(self) -> dict[str, Any]:
        """The keys of the cluster file, with what machines' files say in place of their names."""
        keys = self._file.model_dump(exclude_none=True)
        for part, node in zip(keys["machines"], self._first, strict=True):
            if isinstance(part["machine"], str) and part["machine"] not in PRESETS:
                part["machine"] = written(self.machines[self.gpus.kind[node]])
        return keys

    def _places(self) -> list[Place]:
        found = []
        for node, kind in enumerate(self.gpus.kind.tolist()):
            for gpu in range(0 if kind < 0 else int(self.gpus.size[kind])):
                slices = int(self.gpus.slices[kind])
                if slices:
                    found += [Place(f"node{node}/gpu{gpu}/slice{i}", "slices", 1) for i in range(slices)]
                else:
                    found.append(Place(f"node{node}/gpu{gpu}", "milli", WHOLE))
        return found

    def _room(self, ask: Ask) -> int:
        fit = np.minimum(self.fit(ask, self.total), self.nodes.room_for(ask.cores, ask.mb))
        if ask.apart:
            fit = np.minimum(fit, 1)
        return int(fit.max(initial=0) if ask.together else fit.sum())


def _gpus_in_all(gangs: Gangs) -> Ints:
    """int64[jobs]: GPUs of all tasks; at least one a task, as a graph is nothing to ask for without."""
    each = gangs.asked.get(QUANTITIES[COUNT])
    return gangs.tasks if each is None else gangs.tasks * np.maximum(each, 1)


def _said(ask: Ask) -> str:
    what = "a place"
    if ask.slices:
        what = f"{ask.slices} slices of a GPU" + (f", for each of {ask.gpus} GPUs" if ask.gpus > 1 else "")
    elif ask.gpus:
        what = (f"{ask.milli}/1000 of " if ask.milli < WHOLE else "") + f"{ask.gpus} GPU(s)"
    where = " on one machine" * ask.together + " on machines of their own" * ask.apart
    return what + where
