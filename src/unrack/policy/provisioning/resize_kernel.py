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
from unrack.ledger.columns import FIRST_ROW, MEM, ROW_COUNT
from unrack.ledger.lease import BORROWER, CORES, FIRST, LENDER, LOAN_MB, LOCAL_MB, NODES, TASKS
from unrack.ledger.memory.use import AT, FOR, MB, NEXT_OF, MemoryUse
from unrack.policy.columns import LedgerColumns
from unrack.policy.lending.lease_kernel import asker_of, borrow
from unrack.policy.lending.lender_cost import LendingTerms
from unrack.policy.placement.node_kernel import add_node

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


@inlined
def loan_count(uses: MemoryUse, job: int) -> int:
    """How many loans a running job has."""
    count, entry = 0, uses.first_of[job]
    while entry >= 0:
        if uses.use[AT, entry] != uses.use[FOR, entry]:
            count += 1
        entry = uses.use[NEXT_OF, entry]
    return count


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


@inlined
def give_back(
    free: Ints, at: Ints, local: Ints, need: Ints, first: int, last: int, loans: Ints, loan: int, end: int
) -> bool:
    """Let nodes ``first`` to ``last`` - 1 give back what they do not need, the last loan first; whether any did."""
    some = False
    for n in range(first, last):
        have = local[n]
        for i in range(loan, end):
            if loans[i, BORROWER] == at[n]:
                have += loans[i, LOAN_MB]
        back = have - need[n]
        if back <= 0:
            continue
        some = True
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
    terms: LendingTerms, free: Ints, seen: LedgerColumns, uses: MemoryUse, jobs: Ints, need: Ints, need_first: Ints,
    now: int, pull: bool, aware: Any,
) -> Resized:  # fmt: skip
    """Leases for running jobs that have what they need on each node, and no more.

    First all give back what they do not need, then those that need more get it, in the order of the jobs. A job that
    cannot have all that it needs gets nothing more. O(nodes of the jobs + their loans), and for each job that must
    borrow as for a lease. ``free``: int64[2, nodes], changed: what is free then; ``need``, ``need_first``: int64[k],
    int64[jobs + 1], what is to be held on each node of job i, in the order of its rows:
    ``need[need_first[i]:need_first[i + 1]]``; ``pull``: whether remote memory moves to the nodes that use it, where
    these have room.
    """
    count, nodes, pool, lease_at, use = jobs.shape[0], free.shape[1], seen.pool, seen.lease_at, uses.use
    verdict = np.zeros(count, np.int64)
    at, local = np.empty(need.shape[0], np.int64), np.empty(need.shape[0], np.int64)
    tasks, cores = np.empty(need.shape[0], np.int64), np.empty(need.shape[0], np.int64)
    begin = np.zeros(count + 1, np.int64)
    for k in range(count):
        begin[k + 1] = begin[k] + loan_count(uses, jobs[k])
    old = np.empty((begin[count], 3), np.int64)
    for k in range(count):
        n = need_first[k]
        for r in range(lease_at[FIRST_ROW, jobs[k]], lease_at[FIRST_ROW, jobs[k]] + lease_at[ROW_COUNT, jobs[k]]):
            for node in range(pool[r, FIRST], pool[r, FIRST] + pool[r, NODES]):
                at[n], local[n] = node, pool[r, LOCAL_MB]
                tasks[n], cores[n] = pool[r, TASKS], pool[r, CORES]
                n += 1
        i, entry = begin[k + 1], uses.first_of[jobs[k]]
        while entry >= 0:  # the entry that came last is met first
            if use[AT, entry] != use[FOR, entry]:
                i -= 1
                old[i, BORROWER], old[i, LENDER] = use[FOR, entry], use[AT, entry]
                old[i, LOAN_MB] = use[MB, entry]
            entry = use[NEXT_OF, entry]
        if give_back(free, at, local, need, need_first[k], need_first[k + 1], old, begin[k], begin[k + 1]):
            verdict[k] = CHANGED
    if pull:
        for k in range(count):
            if pull_back(free, at, local, need_first[k], need_first[k + 1], old, begin[k], begin[k + 1]):
                verdict[k] = CHANGED
    rows, row_first, row = np.empty((need.shape[0], 5), np.int64), np.zeros(count + 1, np.int64), 0
    loans, loan_first, end = np.empty((begin[count] + 16, 3), np.int64), np.zeros(count + 1, np.int64), 0
    more, none = np.empty((2 * nodes, 3), np.int64), np.empty(0, np.int64)
    for k in range(count):
        first, last = need_first[k], need_first[k + 1]
        lack, own = np.zeros(last - first, np.int64), np.zeros(last - first, np.int64)
        lacking, remote, new = 0, 0, 0
        for n in range(first, last):
            have = local[n]
            for i in range(begin[k], begin[k + 1]):
                if old[i, BORROWER] == at[n]:
                    have += old[i, LOAN_MB]
            short = max(0, need[n] - have)
            own[n - first] = min(short, free[MEM, at[n]])
            lack[n - first] = short - own[n - first]
            free[MEM, at[n]] -= own[n - first]
            lacking += short
            remote += lack[n - first]
        if remote > 0:
            asker = asker_of(seen, jobs[k], now, none, none)
            beside = np.zeros(last - first, np.int64)
            new = borrow(terms, free, seen.total, at[first:last], lack, beside, aware, asker, more, 0)
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
