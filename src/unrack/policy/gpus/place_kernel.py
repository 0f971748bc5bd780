"""Compiled: machines and GPUs for a whole job, by every rule."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unrack.jit import compiled, inlined
from unrack.kernels.arrays import Floats, Ints
from unrack.policy.gpus.bisection import bisecting
from unrack.policy.gpus.rules import (
    BEST_FIT,
    CLUSTERING,
    CLUSTERING_AS_AUTHORS,
    DOT_PRODUCT,
    DRB,
    FGD,
    FIRST_FIT,
    FORESIGHT,
    LEAST_LEFT,
    PACK,
    PACKING,
    PACKING_AS_AUTHORS,
    RANDOM,
    SPREAD,
    TOPOLOGY,
    WORST_FIT,
    best_set,
    chosen_set,
    clustering_mark,
    lost_on,
    mixed_up,
    packing_mark,
    part_with_least,
    room_for_shares,
    utility_on,
)
from unrack.resources.gpus.choice import (
    Neighbours,
    claim_part,
    claim_parts,
    claim_set,
    claim_slices,
    free_set,
    free_share,
    gpu_fit,
    last_block,
    mean_share,
    nearest_set,
    relative_cost,
)
from unrack.resources.gpus.columns import WHOLE, Ask, Gpus
from unrack.resources.gpus.fragmentation import Demands

NO_SCORE = 1e300


class GpuRoom(NamedTuple):
    """What a job finds while its tasks are placed, int64[nodes] each, and of the GPUs int64[places]."""

    cores: Ints  # free cores; -1: no task may go there
    mb: Ints  # free memory
    total_cores: Ints  # installed
    free: Ints  # free parts of each place


@inlined
def room_for(gpus: Gpus, room: GpuRoom, ask: Ask, node: int) -> int:
    """How many tasks of a job a node holds now."""
    if room.cores[node] < ask.cores or room.mb[node] < ask.mb:
        return 0
    fit = gpu_fit(gpus, room.free, node, ask.gpus, ask.milli, ask.slices)
    if ask.cores > 0:
        fit = min(fit, room.cores[node] // ask.cores)
    if ask.mb > 0:
        fit = min(fit, room.mb[node] // ask.mb)
    return fit


@inlined
def free_amount(gpus: Gpus, free: Ints, node: int) -> float:
    """All that is free of the GPUs of a node, in 1/1000 of a GPU."""
    total, each = 0, gpus.slices[gpus.kind[node]]
    for i in range(gpus.first[node], gpus.first[node + 1]):
        total += free[i]
    return total * WHOLE / each if each else float(total)


@inlined
def installed_amount(gpus: Gpus, node: int) -> float:
    """All that there is of them, in the same unit."""
    return float((gpus.first[node + 1] - gpus.first[node]) * WHOLE / max(1, gpus.slices[gpus.kind[node]]))


@inlined
def resource_share(room: GpuRoom, gpus: Gpus, ask: Ask, node: int, times: bool) -> float:
    """What is left of a node's cores and GPUs after a task, as shares of it; ``times``: each times what it asks."""
    amount, size = free_amount(gpus, room.free, node), installed_amount(gpus, node)
    cores, whole = room.cores[node], max(1, room.total_cores[node])
    asked = ask.slices * WHOLE / max(1, gpus.slices[gpus.kind[node]]) if ask.slices else float(ask.gpus * ask.milli)
    of_gpus = amount * asked / size**2 if times and size else (amount - asked) / size if size else 0.0
    of_cores = cores * ask.cores / whole**2 if times else (cores - ask.cores) / whole
    return float(of_gpus + of_cores)


@inlined
def packing_score(gpus: Gpus, free: Ints, ask: Ask, node: int) -> float:
    """Machines with room on busy GPUs first, then busy machines, then idle ones; of each the fullest."""
    first, each, amount = gpus.first[node], gpus.slices[gpus.kind[node]], free_amount(gpus, free, node)
    if amount == installed_amount(gpus, node):
        return 2e9
    for i in range(gpus.size[gpus.kind[node]]):
        if ask.slices:
            at = first + i * each
            if free[at : at + each].sum() < each and last_block(free, at, each, ask.slices) >= 0:
                return amount
        elif ask.gpus == 1 and ask.milli <= free[first + i] < WHOLE:
            return amount
    return 1e9 + amount


@inlined
def clustering_score(gpus: Gpus, peers: Neighbours, free: Ints, kinds: Ints, ask: Ask, job: int, node: int) -> float:
    """Machines with most jobs that ask for as much of a GPU first; of equal ones the fullest."""
    alike = 0
    for i in range(gpus.first[node], gpus.first[node + 1]):
        alike += peers.holders[0, i] == 1 and kinds[peers.holders[1, i]] == kinds[job]
    return -1e6 * alike + free_amount(gpus, free, node) / 1e3


