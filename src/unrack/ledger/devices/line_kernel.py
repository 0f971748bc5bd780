"""Compiled: the pooled devices at times to come, as running jobs end and reservations begin and end as booked."""

from __future__ import annotations

from typing import Any, NamedTuple

from unrack.jit import compiled, inlined
from unrack.kernels.arrays import Ints
from unrack.kernels.structs import InKernels
from unrack.ledger.devices.columns import FREE_COUNT, GROUP, JOBS, MODEL, NEXT, DeviceColumns
from unrack.ledger.devices.playing import (
    BEGAN,
    CLOSED,
    DEVICES,
    ENDED,
    EXPECTED_US,
    FIRST,
    JOB,
    LAST,
    LEASE,
    LEASES,
    NOW,
    ON_THEIR_WAY,
    RUNNING,
    SHARES,
    START_US,
    Play,
    hold_one,
    move_on,
    start_one,
)
from unrack.ledger.devices.sharing import ROOM, TAKEN

START, TURN = range(2)
"""Rows of ``Upcoming.held``; the last is LEASE."""
HELD, STARTED, RIGHT, TURNS, DETACH_US, ASKED, ASKED_AT, TRIED, OLD, OLD_TURN = range(10)
"""Entries of ``Upcoming.mark``."""
NOT_BEGUN = -2
"""In place of ASKED: the devices are those of before, and to be taken over before the first question of a pass."""


class _Upcoming(NamedTuple):
    held: Ints  # int64[3, room]: the start (µs), turn and lease of each reservation, in order of (start, turn)
    # int64[10]: HELD: how many there are; STARTED: how many of them have started `here`; RIGHT: 1, or 0 where `here` is
    # to be made again; TURNS given so far; DETACH_US: for how long devices are detached. Of a plan: ASKED: the job that
    # was asked about last, at place ASKED_AT of the order (-1: none); TRIED: the lease found for it; OLD, OLD_TURN: its
    # lease of before, and its turn (-1: none)
    mark: Ints
    made: Ints  # int64[jobs]: the lease that a plan has made for each job in this round; -1: none


class Upcoming(InKernels, _Upcoming):
    """What is reserved."""


class _DeviceTimeline(NamedTuple):
    # each a struct: columns, and what changes beside them

    base: Any
    base_play: Any
    here: Any
    here_play: Any
    other: Any
    other_play: Any
    booked: Any
    reserved: Any


class DeviceTimeline(InKernels, _DeviceTimeline):
    """The devices over time: as they are now, at a time that moves on (``here``), and for questions (``other``)."""


@compiled
def take_over(source: DeviceColumns, from_play: Play, c: DeviceColumns, play: Play) -> None:
    """Make devices, and what changes beside them but for ``done``, as others are; of one cluster, with as much room."""
    devices = c.device.shape[1]
    for d in range(devices):
        for i in range(c.group[JOBS, d]):
            job, h = c.sharer[i, d], 0  # a job is seen on each of its groups, and has none after the first time
            while h < c.job_group.shape[0] and c.job_group[h, job] >= 0:
                c.job_group[h, job], c.job_node[h, job] = -1, -1
                h += 1
    copy_row(source.device, c.device, GROUP)
    copy_row(source.device, c.device, NEXT)
    for row in range(c.group.shape[0]):
        copy_row(source.group, c.group, row)
    for q in range(c.held.shape[0]):
        copy_row(source.held, c.held, q)
        copy_row(source.installed, c.installed, q)
    for d in range(devices):
        for i in range(c.group[JOBS, d]):
            job, h = source.sharer[i, d], 0
            c.sharer[i, d] = job
            if c.job_group[0, job] >= 0:
                continue
            while h < source.job_group.shape[0] and source.job_group[h, job] >= 0:
                c.job_group[h, job], c.job_node[h, job] = source.job_group[h, job], source.job_node[h, job]
                c.job_speed[h, job] = source.job_speed[h, job]
                h += 1
            for row in range(2):
                c.progress[row, job], c.clock[row, job] = source.progress[row, job], source.clock[row, job]
    copy_row(source.pool, c.pool, FREE_COUNT)
    c.counter[0] = source.counter[0]
    play.mark[NOW], play.mark[RUNNING] = from_play.mark[NOW], from_play.mark[RUNNING]
    play.mark[ON_THEIR_WAY] = from_play.mark[ON_THEIR_WAY]
    for d in range(devices if play.mark[ON_THEIR_WAY] >= 0 else 0):
        play.leaving[d] = from_play.leaving[d]
    for i in range(play.mark[RUNNING]):
        for row in range(3):
            play.running[row, i] = from_play.running[row, i]


