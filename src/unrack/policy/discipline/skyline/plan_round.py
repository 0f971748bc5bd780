"""Compiled: one round of a plan, in which waiting jobs get, keep and move reservations, and those due start.

A job that has run past its booked end is expected to end 1 µs from now, and a job that asks for no time to take 1 µs.
"""

from __future__ import annotations

from typing import Any

from unrack.jit import inlined
from unrack.kernels.arrays import Ints
from unrack.ledger.columns import ASKED_US, CPU, MEM
from unrack.ledger.holding import first_at_least
from unrack.ledger.lease import CORES as NODE_CORES
from unrack.ledger.lease import FIRST
from unrack.policy.discipline.head_search import claim_cores
from unrack.policy.discipline.skyline.columns import (
    AT,
    BEGIN,
    BRIEF,
    CARRIED,
    CHOICE,
    CHOOSE,
    CHOSEN,
    CLAIMED,
    CLAIMS,
    CLAIMS_CHOSEN,
    CLOSES_US,
    COARSE,
    COMPRESS,
    END_CLAIM,
    END_ROW,
    FIRST_CLAIM,
    FIRST_ROW,
    FIT,
    FROM,
    FURTHER,
    LAST,
    LEASES,
    LENGTH,
    LENGTH_CHOSEN,
    MOMENTS,
    NO_ROOM,
    OPENS_US,
    OWNER,
    PLAN,
    REACH,
    ROWS,
    ROWS_CHOSEN,
    SEARCHES,
    SLOTS,
    SLOTS_SEEN,
    STAGE,
    START,
    STEP,
    STEPS,
    TRUST,
    TURNS,
)
from unrack.policy.discipline.skyline.kept import moved, reach_of, room_from
from unrack.policy.discipline.skyline.levels import book_windows, earliest, fits_in, levels_of, parts_of, short_of
from unrack.policy.discipline.skyline.starting import start_those_due
from unrack.policy.discipline.skyline.steps import (
    Groups,
    RowSpan,
    Slots,
    Sought,
    asked_by,
    book,
    cores_left,
    fits_at,
    only_cores,
    slots_for,
    step_at,
)
from unrack.policy.discipline.slurm_search import by_nodes_alone, limit_is_full, slurm_start
from unrack.policy.placement.node_kernel import Gang, add_node, place_job, tasks_on
from unrack.units import NEVER_US


