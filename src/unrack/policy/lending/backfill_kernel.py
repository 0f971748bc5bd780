"""Compiled: one backfill round of the Slurm-like scheduler with borrowed memory.

Jobs are planned from scratch, in order, each at the earliest time at which numbers of nodes and memory suffice for as
long as it is expected to run (``counts_kernel.py``). Who could start now gets a real lease, which must leave every
reservation what it has; else it is planned for later. The first job that cannot start is safe: its reservation is
exact, and nobody who starts may take it.

With several lending groups numbers are not enough. There the first job that cannot start is given the time at which
its lease really exists (as EASY does), and whoever would still run then must leave it possible.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from unrack.jit import compiled, inlined
from unrack.ledger.holding import add_lease
from unrack.ledger.names import (
    ASKED_CORES,
    ASKED_MB,
    ASKED_TASKS,
    ASKED_US,
    CPU,
    JOB,
    LOAN,
    LOAN_END,
    MEM,
    ROW,
    ROW_END,
)
from unrack.policy.lending.compute_nodes import may_compute, tasks_by_cores
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
from unrack.policy.lending.future import fits, shadow_of
from unrack.policy.lending.lease_kernel import Who, place_job
from unrack.policy.lending.rules import Terms
from unrack.policy.placement.node_kernel import add_node, tasks_on

Ints = NDArray[np.int64]


@inlined
def settle(
    free: Ints, total: Ints, threshold_mb: Ints, class_of: Ints, kinds: Ints, scratch: Ints, tasks: int, cores: int,
    mb: int, out: Ints, at: int,
) -> int:  # fmt: skip
    """Local places for all tasks, on the nodes of each class that TAKES says, by id; the end of the rows, or -1."""
    start, left = at, tasks
    for r in range(kinds.shape[1]):
        g = kinds[RANK, r]
        some = scratch[TAKES, 1 + g]
        for node in range(free.shape[1] if some > 0 else 0):
            if class_of[node] != g or not may_compute(
                free[CPU, node], total[CPU, node], free[MEM, node], threshold_mb[node]
            ):
                continue
            here = min(left, tasks_on(free[CPU, node], free[MEM, node], total[CPU, node], cores, mb, True))
            if here > 0:
                at = add_node(out, start, at, node, here, total[CPU, node], here * mb)
                left -= here
                some -= 1
                if left == 0:
                    return at
                if some == 0:
                    break
    return -1


@inlined
def last_that_may(order: Ints, asks: Ints, first: int, last: int, plan: Ints, step: int, kinds: Ints) -> int:
    """The place behind the last job of ``order[first:last]`` for which there are nodes and memory in a step.

    The plan needs to go no further: it is there to know who may start now. ``first``: nobody may.
    """
    classes = kinds.shape[1]
    for q in range(last - 1, first - 1, -1):
        tasks, cores, mb = asks[ASKED_TASKS, order[q]], asks[ASKED_CORES, order[q]], asks[ASKED_MB, order[q]]
        room = 0
        for g in range(classes):
            if plan[step, 1 + g] > 0:
                room += min(tasks, plan[step, 1 + g] * tasks_by_cores(kinds[CLASS_CORES, g], cores))
        if room >= tasks and tasks * mb <= plan[step, 1 + classes]:
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
    order: Ints, now: int, terms: Terms, strict: bool, asks: Ints, free_now: Ints, total: Ints,
    running: Ints, count: int, pool: Ints, lease_at: Ints, use: Ints, first_of: Ints, aware: Any, class_of: Ints,
    kinds: Ints, begins: Ints, started: Ints, rows: Ints, loans: Ints,
) -> int:  # fmt: skip
    """Plan for the jobs in order; those whose turn is now start.

    Parameters
    ----------
    strict
        Whether a node that lends does not compute.
    aware
        Ranks lenders; ``None``: nothing does.
    class_of : int64[nodes]
        Nodes with as many cores and as much memory are a class; -1: no cores.
    kinds : int64[4, classes]
        CLASS_CORES, CLASS_MB, RANK and BY_MEMORY of ``counts_kernel.py``.
    begins : int64[jobs]
        Written: when planned jobs are to start; -1: never, or not planned.
    started, rows, loans
        As in ``queue_kernel.pass_over``.

    Returns
    -------
    int
        How many start; or minus the room that the outputs should have had (nothing was decided).
    """
    nodes, classes, rule, threshold_mb = free_now.shape[1], kinds.shape[1], terms.rule, terms.threshold_mb
    scratch = np.empty((3, classes + 2), np.int64)
    free_by_class(free_now, total, threshold_mb, class_of, scratch)
    jobs = last_that_may(order, asks, 0, order.shape[0], scratch, LOW, kinds)
    if jobs == 0:
        return 0
    plan = np.zeros((count + 3 * jobs + 4, classes + 2), np.int64)
    from_us = np.empty(nodes, np.int64)
    steps = levels_of(
        now, free_now, total, threshold_mb, class_of, running, count, pool, lease_at, use, first_of, plan, from_us
    )
    safe, safe_steps = plan.copy(), steps
    free = free_now.copy()
    then = np.empty_like(free)
    head, shadow = -1, -1
    n, at, loan_at = 0, 0, 0
    none = np.empty(0, np.int64)
    q = -1
    while q + 1 < jobs:
        q += 1
        job = order[q]
        tasks, cores, mb, length = (
            asks[ASKED_TASKS, job],
            asks[ASKED_CORES, job],
            asks[ASKED_MB, job],
            max(1, asks[ASKED_US, job]),
        )
        if at + 2 * nodes > rows.shape[0] or loan_at + 4 * nodes > loans.shape[0] or n == started.shape[1]:
            return -2 * int(at + loan_at + 4 * nodes + n)
        who = Who(job, now, length, running, count, class_of, none)
        i, how = earliest(0, plan, steps, rule, strict, kinds, tasks, cores, mb, length, scratch)
        if i == 0:
            end, loan_end = -1, loan_at
            if how == LOCALLY:
                end = settle(free, total, threshold_mb, class_of, kinds, scratch, tasks, cores, mb, rows, at)
            if end < 0:
                if how == BORROWING:
                    quota = scratch[QUOTA, :classes].copy()
                    asking = Who(job, now, length, running, count, class_of, quota)
                    end, loan_end = place_job(
                        terms, free, total, tasks, cores, mb, aware, asking, rows, at, loans, loan_at
                    )  # fmt: skip
                if end < 0:  # other nodes may do where groups do not allow these
                    end, loan_end = place_job(
                        terms, free, total, tasks, cores, mb, aware, who, rows, at, loans, loan_at
                    )  # fmt: skip
            runs_then = shadow >= 0 and now + length > shadow  # beside the first job that cannot start
            if end >= 0 and runs_then:
                add_lease(then, rows, at, end, loans, loan_at, loan_end, -1)
                if not fits(
                    terms,
                    then,
                    total,
                    asks[ASKED_TASKS, head],
                    asks[ASKED_CORES, head],
                    asks[ASKED_MB, head],
                    who,
                    rows,
                    end,
                    loans,
                    loan_end,
                ):
                    add_lease(then, rows, at, end, loans, loan_at, loan_end, 1)
                    end = -1
            possible = False
            if end >= 0:
                possible, steps, safe_steps = hold(
                    plan, steps, safe, safe_steps, now + length, class_of, free, threshold_mb, rows, at, end, loans,
                    loan_at, loan_end, from_us,
                )  # fmt: skip
                if runs_then and not possible:
                    add_lease(then, rows, at, end, loans, loan_at, loan_end, 1)
            if possible:
                add_lease(free, rows, at, end, loans, loan_at, loan_end, -1)
                started[JOB, n], started[ROW, n], started[ROW_END, n] = job, at, end
                started[LOAN, n], started[LOAN_END, n] = loan_at, loan_end
                n, at, loan_at = n + 1, end, loan_end
                begins[job] = now
                jobs = last_that_may(order, asks, q + 1, jobs, plan, 0, kinds)
                continue
            i, how = earliest(1, plan, steps, rule, strict, kinds, tasks, cores, mb, length, scratch)
        if i < 0:
            begins[job] = -1
            continue
        begin = plan[i, 0]
        first = head < 0
        head = job if first else head
        if first and terms.groups > 1:
            shadow = shadow_of(
                terms, free, total, tasks, cores, mb, now, running, count, pool, lease_at, use, first_of, started, n,
                asks, who, rows, at, loans, loan_at, then,
            )  # fmt: skip
            if shadow > begin:
                begin = shadow
                at_step = steps - 1
                while plan[at_step, 0] > begin:
                    at_step -= 1
                how = fit_in(plan, at_step, rule, strict, kinds, tasks, cores, mb, scratch)
                if how == NOT:
                    begins[job] = begin
                    continue
        begins[job] = begin
        steps = reserve(plan, steps, begin, length, scratch)
        if first:
            safe_steps = reserve(safe, safe_steps, begin, length, scratch)
    return n
