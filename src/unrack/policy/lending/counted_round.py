"""Compiled: one backfill round of the Slurm-like scheduler on whole nodes that lend memory, in numbers.

Its levels say how many nodes of each kind may compute, and, in one slot behind them, how much memory is free on all
nodes together. Of running jobs they are exact: a node that lends counts from the end of its last loan. A reservation is
of numbers: so many nodes of each kind to compute, so many that must lend instead, so many MB.

A job that could start now gets a real lease, which must leave every reservation what it has; else it is planned for
later. The first job that cannot start is safe: its reservation is exact, and no job that starts may take it. With
several lending groups numbers are not enough. There that job is given the time at which its lease really exists (as
EASY does), and a job that would still run then must leave it possible.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from unrack.jit import compiled, inlined, melted
from unrack.kernels.arrays import Ints
from unrack.kernels.ordering import zeros
from unrack.ledger.columns import CPU, MEM
from unrack.ledger.holding import add_rows, first_at_least
from unrack.ledger.lease import CORES, FIRST, LOCAL_MB, NODES, TASKS
from unrack.ledger.memory_use import AT, FOR, MB, NEXT_OF, MemoryUse
from unrack.policy.discipline.skyline.columns import (
    CLAIM,
    CLAIM_END,
    CLAIMED,
    END_ROW,
    FIRST_ROW,
    GRAIN,
    JOB,
    LEASES,
    LENGTH,
    MOMENTS,
    ROW,
    ROW_END,
    START,
    STARTS,
    TURNS,
    WHOLE,
)
from unrack.policy.discipline.skyline.levels import copy_of, earliest, fits_in, parts_of, short_of
from unrack.policy.discipline.skyline.plan_round import note
from unrack.policy.discipline.skyline.starting import settle
from unrack.policy.discipline.skyline.steps import Groups, RowSpan, Slots, Sought, book, fits_at, step_at
from unrack.policy.discipline.slurm_search import ends_of, planned_before
from unrack.policy.lending.answers import write
from unrack.policy.lending.borrowing import cores_of_idle, tasks_by_cores
from unrack.policy.lending.counted_levels import counted_levels, lending_of, level_now, stands_until, take
from unrack.policy.lending.lease_kernel import Asker, Leases, asker_of, place_job
from unrack.policy.lending.lender_cost import LendingTerms
from unrack.policy.placement.node_kernel import Gang, LedgerColumns, add_node, gang_of
from unrack.units import NEVER_US


@inlined
def is_there(terms: LendingTerms, free: Ints, total: Ints, asker: Asker, aware: Any, out: Leases) -> bool:
    """Whether a job has a place."""
    cores_at = cores_of_idle(free, total, terms.threshold_mb)
    return place_job(terms, free, total, cores_at, True, 0, asker, aware, True, out)[0] >= 0


@inlined
def head_time(
    q: int, now: int, running: int, order: Ints, terms: LendingTerms, aware: Any, uses: MemoryUse, head: Asker,
    then: Ints, out: Leases, sky: Any,
) -> int:  # fmt: skip
    """The earliest time at which a job has a place by booked ends (-1: never); ``then``: what is free now, and at it.

    With several lending groups: one end after the other.
    """
    ends = ends_of(order, planned_before(q, now, order, True, sky), running, sky)
    for i in range(ends.shape[1]):
        rows = sky.out if ends[4, i] == 1 else sky.pool
        add_rows(then, rows, ends[2, i], ends[3, i], 1)
        entry = uses.first_of[ends[1, i]] if ends[4, i] == 0 else -1
        while entry >= 0:
            if uses.use[AT, entry] != uses.use[FOR, entry]:
                then[MEM, uses.use[AT, entry]] += uses.use[MB, entry]
            entry = uses.use[NEXT_OF, entry]
        time = max(ends[0, i], now + 1)
        if i + 1 < ends.shape[1] and max(ends[0, i + 1], now + 1) == time:
            continue
        if is_there(terms, then, sky.installed[0], head, aware, out):
            return int(time)
    return -1


@inlined
def close(sky: Any, steps: int, since: int, end: int, kind: int, sign: int) -> None:
    """Take (-1) or give back (1) a node of a kind from ``since`` to ``end``, which begins a step."""
    times, at, level = sky.times, sky.at, sky.level
    for k in range(steps):
        if since <= times[k] < end:
            level[at[k], CPU, kind] += sign


@inlined
def leaves_head(head: int, q: int, now: int, end: int, steps: int, kinds: int, sky: Any) -> bool:
    """Whether the reservation of the job at place ``head`` stays possible until ``end``, were it the only one."""
    turn, rows, times, at, level, left = sky.turn, sky.new_rows, sky.times, sky.at, sky.level, np.empty(kinds, np.int64)
    if head < 0 or turn[START, head] < 0:
        return True
    until = min(end, turn[START, head] + turn[LENGTH, head])
    for k in range(steps):
        time = times[k]
        if not turn[START, head] <= time < until:
            continue
        for g in range(kinds):
            left[g] = level[at[k], CPU, g]
        for p in range(head + 1, q):
            if now < turn[START, p] <= time < turn[START, p] + turn[LENGTH, p]:
                for r in range(turn[FIRST_ROW, p], turn[END_ROW, p]):
                    for g in range(rows[r, FIRST], rows[r, FIRST] + rows[r, NODES]):
                        left[g] += rows[r, CORES]
        for g in range(kinds):
            if left[g] < 0:
                return False
    return True


@inlined
def hold(
    head: int, q: int, now: int, end: int, steps: int, used: int, free: Ints, threshold_mb: Ints, held: RowSpan,
    slots: Slots, from_us: Ints, sky: Any,
) -> tuple[bool, int]:  # fmt: skip
    """Book a lease of named nodes and loans from now to ``end``; whether that is possible, and the steps.

    Its nodes and memory must leave every reservation what it has. That its lenders do not compute for longer must leave
    it to the first reservation only: nodes that are kept free for the later ones could rarely lend at all. ``free`` is
    what is free beside the lease.
    """
    rows, of, kinds = held.rows, sky.of, slots.first
    count, mb, loans = zeros(kinds), 0, 0
    for r in range(held.first, held.last):
        mb += rows[r, NODES] * rows[r, LOCAL_MB]
        loans += rows[r, TASKS] < 0
        for node in range(rows[r, FIRST], rows[r, FIRST] + rows[r, NODES] if rows[r, TASKS] >= 0 else 0):
            count[of[node]] += 1
    at, claim = used, zeros(2).reshape((1, 2))
    claim[0, 1] = mb
    for g in range(kinds):
        if count[g] > 0:
            at = add_node(sky.new_rows, used, at, g, 0, count[g], 0)
    own = RowSpan(sky.new_rows, used, at, claim, 0, 1)
    steps = step_at(sky, steps, end, slots.first)[1]
    if not fits_at(sky, steps, now, end - now, slots, own):
        return False, steps
    steps = book(sky, steps, now, end - now, slots, own, -1)
    before, lent, n = from_us.copy(), np.empty(loans, np.int64), 0
    for r in range(held.first, held.last):
        for node in range(rows[r, FIRST], rows[r, FIRST] + rows[r, NODES] if rows[r, TASKS] >= 0 else 0):
            from_us[node] = end
    for r in range(held.first, held.last):
        node = rows[r, FIRST]
        if rows[r, TASKS] < 0 and from_us[node] < end and free[MEM, node] < threshold_mb[node]:
            close(sky, steps, from_us[node], end, of[node], -1)
            from_us[node], lent[n], n = end, node, n + 1
    if n == 0 or leaves_head(head, q, now, end, steps, kinds, sky):
        return True, steps
    for i in range(n):
        close(sky, steps, before[lent[i]], end, of[lent[i]], 1)
    for node in range(from_us.shape[0]):
        from_us[node] = before[node]
    return False, book(sky, steps, now, end - now, slots, own, 1)


@inlined
def least_nodes(asked: Gang, total: Ints) -> int:
    """On how many nodes a job runs at least, by its cores; a division for every step would take most of the time."""
    most = 1
    for g in range(total.shape[1]):
        most = max(most, tasks_by_cores(total[CPU, g], asked.cores))
    return (asked.tasks + most - 1) // most


@melted
def short_at(level: Ints, k: int, pool: int, least: int, mb: int) -> bool:
    """Whether one step has fewer nodes or less memory; ``pool``: as of :func:`level_now`."""
    nodes = 0
    for g in range(pool):
        nodes += max(0, level[k, CPU, g])
    return nodes < least or level[k, CPU, pool] < mb


@inlined
def last_that_may(order: Ints, first: int, last: int, now: int, steps: int, total: Ints, sky: Any) -> int:
    """The place behind the last job of ``order[first:last]`` that may start now; ``first``: there is none.

    It may if enough is free for as long as it runs. During a round less and less is.
    """
    times, at, level, pool = sky.times, sky.at, sky.level, total.shape[1]
    for q in range(last - 1, first - 1, -1):
        asked = gang_of(sky.asks, order[q])
        least, mb, end, k = least_nodes(asked, total), asked.tasks * asked.mb, now + max(1, asked.us), 0
        while k < steps and times[k] < end and not short_at(level, at[k], pool, least, mb):
            k += 1
        if k == steps or times[k] >= end:
            return q + 1
    return first


@inlined
def search(
    i: int, steps: int, groups: Groups, slots: Slots, asked: Gang, length: int, wanted: RowSpan, sky: Any
) -> int:  # fmt: skip
    """The first step from ``i`` on at which a job fits for as long as it runs; -1: there is none."""
    times, at, level, pool, k = sky.times, sky.at, sky.level, slots.first, i
    least, need = least_nodes(asked, groups.total), asked.tasks * asked.mb
    while k < steps and times[k] < times[i] + length:  # no step of those may have too little
        i = k + 1 if short_at(level, at[k], pool, least, need) else i
        k += 1
    if i == steps:
        return -1
    alone = Gang(asked.tasks, asked.cores, 0, asked.us)
    wanted.claims[0, 1] = need
    return earliest(sky, steps, groups, slots, Sought(alone, length, wanted, 0, True), i, NEVER_US, False)


@inlined
def lease_now(
    job: int, now: int, free: Ints, rows: RowSpan, quota: Ints, seen: LedgerColumns, terms: LendingTerms, aware: Any,
    groups: Groups, out: Leases,
) -> tuple[int, int]:  # fmt: skip
    """How many rows and loans a job gets, on nodes of the kinds that ``rows`` count if these do; -1 rows: no place."""
    cores_at = cores_of_idle(free, seen.total, terms.threshold_mb)
    if quota.shape[0] == 0:
        idle = free.copy()
        for node in range(free.shape[1]):
            idle[CPU, node] = cores_at[node]
        end = settle(idle, seen.total, groups, 0, gang_of(seen.asks, job), rows, out.rows, 0)
        if end >= 0:
            return end, 0
    while True:
        asker = asker_of(seen, job, now, groups.of, quota)
        end, loans = place_job(terms, free, seen.total, cores_at, True, 0, asker, aware, False, out)
        if end >= 0 or quota.shape[0] == 0:
            return end, loans
        quota = quota[:0]  # other nodes may do where groups do not allow these


@compiled
def counted_round(
    order: Ints, now: int, running: int, brief: bool, terms: LendingTerms, aware: Any, uses: MemoryUse, sky: Any
) -> tuple[int, int]:
    """Plan for the jobs in order; those that are due now start.

    Parameters
    ----------
    running, brief
        As of :func:`unrack.policy.discipline.skyline.plan_round.planned`.
    terms, aware
        On what terms memory is lent, and what ranks lenders; ``None``: nothing does.
    uses
        Which jobs use the memory of which nodes.
    sky
        :class:`unrack.policy.discipline.skyline.columns.PlanColumns`, with a slot for one place, the first.

    Returns
    -------
    int
        How many start; NO_ROOM: the columns are to be made larger, and the round begun again.
    int
        Before which time, µs, such a round starts none either if nothing changes: :func:`stands_until`.
    """
    turn, out, claims, started, new_rows = sky.turn, sky.out, sky.new_claims, sky.started, sky.new_rows
    sky.cursor[GRAIN], sky.cursor[WHOLE] = 1, 1
    seen, groups, slots = parts_of(running, sky)
    jobs, nodes, kinds = order.shape[0], seen.total.shape[1], slots.first
    if jobs > turn.shape[1]:
        return short_of(sky.cursor, TURNS), now
    if running + 2 * jobs + 4 > sky.times.shape[0]:
        return short_of(sky.cursor, MOMENTS), now
    for q in range(jobs):
        turn[START, q] = -1
    from_us = level_now(now, terms.threshold_mb, seen, groups, kinds, sky)
    wanted = RowSpan(new_rows, 0, 0, zeros(2).reshape((1, 2)), 0, 1)
    last = last_that_may(order, 0, jobs, now, 1, groups.total, sky) if brief else jobs
    if last == 0:
        return 0, NEVER_US
    steps = counted_levels(now, terms.threshold_mb, seen, uses, groups, kinds, from_us, sky)
    free, then = seen.free.copy(), seen.free.copy()
    how = lending_of(terms, seen.total, groups)
    found = Leases(np.empty((nodes, 5), np.int64), np.empty((2 * nodes, 3), np.int64))
    tried = zeros(jobs)  # until when jobs would run that have a place now and do not start
    quota = zeros(kinds)  # how many nodes of each kind a job takes
    head, shadow = -1, -1  # the place of the first that cannot start, and when it can where groups lend
    first = asker_of(seen, order[0], now, sky.of, np.empty(0, np.int64))  # that job, once it is known
    n = at = claim = used = 0
    by_now = terms.groups > 1  # whether what a job would take depends on the time
    for q in range(jobs):
        last = last_that_may(order, q, last, now, steps, groups.total, sky) if brief else jobs
        if q >= last:
            break
        job = order[q]
        asked, fixed = gang_of(seen.asks, job), sky.fixed_at[1, job] - sky.fixed_at[0, job]
        if steps + 4 > sky.times.shape[0]:
            return short_of(sky.cursor, MOMENTS), now
        if used + 2 * kinds > new_rows.shape[0]:
            return short_of(sky.cursor, LEASES), now
        if at + 3 * nodes > out.shape[0] or n == started.shape[1]:
            return short_of(sky.cursor, STARTS), now
        if claim + 2 * nodes + fixed > claims.shape[0]:
            return short_of(sky.cursor, CLAIMED), now
        length = max(1, asked.us)
        i = search(0, steps, groups, slots, asked, length, wanted, sky)
        if i == 0:
            row_end, borrows = take(sky.low, how, groups, slots, asked, new_rows, used, quota)
            rows = RowSpan(new_rows, used, row_end, claims, 0, 0)
            count, loans = lease_now(
                job, now, free, rows, quota if borrows else quota[:0], seen, terms, aware, groups, found
            )
            possible, end, claim_end = count >= 0, at + count + loans, claim + fixed + loans
            runs_then = possible and shadow >= 0 and now + length > shadow  # beside the first job that cannot start
            if possible:
                write(job, found, count, loans, sky, out, at, claims, claim)
            if runs_then:
                add_rows(then, out, at, end, -1)
                possible = is_there(terms, then, seen.total, first, aware, found)
            held = RowSpan(out, at, end, claims, claim, claim_end)
            if possible:
                add_rows(free, out, at, end, -1)
                possible, steps = hold(
                    head, q, now, now + length, steps, used, free, terms.threshold_mb, held, slots, from_us, sky
                )
                if not possible:
                    add_rows(free, out, at, end, 1)
            if possible:
                started[JOB, n], started[ROW, n], started[ROW_END, n] = job, at, end
                started[CLAIM, n], started[CLAIM_END, n] = claim, claim_end
                note(turn, q, now, length, held)
                sky.start[job] = now
                n, at, claim = n + 1, end, claim_end
                continue
            if runs_then:
                add_rows(then, out, at, end, 1)
            tried[q], by_now = now + length, by_now or terms.rule > 4
            i = search(1, steps, groups, slots, asked, length, wanted, sky)
        if i < 0:
            continue
        time = sky.times[i]
        if head < 0:
            head, first = q, asker_of(seen, job, now, sky.of, np.empty(0, np.int64))
            if terms.groups > 1:
                then = free.copy()
                shadow = head_time(q, now, running, order, terms, aware, uses, first, then, found, sky)
            if shadow > time:
                time, i = shadow, first_at_least(sky.times, 0, steps, shadow + 1) - 1
                copy_of(sky.low, 0, sky.level, sky.at[i], groups, kinds)
                alone = Gang(asked.tasks, asked.cores, 0, asked.us)
                i = i if fits_in(sky.low, 0, groups, slots, alone, wanted, 0, sky.may_lend) else -1
        sky.start[job] = time
        if i >= 0:
            row_end = take(sky.low, how, groups, slots, asked, new_rows, used, quota)[0]
            rows = RowSpan(new_rows, used, row_end, wanted.claims, 0, 1)
            note(turn, q, time, length, rows)
            steps, used = book(sky, steps, time, length, slots, rows, -1), row_end
    if n > 0 or by_now:
        return n, now
    return 0, stands_until(order, now, running, last, tried, steps, sky)
