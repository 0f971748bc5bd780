"""Compiled: when the head of the queue starts, and whether it still does beside a job that would pass it.

That job must also leave what windows keep of places, such as licences, and of cores of nodes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from unrack.jit import inlined
from unrack.kernels.arrays import Ints
from unrack.ledger.columns import ASKED_TASKS, ASKED_US, CPU, ENDS_US, FIRST_ROW, MEM, OF_JOB, ROW_COUNT
from unrack.ledger.lease import CORES, FIRST, LOCAL_MB, NODES
from unrack.policy.discipline.skyline.columns import (
    CLAIM,
    CLAIM_END,
    CLOSES_US,
    JOB,
    OPENS_US,
    ROW,
    ROW_END,
    SLOTS,
    UNTIL,
)
from unrack.policy.discipline.skyline.steps import RowSpan, Slots, always_open, claims_fit, lent_room, slots_for, usable
from unrack.policy.discipline.walk import (
    COUNT,
    ENDED,
    FREE_CORES,
    HELD_US,
    JUDGING,
    MOMENT,
    NEVER,
    ROOM,
    RUN,
    SHADOW,
    TIME,
)
from unrack.policy.placement.node_kernel import Gang, tasks_on
from unrack.units import NEVER_US


@inlined
def amount_at(place: int, claims: Ints, first: int, last: int) -> int:
    """How much of a place these claims are."""
    found = 0
    for k in range(first, last):
        if claims[k, 0] == place:
            found += claims[k, 1]
    return found


@inlined
def given_back(before: int, moment: int, now: int, i: int, count: int, c: Any) -> int:
    """Add to ``back`` what jobs give back of places after one moment, µs, and until another; parameters as below.

    Running jobs are in order of their ends: ``i`` is the first that did not end until ``before``; returns the next one.
    """
    back, held_at, started, claims = c.back, c.claimed_at, c.started, c.new_claims
    while i < count and max(c.running[ENDS_US, i], now + 1) <= moment:
        one = c.running[OF_JOB, i]
        first = held_at[FIRST_ROW, one]
        if c.limit_us[one] <= c.asks[ASKED_US, one]:
            for k in range(first, first + held_at[ROW_COUNT, one]):
                back[c.claimed[k, 0]] += c.claimed[k, 1]
        i += 1
    for n in range(c.walk[COUNT]):
        one, end = started[JOB, n], max(started[UNTIL, n], now + 1)
        if before < end <= moment and c.limit_us[one] <= c.asks[ASKED_US, one]:
            for k in range(started[CLAIM, n], started[CLAIM_END, n]):
                back[claims[k, 0]] += claims[k, 1]
    return i


@inlined
def leaves_kept(job: int, time: int, now: int, count: int, beside: RowSpan, until: int, c: Any) -> bool:
    """Whether a job that starts at a time (µs) leaves what windows keep of the places that it claims.

    So it does if enough is free when a window begins, or at that time, by the booked ends of ``count`` running jobs,
    that start in this pass, and of one more ``beside`` them, which ends at ``until``. A job that may run for longer
    than is expected of it is not expected to have ended.
    """
    windows, kept = c.windows, c.window_claims
    ends = time + max(1, c.limit_us[job])
    for w in range(windows.shape[0]):
        place = kept[w, 0]
        if place >= 0 and ends <= windows[w, OPENS_US]:
            break
        if place < 0 or windows[w, CLOSES_US] <= time:
            continue
        asked = amount_at(place, c.fixed, c.fixed_at[0, job], c.fixed_at[1, job])
        if asked == 0:
            continue
        at, s = max(time, windows[w, OPENS_US]), c.slot[place]
        free = c.free_places[place] if s < 0 else c.left[0, CPU, s]
        c.back[place] = free - (amount_at(place, beside.claims, beside.claim, beside.claim_end) if until > at else 0)
        given_back(now, at, now, 0, count, c)
        if c.back[place] - kept[w, 1] < asked:
            return False
    return True


@inlined
def beside_kept(job: int, time: int, now: int, count: int, free: Ints, beside: RowSpan, until: int, c: Any) -> Ints:
    """int64[2, nodes]: of what is free, what is left beside kept cores for a job that starts at a time (µs).

    Until the next such question. Parameters as of :func:`leaves_kept`. O(claims of running jobs + nodes + windows that
    begin before its end).
    """
    own = c.kept_of[job]
    if own == 0:
        return free
    found: Ints = c.beside
    kept, at, back, ends, moment = c.kept, c.kept_at, c.back, time + max(1, c.limit_us[job]), time
    for node in range(found.shape[1]):
        found[CPU, node], found[MEM, node] = free[CPU, node], free[MEM, node]
    for row in range(at.shape[0]):
        for node in range(at.shape[1]):
            place = at[row, node]
            if place >= 0:
                s = c.slot[place]
                back[place] = c.free_places[place] if s < 0 else c.left[0, CPU, s]
    for k in range(beside.claim, beside.claim_end):
        back[beside.claims[k, 0]] -= beside.claims[k, 1]
    before, i, w, k = now - 1, 0, 0, beside.claim
    while moment < ends:
        i = given_back(before, moment, now, i, count, c)
        while until <= moment and k < beside.claim_end:
            back[beside.claims[k, 0]] += beside.claims[k, 1]
            k += 1
        for row in range(at.shape[0] if moment == time else 0):
            for node in range(at.shape[1] if (own >> row) & 1 else 0):
                if at[row, node] >= 0:
                    found[CPU, node] = min(found[CPU, node], back[at[row, node]])
        while w < kept.shape[0] and kept[w, 0] <= moment:  # of those that have begun only at first
            if kept[w, 1] > moment and (own >> kept[w, 2]) & 1:
                node = kept[w, 3]
                found[CPU, node] = min(found[CPU, node], back[kept[w, 4]] - kept[w, 5])
            w += 1
        before, moment = moment, kept[w, 0] if w < kept.shape[0] else NEVER_US
    return found


@inlined
def claim_cores(job: int, rows: Ints, first: int, last: int, claim: int, c: Any) -> int:
    """Write down what a job claims of the places of its nodes, which are in these rows; the end of its claims."""
    own, at, claims = c.kept_of[job], c.kept_at, c.new_claims
    for row in range(at.shape[0] if own > 0 else 0):
        for r in range(first, last if (own >> row) & 1 else first):
            for node in range(rows[r, FIRST], rows[r, FIRST] + rows[r, NODES]):
                if at[row, node] >= 0:
                    claims[claim, 0], claims[claim, 1] = at[row, node], rows[r, CORES]
                    claim += 1
    return claim


@inlined
def change_rows(free: Ints, total: Ints, head: Gang, whole: bool, rows: Ints, first: int, last: int, sign: int) -> int:
    """Add (sign 1) or take (-1) rows; returns how many more tasks of the head fit."""
    cores, mb, gained = head.cores, head.mb, 0
    for r in range(first, last):
        for node in range(rows[r, FIRST], rows[r, FIRST] + rows[r, NODES]):
            gained -= tasks_on(free[CPU, node], free[MEM, node], total[CPU, node], cores, mb, whole)
            free[CPU, node] += sign * rows[r, CORES]
            free[MEM, node] += sign * rows[r, LOCAL_MB]
            gained += tasks_on(free[CPU, node], free[MEM, node], total[CPU, node], cores, mb, whole)
    return gained


@inlined
def change_claims(left: Ints, k: int, slots: Slots, span: RowSpan, sign: int) -> None:
    """Add (sign 1) or take (-1) claims, on places with slots, of what is left now (``k`` 0) or then (1 + head)."""
    for c in range(span.claim, span.claim_end):
        left[k, CPU, slots.slot[span.claims[c, 0]]] += sign * span.claims[c, 1]


@inlined
def ends_of(started: Ints, count: int) -> Ints:
    """The jobs that start in this pass by their ends: an insertion sort, as a pass starts few."""
    by_end = np.empty(count, np.int64)
    for s in range(count):
        k = s
        while k > 0 and started[UNTIL, by_end[k - 1]] > started[UNTIL, s]:
            by_end[k] = by_end[k - 1]
            k -= 1
        by_end[k] = s
    return by_end


@inlined
def begin_search(head: Gang, total: Ints, whole: bool, alike: bool, c: Any) -> None:
    """Let ``then`` and ``left`` of the head be as now. ``total``: what is installed on the nodes that it may use."""
    walk, now, left, h = c.walk, c.now, c.left, c.walk[JUDGING]
    then = c.then[h]
    walk[RUN] = walk[ENDED] = walk[MOMENT] = 0
    for s in range(c.cursor[SLOTS]):
        left[1 + h, CPU, s] = left[0, CPU, s]
    if alike:
        c.heads[h, ROOM] = walk[FREE_CORES]
        return
    room = 0
    for node in range(now.shape[1]):
        then[CPU, node], then[MEM, node] = now[CPU, node], now[MEM, node]
        room += tasks_on(now[CPU, node], now[MEM, node], total[CPU, node], head.cores, head.mb, whole)
    for e in range(c.growth.shape[0]):
        then[MEM, c.growth[e, 0]] -= c.growth[e, 1]
    c.heads[h, ROOM] = room


@inlined
def room_beside_kept(
    head_job: int, head: Gang, total: Ints, time: int, now: int, count: int, beside: RowSpan, until: int, c: Any
) -> int:
    """How many tasks of the head that is looked at fit beside kept cores at a time; as of :func:`beside_kept`."""
    if c.kept_of[head_job] == 0:
        return head.tasks
    free, room = beside_kept(head_job, time, now, count, c.then[c.walk[JUDGING]], beside, until, c), 0
    for node in range(free.shape[1]):
        room += tasks_on(free[CPU, node], free[MEM, node], total[CPU, node], head.cores, head.mb, False)
    return room


@inlined
def search(
    head_job: int, head: Gang, total: Ints, mb: int, wanted: RowSpan, whole: bool, alike: bool, now: int, count: int,
    c: Any, slots: Slots,
) -> bool:  # fmt: skip
    """Let jobs end, in order of booked end, until the head may fit, at TIME (NEVER: it does not).

    ``then`` holds what is free after that. False: there are too few slots, and the search is to begin again.

    ``mb``: the memory of all its tasks, where that may be lent; else 0.
    """
    running, walk, started, moments, claimed_at, asks = c.running, c.walk, c.started, c.moments, c.claimed_at, c.asks
    pool, lease_at, left, out, cursor = c.pool, c.lease_at, c.left, c.out, c.cursor
    held, own_claims, h = c.claimed, c.new_claims, c.walk[JUDGING]
    then = c.then[h]
    n, claiming = walk[COUNT], slots.free.shape[0] > 0
    by_end = ends_of(started, n)
    i, k, m, room = walk[RUN], walk[ENDED], walk[MOMENT], c.heads[h, ROOM]
    while True:
        time = NEVER_US
        if i < count:
            time = max(running[ENDS_US, i], now + 1)
        if k < n:
            time = min(time, max(started[UNTIL, by_end[k]], now + 1))
        if m < moments.shape[0]:
            time = min(time, max(moments[m], now + 1))
        if time == NEVER_US:
            walk[TIME] = NEVER
            return True
        while i < count and running[ENDS_US, i] <= time:
            job = running[OF_JOB, i]
            if claiming and claimed_at[ROW_COUNT, job] > 0:
                claim = claimed_at[FIRST_ROW, job]
                last = claim + claimed_at[ROW_COUNT, job]
                if not slots_for(left, left.shape[0], slots, cursor, held, claim, last):
                    return False
                change_claims(left, 1 + h, slots, RowSpan(out, 0, 0, held, claim, last), 1)
            if alike:
                room += asks[ASKED_TASKS, job]
            else:
                first = lease_at[FIRST_ROW, job]
                room += change_rows(then, total, head, whole, pool, first, first + lease_at[ROW_COUNT, job], 1)
            if c.growth.shape[0] > 0:
                for e in range(c.growth_at[0, job], c.growth_at[1, job]):
                    then[MEM, c.growth[e, 0]] += c.growth[e, 1]
            i += 1
        while k < n and started[UNTIL, by_end[k]] <= time:
            s = by_end[k]
            if started[CLAIM_END, s] > started[CLAIM, s]:
                span = RowSpan(out, 0, 0, own_claims, started[CLAIM, s], started[CLAIM_END, s])
                change_claims(left, 1 + h, slots, span, 1)
            if alike:
                room += asks[ASKED_TASKS, started[JOB, s]]
            else:
                room += change_rows(then, total, head, whole, out, started[ROW, s], started[ROW_END, s], 1)
            k += 1
        while m < moments.shape[0] and moments[m] <= time:
            m += 1
        if not always_open(head_job, c) or (c.growth.shape[0] > 0 and not alike):
            total, room = usable(head_job, time, c), 0
            for node in range(then.shape[1]):
                room += tasks_on(then[CPU, node], then[MEM, node], total[CPU, node], head.cores, head.mb, whole)
        fits = room >= head.tasks and claims_fit(left, 1 + h, slots, wanted)
        if fits and c.windows.shape[0] > 0:
            fits = leaves_kept(head_job, time, now, count, wanted, 0, c)
            fits = fits and room_beside_kept(head_job, head, total, time, now, count, wanted, 0, c) >= head.tasks
        if fits and mb > 0:
            fits = lent_room(c.then, h, left, 1 + h, slots, total, head, mb, c.may_lend, whole) >= head.tasks
        if fits:
            walk[TIME], walk[RUN], walk[ENDED], walk[MOMENT], c.heads[h, ROOM] = time, i, k, m, room
            return True


@inlined
def take_then(
    head: Gang, total: Ints, whole: bool, alike: bool, h: int, span: RowSpan, tasks: int, sign: int, c: Any
) -> None:
    """Take what a job of so many tasks holds of what is free when a head is to start (sign -1), or give it back (1)."""
    slots = Slots(c.slot, c.place_of, c.free_places, 0)
    if span.claim_end > span.claim:
        change_claims(c.left, 1 + h, slots, span, sign)
    if alike:
        c.heads[h, ROOM] += sign * tasks
    else:
        c.heads[h, ROOM] += change_rows(c.then[h], total, head, whole, span.rows, span.first, span.last, sign)


@inlined
def keeps(
    head_job: int, head: Gang, total: Ints, wanted: RowSpan, whole: bool, alike: bool, h: int, tasks: int,
    span: RowSpan, now: int, count: int, c: Any,
) -> bool:  # fmt: skip
    """Whether a head still fits at its time beside a job of so many tasks, which is then taken from what is free."""
    take_then(head, total, whole, alike, h, span, tasks, -1, c)
    slots = Slots(c.slot, c.place_of, c.free_places, 0)
    fits = c.heads[h, ROOM] >= head.tasks and claims_fit(c.left, 1 + h, slots, wanted)
    until = now + c.walk[HELD_US]
    time = c.heads[h, SHADOW]
    if fits and c.windows.shape[0] > 0:
        fits = leaves_kept(head_job, time, now, count, span, until, c)
        fits = fits and room_beside_kept(head_job, head, total, time, now, count, span, until, c) >= head.tasks
    if fits:
        return True
    take_then(head, total, whole, alike, h, span, tasks, 1, c)
    return False
