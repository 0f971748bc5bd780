"""Compiled: a round of conservative backfill with borrowed memory, in which reservations name nodes and loans.

The plan is a step function of what is free on every node. A reservation is made at the earliest time at which the
placement finds a lease in what is free throughout the job's expected run. It stays, or moves forward when jobs end
early. O(waiting x steps x nodes) a round at worst: exact rather than fast.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from unrack.jit import compiled, inlined
from unrack.kernels.arrays import Ints
from unrack.ledger.holding import first_at_least
from unrack.ledger.lease import FIRST, LENDER, NODES
from unrack.ledger.memory.use import MemoryUse
from unrack.ledger.names import ASKED_US, CPU, ENDS_US, MEM, WHO
from unrack.policy.columns import LedgerColumns
from unrack.policy.discipline.skyline.steps import copy_step, step_at
from unrack.policy.lending.future import copy_table, give_back
from unrack.policy.lending.lease_kernel import Leases, Span, Who, change, place_job, who_is
from unrack.policy.lending.rules import Terms


class Reserved(NamedTuple):
    """Reservations."""

    begins: Ints  # int64[jobs]: when each starts, µs; -1: there is none
    spans: Ints  # int64[4, jobs]: where its lease is: the fields of a `Span`


@inlined
def span_of(spans: Ints, i: int) -> Span:
    """Where the lease of a reservation is."""
    return Span(spans[0, i], spans[1, i], spans[2, i], spans[3, i])


@inlined
def set_span(spans: Ints, i: int, span: Span) -> None:
    """Note where the lease of a reservation is."""
    spans[0, i], spans[1, i], spans[2, i], spans[3, i] = span.row, span.row_end, span.loan, span.loan_end


@inlined
def book(times: Ints, level: Ints, steps: int, start: int, length: int, out: Leases, span: Span, sign: int) -> int:
    """Take (sign -1) or give back (1) a lease from ``start`` for ``length`` µs; returns the new number of steps."""
    a, steps = step_at(times, level, steps, start)
    b, steps = step_at(times, level, steps, start + length)
    for k in range(a, b):
        change(level[k], out, span, sign)
    return steps


@inlined
def is_free(level: Ints, out: Leases, span: Span) -> bool:
    """Whether a lease's nodes and loans are free in one step, which is as it was afterwards."""
    change(level, out, span, -1)
    free = True
    for r in range(span.row, span.row_end):
        for node in range(out.rows[r, FIRST], out.rows[r, FIRST] + out.rows[r, NODES]):
            free = free and level[CPU, node] >= 0 and level[MEM, node] >= 0
    for i in range(span.loan, span.loan_end):
        free = free and level[MEM, out.loans[i, LENDER]] >= 0
    change(level, out, span, 1)
    return free


@inlined
def window(times: Ints, steps: int, start: int, length: int) -> tuple[int, int]:
    """The steps (first, end) that a run of ``length`` µs from ``start`` touches."""
    first = first_at_least(times, 0, steps, start + 1) - 1
    return first, first_at_least(times, first + 1, steps, start + length)


@inlined
def keep_starts(low: Ints, q: int, made: Reserved, start: int, length: int, rows: Ints) -> None:
    """Let no node lend beyond the start of a reservation on it: it must not lend when it is to compute."""
    begin, spans = made.begins, made.spans
    for p in range(begin.shape[0]):
        if p == q or begin[p] < start or begin[p] >= start + length or (begin[p] == start and p < q):
            continue
        for r in range(spans[0, p], spans[1, p]):
            for node in range(rows[r, FIRST], rows[r, FIRST] + rows[r, NODES]):
                low[MEM, node] = 0


@inlined
def may_start(free: Ints, threshold_mb: Ints, rows: Ints, span: Span) -> bool:
    """Whether the nodes of a lease have the memory free that they must have to compute."""
    for r in range(span.row, span.row_end):
        for node in range(rows[r, FIRST], rows[r, FIRST] + rows[r, NODES]):
            if free[MEM, node] < threshold_mb[node]:
                return False
    return True


@inlined
def earliest(
    terms: Terms, q: int, made: Reserved, times: Ints, level: Ints, steps: int, total: Ints, who: Who,
    aware: Any, low: Ints, out: Leases, last: Span,
) -> tuple[int, Span]:  # fmt: skip
    """The first step at whose start a job has a lease for as long as it runs, and the lease; -1: there is none."""
    nodes, guarded, span = low.shape[1], terms.threshold_mb.max() > 0, last
    for i in range(steps):
        first, end = window(times, steps, times[i], who.us)
        copy_table(level[first], low)
        for k in range(first + 1, end):
            for node in range(nodes):
                low[CPU, node] = min(low[CPU, node], level[k, CPU, node])
                low[MEM, node] = min(low[MEM, node], level[k, MEM, node])
        if guarded:
            keep_starts(low, q, made, times[i], who.us, out.rows)
        span = place_job(terms, low, total, who, aware, out, last)
        if span.row_end >= 0:
            return i, span
    return -1, span


