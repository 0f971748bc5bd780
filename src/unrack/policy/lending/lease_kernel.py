"""Compiled: a lease for a job on whole nodes, with borrowed memory where the rule says so.

O(nodes log nodes) a job, and as much again for every lending group that it borrows in (its own nodes only).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from unrack.jit import compiled, inlined
from unrack.kernels.arrays import Ints
from unrack.kernels.ordering import order_of
from unrack.ledger.columns import CPU, JOB, LOAN, LOAN_END, MEM, ROW, ROW_END
from unrack.ledger.holding import add_lease
from unrack.ledger.lease import LENDER, LOAN_MB
from unrack.policy.columns import LedgerColumns, gang_of
from unrack.policy.lending.borrowing import (
    candidates,
    fits_somehow,
    leftovers,
    lenders_by_class,
    lenders_by_id,
    nearest_each,
    one_after_the_other,
    one_each,
    pack,
    place_locally,
    select,
)
from unrack.policy.lending.lender_cost import LendingTerms, costs_of
from unrack.policy.placement.node_kernel import add_node
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


def room_for_leases(rows: int, loans: int) -> Leases:
    """Room for so many rows and loans."""
    return Leases(np.empty((rows, 5), np.int64), np.empty((loans, 3), np.int64))


class LeaseSpan(NamedTuple):
    """Where a lease is among others: its rows from ``row`` on to ``row_end``, its loans likewise."""

    row: int
    row_end: int
    loan: int
    loan_end: int


@inlined
def change(free: Ints, out: Leases, span: LeaseSpan, sign: int) -> int:
    """Add (sign 1) or take (-1) all of a lease; returns the cores added or taken."""
    return add_lease(free, out.rows, span.row, span.row_end, out.loans, span.loan, span.loan_end, sign)


@inlined
def note(started: Ints, n: int, job: int, span: LeaseSpan) -> int:
    """Write a job that starts into column ``n`` of an answer; returns how many there are then."""
    started[JOB, n] = job
    started[ROW, n], started[ROW_END, n] = span.row, span.row_end
    started[LOAN, n], started[LOAN_END, n] = span.loan, span.loan_end
    return n + 1


@inlined
def noted(started: Ints, n: int) -> LeaseSpan:
    """Where the lease in column ``n`` of an answer is."""
    return LeaseSpan(started[ROW, n], started[ROW_END, n], started[LOAN, n], started[LOAN_END, n])


@inlined
def room_needed(started: Ints, n: int, out: Leases, last: LeaseSpan, nodes: int) -> int:
    """The room that an answer should have for two leases more; 0: it has that."""
    if (
        last.row_end + 2 * nodes <= out.rows.shape[0]
        and last.loan_end + 4 * nodes <= out.loans.shape[0]
        and n < started.shape[1]
    ):
        return 0
    return 2 * int(last.row_end + last.loan_end + 4 * nodes + n)


@inlined
def place_job(
    terms: LendingTerms, free: Ints, total: Ints, everywhere: Ints, asker: Asker, aware: Any, out: Leases,
    last: LeaseSpan,
) -> LeaseSpan:  # fmt: skip
    """Rows and loans for all tasks, written behind those of ``last``; ``row_end`` -1: there is no place now.

    ``total``: what is installed on the nodes that the job may use; ``everywhere``: on all nodes, which may lend.
    ``aware``, unless it is ``None``, ranks the lenders for ``asker``. ``free`` is not changed. There must be room for a
    row a node, and for 2 loans a node.
    """
    groups, group, threshold_mb = terms.groups, terms.group, terms.threshold_mb
    tasks, cores, mb = asker.tasks, asker.cores, asker.mb
    nodes, row_at, loan_at = free.shape[1], last.row_end, last.loan_end
    nowhere = LeaseSpan(row_at, -1, loan_at, -1)
    if not fits_somehow(free, total, threshold_mb, tasks, cores, mb):
        return nowhere
    chosen, taken = np.empty(nodes, np.int64), np.empty(nodes, np.int64)
    count = -1
    if terms.rule >= 4 and asker.quota.shape[0] == 0:
        count = place_locally(free, total, threshold_mb, tasks, cores, mb, chosen, taken)
    lacking = count < 0
    if lacking:
        order = candidates(free, total, threshold_mb, terms.rule >= 4)
        count = select(order, free, total, group, groups, tasks, cores, mb, asker.class_of, asker.quota, chosen, taken)
        if count < 0:
            return nowhere
    chosen, taken = chosen[:count], taken[:count]
    local, lack = np.empty(count, np.int64), np.empty(count, np.int64)
    for i in range(count):
        lack[i] = taken[i] * mb
        local[i] = lack[i]
    if lacking:
        loan_at = borrow(terms, free, everywhere, chosen, lack, local, aware, asker, out.loans, loan_at)
    for i in order_of(chosen):
        row_at = add_node(out.rows, last.row_end, row_at, chosen[i], taken[i], total[CPU, chosen[i]], local[i])
    return LeaseSpan(last.row_end, row_at, last.loan_end, loan_at)


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
    return spread(terms, cores_at, free.copy(), total, asker, aware)  # a type with that of passes: one kernel for all


@inlined
def spread(
    terms: LendingTerms, cores_at: Ints, free: Ints, total: Ints, asker: Asker, aware: Any
) -> tuple[Ints, Ints, Ints, Ints]:  # fmt: skip
    """Tasks on the nodes that are open to them, and their memory, local and borrowed.

    ``cores_at``: int64[nodes], cores that they may use at each node; -1: the node takes none; ``free``, ``total``:
    int64[2, nodes], of all nodes, which may lend.

    Returns
    -------
    nodes, taken, local : int64[used]
        Nodes in ascending order, the tasks on each, and the MB that they have there; none: there is no place now, or
        nodes may not lend enough.
    loans : int64[loans, 3]
    """
    nodes, count = free.shape[1], 0
    shown = np.empty((2, nodes), np.int64)
    order, keys = np.empty(nodes, np.int64), np.empty(nodes, np.int64)
    for node in range(nodes):
        shown[0, node], shown[1, node] = max(cores_at[node], 0), total[MEM, node]
        if cores_at[node] >= asker.cores:
            order[count] = node
            keys[count] = -free[MEM, node] if terms.rule >= 4 else 0
            count += 1
    order = order[:count][order_of(keys[:count])]
    chosen, taken = np.empty(nodes, np.int64), np.empty(nodes, np.int64)
    count = select(
        order, free, shown, terms.group, terms.groups, asker.tasks, asker.cores, asker.mb, asker.class_of, asker.quota,
        chosen, taken,
    )  # fmt: skip
    count = max(count, 0)
    chosen, taken = chosen[:count], taken[:count]
    lack, local = taken * asker.mb, taken * asker.mb
    loans = np.empty((2 * nodes, 3), np.int64)
    end = borrow(terms, free, total, chosen, lack, local, aware, asker, loans, 0) if count > 0 else 0
    if not may_be_lent(lack, loans, end, asker.lendable):
        chosen, end = chosen[:0], 0
    by_id = order_of(chosen)
    return chosen[by_id], taken[by_id], local[by_id], loans[:end].copy()
