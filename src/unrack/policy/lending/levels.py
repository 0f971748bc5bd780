"""Compiled: a plan of the future in numbers: by time, how many nodes of each kind may compute and how much is free.

``level[i, 0, k]`` is how many nodes of class k may compute from ``times[i]`` to ``times[i + 1]``, ``level[i, 1, 0]``
the MB free on all nodes together. Of running jobs it is exact: a node that lends counts from the end of its last loan.
A reservation is of numbers, not of nodes: so many nodes of each class to compute, so many that must lend instead, so
many MB.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unrack.cluster.holding import first_at_least
from unrack.jit import inlined
from unrack.policy.lending.choosing import may_compute, tasks_by_cores
from unrack.policy.placing import tasks_on
from unrack.policy.plan import copy_step
from unrack.units import NEVER_US

Ints = NDArray[np.int64]
NOT, LOCALLY, BORROWING = range(3)
"""How a job fits into a step."""


@inlined
def levels_of(
    now: int, free_now: Ints, total: Ints, threshold_mb: Ints, class_of: Ints, running: Ints, count: int, pool: Ints,
    lease_at: Ints, use: Ints, first_of: Ints, times: Ints, level: NDArray[np.int64], from_us: Ints,
) -> int:  # fmt: skip
    """Fill ``times`` and ``level`` from what is free and the booked ends of running jobs; how many steps.

    ``from_us`` gets when each node may compute.
    """
    free = free_now.copy()
    times[0] = now
    steps = 1
    for node in range(free.shape[1]):
        from_us[node] = NEVER_US
        level[0, 1, 0] += free[1, node]
        if from_us[node] == NEVER_US and may_compute(free[0, node], total[0, node], free[1, node], threshold_mb[node]):
            from_us[node] = now
            level[0, 0, class_of[node]] += 1
    for i in range(count):
        end, job = max(running[0, i], now + 1), running[1, i]
        if end != times[steps - 1]:
            times[steps] = end
            copy_step(level, steps - 1, steps)
            steps += 1
        step = steps - 1
        for r in range(lease_at[0, job], lease_at[0, job] + lease_at[1, job]):
            for node in range(pool[r, 0], pool[r, 0] + pool[r, 1]):
                free[0, node] += pool[r, 3]
                free[1, node] += pool[r, 4]
                level[step, 1, 0] += pool[r, 4]
                if from_us[node] == NEVER_US and may_compute(
                    free[0, node], total[0, node], free[1, node], threshold_mb[node]
                ):
                    from_us[node] = end
                    level[step, 0, class_of[node]] += 1
        entry = first_of[job]
        while entry >= 0:
            lender = use[1, entry]
            if lender != use[2, entry]:
                free[1, lender] += use[3, entry]
                level[step, 1, 0] += use[3, entry]
                if from_us[lender] == NEVER_US and may_compute(
                    free[0, lender], total[0, lender], free[1, lender], threshold_mb[lender]
                ):
                    from_us[lender] = end
                    level[step, 0, class_of[lender]] += 1
            entry = use[6, entry]
    return steps


@inlined
def fit_in(
    level: NDArray[np.int64], i: int, rule: int, strict: bool, class_total: Ints, rank: Ints, by_memory: Ints,
    tasks: int, cores: int, mb: int, takes: Ints,
) -> int:  # fmt: skip
    """How a job fits into a step (NOT, LOCALLY or BORROWING); ``takes`` gets the nodes of each class it costs."""
    classes = level.shape[2]
    for g in range(classes):
        takes[g] = 0
    if tasks * mb > level[i, 1, 0]:
        return NOT
    left = tasks
    if rule >= 4:
        for r in range(classes):
            g = rank[r]
            each = tasks_on(class_total[0, g], class_total[1, g], class_total[0, g], cores, mb, False)
            if each == 0 or level[i, 0, g] <= 0:
                continue
            here = min(left, each * level[i, 0, g])
            takes[g] = (here + each - 1) // each
            left -= here
            if left == 0:
                return LOCALLY
        left = tasks
    lacking = 0
    for r in range(classes):
        g = by_memory[r] if rule >= 4 else rank[r]
        takes[g] = 0
        each = tasks_by_cores(class_total[0, g], cores)
        if left == 0 or each == 0 or level[i, 0, g] <= 0:
            continue
        here = min(left, each * level[i, 0, g])
        full, rest = here // each, here % each
        takes[g] = full + (1 if rest > 0 else 0)
        lacking += full * max(0, each * mb - class_total[1, g]) + max(0, rest * mb - class_total[1, g])
        left -= here
    if left > 0:
        return NOT
    if strict:  # nodes that could compute lend where the memory of those that cannot does not suffice
        for g in range(classes):
            lacking += level[i, 0, g] * class_total[1, g]
        lacking -= level[i, 1, 0]
        for r in range(classes - 1, -1, -1):
            g = by_memory[r]
            if lacking > 0 and class_total[1, g] > 0:
                lend = min(level[i, 0, g] - takes[g], (lacking + class_total[1, g] - 1) // class_total[1, g])
                takes[g] += lend
                lacking -= lend * class_total[1, g]
    return BORROWING


@inlined
def earliest(
    after: int, times: Ints, level: NDArray[np.int64], steps: int, rule: int, strict: bool, class_total: Ints,
    rank: Ints, by_memory: Ints, tasks: int, cores: int, mb: int, length: int, low: NDArray[np.int64], takes: Ints,
) -> tuple[int, int]:  # fmt: skip
    """The first step from ``after`` on at whose start a job fits for ``length`` µs, and how; (-1, NOT): never.

    ``low`` (int64[1, 2, classes]) is scratch: the least that is free throughout.
    """
    classes = level.shape[2]
    most = 1  # tasks on a node of any class
    for g in range(classes):
        most = max(most, tasks_by_cores(class_total[0, g], cores))
    least = (tasks + most - 1) // most  # nodes
    i = after
    while i < steps:
        nodes = 0  # a call costs more than to see here that there are too few
        for g in range(classes):
            nodes += max(0, level[i, 0, g])
        if nodes < least or tasks * mb > level[i, 1, 0]:
            i += 1
            continue
        how = fit_in(level, i, rule, strict, class_total, rank, by_memory, tasks, cores, mb, takes)
        if how == NOT:
            i += 1
            continue
        for row in range(2):
            for g in range(classes):
                low[0, row, g] = level[i, row, g]
        end = times[i] + length
        k = i + 1
        following = -1
        while k < steps and times[k] < end:
            changed = False
            for row in range(2):
                for g in range(classes):
                    if level[k, row, g] < low[0, row, g]:
                        low[0, row, g] = level[k, row, g]
                        changed = True
            if changed:
                how = fit_in(low, 0, rule, strict, class_total, rank, by_memory, tasks, cores, mb, takes)
                if how == NOT:
                    alone = fit_in(level, k, rule, strict, class_total, rank, by_memory, tasks, cores, mb, takes)
                    following = k + 1 if alone == NOT else i + 1
                    break
            k += 1
        if following < 0:
            return i, how
        i = following
    return -1, NOT


@inlined
def step_at(times: Ints, level: NDArray[np.int64], steps: int, time: int) -> tuple[int, int]:
    """The step that starts at ``time``, split off if there is none; and the new number of steps."""
    at = first_at_least(times, 0, steps, time)
    if at < steps and times[at] == time:
        return at, steps
    for k in range(steps, at, -1):
        times[k] = times[k - 1]
        for g in range(level.shape[2]):
            level[k, 0, g] = level[k - 1, 0, g]
            level[k, 1, g] = level[k - 1, 1, g]
    times[at] = time
    for g in range(level.shape[2]):
        level[at, 0, g] = level[at - 1, 0, g]
        level[at, 1, g] = level[at - 1, 1, g]
    return at, steps + 1


@inlined
def change(level: NDArray[np.int64], first: int, last: int, takes: Ints, mb: int, sign: int) -> None:
    """Add (sign 1) or take (-1) nodes of each class and memory in the steps ``first`` to ``last`` - 1."""
    for k in range(first, last):
        for g in range(takes.shape[0]):
            level[k, 0, g] += sign * takes[g]
        level[k, 1, 0] += sign * mb


@inlined
def reserve(times: Ints, level: NDArray[np.int64], steps: int, start: int, length: int, takes: Ints, mb: int) -> int:
    """Book numbers of nodes and memory from ``start`` for ``length`` µs; returns the new number of steps."""
    a, steps = step_at(times, level, steps, start)
    b, steps = step_at(times, level, steps, start + length)
    change(level, a, b, takes, mb, -1)
    return steps


@inlined
def hold(
    times: Ints, level: NDArray[np.int64], steps: int, end: int, class_of: Ints, free: Ints, threshold_mb: Ints,
    rows: Ints, first: int, last: int, loans: Ints, loan_first: int, loan_last: int, from_us: Ints,
) -> tuple[bool, int]:  # fmt: skip
    """Book a lease of named nodes and loans from now to ``end``, exactly; whether that is possible, and the steps.

    Where some reservation would lose what it has, nothing is booked. ``free`` is what is free before the lease.
    """
    b, steps = step_at(times, level, steps, end)
    takes = np.zeros(level.shape[2], np.int64)
    mb = 0
    for r in range(first, last):
        for node in range(rows[r, 0], rows[r, 0] + rows[r, 1]):
            takes[class_of[node]] += 1
            mb += rows[r, 4]
    for i in range(loan_first, loan_last):
        mb += loans[i, 2]
    change(level, 0, b, takes, mb, -1)
    lent = np.zeros(from_us.shape[0] if loan_last > loan_first else 0, np.int64)
    before = np.empty(loan_last - loan_first, np.int64)
    for i in range(loan_first, loan_last):
        lender = loans[i, 1]
        lent[lender] += loans[i, 2]
        before[i - loan_first] = from_us[lender]
        if class_of[lender] >= 0 and from_us[lender] < end and free[1, lender] - lent[lender] < threshold_mb[lender]:
            if not holds(rows, first, last, lender):
                lend_level(times, level, b, from_us[lender], class_of[lender], -1)
            from_us[lender] = end
    possible = True
    for k in range(b):
        for g in range(takes.shape[0]):
            possible = possible and level[k, 0, g] >= 0
        possible = possible and level[k, 1, 0] >= 0
    if possible:
        for r in range(first, last):
            for node in range(rows[r, 0], rows[r, 0] + rows[r, 1]):
                from_us[node] = end
        return True, steps
    for i in range(loan_last - 1, loan_first - 1, -1):
        lender = loans[i, 1]
        if from_us[lender] != before[i - loan_first]:
            from_us[lender] = before[i - loan_first]
            if not holds(rows, first, last, lender):
                lend_level(times, level, b, from_us[lender], class_of[lender], 1)
    change(level, 0, b, takes, mb, 1)
    return False, steps


@inlined
def holds(rows: Ints, first: int, last: int, node: int) -> bool:
    """Whether a node is among the rows."""
    for r in range(first, last):
        if rows[r, 0] <= node < rows[r, 0] + rows[r, 1]:
            return True
    return False


@inlined
def lend_level(times: Ints, level: NDArray[np.int64], last: int, since: int, node_class: int, sign: int) -> None:
    """Take (-1) or give back (1) a node of a class in the steps from ``since`` to ``last`` - 1."""
    for k in range(last):
        if times[k] >= since:
            level[k, 0, node_class] += sign
