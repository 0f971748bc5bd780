"""Compiled: one pass over the queue for list schedulers without reservations, and for EASY backfill.

EASY (Lifka 1995; Mu'alem and Feitelson 2001): start jobs in order while they fit. The first that does not fit, the
head, gets a reservation at the earliest time at which the booked ends of running jobs leave room for it (its shadow
time). A later job may start now if it is expected to end by then, or if the head still fits at the shadow time beside
it. The test counts the tasks of the head that fit on each node, and what is free of the places that it claims, so it
holds for unequal nodes, for memory and for licences. Where a place is a choice (``Wants.CHOICE``) the pass stops with
CHOOSE, is answered, and goes on.

Where jobs may run on some nodes only there are several heads: every job without a place is one, unless a head before it
may use one of its nodes. A job that is behind none of them on any node may start if it leaves the heads what they claim
elsewhere, such as licences. A job that lacks nothing but room in a limit holds up no other.

A job that has run past its booked end is expected to end 1 µs from now.

O(queue x nodes) a pass at worst; a job that asks for more cores than are free in all costs O(1), and by first fit one
that starts O(nodes that it uses + nodes / 64).
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from unrack.jit import compiled, inlined, plain
from unrack.kernels.arrays import Ints
from unrack.ledger.columns import ASKED_CORES, ASKED_TASKS, CPU, MEM
from unrack.ledger.nodes import count_blocks, refresh, take_rows
from unrack.policy.discipline.head_search import beside_kept, change_claims, claim_cores, leaves_kept
from unrack.policy.discipline.heads_kernel import (
    PassRule,
    asking,
    cores_open,
    has_none,
    head_of,
    judged,
    lacking,
    look_again,
    only_limits,
    set_aside,
)
from unrack.policy.discipline.skyline.columns import (
    CHOICE,
    CLAIM,
    CLAIM_END,
    CLAIMABLE,
    CLAIMED,
    JOB,
    ROW,
    ROW_END,
    STARTS,
    UNTIL,
)
from unrack.policy.discipline.skyline.columns import HEADS as MORE_HEADS
from unrack.policy.discipline.skyline.steps import RowSpan, Slots, claims_fit, free_slots, slots_for, usable
from unrack.policy.discipline.walk import (
    ALIKE,
    ASIDE,
    AT,
    BACKFILL,
    BEGIN,
    BEHIND,
    CLAIMS,
    CLAIMS_FOUND,
    COUNT,
    DELAYS_US,
    DEPTH,
    EQUAL,
    FIT,
    FOUND,
    FREE_CORES,
    HEADS,
    HELD_US,
    JUDGING,
    LIMITED,
    LOOK,
    LOOKED_AT,
    MOVES,
    NO_PLACE,
    OPENS,
    PLACE,
    PLACED,
    ROOM,
    ROWS,
    SECOND,
    SEEK,
    SHADOW,
    STAGE,
    UNSEEN,
    WHOLE,
)
from unrack.policy.placement.node_kernel import first_fit, gang_of, place_job


class Backfill(IntEnum):
    """Which jobs may pass the head of the queue."""

    NONE = 0  # none
    ANY = 1  # any that fits now
    EASY = 2  # any that does not delay the head


def nothing_new(
    easy: bool, complete: bool, released: bool, newest: int, last_job: int, fits: bool, overdue: bool
) -> bool:
    """Whether a pass can be spared: since the last, nothing was given back and no job came that could start.

    Time alone makes nothing fit, and in a fixed order a pass over the whole queue leaves nothing that could start.
    But EASY may, where a new job at the head lifts the protection of the old one, where it matters which nodes
    another job took (its passes are complete only where cores are counted), or where a running job has passed its
    booked end and the head's reservation moves. In whatever order it tries those behind the head, none has more room
    after the pass than when it was tried.

    Parameters
    ----------
    complete
        Whether the last pass left nothing that could start in a second pass at once.
    released
        Whether something was given back since.
    newest, last_job
        The waiting job that was submitted last, and the last that the last pass had seen.
    fits
        Whether the newest asks for no more cores than are free.
    overdue
        Whether a running job has passed its booked end.
    """
    if not complete or released or newest > last_job + 1 or (newest > last_job and fits):
        return False
    return not (easy and overdue)


@inlined
def are_apart(c: Any) -> bool:
    """Whether there may be several heads, or jobs that hold up no other."""
    return bool(c.meets.shape[0] > 1 or c.aside[1] > c.aside[0])


@inlined
def any_may_fit(order: Ints, second: Ints, backfill: int, depth: int, apart: bool, asks: Ints, free_cores: int) -> bool:
    """Whether some job that may be considered asks for no more cores than are free in all.

    ``apart``: as of :func:`are_apart`.
    """
    last = min(order.shape[0], 1 + depth) if backfill > 0 else min(order.shape[0], 1)
    if apart or (backfill > 0 and second.shape[0] > 0):
        last = order.shape[0]  # which jobs the depth leaves out is known only beside the head
    for i in range(last):
        if asks[ASKED_TASKS, order[i]] * asks[ASKED_CORES, order[i]] <= free_cores:
            return True
    return False


@inlined
def begin_walk(walk: Ints, cursor: Ints, slots: Slots, free_cores: int) -> None:
    """No job has been looked at."""
    free_slots(slots, cursor)
    walk[AT] = walk[COUNT] = walk[ROWS] = walk[CLAIMS] = walk[HEADS] = walk[SECOND] = 0
    walk[FREE_CORES], walk[STAGE] = free_cores, LOOK


@inlined
def consider(rule: PassRule, order: Ints, second: Ints, now: int, alike: bool, count: int, c: Any) -> int:
    """The pass itself, from where ``walk`` says on; returns as :func:`pass_over`. ``count``: of running jobs."""
    walk, asks, started, wants, out, free, most = c.walk, c.asks, c.started, c.wants, c.out, c.now, c.most
    fixed_at, claims, left, kind, refused, heads = c.fixed_at, c.new_claims, c.left, c.kind, c.refused, c.heads
    slots, one_set = Slots(c.slot, c.place_of, c.free_places, 0), c.meets.shape[0] == 1
    stage, kept = walk[STAGE], c.windows.shape[0] > 0
    while True:
        i = walk[AT]
        if walk[SECOND] == 0 and (i >= order.shape[0] or (one_set and second.shape[0] > 0 and walk[HEADS] > 0)):
            if second.shape[0] == 0 or walk[HEADS] == 0:
                break
            walk[SECOND], i = 1, 0
            walk[AT] = 0
        if walk[SECOND] == 1 and i >= second.shape[0]:
            break
        place = second[i] if walk[SECOND] == 1 else i
        job, behind = order[place], head_of(order, place, c)
        if behind >= 0 and heads[behind, BEHIND] >= rule.depth and one_set:
            break
        later = second.shape[0] > 0 and (behind >= 0) != (walk[SECOND] == 1)  # it has another turn, or had it
        if later or (behind >= 0 and heads[behind, BEHIND] >= rule.depth):
            walk[AT] += 1
            continue
        tasks, cores, mb, us = gang_of(asks, job)
        none = tasks * cores > walk[FREE_CORES] or (kind[job] >= 0 and has_none(job, now, c))
        none = none or (kind[job] >= 0 and 0 < c.late[DELAYS_US, kind[job]] <= us)
        if none and stage == LOOK and behind >= 0 and rule.backfill > 0:
            heads[behind, BEHIND] += 1
            walk[AT] += 1
            continue
        total = usable(job, now, c)
        at, claim = walk[ROWS], walk[CLAIMS]
        if stage == LOOK:
            walk[FOUND], walk[CLAIMS_FOUND], walk[HELD_US], walk[MOVES], walk[OPENS] = NO_PLACE, claim, us, 0, 0
            walk[LOOKED_AT], stage = job, PLACED
            possible = tasks * cores <= walk[FREE_CORES] and (one_set or tasks * cores <= cores_open(job, c))
            if rule.backfill == 2 and alike and behind >= 0 and 0 <= heads[behind, SHADOW] < now + us:
                first = asks[ASKED_TASKS, order[heads[behind, PLACE]]]
                possible = possible and heads[behind, ROOM] - tasks >= first  # else wherever it went
            if only_limits(job, c):
                walk[FOUND] = ASIDE
            elif (
                possible
                and claims_fit(left, 0, slots, RowSpan(out, 0, 0, c.fixed, fixed_at[0, job], fixed_at[1, job]))
                and (not kept or leaves_kept(job, now, now, count, RowSpan(out, 0, 0, c.fixed, 0, 0), 0, c))
            ):
                fixed = fixed_at[1, job] - fixed_at[0, job] if wants[job] == 1 else 0
                if at + min(free.shape[1], tasks) > out.shape[0] or walk[COUNT] == started.shape[1]:
                    return lacking(c, LOOK, STARTS)
                at_most = c.kept_at.size if c.kept_of[job] > 0 else 0
                if claim + fixed + at_most > claims.shape[0]:
                    return lacking(c, LOOK, CLAIMED)
                if wants[job] >= CHOICE:
                    if kind[job] < 0 or not has_none(job, now, c):
                        return asking(walk, PLACED, job)
                    walk[FOUND] = ASIDE if refused[kind[job]] == LIMITED else NO_PLACE
                else:
                    for k in range(fixed):
                        for column in range(2):
                            claims[claim + k, column] = c.fixed[fixed_at[0, job] + k, column]
                    if rule.fit == 0:
                        span = c.spans[c.set_of[job]]
                        there = beside_kept(job, now, now, count, free, RowSpan(out, 0, 0, c.fixed, 0, 0), 0, c)
                        walk[FOUND] = first_fit(there, total, most, tasks, cores, mb, rule.whole, span, out, at)
                    else:
                        walk[FOUND] = place_job(free, total, tasks, cores, mb, rule.whole, rule.fit, out, at)
                    walk[CLAIMS_FOUND] = claim_cores(job, c.out, at, walk[FOUND], claim + fixed, c)
        if stage == PLACED:
            if walk[FOUND] < 0:
                if walk[FOUND] != ASIDE and behind < 0 and walk[HEADS] == heads.shape[0]:
                    return lacking(c, PLACED, MORE_HEADS)
                if rule.backfill == 0 and walk[FOUND] != ASIDE and not one_set and not set_aside(order, job, c, slots):
                    return lacking(c, PLACED, CLAIMABLE)
                if walk[FOUND] != ASIDE and behind < 0:
                    h = walk[HEADS]
                    heads[h, PLACE], heads[h, SHADOW], heads[h, BEHIND] = place, UNSEEN, 0
                    walk[HEADS] = h + 1
                    if rule.backfill == 0 and one_set:
                        break
                elif behind >= 0:
                    heads[behind, BEHIND] += 1
                stage = LOOK
                walk[AT] += 1
                continue
            if walk[CLAIMS_FOUND] > claim and not slots_for(
                left, left.shape[0], slots, c.cursor, claims, claim, walk[CLAIMS_FOUND]
            ):
                return lacking(c, PLACED, CLAIMABLE)
            if walk[HEADS] > 0 and rule.backfill == 2:
                stage, walk[JUDGING] = SEEK, 0
        if stage >= SEEK:
            span = RowSpan(out, at, walk[FOUND], claims, claim, walk[CLAIMS_FOUND])
            passes = judged(rule, order, place, span, stage, now, alike, count, c)
            if passes < 0:
                return int(passes)
            if passes == 0:
                # all of its kind that are behind a head are behind this one, not behind others that it is behind
                if walk[ALIKE] == 1 and kind[job] >= 0 and walk[MOVES] == 0 and walk[JUDGING] == behind:
                    before = c.late[DELAYS_US, kind[job]]
                    c.late[DELAYS_US, kind[job]] = min(us, before) if before > 0 else max(us, 1)
                if behind >= 0:
                    heads[behind, BEHIND] += 1
                stage = LOOK
                walk[AT] += 1
                continue
        if walk[CLAIMS_FOUND] > claim:
            change_claims(left, 0, slots, RowSpan(out, 0, 0, claims, claim, walk[CLAIMS_FOUND]), -1)
        walk[FREE_CORES] -= take_rows(free, most, out, at, walk[FOUND])
        look_again(c)
        n = walk[COUNT]
        started[JOB, n], started[UNTIL, n] = job, now + walk[HELD_US]
        started[ROW, n], started[ROW_END, n] = at, walk[FOUND]
        started[CLAIM, n], started[CLAIM_END, n] = claim, walk[CLAIMS_FOUND]
        walk[COUNT], walk[ROWS], walk[CLAIMS] = n + 1, walk[FOUND], walk[CLAIMS_FOUND]
        walk[AT] += 1
        if behind >= 0:
            heads[behind, BEHIND] += 1
        if walk[OPENS] == 1:
            for k in range(refused.shape[0]):
                refused[k] = 0
        stage = LOOK
    return int(walk[COUNT])


@inlined
def passed(order: Ints, second: Ints, now: int, running: int, sky: Any) -> int:
    """Choose the jobs to start now.

    Parameters
    ----------
    order
        int64[waiting]: jobs in the order in which they are to be considered.
    second
        int64[waiting]: places in ``order``, in the order in which those behind the head are tried; none: as they are.
    now
        µs.
    running
        How many jobs run.
    sky
        :class:`unrack.policy.discipline.skyline.columns.PlanColumns`. Written: ``started``, ``out`` and ``new_claims``,
        and what a pass works on. ``walk`` says how it goes; ``walk[STAGE]`` is BEGIN, or as it was when the pass was
        interrupted.

    Returns
    -------
    int
        How many jobs start; NO_ROOM: columns are to be made larger; CHOOSE: a choice is to be made.
    """
    walk = sky.walk
    rule = PassRule(walk[BACKFILL], walk[DEPTH], walk[WHOLE] == 1, walk[FIT])
    if walk[STAGE] == BEGIN:
        free, copy = sky.free, sky.now
        slots = Slots(sky.slot, sky.place_of, sky.free_places, 0)
        begin_walk(walk, sky.cursor, slots, walk[FREE_CORES])
        if not any_may_fit(order, second, rule.backfill, rule.depth, are_apart(sky), sky.asks, walk[FREE_CORES]):
            return 0
        look_again(sky)
        for node in range(free.shape[1]):
            copy[CPU, node], copy[MEM, node] = free[CPU, node], free[MEM, node]
        refresh(copy, sky.most, 0, count_blocks(free.shape[1]) - 1)
    return int(consider(rule, order, second, now, walk[EQUAL] == 1, running, sky))


pass_over = compiled(plain(passed))
"""The same from Python."""
