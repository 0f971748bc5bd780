"""Compiled: take shares of devices and give them back, exactly, and follow the speeds of all that share."""

from __future__ import annotations

import math

from unrack.jit import compiled, inlined, melted
from unrack.kernels.arrays import Ints
from unrack.ledger.devices.columns import (
    ATTACH_US,
    COMPOSE,
    DETACH_US,
    END_US,
    FREE,
    FREE_COUNT,
    GROUP,
    HOME,
    JOBS,
    KIND,
    LEAVING,
    LEFT,
    MODEL,
    NEXT,
    NODE,
    PACE,
    PARTS,
    POOL,
    READY_US,
    SERIAL,
    SHARE,
    SINCE_US,
    SINGLE,
    SIZE,
    SPLIT,
    DeviceColumns,
)  # fmt: skip
from unrack.ledger.holding import first_at_least, place_of

TAKEN = 0
ROOM = 1
"""Another job fits only after the column of sharers has grown."""
PROBLEMS = {
    -1: "its lease names a device that does not exist",
    -2: "its lease names devices of different pools, or one twice",
    -3: "its lease names a device that is out of reach of its node",
    -4: "its lease names devices that are not free, and no composition in use",
    -5: "its lease names a composition that is attached to another node",
    -6: "its lease composes more devices than the pool allows",
    -7: "its lease shares a device with jobs of another model",
    -8: "its lease asks for more of a device than is free",
    -9: "its lease puts more jobs on a device than the pool or the model allows",
    -10: "its lease splits a device into more parts than the pool allows, or otherwise than it is split",
    -11: "its lease holds less of a device than its tasks ask",
}


@melted
def speed_of(c: DeviceColumns, model: int, size: int, jobs: int) -> float:
    """Speed under a model on ``size`` devices shared by ``jobs``; 0: not admitted. Without a model: 1."""
    if model < 0:
        return 1.0
    if jobs >= c.speeds.shape[2]:
        return 0.0
    return float(c.speeds[model, min(size, c.speeds.shape[1] - 1), jobs])


@melted
def slowed(c: DeviceColumns, device: int, node: int) -> float:
    """What remote use of a device, or of one of the devices of a group, multiplies a speed by."""
    d = device
    while d >= 0:
        if c.device[HOME, d] != node:
            return float(1.0 / (1.0 + c.overhead[c.device[POOL, device]]))
        d = c.device[NEXT, d]
    return 1.0


@melted
def reaches(c: DeviceColumns, node: int, pool: int) -> bool:
    """Whether a node may attach the devices of a pool."""
    if node < 0 or node >= c.pools_near[0] - 1:
        return False
    low, end = c.pools_near[node], c.pools_near[node + 1]
    at = first_at_least(c.pools_near, low, end, pool)
    return bool(at < end and c.pools_near[at] == pool)


@inlined
def rate(c: DeviceColumns, job: int) -> float:
    """The speed of a running job now: that of the slowest of what it holds; what is frozen is as it began."""
    speed = math.inf
    for h in range(c.job_group.shape[0]):
        group = c.job_group[h, job]
        if group < 0:
            break
        model = c.model[c.device[KIND, group], job]
        one = c.job_speed[h, job]
        if model >= 0 and not c.frozen[model]:
            one = speed_of(c, model, c.group[SIZE, group], c.group[JOBS, group])
        speed = min(speed, one * slowed(c, group, c.job_node[h, job]))
    return speed if speed < math.inf else 1.0


@melted
def left_at(c: DeviceColumns, job: int, now: int) -> float:
    """Work left of a running job at ``now``, µs at speed 1."""
    return float(max(0.0, c.progress[LEFT, job] - max(0, now - c.clock[SINCE_US, job]) * c.progress[PACE, job]))


