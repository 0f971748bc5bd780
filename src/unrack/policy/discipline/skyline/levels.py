"""Compiled: the levels of a skyline as running jobs leave them, and the first step at which a job has a place."""

from __future__ import annotations

from typing import Any

from unrack.jit import inlined, melted
from unrack.kernels.arrays import Ints
from unrack.ledger.columns import CPU, ENDS_US, MEM, OF_JOB, ROW_COUNT
from unrack.ledger.columns import FIRST_ROW as LEASE_ROW
from unrack.ledger.holding import add_rows
from unrack.ledger.lease import CORES, FIRST, LOCAL_MB, NODES
from unrack.policy.discipline.skyline.columns import (
    CLAIMABLE,
    CLOSES_US,
    FIRST_GROUP,
    GRAIN,
    LAST_GROUP,
    NO_ROOM,
    OPENS_US,
    OWNER,
    SHORT,
    SLOTS,
    WHOLE,
)
from unrack.policy.discipline.skyline.steps import (
    Groups,
    RowSpan,
    Slots,
    Sought,
    book,
    claims_fit,
    copy_step,
    free_slots,
    lent_room,
    only_cores,
    room_in,
    slot_for,
    slots_for,
)
from unrack.policy.placement.node_kernel import Gang, LedgerColumns
from unrack.units import NEVER_US


@inlined
def short_of(cursor: Ints, what: int) -> int:
    """Say that there is too little room for something."""
    cursor[SHORT] = what
    return NO_ROOM


@inlined
def parts_of(running: int, sky: Any) -> tuple[LedgerColumns, Groups, Slots]:
    """The ledger, the groups and the slots of a plan; so many jobs run."""
    seen = LedgerColumns(sky.asks, sky.free, sky.installed[0], 0, sky.running, running, sky.pool, sky.lease_at)
    grain, whole = sky.cursor[GRAIN], sky.cursor[WHOLE] == 1
    groups = Groups(grain, whole, sky.of, sky.total[0], sky.rank, 0, sky.total.shape[2], 0, sky.kept_at)
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
        if groups.grain == 2 and groups.total.shape[1] == 1:
            level[CPU, 0] += rows[r, NODES] * rows[r, CORES]
            continue
        cores, mb = (rows[r, CORES], rows[r, LOCAL_MB]) if groups.grain == 2 else (1, 0)
        for node in range(rows[r, FIRST], rows[r, FIRST] + rows[r, NODES]):
            level[CPU, groups.of[node]] += cores
            level[MEM, groups.of[node]] += mb


@inlined
def grow(level: Ints, groups: Groups, growth: Ints, first: int, last: int, sign: int) -> None:
    """Take from one step what running jobs may still come to hold (sign -1), or give it back (1)."""
    for e in range(first, last):
        level[MEM, growth[e, 0] if groups.grain == 0 else groups.of[growth[e, 0]]] += sign * growth[e, 1]


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
            level[CPU, groups.of[node]] += free[CPU, node]
            level[MEM, groups.of[node]] += free[MEM, node] if level.shape[1] > 1 else 0
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
    growth = sky.growth if groups.grain != 1 else sky.growth[:0]
    for later in range(2):
        if later == 1 and growth.shape[0] > 0:
            times[1], at[1], steps = now + 1, 1, 2
            copy_step(level, 0, 1, slots.first)
            grow(level[1], groups, growth, 0, growth.shape[0], -1)
        for i in range(seen.running_count):
            job, ended = running[OF_JOB, i], trust and running[ENDS_US, i] == now
            if later == 1 and not ended:
                end = max(running[ENDS_US, i], now + 1)
                if end != times[steps - 1]:
                    times[steps], at[steps] = end, steps
                    copy_step(level, steps - 1, steps, slots.first)
                    steps += 1
            if later == 1 and growth.shape[0] > 0:  # those that have ended come first: they never take it
                grow(level[steps - 1], groups, growth, sky.growth_at[0, job], sky.growth_at[1, job], 1)
            if ended == (later == 1):
                continue
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
            span = RowSpan(rows, windows[w, FIRST_GROUP], windows[w, LAST_GROUP], kept, w, claims)
            steps = book(sky, steps, begins, windows[w, CLOSES_US] - begins, slots, span, sign)
    return steps


@melted
def less_of(level: Ints, k: int, other: Ints, i: int, groups: Groups, first: int) -> int:
    """Of how many columns less is free in step ``k`` than in another: of groups, and of slots from ``first`` on."""
    count = 0
    for g in range(groups.first, groups.last):
        count += level[k, CPU, g] < other[i, CPU, g]
        count += level[k, MEM, g] < other[i, MEM, g]
    for s in range(first, other.shape[2]):
        count += level[k, CPU, s] < other[i, CPU, s]
    return count


@melted
def least_of(low: Ints, target: int, source: int, level: Ints, k: int, groups: Groups, first: int) -> None:
    """Let one step of ``low`` be the less of another and of one of ``level``, in the same columns."""
    for g in range(groups.first, groups.last):
        low[target, CPU, g] = min(low[source, CPU, g], level[k, CPU, g])
        low[target, MEM, g] = min(low[source, MEM, g], level[k, MEM, g])
    for s in range(first, low.shape[2]):
        low[target, CPU, s] = min(low[source, CPU, s], level[k, CPU, s])


