"""Compiled: where the memory of chosen compute nodes comes from. Loans are written as (borrower, lender, MB).

In all of these ``free_mb`` is what is left on each node, ``chosen`` the compute nodes in the order chosen and ``lack``
what each still lacks; both amounts shrink as loans are written.
"""

from __future__ import annotations

import numpy as np

from unrack.cluster.distance import distance_of
from unrack.jit import inlined, melted
from unrack.kernels.arrays import Bools, Floats, Ints
from unrack.kernels.ordering import order_of
from unrack.ledger.columns import CPU, MEM
from unrack.ledger.lease import FIRST, NODES, TASKS
from unrack.policy.lending.lender_cost import LendingTerms

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
def cores_of_idle(free: Ints, total: Ints, threshold_mb: Ints) -> Ints:
    """int64[nodes]: the cores of those that may compute; -1: of others."""
    cores = np.full(free.shape[1], -1, np.int64)
    for node in range(free.shape[1]):
        if may_compute(free[CPU, node], total[CPU, node], free[MEM, node], threshold_mb[node]):
            cores[node] = total[CPU, node]
    return cores


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


@inlined
def lend(free_mb: Ints, lack: Ints, i: int, borrower: int, lender: int, out: Ints, at: int) -> int:
    """Let a lender give what it has of what compute node ``i`` lacks; returns the end of the loans."""
    mb = min(free_mb[lender], lack[i])
    if mb > 0:
        free_mb[lender] -= mb
        lack[i] -= mb
        out[at, FIRST] = borrower
        out[at, NODES] = lender
        out[at, TASKS] = mb
        at += 1
    return at


@inlined
def one_after_the_other(
    lenders: Ints, free_mb: Ints, chosen: Ints, lack: Ints, group: Ints, g: int, out: Ints, at: int
) -> int:
    """What the compute nodes of group ``g`` lack, in order, from lenders each of which is used up before the next."""
    i = 0
    for k in range(lenders.shape[0]):
        while i < chosen.shape[0] and free_mb[lenders[k]] > 0:
            if group[chosen[i]] == g and lack[i] > 0:
                at = lend(free_mb, lack, i, chosen[i], lenders[k], out, at)
            if group[chosen[i]] != g or lack[i] == 0:
                i += 1
    return at


@inlined
def one_each(lenders: Ints, free_mb: Ints, chosen: Ints, lack: Ints, group: Ints, g: int, out: Ints, at: int) -> int:
    """In one pass over the lenders: for each compute node the next that has all it lacks."""
    k = 0
    for i in range(chosen.shape[0]):
        if group[chosen[i]] != g or lack[i] == 0:
            continue
        while k < lenders.shape[0] and free_mb[lenders[k]] < lack[i]:
            k += 1
        if k == lenders.shape[0]:
            break
        at = lend(free_mb, lack, i, chosen[i], lenders[k], out, at)
        k += 1
    return at


@inlined
def nearest_each(
    terms: LendingTerms, lenders: Ints, free_mb: Ints, total: Ints, chosen: Ints, lack: Ints, g: int, out: Ints, at: int
) -> int:
    """For each compute node the first unused lender, of the nearest that have all it lacks."""
    used = np.zeros(lenders.shape[0], np.bool_)
    for i in range(chosen.shape[0]):
        if terms.group[chosen[i]] != g or lack[i] == 0:
            continue
        best, found = 9, -1
        for k in range(lenders.shape[0]):
            if used[k] or free_mb[lenders[k]] < lack[i]:
                continue
            away = distance_of(terms.rack, terms.rack_group, total[CPU], chosen[i], lenders[k])
            if away < best:
                best, found = away, k
                if away == 0:
                    break
        if found >= 0:
            used[found] = True
            at = lend(free_mb, lack, i, chosen[i], lenders[found], out, at)
    return at