@compiled
def take_share(c: DeviceColumns, job: int, node: int, devices: Ints, amounts: Ints, parts: int, now: int) -> int:
    """Check one share, then take it; speeds are brought up to date by :func:`first_end`.

    Returns TAKEN, ROOM, or a key of ``PROBLEMS``; unless TAKEN, nothing has changed.
    """
    count = c.device.shape[1]
    leader = count
    total = 0
    for i in range(devices.shape[0]):
        d = devices[i]
        if d < 0 or d >= count:
            return -1
        leader = min(leader, d)
        total += 1
    if total == 0:
        return -1
    pool = c.device[POOL, leader]
    kind = c.device[KIND, leader]
    for i in range(total):
        if c.device[POOL, devices[i]] != pool or (i > 0 and devices[i] <= devices[i - 1]):
            return -2
    if not reaches(c, node, pool):
        return -3
    model = c.model[kind, job]
    fresh = c.device[GROUP, leader] == FREE
    if fresh:
        if total > c.pool[COMPOSE, pool]:
            return -6
        for i in range(total):
            if c.device[GROUP, devices[i]] != FREE:
                return -4
        if parts > c.pool[SPLIT, pool] or parts < 0 or (parts == 0 and c.pool[SPLIT, pool] > 1):
            return -10
    else:
        if c.device[GROUP, leader] != leader or c.group[SIZE, leader] != total:
            return -4
        for i in range(total):
            if c.device[GROUP, devices[i]] != leader:
                return -4
        if c.group[PARTS, leader] != parts:
            return -10
        if c.pool[SINGLE, pool] and c.group[NODE, leader] != node:
            return -5
        if c.group[MODEL, leader] != model:
            return -7
    jobs = 1 if fresh else c.group[JOBS, leader] + 1
    if jobs > c.pool[SHARE, pool] or (parts > 0 and jobs > parts):
        return -9
    if speed_of(c, model, total, jobs) <= 0.0:
        return -9
    for q in range(c.capacity.shape[0]):
        if amounts[q] < 0:
            return -8
        installed = 0
        for i in range(total):
            installed += c.capacity[q, devices[i]]
        if parts > 0:
            if amounts[q] > installed // parts:
                return -8
        elif amounts[q] + (0 if fresh else c.held[q, leader]) > installed and not (model >= 0 and c.governed[model, q]):
            return -8
    if jobs > c.sharer.shape[0] or c.job_group[c.job_group.shape[0] - 1, job] >= 0:
        return ROOM
    if fresh:
        remote = False
        for i in range(total):
            d = devices[i]
            c.device[GROUP, d] = leader
            c.device[NEXT, d] = devices[i + 1] if i + 1 < total else -1
            remote = remote or c.device[HOME, d] != node
            for q in range(c.capacity.shape[0]):
                c.installed[q, leader] += c.capacity[q, d]
        c.pool[FREE_COUNT, pool] -= total
        c.group[NODE, leader] = node if c.pool[SINGLE, pool] else -1
        c.group[SIZE, leader] = total
        c.group[JOBS, leader] = 0
        c.group[PARTS, leader] = parts
        c.group[MODEL, leader] = model
        c.group[READY_US, leader] = now + (c.pool[ATTACH_US, pool] if remote else 0)
        c.group[SERIAL, leader] = c.counter[0]
        c.counter[0] += 1
    c.sharer[c.group[JOBS, leader], leader] = job
    c.group[JOBS, leader] += 1
    for q in range(c.capacity.shape[0]):
        c.held[q, leader] += amounts[q]
    for h in range(c.job_group.shape[0]):
        if c.job_group[h, job] < 0:
            c.job_group[h, job] = leader
            c.job_node[h, job] = node
            break
    return TAKEN


