"""Compiled: a round of conservative backfill with borrowed memory, in which reservations name nodes and loans.

The plan is a step function of what is free on every node. A reservation is made at the earliest time at which the
placement finds a lease in what is free throughout the job's expected run. It stays, or moves forward when jobs end
early. O(waiting x steps x nodes) a round at worst: exact rather than fast.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from unrack.jit import compiled, inlined
from unrack.ledger.holding import add_lease, first_at_least
from unrack.ledger.lease import FIRST, LENDER, NODES
from unrack.ledger.names import ASKED_CORES, ASKED_MB, ASKED_TASKS, ASKED_US, CPU, ENDS_US, MEM, WHO
from unrack.policy.discipline.plan_kernel import copy_step, step_at
from unrack.policy.lending.future import copy_table, give_back
from unrack.policy.lending.lease_kernel import Who, place_job
from unrack.policy.lending.rules import Terms

Ints = NDArray[np.int64]


@inlined
def book(
    times: Ints, level: NDArray[np.int64], steps: int, start: int, length: int, rows: Ints, first: int, last: int,
    loans: Ints, loan_first: int, loan_last: int, sign: int,
) -> int:  # fmt: skip
    """Take (sign -1) or give back (1) a lease from ``start`` for ``length`` µs; returns the new number of steps."""
    a, steps = step_at(times, level, steps, start)
    b, steps = step_at(times, level, steps, start + length)
    for k in range(a, b):
        add_lease(level[k], rows, first, last, loans, loan_first, loan_last, sign)
    return steps


@inlined
def is_free(level: Ints, rows: Ints, first: int, last: int, loans: Ints, loan_first: int, loan_last: int) -> bool:
    """Whether a lease's nodes and loans are free in one step, which is as it was afterwards."""
    add_lease(level, rows, first, last, loans, loan_first, loan_last, -1)
    free = True
    for r in range(first, last):
        for node in range(rows[r, FIRST], rows[r, FIRST] + rows[r, NODES]):
            free = free and level[CPU, node] >= 0 and level[MEM, node] >= 0
    for i in range(loan_first, loan_last):
        free = free and level[MEM, loans[i, LENDER]] >= 0
    add_lease(level, rows, first, last, loans, loan_first, loan_last, 1)
    return free


@inlined
def window(times: Ints, steps: int, start: int, length: int) -> tuple[int, int]:
    """The steps (first, end) that a run of ``length`` µs from ``start`` touches."""
    first = first_at_least(times, 0, steps, start + 1) - 1
    return first, first_at_least(times, first + 1, steps, start + length)


@inlined
def keep_starts(low: Ints, q: int, begin: Ints, spans: Ints, start: int, length: int, rows: Ints) -> None:
    """Let no node lend beyond the start of a reservation on it: it must not lend when it is to compute."""
    for p in range(begin.shape[0]):
        if p == q or begin[p] < start or begin[p] >= start + length or (begin[p] == start and p < q):
            continue
        for r in range(spans[0, p], spans[1, p]):
            for node in range(rows[r, FIRST], rows[r, FIRST] + rows[r, NODES]):
                low[MEM, node] = 0


@inlined
def may_start(free: Ints, threshold_mb: Ints, rows: Ints, first: int, last: int) -> bool:
    """Whether the nodes of a lease have the memory free that they must have to compute."""
    for r in range(first, last):
        for node in range(rows[r, FIRST], rows[r, FIRST] + rows[r, NODES]):
            if free[MEM, node] < threshold_mb[node]:
                return False
    return True


@inlined
def earliest(
    terms: Terms, guarded: bool, q: int, begin: Ints, spans: Ints, times: Ints,
    level: NDArray[np.int64], steps: int, total: Ints, tasks: int, cores: int, mb: int, length: int, aware: Any,
    who: Who, low: Ints, rows: Ints, at: int, loans: Ints, loan_at: int,
) -> tuple[int, int, int]:  # fmt: skip
    """The first step at whose start a job has a lease for ``length`` µs, and the ends of its rows and loans; or -1."""
    nodes = low.shape[1]
    for i in range(steps):
        first, last = window(times, steps, times[i], length)
        copy_table(level[first], low)
        for k in range(first + 1, last):
            for node in range(nodes):
                low[CPU, node] = min(low[CPU, node], level[k, CPU, node])
                low[MEM, node] = min(low[MEM, node], level[k, MEM, node])
        if guarded:
            keep_starts(low, q, begin, spans, times[i], length, rows)
        end, loan_end = place_job(terms, low, total, tasks, cores, mb, aware, who, rows, at, loans, loan_at)
        if end >= 0:
            return i, end, loan_end
    return -1, at, loan_at


@compiled
def take_if_free(free: Ints, threshold_mb: Ints, rows: Ints, loans: Ints) -> bool:
    """Take a lease from what is free, if all of it is and its nodes may compute."""
    possible = may_start(free, threshold_mb, rows, 0, rows.shape[0]) and is_free(
        free, rows, 0, rows.shape[0], loans, 0, loans.shape[0]
    )
    if possible:
        add_lease(free, rows, 0, rows.shape[0], loans, 0, loans.shape[0], -1)
    return possible


