"""Compiled: one pass over the queue with borrowed memory: first come first served, whoever fits, or EASY backfill.

As ``policy/discipline/queue_kernel.py``, which says what EASY is; here the head's reservation is made of whole nodes
and of memory, local and borrowed, on what is free at its time. O(queue x nodes log nodes) a pass at worst.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from unrack.jit import compiled
from unrack.kernels.arrays import Ints
from unrack.ledger.memory.use import MemoryUse
from unrack.policy.columns import LedgerColumns
from unrack.policy.lending.future import fits, shadow_of
from unrack.policy.lending.lease_kernel import Leases, Span, change, note, place_job, room_needed, who_is
from unrack.policy.lending.rules import Terms


@compiled
def pass_over(
    order: Ints, backfill: int, depth: int, now: int, terms: Terms, seen: LedgerColumns, use: MemoryUse, aware: Any,
    started: Ints, out: Leases,
) -> int:  # fmt: skip
    """Choose the jobs to start now.

    Parameters
    ----------
    order
        The queue.
    backfill, depth
        A :class:`unrack.policy.discipline.queue_kernel.Backfill`; how many jobs behind the head are looked at.
    aware
        Ranks lenders; ``None``: nothing does.
    started : int64[5, room]
        Written: job, first row and end of its rows in ``out``, first loan and end of its loans there.
    out
        Written: the leases.

    Returns
    -------
    int
        How many start; or minus the room that the outputs should have had (nothing was decided).
    """
    total, nodes, free_cores = seen.total, seen.free.shape[1], seen.free_cores
    free = seen.free.copy()
    none = np.empty(0, np.int64)
    n, i = 0, 0
    last = Span(n, n, n, n)
    while i < order.shape[0]:
        who = who_is(seen, order[i], now, none, none)
        if who.tasks * who.cores > free_cores:
            break
        needed = room_needed(started, n, out, last, nodes)
        if needed > 0:
            return -needed
        span = place_job(terms, free, total, who, aware, out, last)
        if span.row_end < 0:
            break
        free_cores -= change(free, out, span, -1)
        n, last, i = note(started, n, who.job, span), span, i + 1
    if backfill == 0 or i + 1 >= order.shape[0]:
        return n
    head = who_is(seen, order[i], now, none, none)
    shadow, known = -1, False
    then = np.empty_like(free)
    for k in range(i + 1, min(order.shape[0], i + 1 + depth)):
        who = who_is(seen, order[k], now, none, none)
        if who.tasks * who.cores > free_cores:
            continue
        needed = room_needed(started, n, out, last, nodes)
        if needed > 0:
            return -needed
        span = place_job(terms, free, total, who, aware, out, last)
        if span.row_end < 0:
            continue
        if backfill == 2:
            if not known:
                shadow, known = shadow_of(terms, free, head, seen, use, started, n, out, span, then), True
            if shadow >= 0 and now + who.us > shadow:
                change(then, out, span, -1)
                if not fits(terms, then, total, head, out, span):
                    change(then, out, span, 1)
                    continue
        free_cores -= change(free, out, span, -1)
        n, last = note(started, n, who.job, span), span
    return n
