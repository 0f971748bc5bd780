"""Compiled: heads of a pass over the queue: which jobs are behind one, what it keeps from others, which may pass it."""

from __future__ import annotations

from typing import Any, NamedTuple

from unrack.jit import inlined
from unrack.kernels.arrays import Ints
from unrack.ledger.columns import ASKED_US, CPU
from unrack.policy.discipline.head_search import begin_search, change_claims, keeps, search, take_then
from unrack.policy.discipline.skyline.columns import CHOICE, CHOOSE, CLAIMABLE, NO_ROOM, SHORT
from unrack.policy.discipline.skyline.steps import RowSpan, Slots, asked_by, slots_for, usable
from unrack.policy.discipline.walk import (
    ANSWER,
    ASKING,
    CLOSES,
    DELAYS_US,
    DUE_END,
    DUE_US,
    HEADS,
    HELD_US,
    IS_CLOSED,
    JUDGE,
    JUDGED,
    JUDGING,
    LATE,
    LATE_END,
    LATE_US,
    MOVES,
    OPENS,
    PLACE,
    SEEK,
    SHADOW,
    SOUGHT,
    STAGE,
    TIME,
    UNSEEN,
)
from unrack.policy.placement.node_kernel import gang_of


class PassRule(NamedTuple):
    """How a pass goes."""

    backfill: int  # a `Backfill`
    depth: int  # how many jobs behind the head are considered
    whole: bool  # whether a node serves one job at a time
    fit: int  # a `Fit`


@inlined
def lacking(c: Any, stage: int, what: int) -> int:
    """Say that there is too little room for something, and with which stage to go on."""
    c.walk[STAGE], c.cursor[SHORT] = stage, what
    return NO_ROOM


@inlined
def asking(walk: Ints, stage: int, job: int) -> int:
    """Ask for a choice; its answer leads on at a stage."""
    walk[STAGE], walk[ASKING] = stage, job
    return CHOOSE


@inlined
def has_none(job: int, now: int, c: Any) -> bool:
    """Whether a job has no place, as one of its kind had none."""
    kind = c.kind[job]
    if c.refused[kind] != LATE:
        return bool(c.refused[kind] != 0)
    in_vain = 0 <= c.due[DUE_US, job] < c.late[LATE_END, kind] and now <= c.due[DUE_END, job]
    return bool(in_vain and c.asks[ASKED_US, job] >= c.late[LATE_US, kind])


@inlined
def refuse(job: int, kind: int, why: int, earliest_us: int, c: Any) -> None:
    """Note why a job and its kind have no place, one of ``refused``; ``earliest_us``: when it would end at best."""
    c.refused[kind] = why
    if why >= LATE:
        c.walk[CLOSES] = c.late[IS_CLOSED, kind] = 1
        c.late[LATE_US, kind], c.late[LATE_END, kind] = c.asks[ASKED_US, job], earliest_us


@inlined
def head_of(order: Ints, place: int, c: Any) -> int:
    """The first head that the job at a place of the order is behind: of one of its nodes; -1: there is none."""
    own = c.set_of[order[place]]
    for h in range(c.walk[HEADS]):
        if c.heads[h, PLACE] < place and c.meets[own, c.set_of[order[c.heads[h, PLACE]]]] == 1:
            return h
    return -1


@inlined
def cores_open(job: int, c: Any) -> int:
    """How many cores are free at most on the nodes that a job may use."""
    own = c.set_of[job]
    if c.set_free[own] < 0:
        found = 0
        for node in range(c.spans[own, 0], c.spans[own, 1]):
            found += max(c.now[CPU, node], 0) if c.installed[own, CPU, node] > 0 else 0
        c.set_free[own] = found
    return int(c.set_free[own])


@inlined
def look_again(c: Any) -> None:
    """Something has started: free cores are to be counted anew, and others may have places now that delay no head."""
    for s in range(c.set_free.shape[0]):
        c.set_free[s] = -1
    for k in range(c.late.shape[1]):
        c.late[DELAYS_US, k] = 0


