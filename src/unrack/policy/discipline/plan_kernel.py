"""Compiled: a plan of the future, in which every waiting job may hold a reservation.

The plan is a step function: between ``times[i]`` and ``times[i + 1]`` the amounts ``level[i]`` (int64[2, groups]) are
free, by the booked ends of running jobs and the reservations made so far. Groups are the finest thing that has to be
told apart:

* ``CORES``: one group, counted in cores. Exact where every task asks one core and no memory, since then any free core
  serves as well as any other.
* ``WHOLE``: one group a kind of node, counted in nodes. Exact for whole-node allocation.
* ``NODES``: one group a node, cores and MB. Anything else: a reservation then names its nodes.

A job that has run past its booked end is expected to end 1 µs from now, and a job that asks for no time to take 1 µs.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unrack.jit import compiled, inlined
from unrack.ledger.holding import add_rows, first_at_least
from unrack.ledger.lease import CORES, FIRST, LOCAL_MB, NODES, TASKS
from unrack.ledger.names import (
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
from unrack.policy.placement.node_kernel import add_node, place_job, tasks_on
from unrack.units import NEVER_US

Ints = NDArray[np.int64]


class Grain(IntEnum):
    """What a group of the plan is."""

    NODES = 0
    WHOLE = 1
    CORES = 2


class Groups(NamedTuple):
    """How nodes are grouped in a plan."""

    grain: int  # a `Grain`
    of: Ints  # int64[nodes]: the group of each node
    total: Ints  # int64[2, groups]: cores and MB of a node of each group
    rank: Ints  # int64[groups]: in which order groups are filled


class BookedRows(NamedTuple):
    """Reservations by job."""

    start: Ints  # int64[jobs]: reserved start, µs; -1: none, or it starts now
    where: Ints  # int64[2, jobs]: the first row in `rows`, and how many
    rows: Ints  # int64[room, 5]: what is reserved


@inlined
def room_in(level: Ints, groups: Groups, asked: Gang) -> int:
    """How many tasks (counted up to those of the job) fit in the groups of one step."""
    total, tasks, cores, mb = groups.total, asked.tasks, asked.cores, asked.mb
    if groups.grain == 2:
        return int(level[CPU, 0])
    room = 0
    for g in range(level.shape[1]):
        if groups.grain == 1:
            room += level[CPU, g] * tasks_on(total[CPU, g], total[MEM, g], total[CPU, g], cores, mb, False)
        else:
            room += tasks_on(level[CPU, g], level[MEM, g], total[CPU, g], cores, mb, False)
        if room >= tasks:
            return room
    return room


@inlined
def earliest(
    times: Ints, level: NDArray[np.int64], steps: int, groups: Groups, asked: Gang, length: int, low: Ints
) -> int:
    """The first step at whose start the job fits for ``length`` µs; -1: never. ``low`` gets what is free throughout."""
    i: int = 0
    grain, tasks = groups.grain, asked.tasks
    while grain == 2 and i < steps:  # as below, in numbers
        k = i
        while k < steps and level[k, CPU, 0] >= tasks and (k == i or times[k] < times[i] + length):
            k += 1
        if k > i and (k == steps or times[k] >= times[i] + length):
            return i
        i = k + 1
    while i < steps:
        for g in range(low.shape[1]):
            low[CPU, g] = level[i, CPU, g]
            low[MEM, g] = level[i, MEM, g]
        if room_in(low, groups, asked) < tasks:
            i += 1
            continue
        end = times[i] + length
        k = i + 1
        following = -1
        while k < steps and times[k] < end:
            for g in range(low.shape[1]):
                low[CPU, g] = min(low[CPU, g], level[k, CPU, g])
                low[MEM, g] = min(low[MEM, g], level[k, MEM, g])
            if room_in(low, groups, asked) < tasks:
                alone = room_in(level[k], groups, asked)
                following = k + 1 if alone < tasks else i + 1
                break
            k += 1
        if following < 0:
            return i
        i = following
    return -1


@inlined
def copy_step(level: NDArray[np.int64], source: int, target: int) -> None:
    """Make one step of the plan equal to another."""
    for g in range(level.shape[2]):
        level[target, CPU, g] = level[source, CPU, g]
        level[target, MEM, g] = level[source, MEM, g]


@inlined
def copy_rows(source: Ints, first: int, last: int, target: Ints, at: int) -> None:
    """Copy rows to ``target`` from row ``at`` on."""
    for r in range(first, last):
        for c in range(5):
            target[at + r - first, c] = source[r, c]


@inlined
def step_at(times: Ints, level: NDArray[np.int64], steps: int, time: int) -> tuple[int, int]:
    """The step that starts at ``time``, split off if there is none; and the new number of steps."""
    low = first_at_least(times, 0, steps, time)
    if low < steps and times[low] == time:
        return low, steps
    for k in range(steps, low, -1):
        times[k] = times[k - 1]
        copy_step(level, k - 1, k)
    times[low] = time
    copy_step(level, low - 1, low)
    return low, steps + 1


@inlined
def book(
    times: Ints, level: NDArray[np.int64], steps: int, start: int, length: int, rows: Ints, first: int, last: int,
    sign: int,
) -> int:  # fmt: skip
    """Take (sign -1) or give back (1) rows from ``start`` for ``length`` µs; returns the new number of steps."""
    a, steps = step_at(times, level, steps, start)
    b, steps = step_at(times, level, steps, start + length)
    for r in range(first, last):
        cores, mb = sign * rows[r, CORES], sign * rows[r, LOCAL_MB]
        for k in range(a, b):
            for g in range(rows[r, FIRST], rows[r, FIRST] + rows[r, NODES]):
                level[k, CPU, g] += cores
                level[k, MEM, g] += mb
    return steps


@inlined
def fits_at(
    times: Ints, level: NDArray[np.int64], steps: int, start: int, length: int, rows: Ints, first: int, last: int
) -> bool:
    """Whether exactly these rows are free from ``start`` for ``length`` µs."""
    for k in range(first_at_least(times, 0, steps, start + 1) - 1, steps):
        if times[k] >= start + length and times[k] > start:
            break
        for r in range(first, last):
            for g in range(rows[r, FIRST], rows[r, FIRST] + rows[r, NODES]):
                if level[k, CPU, g] < rows[r, CORES] or level[k, MEM, g] < rows[r, LOCAL_MB]:
                    return False
    return True


@inlined
def reserve(low: Ints, groups: Groups, fit: int, asked: Gang, out: Ints, at: int) -> int:
    """Rows (of groups) for a job that fits in ``low``; returns their end."""
    total, rank, tasks, cores, mb = groups.total, groups.rank, asked.tasks, asked.cores, asked.mb
    if groups.grain == 0:
        return place_job(low, total, tasks, cores, mb, False, fit, out, at)
    start, left = at, tasks
    if groups.grain == 2:
        return add_node(out, start, at, 0, tasks, tasks, 0)
    for i in range(rank.shape[0]):
        g = rank[i]
        each = tasks_on(total[CPU, g], total[MEM, g], total[CPU, g], cores, mb, False)
        if each == 0 or low[CPU, g] == 0:
            continue
        here = min(left, each * low[CPU, g])
        at = add_node(out, start, at, g, here, (here + each - 1) // each, 0)
        left -= here
        if left == 0:
            break
    return at


@inlined
def give_back(seen: LedgerColumns, job: int, groups: Groups, level: Ints) -> None:
    """Add what a running job holds to the groups of one step."""
    rows, first = seen.pool, seen.lease_at[FIRST_ROW, job]
    last = first + seen.lease_at[ROW_COUNT, job]
    if groups.grain == 0:
        add_rows(level, rows, first, last, 1)
        return
    for r in range(first, last):
        if groups.grain == 2:
            level[CPU, 0] += rows[r, NODES] * rows[r, CORES]
            continue
        for node in range(rows[r, FIRST], rows[r, FIRST] + rows[r, NODES]):
            level[CPU, groups.of[node]] += 1


@inlined
def settle(
    free: Ints, node_total: Ints, groups: Groups, fit: int, asked: Gang, rows: Ints, first: int, last: int, out: Ints,
    at: int,
) -> int:  # fmt: skip
    """Turn a reservation that starts now into rows of nodes; returns their end, or -1 if they are not free yet."""
    tasks, cores, mb = asked.tasks, asked.cores, asked.mb
    if groups.grain == 2:
        return place_job(free, node_total, tasks, cores, mb, False, fit, out, at)
    start = at
    for r in range(first, last):
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


@compiled
def first_due(start: Ints, jobs: Ints, now: int) -> int:
    """The first reserved start of these jobs after ``now``; a time after everything: there is none."""
    due = NEVER_US
    for job in jobs:
        if now < start[job] < due:
            due = start[job]
    return due


@inlined
def levels_of(now: int, seen: LedgerColumns, groups: Groups, trust: bool, times: Ints, level: NDArray[np.int64]) -> int:
    """Fill a plan from what is free and the booked ends of running jobs; how many steps. ``level`` is all zeros."""
    free, total, running = seen.free, seen.total, seen.running
    times[0] = now
    steps = 1
    for node in range(free.shape[1]):
        if groups.grain == 0:
            level[0, CPU, node] = free[CPU, node]
            level[0, MEM, node] = free[MEM, node]
        elif groups.grain == 2:
            level[0, CPU, 0] += free[CPU, node]
        elif free[CPU, node] > 0 and free[CPU, node] == total[CPU, node]:
            level[0, CPU, groups.of[node]] += 1
    for i in range(seen.running_count):
        if trust and running[ENDS_US, i] == now:
            give_back(seen, running[WHO, i], groups, level[0])
    for i in range(seen.running_count):
        if trust and running[ENDS_US, i] == now:
            continue
        end = max(running[ENDS_US, i], now + 1)
        if end != times[steps - 1]:
            times[steps] = end
            copy_step(level, steps - 1, steps)
            steps += 1
        give_back(seen, running[WHO, i], groups, level[steps - 1])
    return steps


@compiled
def plan_round(
    order: Ints, now: int, seen: LedgerColumns, groups: Groups, fit: int, kept: BookedRows, compress: bool, trust: bool,
    started: Ints, out: Ints, rows: Ints,
) -> int:  # fmt: skip
    """Plan for the jobs of ``order`` and choose those that start now.

    Reservations kept from an earlier round stay where they are if that is still possible; other jobs get the earliest
    one that disturbs nobody, in order. With ``compress`` every job in order is then moved to the earliest time that
    disturbs nobody, which is never later than the one it had.

    Parameters
    ----------
    kept
        The reservations so far; starts and places are changed to those of the new ones, whose rows are in ``rows``.
    trust
        Whether a job whose booked end is now counts as ended, so that a reservation for now stays although its end has
        not been seen yet; what needs its room starts in a later round of this moment.
    started, out
        Written: the jobs that start now, as in ``queue_kernel.pass_over``.
    rows
        int64[room, 5]: written: the rows of all reservations.

    Returns
    -------
    int
        How many jobs start; or minus the room that the three outputs should have had (nothing was decided).
    """
    asks, jobs, nodes, width = seen.asks, order.shape[0], seen.free.shape[1], groups.total.shape[1]
    most = seen.running_count + 2 * jobs + 2
    times = np.empty(most, np.int64)
    level = np.zeros((most, 2, width), np.int64)
    steps = levels_of(now, seen, groups, trust, times, level)
    # reservations that can stay
    start = np.full(jobs, -1, np.int64)
    first = np.zeros(jobs, np.int64)
    last = np.zeros(jobs, np.int64)
    low = np.empty((2, width), np.int64)
    used = 0
    for q in range(jobs):
        job = order[q]
        begins = kept.start[job]
        if begins < now:
            continue
        a, b = kept.where[FIRST_ROW, job], kept.where[FIRST_ROW, job] + kept.where[ROW_COUNT, job]
        length = max(1, asks[ASKED_US, job])
        if used + b - a > rows.shape[0]:
            return -2 * int(used + b - a + jobs)
        if fits_at(times, level, steps, begins, length, kept.rows, a, b):
            steps = book(times, level, steps, begins, length, kept.rows, a, b, -1)
            start[q], first[q], last[q] = begins, used, used + b - a
            copy_rows(kept.rows, a, b, rows, used)
            used += b - a
    # new ones, and earlier ones
    for q in range(jobs):
        if start[q] >= 0 and (not compress or start[q] == now):
            continue
        asked = gang_of(asks, order[q])
        length = max(1, asked.us)
        if steps + 4 > times.shape[0]:
            times = np.concatenate((times, np.empty_like(times)))
            level = np.concatenate((level, np.zeros_like(level)))
        if start[q] >= 0:
            steps = book(times, level, steps, start[q], length, rows, first[q], last[q], 1)
        i = earliest(times, level, steps, groups, asked, length, low)
        if i < 0:
            start[q] = -1
            continue
        if times[i] != start[q]:
            if used + min(width, asked.tasks) > rows.shape[0]:
                return -2 * int(used + min(width, asked.tasks) + jobs)
            start[q], first[q] = times[i], used
            used = reserve(low, groups, fit, asked, rows, used)
            last[q] = used
        steps = book(times, level, steps, start[q], length, rows, first[q], last[q], -1)
    # those that start now
    n, at = 0, 0
    free = seen.free.copy()
    for q in range(jobs):
        if start[q] != now:
            continue
        asked = gang_of(asks, order[q])
        if at + min(nodes, asked.tasks) > out.shape[0] or n == started.shape[1]:
            return -2 * int(at + min(nodes, asked.tasks) + n)
        end = settle(free, seen.total, groups, fit, asked, rows, first[q], last[q], out, at)
        if end < 0:
            continue
        add_rows(free, out, at, end, -1)
        started[JOB, n], started[ROW, n], started[ROW_END, n] = order[q], at, end
        n, at = n + 1, end
        start[q] = -1
    for q in range(jobs):
        job = order[q]
        kept.start[job] = start[q]
        kept.where[FIRST_ROW, job], kept.where[ROW_COUNT, job] = first[q], last[q] - first[q]
    return n
