"""Compiled: which nodes compute. Nodes are whole: a job holds all cores of a node or none."""

from __future__ import annotations

import numpy as np

from unrack.jit import inlined, melted
from unrack.kernels.arrays import Ints
from unrack.kernels.ordering import order_of
from unrack.ledger.columns import CPU, MEM
from unrack.policy.placement.node_kernel import tasks_on

ALL = 2**40


@melted
def is_idle(free_cores: int, node_cores: int) -> bool:
    """Whether all of a node's cores are free. An idle node with memory in use lends it."""
    return free_cores == node_cores > 0


@melted
def may_compute(free_cores: int, node_cores: int, free_mb: int, threshold_mb: int) -> bool:
    """Whether a node is idle and has the memory free that it must have.

    It takes numbers: arrays handed to a function in a loop over nodes cost more than the loop.
    """
    return free_cores == node_cores > 0 and free_mb >= threshold_mb


@inlined
def tasks_by_cores(node_cores: int, cores: int) -> int:
    """How many tasks a whole node holds, were memory no matter."""
    return node_cores // cores if cores > 0 else ALL


@inlined
def fits_somehow(free: Ints, total: Ints, threshold_mb: Ints, tasks: int, cores: int, mb: int) -> bool:
    """Whether there are nodes for all tasks, and memory for them somewhere.

    With one lending group this is all that it takes; with several it is a necessary condition.
    """
    places, supply = 0, 0
    for node in range(free.shape[1]):
        supply += free[MEM, node]
        if places < tasks and may_compute(free[CPU, node], total[CPU, node], free[MEM, node], threshold_mb[node]):
            places += min(tasks_by_cores(total[CPU, node], cores), tasks)
    return places >= tasks and supply >= tasks * mb


@inlined
def place_locally(
    free: Ints, total: Ints, threshold_mb: Ints, tasks: int, cores: int, mb: int, chosen: Ints, taken: Ints
) -> int:
    """The plain first fit on whole nodes that may compute; how many nodes, or -1: they do not hold all tasks."""
    count, left = 0, tasks
    for node in range(free.shape[1]):
        if not may_compute(free[CPU, node], total[CPU, node], free[MEM, node], threshold_mb[node]):
            continue
        here = min(left, tasks_on(free[CPU, node], free[MEM, node], total[CPU, node], cores, mb, True))
        if here > 0:
            chosen[count] = node
            taken[count] = here
            count += 1
            left -= here
            if left == 0:
                return count
    return -1


@inlined
def candidates(free: Ints, total: Ints, threshold_mb: Ints, most_first: bool) -> Ints:
    """int64[k]: the nodes that may compute, by id; or those with most free memory first, then by id."""
    found = np.empty(free.shape[1], np.int64)
    count = 0
    ordered = True
    for node in range(free.shape[1]):
        if may_compute(free[CPU, node], total[CPU, node], free[MEM, node], threshold_mb[node]):
            found[count] = node
            if count > 0 and free[MEM, node] > free[MEM, found[count - 1]]:
                ordered = False
            count += 1
    if ordered or not most_first:
        return found[:count]
    keys = np.empty(count, np.int64)
    for i in range(count):
        keys[i] = -free[MEM, found[i]]
    nodes: Ints = found[:count][order_of(keys)]
    return nodes


@inlined
def select(
    order: Ints, free: Ints, total: Ints, group: Ints, groups: int, tasks: int, cores: int, mb: int,
    class_of: Ints, quota: Ints, chosen: Ints, taken: Ints,
) -> int:  # fmt: skip
    """Compute nodes in an order, as long as their lending groups have the memory; how many, or -1: too few.

    Of each class of nodes no more than its quota are taken, if there are quotas; they shrink.

    A node is passed over if, with it, the groups would lack more than the nodes that reach all have free.
    """
    supply = np.zeros(groups + 1, np.int64)  # the last: nodes that reach all
    for node in range(free.shape[1]):
        supply[groups if group[node] < 0 else group[node]] += free[MEM, node]
    need = np.zeros(groups + 1, np.int64)
    lacking = 0
    count, left = 0, tasks
    for i in range(order.shape[0]):
        node = order[i]
        here = min(left, tasks_by_cores(total[CPU, node], cores))
        if here == 0 or (quota.shape[0] > 0 and quota[class_of[node]] == 0):
            continue
        g = groups if group[node] < 0 else group[node]
        before = max(0, need[g] - supply[g])
        after = max(0, need[g] + here * mb - supply[g])
        if lacking - before + after > supply[groups]:
            continue
        lacking += after - before
        need[g] += here * mb
        if quota.shape[0] > 0:
            quota[class_of[node]] -= 1
        chosen[count] = node
        taken[count] = here
        count += 1
        left -= here
        if left == 0:
            return count
    return -1