@compiled
def reserve_round(
    order: Ints, now: int, terms: Terms, asks: Ints, free_now: Ints, total: Ints, running: Ints, count: int,
    pool: Ints, lease_at: Ints, use: Ints, first_of: Ints, aware: Any, begins: Ints, where: Ints, kept: Ints,
    kept_loans: Ints, compress: bool, rows: Ints, loans: Ints,
) -> int:  # fmt: skip
    """Keep, make and move forward reservations for the jobs in order.

    Parameters
    ----------
    begins : int64[jobs]
        Reserved starts; -1: none. Changed to the new ones.
    where : int64[4, jobs]
        First row and end of the rows in ``kept``, first loan and end of the loans in ``kept_loans``, of each
        reservation; changed to those in ``rows`` and ``loans``.
    kept, kept_loans
        The leases of the reservations so far.
    compress
        Whether reservations may move forward.
    rows, loans
        Written: the leases of all reservations.

    Returns
    -------
    int
        0; or minus the room that the outputs should have had (nothing has changed).
    """
    jobs, nodes = order.shape[0], free_now.shape[1]
    none = np.empty(0, np.int64)
    most = count + 2 * jobs + 2
    times = np.empty(most, np.int64)
    level = np.empty((most, 2, nodes), np.int64)
    times[0] = now
    level[0] = free_now
    steps = 1
    for i in range(count):  # who should have ended by now has ended for the plan: their end may come in this moment
        if running[ENDS_US, i] == now:
            give_back(level[0], running[WHO, i], pool, lease_at, use, first_of)
    for i in range(count):
        if running[ENDS_US, i] == now:
            continue
        end = max(running[ENDS_US, i], now + 1)
        if end != times[steps - 1]:
            times[steps] = end
            copy_step(level, steps - 1, steps)
            steps += 1
        give_back(level[steps - 1], running[WHO, i], pool, lease_at, use, first_of)
    begin = np.full(jobs, -1, np.int64)
    spans = np.zeros((4, jobs), np.int64)
    low = np.empty((2, nodes), np.int64)
    guarded = terms.threshold_mb.max() > 0
    at, loan_at = 0, 0
    for q in range(jobs):  # reservations that can stay
        job = order[q]
        if begins[job] < now:
            continue
        a, b, c, d = where[0, job], where[1, job], where[2, job], where[3, job]
        if at + b - a > rows.shape[0] or loan_at + d - c > loans.shape[0]:
            return -2 * int(at + b - a + loan_at + d - c)
        length = max(1, asks[ASKED_US, job])
        first, last = window(times, steps, begins[job], length)
        free = may_start(level[first], terms.threshold_mb, kept, a, b)
        for k in range(first, last):
            free = free and is_free(level[k], kept, a, b, kept_loans, c, d)
        if free:
            copy_table(kept[a:b], rows[at : at + b - a])
            copy_table(kept_loans[c:d], loans[loan_at : loan_at + d - c])
            begin[q], spans[0, q], spans[1, q] = begins[job], at, at + b - a
            spans[2, q], spans[3, q] = loan_at, loan_at + d - c
            at, loan_at = at + b - a, loan_at + d - c
            steps = book(
                times, level, steps, begin[q], length, rows, spans[0, q], spans[1, q], loans, spans[2, q],
                spans[3, q], -1,
            )  # fmt: skip
    for q in range(jobs):  # new ones, and earlier ones
        if begin[q] >= 0 and (not compress or begin[q] == now):
            continue
        job = order[q]
        tasks, cores, mb, length = (
            asks[ASKED_TASKS, job],
            asks[ASKED_CORES, job],
            asks[ASKED_MB, job],
            max(1, asks[ASKED_US, job]),
        )
        if at + nodes > rows.shape[0] or loan_at + 2 * nodes > loans.shape[0]:
            return -2 * int(at + loan_at + 3 * nodes)
        if steps + 4 > times.shape[0]:
            times = np.concatenate((times, np.empty_like(times)))
            level = np.concatenate((level, np.empty_like(level)))
        if begin[q] >= 0:
            steps = book(
                times, level, steps, begin[q], length, rows, spans[0, q], spans[1, q], loans, spans[2, q],
                spans[3, q], 1,
            )  # fmt: skip
        who = Who(job, now, length, running, count, none, none)
        i, end, loan_end = earliest(
            terms,
            guarded,
            q,
            begin,
            spans,
            times,
            level,
            steps,
            total,
            tasks,
            cores,
            mb,
            length,
            aware,
            who,
            low,
            rows,
            at,
            loans,
            loan_at,
        )
        if i >= 0 and (begin[q] < 0 or times[i] < begin[q]):
            begin[q], spans[0, q], spans[1, q] = times[i], at, end
            spans[2, q], spans[3, q] = loan_at, loan_end
            at, loan_at = end, loan_end
        if begin[q] < 0:
            continue
        steps = book(
            times, level, steps, begin[q], length, rows, spans[0, q], spans[1, q], loans, spans[2, q], spans[3, q], -1
        )
    for q in range(jobs):
        job = order[q]
        begins[job] = begin[q]
        for c in range(4):
            where[c, job] = spans[c, q]
    return 0