@inlined
def whole_marks(growth: float) -> float:
    """A growth of fragmentation as a mark from 0 to 100 by a logistic curve, as schedulers of Kubernetes give marks.

    It is a whole number: machines on which growth differs by less than a mark, 1/25 of a GPU around 0, are equally
    good, and the first of them is taken.
    """
    return float(int(100.0 / (1.0 + np.exp(growth / WHOLE))))


@inlined
def take_on(
    gpus: Gpus, room: GpuRoom, peers: Neighbours, demands: Demands, rule: int, ask: Ask, job: int, node: int,
    tasks: int, found: Ints, at: int,
) -> int:  # fmt: skip
    """Take GPUs, cores and memory for tasks on a machine; returns how many claims there are now."""
    room.cores[node] -= ask.cores * tasks
    room.mb[node] -= ask.mb * tasks
    if ask.gpus == 0:
        return at
    if ask.slices:
        return claim_slices(gpus, room.free, node, ask.slices, tasks, found, at)
    if ask.milli < WHOLE:
        if rule in (FGD, FORESIGHT) and ask.gpus == 1:
            begin = at
            for _ in range(tasks):
                place, _ = part_with_least(gpus, room.free, room.cores[node], demands, ask, node)
                at = claim_part(room.free, place, ask.milli, found, begin, at)
            return at
        return claim_parts(gpus, room.free, node, ask.gpus, ask.milli, tasks, found, at)
    available = free_set(gpus, room.free, node)
    if rule == DRB:
        s = bisecting(gpus, peers, node, ask, job, available, ask.gpus * tasks)
    else:
        s = chosen_set(gpus, room.free, peers, rule, node, ask, job, available, ask.gpus * tasks)
    return claim_set(gpus, room.free, node, s, found, at)


@inlined
def growth_on(
    gpus: Gpus, room: GpuRoom, peers: Neighbours, demands: Demands, rule: int, ask: Ask, job: int, node: int,
    tasks: int,
) -> float:  # fmt: skip
    """By how much F (by foresight also what will be stranded) grows if tasks go to a machine; slices are left out."""
    first, end, slices = gpus.first[node], gpus.first[node + 1], gpus.slices[gpus.kind[node]]
    left = room.free[first : first if slices else end]
    growth = -lost_on(left, room.cores[node], room.mb[node], demands, rule)
    found = np.empty((tasks * max(ask.gpus, ask.slices), 2), np.int64)
    count = take_on(gpus, room, peers, demands, rule, ask, job, node, tasks, found, 0)
    growth += lost_on(left, room.cores[node], room.mb[node], demands, rule)
    for row in range(count):
        room.free[found[row, 0]] += found[row, 1]
    room.cores[node] += ask.cores * tasks
    room.mb[node] += ask.mb * tasks
    return growth


@inlined
def score_of(
    gpus: Gpus, room: GpuRoom, peers: Neighbours, demands: Demands, rule: int, ask: Ask, job: int, node: int,
    tasks: int, shares: Floats,
) -> float:  # fmt: skip
    """How good a machine is for so many tasks of a job: the least is best."""
    if rule == FIRST_FIT:
        return 0.0
    if rule == RANDOM:
        return float(mixed_up(job, node))
    if rule in (BEST_FIT, PACK):
        return free_amount(gpus, room.free, node)
    if rule in (WORST_FIT, SPREAD):
        return -free_amount(gpus, room.free, node)
    if rule == DOT_PRODUCT:
        return resource_share(room, gpus, ask, node, True)
    if rule == LEAST_LEFT:
        return resource_share(room, gpus, ask, node, False)
    if rule == PACKING:
        return packing_score(gpus, room.free, ask, node)
    if rule == CLUSTERING:
        return clustering_score(gpus, peers, room.free, demands.kinds, ask, job, node)
    if rule == PACKING_AS_AUTHORS:
        return -float(packing_mark(gpus, room.free, ask, node))
    if rule == CLUSTERING_AS_AUTHORS:
        return -float(clustering_mark(gpus, peers, room.free, demands.kinds, ask, job, node))
    if rule in (FGD, FORESIGHT):
        return -whole_marks(growth_on(gpus, room, peers, demands, rule, ask, job, node, tasks))
    if ask.gpus == 0 or gpus.kind[node] < 0:
        return 0.0
    if ask.slices or ask.milli < WHOLE:
        return free_amount(gpus, room.free, node)
    available = free_set(gpus, room.free, node)
    _, good = best_set(gpus, peers, node, ask, job, available, ask.gpus * tasks, shares)
    return -utility_on(gpus, room.free, good, node)


@inlined
def are_equal(gpus: Gpus, room: GpuRoom, a: int, b: int) -> bool:
    """Whether as much is free on two machines of one kind, of each GPU, too."""
    same = gpus.kind[a] == gpus.kind[b] and room.cores[a] == room.cores[b] and room.mb[a] == room.mb[b]
    for i in range(gpus.first[a + 1] - gpus.first[a] if same else 0):
        same = same and room.free[gpus.first[a] + i] == room.free[gpus.first[b] + i]
    return bool(same)


