"""Compiled: a lease for a job on whole nodes, with borrowed memory where the rule says so.

O(nodes log nodes) a job, and as much again for every lending group that it borrows in (its own nodes only).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from unrack.jit import compiled, inlined
from unrack.kernels.arrays import Ints
from unrack.kernels.ordering import order_of, zeros
from unrack.ledger.columns import CPU, MEM
from unrack.ledger.lease import BORROWER, LENDER, LOAN_MB
from unrack.policy.lending.borrowing import (
    leftovers,
    lenders_by_class,
    lenders_by_id,
    nearest_each,
    one_after_the_other,
    one_each,
    pack,
    select,
    tasks_by_cores,
)
from unrack.policy.lending.lender_cost import LendingTerms, costs_of
from unrack.policy.placement.node_kernel import LedgerColumns, add_node, gang_of
from unrack.policy.placement.node_kernel import place_job as place_on_nodes
from unrack.sealed import sealed


class Asker(NamedTuple):
    """A job that asks for a place, and what bounds its choice."""

    # which job, when, and which run: only the choice of lenders by cost looks at it
    job: int
    now: int
    running: Ints
    runs: int
    # what it asks, and for how long (µs, 1 or more)
    tasks: int
    cores: int
    mb: int
    us: int
    # the class of each node, and how many of each class may be taken; empty: as many as there are. With quotas it has
    # been seen that the job cannot have all its memory where it runs.
    class_of: Ints
    quota: Ints
    lendable: Ints  # int64[nodes]: how many MB each may lend; none: all that is free


ANY: Ints = np.empty(0, np.int64)
"""No quotas."""
_NONE_RUN: Ints = sealed(np.empty((2, 0), np.int64))


def any_asker(tasks: int, cores: int, mb: int) -> Asker:
    """No job in particular that asks so much, while no job runs."""
    return Asker(-1, 0, _NONE_RUN, 0, tasks, cores, mb, 1, ANY, ANY, ANY)


@inlined
def asker_of(seen: LedgerColumns, job: int, now: int, class_of: Ints, quota: Ints) -> Asker:
    """A waiting job that asks for a place now."""
    tasks, cores, mb, us = gang_of(seen.asks, job)
    none = np.empty(0, np.int64)
    return Asker(job, now, seen.running, seen.running_count, tasks, cores, mb, max(1, us), class_of, quota, none)


class Leases(NamedTuple):
    """Rows (int64[room, 5]) and loans (int64[room, 3]) of leases, one after the other."""

    rows: Ints
    loans: Ints


@inlined
def groups_hold(terms: LendingTerms, free: Ints, cores_at: Ints, asker: Asker) -> bool:
    """Whether lending groups have memory for whole tasks, where no node reaches all of them: a bound, not a choice.

    Of a node that may take tasks a job may use all that is free, of others what they may lend.
    """
    of_group, limits, held = zeros(terms.groups), asker.lendable, 0
    for node in range(free.shape[1]):
        if terms.group[node] < 0:
            return True
        mb = free[MEM, node]
        if limits.shape[0] > 0 and cores_at[node] < asker.cores:
            mb = min(mb, limits[node])
        of_group[terms.group[node]] += max(mb, 0)
    for g in range(terms.groups):
        held += of_group[g] // max(asker.mb, 1)
    return held >= asker.tasks or asker.mb == 0


@inlined
def may_hold(terms: Any, free: Ints, cores_at: Ints, asker: Asker) -> bool:
    """Whether there are cores and memory for all tasks, as far as is seen without a choice."""
    places, supply = 0, 0
    for node in range(free.shape[1]):
        supply += free[MEM, node]
        if places < asker.tasks and cores_at[node] >= 0:
            places += min(tasks_by_cores(cores_at[node], asker.cores), asker.tasks)
    enough = places >= asker.tasks and supply >= asker.tasks * asker.mb
    if enough and terms is not None:
        enough = groups_hold(terms, free, cores_at, asker)
    return enough


@inlined
def place_job(
    terms: Any, free: Ints, total: Ints, cores_at: Ints, whole: bool, fit: int, asker: Asker, aware: Any, look: bool,
    out: Leases,
) -> tuple[int, int]:  # fmt: skip
    """Rows and loans for all tasks, written to ``out``; how many (-1 rows: there is no place now).

    ``total``, ``cores_at``, ``aware``, ``look``: as of :func:`spread`; ``terms``: ``None``: no memory is lent;
    ``whole``: whether a node serves one job at a time; ``fit``: which nodes are filled first that have all memory.
    ``free`` is not changed. There must be room for a row a node, and for 2 loans a node; on shared nodes
    these are by borrower.
    """
    tasks, cores, mb = asker.tasks, asker.cores, asker.mb
    if not may_hold(terms, free, cores_at, asker):
        return -1, 0
    shown, own, row = np.empty_like(free), np.zeros(free.shape, np.int64), -1
    for node in range(free.shape[1]):
        shown[CPU, node], shown[MEM, node] = max(cores_at[node], 0), free[MEM, node] if cores_at[node] >= 0 else 0
        own[CPU, node], own[MEM, node] = total[CPU, node] if cores_at[node] >= 0 else 0, total[MEM, node]
    if terms is None or (terms.rule >= 4 and asker.quota.shape[0] == 0):
        row = place_on_nodes(shown, own, tasks, cores, mb, whole, fit, out.rows, 0)
    if terms is None or row >= 0:
        return row, 0
    chosen, taken, local, loans = spread(terms, cores_at, free, total, asker, aware, look)
    for i in range(chosen.shape[0]):
        held = total[CPU, chosen[i]] if whole else cores * taken[i]
        row = add_node(out.rows, 0, max(row, 0), chosen[i], taken[i], held, local[i])
    borrower = np.empty(loans.shape[0], np.int64)
    for i in range(loans.shape[0]):
        borrower[i] = 0 if whole else loans[i, BORROWER]
    by_borrower = order_of(borrower)
    for i in range(loans.shape[0]):
        for c in range(3):
            out.loans[i, c] = loans[by_borrower[i], c]
    return row, loans.shape[0]


@inlined
def borrow(
    terms: LendingTerms, free: Ints, total: Ints, chosen: Ints, lack: Ints, local: Ints, aware: Any, asker: Asker,
    loans: Ints, at: int,
) -> int:  # fmt: skip
    """Fill ``local`` and write loans until nothing lacks; the end of the loans. There must be enough."""
    rule, groups, group, first_of, member = (
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
    for node in range(asker.lendable.shape[0]):
        if rule >= 2 or not own[node]:
            free_mb[node] = min(free_mb[node], asker.lendable[node])
    lenders = np.empty(nodes, np.int64)
    cost = np.empty(0, np.float64)
    if aware is not None and aware.ranks:
        wanted, lacking = 0, 0
        for i in range(count):
            wanted += local[i] + lack[i]
            lacking += lack[i]
        share = lacking / max(wanted, 1)
        cost = costs_of(aware, asker.job, asker.now, asker.us, count, share, asker.running, asker.runs, free, total)
    last = np.empty(count, np.int64)
    for first in range(count):
        g = group[chosen[first]]
        if lack[first] == 0:
            continue
        if rule < 2:
            at = pack(rule == 1, first_of, member, g, groups, group, free_mb, chosen, lack, local, loans, at)
            continue
        for part in range(2):  # own group, with several groups: nodes that reach all only for what it has not
            section = g if part == 0 else groups
            if rule == 2:
                there = lenders_by_id(first_of, member, section, own, lenders)
            else:
                there = lenders_by_class(first_of, member, section, own, free, total, cost, lenders)
            asked = lenders[:there]
            if rule >= 3 and terms.near:
                at = nearest_each(terms, asked, free_mb, total, chosen, lack, g, loans, at)
            elif rule >= 3:
                at = one_each(asked, free_mb, chosen, lack, group, g, loans, at)
            at = one_after_the_other(asked, free_mb, chosen, lack, group, g, loans, at)
            if part == 0:
                asked = last[: leftovers(chosen, group, g, last)]
                at = one_after_the_other(asked, free_mb, chosen, lack, group, g, loans, at)
    return at


@inlined
def may_be_lent(lack: Ints, loans: Ints, end: int, lendable: Ints) -> bool:
    """Whether nothing lacks, and no node lends more than it may."""
    if lendable.shape[0] == 0:
        return True
    left = lendable.copy()
    enough = True
    for i in range(end):
        left[loans[i, LENDER]] -= loans[i, LOAN_MB]
        enough = enough and left[loans[i, LENDER]] >= 0
    for i in range(lack.shape[0]):
        enough = enough and lack[i] == 0
    return enough


@compiled
def spread_tasks(
    terms: LendingTerms, cores_at: Ints, free: Ints, total: Ints, asker: Asker, aware: Any
) -> tuple[Ints, Ints, Ints, Ints]:  # fmt: skip
    """As :func:`spread`."""
    return spread(
        terms, cores_at, free.copy(), total, asker, aware, False
    )  # a type with that of passes: one kernel for all


@inlined
def spread(
    terms: LendingTerms, cores_at: Ints, free: Ints, total: Ints, asker: Asker, aware: Any, look: bool
) -> tuple[Ints, Ints, Ints, Ints]:  # fmt: skip
    """Tasks on the nodes that are open to them, and their memory, local and borrowed.

    ``cores_at``: int64[nodes], cores that they may use at each node; -1: the node takes none; ``free``, ``total``:
    int64[2, nodes], of all nodes, which may lend; ``aware``, unless it is ``None``, ranks the lenders for ``asker``.
    ``look``: whether there is a place is all that matters, so lenders are not chosen.

    Returns
    -------
    nodes, taken, local : int64[used]
        Nodes in ascending order, the tasks on each, and the MB that they have there; none: there is no place now, or
        nodes may not lend enough.
    loans : int64[loans, 3]
    """
    nodes, count, ordered = free.shape[1], 0, True
    shown = np.empty((2, nodes), np.int64)
    order, keys = np.empty(nodes, np.int64), np.empty(nodes, np.int64)
    for node in range(nodes):
        shown[0, node], shown[1, node] = max(cores_at[node], 0), total[MEM, node]
        if cores_at[node] >= asker.cores:
            order[count] = node
            keys[count] = -free[MEM, node] if terms.rule >= 4 else 0
            ordered = ordered and (count == 0 or keys[count] >= keys[count - 1])
            count += 1
    order = order[:count] if ordered else order[:count][order_of(keys[:count])]
    chosen, taken = np.empty(nodes, np.int64), np.empty(nodes, np.int64)
    count = select(
        order, free, shown, terms.group, terms.groups, asker.tasks, asker.cores, asker.mb, asker.class_of, asker.quota,
        chosen, taken,
    )  # fmt: skip
    count = max(count, 0)
    chosen, taken = chosen[:count], taken[:count]
    lack, local = taken * asker.mb, taken * asker.mb
    loans = np.empty((2 * nodes, 3), np.int64)
    end = borrow(terms, free, total, chosen, lack, local, aware, asker, loans, 0) if count > 0 and not look else 0
    if not may_be_lent(lack, loans, end, asker.lendable):
        chosen, end = chosen[:0], 0
    by_id = order_of(chosen)
    return chosen[by_id], taken[by_id], local[by_id], loans[:end].copy()
