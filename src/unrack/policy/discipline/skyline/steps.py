"""Compiled: the steps of a skyline, and what of a job fits in one."""

from __future__ import annotations

from typing import Any, NamedTuple

from unrack.jit import inlined, melted
from unrack.kernels.arrays import Ints
from unrack.ledger.columns import CPU, MEM
from unrack.ledger.holding import add_rows, first_at_least
from unrack.ledger.lease import CORES, FIRST, LOCAL_MB, NODES, TASKS
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
from unrack.policy.placement.node_kernel import Gang, gang_of, tasks_on
from unrack.view import PLENTY


class Groups(NamedTuple):
    """How nodes are grouped; as of :class:`unrack.policy.discipline.skyline.columns.PlanColumns`.

    A job uses none before the ``first``, nor from the ``last`` on; these are not looked at.
    """

    grain: int
    whole: bool
    of: Ints
    total: Ints
    rank: Ints
    first: int
    last: int
    claims: int  # in which rows of ``kept_at`` the job claims its cores, a bit each
    kept_at: Ints


class Slots(NamedTuple):
    """Which places have a slot; and what is free now of those that have none, and so always."""

    slot: Ints
    place_of: Ints
    free: Ints
    first: int  # the column of the first slot in a level


class RowSpan(NamedTuple):
    """Rows and claims ``first`` to ``last``."""

    rows: Ints
    first: int
    last: int
    claims: Ints
    claim: int
    claim_end: int


class Sought(NamedTuple):
    """What a place is looked for."""

    asked: Gang
    length: int  # for how long, µs
    claims: RowSpan
    mb: int  # the memory of all tasks, where it may be lent as ``may_lend`` says; else 0
    every: bool  # whether a step at which nothing changes may be the one


@inlined
def always_open(job: int, sky: Any) -> bool:
    """Whether a job may use the same nodes at any time."""
    keeps_nodes = sky.windows.shape[0] > 0 and sky.window_claims[0, 0] < 0
    return not keeps_nodes and sky.set_owner[sky.set_of[job]] == 0


@inlined
def usable(job: int, time: int, sky: Any) -> Ints:
    """What is installed on the nodes that a job may use if it starts at a time (µs), until the next such question."""
    own: Ints = sky.installed[sky.set_of[job]]
    mine = sky.set_owner[sky.set_of[job]]
    if always_open(job, sky):
        return own
    found: Ints = sky.usable
    windows, until = sky.windows, time + max(1, sky.limit_us[job])
    inside, flex, mine = mine == 0, mine < 0, abs(mine)
    for w in range(0 if inside else windows.shape[0]):
        within = (windows[w, OPENS_US] <= time and until <= windows[w, CLOSES_US]) or (
            flex and time < windows[w, CLOSES_US]
        )
        inside = inside or (windows[w, OWNER] == mine and within)
    for node in range(found.shape[1]):
        found[CPU, node], found[MEM, node] = own[CPU, node] if inside else 0, own[MEM, node]
    close_kept(job, time, found, sky)
    return found


@inlined
def close_kept(job: int, time: int, free: Ints, sky: Any) -> None:
    """Nothing is free on nodes that are kept for others while a job runs that starts at a time (µs)."""
    windows, rows, until = sky.windows, sky.window_rows, time + max(1, sky.limit_us[job])
    mine = abs(sky.set_owner[sky.set_of[job]])
    for w in range(windows.shape[0]):
        if sky.window_claims[w, 0] >= 0:  # those that follow keep no nodes
            break
        if windows[w, OWNER] != mine and time < windows[w, CLOSES_US] and windows[w, OPENS_US] < until:
            for r in range(windows[w, FIRST_OF], windows[w, LAST_OF]):
                free[CPU, rows[r, FIRST]] = free[MEM, rows[r, FIRST]] = 0


@inlined
def asked_by(job: int, sky: Any) -> tuple[Gang, int]:
    """What a job asks of nodes; and the memory of all its tasks, where nodes lend it to each other, else 0."""
    asked, mb = gang_of(sky.asks, job), 0
    if sky.wants[job] >= ELSEWHERE:
        mb = asked.tasks * asked.mb if sky.may_lend.shape[0] > 0 else 0
        asked = Gang(asked.tasks, asked.cores, 0, asked.us)
    return asked, mb


@inlined
def only_cores(groups: Groups, asked: Gang) -> bool:
    """Whether a job asks for cores of one group in number, and nothing else of nodes."""
    return groups.grain == 2 and groups.last - groups.first == 1 and asked.cores == 1 and asked.mb == 0


@melted
def cores_left(level: Ints, k: int, groups: Groups, slots: Slots, node: int) -> int:
    """How many cores of a node one step has for a job beside those that windows keep."""
    left, at = level[k, CPU, node], groups.kept_at
    for row in range(at.shape[0]):
        place = at[row, node] if (groups.claims >> row) & 1 else -1
        if place >= 0:
            s = slots.slot[place]
            left = min(left, slots.free[place] if s < 0 else level[k, CPU, slots.first + s])
    return int(left)


