"""Compiled: the choices of plans and of passes over the queue for jobs that ask for pooled devices.

What is chosen is written where :mod:`unrack.policy.discipline.skyline.columns` says.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from unrack.jit import inlined
from unrack.kernels.arrays import Ints
from unrack.ledger.columns import ASKED_US, CPU, MEM
from unrack.ledger.devices.line_kernel import ASKED, ASKED_AT, NOT_BEGUN, OLD, OLD_TURN, TRIED, give_up, reserve
from unrack.ledger.devices.playing import BEGAN, EXPECTED_US, START_US
from unrack.policy.discipline import walk
from unrack.policy.discipline.head_search import take_then
from unrack.policy.discipline.heads_kernel import lacking
from unrack.policy.discipline.skyline.columns import (
    AT,
    BOOKED,
    CHOSEN,
    CLAIMED,
    CLAIMS,
    CLAIMS_CHOSEN,
    JOB,
    LENGTH_CHOSEN,
    NO_ROOM,
    ROWS,
    ROWS_CHOSEN,
    STAGE,
    START,
    STARTS,
    STEP,
)
from unrack.policy.discipline.skyline.columns import LEASES as ROWS_SHORT
from unrack.policy.discipline.skyline.levels import short_of
from unrack.policy.discipline.skyline.starting import leaves_open, lendable
from unrack.policy.discipline.skyline.steps import RowSpan, Slots, asked_by, claims_fit, usable
from unrack.policy.lending.answers import Moment
from unrack.policy.placement.node_kernel import gang_of
from unrack.policy.pools.take_kernel import (
    NOWHERE,
    Chooser,
    book_tasks,
    most_loans,
    nothing_taken,
    room_at,
    take_tasks,
    write_taken,
)


@inlined
def settle_last(line: Any, turn: Ints, asks: Ints, now: int) -> None:
    """The job that was asked about last has its reservation now, the one that was found for it or that of before."""
    reserved, b = line.reserved, line.booked
    mark = reserved.mark
    job, tried = mark[ASKED], mark[TRIED]
    if job < 0:
        return
    start_us, chosen_us = turn[START, mark[ASKED_AT]], b.lease[tried, START_US] if tried >= 0 else -2
    if chosen_us == start_us or (start_us < 0 and chosen_us == now):
        b.lease[tried, EXPECTED_US] = asks[ASKED_US, job]
        reserve(line, tried, -1)
        reserved.made[job] = tried
    elif mark[OLD] >= 0:
        reserve(line, mark[OLD], mark[OLD_TURN])
    mark[ASKED] = -1


@inlined
def choose_devices(order: Ints, now: int, running: int, whole: bool, how: Chooser, sky: Any) -> int:
    """Of a plan: choose for the job, at the step, that the cursor says, on the least of the levels.

    0; below that: there is too little room.
    """
    line, cursor, low, mark = how.line, sky.cursor, sky.low, how.line.reserved.mark
    job, start_us = order[cursor[AT]], sky.times[cursor[STEP]]
    us, nodes = max(1, gang_of(sky.asks, job).us), sky.installed.shape[2]
    if cursor[ROWS] + nodes + most_loans(job, sky) > sky.new_rows.shape[0]:
        return short_of(cursor, ROWS_SHORT)
    if cursor[CLAIMS] + most_loans(job, sky) + sky.fixed_at[1, job] - sky.fixed_at[0, job] > sky.new_claims.shape[0]:
        return short_of(cursor, CLAIMED)
    if mark[ASKED] != job:
        settle_last(line, sky.turn, sky.asks, now)
        mark[ASKED], mark[ASKED_AT] = job, cursor[AT]
        mark[OLD], mark[OLD_TURN] = give_up(line, job)
    mark[TRIED] = -1
    cursor[STAGE], cursor[ROWS_CHOSEN] = CHOSEN, -1
    free = np.empty((2, nodes), np.int64)
    for node in range(nodes):
        free[CPU, node], free[MEM, node] = low[0, CPU, node], max(0, low[0, MEM, node])
    limit = lendable(order.shape[0], us, sky) if sky.may_lend.shape[0] > 0 else np.empty(0, np.int64)
    room = room_at(job, whole, Moment(free, low, 0, sky.total.shape[2], limit), sky)
    taken = nothing_taken(job, line, sky)
    loans, lease = book_tasks(job, start_us, running, how, room, taken, sky)
    if loans < 0:
        return NO_ROOM if loans == NO_ROOM else 0
    length = line.here_play.done[BEGAN, lease] - start_us
    if loans > 0 and length > us and not leaves_open(order.shape[0], length, taken.loans[:loans], sky):
        return 0
    mark[TRIED], cursor[LENGTH_CHOSEN] = lease, length
    cursor[ROWS_CHOSEN], cursor[CLAIMS_CHOSEN] = write_taken(
        job, whole, taken, loans, how, sky, sky.new_rows, cursor[ROWS], sky.new_claims, cursor[CLAIMS]
    )
    return 0


@inlined
def settle_pass(line: Any, sky: Any) -> None:
    """The devices that were chosen last in a pass are held if their job starts."""
    mark = line.reserved.mark
    if mark[ASKED] < 0:
        return
    for s in range(sky.walk[walk.COUNT]):
        if sky.started[JOB, s] == mark[ASKED]:
            reserve(line, mark[TRIED], -1)
            line.reserved.made[mark[ASKED]] = mark[TRIED]
    mark[ASKED] = -1


@inlined
def place_now(now: int, running: int, whole: bool, how: Chooser, sky: Any) -> int:
    """Of a pass: a place for the job that it asks about; as of :func:`answer_devices`."""
    line, far, job = how.line, sky.walk, sky.walk[walk.ASKING]
    mark, nodes = line.reserved.mark, sky.installed.shape[2]
    at, claim, fixed = far[walk.ROWS], far[walk.CLAIMS], sky.fixed_at[1, job] - sky.fixed_at[0, job]
    mark[ASKED] = -1
    if at + nodes + most_loans(job, sky) > sky.out.shape[0]:
        return lacking(sky, walk.LOOK, STARTS)
    if claim + fixed + most_loans(job, sky) > sky.new_claims.shape[0]:
        return lacking(sky, walk.LOOK, CLAIMED)
    room = room_at(job, whole, Moment(sky.now, sky.left, 0, 0, np.empty(0, np.int64)), sky)
    taken = nothing_taken(job, line, sky)
    loans, mark[TRIED] = book_tasks(job, now, running, how, room, taken, sky)
    if loans == NO_ROOM:
        far[walk.STAGE] = walk.LOOK
        return NO_ROOM
    if loans < 0:
        if far[walk.BACKFILL] > 0 or far[walk.HEADS] == 0:
            sky.refused[sky.kind[job]] = walk.REFUSED
        return 0
    mark[ASKED] = job
    rows, claims = write_taken(job, whole, taken, loans, how, sky, sky.out, at, sky.new_claims, claim)
    far[walk.FOUND], far[walk.CLAIMS_FOUND], far[walk.MOVES], far[walk.OPENS] = at + rows, claim + claims, 0, 1
    far[walk.HELD_US] = line.here_play.done[BEGAN, mark[TRIED]] - now
    return 0


@inlined
def answer_devices(now: int, running: int, how: Chooser, sky: Any) -> int:
    """Of a pass over the queue: answer what it asks, as of :func:`unrack.policy.lending.answers.answer`.

    0; below that: there is too little room.
    """
    far, mark, job, stage = sky.walk, how.line.reserved.mark, sky.walk[walk.ASKING], sky.walk[walk.STAGE]
    again, none = walk.LOOK if stage == walk.PLACED else walk.SEEK, np.empty(0, np.int64)
    whole = far[walk.WHOLE] == 1
    if mark[ASKED] == NOT_BEGUN:
        return lacking(sky, again, BOOKED)
    if mark[ASKED] != far[walk.LOOKED_AT]:
        settle_pass(how.line, sky)
    if stage == walk.PLACED:
        return int(place_now(now, running, whole, how, sky))
    h, time = far[walk.JUDGING], far[walk.TIME] if stage == walk.SOUGHT else sky.heads[far[walk.JUDGING], walk.SHADOW]
    far[walk.ANSWER] = 1
    if time < 0 or (stage != walk.SOUGHT and now + far[walk.HELD_US] <= time):
        return 0
    head, total = asked_by(job, sky)[0], usable(job, time, sky)
    slots, fits = Slots(sky.slot, sky.place_of, sky.free_places, 0), True
    wanted = RowSpan(sky.out, 0, 0, sky.fixed, sky.fixed_at[0, job], sky.fixed_at[1, job])
    beside = RowSpan(sky.out, far[walk.ROWS], far[walk.FOUND], sky.new_claims, far[walk.CLAIMS], far[walk.CLAIMS_FOUND])
    holds = stage != walk.SOUGHT and mark[ASKED] == far[walk.LOOKED_AT]
    if stage != walk.SOUGHT:
        take_then(head, total, whole, False, h, beside, 0, -1, sky)
        fits = sky.heads[h, walk.ROOM] >= head.tasks and claims_fit(sky.left, 1 + h, slots, wanted)
    if holds:
        reserve(how.line, mark[TRIED], -1)
    found = NOWHERE
    if fits:
        taken = nothing_taken(job, how.line, sky)
        room = room_at(job, whole, Moment(sky.then[h], sky.left, 1 + h, 0, none), sky)
        found = take_tasks(job, time, time + 1, running, how, room, taken, sky)
    if holds:
        give_up(how.line, far[walk.LOOKED_AT])
    if stage != walk.SOUGHT and found < 0:
        take_then(head, total, whole, False, h, beside, 0, 1, sky)
    if found == NO_ROOM:
        far[walk.STAGE] = again
        return NO_ROOM
    far[walk.ANSWER] = 1 if found >= 0 else 0
    return 0
