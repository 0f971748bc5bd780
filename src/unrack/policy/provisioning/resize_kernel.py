"""Compiled: leases that follow what is needed. Memory goes back remote first; it grows local first, then remote.

References
----------
Vieira Zacarias 2023, section 8.1 (the Actuator).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from unrack.jit import compiled, inlined
from unrack.kernels.arrays import Ints
from unrack.kernels.ordering import zeros
from unrack.ledger.columns import FIRST_ROW, MEM, OF_JOB, ROW_COUNT
from unrack.ledger.lease import BORROWER, CORES, FIRST, LENDER, LOAN_MB, LOCAL_MB, NODES, TASKS
from unrack.ledger.memory_use import AT, FOR, MB, NEXT_OF, MemoryUse, loan_count, peak_on
from unrack.policy.lending.lease_kernel import asker_of, borrow
from unrack.policy.lending.lender_cost import LendingTerms
from unrack.policy.placement.node_kernel import LedgerColumns, add_node

AS_IT_WAS, CHANGED, LACKS = 0, 1, 2
"""What becomes of a job: CHANGED + LACKS: it gave something back on one node, and lacks something on another."""


class Resized(NamedTuple):
    """New leases."""

    verdict: Ints  # int64[jobs]
    # int64[k, 5], int64[jobs + 1]: the rows of job i are `rows[row_first[i]:row_first[i + 1]]`; loans likewise
    rows: Ints
    row_first: Ints
    # int64[k, 3], int64[jobs + 1]
    loans: Ints
    loan_first: Ints


class Wanted(NamedTuple):
    """What decides how much jobs are to hold."""

    # int64[k], int64[jobs + 1]: what a task of job i uses is ``task_mb[first[i]:first[i + 1]]``: one for all its tasks,
    # or one a task
    task_mb: Ints
    first: Ints
    asked_mb: Ints  # int64[jobs]: what a task asked for, where ``band`` or ``keep`` is above 0
    stops: Ints  # int64[all jobs]: how often each was stopped for memory
    reserve_after: int  # after so many stops a job gives nothing back
    # a job has so much more than it uses, and at least this share of what it asked, but no more than that for either
    band: float
    keep: float


@inlined
def with_loans(loans: Ints, end: int, more: int) -> Ints:
    """The same loans, with room for more behind ``end``."""
    if end + more <= loans.shape[0]:
        return loans
    wider = np.empty((2 * (end + more), 3), np.int64)
    for i in range(end):
        for c in range(3):
            wider[i, c] = loans[i, c]
    return wider


@compiled
def growth_of(
    running: Ints, count: int, pool: Ints, lease_at: Ints, uses: MemoryUse, most_mb: Ints, share: float
) -> tuple[Ints, Ints]:
    """What running jobs may still come to hold on each of their nodes, as ``grows`` of :class:`unrack.view.View`.

    A ``share`` of what they do not hold of ``most_mb``: int64[jobs], MB that each of their tasks may come to hold.
    """
    use, have, at, size, e = uses.use, zeros(uses.lent.shape[0]), np.empty_like(lease_at), 0, 0
    for i in range(count):
        for r in range(lease_at[ROW_COUNT, running[OF_JOB, i]]):
            size += pool[lease_at[FIRST_ROW, running[OF_JOB, i]] + r, NODES]
    found = np.empty((size, 2), np.int64)
    for i in range(count):
        job = running[OF_JOB, i]
        first, entry = lease_at[FIRST_ROW, job], uses.first_of[job]
        while entry >= 0:
            have[use[FOR, entry]] += use[MB, entry]
            entry = use[NEXT_OF, entry]
        at[0, job] = e
        for r in range(first, first + lease_at[ROW_COUNT, job]):
            for node in range(pool[r, FIRST], pool[r, FIRST] + pool[r, NODES]):
                more = int(np.ceil(share * max(0, pool[r, TASKS] * most_mb[job] - have[node])))
                have[node] = 0
                if more > 0:
                    found[e, 0], found[e, 1] = node, more
                    e += 1
        at[1, job] = e
    return found[:e], at


@inlined
def needed(wanted: Wanted, k: int, job: int, tasks: Ints, have: Ints, first: int, last: int, need: Ints) -> None:
    """Fill what job ``k`` is to hold on each of its nodes, from ``first`` to ``last`` - 1."""
    use, band, task = wanted.task_mb[wanted.first[k] : wanted.first[k + 1]], 1.0 + wanted.band, 0
    for n in range(first, last):
        need[n] = peak_on(use, task, tasks[n])
        task += tasks[n]
        if wanted.stops[job] >= wanted.reserve_after:  # it gives nothing back
            need[n] = max(need[n], have[n])
        else:
            asked = tasks[n] * wanted.asked_mb[k]
            more = max(np.ceil(need[n] * band), np.ceil(asked * wanted.keep))
            need[n] = max(need[n], min(int(more), asked))


@inlined
def give_back(
    free: Ints, at: Ints, local: Ints, have: Ints, need: Ints, first: int, last: int, loans: Ints, loan: int, end: int
) -> bool:
    """Let nodes ``first`` to ``last`` - 1 give back what they do not need, the last loan first; whether any did."""
    some = False
    for n in range(first, last):
        back = have[n] - need[n]
        if back <= 0:
            continue
        some, have[n] = True, need[n]
        for i in range(end - 1, loan - 1, -1):
            if loans[i, BORROWER] == at[n] and back > 0:
                mb = min(back, loans[i, LOAN_MB])
                loans[i, LOAN_MB] -= mb
                free[MEM, loans[i, LENDER]] += mb
                back -= mb
        local[n] -= back
        free[MEM, at[n]] += back
    return some


@inlined
def pull_back(
    free: Ints, at: Ints, local: Ints, first: int, last: int, loans: Ints, loan: int, end: int
) -> bool:  # fmt: skip
    """Put what is remote where it is used, as far as there is room, the last loan first; whether any moved."""
    some = False
    for n in range(first, last):
        for i in range(end - 1, loan - 1, -1):
            mb = min(free[MEM, at[n]], loans[i, LOAN_MB]) if loans[i, BORROWER] == at[n] else 0
            if mb > 0:
                some = True
                loans[i, LOAN_MB] -= mb
                free[MEM, loans[i, LENDER]] += mb
                local[n] += mb
                free[MEM, at[n]] -= mb
    return some


@compiled
def resize(
    terms: LendingTerms, seen: LedgerColumns, uses: MemoryUse, jobs: Ints, wanted: Wanted, now: int, pull: bool,
    aware: Any,
) -> Resized:  # fmt: skip
    """Leases for running jobs that have what they are to hold on each node, and no more.

    First all give back what they do not need, then those that need more get it, in the order of the jobs. A job that
    cannot have all that it needs gets nothing more. O(nodes of the cluster, and of the jobs, + their loans), and for
    each job that must borrow as for a lease. ``pull``: whether remote memory moves to the nodes that use it, where
    these have room.
    """
    count, free, pool, lease_at, use = jobs.shape[0], seen.free.copy(), seen.pool, seen.lease_at, uses.use
    nodes, verdict, begin, need_first = free.shape[1], zeros(count), zeros(count + 1), zeros(count + 1)
    for k in range(count):
        begin[k + 1], need_first[k + 1] = begin[k] + loan_count(uses, jobs[k]), need_first[k]
        for r in range(lease_at[FIRST_ROW, jobs[k]], lease_at[FIRST_ROW, jobs[k]] + lease_at[ROW_COUNT, jobs[k]]):
            need_first[k + 1] += pool[r, NODES]
    size, old, place = int(need_first[count]), np.empty((begin[count], 3), np.int64), np.empty(nodes, np.int64)
    at, tasks, cores, local, have, need = zeros(size), zeros(size), zeros(size), zeros(size), zeros(size), zeros(size)
    for k in range(count):
        n = need_first[k]
        for r in range(lease_at[FIRST_ROW, jobs[k]], lease_at[FIRST_ROW, jobs[k]] + lease_at[ROW_COUNT, jobs[k]]):
            for node in range(pool[r, FIRST], pool[r, FIRST] + pool[r, NODES]):
                at[n], local[n], have[n], place[node] = node, pool[r, LOCAL_MB], pool[r, LOCAL_MB], n
                tasks[n], cores[n] = pool[r, TASKS], pool[r, CORES]
                n += 1
        i, entry = begin[k + 1], uses.first_of[jobs[k]]
        while entry >= 0:  # the entry that came last is met first
            if use[AT, entry] != use[FOR, entry]:
                i -= 1
                old[i, BORROWER], old[i, LENDER] = use[FOR, entry], use[AT, entry]
                old[i, LOAN_MB] = use[MB, entry]
                have[place[use[FOR, entry]]] += use[MB, entry]
            entry = use[NEXT_OF, entry]
        needed(wanted, k, jobs[k], tasks, have, need_first[k], n, need)
        if give_back(free, at, local, have, need, need_first[k], n, old, begin[k], begin[k + 1]):
            verdict[k] = CHANGED
    if pull:
        for k in range(count):
            if pull_back(free, at, local, need_first[k], need_first[k + 1], old, begin[k], begin[k + 1]):
                verdict[k] = CHANGED
    rows, row_first, row = np.empty((size, 5), np.int64), zeros(count + 1), 0
    loans, loan_first, end = np.empty((begin[count] + 16, 3), np.int64), zeros(count + 1), 0
    more, none = np.empty((2 * nodes, 3), np.int64), np.empty(0, np.int64)
    for k in range(count):
        first, last = need_first[k], need_first[k + 1]
        lack, own = zeros(last - first), zeros(last - first)
        lacking, remote, new = 0, 0, 0
        for n in range(first, last):
            short = max(0, need[n] - have[n])
            own[n - first] = min(short, free[MEM, at[n]])
            lack[n - first] = short - own[n - first]
            free[MEM, at[n]] -= own[n - first]
            lacking += short
            remote += lack[n - first]
        if remote > 0:
            asker = asker_of(seen, jobs[k], now, none, none)
            new = borrow(terms, free, seen.total, at[first:last], lack, zeros(last - first), aware, asker, more, 0)
            remote = 0
            for i in range(last - first):
                remote += lack[i]
        if remote > 0:
            verdict[k] += LACKS
            new = 0
            for n in range(first, last):
                free[MEM, at[n]] += own[n - first]
        elif lacking > 0:
            verdict[k] = CHANGED
            for n in range(first, last):
                local[n] += own[n - first]
        begins = row
        for n in range(first, last):
            row = add_node(rows, begins, row, at[n], tasks[n], cores[n], local[n])
        row_first[k + 1] = row
        loans = with_loans(loans, end, begin[k + 1] - begin[k] + new)
        since = end
        for i in range(begin[k], begin[k + 1]):
            if old[i, LOAN_MB] > 0:
                for c in range(3):
                    loans[end, c] = old[i, c]
                end += 1
        for i in range(new):
            free[MEM, more[i, LENDER]] -= more[i, LOAN_MB]
            same = -1
            for j in range(since, end):
                if loans[j, BORROWER] == more[i, BORROWER] and loans[j, LENDER] == more[i, LENDER]:
                    same = j
            if same < 0:
                for c in range(3):
                    loans[end, c] = more[i, c]
                end += 1
            else:
                loans[same, LOAN_MB] += more[i, LOAN_MB]
        loan_first[k + 1] = end
    return Resized(verdict, rows, row_first, loans, loan_first)
