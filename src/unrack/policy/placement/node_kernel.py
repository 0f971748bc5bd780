"""Compiled: put a gang of equal tasks on nodes by first, best or worst fit or in runs, on shared or whole nodes.

O(nodes) a job for first fit, or O(nodes used + nodes / 64) where a summary by blocks is at hand; O(nodes + used log
nodes) for best and worst fit.

The ledger comes in columns, with what one job asks, as kernels of policies take them.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from unrack.jit import compiled, inlined
from unrack.kernels.arrays import Ints
from unrack.kernels.ordering import zeros
from unrack.ledger.columns import ASKED_CORES, ASKED_MB, ASKED_TASKS, ASKED_US, CPU, MEM
from unrack.ledger.lease import CORES, FIRST, LOCAL_MB, NODES, TASKS
from unrack.ledger.nodes import SIZE, count_blocks
from unrack.view import View


class Fit(IntEnum):
    """In which order nodes are filled; ties by id."""

    FIRST = 0  # by id
    BEST = 1  # least left: fewest free cores, then least free memory (whole nodes: fewest cores, then least memory)
    WORST = 2  # most left
    RUN = 3  # the smallest run of nodes side by side that suffices: :func:`place_in_runs`; whole nodes: by id


@inlined
def tasks_on(free_cores: int, free_mb: int, node_cores: int, cores: int, mb: int, whole: bool) -> int:
    """How many tasks of ``cores`` and ``mb`` a node can take now; whole: only if none of its cores is held."""
    if free_cores < cores or (mb > 0 and free_mb < mb) or node_cores == 0 or (whole and free_cores < node_cores):
        return 0
    if cores <= 1:
        by_cores = free_cores if cores == 1 else 2**40
    else:
        by_cores = free_cores // cores
    if mb == 0:
        return by_cores
    by_memory = free_mb // mb
    return by_memory if by_memory < by_cores else by_cores


@inlined
def add_node(out: Ints, start: int, at: int, node: int, tasks: int, cores: int, mb: int) -> int:
    """Append a node to the rows ``out[start:at]``, in the last row where it continues it; returns the new end."""
    if at > start:
        last = at - 1
        if (
            out[last, FIRST] + out[last, NODES] == node
            and out[last, TASKS] == tasks
            and out[last, CORES] == cores
            and out[last, LOCAL_MB] == mb
        ):
            out[last, NODES] += 1
            return at
    out[at, FIRST] = node
    out[at, NODES] = 1
    out[at, TASKS] = tasks
    out[at, CORES] = cores
    out[at, LOCAL_MB] = mb
    return at + 1


@inlined
def sift_down(keys: Ints, ids: Ints, i: int, size: int) -> None:
    """Restore the heap order, smallest (key, second key, id) on top, below place ``i``."""
    while True:
        child = 2 * i + 1
        if child >= size:
            return
        right = child + 1
        if right < size and before(keys, ids, right, child):
            child = right
        if not before(keys, ids, child, i):
            return
        for c in range(2):
            keys[c, i], keys[c, child] = keys[c, child], keys[c, i]
        ids[i], ids[child] = ids[child], ids[i]
        i = child


@inlined
def before(keys: Ints, ids: Ints, a: int, b: int) -> bool:
    """Whether entry ``a`` comes before ``b``."""
    if keys[0, a] != keys[0, b]:
        return bool(keys[0, a] < keys[0, b])
    if keys[1, a] != keys[1, b]:
        return bool(keys[1, a] < keys[1, b])
    return bool(ids[a] < ids[b])


@inlined
def place_in_runs(free: Ints, total: Ints, tasks: int, cores: int, mb: int, out: Ints, at: int) -> int:
    """As :func:`place_job` on shared nodes, a task a node; -1 also if fewer nodes have room than there are tasks.

    Of all runs of nodes side by side that have room the one with the fewest free cores that suffices is taken, or,
    while none does, the one with the most. A task by itself goes where the fewest cores are free there, several go to
    the first nodes. O(nodes) for each run that is taken.
    """
    nodes = total.shape[1]
    has = zeros(nodes)  # cores that tasks of the job could have, of nodes that are not taken
    taken, room = zeros(nodes), 0
    for node in range(nodes):
        here = tasks_on(free[CPU, node], free[MEM, node], total[CPU, node], cores, mb, False)
        has[node] = max(min(here, free[CPU, node]) * cores, 1) if here > 0 else 0
        room += min(here, 1)
    left = tasks if room >= tasks else 0
    while left > 0:
        first, last, most, enough, node = 0, 0, 0, False, 0
        while node < nodes:
            begin, sum_ = node, 0
            while node < nodes and has[node] > 0:
                sum_ += has[node]
                node += 1
            suffices = node - begin >= left
            better = sum_ < most if suffices and enough else suffices or (not enough and sum_ > most)
            if sum_ > 0 and better:
                first, last, most, enough = begin, node, sum_, suffices
            node += 1
        if left == 1:
            for node in range(first, last):
                if has[node] < has[first]:
                    first = node
        for node in range(first, min(last, first + left)):
            taken[node], has[node] = 1, 0
            left -= 1
    start = at
    for node in range(nodes):
        if taken[node] == 1:
            at = add_node(out, start, at, node, 1, cores, mb)
    return at if room >= tasks else -1


@inlined
def place_job(
    free: Ints, total: Ints, tasks: int, cores: int, mb: int, whole: bool, fit: int, out: Ints, at: int
) -> int:
    """Rows for all tasks, written from ``out[at]``; the end of what was written, or -1 if they do not all fit now.

    ``free`` is not changed; columns of it behind those of nodes are not looked at. ``out`` must have room for one row a
    node.
    """
    nodes = total.shape[1]
    start, left = at, tasks
    if fit == 3 and not whole:
        at = place_in_runs(free, total, tasks, cores, mb, out, start)
        if at > start or tasks == 0:
            return at
        at = start  # several tasks on a node
    if fit == 0 or fit == 3:
        for node in range(nodes):
            if free[CPU, node] < cores:
                continue
            here = tasks_on(free[CPU, node], free[MEM, node], total[CPU, node], cores, mb, whole)
            if here == 0:
                continue
            here = min(here, left)
            at = add_node(out, start, at, node, here, total[CPU, node] if whole else here * cores, here * mb)
            left -= here
            if left == 0:
                return at
        return -1
    keys = np.empty((2, nodes), np.int64)
    ids = np.empty(nodes, np.int64)
    size, room = 0, 0
    sign = 1 if fit == 1 else -1
    for node in range(nodes):
        here = tasks_on(free[CPU, node], free[MEM, node], total[CPU, node], cores, mb, whole)
        if here > 0:
            keys[0, size] = sign * free[CPU, node]
            keys[1, size] = sign * free[MEM, node]
            ids[size] = node
            size += 1
            room += min(here, tasks)
    if room < tasks:
        return -1
    for i in range(size // 2 - 1, -1, -1):
        sift_down(keys, ids, i, size)
    used = zeros(nodes)
    last = -1
    while left > 0:
        last = ids[0]
        used[last] = 1
        left -= tasks_on(free[CPU, last], free[MEM, last], total[CPU, last], cores, mb, whole)
        size -= 1
        keys[0, 0], keys[1, 0], ids[0] = keys[0, size], keys[1, size], ids[size]
        sift_down(keys, ids, 0, size)
    for node in range(nodes):
        if used[node] == 1:
            here = tasks_on(free[CPU, node], free[MEM, node], total[CPU, node], cores, mb, whole)
            if node == last:
                here += left
            at = add_node(out, start, at, node, here, total[CPU, node] if whole else here * cores, here * mb)
    return at


@inlined
def add_run(out: Ints, start: int, at: int, node: int, length: int, tasks: int, cores: int, mb: int) -> int:
    """As :func:`add_node`, of so many nodes from ``node`` on."""
    at = add_node(out, start, at, node, tasks, cores, mb)
    out[at - 1, NODES] += length - 1
    return at


@inlined
def end_of_run(free: Ints, total: Ints, node: int, end: int) -> int:
    """The first node behind ``node``, or ``end``, that has something else free or installed."""
    cores, mb, installed = free[CPU, node], free[MEM, node], total[CPU, node]
    node += 1
    while node < end and free[CPU, node] == cores and free[MEM, node] == mb and total[CPU, node] == installed:
        node += 1
    return node


@inlined
def first_fit(
    free: Ints, total: Ints, most: Ints, tasks: int, cores: int, mb: int, whole: bool, span: Ints, out: Ints, at: int
) -> int:
    """As :func:`place_job` by first fit, on nodes from ``span[0]`` on and before ``span[1]``.

    Blocks of which ``most`` says that no node has the cores are skipped, and equal nodes beside each other are taken
    as one.
    """
    nodes: int = span[1]
    blocks = count_blocks(free.shape[1])
    start, left = at, tasks
    node: int = span[0]
    while node < nodes:
        block = node // SIZE
        if most[blocks + block // SIZE] < cores:
            node = (block // SIZE + 1) * SIZE * SIZE
            continue
        if most[block] < cores:
            node = (block + 1) * SIZE
            continue
        stop = min((block + 1) * SIZE, nodes)
        while node < stop:
            if free[CPU, node] < cores:
                node += 1
                continue
            here = tasks_on(free[CPU, node], free[MEM, node], total[CPU, node], cores, mb, whole)
            if here == 0:
                node += 1
                continue
            length = left // here
            if length > 1:
                length = end_of_run(free, total, node, min(nodes, node + length)) - node
            else:
                length, here = 1, min(here, left)
            at = add_run(out, start, at, node, length, here, total[CPU, node] if whole else here * cores, here * mb)
            left -= length * here
            if left == 0:
                return at
            node += length
    return -1


@compiled
def place_one(free: Ints, total: Ints, tasks: int, cores: int, mb: int, whole: bool, fit: int) -> Ints:
    """Rows of a lease for one job (int64[rows, 5]), or no rows if it does not fit now."""
    out = np.empty((free.shape[1], 5), np.int64)
    end = place_job(free, total, tasks, cores, mb, whole, fit, out, 0)
    return out[: max(end, 0)].copy()


@compiled
def room_for(free: Ints, total: Ints, cores: int, mb: int, whole: bool) -> int:
    """How many tasks of ``cores`` and ``mb`` fit now on all nodes together."""
    room = 0
    for node in range(free.shape[1]):
        room += tasks_on(free[CPU, node], free[MEM, node], total[CPU, node], cores, mb, whole)
    return room


class LedgerColumns(NamedTuple):
    """What is free and which job runs on what; arrays are those of :class:`unrack.ledger.state.ClusterState`."""

    # what jobs ask; what nodes have free and installed
    asks: Ints
    free: Ints
    total: Ints
    free_cores: int  # free cores of all nodes
    # booked ends of running jobs, and how many run
    running: Ints
    running_count: int
    # what each of them holds
    pool: Ints
    lease_at: Ints


def columns_of(view: View) -> LedgerColumns:
    """The columns of the ledger that a view shows."""
    seen = view.columns
    return LedgerColumns(
        seen.asks, seen.free, seen.total, seen.free_cores, seen.running, seen.running_count, seen.pool, seen.lease_at
    )


class Gang(NamedTuple):
    """What one job asks: tasks, cores and MB of each, and its expected run time, µs."""

    tasks: int
    cores: int
    mb: int
    us: int


@inlined
def gang_of(asks: Ints, job: int) -> Gang:
    """What a job asks."""
    return Gang(asks[ASKED_TASKS, job], asks[ASKED_CORES, job], asks[ASKED_MB, job], asks[ASKED_US, job])