@inlined
def copy_row(source: Ints, target: Ints, row: int) -> None:
    """Make a row of a table as that of another."""
    for i in range(target.shape[1]):
        target[row, i] = source[row, i]


@inlined
def go_to(line: DeviceTimeline, time: int) -> int:
    """Let ``here`` be as the devices are at a time, when all that ends and starts then has done so: TAKEN or ROOM."""
    held, mark, play = line.reserved.held, line.reserved.mark, line.here_play
    if mark[RIGHT] == 0 or play.mark[NOW] > time:
        take_over(line.base, line.base_play, line.here, play)
        mark[STARTED], mark[RIGHT] = 0, 1
    while mark[STARTED] < mark[HELD] and held[START, mark[STARTED]] <= time:
        if start_one(line.here, line.booked, play, held[LEASE, mark[STARTED]], True) == ROOM:
            mark[RIGHT] = 0
            return ROOM
        mark[STARTED] += 1
    move_on(line.here, line.booked, play, time)
    return TAKEN


@compiled
def least(line: DeviceTimeline, start_us: int, end_us: int) -> int:
    """Let ``other`` be what may be held from a time to another beside all that start meanwhile: TAKEN or ROOM.

    Where devices stay held after their job for a while, these hold theirs until then, and no job relies on joining
    others later: if they ended early, the devices would just be detached when they are needed.
    """
    if go_to(line, start_us) == ROOM:
        return ROOM
    c, b, held, mark = line.other, line.booked, line.reserved.held, line.reserved.mark
    take_over(line.here, line.here_play, c, line.other_play)
    close = mark[DETACH_US] > 0
    for k in range(mark[STARTED], mark[HELD]):
        if held[START, k] >= end_us + mark[DETACH_US]:
            break
        for s in range(b.lease[held[LEASE, k], FIRST], b.lease[held[LEASE, k], LAST]):
            if hold_one(c, b, start_us, s, close) == ROOM:
                return ROOM
    for d in range(c.device.shape[1] if close and start_us > line.base_play.mark[NOW] else 0):
        if c.group[JOBS, d] > 0:
            c.group[MODEL, d] = CLOSED
    return TAKEN


@compiled
def would_end(line: DeviceTimeline, lease: int) -> int:
    """Note when a job would end as it begins, where speeds do not depend on sharers: TAKEN, ROOM or a problem.

    A problem: that it starts, or another that is reserved. Its devices are free beside all that start while it is
    expected to run (:func:`least`): it is not in their way. When: in ``here_play.done[BEGAN]``.
    """
    b, held, mark = line.booked, line.reserved.held, line.reserved.mark
    start_us, detach_us = b.lease[lease, START_US], mark[DETACH_US]
    verdict = go_to(line, start_us)
    if verdict == TAKEN:
        verdict = start_one(line.here, b, line.here_play, lease, False)
    if verdict != TAKEN:
        return int(verdict)
    end = line.here_play.done[BEGAN, lease] + detach_us
    first, seen = mark[STARTED], start_us + b.lease[lease, EXPECTED_US] + detach_us
    while first < mark[HELD] and held[START, first] < seen:
        first += 1
    if first == mark[HELD] or held[START, first] >= end:
        return TAKEN
    take_over(line.here, line.here_play, line.other, line.other_play)
    for k in range(mark[STARTED] - 1, mark[HELD]):
        one = lease if k < mark[STARTED] else held[LEASE, k]
        if b.lease[one, START_US] >= end:
            break
        verdict = start_one(line.other, b, line.other_play, one, True)
        if verdict != TAKEN:
            break
    return int(verdict)


