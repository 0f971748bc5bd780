"""Compiled: one backfill round of the Slurm-like scheduler with borrowed memory.

Jobs are planned from scratch, in order, each at the earliest time at which numbers of nodes and memory suffice for as
long as it is expected to run (``counts_kernel.py``). A job that could start now gets a real lease, which must leave
every reservation what it has; else it is planned for later. The first job that cannot start is safe: its reservation is
exact, and no job that starts may take it.

With several lending groups numbers are not enough. There the first job that cannot start is given the time at which
its lease really exists (as EASY does), and a job that would still run then must leave it possible.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from unrack.jit import compiled, inlined
from unrack.kernels.arrays import Ints
from unrack.kernels.ordering import order_of
from unrack.ledger.columns import ASKED_US, CPU, ENDS_US, FIRST_ROW, JOB, MEM, OF_JOB, ROW_COUNT
from unrack.ledger.holding import add_rows
from unrack.ledger.memory.use import AT, FOR, MB, NEXT_OF, MemoryUse
from unrack.policy.columns import LedgerColumns, gang_of
from unrack.policy.lending.borrowing import may_compute, tasks_by_cores
from unrack.policy.lending.counts_kernel import (
    BORROWING,
    CLASS_CORES,
    LOCALLY,
    LOW,
    NOT,
    QUOTA,
    RANK,
    TAKES,
    earliest,
    fit_in,
    hold,
    levels_of,
    reserve,
)
from unrack.policy.lending.lease_kernel import (
    Asker,
    Leases,
    LeaseSpan,
    asker_of,
    change,
    note,
    noted,
    place_job,
    room_needed,
)
from unrack.policy.lending.lender_cost import LendingTerms
from unrack.policy.placement.node_kernel import add_node, tasks_on


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
    """Times at which running jobs and those started in this pass are expected to end, and which; in order.

    Which: the job, or -1 - i for ``started[:, i]``. A job past its booked end ends 1 µs from now.
    """
    count = seen.running_count
    times = np.empty(count + n_started, np.int64)
    which = np.empty(count + n_started, np.int64)
    for i in range(count):
        times[i] = max(seen.running[ENDS_US, i], now + 1)
        which[i] = seen.running[OF_JOB, i]
    for s in range(n_started):
        times[count + s] = max(now + seen.asks[ASKED_US, started[JOB, s]], now + 1)
        which[count + s] = -1 - s
    order = order_of(times)
    return times[order], which[order]


@inlined
def copy_table(table: Ints, out: Ints) -> None:
    """Write one table over another; ``out[:] = table`` would compile for two seconds."""
    for row in range(table.shape[0]):
        for column in range(table.shape[1]):
            out[row, column] = table[row, column]


@inlined
def free_after(
    ended: int, which: Ints, free: Ints, then: Ints, seen: LedgerColumns, uses: MemoryUse, started: Ints, out: Leases
) -> None:
    """Write to ``then`` what is free when the first ``ended`` of ``which`` have ended."""
    copy_table(free, then)
    for i in range(ended):
        if which[i] >= 0:
            give_back(then, which[i], seen, uses)
        else:
            change(then, out, noted(started, -1 - which[i]), 1)


@inlined
def ended_with(times: Ints, i: int) -> int:
    """How many have ended when the one at place ``i`` has: all that end at that time."""
    while i + 1 < times.shape[0] and times[i + 1] == times[i]:
        i += 1
    return i + 1


@inlined
def fits(terms: LendingTerms, free: Ints, total: Ints, asker: Asker, out: Leases, last: LeaseSpan) -> bool:
    """Whether a job has a place; overwrites what is behind ``last``."""
    return place_job(terms, free, total, total, asker, None, out, last).row_end >= 0


@inlined
def shadow_of(
    terms: LendingTerms, free: Ints, head: Asker, seen: LedgerColumns, uses: MemoryUse, started: Ints, n_started: int,
    out: Leases, last: LeaseSpan, then: Ints,
) -> int:  # fmt: skip
    """The earliest time at which a job has a place by booked ends (-1: never); ``then`` gets what is free at it.

    Nodes only become free as jobs end, so with one lending group the first such time is found by halving; with
    several, one end after the other.
    """
    times, which = ends_in_order(head.now, seen, started, n_started)
    n = times.shape[0]
    if terms.groups > 1:
        copy_table(free, then)
        for i in range(n):
            free_after(1, which[i:], then, then, seen, uses, started, out)
            if (i + 1 == n or times[i + 1] > times[i]) and fits(terms, then, seen.total, head, out, last):
                return int(times[i])
        return -1
    low, high = 0, n  # not with `low` ended; with `high` ended, if at all
    while low < high:
        middle = (low + high) // 2
        end = ended_with(times, middle)
        free_after(end, which, free, then, seen, uses, started, out)
        if fits(terms, then, seen.total, head, out, last):
            high = middle
        else:
            low = end
    if low >= n:
        return -1
    free_after(ended_with(times, low), which, free, then, seen, uses, started, out)
    return int(times[low])


class Classes(NamedTuple):
    """Classes of nodes that have as many cores and as much memory."""

    of: Ints  # int64[nodes]: the class of each node; -1: no cores
    kinds: Ints  # int64[4, classes]: CLASS_CORES, CLASS_MB, RANK and BY_MEMORY of `counts_kernel.py`
    strict: bool  # whether a node that lends does not compute


@inlined
def settle(
    free: Ints,
    total: Ints,
    threshold_mb: Ints,
    classes: Classes,
    scratch: Ints,
    asker: Asker,
    out: Leases,
    last: LeaseSpan,
) -> LeaseSpan:
    """Local places for all tasks, on the nodes of each class that TAKES says, by id; ``row_end`` -1: not so many."""
    start, at, left, cores, mb, kinds = last.row_end, last.row_end, asker.tasks, asker.cores, asker.mb, classes.kinds
    for r in range(kinds.shape[1]):
        g = kinds[RANK, r]
        some = scratch[TAKES, 1 + g]
        for node in range(free.shape[1] if some > 0 else 0):
            if classes.of[node] != g or not may_compute(
                free[CPU, node], total[CPU, node], free[MEM, node], threshold_mb[node]
            ):
                continue
            here = min(left, tasks_on(free[CPU, node], free[MEM, node], total[CPU, node], cores, mb, True))
            if here > 0:
                at = add_node(out.rows, start, at, node, here, total[CPU, node], here * mb)
                left -= here
                some -= 1
                if left == 0:
                    return LeaseSpan(start, at, last.loan_end, last.loan_end)
                if some == 0:
                    break
    return LeaseSpan(start, -1, last.loan_end, last.loan_end)


@inlined
def last_that_may(order: Ints, asks: Ints, first: int, last: int, plan: Ints, step: int, kinds: Ints) -> int:
    """The place behind the last job of ``order[first:last]`` for which there are nodes and memory in a step.

    The plan needs to go no further: it is there to know which jobs may start now. ``first``: none may.
    """
    classes = kinds.shape[1]
    for q in range(last - 1, first - 1, -1):
        asked, room = gang_of(asks, order[q]), 0
        for g in range(classes):
            if plan[step, 1 + g] > 0:
                room += min(asked.tasks, plan[step, 1 + g] * tasks_by_cores(kinds[CLASS_CORES, g], asked.cores))
        if room >= asked.tasks and asked.tasks * asked.mb <= plan[step, 1 + classes]:
            return q + 1
    return first


@inlined
def free_by_class(free: Ints, total: Ints, threshold_mb: Ints, class_of: Ints, scratch: Ints) -> None:
    """Fill the row LOW with what is free now."""
    last = scratch.shape[1] - 1
    for column in range(last + 1):
        scratch[LOW, column] = 0
    for node in range(free.shape[1]):
        scratch[LOW, last] += free[MEM, node]
        if may_compute(free[CPU, node], total[CPU, node], free[MEM, node], threshold_mb[node]):
            scratch[LOW, 1 + class_of[node]] += 1


@compiled
def plan_round(
    order: Ints, now: int, terms: LendingTerms, seen: LedgerColumns, uses: MemoryUse, aware: Any, groups: Classes,
    begins: Ints, started: Ints, out: Leases,
) -> int:  # fmt: skip
    """Plan for the jobs in order; those that are due now start.

    Returns how many start; or minus the room that the outputs should have had (nothing was decided).

    Parameters
    ----------
    aware
        Ranks lenders; ``None``: nothing does.
    groups
        Classes of nodes.
    begins : int64[jobs]
        Written: when planned jobs are to start; -1: never, or not planned.
    started, out
        As in ``queue_kernel.pass_over``.
    """
    asks, total, kinds, strict = seen.asks, seen.total, groups.kinds, groups.strict
    nodes, classes, rule, threshold_mb = total.shape[1], kinds.shape[1], terms.rule, terms.threshold_mb
    scratch = np.empty((3, classes + 2), np.int64)
    free_by_class(seen.free, total, threshold_mb, groups.of, scratch)
    jobs = last_that_may(order, asks, 0, order.shape[0], scratch, LOW, kinds)
    if jobs == 0:
        return 0
    plan = np.zeros((seen.running_count + 3 * jobs + 4, classes + 2), np.int64)
    from_us = np.empty(nodes, np.int64)
    steps = levels_of(now, seen, uses, threshold_mb, groups.of, plan, from_us)
    safe, safe_steps = plan.copy(), steps
    free = seen.free.copy()
    then = np.empty_like(free)
    none = np.empty(0, np.int64)
    n, shadow = 0, -1
    last = LeaseSpan(n, n, n, n)
    head = asker_of(seen, order[0], now, groups.of, none)  # the first that cannot start, once one is known
    known = False
    q = -1
    while q + 1 < jobs:
        q += 1
        asker = asker_of(seen, order[q], now, groups.of, none)
        job, length = asker.job, asker.us
        needed = room_needed(started, n, out, last, nodes)
        if needed > 0:
            return -needed
        i, how = earliest(0, plan, steps, rule, strict, kinds, asker, scratch)
        if i == 0:
            span = LeaseSpan(last.row_end, -1, last.loan_end, -1)
            if how == LOCALLY:
                span = settle(free, total, threshold_mb, groups, scratch, asker, out, last)
            if span.row_end < 0 and how == BORROWING:
                quota = scratch[QUOTA, :classes].copy()
                asking = asker_of(seen, job, now, groups.of, quota)
                span = place_job(terms, free, total, total, asking, aware, out, last)
            if span.row_end < 0:  # other nodes may do where groups do not allow these
                span = place_job(terms, free, total, total, asker, aware, out, last)
            possible = span.row_end >= 0
            runs_then = shadow >= 0 and now + length > shadow  # beside the first job that cannot start
            if possible and runs_then:
                change(then, out, span, -1)
                possible = fits(terms, then, total, head, out, span)
                if not possible:
                    change(then, out, span, 1)
            if possible:
                possible, steps, safe_steps = hold(
                    plan, steps, safe, safe_steps, now + length, groups.of, free, threshold_mb, out, span, from_us
                )
                if runs_then and not possible:
                    change(then, out, span, 1)
            if possible:
                change(free, out, span, -1)
                n, last = note(started, n, job, span), span
                begins[job] = now
                jobs = last_that_may(order, asks, q + 1, jobs, plan, 0, kinds)
                continue
            i, how = earliest(1, plan, steps, rule, strict, kinds, asker, scratch)
        if i < 0:
            begins[job] = -1
            continue
        begin = plan[i, 0]
        first = not known
        if first:
            head, known = asker, True
        if first and terms.groups > 1:
            shadow = shadow_of(terms, free, asker, seen, uses, started, n, out, last, then)
            if shadow > begin:
                begin = shadow
                at_step = steps - 1
                while plan[at_step, 0] > begin:
                    at_step -= 1
                how = fit_in(plan, at_step, rule, strict, kinds, asker, scratch)
                if how == NOT:
                    begins[job] = begin
                    continue
        begins[job] = begin
        steps = reserve(plan, steps, begin, length, scratch)
        if first:
            safe_steps = reserve(safe, safe_steps, begin, length, scratch)
    return n
