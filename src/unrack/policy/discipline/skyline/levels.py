"""Compiled: the levels of a skyline as running jobs leave them, by their booked ends."""

from __future__ import annotations

from typing import Any

from unrack.jit import inlined
from unrack.kernels.arrays import Ints
from unrack.ledger.holding import add_rows
from unrack.ledger.lease import CORES, FIRST, NODES
from unrack.ledger.names import CPU, ENDS_US, MEM, ROW_COUNT, WHO
from unrack.ledger.names import FIRST_ROW as LEASE_ROW
from unrack.policy.columns import LedgerColumns
from unrack.policy.discipline.skyline.columns import (
    CLAIMABLE,
    CLOSES_US,
    FIRST_GROUP,
    LAST_GROUP,
    NO_ROOM,
    OPENS_US,
    OWNER,
    SHORT,
    SLOTS,
    Rule,
)
from unrack.policy.discipline.skyline.steps import Groups, Slots, Span, book, copy_step, free_slots, slot_for, slots_for


@inlined
def short_of(cursor: Ints, what: int) -> int:
    """Say that there is too little room for something."""
    cursor[SHORT] = what
    return NO_ROOM


@inlined
def parts_of(rule: Rule, running: int, sky: Any) -> tuple[LedgerColumns, Groups, Slots]:
    """The ledger, the groups and the slots of a plan; so many jobs run."""
    seen = LedgerColumns(sky.asks, sky.free, sky.installed[0], 0, sky.running, running, sky.pool, sky.lease_at)
    groups = Groups(rule.grain, rule.whole, sky.of, sky.total[0], sky.rank, 0, sky.total.shape[2])
    return seen, groups, Slots(sky.slot, sky.place_of, sky.free_places, sky.total.shape[2])


@inlined
def give_back(seen: LedgerColumns, job: int, groups: Groups, level: Ints) -> None:
    """Add the nodes of a running job to the groups of one step."""
    rows, first = seen.pool, seen.lease_at[LEASE_ROW, job]
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
def free_now(level: Ints, seen: LedgerColumns, groups: Groups) -> None:
    """Let one step say what is free of each group."""
    free, total = seen.free, seen.total
    for g in range(level.shape[1]):
        level[CPU, g] = level[MEM, g] = 0
    for node in range(free.shape[1]):
        if groups.grain == 0:
            level[CPU, node] = free[CPU, node]
            level[MEM, node] = free[MEM, node]
        elif groups.grain == 2:
            level[CPU, 0] += free[CPU, node]
        elif free[CPU, node] > 0 and free[CPU, node] == total[CPU, node]:
            level[CPU, groups.of[node]] += 1


@inlined
def levels_of(now: int, seen: LedgerColumns, groups: Groups, slots: Slots, trust: bool, sky: Any) -> int:
    """Fill a plan from what is free and the booked ends of running jobs; how many steps; -1: slots are too few."""
    running, claimed, claimed_at = seen.running, sky.claimed, sky.claimed_at
    times, at, level, cursor = sky.times, sky.at, sky.level, sky.cursor
    free_slots(slots, cursor)
    times[0], at[0] = now, 0
    steps = 1
    free_now(level[0], seen, groups)
    places = slots.free.shape[0] > 0
    for later in range(2):
        for i in range(seen.running_count):
            if (trust and running[ENDS_US, i] == now) == (later == 1):
                continue
            job = running[WHO, i]
            if later == 1:
                end = max(running[ENDS_US, i], now + 1)
                if end != times[steps - 1]:
                    times[steps], at[steps] = end, steps
                    copy_step(level, steps - 1, steps, slots.first)
                    steps += 1
            give_back(seen, job, groups, level[steps - 1])
            if not places:
                continue
            first, count = claimed_at[LEASE_ROW, job], claimed_at[ROW_COUNT, job]
            if cursor[SLOTS] + count > slots.place_of.shape[0]:
                return short_of(cursor, CLAIMABLE)
            for c in range(first, first + count):
                column = slot_for(level, steps, slots, cursor, claimed[c, 0])
                level[steps - 1, CPU, column] += claimed[c, 1]
    return steps


@inlined
def book_windows(now: int, owner: int, mine: bool, slots: Slots, steps: int, sign: int, sky: Any) -> int:
    """Take what windows keep (sign -1), or give it back (1); how many steps; -1: there are too few slots.

    Of the windows of an owner alone (``mine``), or of all; of those that are not over.
    """
    windows, rows, kept = sky.windows, sky.window_groups, sky.window_claims
    for w in range(windows.shape[0]):
        if windows[w, CLOSES_US] > now and (not mine or windows[w, OWNER] == owner):
            claims = w + (kept[w, 0] >= 0)
            if not slots_for(sky.level, steps, slots, sky.cursor, kept, w, claims):
                return -1
            begins = max(now, windows[w, OPENS_US])
            span = Span(rows, windows[w, FIRST_GROUP], windows[w, LAST_GROUP], kept, w, claims)
            steps = book(sky, steps, begins, windows[w, CLOSES_US] - begins, slots, span, sign)
    return steps
