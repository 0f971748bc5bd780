"""Compiled: how many tasks find GPUs on a node, and which GPUs are nearest to each other."""

from __future__ import annotations

import numpy as np

from unrack.jit import compiled, inlined
from unrack.kernels.arrays import Ints
from unrack.resources.gpus.columns import FAR_COST, WHOLE, Ask, Gpus


@inlined
def free_set(gpus: Gpus, free: Ints, node: int) -> int:
    """The set of GPUs of a node of which nobody holds anything; none of a machine whose GPUs are in slices."""
    found, first = 0, gpus.first[node]
    kind = gpus.kind[node]
    if kind >= 0 and gpus.slices[kind] == 0:
        for i in range(gpus.size[kind]):
            if free[first + i] == WHOLE:
                found |= 1 << i
    return found


@inlined
def members(s: int) -> int:
    """How many GPUs are in a set."""
    count = 0
    while s:
        s &= s - 1
        count += 1
    return count


@inlined
def block_starts(slices: int, size: int) -> int:
    """The step between places where a block of slices may begin: as MIG has it, at multiples of the next power of 2."""
    step = 1
    while step < size:
        step *= 2
    return min(step, slices)


@inlined
def may_begin(slices: int, size: int, start: int) -> bool:
    """Whether a block may begin there; of eight slices the last one has no computing units of its own."""
    fits = start % block_starts(slices, size) == 0 and start + size <= slices
    return fits and not (slices == 8 and size == 1 and start == 7)


@inlined
def gpu_fit(gpus: Gpus, free: Ints, node: int, count: int, milli: int, slices: int) -> int:
    """How many tasks find their GPUs on a node."""
    kind = gpus.kind[node]
    if count == 0:
        return 1 << 30
    if kind < 0 or (gpus.slices[kind] > 0) != (slices > 0):
        return 0
    first, found = gpus.first[node], 0
    if slices:
        each = gpus.slices[kind]
        if count > 1 or slices > each:
            return 0
        for gpu in range(gpus.size[kind]):
            for start in range(each):
                if may_begin(each, slices, start) and block_is_free(free, first + gpu * each + start, slices):
                    found += 1
        return found
    if milli == WHOLE or count > 1:
        for i in range(gpus.size[kind]):
            found += free[first + i] >= milli
        if milli == WHOLE:
            return found // count
        return shared_gangs(gpus, free, node, count, milli)
    for i in range(gpus.size[kind]):
        found += free[first + i] // milli
    return found


@inlined
def block_is_free(free: Ints, first: int, size: int) -> bool:
    """Whether so many slices in a row are free."""
    for i in range(first, first + size):
        if free[i] == 0:
            return False
    return True


@inlined
def shared_gangs(gpus: Gpus, free: Ints, node: int, count: int, milli: int) -> int:
    """How many tasks fit that each use a part of several GPUs: no task uses one twice."""
    kind, first = gpus.kind[node], gpus.first[node]
    tasks = 0
    while True:
        room = 0
        for i in range(gpus.size[kind]):
            room += min(tasks + 1, free[first + i] // milli)
        if room < (tasks + 1) * count:
            return tasks
        tasks += 1


@compiled
def tasks_that_fit(gpus: Gpus, free: Ints, count: int, milli: int, slices: int) -> Ints:
    """int64[nodes]: how many tasks find their GPUs on each node."""
    found = np.empty(gpus.kind.shape[0], np.int64)
    for node in range(gpus.kind.shape[0]):
        found[node] = gpu_fit(gpus, free, node, count, milli, slices)
    return found


@inlined
def nearest_set(gpus: Gpus, kind: int, graph: int, available: int, count: int) -> int:
    """Of all sets of so many available GPUs that with the least cost of communication; of equal ones the first."""
    best, least, s = -1, FAR_COST, available
    while s:
        cost = gpus.cost[kind, graph, s]
        if members(s) == count and (cost < least or (cost == least and s < best)):
            best, least = s, cost
        s = (s - 1) & available
    return best


@inlined
def claim_set(gpus: Gpus, free: Ints, node: int, s: int, found: Ints, at: int) -> int:
    """Claim all of the GPUs of a set; returns how many claims there are now."""
    for i in range(gpus.size[gpus.kind[node]]):
        if s >> i & 1:
            free[gpus.first[node] + i] -= WHOLE
            found[at, 0], found[at, 1] = gpus.first[node] + i, WHOLE
            at += 1
    return at


@inlined
def claim_parts(gpus: Gpus, free: Ints, node: int, count: int, milli: int, tasks: int, found: Ints, at: int) -> int:
    """Claim parts of GPUs; returns how many claims there are now.

    Of the fullest that has room; where a task uses several, of those with most room, so that all tasks find as many.
    """
    kind, first = gpus.kind[node], gpus.first[node]
    begin = at
    for _ in range(tasks):
        used = 0
        for _ in range(count):
            best, least = -1, WHOLE + 1
            for i in range(gpus.size[kind]):
                left = free[first + i] if count == 1 else WHOLE - free[first + i] // milli
                if not used >> i & 1 and milli <= free[first + i] and left < least:
                    best, least = i, left
            used |= 1 << best
            at = claim_part(free, first + best, milli, found, begin, at)
    return at


@inlined
def claim_part(free: Ints, place: int, milli: int, found: Ints, begin: int, at: int) -> int:
    """Claim a part of one GPU more."""
    free[place] -= milli
    for row in range(begin, at):
        if found[row, 0] == place:
            found[row, 1] += milli
            return at
    found[at, 0], found[at, 1] = place, milli
    return at + 1


@inlined
def claim_slices(gpus: Gpus, free: Ints, node: int, size: int, tasks: int, found: Ints, at: int) -> int:
    """Claim blocks of slices: of the GPU with fewest free ones, at the last place where a block may be."""
    kind, first = gpus.kind[node], gpus.first[node]
    each = gpus.slices[kind]
    for _ in range(tasks):
        best, least = -1, each + 1
        for gpu in range(gpus.size[kind]):
            left = 0
            for i in range(each):
                left += free[first + gpu * each + i]
            if left < least:
                for start in range(each):
                    if may_begin(each, size, start) and block_is_free(free, first + gpu * each + start, size):
                        best, least = first + gpu * each + start, left
        for i in range(best, best + size):
            free[i] = 0
            found[at, 0], found[at, 1] = i, 1
            at += 1
    return at


@compiled
def choose_on_node(gpus: Gpus, free: Ints, node: int, ask: Ask, tasks: int, found: Ints, at: int) -> int:
    """GPUs for some tasks on one node, taken from what is free; returns how many claims there are now."""
    if ask.gpus == 0 or gpu_fit(gpus, free, node, ask.gpus, ask.milli, ask.slices) < tasks:
        return at  # it asks for none, or there is no choice that would be free
    if ask.slices:
        return claim_slices(gpus, free, node, ask.slices, tasks, found, at)
    if ask.milli < WHOLE:
        return claim_parts(gpus, free, node, ask.gpus, ask.milli, tasks, found, at)
    available = free_set(gpus, free, node)
    s = nearest_set(gpus, gpus.kind[node], ask.graph, available, ask.gpus * tasks)
    return claim_set(gpus, free, node, s, found, at)
