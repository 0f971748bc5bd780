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

import numpy as np
from numpy.typing import NDArray

from unrack.jit import compiled, inlined
from unrack.ledger.holding import add_rows, first_at_least
from unrack.ledger.lease import CORES, FIRST, LOCAL_MB, NODES, TASKS
from unrack.ledger.names import (
    ASKED_CORES,
    ASKED_MB,
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
from unrack.policy.placement.node_kernel import add_node, place_job, tasks_on
from unrack.units import NEVER_US

Ints = NDArray[np.int64]


class Grain(IntEnum):
    """What a group of the plan is."""

    NODES = 0
    WHOLE = 1
    CORES = 2


@inlined
def room_in(level: Ints, total: Ints, grain: int, tasks: int, cores: int, mb: int) -> int:
    """How many tasks (counted up to ``tasks``) fit in the groups of one step; ``total`` is of a node of each group."""
    if grain == 2:
        return int(level[CPU, 0])
    room = 0
    for g in range(level.shape[1]):
        if grain == 1:
            room += level[CPU, g] * tasks_on(total[CPU, g], total[MEM, g], total[CPU, g], cores, mb, False)
        else:
            room += tasks_on(level[CPU, g], level[MEM, g], total[CPU, g], cores, mb, False)
        if room >= tasks:
            return room
    return room


@inlined
def earliest(
    times: Ints, level: NDArray[np.int64], steps: int, total: Ints, grain: int, tasks: int, cores: int, mb: int,
    length: int, low: Ints,
) -> int:  # fmt: skip
    """The first step at whose start the job fits for ``length`` µs; -1: never. ``low`` gets what is free throughout."""
    i: int = 0
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
        if room_in(low, total, grain, tasks, cores, mb) < tasks:
            i += 1
            continue
        end = times[i] + length
        k = i + 1
        following = -1
        while k < steps and times[k] < end:
            for g in range(low.shape[1]):
                low[CPU, g] = min(low[CPU, g], level[k, CPU, g])
                low[MEM, g] = min(low[MEM, g], level[k, MEM, g])
            if room_in(low, total, grain, tasks, cores, mb) < tasks:
                alone = room_in(level[k], total, grain, tasks, cores, mb)
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
def reserve(
    low: Ints, total: Ints, grain: int, rank: Ints, fit: int, tasks: int, cores: int, mb: int, out: Ints, at: int
) -> int:
    """Rows (of groups) for a job that fits in ``low``; returns their end."""
    if grain == 0:
        return place_job(low, total, tasks, cores, mb, False, fit, out, at)
    start, left = at, tasks
    if grain == 2:
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
def group_rows(rows: Ints, first: int, last: int, grain: int, group_of: Ints, level: Ints) -> None:
    """Add what a lease holds to the groups of one step."""
    if grain == 0:
        add_rows(level, rows, first, last, 1)
        return
    for r in range(first, last):
        if grain == 2:
            level[CPU, 0] += rows[r, NODES] * rows[r, CORES]
            continue
        for node in range(rows[r, FIRST], rows[r, FIRST] + rows[r, NODES]):
            level[CPU, group_of[node]] += 1


@inlined
def settle(
    free: Ints, node_total: Ints, grain: int, group_of: Ints, fit: int, tasks: int, cores: int, mb: int, rows: Ints,
    first: int, last: int, out: Ints, at: int,
) -> int:  # fmt: skip
    """Turn a reservation that starts now into rows of nodes; returns their end, or -1 if they are not free yet."""
    if grain == 2:
        return place_job(free, node_total, tasks, cores, mb, False, fit, out, at)
    start = at
    for r in range(first, last):
        if grain == 0:
            for node in range(rows[r, FIRST], rows[r, FIRST] + rows[r, NODES]):
                if free[CPU, node] < rows[r, CORES] or free[MEM, node] < rows[r, LOCAL_MB]:
                    return -1
                at = add_node(out, start, at, node, rows[r, TASKS], rows[r, CORES], rows[r, LOCAL_MB])
            continue
        for g in range(rows[r, FIRST], rows[r, FIRST] + rows[r, NODES]):
            left = rows[r, TASKS]
            for node in range(free.shape[1]):
                if group_of[node] != g:
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


@compiled
def plan_round(
    order: Ints, now: int, asks: Ints, free_now: Ints, node_total: Ints, running: Ints, count: int, pool: Ints,
    lease_at: Ints, grain: int, fit: int, group_of: Ints, total: Ints, rank: Ints, kept_start: Ints, kept_at: Ints,
    kept_rows: Ints, compress: bool, trust: bool, started: Ints, out: Ints, rows: Ints,
) -> int:  # fmt: skip
    """Plan for the jobs of ``order`` and choose those that start now.

    Reservations kept from an earlier round stay where they are if that is still possible; other jobs get the earliest
    one that disturbs nobody, in order. With ``compress`` every job in order is then moved to the earliest time that
    disturbs nobody, which is never later than the one it had.

    Parameters
    ----------
    group_of, total, rank
        The group of each node; cores and MB of a node of each group; in which order groups are filled.
    kept_start, kept_at, kept_rows
        By job: reserved start (-1: none, or it starts now), and where its rows are in ``kept_rows``. Changed to the
        new reservations, whose rows are in ``rows``.
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
    jobs, groups, nodes = order.shape[0], total.shape[1], free_now.shape[1]
    most = count + 2 * jobs + 2
    times = np.empty(most, np.int64)
    level = np.zeros((most, 2, groups), np.int64)
    times[0] = now
    steps = 1
    if grain == 0:
        for node in range(nodes):
            level[0, CPU, node] = free_now[CPU, node]
            level[0, MEM, node] = free_now[MEM, node]
    elif grain == 2:
        for node in range(nodes):
            level[0, CPU, 0] += free_now[CPU, node]
    else:
        for node in range(nodes):
            if free_now[CPU, node] > 0 and free_now[CPU, node] == node_total[CPU, node]:
                level[0, CPU, group_of[node]] += 1
    for i in range(count):
        job = running[WHO, i]
        if trust and running[ENDS_US, i] == now:
            group_rows(
                pool,
                lease_at[FIRST_ROW, job],
                lease_at[FIRST_ROW, job] + lease_at[ROW_COUNT, job],
                grain,
                group_of,
                level[0],
            )
    for i in range(count):
        end, job = max(running[ENDS_US, i], now + 1), running[WHO, i]
        if trust and running[ENDS_US, i] == now:
            continue
        if end != times[steps - 1]:
            times[steps] = end
            copy_step(level, steps - 1, steps)
            steps += 1
        group_rows(
            pool,
            lease_at[FIRST_ROW, job],
            lease_at[FIRST_ROW, job] + lease_at[ROW_COUNT, job],
            grain,
            group_of,
            level[steps - 1],
        )
    # reservations that can stay
    start = np.full(jobs, -1, np.int64)
    first = np.zeros(jobs, np.int64)
    last = np.zeros(jobs, np.int64)
    low = np.empty((2, groups), np.int64)
    used = 0
    for q in range(jobs):
        job = order[q]
        if kept_start[job] < now:
            continue
        a, b = kept_at[FIRST_ROW, job], kept_at[FIRST_ROW, job] + kept_at[ROW_COUNT, job]
        length = max(1, asks[ASKED_US, job])
        if used + b - a > rows.shape[0]:
            return -2 * int(used + b - a + jobs)
        if fits_at(times, level, steps, kept_start[job], length, kept_rows, a, b):
            steps = book(times, level, steps, kept_start[job], length, kept_rows, a, b, -1)
            start[q], first[q], last[q] = kept_start[job], used, used + b - a
            copy_rows(kept_rows, a, b, rows, used)
            used += b - a
    # new ones, and earlier ones
    for q in range(jobs):
        if start[q] >= 0 and (not compress or start[q] == now):
            continue
        job = order[q]
        tasks, cores, mb, length = (
            asks[ASKED_TASKS, job],
            asks[ASKED_CORES, job],
            asks[ASKED_MB, job],
            max(1, asks[ASKED_US, job]),
        )
        if steps + 2 > times.shape[0]:
            times = np.concatenate((times, np.empty_like(times)))
            level = np.concatenate((level, np.zeros_like(level)))
        if start[q] >= 0:
            steps = book(times, level, steps, start[q], length, rows, first[q], last[q], 1)
        i = earliest(times, level, steps, total, grain, tasks, cores, mb, length, low)
        if i < 0:
            start[q] = -1
            continue
        if times[i] != start[q]:
            if used + min(groups, tasks) > rows.shape[0]:
                return -2 * int(used + min(groups, tasks) + jobs)
            start[q], first[q] = times[i], used
            used = reserve(low, total, grain, rank, fit, tasks, cores, mb, rows, used)
            last[q] = used
        if steps + 2 > times.shape[0]:
            times = np.concatenate((times, np.empty_like(times)))
            level = np.concatenate((level, np.zeros_like(level)))
        steps = book(times, level, steps, start[q], length, rows, first[q], last[q], -1)
    # those that start now
    n, at = 0, 0
    free = free_now.copy()
    for q in range(jobs):
        if start[q] != now:
            continue
        job = order[q]
        tasks, cores, mb = asks[ASKED_TASKS, job], asks[ASKED_CORES, job], asks[ASKED_MB, job]
        if at + min(nodes, tasks) > out.shape[0] or n == started.shape[1]:
            return -2 * int(at + min(nodes, tasks) + n)
        end = settle(
            free, node_total, grain, group_of, fit, tasks, cores, mb, rows, first[q], last[q], out, at
        )  # fmt: skip
        if end < 0:
            continue
        add_rows(free, out, at, end, -1)
        started[JOB, n], started[ROW, n], started[ROW_END, n] = job, at, end
        n, at = n + 1, end
        start[q] = -1
    for q in range(jobs):
        job = order[q]
        kept_start[job] = start[q]
        kept_at[FIRST_ROW, job], kept_at[ROW_COUNT, job] = first[q], last[q] - first[q]
    return n
