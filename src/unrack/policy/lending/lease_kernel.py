"""Compiled: a lease for a job on whole nodes, with borrowed memory where the rule says so.

O(nodes log nodes) a job, and as much again for every lending group that it borrows in (its own nodes only).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unrack.jit import compiled, inlined
from unrack.kernels.ordering import order_of
from unrack.ledger.names import CPU, MEM
from unrack.policy.lending.borrowing import (
    leftovers,
    lenders_by_class,
    lenders_by_id,
    nearest_each,
    one_after_the_other,
    one_each,
    pack,
)
from unrack.policy.lending.compute_nodes import candidates, fits_somehow, place_locally, select
from unrack.policy.lending.lender_cost import costs_of
from unrack.policy.lending.rules import Terms, grouped
from unrack.policy.placement.node_kernel import add_node
from unrack.sealed import sealed

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Who(NamedTuple):
    """Who asks for a place.

    Attributes
    ----------
    job, now, length, running, runs
        Which job, when, for how long (µs), and who runs: only the choice of lenders by cost looks at it.
    class_of, quota
        The class of each node, and how many of each class may be taken; empty: as many as there are. With quotas it
        has been seen that the job cannot have all its memory where it runs.
    """

    job: int
    now: int
    length: int
    running: Ints
    runs: int
    class_of: Ints
    quota: Ints


ANY: Ints = np.empty(0, np.int64)
"""No quotas."""
NOBODY = Who(-1, 0, 1, sealed(np.empty((2, 0), np.int64)), 0, ANY, ANY)


@inlined
def place_job(
    terms: Terms, free: Ints, total: Ints, tasks: int, cores: int, mb: int, aware: Any, who: Who, rows: Ints,
    row_at: int, loans: Ints, loan_at: int,
) -> tuple[int, int]:  # fmt: skip
    """Rows and loans for all tasks, written from ``row_at`` and ``loan_at``; their ends, (-1, -1): no place now.

    ``aware``, unless it is ``None``, ranks the lenders for ``who``. ``free`` is not changed. There must be room for a
    row a node, and for 2 loans a node.
    """
    rule, groups, group, threshold_mb = terms.rule, terms.groups, terms.group, terms.threshold_mb
    nodes = free.shape[1]
    if not fits_somehow(free, total, threshold_mb, tasks, cores, mb):
        return -1, -1
    chosen, taken = np.empty(nodes, np.int64), np.empty(nodes, np.int64)
    count = -1
    if rule >= 4 and who.quota.shape[0] == 0:
        count = place_locally(free, total, threshold_mb, tasks, cores, mb, chosen, taken)
    lacking = count < 0
    if lacking:
        order = candidates(free, total, threshold_mb, rule >= 4)
        count = select(order, free, total, group, groups, tasks, cores, mb, who.class_of, who.quota, chosen, taken)
        if count < 0:
            return -1, -1
    chosen, taken = chosen[:count], taken[:count]
    local, lack = np.empty(count, np.int64), np.empty(count, np.int64)
    for i in range(count):
        lack[i] = taken[i] * mb
        local[i] = lack[i]
    if lacking:
        loan_at = borrow(terms, free, total, chosen, lack, local, aware, who, loans, loan_at)
    by_id = order_of(chosen)
    start = row_at
    for i in by_id:
        row_at = add_node(rows, start, row_at, chosen[i], taken[i], total[CPU, chosen[i]], local[i])
    return row_at, loan_at


@inlined
def borrow(
    terms: Terms,
    free: Ints,
    total: Ints,
    chosen: Ints,
    lack: Ints,
    local: Ints,
    aware: Any,
    who: Who,
    loans: Ints,
    at: int,
) -> int:
    """Fill ``local`` and write loans until nothing lacks; the end of the loans. There must be enough."""
    rule, groups, group, member_first, member = (
        terms.rule, terms.groups, terms.group, terms.member_first, terms.member,
    )  # fmt: skip
    nodes, count = free.shape[1], chosen.shape[0]
    free_mb = free[MEM].copy()
    own = np.zeros(nodes, np.bool_)
    for i in range(count):
        own[chosen[i]] = True
    if rule >= 2:
        for i in range(count):
            local[i] = min(lack[i], free_mb[chosen[i]])
            free_mb[chosen[i]] -= local[i]
            lack[i] -= local[i]
    lenders = np.empty(nodes, np.int64)
    cost = np.empty(0, np.float64)
    if aware is not None and aware.ranks:
        wanted, lacking = 0, 0
        for i in range(count):
            wanted += local[i] + lack[i]
            lacking += lack[i]
        cost = costs_of(
            aware, who.job, who.now, who.length, count, lacking / max(wanted, 1), who.running, who.runs, free, total
        )
    last = np.empty(count, np.int64)
    for first in range(count):
        g = group[chosen[first]]
        if lack[first] == 0:
            continue
        if rule < 2:
            at = pack(rule == 1, member_first, member, g, groups, group, free_mb, chosen, lack, local, loans, at)
            continue
        for part in range(2):  # own group, with several groups: nodes that reach all only for what it has not
            section = g if part == 0 else groups
            if rule == 2:
                there = lenders_by_id(member_first, member, section, own, lenders)
            else:
                there = lenders_by_class(
                    member_first, member, section, own, free, total, cost, lenders
                )  # fmt: skip
            asked = lenders[:there]
            if rule >= 3 and terms.near:
                at = nearest_each(
                    asked, free_mb, total, terms.rack, terms.rack_group, chosen, lack, group, g, loans, at
                )  # fmt: skip
            elif rule >= 3:
                at = one_each(asked, free_mb, chosen, lack, group, g, loans, at)
            at = one_after_the_other(asked, free_mb, chosen, lack, group, g, loans, at)
            if part == 0:
                at = one_after_the_other(
                    last[: leftovers(chosen, group, g, last)], free_mb, chosen, lack, group, g, loans, at
                )  # fmt: skip
    return at


@compiled
def place_now(
    terms: Terms, free: Ints, total: Ints, tasks: int, cores: int, mb: int, aware: Any, who: Who
) -> tuple[Ints, Ints]:
    """Rows (int64[k, 5]) and loans (int64[k, 3]) for one job; no rows: no place now."""
    nodes = free.shape[1]
    rows, loans = np.empty((nodes, 5), np.int64), np.empty((2 * nodes, 3), np.int64)
    draft = free.copy()  # a type with that of passes, which place on what they may change: one kernel for all
    row_end, loan_end = place_job(terms, draft, total, tasks, cores, mb, aware, who, rows, 0, loans, 0)
    return rows[: max(row_end, 0)].copy(), loans[: max(loan_end, 0)].copy()


@compiled
def spread_tasks(
    terms: Terms, cores_at: Ints, free: Ints, total: Ints, tasks: int, cores: int, mb: int, aware: Any, who: Who
) -> tuple[Ints, Ints, Ints, Ints]:
    """Tasks on the nodes that are open to them, and their memory, local and borrowed.

    Parameters
    ----------
    cores_at : int64[nodes]
        Cores that they may use at each node; -1: the node takes none.
    free, total : int64[2, nodes]
        Of all nodes, which may lend.

    Returns
    -------
    nodes, taken, local : int64[used]
        Nodes in ascending order, the tasks on each, and the MB that they have there; none: there is no place now.
    loans : int64[loans, 3]
    """
    draft = free.copy()  # as in place_now
    nodes, count = free.shape[1], 0
    shown = np.empty((2, nodes), np.int64)
    order, keys = np.empty(nodes, np.int64), np.empty(nodes, np.int64)
    for node in range(nodes):
        shown[0, node], shown[1, node] = max(cores_at[node], 0), total[MEM, node]
        if cores_at[node] >= cores:
            order[count] = node
            keys[count] = -free[MEM, node] if terms.rule >= 4 else 0
            count += 1
    order = order[:count][order_of(keys[:count])]
    chosen, taken = np.empty(nodes, np.int64), np.empty(nodes, np.int64)
    count = select(
        order, draft, shown, terms.group, terms.groups, tasks, cores, mb, who.class_of, who.quota, chosen, taken
    )  # fmt: skip
    count = max(count, 0)
    chosen, taken = chosen[:count], taken[:count]
    lack, local = taken * mb, taken * mb
    loans = np.empty((2 * nodes, 3), np.int64)
    end = borrow(terms, draft, total, chosen, lack, local, aware, who, loans, 0) if count > 0 else 0
    by_id = order_of(chosen)
    return chosen[by_id], taken[by_id], local[by_id], loans[:end].copy()


def place_one(
    rule: int, free: Ints, total: Ints, group: Ints, tasks: int, cores: int, mb: int, threshold: float
) -> tuple[Ints, Ints]:
    """:func:`place_now` on terms made of plain values: lending groups by node, and the threshold as a share."""
    nowhere = np.zeros(len(group), np.int64)
    terms = grouped(rule, group, np.ceil(threshold * total[MEM]).astype(np.int64), False, nowhere, nowhere)
    return place_now(terms, sealed(free), sealed(total), tasks, cores, mb, None, NOBODY)
