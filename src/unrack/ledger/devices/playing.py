"""Compiled: the pooled devices over time, as jobs that hold some end and start as booked."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unrack.jit import compiled, inlined
from unrack.kernels.arrays import Ints
from unrack.kernels.structs import InKernels
from unrack.ledger.columns import ENDS_US, OF_JOB
from unrack.ledger.devices.columns import (
    END_US,
    FREE,
    FREE_COUNT,
    GROUP,
    JOBS,
    LEAVING,
    MODEL,
    OFFLINE,
    POOL,
    DeviceColumns,
)
from unrack.ledger.devices.sharing import ROOM, TAKEN, drop_share, first_end, follow, take_share
from unrack.ledger.holding import place_of
from unrack.units import NEVER_US

JOB, START_US, EXPECTED_US, FIRST, LAST = range(5)
"""Columns of ``Bookings.lease``: its job, when it starts, for how long it works at speed 1, and its shares."""
HOLDER, NODE, PARTS, FIRST_DEVICE, LAST_DEVICE = range(5)
"""Columns of ``Bookings.share``."""
LEASE = 2
"""A row of ``Play.running``; the first are ENDS_US and OF_JOB."""
NOW, RUNNING, ON_THEIR_WAY = range(3)
"""Entries of ``Play.mark``."""
BEGAN, ENDED = range(2)
"""Rows of ``Play.done``."""
CLOSED = -2
"""The model of a group that no job may join; no job has it."""
LEASES, SHARES, DEVICES = range(3)
"""Entries of ``Bookings.used``."""


class _Bookings(NamedTuple):
    lease: Ints  # int64[room, 5]
    share: Ints  # int64[room, 5]: those of one lease stand together
    amount: Ints  # int64[room, quantities]: of each share
    device: Ints  # int64[room]: those of one share stand together, ascending
    used: Ints  # int64[3]: how many LEASES, SHARES and DEVICES there are


class Bookings(InKernels, _Bookings):
    """Leases of devices that are held or reserved, each with a number."""


class _Play(NamedTuple):
    running: Ints  # int64[3, room]: booked end, job and lease of those that hold devices, in order of (end, job)
    done: Ints  # int64[2, room]: when each lease was booked to end as it started, and when it ended, µs; -1: it did not
    leaving: Ints  # int64[devices]: until when each is being detached, µs; 0: it is not
    mark: Ints  # int64[3]: NOW, µs; RUNNING: how many run; ON_THEIR_WAY: -1 where no device is ever being detached


class Play(InKernels, _Play):
    """What changes beside the devices as time goes on."""


@inlined
def put(running: Ints, count: int, end_us: int, job: int, lease: int) -> None:
    """Put a job into its place among those that run, which are so many so far; there is room."""
    at = place_of(running, count, end_us, job)
    for i in range(count, at, -1):
        for row in range(3):
            running[row, i] = running[row, i - 1]
    running[ENDS_US, at], running[OF_JOB, at], running[LEASE, at] = end_us, job, lease


@inlined
def take_one(c: DeviceColumns, b: Bookings, s: int, now: int) -> int:
    """Take a share; as :func:`unrack.ledger.devices.sharing.take_share`."""
    job, devices = b.share[s, HOLDER], b.device[b.share[s, FIRST_DEVICE] : b.share[s, LAST_DEVICE]]
    return take_share(c, job, b.share[s, NODE], devices, b.amount[s], b.share[s, PARTS], now)


@inlined
def give_all(c: DeviceColumns, b: Bookings, play: Play, first: int, last: int, back: bool) -> None:
    """Give shares back; ``back``: as if they had not been taken."""
    for s in range(last - 1, first - 1, -1):
        leader = b.device[b.share[s, FIRST_DEVICE]]
        fresh = c.group[JOBS, leader] == 1
        wait = drop_share(c, b.share[s, HOLDER], leader, b.amount[s], back)
        if back and fresh:
            c.counter[0] -= 1
        if wait > 0:
            for d in range(b.share[s, FIRST_DEVICE], b.share[s, LAST_DEVICE]):
                play.leaving[b.device[d]] = play.mark[NOW] + wait


@inlined
def follow_all(c: DeviceColumns, b: Bookings, play: Play, first: int, last: int, but: int) -> None:
    """Jobs that share with these go on at other speeds, and end at other times."""
    running, count, some = play.running, play.mark[RUNNING], False
    for s in range(first, last):
        leader = b.device[b.share[s, FIRST_DEVICE]]
        some = some or (c.group[JOBS, leader] > (but >= 0) and c.group[MODEL, leader] >= 0)
    if not some:
        return
    before = np.empty(count, np.int64)
    for k in range(count):
        before[k] = c.clock[END_US, running[OF_JOB, k]]
    aside = np.zeros((2, 1), np.int64)  # where its place is to be noted: nowhere, as the order is put right below
    for s in range(first, last):
        leader = b.device[b.share[s, FIRST_DEVICE]]
        if c.group[JOBS, leader] > (but >= 0) and c.group[MODEL, leader] >= 0:
            follow(c, leader, but, play.mark[NOW], aside, 0)
    for k in range(count):
        job, lease = running[OF_JOB, k], running[LEASE, k]
        end = c.clock[END_US, job]
        put(running, k, running[ENDS_US, k] if end == before[k] else end, job, lease)


@compiled
def settle(c: DeviceColumns, b: Bookings, play: Play, overdue: bool) -> None:
    """Let everything end that is booked to end by now, or just now if not ``overdue``."""
    running, mark = play.running, play.mark
    first = 0
    while not overdue and first < mark[RUNNING] and running[ENDS_US, first] < mark[NOW]:
        first += 1
    last = first
    while last < mark[RUNNING] and running[ENDS_US, last] <= mark[NOW]:
        last += 1
    over = running[LEASE, first:last].copy()
    for lease in over:
        mark[RUNNING] -= 1
        k = 0
        while running[LEASE, k] != lease:
            k += 1
        for i in range(k, mark[RUNNING]):
            for row in range(3):
                running[row, i] = running[row, i + 1]
        play.done[ENDED, lease] = mark[NOW]
        give_all(c, b, play, b.lease[lease, FIRST], b.lease[lease, LAST], False)
        follow_all(c, b, play, b.lease[lease, FIRST], b.lease[lease, LAST], -1)
    for d in range(play.leaving.shape[0] if play.mark[ON_THEIR_WAY] >= 0 else 0):
        if 0 < play.leaving[d] <= mark[NOW]:
            play.leaving[d] = 0
            if c.device[GROUP, d] == LEAVING:
                c.device[GROUP, d] = FREE
                c.pool[FREE_COUNT, c.device[POOL, d]] += 1
            else:
                c.device[GROUP, d] = OFFLINE


@compiled
def next_us(play: Play) -> int:
    """When a job ends next, or a device is detached, µs; it may have passed. NEVER_US: never."""
    first = NEVER_US
    if play.mark[RUNNING] > 0:
        first = play.running[ENDS_US, 0]
    for d in range(play.leaving.shape[0] if play.mark[ON_THEIR_WAY] >= 0 else 0):
        if 0 < play.leaving[d] < first:
            first = play.leaving[d]
    return int(first)


@compiled
def move_on(c: DeviceColumns, b: Bookings, play: Play, until: int) -> None:
    """Let everything end that is booked to end by ``until`` (µs); what is overdue ends 1 µs from now."""
    mark = play.mark
    while True:
        first = next_us(play)
        if first == NEVER_US or max(first, mark[NOW] + 1) > until:
            break
        mark[NOW] = max(first, mark[NOW] + 1)
        settle(c, b, play, True)
    mark[NOW] = until


@inlined
def take_all(c: DeviceColumns, b: Bookings, play: Play, lease: int) -> int:
    """Take all shares of a lease, or none: TAKEN, ROOM or a problem."""
    first, verdict = b.lease[lease, FIRST], TAKEN
    for s in range(first, b.lease[lease, LAST]):
        verdict = take_one(c, b, s, play.mark[NOW])
        if verdict != TAKEN:
            give_all(c, b, play, first, s, True)
            break
    return verdict


@compiled
def start_one(c: DeviceColumns, b: Bookings, play: Play, lease: int, stay: bool) -> int:
    """Move on to the time of a lease and start it: TAKEN, ROOM, or a problem and it does not start.

    ``stay`` false: it would start now; everything is given back at once, and only when it would have ended is noted;
    speeds may not depend on sharers.
    """
    job, first, last = b.lease[lease, JOB], b.lease[lease, FIRST], b.lease[lease, LAST]
    play.done[BEGAN, lease] = -1
    if stay:
        move_on(c, b, play, b.lease[lease, START_US])
    verdict = take_all(c, b, play, lease)
    if verdict != TAKEN:
        return int(verdict)
    end = first_end(c, job, b.lease[lease, EXPECTED_US], play.mark[NOW])
    play.done[BEGAN, lease] = end
    if stay:
        put(play.running, play.mark[RUNNING], end, job, lease)
        play.mark[RUNNING] += 1
        follow_all(c, b, play, first, last, job)
    else:
        give_all(c, b, play, first, last, True)
    return TAKEN


@inlined
def hold_one(c: DeviceColumns, b: Bookings, now: int, s: int, close: bool) -> int:
    """Take a share that will be held later, as if from now on; if it is not free, or ``close``, it is closed."""
    verdict = -1 if close else take_one(c, b, s, now)
    if verdict in (TAKEN, ROOM):
        return int(verdict)
    for d in range(b.share[s, FIRST_DEVICE], b.share[s, LAST_DEVICE]):
        device = b.device[d]
        group = c.device[GROUP, device]
        if group >= 0:
            c.group[MODEL, group] = CLOSED
        elif group == FREE:
            c.device[GROUP, device] = LEAVING
            c.pool[FREE_COUNT, c.device[POOL, device]] -= 1
    return TAKEN
