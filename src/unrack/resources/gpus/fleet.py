"""The GPUs of a cluster: where each of them is, and what jobs claim of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from unrack.errors import ClusterError
from unrack.reasons import Code, Reason
from unrack.resources.contract import Gangs, Nodes, Place
from unrack.resources.gpus.asks import APART, COUNT, GRAPHS, MILLI, QUANTITIES, SLICES, TOGETHER, WHOLE, Ask, ask_of
from unrack.resources.gpus.choice import choose_on_node, tasks_that_fit
from unrack.resources.gpus.columns import Gpus, gpu_columns
from unrack.resources.gpus.held import holds_what_it_asks
from unrack.resources.gpus.keys import FleetFile, machine_of, nodes_named
from unrack.resources.gpus.machines.machine import Machine
from unrack.resources.gpus.machines.presets import PRESETS
from unrack.resources.gpus.machines.written import written
from unrack.resources.gpus.profiles import Profiles, read_profiles

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
ONE = Ask(1, 0, 0, 1, WHOLE, 0, False, False, 0, 1.0, 0.0, 0)
"""A job of one GPU."""


class Fleet:
    """The GPUs of a cluster; see :class:`unrack.resources.contract.Installed`.

    Attributes
    ----------
    machines
        Each kind of machine once.
    gpus
        Their GPUs in columns.
    profiles
        How applications get on with each other.
    """

    quantities = QUANTITIES

    def __init__(self, file: FleetFile, nodes: Nodes, where: str) -> None:
        self._file, self._nodes = file, nodes
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
        self.gpus: Gpus = gpu_columns(self.machines, kind)
        self.places = tuple(self._places())
        self.total = np.array([place.amount for place in self.places], np.int64)
        self.node = np.repeat(np.arange(len(kind)), np.diff(self.gpus.first))

    def claims(self, asked: Ints, nodes: Ints, tasks: Ints, free: Ints) -> Ints:
        """int64[claims, 2]: on each node the GPUs that are nearest to each other."""
        ask, left = ask_of(asked, int(tasks.sum()), 0, 0), free.copy()
        found = np.empty((len(self.places), 2), np.int64)
        count = 0
        for node, on_it in zip(nodes.tolist(), tasks.tolist(), strict=True):
            count = choose_on_node(self.gpus, left, node, ask, on_it, found, count)
        rows = found[:count]
        return np.ascontiguousarray(rows[np.argsort(rows[:, 0], kind="stable")])

    def agrees(self, asked: Ints, nodes: Ints, tasks: Ints, claims: Ints) -> bool:
        """Whether each task has its GPUs, on the node where it runs."""
        if len(claims) and (claims[:, 0].min() < 0 or claims[:, 0].max() >= len(self.places)):
            return False
        ask = ask_of(asked, int(tasks.sum()), 0, 0)
        used = tasks > 0
        if (ask.apart and (tasks > 1).any()) or (ask.together and used.sum() > 1):
            return False
        return bool(holds_what_it_asks(self.gpus, ask, nodes[used], tasks[used], claims))

    def open_nodes(self, asked: Ints, free: Ints, nodes: Ints, tasks: Ints) -> Bools:
        """bool[nodes]: where one more task finds its GPUs."""
        ask = ask_of(asked, 1, 0, 0)
        fit = self.fit(ask, free)
        needs = np.ones(len(fit), np.int64)
        needs[nodes] += tasks
        found: Bools = fit >= needs
        if ask.apart:
            found[nodes[tasks > 0]] = False
        if ask.together and (tasks > 0).any():
            found &= np.isin(np.arange(len(fit)), nodes[tasks > 0])
        return found

    def fit(self, ask: Ask, free: Ints) -> Ints:
        """int64[nodes]: how many tasks of a job find their GPUs on each node."""
        return tasks_that_fit(self.gpus, free, ask.gpus, ask.milli, ask.slices)

    def never(self, quantity: int, asked: Ints, gangs: Gangs) -> Bools:
        """bool[jobs]: more in a task than any machine has, or more tasks than all machines together hold."""
        found = np.zeros(len(asked), np.bool_)
        if quantity not in (COUNT, SLICES, MILLI, APART, TOGETHER):
            return asked >= len(GRAPHS) if QUANTITIES[quantity] == "graph" else found
        shapes = np.stack([asked, gangs.cores, gangs.memory_mb * (not gangs.elsewhere)])
        kinds, of = np.unique(shapes, axis=1, return_inverse=True)
        for i, (amount, cores, mb) in enumerate(kinds.T.tolist()):
            if amount:
                of_kind = np.flatnonzero(of.ravel() == i)
                found[of_kind] = gangs.tasks[of_kind] > self._room(quantity, amount, cores, mb)
        return found

    def too_big(self, quantity: int, asked: int, gangs: Gangs) -> Reason:
        """What there is too little of."""
        what, tasks = f"gpus.{QUANTITIES[quantity]}", int(gangs.tasks[0])
        if QUANTITIES[quantity] == "graph":
            return Reason(Code.TOO_BIG, f"{what}, of {', '.join(GRAPHS)}", asked, len(GRAPHS) - 1)
        if quantity in (COUNT, SLICES, MILLI):
            most = int(self.fit(ONE, self.total).max(initial=0)) if quantity == COUNT else WHOLE
            if quantity == SLICES:
                most = int(self.gpus.slices.max(initial=0))
            if asked > most:
                return Reason(Code.TOO_BIG, f"{what} in one machine", asked, most)
        mb = 0 if gangs.elsewhere else int(gangs.memory_mb[0])
        room = self._room(quantity, asked, int(gangs.cores[0]), mb)
        return Reason(Code.TOO_BIG, f"places for tasks with {asked} {what}", tasks, room)

    def lacks(self, asked: Ints, free: Ints, tasks: int) -> Reason | None:
        """Too few GPUs that are free."""
        ask = ask_of(asked, tasks, 0, 0)
        fit = self.fit(ask, free)
        if ask.apart:
            fit = np.minimum(fit, 1)
        room = int(fit.max(initial=0) if ask.together else fit.sum())
        if room >= tasks:
            return None
        what = f"{ask.slices} slices of a GPU" if ask.slices else f"{ask.gpus} GPU(s)"
        if ask.milli < WHOLE:
            what = f"{ask.milli}/1000 of {what}"
        where = " on one machine" if ask.together else " on machines of their own" if ask.apart else ""
        return Reason(Code.NO_ROOM, f"places for tasks with {what}{where}", tasks, room)

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

    def _room(self, quantity: int, amount: int, cores: int, mb: int) -> int:
        """How many tasks the empty machines hold that ask so much of one quantity."""
        asked = np.zeros(len(QUANTITIES), np.int64)
        asked[quantity] = amount
        ask = ask_of(asked, 1, cores, mb)
        fit = self.fit(ask if ask.gpus else ONE._replace(gpus=0), self.total)
        nodes, most = self._nodes, 2**31
        fit = np.minimum(fit, np.where(nodes.cores > 0, nodes.cores // cores if cores else most, 0))
        if mb:
            fit = np.minimum(fit, nodes.memory_mb // mb)
        if quantity == APART:
            return int((fit > 0).sum())
        return int(fit.max(initial=0) if quantity == TOGETHER else fit.sum())
