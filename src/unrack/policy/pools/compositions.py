"""Compiled: what a composition, or free devices of a pool, could do for a job: room, speed, deadlines, what is left."""

from __future__ import annotations

import math

from unrack.jit import inlined, melted
from unrack.kernels.arrays import Ints
from unrack.ledger.devices.columns import (
    COMPOSE,
    FIRST,
    FREE,
    GROUP,
    JOBS,
    KIND,
    MODEL,
    PACE,
    PARTS,
    POOL,
    READY_US,
    SHARE,
    SINCE_US,
    SIZE,
    SPLIT,
    DeviceColumns,
)  # fmt: skip
from unrack.ledger.devices.sharing import left_at, slowed, speed_of

ROUNDING_US = 1
"""Ends are sums of floats: in the authors' reading, an end so little after a deadline meets it."""


@inlined
def least_devices(c: DeviceColumns, job: int, kind: int, pool: int, hard: bool) -> int:
    """How many devices of a pool the demand and the model need; 0: more than may be composed."""
    need = 1
    model = -1 if hard else c.model[kind, job]
    first = c.pool[FIRST, pool]
    for q in range(c.capacity.shape[0]):
        want = c.wants[kind, q, job]
        if want > 0 and not (model >= 0 and c.governed[model, q]):
            if c.capacity[q, first] == 0:
                return 0
            need = max(need, -(-want // c.capacity[q, first]))
    while need <= c.pool[COMPOSE, pool] and speed_of(c, c.model[kind, job], need, 1) <= 0.0:
        need += 1  # the model does not admit a job on so few
    return need if need <= c.pool[COMPOSE, pool] else 0


@inlined
def grown(c: DeviceColumns, job: int, kind: int, pool: int, least: int) -> int:
    """How many devices to compose while the predicted time still improves (Call et al. 2022, Alg. 1, lines 20-35).

    A job that asks for so many whole devices gets no more.
    """
    model, whole = c.model[kind, job], c.whole[kind]
    if model < 0 or (whole >= 0 and c.wants[kind, whole, job] > 0):
        return least
    size = least
    while size < c.pool[COMPOSE, pool] and speed_of(c, model, size + 1, 1) > speed_of(c, model, size, 1):
        size += 1
    return size


@inlined
def new_parts(c: DeviceColumns, job: int, kind: int, pool: int) -> int:
    """Into how many parts to split a free device so that the job fits in one (Call 2022, Alg. 3); 0: not split."""
    if c.pool[SPLIT, pool] <= 1:
        return 0
    parts = c.pool[SPLIT, pool]
    for q in range(c.capacity.shape[0]):
        if c.wants[kind, q, job] > 0:
            parts = min(parts, c.capacity[q, c.pool[FIRST, pool]] // c.wants[kind, q, job])
    return int(parts)


@melted
def has_room(c: DeviceColumns, job: int, kind: int, group: int, hard: bool) -> bool:
    """Whether a job could be the next on a group in use, cores and deadlines apart."""
    if c.device[KIND, group] != kind:
        return False
    model, jobs = c.model[kind, job], c.group[JOBS, group] + 1
    parts = c.group[PARTS, group]
    if c.group[MODEL, group] != model or jobs > c.pool[SHARE, c.device[POOL, group]] or (parts > 0 and jobs > parts):
        return False
    for q in range(c.capacity.shape[0]):
        want = c.wants[kind, q, job]
        if parts > 0:
            if want > c.installed[q, group] // parts:
                return False
        elif want + c.held[q, group] > c.installed[q, group] and (hard or not (model >= 0 and c.governed[model, q])):
            return False
    return speed_of(c, model, c.group[SIZE, group], jobs) > 0.0


@melted
def finish_on(
    c: DeviceColumns, job: int, kind: int, group: int, node: int, expected_us: int, now: int, authors: bool = False
) -> int:  # fmt: skip
    """When a job would end if it joined a group now, µs; ``authors``: at the speed without it."""
    jobs = c.group[JOBS, group] + (0 if authors else 1)
    speed = speed_of(c, c.model[kind, job], c.group[SIZE, group], jobs) * slowed(c, group, node)
    return int(max(now, c.group[READY_US, group]) + math.ceil(expected_us / speed))


@inlined
def harms(c: DeviceColumns, group: int, but: int, now: int, deadline_us: Ints, authors: bool) -> bool:
    """Whether one more job on a group would make one that is there miss its deadline (or it misses it anyway)."""
    model = c.group[MODEL, group]
    speed = speed_of(c, model, c.group[SIZE, group], c.group[JOBS, group] + 1)
    for i in range(c.group[JOBS, group]):
        job = c.sharer[i, group]
        if deadline_us[job] < 0 or job == but:
            continue
        pace = c.progress[PACE, job] if model < 0 else speed * slowed(c, group, node_of(c, job, group))
        end = max(now, c.clock[SINCE_US, job]) + math.ceil(left_at(c, job, now) / pace)
        if end > deadline_us[job] + (ROUNDING_US if authors else 0):
            return True
    return False


@melted
def node_of(c: DeviceColumns, job: int, group: int) -> int:
    """On which node a job holds its share of a group."""
    for h in range(c.job_group.shape[0]):
        if c.job_group[h, job] == group:
            return int(c.job_node[h, job])
    return -1


@inlined
def lives_us(c: DeviceColumns, group: int, but: int, now: int) -> int:
    """How long a group will live if no job joins: until its last job ends, µs; the tasks of ``but`` have not begun."""
    longest = 0
    for i in range(c.group[JOBS, group]):
        job = c.sharer[i, group]
        if job == but:
            continue
        ends = max(now, c.clock[SINCE_US, job]) + math.ceil(left_at(c, job, now) / c.progress[PACE, job])
        longest = max(longest, ends - now)
    return longest


@inlined
def spare(c: DeviceColumns, job: int, kind: int, group: int) -> float:
    """What would be left of a group: bandwidth in MB/s plus capacity in GB (Call et al. 2022, eq. 1)."""
    total = 0.0
    for q in range(c.capacity.shape[0]):
        left = c.installed[q, group] - c.held[q, group] - c.wants[kind, q, job]
        total += left / c.unit[q, kind]
    return total


@inlined
def alpha(c: DeviceColumns, job: int, kind: int, group: int, cores: int, free_cores: int) -> float:
    """Fragmentation that a job would leave on a group and its node (Call et al. 2022, eq. 2); less is better.

    What is free counts as 1 at least, so that a quantity that is used up counts as used very well; so do the cores.
    """
    used = 0.0
    for q in range(c.capacity.shape[0]):
        used += c.wants[kind, q, job] / max(c.installed[q, group] - c.held[q, group], 1)
    return (1.0 - used) / (max(cores, 1) / max(free_cores, 1))


@inlined
def whole_alpha(c: DeviceColumns, job: int, kind: int, group: int) -> float:
    """Equation 2 as the authors' program divides, towards 0 and also by less than nothing; cores count as 1."""
    used = 0
    for q in range(c.capacity.shape[0]):
        free = c.installed[q, group] - c.held[q, group]
        whole = c.wants[kind, q, job] // max(abs(free), 1)
        used += whole if free >= 0 else -whole
    return 1.0 - used


@inlined
def first_free(c: DeviceColumns, pool: int) -> int:
    """The first free device of a pool that has one."""
    d = c.pool[FIRST, pool]
    while c.device[GROUP, d] != FREE:
        d += 1
    return int(d)
