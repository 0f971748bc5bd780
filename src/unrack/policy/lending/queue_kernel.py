"""Compiled: one pass over the queue with borrowed memory: first come first served, whoever fits, or EASY backfill.

As ``policy/discipline/queue_kernel.py``, which says what EASY is; here the head's reservation is made of whole nodes
and of memory, local and borrowed, on what is free at its time. O(queue x nodes log nodes) a pass at worst.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from unrack.jit import compiled
from unrack.ledger.holding import add_lease
from unrack.ledger.names import ASKED_CORES, ASKED_MB, ASKED_TASKS, ASKED_US, JOB, LOAN, LOAN_END, ROW, ROW_END
from unrack.policy.lending.future import fits, shadow_of
from unrack.policy.lending.lease_kernel import Who, place_job
from unrack.policy.lending.rules import Terms

Ints = NDArray[np.int64]


@compiled
def pass_over(
    order: Ints, backfill: int, depth: int, now: int, terms: Terms, asks: Ints, free_now: Ints, total: Ints,
    free_cores: int, running: Ints, count: int, pool: Ints, lease_at: Ints, use: Ints, first_of: Ints, aware: Any,
    started: Ints, rows: Ints, loans: Ints,
) -> int:  # fmt: skip
    """Choose the jobs to start now.

    Parameters
    ----------
    order
        The queue.
    backfill, depth
        A :class:`unrack.policy.discipline.queue_kernel.Backfill`; how many jobs behind the head are looked at.
    use, first_of
        Of :class:`unrack.ledger.memory.use.MemoryUse`.
    aware
        Ranks lenders; ``None``: nothing does.
    started : int64[5, room]
        Written: job, first row and end of its rows in ``rows``, first loan and end of its loans in ``loans``.

    Returns
    -------
    int
        How many start; or minus the room that the outputs should have had (nothing was decided).
    """
    nodes = free_now.shape[1]
    free = free_now.copy()
    none = np.empty(0, np.int64)
    n, at, loan_at, i = 0, 0, 0, 0
    while i < order.shape[0]:
        job = order[i]
        tasks, cores, mb = asks[ASKED_TASKS, job], asks[ASKED_CORES, job], asks[ASKED_MB, job]
        if tasks * cores > free_cores:
            break
        if at + nodes > rows.shape[0] or loan_at + 2 * nodes > loans.shape[0] or n == started.shape[1]:
            return -2 * int(at + loan_at + 2 * nodes + n)
        who = Who(job, now, max(1, asks[ASKED_US, job]), running, count, none, none)
        end, loan_end = place_job(terms, free, total, tasks, cores, mb, aware, who, rows, at, loans, loan_at)
        if end < 0:
            break
        free_cores -= add_lease(free, rows, at, end, loans, loan_at, loan_end, -1)
        started[JOB, n], started[ROW, n], started[ROW_END, n] = job, at, end
        started[LOAN, n], started[LOAN_END, n] = loan_at, loan_end
        n, at, loan_at, i = n + 1, end, loan_end, i + 1
    if backfill == 0 or i + 1 >= order.shape[0]:
        return n
    head = order[i]
    h_tasks, h_cores, h_mb = asks[ASKED_TASKS, head], asks[ASKED_CORES, head], asks[ASKED_MB, head]
    shadow, known = -1, False
    then = np.empty_like(free)
    for k in range(i + 1, min(order.shape[0], i + 1 + depth)):
        job = order[k]
        tasks, cores, mb = asks[ASKED_TASKS, job], asks[ASKED_CORES, job], asks[ASKED_MB, job]
        if tasks * cores > free_cores:
            continue
        if at + nodes > rows.shape[0] or loan_at + 4 * nodes > loans.shape[0] or n == started.shape[1]:
            return -2 * int(at + loan_at + 4 * nodes + n)
        who = Who(job, now, max(1, asks[ASKED_US, job]), running, count, none, none)
        end, loan_end = place_job(terms, free, total, tasks, cores, mb, aware, who, rows, at, loans, loan_at)
        if end < 0:
            continue
        if backfill == 2:
            if end + nodes > rows.shape[0] or loan_end + 2 * nodes > loans.shape[0]:
                return -2 * int(end + loan_end + 2 * nodes + n)
            if not known:
                shadow = shadow_of(
                    terms, free, total, h_tasks, h_cores, h_mb, now, running, count, pool, lease_at, use, first_of,
                    started, n, asks, who, rows, end, loans, loan_end, then,
                )  # fmt: skip
                known = True
            if shadow >= 0 and now + asks[ASKED_US, job] > shadow:
                add_lease(then, rows, at, end, loans, loan_at, loan_end, -1)
                if not fits(terms, then, total, h_tasks, h_cores, h_mb, who, rows, end, loans, loan_end):
                    add_lease(then, rows, at, end, loans, loan_at, loan_end, 1)
                    continue
        free_cores -= add_lease(free, rows, at, end, loans, loan_at, loan_end, -1)
        started[JOB, n], started[ROW, n], started[ROW_END, n] = job, at, end
        started[LOAN, n], started[LOAN_END, n] = loan_at, loan_end
        n, at, loan_at = n + 1, end, loan_end
    return n