@melted
def copy_of(low: Ints, target: int, level: Ints, k: int, groups: Groups, first: int) -> None:
    """Let one step of ``low`` be one of ``level``, in the same columns."""
    for g in range(groups.first, groups.last):
        low[target, CPU, g], low[target, MEM, g] = level[k, CPU, g], level[k, MEM, g]
    for s in range(first, low.shape[2]):
        low[target, CPU, s] = level[k, CPU, s]


@inlined
def fits_in(
    level: Ints, k: int, groups: Groups, slots: Slots, asked: Gang, claims: RowSpan, mb: int, may_lend: Ints
) -> bool:  # fmt: skip
    """Whether one step has room for a job, as far as can be seen without a choice."""
    if not claims_fit(level, k, slots, claims):
        return False
    if mb > 0:
        room = lent_room(level, k, level, k, slots, groups.total, asked, mb, may_lend, groups.whole)
    else:
        room = room_in(level, k, groups, slots, asked)
    return room >= asked.tasks


@melted
def alike(level: Ints, k: int, before: int, groups: Groups, first: int) -> bool:
    """Whether two steps have the same in the groups, and in all slots, the first of which is ``first``."""
    same = True
    for g in range(groups.first, groups.last):
        same = same and level[k, CPU, g] == level[before, CPU, g] and level[k, MEM, g] == level[before, MEM, g]
    for s in range(first, level.shape[2]):
        same = same and level[k, CPU, s] == level[before, CPU, s]
    return same


@inlined
def look_at(sky: Any, steps: int, groups: Groups, first: int, i: int, until: int) -> int:
    """Note the steps from ``i`` on that are not as the one before, and begin before a time (µs); how many."""
    times, at, level, looked, count = sky.times, sky.at, sky.level, sky.looked, 0
    for k in range(i, steps):
        if times[k] >= until:
            break
        if k == i or not alike(level, at[k], at[k - 1], groups, first):
            looked[1, count] = k
            count += 1
    return count


@melted
def least_behind(low: Ints, level: Ints, at: Ints, i: int, k: int, first: int) -> None:
    """Let the first step of ``low`` be the least from step ``i`` to before ``k``; it is that from ``i - 1`` on.

    Only what was least in the step that is left can be more. From column ``first`` on there are slots.
    """
    for row in range(2):
        for g in range(low.shape[2] if row == CPU else first):
            least, found, m = low[0, row, g], level[at[i], row, g], i + 1
            if level[at[i - 1], row, g] == least and found > least:
                while m < k and found > least:
                    found = min(found, level[at[m], row, g])
                    m += 1
                low[0, row, g] = found


@inlined
def earliest(
    sky: Any, steps: int, groups: Groups, slots: Slots, sought: Sought, i: int, before: int, refused: bool
) -> int:
    """The first step from ``i`` on, ``before`` a time (µs), at which the job fits; -1: none.

    ``sky.low`` gets what is free throughout; of cores of one group nothing. ``refused``: the step before ``i`` was
    found last, and in ``sky.low`` is what is free then.
    """
    asked, length, claims, mb, every = sought
    times, at, level, low, may_lend = sky.times, sky.at, sky.level, sky.low, sky.may_lend
    tasks, counts, first = asked.tasks, only_cores(groups, asked), groups.first
    while counts and i < steps and times[i] < before:  # as below, in numbers
        k = i
        while k < steps and (k == i or times[k] < times[i] + length):
            if level[at[k], CPU, first] < tasks or not claims_fit(level, at[k], slots, claims):
                break
            k += 1
        if k > i and (k == steps or times[k] >= times[i] + length):
            return i
        i = k + 1
    if counts or i >= steps:
        return -1
    own, k, count = sky.looked[0 if every else 1], i if every else 0, steps
    if not every:
        count = look_at(sky, steps, groups, slots.first, i, before + length if before < NEVER_US else NEVER_US)
    j = k  # from step j on it fits to k
    while refused and k < steps and times[k] < times[i - 1] + length:
        k += 1
    if k > j:
        least_behind(low, level, at, i, k, slots.first)
    here = 0  # the step of `low` with the least from step j to before k
    while k < count and times[own[j]] < before:
        if k > j:
            if times[own[k]] >= times[own[j]] + length:
                break
            if not less_of(level, at[own[k]], low, here, groups, slots.first):  # as it was, it fits
                k += 1
                continue
            least_of(low, 1 - here, here, level, at[own[k]], groups, slots.first)
            if fits_in(low, 1 - here, groups, slots, asked, claims, mb, may_lend):
                here, k = 1 - here, k + 1
                continue
        row, k = at[own[k]], k + 1
        if not fits_in(level, row, groups, slots, asked, claims, mb, may_lend):
            j = k
            continue
        copy_of(low, here, level, row, groups, slots.first)
        j, until = k - 1, j
        while j > until + 1:  # the first from which it fits to here
            if less_of(level, at[own[j - 1]], low, here, groups, slots.first):
                least_of(low, 1 - here, here, level, at[own[j - 1]], groups, slots.first)
                if not fits_in(low, 1 - here, groups, slots, asked, claims, mb, may_lend):
                    break
                here = 1 - here
            j -= 1
    if here == 1:
        copy_of(low, 0, low, 1, groups, slots.first)
    return int(own[j]) if j < k and times[own[j]] < before else -1
