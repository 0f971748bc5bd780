"""Compiled: the place for a job that costs the data centre least, among all on which no deadline is lost.

O(devices x sharers + nodes x pools x sizes) a job. The idea and the costs are unrack's own; see ``lookahead.py``.

Compiled: a pass over the queue that places jobs of one task with their pooled devices itself.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from unrack.jit import compiled, inlined, melted
from unrack.kernels.arrays import Floats, Ints
from unrack.ledger.columns import ASKED_CORES, ASKED_MB, ASKED_US, CPU, MEM
from unrack.ledger.devices.columns import (
    FREE_COUNT,
    GROUP,
    JOBS,
    KIND_OF,
    MODEL,
    NODE,
    PACE,
    POOL,
    SINCE_US,
    SIZE,
    SPLIT,
    DeviceColumns,
)
from unrack.ledger.devices.sharing import left_at, slowed, speed_of
from unrack.policy.discipline import walk
from unrack.policy.discipline.heads_kernel import refuse
from unrack.policy.discipline.queue_kernel import passed
from unrack.policy.discipline.skyline.columns import CHOOSE
from unrack.policy.placement.node_kernel import add_node
from unrack.policy.pools.compositions import finish_on, first_free, grown, has_room, least_devices, new_parts, node_of
from unrack.policy.pools.place_kernel import (
    FIRST_FIT,
    HARMFUL,
    LATE,
    LEADER,
    NO_CORES,
    NO_DEVICES,
    PoolAnswer,
    fits_on,
    new_group,
    others_choice,
    place,
    primary_kind,
    use_group,
)
from unrack.units import NEVER_US


@melted
def worth(free: int, cores: int, big: int) -> int:
    """Cores that a job costs on a node: its own, or those of the large jobs that no longer fit beside it."""
    return max(cores, big * (free // big - (free - cores) // big))


@melted
def extra_us(c: DeviceColumns, asks: Ints, group: int, but: int, dear: Floats, now: int, deadline_us: Ints) -> float:
    """Core x µs by which one more job slows the others on a group; infinite: one of them would miss its deadline."""
    model = c.group[MODEL, group]
    if model < 0 or c.frozen[model]:
        return 0.0
    total = 0.0
    speed = speed_of(c, model, c.group[SIZE, group], c.group[JOBS, group] + 1)
    for i in range(c.group[JOBS, group]):
        job = c.sharer[i, group]
        if job == but:  # another task of the gang that is being placed
            continue
        left, begins = left_at(c, job, now), max(now, c.clock[SINCE_US, job])
        ends = begins + left / c.progress[PACE, job]
        later = begins + left / (speed * slowed(c, group, node_of(c, job, group)))
        if deadline_us[job] >= 0 and ends <= deadline_us[job] < math.ceil(later):
            return math.inf
        total += max(0.0, later - ends) * asks[ASKED_CORES, job] * dear[node_of(c, job, group)]
    return total


@melted
def longer_us(c: DeviceColumns, group: int, but: int, ends: int, now: int) -> float:
    """By how much a group lives longer if a job joins it that ends at ``ends`` and slows down the others."""
    model = c.group[MODEL, group]
    speed = speed_of(c, model, c.group[SIZE, group], c.group[JOBS, group] + 1)
    before, after = float(now), float(ends)
    for i in range(c.group[JOBS, group]):
        job = c.sharer[i, group]
        if job == but:
            continue
        left, begins, pace = left_at(c, job, now), max(now, c.clock[SINCE_US, job]), c.progress[PACE, job]
        before = max(before, begins + left / pace)
        if model >= 0 and not c.frozen[model]:
            pace = speed * slowed(c, group, node_of(c, job, group))
        after = max(after, begins + left / pace)
    return after - before


@melted
def wasteful(c: DeviceColumns, group: int) -> bool:
    """Whether one more job on a group would make all of them together slower than they are without it."""
    model, jobs = c.group[MODEL, group], c.group[JOBS, group]
    if model < 0:
        return False
    now = speed_of(c, model, c.group[SIZE, group], jobs) * jobs
    return bool(speed_of(c, model, c.group[SIZE, group], jobs + 1) * (jobs + 1) < now * (1.0 - 1e-9))


class Ahead(NamedTuple):
    """What look-ahead knows."""

    big: int  # cores of a large job; cores that are left in smaller pieces count as lost to them
    worths: Floats  # float64[pools]: cores that a device of each pool is worth
    dear: Floats  # float64[nodes]: what a core of each node is worth


@compiled
def cheapest(
    c: DeviceColumns, asks: Ints, free: Ints, deadline_us: Ints, job: int, patient: bool, alone: bool, ahead: Ahead,
    now: int, answer: PoolAnswer,
) -> int:  # fmt: skip
    """Where a task costs least, in core x time; devices of its first kind count by what they are worth.

    Returns the node, or NO_CORES, NO_DEVICES, LATE, HARMFUL.

    Parameters
    ----------
    patient
        The job's own deadline does not count.
    alone
        Whether no job runs: one that is late even then is patient, as waiting would not help.
    answer
        Written.
    """
    node = cheapest_place(c, asks, free, deadline_us, job, patient, ahead, now, answer)
    if node == LATE and alone:
        node = cheapest_place(c, asks, free, deadline_us, job, True, ahead, now, answer)
    return int(node)


@inlined
def cheapest_place(
    c: DeviceColumns, asks: Ints, free: Ints, deadline_us: Ints, job: int, patient: bool, ahead: Ahead, now: int,
    answer: PoolAnswer,
) -> int:  # fmt: skip
    """As :func:`cheapest`, of a job that is late wherever it goes LATE."""
    big, worths, dear = ahead
    cores, mb, expected_us = asks[ASKED_CORES, job], asks[ASKED_MB, job], asks[ASKED_US, job]
    answer.earliest[0] = NEVER_US
    nodes = free.shape[1]
    deadline = NEVER_US if patient or deadline_us[job] < 0 else deadline_us[job]
    primary = primary_kind(c, job, answer)
    best, tight, chosen = math.inf, 0, -1
    if primary < 0:
        for node in range(nodes):
            if free[CPU, node] < cores or free[MEM, node] < mb:
                continue
            cost = worth(free[CPU, node], cores, big) * dear[node]
            if cost < best or (cost == best and free[CPU, node] < tight):
                best, tight, chosen = cost, free[CPU, node], node
        return chosen if chosen >= 0 else NO_CORES
    roomy = False
    for node in range(nodes):
        roomy = roomy or (free[CPU, node] >= cores and free[MEM, node] >= mb)
    if not roomy:
        return NO_CORES
    late, harmful = False, False
    group, pool_chosen, size_chosen = -1, -1, 0
    for d in range(c.device.shape[1]):
        if c.device[GROUP, d] != d or not has_room(c, job, primary, d, False):
            continue
        if wasteful(c, d):
            continue
        home, pool = c.group[NODE, d], c.device[POOL, d]
        slowing = -1.0
        for i in range(c.nodes_near[pool], c.nodes_near[pool + 1] if home < 0 else c.nodes_near[pool] + 1):
            node = c.nodes_near[i] if home < 0 else home
            if not fits_on(c, free, job, primary, node, cores, mb, answer):
                continue
            if slowing < 0:
                slowing = extra_us(c, asks, d, job, dear, now, deadline_us)
            if slowing == math.inf:
                harmful = True
                break
            ends = finish_on(c, job, primary, d, node, expected_us, now)
            if ends > deadline:
                late = True
                answer.earliest[0] = min(answer.earliest[0], ends)
                continue
            longer = longer_us(c, d, job, ends, now) * c.group[SIZE, d]
            cost = (
                worth(free[CPU, node], cores, big) * dear[node] * (ends - now)
                + slowing
                + worths[c.device[POOL, d]] * longer
            )
            if cost < best or (cost == best and free[CPU, node] < tight):
                best, tight, chosen, group = cost, free[CPU, node], node, d
    for pool in range(c.pool.shape[1]):
        if c.pool[KIND_OF, pool] != primary or c.pool[FREE_COUNT, pool] == 0:
            continue
        least = least_devices(c, job, primary, pool, False)
        if least == 0 or (c.pool[SPLIT, pool] > 1 and new_parts(c, job, primary, pool) == 0):
            continue
        model = c.model[primary, job]
        most = min(grown(c, job, primary, pool, least), c.pool[FREE_COUNT, pool])
        head, parts = first_free(c, pool), max(new_parts(c, job, primary, pool), 1)
        for i in range(c.nodes_near[pool], c.nodes_near[pool + 1]):
            node = c.nodes_near[i]
            if not fits_on(c, free, job, primary, node, cores, mb, answer):
                continue
            base = expected_us / slowed(c, head, node)
            for size in range(least, most + 1):
                speed = speed_of(c, model, size, 1)
                if speed <= 0.0:
                    continue
                lasts = base / speed
                if now + math.ceil(lasts) > deadline:
                    late = True
                    answer.earliest[0] = min(answer.earliest[0], now + math.ceil(lasts))
                    continue
                cost = worth(free[CPU, node], cores, big) * dear[node] * lasts + worths[pool] * lasts * size / parts
                if cost < best or (cost == best and free[CPU, node] < tight):
                    best, tight, chosen, group, pool_chosen, size_chosen = cost, free[CPU, node], node, -1, pool, size
    if chosen < 0:
        if late:
            return LATE
        return HARMFUL if harmful else NO_DEVICES
    if group >= 0:
        use_group(c, group, answer.rows[primary])
    else:
        new_group(c, job, primary, pool_chosen, size_chosen, 0, answer.rows[primary])
    others_choice(c, job, primary, chosen, FIRST_FIT, 0.0, answer)
    return chosen


@compiled
def pass_over(
    c: DeviceColumns, total: Ints, deadline_us: Ints, rule: int, authors: bool, ahead: Any, answer: PoolAnswer,
    order: Ints, second: Ints, now: int, running: int, sky: Any,
) -> int:  # fmt: skip
    """As :func:`unrack.policy.discipline.queue_kernel.pass_over`.

    Of kinds that are IN_KERNEL it asks nothing as long as no job has taken devices, but where one has a place and it is
    not to take it. The one that does is TAKER, on the node ANSWER, with the devices of ``answer``.

    Parameters
    ----------
    c, total, deadline_us, rule, authors, answer
        As of :func:`unrack.policy.pools.place_kernel.place`.
    ahead
        :class:`unrack.policy.pools.lookahead_kernel.Ahead`, for look-ahead; ``None``: by ``rule``.
    """
    far = sky.walk
    while True:
        count = passed(order, second, now, running, sky)
        job = far[walk.ASKING]
        kind = sky.kind[job]
        here = count == CHOOSE and far[walk.STAGE] == walk.PLACED and far[walk.TAKER] < 0
        closed = far[walk.BACKFILL] == 0 and far[walk.HEADS] > 0  # nodes are set aside for those that wait
        if not here or closed or kind < 0 or sky.late[walk.IN_KERNEL, kind] == 0:
            return int(count)
        if ahead is None:
            node = place(c, sky.asks, sky.now, total, deadline_us, job, rule, now, 0.0, 0.0, answer, authors)
        else:
            late, alone = sky.due[walk.DUE_END, job] < now, running + far[walk.COUNT] == 0
            node = cheapest(c, sky.asks, sky.now, deadline_us, job, late, alone, ahead, now, answer)
        if node >= 0 and far[walk.TAKES] == 0:
            return int(count)
        if node < 0:
            refuse(job, kind, -node, answer.earliest[0], sky)
            continue
        far[walk.FOUND] = add_node(
            sky.out, far[walk.ROWS], far[walk.ROWS], node, 1, sky.asks[ASKED_CORES, job], sky.asks[ASKED_MB, job]
        )
        for asked in range(c.needs.shape[0]):
            if c.needs[asked, job]:
                far[walk.TAKER], far[walk.ANSWER] = job, node
                far[walk.OPENS] = max(far[walk.OPENS], int(answer.rows[asked, LEADER] < 0))
