"""Compiled: which of the jobs with a reservation for now start, on which nodes."""

from __future__ import annotations

from typing import Any

import numpy as np

from unrack.jit import compiled, inlined, plain
from unrack.kernels.arrays import Ints
from unrack.kernels.ordering import zeros
from unrack.ledger.columns import CPU, MEM
from unrack.ledger.holding import add_rows, first_at_least
from unrack.ledger.lease import CORES, FIRST, LENDER, LOAN_MB, LOCAL_MB, NODES, TASKS
from unrack.policy.discipline.skyline.columns import (
    AT,
    CLAIM,
    CLAIM_END,
    CLOSES_US,
    END_CLAIM,
    END_ROW,
    FIRST_CLAIM,
    FIRST_ROW,
    JOB,
    OPENS_US,
    ROW,
    ROW_END,
    SLOTS,
    START,
    STARTS,
    STEP,
    STEPS,
)
from unrack.policy.discipline.skyline.levels import short_of
from unrack.policy.discipline.skyline.steps import Groups, RowSpan, Slots, are_open, fit_together, lent_by
from unrack.policy.placement.node_kernel import Gang, LedgerColumns, add_node, gang_of, place_job, tasks_on
from unrack.units import NEVER_US
from unrack.view import PLENTY


@inlined
def settle(
    free: Ints, node_total: Ints, groups: Groups, fit: int, asked: Gang, span: RowSpan, out: Ints, at: int
) -> int:
    """Turn a reservation that starts now into rows of nodes; returns their end, or -1 if they are not free yet."""
    rows, tasks, cores, mb = span.rows, asked.tasks, asked.cores, asked.mb
    start = at
    if groups.grain == 2:
        if groups.total.shape[1] == 1:
            return place_job(free, node_total, tasks, cores, mb, False, fit, out, at)
        left, own = zeros(groups.total.shape[1]), zeros(2 * node_total.shape[1]).reshape((2, node_total.shape[1]))
        for r in range(span.first, span.last):
            for g in range(rows[r, FIRST], rows[r, FIRST] + rows[r, NODES]):
                left[g] = rows[r, TASKS]
        for node in range(free.shape[1]):
            if left[groups.of[node]] == 0:
                continue
            own[CPU, node], g = node_total[CPU, node], groups.of[node]
            here = min(left[g], tasks_on(free[CPU, node], free[MEM, node], own[CPU, node], cores, mb, False))
            if here > 0 and left[g] < asked.tasks:
                at = add_node(out, start, at, node, here, here * cores, here * mb)
                tasks, left[g] = tasks - here, left[g] - here
        if at == start:  # all in one group
            return place_job(free, own, tasks, cores, mb, False, fit, out, at)
        return at if tasks == 0 else -1
    for r in range(span.first, span.last):
        if groups.grain == 0:
            for node in range(rows[r, FIRST], rows[r, FIRST] + rows[r, NODES]):
                if free[CPU, node] < rows[r, CORES] or free[MEM, node] < rows[r, LOCAL_MB]:
                    return -1
                at = add_node(out, start, at, node, rows[r, TASKS], rows[r, CORES], rows[r, LOCAL_MB])
            continue
        for g in range(rows[r, FIRST], rows[r, FIRST] + rows[r, NODES]):
            left = rows[r, TASKS]
            for node in range(free.shape[1]):
                if groups.of[node] != g:
                    continue
                here = min(left, tasks_on(free[CPU, node], free[MEM, node], node_total[CPU, node], cores, mb, True))
                if here > 0:
                    at = add_node(out, start, at, node, here, node_total[CPU, node], here * mb)
                    left -= here
                    if left == 0:
                        break
            if left > 0:
                return -1
    return at


@inlined
def count_nodes(count: Ints, rows: Ints, first: int, last: int, sign: int) -> None:
    """Add to the count of each node on which rows have tasks."""
    for r in range(first, last):
        for node in range(rows[r, FIRST], rows[r, FIRST] + rows[r, NODES] if rows[r, TASKS] >= 0 else 0):
            count[node] += sign


@inlined
def must_wait(wait_for: Ints, span: RowSpan, real: Ints, slots: Slots, may_lend: Ints) -> bool:
    """Whether a lender is to start tasks of others first, which would then find that it lends too much.

    ``wait_for`` counts those that are to start, those of the job itself, too; ``real``: what is free now.
    """
    rows, nodes = span.rows, slots.free.shape[0] - may_lend.shape[0]
    for r in range(span.first, span.last):
        lender = rows[r, FIRST]
        others = wait_for[lender] if rows[r, TASKS] < 0 else 0
        lent = lent_by(real, 0, slots, nodes, lender) if others > 0 else 0
        for own in range(span.first, span.last if others > 0 else span.first):
            if rows[own, TASKS] >= 0 and rows[own, FIRST] <= lender < rows[own, FIRST] + rows[own, NODES]:
                others -= 1
            elif rows[own, TASKS] < 0 and rows[own, FIRST] == lender:
                lent += rows[own, LOCAL_MB]
        if others > 0 and lent > may_lend[lender]:
            return True
    return False