@compiled
def start_all(line: DeviceTimeline, beside: int, all_of_them: bool) -> int:
    """Let ``other`` be the devices when all that is reserved has started, and a lease ``beside`` (-1: none): TAKEN.

    Else ROOM, or the problem of one that cannot start as reserved, unless that does not matter (not ``all_of_them``).
    """
    b, held, mark = line.booked, line.reserved.held, line.reserved.mark
    take_over(line.base, line.base_play, line.other, line.other_play)
    copy_row(line.base_play.done, line.other_play.done, ENDED)
    waits = beside >= 0
    for k in range(mark[HELD] + 1):
        if waits and (k == mark[HELD] or held[START, k] > b.lease[beside, START_US]):
            waits = False
            verdict = start_one(line.other, b, line.other_play, beside, True)
            if verdict != TAKEN:
                return int(verdict)
        if k == mark[HELD]:
            break
        verdict = start_one(line.other, b, line.other_play, held[LEASE, k], True)
        if verdict == ROOM or (verdict != TAKEN and all_of_them):
            return int(verdict)
    return TAKEN


@compiled
def reserve(line: DeviceTimeline, lease: int, turn: int) -> None:
    """Reserve a lease, behind those that start at that time and have an earlier turn; -1: behind all; there is room."""
    held, mark = line.reserved.held, line.reserved.mark
    start_us, at = line.booked.lease[lease, START_US], mark[HELD]
    if turn < 0:
        turn = mark[TURNS]
        mark[TURNS] += 1
    while at > 0 and (
        held[START, at - 1] > start_us or (held[START, at - 1] == start_us and held[TURN, at - 1] > turn)
    ):
        for row in range(3):
            held[row, at] = held[row, at - 1]
        at -= 1
    held[START, at], held[TURN, at], held[LEASE, at] = start_us, turn, lease
    mark[HELD] += 1
    if at < mark[STARTED] or start_us < line.here_play.mark[NOW]:
        mark[RIGHT] = 0


@compiled
def reserve_all(line: DeviceTimeline, leases: Ints) -> None:
    """Reserve leases (int64[k]), as :func:`reserve` does; there is room."""
    for lease in leases:
        reserve(line, lease, -1)


@inlined
def has_room(line: DeviceTimeline, shares: int, devices: int) -> bool:
    """Whether there is room for a lease of so many shares and devices, and for its reservation, and that of before."""
    b, used = line.booked, line.booked.used
    room = used[LEASES] < b.lease.shape[0] and used[SHARES] + shares <= b.share.shape[0]
    runs = line.base_play.mark[RUNNING] + line.reserved.mark[HELD] + 2
    return bool(room and used[DEVICES] + devices <= b.device.shape[0] and runs <= line.reserved.held.shape[1])


@compiled
def give_up(line: DeviceTimeline, job: int) -> tuple[int, int]:
    """Give up what is reserved for a job: its lease and its turn; -1 each: nothing was."""
    held, mark, b = line.reserved.held, line.reserved.mark, line.booked
    for k in range(mark[HELD]):
        lease, turn = held[LEASE, k], held[TURN, k]
        if b.lease[lease, JOB] != job:
            continue
        mark[HELD] -= 1
        for i in range(k, mark[HELD]):
            for row in range(3):
                held[row, i] = held[row, i + 1]
        if k < mark[STARTED]:
            mark[RIGHT] = 0
        return lease, turn
    return -1, -1