@inlined
def best_node(
    gpus: Gpus, room: GpuRoom, peers: Neighbours, demands: Demands, rule: int, ask: Ask, job: int, left: int,
    used: Ints, shares: Floats,
) -> tuple[int, int]:  # fmt: skip
    """The machine for the next tasks, and how many of them; -1: there is none.

    Machines that hold all that is left come first, then those that hold most; of these the one that scores least, then
    the first. Under first-fit and random the order is all.
    """
    best, most, least, before = -1, 0, NO_SCORE, -1
    any_size = rule in (FIRST_FIT, RANDOM)
    for node in range(gpus.kind.shape[0]):
        if ask.apart and used[node]:
            continue
        fit = min(left, room_for(gpus, room, ask, node))
        if fit == 0 or (ask.together and fit < left):
            continue
        if ask.apart:
            fit = 1
        if fit < most and not any_size:
            continue
        if rule == FIRST_FIT:
            return node, fit
        if rule in (FGD, FORESIGHT) and before >= 0 and fit == most and are_equal(gpus, room, before, node):
            continue
        before = node
        if rule == TOPOLOGY and fit == most and gpus.kind[node] >= 0 and ask.gpus:
            not_better = -utility_on(gpus, room.free, 2.0, node) >= least - 1e-12  # even if t and I were 1
            if not_better:
                continue
        score = score_of(gpus, room, peers, demands, rule, ask, job, node, fit, shares)
        if score < least - 1e-12 or (fit > most and not any_size):
            best, most, least = node, fit, score
    return best, most


@inlined
def by_halves(
    gpus: Gpus, room: GpuRoom, peers: Neighbours, ask: Ask, job: int, left: int, used: Ints
) -> tuple[int, int]:
    """The machine for the next tasks, found by cutting the machines in two halves again and again (DRB).

    The half with the greater utility goes on: the mean over its machines with room of 1/t on the nearest free GPUs, I
    and 1 - w.
    """
    nodes = gpus.kind.shape[0]
    good, fits = np.zeros(nodes + 1), np.zeros(nodes + 1, np.int64)
    known = np.full((gpus.cost.shape[0], gpus.cost.shape[2]), -1.0)
    room_on, most = np.zeros(nodes, np.int64), 0
    for node in range(nodes):
        if not (ask.apart and used[node]):
            room_on[node] = min(left, room_for(gpus, room, ask, node))
            most = max(most, room_on[node])
    for node in range(nodes):
        good[node + 1], fits[node + 1] = good[node], fits[node]
        if most and room_on[node] == most:
            kind = gpus.kind[node]
            term = 2.0
            if kind >= 0:
                every = (1 << gpus.sockets[kind]) - 1
                term = mean_share(gpus, peers, node, every, job, ask.profile) + 1.0 - free_share(gpus, room.free, node)
                if ask.slices == 0 and ask.milli == WHOLE:
                    available = free_set(gpus, room.free, node)
                    if known[kind, available] < 0.0:
                        cost, count = 1.0, ask.gpus * most
                        if count:
                            near = nearest_set(gpus, kind, ask.graph, available, count)
                            least = gpus.least[kind, ask.graph, count]
                            cost = relative_cost(gpus.cost[kind, ask.graph, near], least, ask.weight)
                        known[kind, available] = 1.0 / cost
                    term += known[kind, available]
            good[node + 1] += term
            fits[node + 1] += 1
    if most == 0 or (ask.together and most < left):
        return -1, 0
    low, high = 0, nodes
    while high - low > 1:
        middle = (low + high) // 2
        first, second = fits[middle] - fits[low], fits[high] - fits[middle]
        a = (good[middle] - good[low]) / first if first else -1.0
        b = (good[high] - good[middle]) / second if second else -1.0
        if a >= b:
            high = middle
        else:
            low = middle
    return low, 1 if ask.apart else most


@compiled
def place_job(
    gpus: Gpus, room: GpuRoom, peers: Neighbours, demands: Demands, rule: int, ask: Ask, job: int, nodes: Ints,
    on_each: Ints, found: Ints,
) -> tuple[int, int]:  # fmt: skip
    """Machines and GPUs for all tasks of a job; takes them out of ``room``.

    ``nodes``, ``on_each``: int64[tasks], overwritten: the machines in the order in which they were chosen, and how many
    tasks each has; ``found``: int64[claims, 2], overwritten: what is claimed, in no order. Returns how many machines
    (0: there is no place) and how many claims.
    """
    left, count, at = ask.tasks, 0, 0
    used = np.zeros(gpus.kind.shape[0], np.int64)
    shares = room_for_shares(gpus)
    while left:
        if rule == DRB:
            node, tasks = by_halves(gpus, room, peers, ask, job, left, used)
        else:
            node, tasks = best_node(gpus, room, peers, demands, rule, ask, job, left, used, shares)
        if node < 0:
            return 0, 0
        at = take_on(gpus, room, peers, demands, rule, ask, job, node, tasks, found, at)
        used[node] = 1
        nodes[count], on_each[count] = node, tasks
        count += 1
        left -= tasks
    return count, at