@compiled
def take_if_free(free: Ints, threshold_mb: Ints, rows: Ints, loans: Ints) -> bool:
    """Take a lease from what is free, if all of it is and its nodes may compute."""
    start = 0
    out, span = Leases(rows, loans), Span(start, rows.shape[0], start, loans.shape[0])
    possible = may_start(free, threshold_mb, rows, span) and is_free(free, out, span)
    if possible:
        change(free, out, span, -1)
    return possible


@compiled
def reserve_round(
    order: Ints, now: int, terms: Terms, seen: LedgerColumns, uses: MemoryUse, aware: Any, kept: Reserved,
    kept_out: Leases, compress: bool, out: Leases,
) -> int:  # fmt: skip
    """Keep, make and move forward reservations for the jobs in order.

    Parameters
    ----------
    kept, kept_out
        The reservations so far, by job, and their leases. ``kept`` is changed to the new ones, with leases in ``out``.
    compress
        Whether reservations may move forward.
    out
        Written: the leases of all reservations.

    Returns
    -------
    int
        0; or minus the room that ``out`` should have had (nothing has changed).
    """
    jobs, nodes, running = order.shape[0], seen.total.shape[1], seen.running
    none = np.empty(0, np.int64)
    most = seen.running_count + 2 * jobs + 2
    times = np.empty(most, np.int64)
    level = np.empty((most, 2, nodes), np.int64)
    times[0] = now
    level[0] = seen.free
    steps = 1
    for i in range(
        seen.running_count
    ):  # who should have ended by now has, for the plan: their end may come in this moment
        if running[ENDS_US, i] == now:
            give_back(level[0], running[WHO, i], seen, uses)
    for i in range(seen.running_count):
        if running[ENDS_US, i] == now:
            continue
        end = max(running[ENDS_US, i], now + 1)
        if end != times[steps - 1]:
            times[steps] = end
            copy_step(level, steps - 1, steps)
            steps += 1
        give_back(level[steps - 1], running[WHO, i], seen, uses)
    made = Reserved(np.full(jobs, -1, np.int64), np.zeros((4, jobs), np.int64))
    begin = made.begins
    low = np.empty((2, nodes), np.int64)
    zero = 0
    last = Span(zero, zero, zero, zero)
    for q in range(jobs):  # reservations that can stay
        job = order[q]
        if kept.begins[job] < now:
            continue
        old = span_of(kept.spans, job)
        span = Span(
            last.row_end, last.row_end + old.row_end - old.row, last.loan_end, last.loan_end + old.loan_end - old.loan
        )
        if span.row_end > out.rows.shape[0] or span.loan_end > out.loans.shape[0]:
            return -2 * int(span.row_end + span.loan_end)
        length = max(1, seen.asks[ASKED_US, job])
        first, end = window(times, steps, kept.begins[job], length)
        free = may_start(level[first], terms.threshold_mb, kept_out.rows, old)
        for k in range(first, end):
            free = free and is_free(level[k], kept_out, old)
        if free:
            copy_table(kept_out.rows[old.row : old.row_end], out.rows[span.row : span.row_end])
            copy_table(kept_out.loans[old.loan : old.loan_end], out.loans[span.loan : span.loan_end])
            begin[q], last = kept.begins[job], span
            set_span(made.spans, q, span)
            steps = book(times, level, steps, begin[q], length, out, span, -1)
    for q in range(jobs):  # new ones, and earlier ones
        if begin[q] >= 0 and (not compress or begin[q] == now):
            continue
        who = who_is(seen, order[q], now, none, none)
        if last.row_end + nodes > out.rows.shape[0] or last.loan_end + 2 * nodes > out.loans.shape[0]:
            return -2 * int(last.row_end + last.loan_end + 3 * nodes)
        if steps + 4 > times.shape[0]:
            times = np.concatenate((times, np.empty_like(times)))
            level = np.concatenate((level, np.empty_like(level)))
        if begin[q] >= 0:
            steps = book(times, level, steps, begin[q], who.us, out, span_of(made.spans, q), 1)
        i, span = earliest(terms, q, made, times, level, steps, seen.total, who, aware, low, out, last)
        if i >= 0 and (begin[q] < 0 or times[i] < begin[q]):
            begin[q], last = times[i], span
            set_span(made.spans, q, span)
        if begin[q] >= 0:
            steps = book(times, level, steps, begin[q], who.us, out, span_of(made.spans, q), -1)
    for q in range(jobs):
        kept.begins[order[q]] = begin[q]
        set_span(kept.spans, order[q], span_of(made.spans, q))
    return 0
