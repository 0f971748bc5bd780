"""Compiled: what will be free when running jobs have ended, borrowed memory included."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unrack.jit import inlined
from unrack.ledger.holding import add_lease, add_rows
from unrack.ledger.memory.use import AT, FOR, MB, NEXT_OF
from unrack.ledger.names import ASKED_US, ENDS_US, FIRST_ROW, JOB, LOAN, LOAN_END, MEM, ROW, ROW_COUNT, ROW_END, WHO
from unrack.ordering import order_of
from unrack.policy.lending.lease_kernel import Who, place_job
from unrack.policy.lending.rules import Terms

Ints = NDArray[np.int64]


@inlined
def give_back(free: Ints, job: int, pool: Ints, lease_at: Ints, use: Ints, first_of: Ints) -> None:
    """Add all that a running job holds."""
    first = lease_at[FIRST_ROW, job]
    add_rows(free, pool, first, first + lease_at[ROW_COUNT, job], 1)
    entry = first_of[job]
    while entry >= 0:
        if use[AT, entry] != use[FOR, entry]:
            free[MEM, use[AT, entry]] += use[MB, entry]
        entry = use[NEXT_OF, entry]


@inlined
def ends_in_order(now: int, running: Ints, count: int, started: Ints, n_started: int, asks: Ints) -> tuple[Ints, Ints]:
    """Times at which running jobs and those started in this pass are expected to end, and who; in order.

    Who: the job, or -1 - i for ``started[:, i]``. A job past its booked end ends 1 µs from now.
    """
    times = np.empty(count + n_started, np.int64)
    who = np.empty(count + n_started, np.int64)
    for i in range(count):
        times[i] = max(running[ENDS_US, i], now + 1)
        who[i] = running[WHO, i]
    for s in range(n_started):
        times[count + s] = max(now + asks[ASKED_US, started[JOB, s]], now + 1)
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
    ended: int, who: Ints, free: Ints, out: Ints, pool: Ints, lease_at: Ints, use: Ints, first_of: Ints,
    started: Ints, rows: Ints, loans: Ints,
) -> None:  # fmt: skip
    """Write to ``out`` what is free when the first ``ended`` of ``who`` have ended."""
    copy_table(free, out)
    for i in range(ended):
        if who[i] >= 0:
            give_back(out, who[i], pool, lease_at, use, first_of)
        else:
            s = -1 - who[i]
            add_lease(out, rows, started[ROW, s], started[ROW_END, s], loans, started[LOAN, s], started[LOAN_END, s], 1)


@inlined
def fits(
    terms: Terms, free: Ints, total: Ints, tasks: int, cores: int, mb: int, who: Who, rows: Ints, row_at: int,
    loans: Ints, loan_at: int,
) -> bool:  # fmt: skip
    """Whether a job has a place; scribbles behind ``row_at`` and ``loan_at``."""
    return place_job(terms, free, total, tasks, cores, mb, None, who, rows, row_at, loans, loan_at)[0] >= 0


@inlined
def shadow_of(
    terms: Terms, free: Ints, total: Ints, tasks: int, cores: int, mb: int, now: int, running: Ints, count: int,
    pool: Ints, lease_at: Ints, use: Ints, first_of: Ints, started: Ints, n_started: int, asks: Ints, who_asks: Who,
    rows: Ints, row_at: int, loans: Ints, loan_at: int, then: Ints,
) -> int:  # fmt: skip
    """The earliest time at which a job has a place by booked ends (-1: never); ``then`` gets what is free at it.

    Nodes only become free as jobs end, so with one lending group the first such time is found by halving; with
    several, one end after the other.
    """
    times, who = ends_in_order(now, running, count, started, n_started, asks)
    n = times.shape[0]
    if terms.groups > 1:
        copy_table(free, then)
        for i in range(n):
            free_after(1, who[i:], then, then, pool, lease_at, use, first_of, started, rows, loans)
            if (i + 1 == n or times[i + 1] > times[i]) and fits(
                terms, then, total, tasks, cores, mb, who_asks, rows, row_at, loans, loan_at
            ):
                return int(times[i])
        return -1
    low, high = 0, n  # not with `low` ended; with `high` ended, if at all
    while low < high:
        middle = (low + high) // 2
        last = middle  # all that end with it
        while last + 1 < n and times[last + 1] == times[middle]:
            last += 1
        free_after(last + 1, who, free, then, pool, lease_at, use, first_of, started, rows, loans)
        if fits(terms, then, total, tasks, cores, mb, who_asks, rows, row_at, loans, loan_at):
            high = middle
        else:
            low = last + 1
    if low >= n:
        return -1
    last = low
    while last + 1 < n and times[last + 1] == times[low]:
        last += 1
    free_after(last + 1, who, free, then, pool, lease_at, use, first_of, started, rows, loans)
    return int(times[low])