@compiled
def drop_share(c: DeviceColumns, job: int, leader: int, amounts: Ints, back: bool) -> int:
    """Give one share back; a group without jobs is taken apart.

    ``back``: whether the devices are free at once: it undoes a share just taken. Returns 0: the group lives on, or its
    devices are free; else the detach latency (µs) for which they are LEAVING.
    """
    last = c.group[JOBS, leader] - 1
    at = last  # the last of equal entries: what was taken last goes first
    while c.sharer[at, leader] != job:
        at -= 1
    for i in range(at, last):
        c.sharer[i, leader] = c.sharer[i + 1, leader]
    c.sharer[last, leader] = -1
    c.group[JOBS, leader] = last
    for q in range(c.held.shape[0]):
        c.held[q, leader] -= amounts[q]
    node = -1
    for h in range(c.job_group.shape[0] - 1, -1, -1):
        if c.job_group[h, job] == leader:
            node = c.job_node[h, job]
            c.job_group[h, job] = -1
            c.job_node[h, job] = -1
            break
    if last > 0:
        return 0
    pool = c.device[POOL, leader]
    remote = False
    d = leader
    while d >= 0:
        remote = remote or c.device[HOME, d] != node
        d = c.device[NEXT, d]
    wait = c.pool[DETACH_US, pool] if remote and not back else 0
    d = leader
    while d >= 0:
        after = c.device[NEXT, d]
        c.device[NEXT, d] = -1
        c.device[GROUP, d] = LEAVING if wait > 0 else FREE
        if wait == 0:
            c.pool[FREE_COUNT, pool] += 1
        d = after
    for q in range(c.held.shape[0]):
        c.installed[q, leader] = 0
    for r in range(c.group.shape[0]):
        c.group[r, leader] = 0
    return wait


@compiled
def first_end(c: DeviceColumns, job: int, expected_us: int, now: int) -> int:
    """Set the clock of a job that has just taken its shares; returns its expected end, µs."""
    ready = now
    for h in range(c.job_group.shape[0]):
        group = c.job_group[h, job]
        if group >= 0:
            ready = max(ready, c.group[READY_US, group])
            model = c.model[c.device[KIND, group], job]
            c.job_speed[h, job] = speed_of(c, model, c.group[SIZE, group], c.group[JOBS, group])
    speed = rate(c, job)
    c.progress[LEFT, job] = expected_us
    c.progress[PACE, job] = speed
    c.clock[SINCE_US, job] = ready
    c.clock[END_US, job] = ready + math.ceil(expected_us / speed)
    return int(c.clock[END_US, job])


@compiled
def follow(c: DeviceColumns, group: int, but: int, now: int, running: Ints, count: int) -> None:
    """After a job joined or left a group: new speeds and booked ends for the others on it."""
    model = c.group[MODEL, group]
    if c.group[SIZE, group] == 0 or model < 0 or c.frozen[model]:
        return
    for i in range(c.group[JOBS, group]):
        job = c.sharer[i, group]
        if job == but:
            continue
        speed = rate(c, job)
        if speed == c.progress[PACE, job]:
            continue
        c.progress[LEFT, job] = left_at(c, job, now)
        c.clock[SINCE_US, job] = max(now, c.clock[SINCE_US, job])
        c.progress[PACE, job] = speed
        end = c.clock[SINCE_US, job] + math.ceil(c.progress[LEFT, job] / speed)
        rebook(running, count, job, c.clock[END_US, job], end)
        c.clock[END_US, job] = end


@inlined
def rebook(running: Ints, count: int, job: int, before: int, after: int) -> None:
    """Move a running job to its place for another booked end."""
    at = place_of(running, count, before, job)
    while (at > 0 and after < running[0, at - 1]) or (
        at > 0 and after == running[0, at - 1] and job < running[1, at - 1]
    ):
        running[0, at], running[1, at] = running[0, at - 1], running[1, at - 1]
        at -= 1
    while at + 1 < count and (running[0, at + 1] < after or (running[0, at + 1] == after and running[1, at + 1] < job)):
        running[0, at], running[1, at] = running[0, at + 1], running[1, at + 1]
        at += 1
    running[0, at], running[1, at] = after, job