@inlined
def start_those_due(
    order: Ints, now: int, fit: int, seen: LedgerColumns, groups: Groups, slots: Slots, sky: Any
) -> int:
    """Choose those that start now, on places that are free; how many; -1: there is too little room.

    A job that borrows of nodes on which others are to start now starts behind these: a node that lends might start no
    tasks.
    """
    turn, started, out, new_rows, new_claims = sky.turn, sky.started, sky.out, sky.new_rows, sky.new_claims
    nodes, n, at = seen.free.shape[1], 0, 0
    due = False
    for q in range(order.shape[0]):
        due = due or turn[START, q] == now
    if not due:
        return 0
    free = seen.free.copy()
    real = np.empty((1, 1, slots.place_of.shape[0]), np.int64)
    for s in range(sky.cursor[SLOTS]):
        real[0, 0, s] = slots.free[slots.place_of[s]]
    windows, kept = sky.windows, sky.window_claims
    for w in range(windows.shape[0]):
        if kept[w, 0] >= 0 and windows[w, OPENS_US] <= now < windows[w, CLOSES_US]:
            real[0, 0, slots.slot[kept[w, 0]]] -= kept[w, 1]
    now_slots = Slots(slots.slot, slots.place_of, slots.free, 0)
    wait_for = zeros(sky.may_lend.shape[0])  # how many are to start on each node
    lends = wait_for.shape[0] > 0
    for q in range(order.shape[0] if lends else 0):
        if turn[START, q] == now:
            count_nodes(wait_for, new_rows, turn[FIRST_ROW, q], turn[END_ROW, q], 1)
    again = True
    while again:
        again = False
        for q in range(order.shape[0]):
            if turn[START, q] != now:
                continue
            asked = gang_of(seen.asks, order[q])
            first, last, claim, claim_end = (
                turn[FIRST_ROW, q], turn[END_ROW, q], turn[FIRST_CLAIM, q], turn[END_CLAIM, q],
            )  # fmt: skip
            needed = min(nodes, max(1, asked.tasks))
            if groups.grain == 0:
                needed = 0
                for r in range(first, last):
                    needed += new_rows[r, NODES]
            if at + needed > out.shape[0] or n == started.shape[1]:
                return short_of(sky.cursor, STARTS)
            span = RowSpan(new_rows, first, last, new_claims, claim, claim_end)
            enough = True
            for c in range(claim, claim_end):
                enough = enough and real[0, 0, slots.slot[span.claims[c, 0]]] >= span.claims[c, 1]
            if enough and lends:
                enough = are_open(span, real, 0, now_slots, sky.may_lend) and fit_together(free, span)
                enough = enough and not must_wait(wait_for, span, real, now_slots, sky.may_lend)
            end = settle(free, seen.total, groups, fit, asked, span, out, at) if enough else -1
            if end < 0:
                continue
            if lends:
                count_nodes(wait_for, new_rows, first, last, -1)
            add_rows(free, out, at, end, -1)
            for c in range(claim, claim_end):
                real[0, 0, slots.slot[span.claims[c, 0]]] -= span.claims[c, 1]
            started[JOB, n], started[ROW, n], started[ROW_END, n] = order[q], at, end
            started[CLAIM, n], started[CLAIM_END, n] = claim, claim_end
            n, at = n + 1, end
            turn[START, q] = -1
            again = lends
    return n


@inlined
def limit_lending(jobs: int, length: int, sky: Any, most: Ints) -> None:
    """Let nodes lend no more than lets all start there that are to start after a job, while it runs.

    A job that starts at the same time starts before those that borrow of its nodes.

    Parameters
    ----------
    jobs
        How many have a place in the order; the cursor says which of them is to be placed, and at which step.
    length
        For how long it would run, µs.
    most : int64[nodes]
        Lowered: how many MB each may lend, beside what it lends then.
    """
    times, level, turn, cursor, rows = sky.times, sky.level, sky.turn, sky.cursor, sky.new_rows
    slots, steps = Slots(sky.slot, sky.place_of, sky.free_places, sky.total.shape[2]), cursor[STEPS]
    first, begins = slots.free.shape[0] - sky.may_lend.shape[0], times[cursor[STEP]]
    for q in range(jobs):
        if q == cursor[AT] or not begins < turn[START, q] < begins + length:
            continue
        k = first_at_least(times, 0, steps, turn[START, q] + 1) - 1
        for r in range(turn[FIRST_ROW, q], turn[END_ROW, q]):
            for node in range(rows[r, FIRST], rows[r, FIRST] + rows[r, NODES] if rows[r, TASKS] >= 0 else 0):
                most[node] = min(most[node], max(0, sky.may_lend[node] - lent_by(level, sky.at[k], slots, first, node)))


@compiled
def lendable(jobs: int, length: int, sky: Any) -> Ints:
    """int64[nodes]: how many MB each may lend, as of :func:`limit_lending`."""
    most = np.empty(sky.may_lend.shape[0], np.int64)
    for node in range(most.shape[0]):
        most[node] = PLENTY
    limit_lending(jobs, length, sky, most)
    return most


@compiled
def leaves_open(jobs: int, length: int, loans: Ints, sky: Any) -> bool:
    """Whether jobs that start while loans (int64[k, 3]) last may still start on their nodes, whatever these lend."""
    left, fits = lendable(jobs, length, sky), True
    for i in range(loans.shape[0]):
        left[loans[i, LENDER]] -= loans[i, LOAN_MB]
        fits = fits and left[loans[i, LENDER]] >= 0
    return fits


@inlined
def due_after(start: Ints, jobs: Ints, now: int, overdue: bool) -> int:
    """The first reserved start of these jobs after ``now``; NEVER_US: there is none, or a job is overdue: ends show it.

    One that fell due now, and waits for a job that was to end now and did not, is made again once that is overdue.
    """
    due = NEVER_US
    for job in jobs:
        if overdue and start[job] == now:
            due = now + 1
        elif not overdue and now < start[job] < due:
            due = start[job]
    return due


first_due = compiled(plain(due_after))
"""The same from Python."""
