"""Compiled: one pass over the queue for list schedulers without reservations, and for EASY backfill.

EASY (Lifka 1995; Mu'alem and Feitelson 2001): start jobs in order while they fit. The first that does not fit, the
head, gets a reservation at the earliest time at which the booked ends of running jobs leave room for it (its shadow
time). A later job may start now if it is expected to end by then, or if the head still fits at the shadow time beside
it. The test counts the tasks of the head that fit on each node, and what is free of the places that it claims, so it
holds for unequal nodes, for memory and for licences. Where a place is a choice (``Wants.CHOICE``) the pass stops with
CHOOSE, is answered, and goes on.

A job that has run past its booked end is expected to end 1 µs from now.

O(queue x nodes) a pass at worst; a job that asks for more cores than are free in all costs O(1), and by first fit one
that starts O(nodes that it uses + nodes / 64).
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from unrack.jit import compiled, inlined
from unrack.kernels.arrays import Ints
from unrack.ledger.blocks import count_blocks, refresh, take_rows
from unrack.ledger.names import ASKED_CORES, ASKED_TASKS, CPU, MEM
from unrack.policy.columns import Gang, gang_of
from unrack.policy.discipline.head_search import begin_search, change_claims, keeps, search
from unrack.policy.discipline.skyline.columns import (
    CHOICE,
    CHOOSE,
    CLAIM,
    CLAIM_END,
    CLAIMABLE,
    CLAIMED,
    JOB,
    NO_ROOM,
    ROW,
    ROW_END,
    SHORT,
    STARTS,
    UNTIL,
)
from unrack.policy.discipline.skyline.steps import Slots, Span, asked_by, claims_fit, free_slots, slots_for
from unrack.policy.discipline.walk import (
    ANSWER,
    ASKING,
    AT,
    BEGIN,
    CLAIMS,
    CLAIMS_FOUND,
    COUNT,
    FOUND,
    FREE_CORES,
    HEAD,
    HELD_US,
    JUDGE,
    JUDGED,
    LOOK,
    LOOKED_AT,
    MOVES,
    OPENS,
    PLACED,
    ROOM,
    ROWS,
    SEEK,
    SHADOW,
    SOUGHT,
    STAGE,
    TIME,
    UNSEEN,
)
from unrack.policy.placement.node_kernel import first_fit, place_job


class Backfill(IntEnum):
    """Who may pass the head of the queue."""

    NONE = 0  # nobody
    ANY = 1  # whoever fits now
    EASY = 2  # whoever does not delay the head


class PassRule(NamedTuple):
    """How a pass goes."""

    backfill: int  # a `Backfill`
    depth: int  # how many jobs behind the head are considered
    whole: bool  # whether a node serves one job at a time
    fit: int  # a `Fit`


def nothing_new(
    easy: bool, complete: bool, released: bool, newest: int, last_job: int, fits: bool, unlike: bool, overdue: bool
) -> bool:
    """Whether a pass can be spared: since the last, nothing was given back and no job came that could start.

    Time alone makes nothing fit, and in a fixed order a pass over the whole queue leaves nothing that could start.
    But EASY may, where a new job at the head lifts the protection of the old one, where it matters which nodes
    another job took, or where a running job has passed its booked end and the head's reservation moves. In whatever
    order it tries those behind the head, none has more room after the pass than when it was tried.

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
    unlike
        Whether the last pass could count cores, and the newest job is the first that is not like that.
    overdue
        Whether a running job has passed its booked end.
    """
    if not complete or released or newest > last_job + 1 or (newest > last_job and (fits or unlike)):
        return False
    return not (easy and overdue)


@inlined
def any_may_fit(order: Ints, second: Ints, backfill: int, depth: int, asks: Ints, free_cores: int) -> bool:
    """Whether some job that may be considered asks for no more cores than are free in all."""
    last = min(order.shape[0], 1 + depth) if backfill > 0 else min(order.shape[0], 1)
    if backfill > 0 and second.shape[0] > 0:
        last = order.shape[0]  # whom the depth leaves out is known only beside the head
    for i in range(last):
        if asks[ASKED_TASKS, order[i]] * asks[ASKED_CORES, order[i]] <= free_cores:
            return True
    return False


@inlined
def those_behind(order: Ints, head: int, second: Ints) -> Ints:
    """The jobs behind the head, which is ``order[head]``, in the order in which they are tried."""
    if second.shape[0] == 0:
        return order[head + 1 :]
    behind = np.empty(second.shape[0], np.int64)
    count = 0
    for k in range(second.shape[0]):
        if second[k] > head:
            behind[count] = order[second[k]]
            count += 1
    return behind[:count]


@inlined
def begin_walk(walk: Ints, cursor: Ints, slots: Slots, free_cores: int) -> None:
    """Nobody has been looked at."""
    free_slots(slots, cursor)
    walk[AT] = walk[COUNT] = walk[ROWS] = walk[CLAIMS] = 0
    walk[HEAD], walk[SHADOW], walk[FREE_CORES], walk[STAGE] = -1, UNSEEN, free_cores, LOOK


@inlined
def lacking(c: Any, stage: int, what: int) -> int:
    """Say that there is too little room for something, and with which stage to go on."""
    c.walk[STAGE], c.cursor[SHORT] = stage, what
    return NO_ROOM


@inlined
def asking(walk: Ints, stage: int, job: int) -> int:
    """Ask for a choice, with whose answer to go on at a stage."""
    walk[STAGE], walk[ASKING] = stage, job
    return CHOOSE


@inlined
def consider(rule: PassRule, order: Ints, second: Ints, now: int, alike: bool, count: int, c: Any) -> int:
    """The pass itself, from where ``walk`` says on; returns as :func:`pass_over`. ``count``: of running jobs."""
    walk, asks, started, wants, out, free, most = c.walk, c.asks, c.started, c.wants, c.out, c.now, c.most
    fixed_at, claims, left, kind, refused = c.fixed_at, c.new_claims, c.left, c.kind, c.refused
    slots = Slots(c.slot, c.place_of, c.free_places, 0)
    head, stage = walk[HEAD], walk[STAGE]
    behind = order if head < 0 else those_behind(order, head, second)
    first = Gang(0, 0, 0, 0)
    if head >= 0:
        first = gang_of(asks, order[head])
    while True:
        i = walk[AT]
        if head < 0:
            if i >= order.shape[0]:
                break
            job = order[i]
        else:
            if i >= min(behind.shape[0], rule.depth):
                break
            job = behind[i]
        tasks, cores, mb, us = gang_of(asks, job)
        total = c.installed[c.set_of[job]]
        at, claim = walk[ROWS], walk[CLAIMS]
        if stage == LOOK:
            walk[FOUND], walk[CLAIMS_FOUND], walk[HELD_US], walk[MOVES], walk[OPENS] = -1, claim, us, 0, 0
            walk[LOOKED_AT], stage = job, PLACED
            possible = tasks * cores <= walk[FREE_CORES]
            if rule.backfill == 2 and alike and walk[SHADOW] >= 0 and now + us > walk[SHADOW]:
                possible = possible and walk[ROOM] - tasks >= first.tasks  # else wherever it went
            if possible and claims_fit(left, 0, slots, Span(out, 0, 0, c.fixed, fixed_at[0, job], fixed_at[1, job])):
                fixed = fixed_at[1, job] - fixed_at[0, job] if wants[job] == 1 else 0
                if at + min(free.shape[1], tasks) > out.shape[0] or walk[COUNT] == started.shape[1]:
                    return lacking(c, LOOK, STARTS)
                if claim + fixed > claims.shape[0]:
                    return lacking(c, LOOK, CLAIMED)
                if wants[job] >= CHOICE:
                    if kind[job] < 0 or refused[kind[job]] == 0:
                        return asking(walk, PLACED, job)
                else:
                    for k in range(fixed):
                        for column in range(2):
                            claims[claim + k, column] = c.fixed[fixed_at[0, job] + k, column]
                    if rule.fit == 0:
                        walk[FOUND] = first_fit(free, total, most, tasks, cores, mb, rule.whole, out, at)
                    else:
                        walk[FOUND] = place_job(free, total, tasks, cores, mb, rule.whole, rule.fit, out, at)
                    walk[CLAIMS_FOUND] = claim + fixed
        if stage == PLACED:
            if walk[FOUND] < 0:
                stage = LOOK
                walk[AT] += 1
                if head >= 0:
                    continue
                head, walk[HEAD], walk[AT] = i, i, 0
                if rule.backfill == 0:
                    break
                behind = those_behind(order, head, second)
                first = gang_of(asks, order[head])
                continue
            if walk[CLAIMS_FOUND] > claim and not slots_for(
                left, 2, slots, c.cursor, claims, claim, walk[CLAIMS_FOUND]
            ):
                return lacking(c, PLACED, CLAIMABLE)
            if head >= 0 and rule.backfill == 2:
                stage = SEEK if walk[SHADOW] == UNSEEN else JUDGE
        if stage >= SEEK:
            span = Span(out, at, walk[FOUND], claims, claim, walk[CLAIMS_FOUND])
            who = order[head]
            there = c.installed[c.set_of[who]]
            wanted = Span(out, 0, 0, c.fixed, fixed_at[0, who], fixed_at[1, who])
            chooses = wants[who] >= CHOICE
            asked, mb = asked_by(who, c)
            while stage in (SEEK, SOUGHT):
                if stage == SEEK:
                    begin_search(asked, there, rule.whole, alike, c)
                elif walk[ANSWER] == 1:
                    walk[SHADOW], stage = walk[TIME], JUDGE
                    break
                if not search(asked, there, mb, wanted, rule.whole, alike, now, count, c, slots):
                    return lacking(c, SEEK, CLAIMABLE)
                if chooses and walk[TIME] >= 0:
                    return asking(walk, SOUGHT, who)
                walk[SHADOW], stage = walk[TIME], JUDGE
            late = walk[SHADOW] >= 0 and now + walk[HELD_US] > walk[SHADOW]
            passes = True
            if stage == JUDGED:
                passes = walk[ANSWER] == 1
            elif walk[MOVES] == 1 or (late and chooses):
                return asking(walk, JUDGED, who)
            elif late:
                passes = keeps(asked, there, wanted, rule.whole, alike, tasks, span, c, slots)
            if not passes:
                stage = LOOK
                walk[AT] += 1
                continue
        if walk[CLAIMS_FOUND] > claim:
            change_claims(left, 0, slots, Span(out, 0, 0, claims, claim, walk[CLAIMS_FOUND]), -1)
        walk[FREE_CORES] -= take_rows(free, most, out, at, walk[FOUND])
        n = walk[COUNT]
        started[JOB, n], started[UNTIL, n] = job, now + walk[HELD_US]
        started[ROW, n], started[ROW_END, n] = at, walk[FOUND]
        started[CLAIM, n], started[CLAIM_END, n] = claim, walk[CLAIMS_FOUND]
        walk[COUNT], walk[ROWS], walk[CLAIMS] = n + 1, walk[FOUND], walk[CLAIMS_FOUND]
        walk[AT] += 1
        if walk[OPENS] == 1:
            for k in range(refused.shape[0]):
                refused[k] = 0
        stage = LOOK
    return int(walk[COUNT])


@compiled
def pass_over(
    order: Ints, second: Ints, now: int, running: int, free_cores: int, backfill: int, depth: int, whole: bool,
    fit: int, alike: bool, sky: Any,
) -> int:  # fmt: skip
    """Choose the jobs to start now.

    Parameters
    ----------
    order
        int64[waiting]: jobs in the order in which they are to be considered.
    second
        int64[waiting]: places in ``order``, in the order in which those behind the head are tried; none: as they are.
    now
        µs.
    running, free_cores
        How many jobs run, and how many cores of all nodes are free.
    backfill, depth, whole, fit
        As of :class:`PassRule`.
    alike
        Whether every task asks one core and no memory, on shared nodes, and no place is chosen: counting cores then
        says all.
    sky
        A :class:`unrack.policy.discipline.skyline.columns.Columns`. Written: ``started``, ``out`` and ``new_claims``,
        and what a pass works on. ``walk[STAGE]`` is BEGIN, or as it was when the pass was interrupted.

    Returns
    -------
    int
        How many jobs start; NO_ROOM: columns are to be made larger; CHOOSE: a choice is to be made.
    """
    return passed(order, second, now, running, free_cores, PassRule(backfill, depth, whole, fit), alike, sky)


@inlined
def passed(
    order: Ints, second: Ints, now: int, running: int, free_cores: int, rule: PassRule, alike: bool, sky: Any
) -> int:
    """As :func:`pass_over`."""
    if sky.walk[STAGE] == BEGIN:
        free, copy = sky.free, sky.now
        slots = Slots(sky.slot, sky.place_of, sky.free_places, 0)
        begin_walk(sky.walk, sky.cursor, slots, free_cores)
        if not any_may_fit(order, second, rule.backfill, rule.depth, sky.asks, free_cores):
            return 0
        for node in range(free.shape[1]):
            copy[CPU, node], copy[MEM, node] = free[CPU, node], free[MEM, node]
        refresh(copy, sky.most, 0, count_blocks(free.shape[1]) - 1)
    return int(consider(rule, order, second, now, alike, running, sky))
