"""Compiled: when and where Slurm's backfill lets a job of its queue start, which is not always as early as it could.

The search is in turns. From a time on (first: now) the nodes are taken that no reservation has before the job's end, if
it began then, nor just when it ends. On these running jobs end: together those that end within half a minute of the
first, then within twice as long, and so on; a job that ends on none of them ends no group, and those behind it join.
The job starts at the last end of a group after which it has a place. If until then nodes come free that were reserved,
or if others have its nodes then, the next turn is from that time on. As of Slurm 22.05, and held to its log of each
look; groups are counted on the clock of the trace. O(jobs log jobs + turns * nodes) for a job.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from unrack.jit import inlined
from unrack.kernels.arrays import Ints
from unrack.kernels.ordering import order_of
from unrack.ledger.columns import CPU, ENDS_US, MEM, OF_JOB, ROW_COUNT
from unrack.ledger.columns import FIRST_ROW as LEASE_ROW
from unrack.ledger.holding import add_rows
from unrack.ledger.lease import FIRST, NODES
from unrack.policy.discipline.skyline.columns import END_ROW, FIRST_ROW, LENGTH, START
from unrack.policy.discipline.skyline.steps import Groups, RowSpan, Slots
from unrack.policy.placement.node_kernel import Gang, place_job
from unrack.units import NEVER_US, SECOND_US

NEAR_US = 30 * SECOND_US
"""Ends so near to each other are looked at together at first."""
WHOLE = 2
"""Of ``named``: a node of a partition that gives jobs whole nodes."""


@inlined
def limit_is_full(level: Ints, slots: Slots, fixed: RowSpan, sky: Any) -> bool:
    """Whether a limit has no room for a job now."""
    full = False
    for c in range(fixed.claim, fixed.claim_end):
        place = fixed.claims[c, 0]
        s = slots.slot[place]
        room = slots.free[place] if s < 0 else level[0, CPU, slots.first + s]
        full = full or (sky.aside[0] <= place < sky.aside[1] and room < fixed.claims[c, 1])
    return full


@inlined
def by_nodes_alone(job: int, groups: Groups, fixed: RowSpan, sky: Any) -> bool:
    """Whether nodes and limits alone decide where and when a job runs."""
    alone = sky.windows.shape[0] == 0 and sky.may_lend.shape[0] == 0 and groups.claims == 0
    for c in range(fixed.claim, fixed.claim_end):
        alone = alone and sky.aside[0] <= fixed.claims[c, 0] < sky.aside[1]
    return bool(alone and sky.set_owner[sky.set_of[job]] == 0 and sky.growth.shape[0] == 0)


@inlined
def on_own_nodes(job: int, sky: Any) -> bool:
    """Whether a job may only use nodes that are given whole."""
    total, own = sky.total[sky.set_of[job]], True
    for node in range(total.shape[1]):
        own = own and (total[CPU, node] == 0 or sky.named[node] == WHOLE)
    return own


@inlined
def planned_before(q: int, now: int, order: Ints, started: bool, sky: Any) -> Ints:
    """int64[k]: the places in the order before ``q`` of those that start in this look; or that have reservations.

    These, in order of their start, are jobs that start later, and those that start now and get their nodes whole.
    """
    turn, found, starts, count = sky.turn, np.empty(q, np.int64), np.empty(q, np.int64), 0
    for p in range(q):
        due = turn[START, p] == now
        if due if started else (turn[START, p] > now or (due and on_own_nodes(order[p], sky))):
            found[count], starts[count], count = p, turn[START, p], count + 1
    own: Ints = found[order_of(starts[:count])]
    return own


@inlined
def ends_of(order: Ints, started: Ints, running: int, sky: Any) -> Ints:
    """int64[5, k]: end, job, first row, last row, and whether these are reserved, of all that run, in order of ends."""
    turn, of = sky.turn, np.empty((5, running + started.shape[0]), np.int64)
    for i in range(running):
        job = sky.running[OF_JOB, i]
        row = sky.lease_at[LEASE_ROW, job]
        of[0, i], of[1, i], of[2, i], of[4, i] = sky.running[ENDS_US, i], job, row, 0
        of[3, i] = row + sky.lease_at[ROW_COUNT, job]
    for i in range(started.shape[0]):
        p, k = started[i], running + i
        of[0, k], of[1, k] = turn[START, p] + turn[LENGTH, p], order[p]
        of[2, k], of[3, k], of[4, k] = turn[FIRST_ROW, p], turn[END_ROW, p], 1
    of = of[:, order_of(of[1])]
    found: Ints = of[:, order_of(of[0])]
    return found


@inlined
def note_change(at: int, beyond: int, changes: Ints) -> None:
    """Keep the two first times beyond one at which other nodes are reserved."""
    if at > beyond and at < changes[0]:
        changes[1], changes[0] = changes[0], at
    elif changes[0] < at < changes[1]:
        changes[1] = at


@inlined
def open_from(begin: int, length: int, reserved: Ints, base: Ints, total: Ints, freed: Ints, sky: Any) -> int:
    """Leave in ``total`` the nodes that no reservation has before a job ends; when others come free, or NEVER_US.

    That is looked for until other nodes are reserved for the second time after the job's end. ``freed``: int64[2,
    nodes], overwritten: until when each node is reserved without a break, and when that is over.
    """
    turn, rows, changes = sky.turn, sky.new_rows, np.empty(2, np.int64)
    changes[0] = changes[1] = soonest = NEVER_US
    for node in range(base.shape[1]):
        total[CPU, node], total[MEM, node] = base[CPU, node], base[MEM, node]
        freed[0, node], freed[1, node] = 0, NEVER_US
    for i in range(reserved.shape[0]):
        p = reserved[i]
        start, until = turn[START, p], turn[START, p] + turn[LENGTH, p]
        for r in range(turn[FIRST_ROW, p], turn[END_ROW, p] if until > begin else 0):
            for node in range(rows[r, FIRST], rows[r, FIRST] + rows[r, NODES]):
                if freed[0, node] != start:
                    note_change(start, begin + length, changes)
                    note_change(freed[0, node], begin + length, changes)
                    freed[1, node] = min(freed[1, node], freed[0, node] if freed[0, node] > 0 else NEVER_US)
                freed[0, node] = until
                if start <= begin + length:
                    total[CPU, node] = 0
    for node in range(base.shape[1]):
        if freed[0, node] > 0:
            note_change(freed[0, node], begin + length, changes)
            if base[CPU, node] > 0:
                soonest = min(soonest, freed[1, node], freed[0, node])
    return soonest if soonest <= changes[1] else NEVER_US


@inlined
def once_ended(
    now: int, ends: Ints, free: Ints, total: Ints, groups: Groups, fit: int, asked: Gang, used: int, sky: Any
) -> tuple[int, int]:
    """When a job has a place on these nodes as running jobs end, and the end of its rows; -1: never."""
    out = sky.new_rows
    end = place_job(free, total, asked.tasks, asked.cores, asked.mb, groups.whole, fit, out, used)
    if end >= 0:
        return now, end
    i, near, bound, last, count = 0, NEAR_US, -1, -1, ends.shape[1]
    while i < count:
        last = -1
        while i < count:
            rows = out if ends[4, i] == 1 else sky.pool
            there = False
            for r in range(ends[2, i], ends[3, i]):
                for node in range(rows[r, FIRST], rows[r, FIRST] + rows[r, NODES]):
                    there = there or total[CPU, node] > 0
            i += 1
            if not there:
                continue
            last = ends[0, i - 1]
            add_rows(free, rows, ends[2, i - 1], ends[3, i - 1], 1)
            if bound < 0:
                bound = last + NEAR_US - last % NEAR_US
            if i < count and ends[0, i] > bound + near:
                break
        if last < 0:
            break
        near *= 2
        while i < count and ends[0, i] > bound + near:
            near *= 2
        end = place_job(free, total, asked.tasks, asked.cores, asked.mb, groups.whole, fit, out, used)
        if end >= 0:
            return max(last, now + 1), end
    return -1, used


@inlined
def all_open(rows: Ints, first: int, last: int, total: Ints) -> bool:
    """Whether none of the nodes of rows is taken out of ``total``."""
    found = True
    for r in range(first, last):
        for node in range(rows[r, FIRST], rows[r, FIRST] + rows[r, NODES]):
            found = found and total[CPU, node] > 0
    return found


@inlined
def slurm_start(
    q: int, now: int, running: int, order: Ints, asked: Gang, groups: Groups, fit: int, level: Ints, used: int, sky: Any
) -> tuple[int, int]:
    """When the job at place ``q`` starts (µs; -1: not in this look), and the end of its rows, from ``used`` on.

    ``level``: int64[2, nodes and more], what is free now.
    """
    nodes, length = groups.total.shape[1], max(1, asked.us)
    reserved = planned_before(q, now, order, False, sky)
    ends = ends_of(order, planned_before(q, now, order, True, sky), running, sky)
    total, free, between = (
        np.empty((2, nodes), np.int64), np.empty((2, nodes), np.int64), np.empty((2, nodes), np.int64),
    )  # fmt: skip
    begin = now
    while True:
        freed = open_from(begin, length, reserved, groups.total, total, between, sky)
        for node in range(nodes):
            free[CPU, node], free[MEM, node] = level[CPU, node], level[MEM, node]
        at, end = once_ended(now, ends, free, total, groups, fit, asked, used, sky)
        start = max(at, begin)
        if at >= 0 and start <= freed:
            open_from(start, length - 1, reserved, groups.total, total, between, sky)
            if start == now or all_open(sky.new_rows, used, end, total):
                return start, end
            begin = start
        elif freed == NEVER_US:
            return -1, used
        else:
            begin = freed