@inlined
def only_limits(job: int, c: Any) -> bool:
    """Whether a limit leaves too little for a job."""
    for k in range(c.fixed_at[0, job], c.fixed_at[1, job]):
        place = c.fixed[k, 0]
        if c.aside[0] <= place < c.aside[1]:
            s = c.slot[place]
            if (c.free_places[place] if s < 0 else c.left[0, CPU, s]) < c.fixed[k, 1]:
                return True
    return False


@inlined
def set_aside(order: Ints, job: int, c: Any, slots: Slots) -> bool:
    """No job that comes later may start on the nodes of a job that waits, or take what it claims.

    False: there are too few slots.
    """
    first, last, total = c.fixed_at[0, job], c.fixed_at[1, job], c.installed[c.set_of[job]]
    if last > first:
        if not slots_for(c.left, c.left.shape[0], slots, c.cursor, c.fixed, first, last):
            return False
        change_claims(c.left, 0, slots, RowSpan(c.out, 0, 0, c.fixed, first, last), -1)
    for node in range(total.shape[1]):
        if total[CPU, node] > 0:
            c.now[CPU, node] = -1
    return True


@inlined
def judged(
    rule: PassRule, order: Ints, place: int, span: RowSpan, stage: int, now: int, alike: bool, count: int, c: Any
) -> int:  # fmt: skip
    """Whether a job that has a place leaves all heads theirs that come before it: 1 or 0; else it is interrupted."""
    walk, job, heads = c.walk, order[place], c.heads
    slots = Slots(c.slot, c.place_of, c.free_places, 0)
    tasks, more = gang_of(c.asks, job).tasks, span.claim_end > span.claim or walk[OPENS] == 1
    passes = True
    while passes and walk[JUDGING] < walk[HEADS]:
        h = walk[JUDGING]
        head_job = order[heads[h, PLACE]]
        if heads[h, PLACE] > place or not (more or c.meets[c.set_of[job], c.set_of[head_job]] == 1):
            walk[JUDGING] += 1
            continue
        total, chooses, (asked, mb) = (
            usable(head_job, max(heads[h, SHADOW], now), c),
            c.wants[head_job] >= CHOICE,
            asked_by(head_job, c),
        )
        wanted = RowSpan(c.out, 0, 0, c.fixed, c.fixed_at[0, head_job], c.fixed_at[1, head_job])
        if stage == SEEK and heads[h, SHADOW] != UNSEEN:
            stage = JUDGE
        while stage in (SEEK, SOUGHT):
            if stage == SEEK:
                begin_search(asked, total, rule.whole, alike, c)
            elif walk[ANSWER] == 1:
                break
            if not search(head_job, asked, total, mb, wanted, rule.whole, alike, now, count, c, slots):
                return lacking(c, SEEK, CLAIMABLE)
            if not (chooses and walk[TIME] >= 0):
                break
            return asking(walk, SOUGHT, head_job)
        if stage in (SEEK, SOUGHT):
            heads[h, SHADOW], stage = walk[TIME], JUDGE
            total = usable(head_job, max(heads[h, SHADOW], now), c)
        late = heads[h, SHADOW] >= 0 and now + walk[HELD_US] > heads[h, SHADOW]
        if stage == JUDGED:
            passes = walk[ANSWER] == 1
        elif walk[MOVES] == 1 and walk[HEADS] > 1:
            passes = False  # what moves others would have to be taken back
        elif walk[MOVES] == 1 or (late and chooses):
            return asking(walk, JUDGED, head_job)
        elif late:
            passes = keeps(head_job, asked, total, wanted, rule.whole, alike, h, tasks, span, now, count, c)
        stage = SEEK
        walk[JUDGING] += passes
    if not passes:
        for h in range(walk[JUDGING]):
            head_job = order[heads[h, PLACE]]
            if heads[h, PLACE] > place or not (more or c.meets[c.set_of[job], c.set_of[head_job]] == 1):
                continue
            if heads[h, SHADOW] >= 0 and now + walk[HELD_US] > heads[h, SHADOW]:
                total = usable(head_job, heads[h, SHADOW], c)
                take_then(asked_by(head_job, c)[0], total, rule.whole, alike, h, span, tasks, 1, c)
    return 1 if passes else 0