@inlined
def lenders_by_id(member_first: Ints, member: Ints, section: int, own: Bools, out: Ints) -> int:
    """The nodes of a section (-1: of none) by id, without the job's own; how many."""
    count = 0
    for m in range(member_first[max(section, 0)], member_first[section + 1]):
        if not own[member[m]]:
            out[count] = member[m]
            count += 1
    return count


@inlined
def in_this_order(out: Ints, start: int, order: Ints) -> None:
    """Put the entries from ``start`` on into an order; assigned to a slice, it would compile for two seconds."""
    before = np.empty(order.shape[0], np.int64)
    for i in range(order.shape[0]):
        before[i] = out[start + i]
    for i in range(order.shape[0]):
        out[start + i] = before[order[i]]


@inlined
def lenders_by_class(
    member_first: Ints, member: Ints, section: int, own: Bools, free: Ints, total: Ints, cost: Floats,
    out: Ints,
) -> int:  # fmt: skip
    """The lenders of a section (-1: of none), best first; how many.

    First those that cannot compute anyway: nodes without cores and idle nodes that lend already; then busy nodes; then
    idle nodes. Most free memory first, of idle nodes least; then by id. With costs: the cheapest first, then as before.
    """
    count = 0
    for wanted in range(3):
        start = count
        for m in range(member_first[max(section, 0)], member_first[section + 1]):
            node = member[m]
            if own[node] or free[MEM, node] <= 0:
                continue
            kind = 0
            if total[CPU, node] > 0:
                if not is_idle(free[CPU, node], total[CPU, node]):
                    kind = 1
                elif free[MEM, node] == total[MEM, node]:
                    kind = 2
            if kind == wanted:
                out[count] = node
                count += 1
        keys = np.empty(count - start, np.int64)
        for i in range(count - start):
            keys[i] = free[MEM, out[start + i]] if wanted == 2 else -free[MEM, out[start + i]]
        in_this_order(out, start, order_of(keys))
    if cost.shape[0] > 0:
        costs = np.empty(count, np.float64)
        for i in range(count):
            costs[i] = cost[out[i]]
        in_this_order(out, 0, order_of(costs))
    return count


@inlined
def leftovers(chosen: Ints, group: Ints, g: int, out: Ints) -> int:
    """The job's own compute nodes in group ``g`` by id, asked when no other node has anything; how many."""
    count = 0
    for node in chosen[order_of(chosen)]:
        if group[node] == g:
            out[count] = node
            count += 1
    return count


@inlined
def pack(
    naive: bool, member_first: Ints, member: Ints, g: int, groups: int, group: Ints, free_mb: Ints, chosen: Ints,
    lack: Ints, local: Ints, out: Ints, at: int,
) -> int:  # fmt: skip
    """Strawman and naive: so much memory as group ``g`` needs, by id (naive: first on its own nodes), used or not.

    ``local`` gets what lies on each compute node itself.
    """
    need = 0
    own = np.zeros(free_mb.shape[0], np.bool_)
    order = np.empty(free_mb.shape[0], np.int64)
    count = 0
    for i in range(chosen.shape[0]):
        if group[chosen[i]] == g:
            need += lack[i]
            if naive:
                own[chosen[i]] = True
                order[count] = chosen[i]
                count += 1
    count += lenders_by_id(member_first, member, g, own, order[count:])
    count += lenders_by_id(member_first, member, groups, own, order[count:])
    part = np.zeros(free_mb.shape[0], np.int64)
    for k in range(count):
        part[order[k]] = min(need, free_mb[order[k]])
        need -= part[order[k]]
        free_mb[order[k]] -= part[order[k]]
    for i in range(chosen.shape[0]):
        if group[chosen[i]] == g:
            local[i] = min(lack[i], part[chosen[i]])
            part[chosen[i]] -= local[i]
            lack[i] -= local[i]
    return one_after_the_other(order[:count], part, chosen, lack, group, g, out, at)
