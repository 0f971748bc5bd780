"""Compiled: what will be free when running jobs have ended, borrowed memory included."""

from __future__ import annotations

import numpy as np

from unrack.jit import inlined
from unrack.kernels.arrays import Ints
from unrack.kernels.ordering import order_of
from unrack.ledger.columns import ASKED_US, ENDS_US, FIRST_ROW, JOB, MEM, ROW_COUNT, WHO
from unrack.ledger.holding import add_rows
from unrack.ledger.memory.use import AT, FOR, MB, NEXT_OF, MemoryUse
from unrack.policy.columns import LedgerColumns
from unrack.policy.lending.lease_kernel import Leases, Span, Who, change, noted, place_job
from unrack.policy.lending.lender_cost import Terms


@inlined
def give_back(free: Ints, job: int, seen: LedgerColumns, uses: MemoryUse) -> None:
    """Add all that a running job holds."""
    first = seen.lease_at[FIRST_ROW, job]
    add_rows(free, seen.pool, first, first + seen.lease_at[ROW_COUNT, job], 1)
    entry = uses.first_of[job]
    while entry >= 0:
        if uses.use[AT, entry] != uses.use[FOR, entry]:
            free[MEM, uses.use[AT, entry]] += uses.use[MB, entry]
        entry = uses.use[NEXT_OF, entry]


@inlined
def ends_in_order(now: int, seen: LedgerColumns, started: Ints, n_started: int) -> tuple[Ints, Ints]:
    """Times at which running jobs and those started in this pass are expected to end, and who; in order.

    Who: the job, or -1 - i for ``started[:, i]``. A job past its booked end ends 1 µs from now.
    """
    count = seen.running_count
    times = np.empty(count + n_started, np.int64)
    who = np.empty(count + n_started, np.int64)
    for i in range(count):
        times[i] = max(seen.running[ENDS_US, i], now + 1)
        who[i] = seen.running[WHO, i]
    for s in range(n_started):
        times[count + s] = max(now + seen.asks[ASKED_US, started[JOB, s]], now + 1)
        who[count + s] = -1 - s
    order = order_of(times)
    return times[order], who[order]


@inlined
def copy_table(table: Ints, out: Ints) -> None:
    """Write one table over another; ``out[:] = table`` would compile for two seconds."""
    for row in range(table.shape[0]):
        for column in range(table.shape[1]):
            out[row, column] = table[row, column]


@inlined
def free_after(
    ended: int, who: Ints, free: Ints, then: Ints, seen: LedgerColumns, uses: MemoryUse, started: Ints, out: Leases
) -> None:
    """Write to ``then`` what is free when the first ``ended`` of ``who`` have ended."""
    copy_table(free, then)
    for i in range(ended):
        if who[i] >= 0:
            give_back(then, who[i], seen, uses)
        else:
            change(then, out, noted(started, -1 - who[i]), 1)


@inlined
def ended_with(times: Ints, i: int) -> int:
    """How many have ended when the one at place ``i`` has: all that end at that time."""
    while i + 1 < times.shape[0] and times[i + 1] == times[i]:
        i += 1
    return i + 1


@inlined
def fits(terms: Terms, free: Ints, total: Ints, who: Who, out: Leases, last: Span) -> bool:
    """Whether a job has a place; overwrites what is behind ``last``."""
    return place_job(terms, free, total, who, None, out, last).row_end >= 0


@inlined
def shadow_of(
    terms: Terms, free: Ints, head: Who, seen: LedgerColumns, uses: MemoryUse, started: Ints, n_started: int,
    out: Leases, last: Span, then: Ints,
) -> int:  # fmt: skip
    """The earliest time at which a job has a place by booked ends (-1: never); ``then`` gets what is free at it.

    Nodes only become free as jobs end, so with one lending group the first such time is found by halving; with
    several, one end after the other.
    """
    times, who = ends_in_order(head.now, seen, started, n_started)
    n = times.shape[0]
    if terms.groups > 1:
        copy_table(free, then)
        for i in range(n):
            free_after(1, who[i:], then, then, seen, uses, started, out)
            if (i + 1 == n or times[i + 1] > times[i]) and fits(terms, then, seen.total, head, out, last):
                return int(times[i])
        return -1
    low, high = 0, n  # not with `low` ended; with `high` ended, if at all
    while low < high:
        middle = (low + high) // 2
        end = ended_with(times, middle)
        free_after(end, who, free, then, seen, uses, started, out)
        if fits(terms, then, seen.total, head, out, last):
            high = middle
        else:
            low = end
    if low >= n:
        return -1
    free_after(ended_with(times, low), who, free, then, seen, uses, started, out)
    return int(times[low])
