"""Compiled: kinds of nodes that lend memory in numbers: how many may compute when, and how many a job takes.

Also until when a round in which no job of such a plan starts would go as it does, if nothing changes. Of the times of a
plan some stand still: booked ends, and what is reserved from these on. Others move with the clock: now, the ends of
overdue jobs, which are expected at once, and what is reserved from these on. A later round is the same with these
moved, as long as none passes one that stands still; none leaves a window that was tried from one that stands still,
where it may have been in the way; and no more comes into the window of a job that has a place now but not for long
enough, as what it would take may depend on that.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from unrack.jit import inlined, melted
from unrack.kernels.arrays import Ints
from unrack.kernels.ordering import order_of, zeros
from unrack.ledger.columns import CPU, ENDS_US, MEM, OF_JOB, ROW_COUNT
from unrack.ledger.columns import FIRST_ROW as LEASE_ROW
from unrack.ledger.holding import first_at_least
from unrack.ledger.lease import CORES, FIRST, LOCAL_MB, NODES
from unrack.ledger.memory_use import AT, FOR, MB, NEXT_OF, MemoryUse
from unrack.policy.discipline.skyline.columns import LENGTH, START
from unrack.policy.discipline.skyline.plan_round import reserve
from unrack.policy.discipline.skyline.steps import Groups, Slots, copy_step, room_in
from unrack.policy.lending.borrowing import may_compute, tasks_by_cores
from unrack.policy.lending.lender_cost import LendingTerms
from unrack.policy.placement.node_kernel import Gang, LedgerColumns, add_node, gang_of
from unrack.units import NEVER_US


@inlined
def level_now(now: int, threshold_mb: Ints, seen: LedgerColumns, groups: Groups, pool: int, sky: Any) -> Ints:
    """Fill the first step with what is free; int64[nodes]: from when on each may compute, which is now or not known.

    ``pool``: the column of the memory of all nodes.
    """
    level, free, total, from_us = sky.level, seen.free, seen.total, np.empty(seen.free.shape[1], np.int64)
    sky.times[0], sky.at[0], memory = now, 0, 0
    for column in range(level.shape[2]):
        level[0, CPU, column] = level[0, MEM, column] = 0
    for node in range(free.shape[1]):
        from_us[node] = NEVER_US
        memory += free[MEM, node]
        if may_compute(free[CPU, node], total[CPU, node], free[MEM, node], threshold_mb[node]):
            from_us[node] = now
            level[0, CPU, groups.of[node]] += 1
    level[0, CPU, pool] = memory
    return from_us


@melted
def give(
    node: int, cores: int, mb: int, end: int, k: int, threshold_mb: Ints, free: Ints, total: Ints, of: Ints, pool: int,
    from_us: Ints, level: Ints,
) -> None:  # fmt: skip
    """Give back what a job holds of a node, which may compute then from ``end`` on, where step ``k`` begins."""
    free[CPU, node] += cores
    free[MEM, node] += mb
    level[k, CPU, pool] += mb
    if from_us[node] == NEVER_US and may_compute(
        free[CPU, node], total[CPU, node], free[MEM, node], threshold_mb[node]
    ):
        from_us[node] = end
        level[k, CPU, of[node]] += 1


@inlined
def counted_levels(
    now: int, threshold_mb: Ints, seen: LedgerColumns, uses: MemoryUse, groups: Groups, pool: int, from_us: Ints,
    sky: Any,
) -> int:  # fmt: skip
    """Fill the other steps by the booked ends of running jobs, and from when on each node may compute; how many."""
    times, at, level, free, total, of, k = sky.times, sky.at, sky.level, seen.free.copy(), seen.total, groups.of, 0
    rows, lease_at, use = seen.pool, seen.lease_at, uses.use
    for i in range(seen.running_count):
        end, job = max(seen.running[ENDS_US, i], now + 1), seen.running[OF_JOB, i]
        if end != times[k]:
            times[k + 1], at[k + 1] = end, k + 1
            copy_step(level, k, k + 1, pool)
            k += 1
        first = lease_at[LEASE_ROW, job]
        for r in range(first, first + lease_at[ROW_COUNT, job]):
            for node in range(rows[r, FIRST], rows[r, FIRST] + rows[r, NODES]):
                give(
                    node, rows[r, CORES], rows[r, LOCAL_MB], end, k, threshold_mb, free, total, of, pool, from_us, level
                )
        entry = uses.first_of[job]
        while entry >= 0:
            if use[AT, entry] != use[FOR, entry]:
                give(use[AT, entry], 0, use[MB, entry], end, k, threshold_mb, free, total, of, pool, from_us, level)
            entry = use[NEXT_OF, entry]
    return k + 1


class Lending(NamedTuple):
    """How kinds of nodes are chosen."""

    local: bool  # whether nodes that have all memory are looked for first
    strict: bool  # whether a node that lends does not compute
    rank: Ints  # kinds in the order in which those that borrow are taken, and
    by_memory: Ints  # those with most memory first


@inlined
def lending_of(terms: LendingTerms, total: Ints, groups: Groups) -> Lending:
    """How kinds of nodes are chosen on these terms; ``total``: int64[2, nodes]."""
    strict, keys, least_mb = True, np.empty(groups.last, np.int64), terms.threshold_mb
    for node in range(total.shape[1]):
        strict = strict and least_mb[node] >= total[MEM, node]
    for r in range(groups.last):
        keys[r] = -groups.total[MEM, groups.rank[r]]
    by_memory = groups.rank[order_of(keys)]
    return Lending(terms.rule >= 4, strict, by_memory if terms.rule >= 4 else groups.rank, by_memory)


@inlined
def take(
    low: Ints, how: Lending, groups: Groups, slots: Slots, asked: Gang, out: Ints, at: int, count: Ints
) -> tuple[int, bool]:  # fmt: skip
    """Rows (of kinds) for a job that fits in ``low``; their end, and whether its tasks borrow.

    Then ``count`` says on how many nodes of each kind they run. Nodes that can only lend to it while it runs are in
    rows without tasks, where lenders do not compute.
    """
    total, cores, mb, pool = groups.total, asked.cores, asked.mb, slots.first
    if how.local and room_in(low, 0, groups, slots, asked) >= asked.tasks:
        return reserve(low, groups, 0, asked, out, at), False
    start, left, lacking = at, asked.tasks, -low[0, CPU, pool]
    for r in range(pool):
        g = how.rank[r]
        there, has, each = max(0, low[0, CPU, g]), total[MEM, g], tasks_by_cores(total[CPU, g], cores)
        here, count[g] = min(left, each * there), 0
        lacking += there * has
        if here > 0:
            full, rest = here // each, here % each
            count[g] = full + (1 if rest > 0 else 0)
            lacking += full * max(0, each * mb - has) + max(0, rest * mb - has)
            at = add_node(out, start, at, g, here, count[g], 0)
            left -= here
    for r in range(pool - 1, -1, -1):
        g = how.by_memory[r]
        has = total[MEM, g]
        if how.strict and lacking > 0 and has > 0:
            lend = max(0, min(low[0, CPU, g] - count[g], (lacking + has - 1) // has))
            lacking -= lend * has
            if lend > 0:
                at = add_node(out, start, at, g, 0, lend, 0)
    return at, True


MOVES, STANDS = 1, 2


@inlined
def stands_until(order: Ints, now: int, running: int, planned: int, tried: Ints, steps: int, sky: Any) -> int:
    """Before which time (µs) such a round starts no job either; ``planned``: of how many of ``order`` it decides.

    ``tried``: int64[jobs]: until when jobs that have a place now would run; 0: it has none.
    """
    times, turn, kind, gap, following = sky.times, sky.turn, zeros(steps + 1), NEVER_US - now, NEVER_US
    kind[0] = MOVES
    for i in range(running):
        end = sky.running[ENDS_US, i]
        kind[first_at_least(times, 0, steps, max(end, now + 1))] |= MOVES if end <= now else STANDS
    for q in range(planned):
        k = first_at_least(times, 0, steps, tried[q])
        if k < steps and times[k] == tried[q]:
            kind[k] |= MOVES
        if turn[START, q] >= 0:
            k = first_at_least(times, 0, steps, turn[START, q])
            kind[first_at_least(times, 0, steps, turn[START, q] + turn[LENGTH, q])] |= kind[k]
    for k in range(steps - 1, -1, -1):
        if kind[k] == MOVES | STANDS:
            return now
        if kind[k] == MOVES:
            gap = min(gap, following - times[k])
        else:
            following = times[k]
    for q in range(planned):
        length, last, until = max(1, gang_of(sky.asks, order[q]).us), -1, 0
        for i in range(1, steps):
            if turn[START, q] >= 0 and times[i] >= turn[START, q]:
                break
            while until < steps and times[until] < times[i] + length:
                last = until if kind[until] == MOVES else last
                until += 1
            if last > i and kind[i] == STANDS:
                gap = min(gap, times[i] + length - times[last])
        k = first_at_least(times, 0, steps, tried[q])
        while k < steps and kind[k] == MOVES:
            k += 1
        if tried[q] > 0 and k < steps:
            gap = min(gap, times[k] - tried[q])
    return now + gap