@melted
def room_in(level: Ints, k: int, groups: Groups, slots: Slots, asked: Gang) -> int:
    """How many tasks (counted up to those of the job) fit in the groups of one step."""
    total, tasks, cores, mb = groups.total, asked.tasks, asked.cores, asked.mb
    room = 0
    for g in range(groups.first, groups.last if groups.claims else groups.first):
        if level[k, CPU, g] >= cores:  # only then it matters what windows keep
            left = cores_left(level, k, groups, slots, g)
            room += tasks_on(left, level[k, MEM, g], total[CPU, g], cores, mb, False)
            if room >= tasks:
                break
    for g in range(groups.first, groups.first if groups.claims else groups.last):
        if groups.grain == 1:
            room += max(level[k, CPU, g], 0) * tasks_on(total[CPU, g], total[MEM, g], total[CPU, g], cores, mb, False)
        else:
            room += tasks_on(level[k, CPU, g], level[k, MEM, g], total[CPU, g], cores, mb, groups.whole)
        if room >= tasks:
            break
    return room


@melted
def claims_fit(level: Ints, k: int, slots: Slots, span: RowSpan) -> bool:
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


@melted
def lent_room(
    free: Ints, i: int, left: Ints, k: int, slots: Slots, total: Ints, asked: Gang, mb: int, may_lend: Ints,
    whole: bool,
) -> int:  # fmt: skip
    """How many tasks (counted up to those of the job) fit on nodes that do not lend too much to run any.

    None if so many MB are not free in all.
    ``free``, ``left``: what is free of nodes in step ``i``, of places in slots in step ``k``. Whether lenders can be
    found is a choice; without this there is none.
    """
    nodes = may_lend.shape[0]
    first, memory, room = slots.free.shape[0] - nodes, 0, 0
    for g in range(nodes):
        memory += free[i, MEM, g]
    for g in range(nodes if memory >= mb else 0):
        here = tasks_on(free[i, CPU, g], free[i, MEM, g], total[CPU, g], asked.cores, 0, whole)
        if here > 0 and lent_by(left, k, slots, first, g) <= may_lend[g]:
            room += here
            if room >= asked.tasks:
                break
    return room


@melted
def rows_fit(level: Ints, k: int, span: RowSpan) -> bool:
    """Whether the rows are free in one step."""
    rows, enough = span.rows, True
    for r in range(span.first, span.last):
        cores, mb = rows[r, CORES], rows[r, LOCAL_MB] if rows[r, LOCAL_MB] > 0 else -PLENTY
        for g in range(rows[r, FIRST], rows[r, FIRST] + rows[r, NODES]):
            enough = enough and level[k, CPU, g] >= cores and level[k, MEM, g] >= mb
        if not enough:
            break
    return enough


@inlined
def are_open(span: RowSpan, left: Ints, k: int, slots: Slots, may_lend: Ints) -> bool:
    """Whether the nodes of rows lend no more than they may, to run tasks: as ``left`` says in step ``k``."""
    rows, first = span.rows, slots.free.shape[0] - may_lend.shape[0]
    for r in range(span.first, span.last if may_lend.shape[0] > 0 else 0):
        for node in range(rows[r, FIRST], rows[r, FIRST] + rows[r, NODES] if rows[r, TASKS] >= 0 else 0):
            if lent_by(left, k, slots, first, node) > may_lend[node]:
                return False
    return True


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
def add_span(level: Ints, slots: Slots, span: RowSpan, sign: int) -> None:
    """Add to one step (sign 1), or take from it (-1); every place has a slot."""
    add_rows(level, span.rows, span.first, span.last, sign)
    for c in range(span.claim, span.claim_end):
        level[CPU, slots.first + slots.slot[span.claims[c, 0]]] += sign * span.claims[c, 1]


@inlined
def book(sky: Any, steps: int, start: int, length: int, slots: Slots, span: RowSpan, sign: int) -> int:
    """Take (sign -1) or give back (1) from ``start`` for ``length`` µs; returns the new number of steps."""
    a, steps = step_at(sky, steps, start, slots.first)
    b, steps = step_at(sky, steps, start + length, slots.first)
    at, level = sky.at, sky.level
    for k in range(a, b):
        add_span(level[at[k]], slots, span, sign)
    return steps


@inlined
def fit_together(free: Ints, span: RowSpan) -> bool:
    """Whether rows are free, of which several may be of one lender; ``free`` stays as it is."""
    rows, enough = span.rows, True
    add_rows(free, rows, span.first, span.last, -1)
    for r in range(span.first, span.last):
        for g in range(rows[r, FIRST], rows[r, FIRST] + rows[r, NODES]):
            enough = enough and free[CPU, g] >= 0 and free[MEM, g] >= 0
    add_rows(free, rows, span.first, span.last, 1)
    return enough


@inlined
def fits_at(sky: Any, steps: int, start: int, length: int, slots: Slots, span: RowSpan) -> bool:
    """Whether exactly this is free from ``start`` for ``length`` µs, where memory is lent all of it together."""
    times, at, level, rows = sky.times, sky.at, sky.level, span.rows
    together = False  # whether a node may be in several rows
    for r in range(span.first + 1, span.last if sky.may_lend.shape[0] > 0 else 0):
        together = together or rows[r, FIRST] < rows[r - 1, FIRST] + rows[r - 1, NODES]
    for k in range(first_at_least(times, 0, steps, start + 1) - 1, steps):
        if times[k] >= start + length and times[k] > start:
            break
        if not rows_fit(level, at[k], span) or not claims_fit(level, at[k], slots, span):
            return False
        if together and not fit_together(level[at[k]], span):
            return False
    return True
