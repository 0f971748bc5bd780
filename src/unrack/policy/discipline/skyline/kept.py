"""Compiled: the levels of a plan, kept from its last round as long as they say what making them anew would.

Kept is what running jobs hold until their booked ends, and every reservation. Jobs that have ended give back the rest;
then all that the ledger says is compared: when each job ends and what it holds, what is free now, what each waiting job
asks and when it is to start. Whatever differs, whyever, the levels are made anew.

Where levels are kept it is known, too, until when more is free than a job saw that was given the earliest place: a job
can only move to before that time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from unrack.jit import compiled, inlined, melted, plain
from unrack.kernels.arrays import Ints
from unrack.ledger.columns import ASKED_CORES, ASKED_MB, ASKED_TASKS, ASKED_US, CPU, ENDS_US, MEM, OF_JOB, ROW_COUNT
from unrack.ledger.columns import FIRST_ROW as LEASE_ROW
from unrack.ledger.holding import first_at_least
from unrack.ledger.lease import CORES, FIRST, LOCAL_MB, NODES
from unrack.policy.discipline.skyline.columns import (
    ASKS,
    BOOKED_US,
    CARRIED,
    CHECK,
    CLAIMED,
    CLAIMS,
    CLOSES_US,
    COMPRESS,
    COUNT,
    FIRST_GROUP,
    FROM,
    JOB,
    KEPT,
    LAST_GROUP,
    LEASES,
    LENGTH,
    MOST,
    OPENS_US,
    ROWS,
    SEEN,
    SLOTS,
    STAMP,
    STEPS,
    UNTIL_US,
    WAS,
)
from unrack.policy.discipline.skyline.levels import free_now, give_back, parts_of, short_of
from unrack.policy.discipline.skyline.steps import (
    Groups,
    RowSpan,
    Slots,
    add_span,
    book,
    claims_fit,
    only_cores,
    room_in,
)
from unrack.policy.placement.node_kernel import Gang, LedgerColumns
from unrack.units import NEVER_US

ODD = -7046029254386353131
"""2**64 divided by the golden ratio, made odd: spreads numbers over all bits."""


@melted
def spread(number: int) -> int:
    """A number for a number, unlike those of its neighbours."""
    mixed = np.int64(number + 1) * ODD  # of 64 bits where kernels are plain Python, too
    return mixed ^ (mixed >> 29)  # type: ignore[return-value]


@inlined
def sum_rows(rows: Ints, first: int, last: int) -> int:
    """A sum over rows, of groups, that says whether these are others."""
    found = 0
    for r in range(first, last):
        for g in range(rows[r, FIRST], rows[r, FIRST] + rows[r, NODES]):
            found += spread(g) * (rows[r, CORES] + (rows[r, LOCAL_MB] << 20))
    return found


@inlined
def sum_claims(claims: Ints, first: int, last: int) -> int:
    """As :func:`sum_rows`, of claims."""
    found = 0
    for c in range(first, last):
        found += spread(-2 - claims[c, 0]) * claims[c, 1]
    return found


@inlined
def sum_held(job: int, seen: LedgerColumns, groups: Groups, sky: Any) -> int:
    """As :func:`sum_rows`, of the groups and places that a running job holds."""
    rows, first, found = seen.pool, seen.lease_at[LEASE_ROW, job], 0
    last = first + seen.lease_at[ROW_COUNT, job]
    if groups.grain == 0:
        found = sum_rows(rows, first, last)
    for r in range(first, last if groups.grain > 0 else first):
        if groups.grain == 2 and groups.total.shape[1] == 1:
            found += spread(0) * rows[r, NODES] * rows[r, CORES]
            continue
        each = rows[r, CORES] + (rows[r, LOCAL_MB] << 20) if groups.grain == 2 else 1
        for node in range(rows[r, FIRST], rows[r, FIRST] + rows[r, NODES]):
            found += spread(groups.of[node]) * each
    if sky.free_places.shape[0] > 0:
        first = sky.claimed_at[LEASE_ROW, job]
        found += sum_claims(sky.claimed, first, first + sky.claimed_at[ROW_COUNT, job])
    return int(found)


@inlined
def sum_asked(job: int, sky: Any) -> int:
    """As :func:`sum_rows`, of what a waiting job asks."""
    asks = sky.asks
    found = spread(asks[ASKED_TASKS, job]) * (asks[ASKED_CORES, job] + (asks[ASKED_MB, job] << 20))
    return int(found + spread(asks[ASKED_US, job]) + sky.set_of[job])


@inlined
def held_span(job: int, sky: Any) -> RowSpan:
    """What a job holds or has reserved in the levels."""
    at = sky.where
    return RowSpan(sky.new_rows, at[0, job], at[1, job], sky.new_claims, at[2, job], at[3, job])


@inlined
def grow(row: int, until: int, span: RowSpan, sky: Any) -> None:
    """Note that more is free until a time than was, of the groups and places of a span."""
    grown, total, rows = sky.grown, sky.total, span.rows
    sets = total.shape[0]
    for s in range(sets):
        if grown[row, s] >= until:
            continue
        inside = False
        for r in range(span.first, span.last):
            for g in range(rows[r, FIRST], rows[r, FIRST] + rows[r, NODES]):
                if total[s, CPU, g] > 0:
                    inside = True
                    break
            if inside:
                break
        if inside:
            grown[row, s] = until
    for c in range(span.claim, span.claim_end):
        grown[row, sets + span.claims[c, 0]] = max(grown[row, sets + span.claims[c, 0]], until)


@inlined
def moved(until: int, span: RowSpan, sky: Any) -> None:
    """A reservation has moved away: those behind it know in this round, those before it in the next."""
    grow(0, until, span, sky)
    grow(1, until, span, sky)


@inlined
def reach_of(job: int, claims: RowSpan, sky: Any) -> int:
    """Before which time a job must begin to use more than it saw, µs."""
    grown, sets = sky.grown, sky.total.shape[0]
    found = grown[0, sky.set_of[job]]
    for c in range(claims.claim, claims.claim_end):
        found = max(found, grown[0, sets + claims.claims[c, 0]])
    own, at = sky.kept_of[job], sky.kept_at
    for row in range(at.shape[0] if own > 0 else 0):
        for node in range(at.shape[1] if (own >> row) & 1 else 0):
            if at[row, node] >= 0:
                found = max(found, grown[0, sets + at[row, node]])
    return int(found)


@inlined
def room_from(
    steps: int, groups: Groups, slots: Slots, asked: Gang, claims: RowSpan, i: int, before: int, sky: Any
) -> int:
    """The first step from ``i`` on, ``before`` a time, that has room for a job; -1: none."""
    times, at, level = sky.times, sky.at, sky.level
    while i < steps and times[i] < before:
        counts = only_cores(groups, asked)
        enough = level[at[i], CPU, groups.first] if counts else room_in(level, at[i], groups, slots, asked)
        if enough >= asked.tasks and claims_fit(level, at[i], slots, claims):
            return i
        i += 1
    return -1


@inlined
def as_reserved(order: Ints, now: int, sky: Any) -> bool:
    """Whether the waiting jobs of ``order`` have the reservations that are in the levels, and ask what they did."""
    start, held, where, count = sky.start, sky.held, sky.where, 0
    for q in range(order.shape[0]):
        job = order[q]
        if start[job] != held[BOOKED_US, job]:
            return False
        if start[job] >= 0:
            count += 1
            if start[job] < now or held[ASKS, job] != sum_asked(job, sky):
                return False
            if where[LENGTH - 1, job] != max(1, sky.asks[ASKED_US, job]):
                return False
    return bool(count == sky.cursor[COUNT])


@inlined
def as_running(now: int, seen: LedgerColumns, groups: Groups, sky: Any) -> bool:
    """Whether running jobs hold what they hold in the levels; marks them."""
    held, running, cursor = sky.held, seen.running, sky.cursor
    cursor[STAMP] += 1
    for i in range(seen.running_count):
        job, end = running[OF_JOB, i], running[ENDS_US, i]
        if end < now or held[UNTIL_US, job] != end or held[CHECK, job] != sum_held(job, seen, groups, sky):
            return False
        held[SEEN, job] = cursor[STAMP]
    return True


@inlined
def as_free(order: Ints, now: int, seen: LedgerColumns, groups: Groups, slots: Slots, sky: Any) -> bool:
    """Whether as much is free now as the levels say."""
    cursor, level, low, start, running = sky.cursor, sky.level, sky.low, sky.start, seen.running
    k, places = sky.at[cursor[FROM]], cursor[SLOTS]
    counts_mb = groups.grain == 0 or (groups.grain == 2 and slots.first > 1)
    free_now(low[0], seen, groups)
    for s in range(places):
        low[0, CPU, slots.first + s] = slots.free[slots.place_of[s]]
    for i in range(seen.running_count):
        if running[ENDS_US, i] > now:
            break
        give_back(seen, running[OF_JOB, i], groups, low[0])
        if slots.free.shape[0] > 0:
            span = held_span(running[OF_JOB, i], sky)
            add_span(low[0], slots, RowSpan(span.rows, 0, 0, span.claims, span.claim, span.claim_end), 1)
    for q in range(order.shape[0]):
        if start[order[q]] == now:
            add_span(low[0], slots, held_span(order[q], sky), -1)
    windows = sky.windows
    for w in range(windows.shape[0]):
        if windows[w, OPENS_US] <= now < windows[w, CLOSES_US]:
            rows, kept = sky.window_groups, sky.window_claims
            span = RowSpan(rows, windows[w, FIRST_GROUP], windows[w, LAST_GROUP], kept, w, w + (kept[w, 0] >= 0))
            add_span(low[0], slots, span, -1)
    for g in range(slots.first):
        if low[0, CPU, g] != level[k, CPU, g] or (counts_mb and low[0, MEM, g] != level[k, MEM, g]):
            return False
    for s in range(slots.first, slots.first + places):
        if low[0, CPU, s] != level[k, CPU, s]:
            return False
    return True


@inlined
def forget(known: bool, sky: Any) -> None:
    """Nothing is kept; nor known of what has become free, but where it is ``known``."""
    cursor, held, was, grown = sky.cursor, sky.held, sky.was, sky.grown
    for i in range(cursor[WAS]):
        held[UNTIL_US, was[i]] = -1
    cursor[KEPT] = cursor[CARRIED] = cursor[WAS] = cursor[FROM] = 0
    for s in range(grown.shape[1] if not known else 0):
        grown[0, s], grown[1, s] = NEVER_US, 0


@inlined
def still_hold(order: Ints, now: int, seen: LedgerColumns, groups: Groups, slots: Slots, sky: Any) -> bool:
    """Carry the levels of the last round on to ``now``; whether they say what is so."""
    cursor, times, held, was = sky.cursor, sky.times, sky.held, sky.was
    if cursor[KEPT] == 0 or not as_reserved(order, now, sky) or not as_running(now, seen, groups, sky):
        return False
    k = first_at_least(times, cursor[FROM], cursor[STEPS], now + 1) - 1
    cursor[FROM], times[k] = k, now
    for i in range(cursor[WAS]):
        job = was[i]
        if held[SEEN, job] != cursor[STAMP]:
            until, span = held[UNTIL_US, job], held_span(job, sky)
            if until > now:
                cursor[STEPS] = book(sky, cursor[STEPS], now, until - now, slots, span, 1)
                grow(0, until, span, sky)
            held[UNTIL_US, job] = -1
    return bool(as_free(order, now, seen, groups, slots, sky))


@inlined
def carry_on(order: Ints, now: int, running: int, sky: Any) -> None:
    """Begin a round with the levels of the last one, if they say what is so.

    If too much in them is past they are made anew too, but it is known what has become free.
    """
    cursor, turn, start, where = sky.cursor, sky.turn, sky.start, sky.where
    seen, groups, slots = parts_of(running, sky)
    hold, jobs = still_hold(order, now, seen, groups, slots, sky), order.shape[0]
    tidy = jobs > turn.shape[1]
    for i in range(4):
        tidy = tidy or cursor[(STEPS, ROWS, CLAIMS, SLOTS)[i]] > cursor[MOST + i]
    if not hold or tidy:
        forget(hold, sky)
        return
    cursor[KEPT], cursor[CARRIED] = 0, 1
    for q in range(jobs):
        job = order[q]
        turn[0, q] = start[job]
        for row in range(5):
            turn[1 + row, q] = where[row, job]


@inlined
def rows_of_running(seen: LedgerColumns, groups: Groups, rows: int, claims: int, sky: Any) -> tuple[int, int]:
    """Write down what running jobs hold, behind ``rows`` and ``claims``; the new ends, or -1: there is no room."""
    running, pool, new_rows, new_claims, where, held = (
        seen.running, seen.pool, sky.new_rows, sky.new_claims, sky.where, sky.held,
    )  # fmt: skip
    for i in range(seen.running_count):
        job = running[OF_JOB, i]
        first = seen.lease_at[LEASE_ROW, job]
        count, start, claim = seen.lease_at[ROW_COUNT, job], rows, claims
        needed = count
        by_node = groups.grain == 1 or groups.total.shape[1] > 1
        for r in range(first, first + count):
            needed += pool[r, NODES] if by_node else 0
        if rows + needed > new_rows.shape[0]:
            return short_of(sky.cursor, LEASES), 0
        for r in range(first, first + count):
            if groups.grain == 0:
                for c in range(5):
                    new_rows[rows, c] = pool[r, c]
                rows += 1
                continue
            for node in range(pool[r, FIRST], pool[r, FIRST] + (pool[r, NODES] if by_node else 1)):
                new_rows[rows, 0] = groups.of[node]
                new_rows[rows, NODES], new_rows[rows, 2], new_rows[rows, LOCAL_MB] = 1, 0, 0
                new_rows[rows, CORES] = 1 if groups.grain == 1 else pool[r, CORES] * (1 if by_node else pool[r, NODES])
                new_rows[rows, LOCAL_MB] = pool[r, LOCAL_MB] if groups.grain == 2 and by_node else 0
                rows += 1
        if sky.free_places.shape[0] > 0:
            at = sky.claimed_at
            end = claims + at[ROW_COUNT, job]
            if end > new_claims.shape[0]:
                return short_of(sky.cursor, CLAIMED), 0
            for c in range(at[ROW_COUNT, job]):
                for column in range(2):
                    new_claims[claims + c, column] = sky.claimed[at[LEASE_ROW, job] + c, column]
            claims = end
        where[0, job], where[1, job], where[2, job], where[3, job] = start, rows, claim, claims
        held[UNTIL_US, job], held[CHECK, job] = running[ENDS_US, i], sum_held(job, seen, groups, sky)
    return rows, claims


@inlined
def keep_for_next(order: Ints, now: int, running: int, count: int, sky: Any) -> bool:
    """Note what the next round has to find for the levels to stay: which jobs run, which start, and what is reserved.

    After a round in which ``count`` jobs start, before they do. False: there was too little room.
    """
    cursor, held, was, started, where, start = sky.cursor, sky.held, sky.was, sky.started, sky.where, sky.start
    seen, groups, _ = parts_of(running, sky)
    anew, grown = cursor[CARRIED] == 0, sky.grown
    cursor[CARRIED] = 0
    if running > 0 and seen.running[ENDS_US, 0] < now:
        return True  # one that has overrun its limit ends a moment from now, at every look
    if anew:
        rows, claims = rows_of_running(seen, groups, cursor[ROWS], cursor[CLAIMS], sky)
        if rows < 0:
            return False
        cursor[ROWS], cursor[CLAIMS] = rows, claims
        for i in range(4):
            cursor[MOST + i] = 2 * cursor[(STEPS, ROWS, CLAIMS, SLOTS)[i]] + 64
    cursor[COUNT] = 0
    for q in range(order.shape[0]):
        job = order[q]
        held[BOOKED_US, job] = start[job]
        if start[job] >= 0:
            held[ASKS, job] = sum_asked(job, sky)
            cursor[COUNT] += 1
    for i in range(running):
        was[i] = seen.running[OF_JOB, i]
    for s in range(count):
        job = started[JOB, s]
        was[running + s] = job
        own = held_span(job, sky)
        held[UNTIL_US, job] = now + where[LENGTH - 1, job]
        held[CHECK, job] = sum_rows(own.rows, own.first, own.last) + sum_claims(own.claims, own.claim, own.claim_end)
    cursor[WAS] = running + count
    for s in range(grown.shape[1] if cursor[COMPRESS] > 0 else 0):
        if s >= sky.stays.shape[0] or sky.stays[s] == 0:
            grown[0, s] = grown[1, s]
        grown[1, s] = 0
    cursor[KEPT] = 1
    return True


carry_levels = compiled(plain(carry_on))
"""The same from Python."""


keep_levels = compiled(plain(keep_for_next))
"""The same from Python."""