@inlined
def reserve(low: Ints, groups: Groups, fit: int, asked: Gang, out: Ints, at: int) -> int:
    """Rows (of groups) for a job that fits in ``low``, if not in the one group that it may use; returns their end."""
    total, rank, tasks, cores, mb = groups.total, groups.rank, asked.tasks, asked.cores, asked.mb
    start, left = at, tasks
    if only_cores(groups, asked):
        return add_node(out, start, at, groups.first, tasks, tasks, 0)
    if groups.grain != 1:
        return place_job(low[0], total, tasks, cores, mb, groups.whole, fit, out, at)
    for i in range(rank.shape[0]):
        g = rank[i]
        each = tasks_on(total[CPU, g], total[MEM, g], total[CPU, g], cores, mb, False)
        if each == 0 or low[0, CPU, g] <= 0:
            continue
        here = min(left, each * low[0, CPU, g])
        at = add_node(out, start, at, g, here, (here + each - 1) // each, 0)
        left -= here
        if left == 0:
            break
    return at


@inlined
def note(turn: Ints, q: int, start: int, length: int, span: RowSpan) -> None:
    """Write down a reservation of the job at place ``q``."""
    turn[LENGTH, q] = length
    turn[START, q], turn[FIRST_ROW, q], turn[END_ROW, q] = start, span.first, span.last
    turn[FIRST_CLAIM, q], turn[END_CLAIM, q] = span.claim, span.claim_end


@inlined
def copied_span(source: RowSpan, rows: Ints, at: int, claims: Ints, claim: int) -> RowSpan:
    """The same rows and claims in other columns, from ``at`` and ``claim`` on, which have room."""
    for r in range(source.last - source.first):
        for c in range(5):
            rows[at + r, c] = source.rows[source.first + r, c]
    for r in range(source.claim_end - source.claim):
        for c in range(2):
            claims[claim + r, c] = source.claims[source.claim + r, c]
    last, claim_end = at + source.last - source.first, claim + source.claim_end - source.claim
    return RowSpan(rows, at, last, claims, claim, claim_end)


@inlined
def keep(
    order: Ints, now: int, asks: Ints, sky: Any, slots: Slots, steps: int, used: int, claims_used: int
) -> tuple[int, int, int]:
    """Let reservations stay that can; how many steps, rows and claims there are; -1: there is too little room."""
    level, turn, cursor, at, start = sky.level, sky.turn, sky.cursor, sky.where, sky.start
    rows_kept, claims_kept, new_rows, new_claims = sky.rows, sky.claims, sky.new_rows, sky.new_claims
    wants = sky.wants
    for q in range(order.shape[0]):
        job = order[q]
        begins = start[job]
        turn[START, q] = -1
        if begins < now:
            continue
        old = RowSpan(rows_kept, at[0, job], at[1, job], claims_kept, at[2, job], at[3, job])
        owner = sky.set_owner[sky.set_of[job]]
        if owner != 0:
            steps = book_windows(now, abs(owner), True, slots, steps, 1, sky)
        length = at[LENGTH - 1, job] if wants[job] >= CHOICE else max(1, asks[ASKED_US, job])
        rows, claims = used + old.last - old.first, claims_used + old.claim_end - old.claim
        if rows > new_rows.shape[0]:
            return short_of(cursor, LEASES), 0, 0
        if claims > new_claims.shape[0]:
            return short_of(cursor, CLAIMED), 0, 0
        stays = fits_at(sky, steps, begins, length, slots, old)
        if owner != 0:
            steps = book_windows(now, abs(owner), True, slots, steps, -1, sky)
        if not stays:
            continue
        if not slots_for(level, steps, slots, cursor, old.claims, old.claim, old.claim_end):
            return NO_ROOM, 0, 0
        new = copied_span(old, new_rows, used, new_claims, claims_used)
        steps = book(sky, steps, begins, length, slots, new, -1)
        note(turn, q, begins, length, new)
        used, claims_used = rows, claims
    return steps, used, claims_used


@inlined
def earliest_inside(
    owner: int, now: int, steps: int, groups: Groups, slots: Slots, sought: Sought, i: int, before: int, sky: Any
) -> int:
    """As :func:`earliest`, of a job that runs in a window of this owner; below 0: at any time until all are over."""
    windows, times = sky.windows, sky.times
    if owner < 0:
        over = now
        for w in range(windows.shape[0]):
            over = max(over, windows[w, CLOSES_US] if windows[w, OWNER] == -owner else now)
        return earliest(sky, steps, groups, slots, sought, i, min(before, over), False)
    for w in range(windows.shape[0]):
        if windows[w, OWNER] != owner or windows[w, CLOSES_US] - sought.length < now:
            continue
        first = max(i, first_at_least(times, 0, steps, max(now, windows[w, OPENS_US])))
        last = min(before, windows[w, CLOSES_US] - sought.length + 1)
        found = earliest(sky, steps, groups, slots, sought, first, last, False)
        if found >= 0:
            return found
    return -1


@inlined
def groups_of(job: int, grain: int, whole: bool, sky: Any) -> Groups:
    """Those that a job may use; where a choice is to be made it may look at all."""
    own = sky.set_of[job]
    total, first, last = sky.total[own], 0, sky.total.shape[2]
    if sky.wants[job] < CHOICE:
        first, last = sky.group_spans[own, 0], sky.group_spans[own, 1]
    kept = sky.kept_of[job] if grain == 0 else 0  # where nodes are counted no window that keeps cores is met
    return Groups(grain, whole, sky.of, total, sky.rank, first, last, kept, sky.kept_at)


@inlined
def may_start(job: int, groups: Groups, slots: Slots, sky: Any) -> bool:
    """Whether enough is free now for a job, as far as can be seen without a choice."""
    if sky.set_owner[sky.set_of[job]] != 0:
        return True  # what its window keeps is not free in the levels
    level, (asked, mb) = sky.level, asked_by(job, sky)
    groups = groups_of(job, groups.grain, groups.whole, sky)
    fixed = RowSpan(sky.new_rows, 0, 0, sky.fixed, sky.fixed_at[0, job], sky.fixed_at[1, job])
    return fits_in(level, 0, groups, slots, asked, fixed, mb, sky.may_lend)


@inlined
def planned(order: Ints, now: int, running: int, sky: Any) -> int:
    """Plan for the jobs of ``order`` and choose those that start now.

    Reservations kept from an earlier round stay where they are if that is still possible; other jobs get the earliest
    one that disturbs no other, in order. With ``COMPRESS`` every job in order is then moved to the earliest time that
    disturbs no other, which is never later than the one it had; with 2, all are once more, if no choices are asked for.

    Parameters
    ----------
    running
        How many jobs run.
    sky
        :class:`unrack.policy.discipline.skyline.columns.PlanColumns`. Read and written: reservations by job; written:
        ``started`` and ``out``. ``cursor`` says how, from GRAIN on; ``cursor[STAGE]`` is BEGIN, or CHOSEN where the
        round was interrupted by CHOOSE and a choice has been written into ``new_rows`` and ``new_claims``.

    Returns
    -------
    int
        How many jobs start; NO_ROOM: the columns are to be made larger, and the round begun again; CHOOSE: a choice is
        to be made, for the job and the step that the cursor says, of what ``low`` says is free.
    """
    times, level, low, turn, cursor = sky.times, sky.level, sky.low, sky.turn, sky.cursor
    wants, fixed_at, fixed_claims = sky.wants, sky.fixed_at, sky.fixed
    new_rows, new_claims = sky.new_rows, sky.new_claims
    seen, groups, slots = parts_of(running, sky)
    grain, whole, fit, compress, brief = groups.grain, groups.whole, cursor[FIT], cursor[COMPRESS], cursor[BRIEF] == 1
    width, jobs, first_row, first_claim = groups.last, order.shape[0], 0, 0
    if cursor[STAGE] == BEGIN:
        if jobs > turn.shape[1]:
            return short_of(cursor, TURNS)
        if seen.running_count + 2 * (jobs + sky.windows.shape[0]) + 5 > times.shape[0]:
            return short_of(cursor, MOMENTS)
        if cursor[CARRIED] > 0:
            steps, used, claims_used = cursor[STEPS], cursor[ROWS], cursor[CLAIMS]
            first_row, first_claim = used, claims_used
        else:
            steps = levels_of(now, seen, groups, slots, cursor[TRUST] == 1, sky)
            if steps < 0:
                return NO_ROOM
            steps = book_windows(now, 0, False, slots, steps, -1, sky)
            if steps < 0:
                return NO_ROOM
            steps, used, claims_used = keep(order, now, seen.asks, sky, slots, steps, 0, 0)
            if steps < 0:
                return NO_ROOM
        cursor[AT], cursor[LAST] = 0, jobs
    else:
        steps, used, claims_used = cursor[STEPS], cursor[ROWS], cursor[CLAIMS]
    chosen = cursor[STAGE] == CHOSEN
    cursor[STAGE] = PLAN
    begun = cursor[FROM]
    less = brief and not chosen  # whether less is free now than when it was last seen which may start
    for n in range(cursor[AT], jobs * max(1, compress)):
        q = n % jobs
        while less and cursor[LAST] > q and not may_start(order[cursor[LAST] - 1], groups, slots, sky):
            cursor[LAST] -= 1
        less = False
        if q >= cursor[LAST]:
            break
        job, begins = order[q], turn[START, q]
        if begins >= 0 and (not compress or begins == now or sky.stays[sky.set_of[job]]):
            continue
        asked, mb = asked_by(job, sky)
        groups = groups_of(job, grain, whole, sky)
        length = max(1, asked.us)
        if steps + 4 > times.shape[0]:
            return short_of(cursor, MOMENTS)
        first, last, claim, claim_end = turn[FIRST_ROW, q], turn[END_ROW, q], turn[FIRST_CLAIM, q], turn[END_CLAIM, q]
        old = RowSpan(new_rows, first, last, new_claims, claim, claim_end)
        fixed = RowSpan(new_rows, 0, 0, fixed_claims, fixed_at[0, job], fixed_at[1, job])
        if cursor[COARSE] and not chosen and limit_is_full(level, slots, fixed, sky):
            continue
        before, i, every = NEVER_US, begun, wants[job] >= CHOICE
        if begins >= 0:  # it moves only to where more is free than it has seen
            before = min(begins, reach_of(job, fixed, sky))
            if not every and sky.set_owner[sky.set_of[job]] == 0:
                i = room_from(steps, groups, slots, asked, fixed, i, before, sky)
            if i < 0 or before <= now:
                continue
        owner, accepted = sky.set_owner[sky.set_of[job]], chosen and cursor[ROWS_CHOSEN] >= 0
        if owner != 0 and not chosen:
            steps = book_windows(now, abs(owner), True, slots, steps, 1, sky)
        if accepted:
            i = cursor[STEP]
            end, claims_end = used + cursor[ROWS_CHOSEN], claims_used + cursor[CLAIMS_CHOSEN]
            longer = RowSpan(new_rows, used, end, new_claims, claims_used, claims_end)
            if cursor[LENGTH_CHOSEN] > length:
                accepted = fits_at(sky, steps, times[i], cursor[LENGTH_CHOSEN], slots, longer)
        if accepted:
            length = cursor[LENGTH_CHOSEN]
        else:
            if chosen:
                i = cursor[STEP] + 1
            elif begins >= 0:
                steps = book(sky, steps, begins, turn[LENGTH, q], slots, old, 1)
            end, claims_end, sought = used, claims_used, Sought(asked, length, fixed, mb, every)
            searched = grain == 0 and not every and cursor[SEARCHES] > 0 and by_nodes_alone(job, groups, fixed, sky)
            if searched and used + min(width, max(1, asked.tasks)) > new_rows.shape[0]:
                return short_of(cursor, LEASES)
            if searched:
                free = level[sky.at[begun]]
                at, end = slurm_start(q, now, seen.running_count, order, asked, groups, fit, free, used, sky)
                i = -1
                if at >= 0:
                    i, steps = step_at(sky, steps, at, slots.first)
            elif owner != 0:
                i = earliest_inside(owner, now, steps, groups, slots, sought, i, before, sky)
            else:
                again = chosen and cursor[SLOTS] == cursor[SLOTS_SEEN]
                i = earliest(sky, steps, groups, slots, sought, i, before, again)
            if i >= 0 and every:
                cursor[AT], cursor[STEP], cursor[STEPS], cursor[ROWS], cursor[CLAIMS] = q, i, steps, used, claims_used
                cursor[SLOTS_SEEN] = cursor[SLOTS]
                return CHOOSE
            if i >= 0 and times[i] + length > cursor[REACH]:
                cursor[REACH] = times[i] + length
                return short_of(cursor, FURTHER)
            if i >= 0:
                claims_end += fixed.claim_end - fixed.claim
                kept = sky.kept_at.shape[0] * min(sky.kept_at.shape[1], asked.tasks) if groups.claims else 0
                if used + min(width, max(1, asked.tasks)) > new_rows.shape[0]:
                    return short_of(cursor, LEASES)
                if claims_end + kept > new_claims.shape[0]:
                    return short_of(cursor, CLAIMED)
                for node in range(groups.first, groups.last if groups.claims else groups.first):
                    low[0, CPU, node] = cores_left(low, 0, groups, slots, node)
                if not searched:
                    end = reserve(low, groups, fit, asked, new_rows, used)
                for c in range(fixed.claim_end - fixed.claim):
                    new_claims[claims_used + c, 0] = fixed.claims[fixed.claim + c, 0]
                    new_claims[claims_used + c, 1] = fixed.claims[fixed.claim + c, 1]
                if groups.claims:
                    claims_end = claim_cores(job, new_rows, used, end, claims_end, sky)
        chosen = False
        if owner != 0:
            steps = book_windows(now, abs(owner), True, slots, steps, -1, sky)
        if i < 0 and begins < 0:
            continue
        if i < 0:
            steps = book(sky, steps, begins, turn[LENGTH, q], slots, old, -1)
            continue
        new = RowSpan(new_rows, used, end, new_claims, claims_used, claims_end)
        if not slots_for(level, steps, slots, cursor, new.claims, claims_used, claims_end):
            return NO_ROOM
        if begins >= 0:
            moved(begins + turn[LENGTH, q], old, sky)
        note(turn, q, times[i], length, new)
        early = 1 if cursor[COARSE] and times[i] > now else 0  # a job that ends when they begin is in their way, too
        for r in range(used, end if early and grain != 1 else used):
            if sky.named[new_rows[r, FIRST]]:
                new_rows[r, NODE_CORES] = cursor[COARSE]
        for c in range(claims_used, claims_end if early else claims_used):
            if sky.aside[0] <= new_claims[c, 0] < sky.aside[1]:
                new_claims[c, 1] = 0  # limits are looked at when it starts
        less = brief and times[i] == now
        steps = book(sky, steps, times[i] - early, length + early, slots, new, -1)
        used, claims_used = end, claims_end
    n = start_those_due(order, now, fit, seen, groups, slots, sky)
    if n < 0:
        return int(n)
    start, where, rows, claims = sky.start, sky.where, sky.rows, sky.claims
    for q in range(jobs):
        job = order[q]
        start[job] = turn[START, q]
        for row in range(5):
            where[row, job] = turn[FIRST_ROW + row, q]
    for r in range(first_row, used):
        for c in range(5):
            rows[r, c] = new_rows[r, c]
    for r in range(first_claim, claims_used):
        claims[r, 0], claims[r, 1] = new_claims[r, 0], new_claims[r, 1]
    cursor[STEPS], cursor[ROWS], cursor[CLAIMS] = steps, used, claims_used
    return int(n)
