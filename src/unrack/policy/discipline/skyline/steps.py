"""Compiled: the steps of a skyline, and the first of them at which a job has a place."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from unrack.jit import inlined, melted
from unrack.kernels.arrays import Ints
from unrack.ledger.holding import add_rows, first_at_least
from unrack.ledger.lease import CORES, FIRST, LOCAL_MB, NODES, TASKS
from unrack.ledger.names import CPU, MEM
from unrack.policy.columns import Gang, gang_of
from unrack.policy.discipline.skyline.columns import (
    CLAIMABLE,
    CLOSES_US,
    ELSEWHERE,
    FIRST_OF,
    LAST_OF,
    OPENS_US,
    OWNER,
    SHORT,
    SLOTS,
)
from unrack.policy.placement.node_kernel import tasks_on
from unrack.units import NEVER_US
from unrack.view import PLENTY


class Groups(NamedTuple):
    """How nodes are grouped; as of :class:`unrack.policy.discipline.skyline.columns.Columns`.

    A job uses none before the ``first``, nor from the ``last`` on; nobody looks at these.
    """

    grain: int
    whole: bool
    of: Ints
    total: Ints
    rank: Ints
    first: int
    last: int


class Slots(NamedTuple):
    """Which places have a slot; and what is free now of those that have none, and so always."""

    slot: Ints
    place_of: Ints
    free: Ints
    first: int  # the column of the first slot in a level


class Span(NamedTuple):
    """Rows and claims ``first`` to ``last``."""

    rows: Ints
    first: int
    last: int
    claims: Ints
    claim: int
    claim_end: int


@inlined
def usable(job: int, time: int, sky: Any) -> Ints:
    """What is installed on the nodes that a job may use if it starts at a time (µs), until the next such question."""
    own: Ints = sky.installed[sky.set_of[job]]
    mine = sky.set_owner[sky.set_of[job]]
    if sky.windows.shape[0] == 0 and mine == 0:
        return own
    found: Ints = sky.usable
    windows, rows, until = sky.windows, sky.window_rows, time + max(1, sky.limit_us[job])
    inside, flex, mine = mine == 0, mine < 0, abs(mine)
    for w in range(0 if inside else windows.shape[0]):
        within = (windows[w, OPENS_US] <= time and until <= windows[w, CLOSES_US]) or (
            flex and time < windows[w, CLOSES_US]
        )
        inside = inside or (windows[w, OWNER] == mine and within)
    for node in range(found.shape[1]):
        found[CPU, node], found[MEM, node] = own[CPU, node] if inside else 0, own[MEM, node]
    for w in range(windows.shape[0]):
        if windows[w, OWNER] != mine and time < windows[w, CLOSES_US] and windows[w, OPENS_US] < until:
            for r in range(windows[w, FIRST_OF], windows[w, LAST_OF]):
                found[CPU, rows[r, FIRST]] = 0
    return found


@inlined
def asked_by(job: int, sky: Any) -> tuple[Gang, int]:
    """What a job asks of nodes; and the memory of all its tasks, where nodes lend it to each other, else 0."""
    asked, mb = gang_of(sky.asks, job), 0
    if sky.wants[job] >= ELSEWHERE:
        mb = asked.tasks * asked.mb if sky.may_lend.shape[0] > 0 else 0
        asked = Gang(asked.tasks, asked.cores, 0, asked.us)
    return asked, mb


@melted
def room_in(level: Ints, k: int, groups: Groups, asked: Gang) -> int:
    """How many tasks (counted up to those of the job) fit in the groups of one step."""
    total, tasks, cores, mb = groups.total, asked.tasks, asked.cores, asked.mb
    room = 0
    for g in range(groups.first, groups.last):
        if groups.grain == 1:
            room += max(level[k, CPU, g], 0) * tasks_on(total[CPU, g], total[MEM, g], total[CPU, g], cores, mb, False)
        else:
            room += tasks_on(level[k, CPU, g], level[k, MEM, g], total[CPU, g], cores, mb, groups.whole)
        if room >= tasks:
            break
    return room


@melted
def claims_fit(level: Ints, k: int, slots: Slots, span: Span) -> bool:
    """Whether the claims are free in one step."""
    enough = True
    for c in range(span.claim, span.claim_end):
        place = span.claims[c, 0]
        s = slots.slot[place]
        enough = enough and (slots.free[place] if s < 0 else level[k, CPU, slots.first + s]) >= span.claims[c, 1]
    return enough


@melted
def lent_by(left: Ints, k: int, slots: Slots, first: int, node: int) -> int:
    """How many MB a node lends in step ``k``; ``first``: the place of node 0."""
    s = slots.slot[first + node]
    return int(PLENTY - (slots.free[first + node] if s < 0 else left[k, CPU, slots.first + s]))


@inlined
def lent_room(
    free: Ints, left: Ints, k: int, slots: Slots, total: Ints, asked: Gang, mb: int,
    may_lend: Ints, whole: bool,
) -> int:  # fmt: skip
    """How many tasks (counted up to those of the job) fit on nodes that do not lend too much to run any.

    None if so many MB are not free in all.
    ``free``, ``left``: what is free of nodes, and of places in slots, there in step ``k``. Whether lenders can be found
    is a choice; without this there is none.
    """
    nodes = may_lend.shape[0]
    first, memory, room = slots.free.shape[0] - nodes, 0, 0
    for g in range(nodes):
        memory += free[MEM, g]
    for g in range(nodes if memory >= mb else 0):
        here = tasks_on(free[CPU, g], free[MEM, g], total[CPU, g], asked.cores, 0, whole)
        if here > 0 and lent_by(left, k, slots, first, g) <= may_lend[g]:
            room += here
            if room >= asked.tasks:
                break
    return room


@melted
def rows_fit(level: Ints, k: int, span: Span) -> bool:
    """Whether the rows are free in one step."""
    rows, enough = span.rows, True
    for r in range(span.first, span.last):
        cores, mb = rows[r, CORES], rows[r, LOCAL_MB]
        for g in range(rows[r, FIRST], rows[r, FIRST] + rows[r, NODES]):
            enough = enough and level[k, CPU, g] >= cores and level[k, MEM, g] >= mb
        if not enough:
            break
    return enough


@inlined
def are_open(span: Span, left: Ints, k: int, slots: Slots, may_lend: Ints) -> bool:
    """Whether the nodes of rows lend no more than they may, to run tasks: as ``left`` says in step ``k``."""
    rows, first = span.rows, slots.free.shape[0] - may_lend.shape[0]
    for r in range(span.first, span.last if may_lend.shape[0] > 0 else 0):
        for node in range(rows[r, FIRST], rows[r, FIRST] + rows[r, NODES] if rows[r, TASKS] >= 0 else 0):
            if lent_by(left, k, slots, first, node) > may_lend[node]:
                return False
    return True


@melted
def less_of(now: Ints, before: Ints, groups: Groups, first: int) -> int:
    """Of how many columns less is free than before: of groups, and of slots, the first of which is ``first``."""
    count = 0
    for g in range(groups.first, groups.last):
        count += now[CPU, g] < before[CPU, g]
        count += now[MEM, g] < before[MEM, g]
    for s in range(first, now.shape[1]):
        count += now[CPU, s] < before[CPU, s]
    return count


@melted
def least_of(low: Ints, now: Ints, groups: Groups, first: int) -> None:
    """Let ``low`` be the less of the two, in the same columns."""
    for g in range(groups.first, groups.last):
        low[CPU, g] = min(low[CPU, g], now[CPU, g])
        low[MEM, g] = min(low[MEM, g], now[MEM, g])
    for s in range(first, low.shape[1]):
        low[CPU, s] = min(low[CPU, s], now[CPU, s])


@melted
def alike(now: Ints, before: Ints, groups: Groups, first: int) -> bool:
    """Whether two steps have the same in the groups, and in all slots, the first of which is ``first``."""
    same = True
    for g in range(groups.first, groups.last):
        same = same and now[CPU, g] == before[CPU, g] and now[MEM, g] == before[MEM, g]
    for s in range(first, now.shape[1]):
        same = same and now[CPU, s] == before[CPU, s]
    return same


@inlined
def steps_of(sky: Any, steps: int, groups: Groups, first: int, i: int, until: int, every: bool) -> Ints:
    """The steps from ``i`` on that are not as the one before, and begin before a time (µs); or ``every`` one."""
    times, at, level = sky.times, sky.at, sky.level
    found, count = np.empty(steps - i, np.int64), 0
    for k in range(i, steps):
        if times[k] >= until:
            break
        if every or k == i or not alike(level[at[k]], level[at[k - 1]], groups, first):
            found[count] = k
            count += 1
    return found[:count]


@inlined
def earliest(
    sky: Any, steps: int, groups: Groups, slots: Slots, asked: Gang, length: int, claims: Span, mb: int, i: int,
    before: int, every: bool,
) -> int:  # fmt: skip
    """The first step from ``i`` on at whose start, ``before`` a time (µs), the job fits for ``length`` µs; -1: none.

    ``sky.low`` gets what is free throughout; of cores in number nothing. ``mb``: the memory of all its tasks, where it
    may be lent as ``sky.may_lend`` says; else 0. ``every``: a step at which nothing changes may be the one.
    """
    times, at, level, low, may_lend = sky.times, sky.at, sky.level, sky.low, sky.may_lend
    grain, tasks = groups.grain, asked.tasks
    while grain == 2 and i < steps and times[i] < before:  # as below, in numbers
        k = i
        while k < steps and (k == i or times[k] < times[i] + length):
            if level[at[k], CPU, 0] < tasks or not claims_fit(level, at[k], slots, claims):
                break
            k += 1
        if k > i and (k == steps or times[k] >= times[i] + length):
            return i
        i = k + 1
    if grain == 2 or i >= steps:
        return -1
    own = steps_of(sky, steps, groups, slots.first, i, before + length if before < NEVER_US else NEVER_US, every)
    count, j = own.shape[0], 0
    while j < count and times[own[j]] < before:
        row = at[own[j]]
        fits = room_in(level, row, groups, asked) >= tasks and claims_fit(level, row, slots, claims)
        if not fits or (
            mb > 0 and lent_room(level[row], level, row, slots, groups.total, asked, mb, may_lend, groups.whole) < tasks
        ):
            j += 1
            continue
        for g in range(groups.first, groups.last):
            low[0, CPU, g], low[0, MEM, g] = level[row, CPU, g], level[row, MEM, g]
        for s in range(slots.first, low.shape[2]):
            low[0, CPU, s] = level[row, CPU, s]
        end = times[own[j]] + length
        k = j + 1
        following = -1
        while k < count and times[own[k]] < end:
            row = at[own[k]]
            if less_of(level[row], low[0], groups, slots.first) == 0:  # as it was, it fits
                k += 1
                continue
            least_of(low[0], level[row], groups, slots.first)
            if not claims_fit(low, 0, slots, claims):
                following = k + 1
                break
            if room_in(low, 0, groups, asked) < tasks:
                alone = room_in(level, row, groups, asked)
                following = k + 1 if alone < tasks else j + 1
                break
            if mb > 0 and lent_room(low[0], low, 0, slots, groups.total, asked, mb, may_lend, groups.whole) < tasks:
                following = j + 1
                break
            k += 1
        if following < 0:
            return int(own[j])
        j = following
    return -1


@melted
def copy_step(level: Ints, source: int, target: int, first: int) -> None:
    """Make one step equal to another; from column ``first`` on there are slots, which have one number."""
    for g in range(level.shape[2]):
        level[target, CPU, g] = level[source, CPU, g]
    for g in range(first):
        level[target, MEM, g] = level[source, MEM, g]


@inlined
def step_at(sky: Any, steps: int, time: int, first: int) -> tuple[int, int]:
    """The step that starts at ``time``, split off if there is none; and the new number of steps."""
    times, at = sky.times, sky.at
    low = first_at_least(times, 0, steps, time)
    if low < steps and times[low] == time:
        return low, steps
    for k in range(steps, low, -1):
        times[k], at[k] = times[k - 1], at[k - 1]
    times[low], at[low] = time, steps
    copy_step(sky.level, at[low - 1], steps, first)
    return low, steps + 1


@inlined
def free_slots(slots: Slots, cursor: Ints) -> None:
    """No place has a slot."""
    for s in range(cursor[SLOTS]):
        slots.slot[slots.place_of[s]] = -1
    cursor[SLOTS] = 0


@melted
def slot_for(level: Ints, steps: int, slots: Slots, cursor: Ints, place: int) -> int:
    """The column of a place in levels; it gets a slot if it has none."""
    s = slots.slot[place]
    if s < 0:
        s = cursor[SLOTS]
        cursor[SLOTS] += 1
        slots.slot[place] = s
        slots.place_of[s] = place
        for k in range(steps):
            level[k, CPU, slots.first + s] = slots.free[place]
    return int(slots.first + s)


@inlined
def slots_for(level: Ints, steps: int, slots: Slots, cursor: Ints, claims: Ints, first: int, last: int) -> bool:
    """Whether every place of these claims has a slot, or could be given one."""
    if cursor[SLOTS] + last - first > slots.place_of.shape[0]:
        cursor[SHORT] = CLAIMABLE
        return False
    for c in range(first, last):
        slot_for(level, steps, slots, cursor, claims[c, 0])
    return True


@melted
def add_span(level: Ints, slots: Slots, span: Span, sign: int) -> None:
    """Add to one step (sign 1), or take from it (-1); every place has a slot."""
    add_rows(level, span.rows, span.first, span.last, sign)
    for c in range(span.claim, span.claim_end):
        level[CPU, slots.first + slots.slot[span.claims[c, 0]]] += sign * span.claims[c, 1]


@inlined
def book(sky: Any, steps: int, start: int, length: int, slots: Slots, span: Span, sign: int) -> int:
    """Take (sign -1) or give back (1) from ``start`` for ``length`` µs; returns the new number of steps."""
    a, steps = step_at(sky, steps, start, slots.first)
    b, steps = step_at(sky, steps, start + length, slots.first)
    at, level = sky.at, sky.level
    for k in range(a, b):
        add_span(level[at[k]], slots, span, sign)
    return steps


@inlined
def fit_together(free: Ints, span: Span) -> bool:
    """Whether rows are free, of which several may be of one lender; ``free`` stays as it is."""
    rows, enough = span.rows, True
    add_rows(free, rows, span.first, span.last, -1)
    for r in range(span.first, span.last):
        for g in range(rows[r, FIRST], rows[r, FIRST] + rows[r, NODES]):
            enough = enough and free[CPU, g] >= 0 and free[MEM, g] >= 0
    add_rows(free, rows, span.first, span.last, 1)
    return enough


@inlined
def fits_together(sky: Any, steps: int, start: int, length: int, span: Span) -> bool:
    """As :func:`fits_at`, of rows as of :func:`fit_together`."""
    times, at, level = sky.times, sky.at, sky.level
    for k in range(first_at_least(times, 0, steps, start + 1) - 1, steps):
        if times[k] >= start + length and times[k] > start:
            break
        if not fit_together(level[at[k]], span):
            return False
    return True


@inlined
def fits_at(sky: Any, steps: int, start: int, length: int, slots: Slots, span: Span) -> bool:
    """Whether exactly this is free from ``start`` for ``length`` µs."""
    times, at, level = sky.times, sky.at, sky.level
    for k in range(first_at_least(times, 0, steps, start + 1) - 1, steps):
        if times[k] >= start + length and times[k] > start:
            break
        if not rows_fit(level, at[k], span) or not claims_fit(level, at[k], slots, span):
            return False
    return True
