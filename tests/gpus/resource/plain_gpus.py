"""GPUs in plain Python: random machines and states, and the terms and the search again, with nothing of the kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unrack.cluster.spec import Cluster
from unrack.policy.gpus.place_kernel import GpuRoom, place_job
from unrack.resources.contract import Nodes
from unrack.resources.gpus.choice import Neighbours
from unrack.resources.gpus.columns import Ask, Gpus, gpu_columns, read_keys
from unrack.resources.gpus.fleet import Fleet
from unrack.resources.gpus.fragmentation import Demands, no_demands
from unrack.resources.gpus.machines.machine import BEYOND, BUS, GPU, MACHINE, NVLINK, SOCKET, Link, Machine, Vertex
from unrack.sim.result import Result
from unrack.sim.simulate import simulate
from unrack.workload.formats.rules import Intake
from unrack.workload.job import JobTable, Workload, job_table

Ints = NDArray[np.int64]
S = 1_000_000
ONE = Ask(1, 0, 0, 1, 1000, 0, False, False, 0, 1.0, 0.0, 0)


def fleet_of(table: Any, nodes: int = 1, cores: int = 64) -> Fleet:
    """The GPUs that the key says, on nodes of so many cores."""
    ints = np.full(nodes, cores, np.int64)
    return Fleet(read_keys(table, "gpus"), Nodes(ints, ints * 1000, ints * 0, ("rack0",)), "gpus")


def cluster_of(table: Any, nodes: int = 1, cores: int = 64) -> Cluster:
    """A cluster with that key."""
    return Cluster.from_dict({"nodes": [{"count": nodes, "cores": cores}], "gpus": table})


def gpu_jobs(*rows: dict[str, Any]) -> JobTable:
    """Jobs of one core and 10 s unless a row says otherwise; every other key is asked of GPUs."""
    own = {"submit", "work", "tasks", "cores", "app"}
    get = lambda key, default: np.array([row.get(key, default) for row in rows], np.int64)  # noqa: E731  # short
    import polars as pl

    asked = sorted({key for row in rows for key in row} - own)
    return job_table(
        submit_us=get("submit", 0) * S, work_us=get("work", 10) * S, tasks=get("tasks", 1), cores=get("cores", 1),
        memory_mb=get("mb", 0), app=pl.Series([row.get("app", "") for row in rows]),
        devices={("gpus", key): get(key, 0) for key in asked},
    )  # fmt: skip


def run(cluster: Cluster, jobs: JobTable, policy: str, **more: Any) -> Result:
    """A run with its audit."""
    return simulate(cluster, Workload("w", jobs, Intake("", "", len(jobs), len(jobs))), policy, **more)


def random_machine(random: np.random.Generator, most: int = 6) -> Machine:
    """One to three sockets of any weight with some GPUs, and direct links between some pairs."""
    sockets, count = int(random.integers(1, 4)), int(random.integers(1, most + 1))
    vertices = [Vertex(MACHINE, "m"), *(Vertex(SOCKET, f"s{i}") for i in range(sockets))]
    links = [Link(0, 1 + i, int(random.integers(1, 30)), BUS) for i in range(sockets)]
    for i in range(count):
        vertices.append(Vertex(GPU, f"GPU{i}"))
        links.append(Link(1 + int(random.integers(sockets)), 1 + sockets + i, int(random.integers(1, 4))))
    for a, b in combinations(range(count), 2):
        if random.random() < 0.3:
            links.append(Link(1 + sockets + a, 1 + sockets + b, int(random.integers(1, 5)), NVLINK))
    return Machine("m", tuple(vertices), tuple(links))


@dataclass
class State:
    """Machines, who holds which whole GPU (-1: nobody), which application each job is, and factors beside others."""

    machines: Sequence[Machine]
    holder: list[list[int]]
    app: list[int]
    beside: NDArray[np.float64]

    @property
    def columns(self) -> Gpus:
        """The machines as kernels take them."""
        return gpu_columns(self.machines, np.arange(len(self.machines)))

    @property
    def flat(self) -> Ints:
        """int64[places]: the holder of each GPU."""
        return np.array([job for row in self.holder for job in row], np.int64)

    @property
    def free(self) -> Ints:
        """int64[places]."""
        return np.where(self.flat < 0, 1000, 0)

    @property
    def who(self) -> Neighbours:
        """Holders as kernels take them."""
        held = self.flat >= 0
        holders = np.stack([held.astype(np.int64), np.where(held, self.flat, 0)])
        return Neighbours(holders, np.ones(len(self.app), np.int64), np.array(self.app), self.beside)

    def place(
        self, rule: int, ask: Ask, job: int, cores: Sequence[int] = (), demands: Demands | None = None
    ) -> list[tuple[int, list[int]]]:
        """What the kernel chooses: machines with their GPUs; nothing: there is no place."""
        count = len(self.machines)
        have = np.array(cores or [64] * count, np.int64)
        room = GpuRoom(have.copy(), np.full(count, 1 << 40), np.full(count, 64), self.free)
        nodes, on_each = np.empty(ask.tasks, np.int64), np.empty(ask.tasks, np.int64)
        found = np.empty((ask.tasks * max(1, ask.gpus), 2), np.int64)
        columns = self.columns
        used, claims = place_job(
            columns,
            room,
            self.who,
            demands or no_demands()._replace(kinds=np.array(self.app)),
            rule,
            ask,
            job,
            nodes,
            on_each,
            found,
        )
        place = found[:claims, 0]
        return [
            (node, sorted((place[(place >= columns.first[node]) & (place < columns.first[node + 1])]
                           - columns.first[node]).tolist()))
            for node in nodes[:used].tolist()
        ]  # fmt: skip


def random_state(random: np.random.Generator) -> State:
    """Up to three machines whose GPUs some jobs hold; job 0 has none yet."""
    machines = [random_machine(random) for _ in range(int(random.integers(1, 4)))]
    jobs, apps = 6, 4
    holder = [
        [int(random.integers(1, jobs)) if random.random() < 0.4 else -1 for _ in machine.gpus] for machine in machines
    ]
    beside = 1 + random.integers(0, 4, (apps, apps)) / 8
    return State(machines, holder, random.integers(0, apps, jobs).tolist(), beside)


def cost_of(distance: Any, gpus: Sequence[int], graph: int = 0) -> float:
    """Communication by trying everything: all pairs; every round trip; every tree; every way to pair."""
    d = lambda a, b: float(distance[a][b])  # noqa: E731  # short
    if len(gpus) < 2:
        return 0.0
    if graph == 0:
        return sum(d(a, b) for a, b in combinations(gpus, 2))
    if graph == 1:
        first, *rest = gpus
        if len(gpus) == 2:
            return d(*gpus)
        return min(
            sum(d(a, b) for a, b in zip((first, *order), (*order, first), strict=True)) for order in permutations(rest)
        )
    if graph == 2:
        trees = combinations(combinations(gpus, 2), len(gpus) - 1)
        return min(sum(d(a, b) for a, b in tree) for tree in trees if joins(tree, gpus))
    orders = permutations(gpus)
    return min(sum(d(order[i], order[i + 1]) for i in range(0, len(order) - 1, 2)) for order in orders)


def joins(edges: Sequence[tuple[int, int]], gpus: Sequence[int]) -> bool:
    """Whether edges join all."""
    reached = {gpus[0]}
    for _ in gpus:
        reached |= {b for pair in edges for b in pair if reached & set(pair)}
    return reached == set(gpus)


def utility(state: State, chosen: Sequence[tuple[int, Sequence[int]]], ask: Ask, job: int) -> tuple[float, ...]:
    """U, t, I and w by equations 2 to 5, as the module ``utility`` reads them."""
    cost, free, shares, slowed = 0.0, [], [], 1.0
    for at, (node, gpus) in enumerate(chosen):
        machine = state.machines[node]
        cost += cost_of(machine.distance, gpus, ask.graph)
        for other, others in chosen[:at]:
            cost += len(gpus) * len(others) * (machine.outward + state.machines[other].outward + 2 * BEYOND)
        sockets = {int(machine.socket[gpu]) for gpu in gpus}
        around = {
            holder for gpu, holder in enumerate(state.holder[node])
            if holder >= 0 and holder != job and int(machine.socket[gpu]) in sockets
        }  # fmt: skip
        for one in around:
            slowed = max(slowed, state.beside[ask.profile, state.app[one]])
            shares.append(1 / state.beside[state.app[one], ask.profile])
        free.append(free_part(machine, state.holder[node]))
    least = least_cost(state, chosen, ask)
    t = 1.0 if least == 0 else 1 + ask.weight * (cost / least - 1)
    i = (1 / slowed + sum(shares)) / (1 + len(shares))
    w = sum(free) / len(free)
    return (1 / t + i + 1 - w) / 3, t, i, w


def free_part(machine: Machine, holder: Sequence[int]) -> float:
    """Equation 5 of one machine: a socket without GPUs has none that are free."""
    parts = []
    for socket in range(max(1, len(machine.sockets))):
        own = [holder[gpu] < 0 for gpu in range(len(machine.gpus)) if int(machine.socket[gpu]) == socket]
        parts.append(sum(own) / len(own) if own else 0.0)
    return sum(parts) / len(parts)


def least_cost(state: State, chosen: Sequence[tuple[int, Sequence[int]]], ask: Ask) -> float:
    """The least that so many GPUs can cost on machines such as the first one."""
    machine, left = state.machines[chosen[0][0]], sum(len(gpus) for _, gpus in chosen)
    total, before, each = 0.0, 0, ask.gpus if ask.apart else len(machine.gpus)
    if len(chosen) == 1:
        each = left
    while left:
        here = min(each, left)
        sets = combinations(range(len(machine.gpus)), here)
        total += min(cost_of(machine.distance, gpus, ask.graph) for gpus in sets)
        total += before * here * 2 * (machine.outward + BEYOND)
        before, left = before + here, left - here
    return total
