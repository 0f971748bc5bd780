"""The GPUs of a cluster in columns, for kernels."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any, NamedTuple, Self

import numpy as np
from pydantic import Field, model_validator

from unrack.errors import ClusterError
from unrack.jit import compiled, inlined
from unrack.kernels.arrays import Floats, Ints
from unrack.resources.checked import Strict, validated
from unrack.resources.gpus.machines.machine import BEYOND, Machine, tree
from unrack.resources.gpus.machines.reading.from_file import machine_from
from unrack.resources.gpus.machines.reading.read import read_machine

GPUS = "gpus"
"""The resource, of which jobs ask for the quantities."""
WHOLE = 1000
"""Parts of a GPU: a job may ask for so many of them."""
QUANTITIES = ("count", "milli", "slices", "together", "apart", "min_utility", "graph", "weight")
"""What jobs ask for as ``gpus.NAME``, each of a task unless it says something else.

``count``: GPUs. ``milli``: 1/1000 of each of them that it may use; 0: all. ``slices``: slices of memory of a GPU that
is divided into such (MIG). ``together``: all tasks on one machine. ``apart``: every task on a machine of its own.
``min_utility``: 1/10000, below which a policy may wait for a better place. ``graph``: which tasks talk to which, a
place in ``GRAPHS``. ``weight``: how much the job communicates, 1/1000 of most; 0: most.
"""
COUNT, MILLI, SLICES, TOGETHER, APART, MIN_UTILITY, GRAPH, WEIGHT = range(len(QUANTITIES))
COMPLETE, RING, TREE, PAIRS = range(4)
GRAPHS = ("complete", "ring", "tree", "pairs")
"""Communication graphs: all with all; round in a ring; along a tree; two by two. Which GPU is where in a
ring, tree or pair is chosen as the libraries that use them do: at least distance."""
UTILITY_PARTS = 10_000
"""What ``min_utility`` is for a utility of 1."""


class Ask(NamedTuple):
    """What one job asks, as kernels take it; ``gpus`` is 0 for a job without any.

    ``milli`` is of each GPU, ``WHOLE`` for all of it; ``profile`` is the row of its application, 0: not known.
    """

    tasks: int
    cores: int
    mb: int
    gpus: int
    milli: int
    slices: int
    together: bool
    apart: bool
    graph: int
    weight: float
    min_utility: float
    profile: int


def ask_of(asked: Ints, tasks: int, cores: int, mb: int, profile: int = 0) -> Ask:
    """What a job asks, from its quantities (int64[quantities])."""
    count, milli, slices, together, apart, utility, graph, weight = asked.tolist()
    return Ask(
        tasks, cores, mb, max(count, int(milli > 0 or slices > 0)), milli or WHOLE, slices, together > 0, apart > 0,
        graph, (weight or 1000) / 1000, utility / UTILITY_PARTS, profile,
    )  # fmt: skip


MOST_VERTICES = 6
"""Which task is on which GPU is found by enumeration: 720 ways for each set of six GPUs."""
FAR_COST = 1e18
"""Of a set of GPUs that cannot be."""
MOST_GPUS = 16
"""GPUs of a machine: all sets of them have an entry in a table."""
MOST_SOCKETS = 16
"""Sockets of a machine: so have all sets of them."""


class GraphFile(Strict):
    """A communication graph."""

    name: str = Field(min_length=1)  # for messages
    # pairs of vertices, counted from 0, and how much passes between the two (default 1) where it is not alike
    edges: list[list[float]] = Field(min_length=1)

    @model_validator(mode="after")
    def _edges_can_be(self) -> Self:
        seen = set()
        for edge in self.edges:
            ends = edge[:2]
            if len(edge) not in (2, 3) or any(end not in range(MOST_VERTICES) for end in ends) or ends[0] == ends[1]:
                raise ValueError(f"edges of two vertices from 0 to {MOST_VERTICES - 1}, and a weight")
            if not 0 < (edge[2] if len(edge) == 3 else 1.0) < 1e6:
                raise ValueError("weights above 0 and below 1 000 000")
            if frozenset(ends) in seen:
                raise ValueError("each edge once")
            seen.add(frozenset(ends))
        return self

    @property
    def weights(self) -> Floats:
        """float64[vertices, vertices]: how much passes between two; 0: nothing."""
        count = 1 + int(max(end for edge in self.edges for end in edge[:2]))
        found = np.zeros((count, count))
        for edge in self.edges:
            a, b = int(edge[0]), int(edge[1])
            found[a, b] = found[b, a] = edge[2] if len(edge) == 3 else 1.0
        return found


@compiled
def fill_own_costs(d: Floats, weights: Floats, cost: Floats, least: Floats) -> None:
    """Least communication of the first vertices of a graph on every set of as many GPUs (float64[sets]).

    The tasks are on the GPUs in the best of all orders. Sets of more GPUs than vertices cannot be.
    """
    n = d.shape[0]
    own = np.zeros(n, np.int64)
    for s in range(1 << n):
        count = 0
        for i in range(n):
            if s >> i & 1:
                own[count] = i
                count += 1
        if count <= weights.shape[0]:
            cost[s] = least_assignment(d, weights, own, count)
            least[count] = min(least[count], cost[s])


@inlined
def least_assignment(d: Floats, weights: Floats, own: Ints, count: int) -> float:
    """The least sum of weight x distance over all ways to put so many vertices on so many GPUs, one on each."""
    best, level, taken = np.inf, 0, 0
    at, sums = np.full(count + 1, -1), np.zeros(count + 1)
    if count == 0:
        return 0.0
    while level >= 0:
        if at[level] >= 0:
            taken &= ~(1 << at[level])
        following = at[level] + 1
        while following < count and taken >> following & 1:
            following += 1
        if following == count:
            at[level] = -1
            level -= 1
            continue
        at[level] = following
        taken |= 1 << following
        total = sums[level]
        for before in range(level):
            total += weights[level, before] * d[own[following], own[at[before]]]
        if total < best:  # else no way to go on from here is better
            if level == count - 1:
                best = total
            else:
                level += 1
                sums[level] = total
    return best


class Gpus(NamedTuple):
    """GPUs of the nodes of a cluster. Places are counted from the first one of the resource."""

    # int64[nodes + 1]: the places of node i are `first[i]` to `first[i + 1]`: its GPUs in order, or the slices of each
    # of them
    first: Ints
    kind: Ints  # int64[nodes]: which machine it is; -1: it has no GPUs
    # int64[kinds]: GPUs of such a machine, slices of each (0: none), and sockets
    size: Ints
    slices: Ints
    sockets: Ints
    # float64[kinds]: the distance from a GPU to another machine's doorstep: two such and `BEYOND` between two machines
    outward: Floats
    socket: Ints  # int64[kinds, gpus]: of each GPU
    distance: Floats  # float64[kinds, gpus, gpus]: between GPUs
    # float64[kinds, graphs, sets]: what communication costs on a set of GPUs (bit i: GPU i), by graph: those of
    # `GRAPHS`, then the user's own
    cost: Floats
    least: Floats  # float64[kinds, graphs, gpus + 1]: the least of that for so many GPUs


def gpu_columns(machines: Sequence[Machine], kind: Ints, graphs: Sequence[Floats] = ()) -> Gpus:
    """Columns of nodes that are such machines (by number; -1: no GPUs); ``graphs``: weights of those beside GRAPHS."""
    most = max([len(machine.gpus) for machine in machines], default=1) or 1
    count = max(1, len(machines))
    size, slices, sockets = (np.zeros(count, np.int64) for _ in range(3))
    outward = np.zeros(count)
    socket = np.zeros((count, most), np.int64)
    distance = np.zeros((count, most, most))
    cost = np.full((count, len(GRAPHS) + len(graphs), 1 << most), FAR_COST)
    least = np.full((count, len(GRAPHS) + len(graphs), most + 1), FAR_COST)
    for k, machine in enumerate(machines):
        n = len(machine.gpus)
        size[k], slices[k], sockets[k], outward[k] = n, machine.slices, max(1, len(machine.sockets)), machine.outward
        socket[k, :n] = machine.socket
        distance[k, :n, :n] = machine.distance
        apart, named = distance[k, :n, :n].copy(), len(GRAPHS)
        fill_costs(apart, cost[k, :named], least[k, :named])
        for graph, weights in enumerate(graphs):
            fill_own_costs(apart, weights, cost[k, named + graph], least[k, named + graph])
    places = np.zeros(len(kind) + 1, np.int64)
    for node, k in enumerate(kind.tolist()):
        places[node + 1] = places[node] + (0 if k < 0 else int(size[k] * max(1, slices[k])))
    return Gpus(places, kind, size, slices, sockets, outward, socket, distance, cost, least)


@compiled
def fill_costs(d: Floats, cost: Floats, least: Floats) -> None:
    """Communication on every set of GPUs, by graph, from the distances between them.

    Complete: the sum over all pairs (paper 001, eq. 3). Ring: the shortest round trip (Held and Karp). Tree: the least
    spanning tree (Prim). Pairs: the least sum of distances of two and two; of an odd number one is left alone.
    """
    n = d.shape[0]
    trip = np.full((1 << n, n), FAR_COST)
    for s in range(1 << n):
        low, count = -1, 0
        for i in range(n):
            if s >> i & 1:
                count += 1
                if low < 0:
                    low = i
        if count <= 1:
            cost[:, s] = 0.0
            if count == 1:
                trip[s, low] = 0.0
        else:
            rest = s & ~(1 << low)
            total, paired = cost[COMPLETE, rest], FAR_COST
            alone = count % 2 == 1
            if alone:
                paired = cost[PAIRS, rest]
            for i in range(low + 1, n):
                if s >> i & 1:
                    total += d[low, i]
                    paired = min(paired, d[low, i] + cost[PAIRS, rest & ~(1 << i)])
            cost[COMPLETE, s], cost[PAIRS, s] = total, paired
            best = FAR_COST
            for last in range(low + 1, n):
                if s >> last & 1:
                    before, found = s & ~(1 << last), FAR_COST
                    for i in range(low, n):
                        if before >> i & 1 and trip[before, i] + d[i, last] < found:
                            found = trip[before, i] + d[i, last]
                    trip[s, last] = found
                    best = min(best, found + (d[last, low] if count > 2 else 0.0))
            cost[RING, s] = best
            cost[TREE, s] = spanning(d, s, low, count)
        for graph in range(cost.shape[0]):
            least[graph, count] = min(least[graph, count], cost[graph, s])


@inlined
def spanning(d: Floats, s: int, low: int, count: int) -> float:
    """The weight of a least spanning tree of a set of GPUs."""
    n = d.shape[0]
    joined, total = 1 << low, 0.0
    for _ in range(count - 1):
        found, which = FAR_COST, -1
        for i in range(n):
            if joined >> i & 1:
                for j in range(n):
                    if s >> j & 1 and not joined >> j & 1 and d[i, j] < found:
                        found, which = d[i, j], j
        joined |= 1 << which
        total += found
    return total


@inlined
def network_distance(gpus: Gpus, a: int, b: int) -> float:
    """Between GPUs of two machines, by kind."""
    return float(gpus.outward[a] + gpus.outward[b] + 2 * BEYOND)


class MachineFile(Strict):
    """A machine in a few words: GPUs shared out over sockets and switches."""

    gpus: int = Field(strict=True, ge=1, le=MOST_GPUS)  # how many
    model: str = ""  # their model
    # per_socket, per_switch: GPUs at each socket (default: half of them, 4 at least), and at each PCIe switch
    # (default: no switches)
    per_socket: int | None = Field(None, strict=True, ge=1)
    per_switch: int | None = Field(None, strict=True, ge=1)
    # ``"none"``, ``"socket"`` (all GPUs of a socket have direct links) or ``"all"`` (all are joined by NVSwitch)
    nvlink: str = Field("none", pattern="^(none|socket|all)$")
    slices: int = Field(0, strict=True, ge=0, le=16)  # slices of memory of each GPU (MIG)


class GpuFile(Strict):
    """Some nodes and the machine that each of them is."""

    # a preset by name, a file, or a table: of :class:`MachineFile`, or all that a file says
    machine: str | dict[str, Any]
    # which nodes, such as ``"0-99"``; default: all that have cores
    nodes: str | None = Field(None, pattern=r"^\d+(-\d+)?$")


class FleetFile(Strict):
    """The table ``gpus`` in full: machines, and how applications get on with each other there."""

    machines: list[GpuFile]  # which nodes are which machines
    profiles: str = ""  # a name, or a file of measured times; default: no application slows another down
    # communication graphs beside ``GRAPHS``; jobs ask for them by the numbers that follow
    graphs: list[GraphFile] | None = None


OF_FLEET = ("profiles", "graphs")
KNOWN = (*FleetFile.model_fields, *GpuFile.model_fields, *GraphFile.model_fields, *MachineFile.model_fields)
"""Keys of all tables."""


def read_keys(table: Any, where: str) -> FleetFile:
    """The key in one form: a name of a machine, a table of one, a list of them, or all in full.

    A ClusterError if a key or a value is wrong.
    """
    content = table
    if isinstance(table, str):
        content = {"machines": [{"machine": table}]}
    elif isinstance(table, list):
        content = {"machines": table}
    elif isinstance(table, dict) and "machine" in table:
        rest = {key: value for key, value in table.items() if key in OF_FLEET}
        content = {"machines": [{key: value for key, value in table.items() if key not in OF_FLEET}], **rest}
    return validated(FleetFile.model_validate, content, f"{where}.", KNOWN)


def machine_of(given: str | dict[str, Any], where: str) -> Machine:
    """The machine that a key names or describes.

    A ClusterError if there is no such preset and no such file, or it has more GPUs or sockets than can be.
    """
    if isinstance(given, str):
        try:
            found = read_machine(given)
        except ClusterError as error:
            raise ClusterError(f"{where}, {error.where}", error.got, error.want) from None
        return _small_enough(found, where)
    if not isinstance(given.get("gpus"), int):
        return _small_enough(machine_from(given, where), where)
    return in_few_words(validated(MachineFile.model_validate, given, f"{where}.", KNOWN))


def _small_enough(machine: Machine, where: str) -> Machine:
    for what, count, most in (("GPUs", len(machine.gpus), MOST_GPUS), ("sockets", len(machine.sockets), MOST_SOCKETS)):
        if count > most:
            raise ClusterError(where, f"a machine of {count} {what}", f"{most} or fewer")
    return machine


def in_few_words(given: MachineFile) -> Machine:
    """A machine from numbers of GPUs."""
    each = given.per_socket or max(min(given.gpus, 4), -(-given.gpus // 2))
    at = [min(each, given.gpus - first) for first in range(0, given.gpus, each)]
    step = given.per_switch or max(at)
    sockets = [[min(step, n - first) for first in range(0, n, step)] for n in at]
    first = np.concatenate([[0], np.cumsum(at)])
    groups = [range(int(a), int(a) + n) for a, n in zip(first, at, strict=False)]
    pairs = [pair for group in groups for pair in combinations(group, 2)]
    name = f"{given.gpus} x {given.model}" if given.model else f"{given.gpus} GPUs"
    return tree(
        name, sockets, pairs if given.nvlink == "socket" else (), model=given.model, nvswitch=given.nvlink == "all",
        slices=given.slices,
    )  # fmt: skip


def nodes_named(text: str | None, cores: Ints, where: str) -> Ints:
    """int64[k]: which nodes a key names. A ClusterError if there are no such nodes."""
    if text is None:
        return np.flatnonzero(cores > 0)
    first, _, last = text.partition("-")
    span = int(first), int(last or first)
    if not span[0] <= span[1] < len(cores):
        raise ClusterError(f"{where}.nodes", repr(text), f"nodes from 0 to {len(cores) - 1}")
    return np.arange(span[0], span[1] + 1)
