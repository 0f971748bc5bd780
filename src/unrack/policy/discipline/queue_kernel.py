"""Compiled: one pass over the queue for list schedulers without reservations, and for EASY backfill.

EASY (Lifka 1995; Mu'alem and Feitelson 2001): start jobs in order while they fit. The first that does not fit, the
head, gets a reservation at the earliest time at which the booked ends of running jobs leave room for it (its shadow
time). A later job may start now if it is expected to end by then, or if the head still fits at the shadow time beside
it. The test counts the tasks of the head that fit on each node, so it holds for unequal nodes and for memory too.

A job that has run past its booked end is expected to end 1 µs from now.

O(queue x nodes) a pass at worst; a job that asks for more cores than are free in all costs O(1), and by first fit one
that starts O(nodes that it uses + nodes / 64).
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unrack.jit import compiled, inlined
from unrack.ledger.blocks import most_free, take_rows
from unrack.ledger.holding import add_rows
from unrack.ledger.lease import CORES, FIRST, LOCAL_MB, NODES
from unrack.ledger.names import (
    ASKED_CORES,
    ASKED_TASKS,
    ASKED_US,
    CPU,
    ENDS_US,
    FIRST_ROW,
    JOB,
    MEM,
    ROW,
    ROW_COUNT,
    ROW_END,
    WHO,
)
from unrack.policy.columns import Gang, LedgerColumns, gang_of
from unrack.policy.placement.node_kernel import first_fit, place_job, tasks_on

Ints = NDArray[np.int64]


class Backfill(IntEnum):
    """Who may pass the head of the queue."""

    NONE = 0  # nobody
    ANY = 1  # whoever fits now
    EASY = 2  # whoever does not delay the head


class PassRule(NamedTuple):
    """How a pass goes."""

    backfill: int  # a `Backfill`
    depth: int  # how many jobs behind the head are considered
    whole: bool  # whether a node serves one job at a time
    fit: int  # a `Fit`


class Nodes(NamedTuple):
    """What the nodes have: columns of the ledger or of a draft, which a pass writes."""

    # int64[2, nodes]: as in `ClusterState`
    free: Ints
    total: Ints
    most: Ints  # int64[blocks + groups]: the summary of `free` (`blocks`)


class Held(NamedTuple):
    """Who runs on what; columns of :class:`unrack.ledger.state.ClusterState`."""

    running: Ints
    pool: Ints
    lease_at: Ints


def nothing_new(
    easy: bool, complete: bool, released: bool, newest: int, last_job: int, fits: bool, unlike: bool, overdue: bool
) -> bool:
    """Whether a pass can be spared: since the last, nothing was given back and no job came that could start.

    Time alone makes nothing fit, and in a fixed order a pass over the whole queue leaves nothing that could start.
    But EASY may, where a new job at the head lifts the protection of the old one, where it matters which nodes
    another job took, or where a running job has passed its booked end and the head's reservation moves. In whatever
    order it tries those behind the head, none has more room after the pass than when it was tried.

    Parameters
    ----------
    complete
        Whether the last pass left nothing that could start in a second pass at once.
    released
        Whether something was given back since.
    newest, last_job
        The waiting job that was submitted last, and the last that the last pass had seen.
    fits
        Whether the newest asks for no more cores than are free.
    unlike
        Whether the last pass could count cores, and the newest job is the first that is not like that.
    overdue
        Whether a running job has passed its booked end.
    """
    if not complete or released or newest > last_job + 1 or (newest > last_job and (fits or unlike)):
        return False
    return not (easy and overdue)


@inlined
def change_rows(
    free: Ints, total: Ints, cores: int, mb: int, whole: bool, rows: Ints, first: int, last: int, sign: int
) -> int:
    """Add (sign 1) or take (-1) rows; returns how many more tasks of ``cores`` and ``mb`` fit."""
    gained = 0
    for r in range(first, last):
        for node in range(rows[r, FIRST], rows[r, FIRST] + rows[r, NODES]):
            gained -= tasks_on(free[CPU, node], free[MEM, node], total[CPU, node], cores, mb, whole)
            free[CPU, node] += sign * rows[r, CORES]
            free[MEM, node] += sign * rows[r, LOCAL_MB]
            gained += tasks_on(free[CPU, node], free[MEM, node], total[CPU, node], cores, mb, whole)
    return gained


@inlined
def release_until(
    then: Nodes, head: Gang, whole: bool, now: int, held: Held, count: int, out: Ints, started: Ints, n_started: int,
    asks: Ints, alike: bool, free_cores: int,
) -> tuple[int, int]:  # fmt: skip
    """Let jobs end, in order of booked end, until the head fits: (shadow time, tasks of it that fit then).

    ``then`` holds what is free now and is changed to what is free at the shadow time. ``started[:, i]`` are the jobs
    started in this pass: job, first row and end of its rows in ``out``. Returns time -1 if it never fits.
    """
    free, total, cores, mb, running, pool = then.free, then.total, head.cores, head.mb, held.running, held.pool
    room = free_cores if alike else 0
    for node in range(0 if alike else free.shape[1]):
        room += tasks_on(free[CPU, node], free[MEM, node], total[CPU, node], cores, mb, whole)
    ends = np.empty(n_started, np.int64)
    by_end = np.empty(n_started, np.int64)
    for s in range(n_started):  # insertion sort: a pass starts few jobs
        ends[s] = now + asks[ASKED_US, started[JOB, s]]
        k = s
        while k > 0 and ends[by_end[k - 1]] > ends[s]:
            by_end[k] = by_end[k - 1]
            k -= 1
        by_end[k] = s
    i, k, shadow = 0, 0, -1
    while i < count or k < n_started:
        from_running = k == n_started or (i < count and running[ENDS_US, i] <= ends[by_end[k]])
        end = running[ENDS_US, i] if from_running else ends[by_end[k]]
        if end <= now:
            end = now + 1
        if shadow >= 0 and end > shadow:
            break
        if from_running:
            job = running[WHO, i]
            first, end_row = held.lease_at[FIRST_ROW, job], held.lease_at[ROW_COUNT, job]
            end_row += first
            room += (
                asks[ASKED_TASKS, job] if alike else change_rows(free, total, cores, mb, whole, pool, first, end_row, 1)
            )
            i += 1
        else:
            s = by_end[k]
            room += (
                asks[ASKED_TASKS, started[JOB, s]]
                if alike
                else change_rows(free, total, cores, mb, whole, out, started[ROW, s], started[ROW_END, s], 1)
            )
            k += 1
        if shadow < 0 and room >= head.tasks:
            shadow = end
    return shadow, room


@inlined
def any_may_fit(order: Ints, second: Ints, backfill: int, depth: int, asks: Ints, free_cores: int) -> bool:
    """Whether some job that may be considered asks for no more cores than are free in all."""
    last = min(order.shape[0], 1 + depth) if backfill > 0 else min(order.shape[0], 1)
    if backfill > 0 and second.shape[0] > 0:
        last = order.shape[0]  # whom the depth leaves out is known only beside the head
    for i in range(last):
        if asks[ASKED_TASKS, order[i]] * asks[ASKED_CORES, order[i]] <= free_cores:
            return True
    return False


@inlined
def those_behind(order: Ints, head: int, second: Ints) -> Ints:
    """The jobs behind the head, which is ``order[head]``, in the order in which they are tried."""
    if second.shape[0] == 0:
        return order[head + 1 :]
    behind = np.empty(second.shape[0], np.int64)
    count = 0
    for k in range(second.shape[0]):
        if second[k] > head:
            behind[count] = order[second[k]]
            count += 1
    return behind[:count]


@inlined
def place(rule: PassRule, nodes: Nodes, tasks: int, cores: int, mb: int, out: Ints, at: int) -> int:
    """Rows for all tasks, written from ``out[at]``; the end of what was written, or -1 if they do not all fit now."""
    if rule.fit == 0:
        return first_fit(nodes.free, nodes.total, nodes.most, tasks, cores, mb, rule.whole, out, at)
    return place_job(nodes.free, nodes.total, tasks, cores, mb, rule.whole, rule.fit, out, at)


@inlined
def consider(
    rule: PassRule, order: Ints, second: Ints, asks: Ints, nodes: Nodes, free_cores: int, held: Held, count: int,
    alike: bool, now: int, started: Ints, out: Ints,
) -> tuple[int, int]:  # fmt: skip
    """The pass itself: what it returns, and the end of the rows in ``out``, which it has taken from ``nodes``."""
    n: int = 0
    at, i = 0, 0
    # the head of the queue, as long as it fits
    while i < order.shape[0]:
        job = order[i]
        tasks, cores, mb, _ = gang_of(asks, job)
        if tasks * cores > free_cores:
            break
        most_rows = min(nodes.free.shape[1], tasks)
        if at + most_rows > out.shape[0] or n == started.shape[1]:
            return int(-2 * (at + most_rows + n)), at
        end = place(rule, nodes, tasks, cores, mb, out, at)
        if end < 0:
            break
        free_cores -= take_rows(nodes.free, nodes.most, out, at, end)
        started[JOB, n], started[ROW, n], started[ROW_END, n] = job, at, end
        n, at, i = n + 1, end, i + 1
    if rule.backfill == 0 or i + 1 >= order.shape[0]:
        return n, at
    # the jobs behind it
    head = gang_of(asks, order[i])
    shadow, room = -1, 0
    shadow_free = nodes.free
    known = False
    behind = those_behind(order, i, second)
    for k in range(min(behind.shape[0], rule.depth)):
        job = behind[k]
        tasks, cores, mb, us = gang_of(asks, job)
        if tasks * cores > free_cores:
            continue
        late = rule.backfill == 2 and alike and known and shadow >= 0 and now + us > shadow
        if late and room - tasks < head.tasks:
            continue  # wherever it went
        most_rows = min(nodes.free.shape[1], tasks)
        if at + most_rows > out.shape[0] or n == started.shape[1]:
            return int(-2 * (at + most_rows + n)), at
        end = place(rule, nodes, tasks, cores, mb, out, at)
        if end < 0:
            continue
        if rule.backfill == 2:
            if not known:
                if not alike:
                    shadow_free = nodes.free.copy()
                then = Nodes(shadow_free, nodes.total, nodes.most)
                shadow, room = release_until(
                    then, head, rule.whole, now, held, count, out, started, n, asks, alike, free_cores
                )
                known = True
            if shadow >= 0 and now + us > shadow:
                if alike:
                    left = room - tasks
                else:
                    left = room + change_rows(
                        shadow_free, nodes.total, head.cores, head.mb, rule.whole, out, at, end, -1
                    )
                if left < head.tasks:
                    if not alike:
                        add_rows(shadow_free, out, at, end, 1)
                    continue
                room = left
        free_cores -= take_rows(nodes.free, nodes.most, out, at, end)
        started[JOB, n], started[ROW, n], started[ROW_END, n] = job, at, end
        n, at = n + 1, end
    return n, at


@compiled
def pass_over(
    rule: PassRule, order: Ints, second: Ints, now: int, seen: LedgerColumns, alike: bool, started: Ints, out: Ints
) -> int:
    """Choose the jobs to start now.

    Parameters
    ----------
    order
        int64[waiting]: jobs in the order in which they are to be considered.
    second
        int64[waiting]: places in ``order``, in the order in which those behind the head are tried; none: as they are.
    now
        µs.
    alike
        Whether every task asks one core and no memory, on shared nodes: counting cores then says all.
    started
        int64[3, room]: written: job, first row and end of its rows in ``out``.
    out
        int64[room, 5]: written: the rows of the leases.

    Returns
    -------
    int
        How many jobs start; or minus the room that ``out`` or ``started`` should have had (nothing was decided).
    """
    if not any_may_fit(order, second, rule.backfill, rule.depth, seen.asks, seen.free_cores):
        return 0
    draft = seen.free.copy()
    nodes, held = Nodes(draft, seen.total, most_free(draft)), Held(seen.running, seen.pool, seen.lease_at)
    n, _ = consider(
        rule, order, second, seen.asks, nodes, seen.free_cores, held, seen.running_count, alike, now, started, out
    )
    return n
