"""Compiled: where one job with its pooled devices would go now. Nothing is changed; the answer is written.

O(devices + pairs of a node and a pool in its reach) a job.
"""

from __future__ import annotations

import math
from enum import IntEnum
from typing import NamedTuple

from unrack.jit import compiled, inlined, melted
from unrack.kernels.arrays import Ints
from unrack.ledger.columns import ASKED_CORES, ASKED_MB, ASKED_US, CPU, MEM
from unrack.ledger.devices.columns import (
    FREE,
    FREE_COUNT,
    GROUP,
    KIND_OF,
    NODE,
    PARTS,
    POOL,
    SIZE,
    SPLIT,
    DeviceColumns,
)  # fmt: skip
from unrack.policy.discipline import walk
from unrack.policy.pools.compositions import (
    alpha,
    finish_on,
    first_free,
    grown,
    harms,
    has_room,
    least_devices,
    lives_us,
    new_parts,
    spare,
    whole_alpha,
)
from unrack.units import NEVER_US


class PoolRule(IntEnum):
    """How a job is placed."""

    FIRST_FIT = 0
    BEST_FIT = 1
    WORST_FIT = 2
    RANDOM_FIT = 3
    MAX_COMPOSITION = 4
    MIN_FRAGMENTATION = 5
    RESOURCE_AWARE = 6


FIRST_FIT, BEST_FIT, WORST_FIT, RANDOM_FIT, MAX_COMPOSITION, MIN_FRAGMENTATION, RESOURCE_AWARE = (
    int(rule) for rule in PoolRule
)

LEADER, DEVICES, NEW_PARTS, FIRST_DEVICE = range(4)
"""Columns of :attr:`PoolAnswer.rows`: the group in use (-1: a new one), how many devices, parts, then the devices."""
NO_CORES, NO_DEVICES, LATE, HARMFUL = -walk.REFUSED, -walk.NO_DEVICES, -walk.LATE, -walk.CLOSED
"""Why there is no place: no node has the cores; there is no device; on the compositions that have room the job would be
late; or it would make others late. Time alone changes only the last two."""


class PoolAnswer(NamedTuple):
    """Room for where a job would go."""

    # int64[kinds, nodes], int64[kinds, pools]: scratch
    at: Ints
    sizes: Ints
    # int64[kinds, room]: per kind that the job asks: LEADER, DEVICES, NEW_PARTS, and the devices of a new group
    rows: Ints
    # int64[1]: if LATE: when it would end on the composition that is best for it, µs: a job like it with a deadline
    # that is earlier has no place either
    earliest: Ints


@inlined
def offers(c: DeviceColumns, job: int, kind: int, hard: bool, grow: bool, sizes: Ints) -> None:
    """Per pool, how many free devices it would give the job: as many as its demand needs, or as help; 0: none."""
    for pool in range(c.pool.shape[1]):
        sizes[pool] = 0
        if c.pool[KIND_OF, pool] != kind or c.pool[FREE_COUNT, pool] == 0:
            continue
        size = least_devices(c, job, kind, pool, hard)
        if size > 0 and grow:
            size = grown(c, job, kind, pool, size)
        if size > c.pool[FREE_COUNT, pool] or (c.pool[SPLIT, pool] > 1 and new_parts(c, job, kind, pool) == 0):
            continue
        sizes[pool] = size


@melted
def pool_at(c: DeviceColumns, node: int, sizes: Ints) -> int:
    """The first pool that the node reaches and that offers devices; -1: none."""
    for i in range(c.pools_near[node], c.pools_near[node + 1]):
        if sizes[c.pools_near[i]] > 0:
            return int(c.pools_near[i])
    return -1


@inlined
def new_group(c: DeviceColumns, job: int, kind: int, pool: int, size: int, skip: int, row: Ints) -> None:
    """Write the first ``size`` free devices of a pool, after ``skip`` of them, into a row of the answer."""
    row[LEADER], row[DEVICES], row[NEW_PARTS] = -1, size, new_parts(c, job, kind, pool)
    found, d = 0, first_free(c, pool)
    while found < size:
        if c.device[GROUP, d] == FREE:
            if skip > 0:
                skip -= 1
            else:
                row[FIRST_DEVICE + found] = d
                found += 1
        d += 1


@inlined
def use_group(c: DeviceColumns, group: int, row: Ints) -> None:
    """Write a group in use into a row of the answer."""
    row[LEADER], row[DEVICES], row[NEW_PARTS] = group, c.group[SIZE, group], c.group[PARTS, group]


@inlined
def best_at_nodes(c: DeviceColumns, job: int, kind: int, hard: bool, tight: bool, at: Ints) -> None:
    """Per node, the group in use that the job could join there: the first, or the one with least to spare; else -1.

    Groups that are attached to several nodes count at each node in reach.
    """
    at[:] = -1
    for d in range(c.device.shape[1]):
        if c.device[GROUP, d] != d or not has_room(c, job, kind, d, hard):
            continue
        only, pool = c.group[NODE, d], c.device[POOL, d]
        for i in range(c.nodes_near[pool], c.nodes_near[pool + 1] if only < 0 else c.nodes_near[pool] + 1):
            node = c.nodes_near[i] if only < 0 else only
            if at[node] < 0 or (tight and spare(c, job, kind, d) < spare(c, job, kind, at[node])):
                at[node] = d


@melted
def simple_fits(c: DeviceColumns, node: int, at: Ints, sizes: Ints) -> bool:
    """Whether the node has a device for the job: a group with room, or a free one."""
    return bool(at[node] >= 0 or pool_at(c, node, sizes) >= 0)


@inlined
def simple_choice(
    c: DeviceColumns, job: int, kind: int, node: int, rule: int, draw: float, at: Ints, sizes: Ints, row: Ints
) -> None:
    """The device for the job on a node that has one: the first by number, one in use if any, or any at random."""
    group = at[node]
    pool = pool_at(c, node, sizes)
    if pool >= 0 and rule == RANDOM_FIT and sizes[pool] == 1:
        choices = c.pool[FREE_COUNT, pool] + (1 if group >= 0 else 0)
        pick = min(int(draw * choices), choices - 1)
        if pick < c.pool[FREE_COUNT, pool]:
            new_group(c, job, kind, pool, 1, pick, row)
            return
    elif pool >= 0 and (group < 0 or (rule == FIRST_FIT and first_free(c, pool) < group)):
        new_group(c, job, kind, pool, sizes[pool], 0, row)
        return
    use_group(c, group, row)


@inlined
def look(c: DeviceColumns, job: int, rule: int, answer: PoolAnswer) -> None:
    """Note in the scratch of the answer what first, best, worst or random fit find at each node."""
    for kind in range(c.needs.shape[0]):
        if c.needs[kind, job]:
            best_at_nodes(c, job, kind, True, rule == BEST_FIT, answer.at[kind])
            offers(c, job, kind, True, False, answer.sizes[kind])


@melted
def others_fit(c: DeviceColumns, job: int, primary: int, node: int, answer: PoolAnswer) -> bool:
    """Whether the node has what the job asks of other kinds than the primary one (-1: of all)."""
    for kind in range(c.needs.shape[0]):
        if kind != primary and c.needs[kind, job] and not simple_fits(c, node, answer.at[kind], answer.sizes[kind]):
            return False
    return True


@inlined
def others_choice(
    c: DeviceColumns, job: int, primary: int, node: int, rule: int, draw: float, answer: PoolAnswer
) -> None:  # fmt: skip
    """Choose what the job asks of other kinds than the primary one (-1: of all)."""
    for kind in range(c.needs.shape[0]):
        if kind != primary and c.needs[kind, job]:
            at, sizes, row = answer.at[kind], answer.sizes[kind], answer.rows[kind]
            simple_choice(c, job, kind, node, rule, draw, at, sizes, row)


@compiled
def close_unserved(c: DeviceColumns, job: int, rule: int, cores: Ints, answer: PoolAnswer) -> None:
    """Set ``cores`` (int64[nodes]) to -1 where one more task finds no devices by first, best or worst fit."""
    look(c, job, rule, answer)
    for node in range(cores.shape[0]):
        if not others_fit(c, job, -1, node, answer):
            cores[node] = -1


@inlined
def simple(
    c: DeviceColumns, free: Ints, job: int, cores: int, mb: int, rule: int, draw: float, draw2: float,
    answer: PoolAnswer,
) -> int:  # fmt: skip
    """First, best, worst or random fit over nodes, and on each over devices: the node, or why there is none.

    Every quantity is a hard limit: these rules do not use the models.
    """
    nodes = free.shape[1]
    look(c, job, rule, answer)
    best, found, seen, wanted = -1, NO_CORES, 0, -1
    for turn in range(2 if rule == RANDOM_FIT else 1):
        for node in range(nodes):
            if free[CPU, node] < cores or free[MEM, node] < mb:
                continue
            if found == NO_CORES:
                found = NO_DEVICES
            if not others_fit(c, job, -1, node, answer):
                continue
            if rule == FIRST_FIT or seen == wanted:
                best = node
                break
            cores_more, mb_more = free[CPU, node] - free[CPU, best], free[MEM, node] - free[MEM, best]
            more = cores_more if cores_more != 0 else mb_more
            if best < 0 or (rule == BEST_FIT and more < 0) or (rule == WORST_FIT and more > 0):
                best = node
            seen += 1
        if rule == RANDOM_FIT and turn == 0:
            if seen == 0:
                break
            wanted, seen = min(int(draw * seen), seen - 1), 0
    if best < 0:
        return found
    others_choice(c, job, -1, best, rule, draw2, answer)
    return best


@melted
def better_node(free: Ints, total: Ints, node: int, than: int, rule: int) -> bool:
    """Whether a node is to be preferred: the first, the emptiest (eq. 3), or the one with most cores left (eq. 5.1)."""
    if than < 0:
        return True
    if rule == MIN_FRAGMENTATION:
        return bool(free[CPU, node] * total[CPU, than] > free[CPU, than] * total[CPU, node])
    return bool(rule == RESOURCE_AWARE and free[CPU, node] > free[CPU, than])


@inlined
def primary_kind(c: DeviceColumns, job: int, answer: PoolAnswer) -> int:
    """The first kind that a job asks for, -1: none; the scratch of the answer is filled for the others."""
    primary = -1
    for kind in range(c.needs.shape[0]):
        if c.needs[kind, job]:
            if primary < 0:
                primary = kind
            else:
                best_at_nodes(c, job, kind, False, False, answer.at[kind])
                offers(c, job, kind, False, False, answer.sizes[kind])
    return primary


@melted
def fits_on(
    c: DeviceColumns, free: Ints, job: int, primary: int, node: int, cores: int, mb: int, answer: PoolAnswer
) -> bool:
    """Whether the node has the cores and memory for a task, and the devices of other kinds than the primary one."""
    return bool(free[CPU, node] >= cores and free[MEM, node] >= mb and others_fit(c, job, primary, node, answer))


@inlined
def node_on(
    c: DeviceColumns, free: Ints, total: Ints, job: int, primary: int, group: int, rule: int, cores: int, mb: int,
    answer: PoolAnswer,
) -> int:  # fmt: skip
    """The node on which a job would join a group, deadlines apart; -1: none has all it asks."""
    node = c.group[NODE, group]
    if node >= 0:
        return int(node) if fits_on(c, free, job, primary, node, cores, mb, answer) else -1
    pool = c.device[POOL, group]
    for i in range(c.nodes_near[pool], c.nodes_near[pool + 1]):
        n = c.nodes_near[i]
        if better_node(free, total, n, node, rule) and fits_on(c, free, job, primary, n, cores, mb, answer):
            node = n
    return int(node)


@inlined
def aware(
    c: DeviceColumns, asks: Ints, free: Ints, total: Ints, job: int, rule: int, deadline_us: Ints, now: int,
    answer: PoolAnswer, authors: bool,
) -> int:  # fmt: skip
    """Model-aware placement: join a composition on which no deadline is missed, or else make a new one."""
    nodes, late, harmful = free.shape[1], False, False
    cores, mb, expected_us = asks[ASKED_CORES, job], asks[ASKED_MB, job], asks[ASKED_US, job]
    primary = primary_kind(c, job, answer)
    if primary < 0:
        best = -1
        for node in range(nodes):
            if free[CPU, node] >= cores and free[MEM, node] >= mb and better_node(free, total, node, best, rule):
                best = node
                if rule == MAX_COMPOSITION:
                    break
        return best if best >= 0 else NO_CORES
    chosen, chosen_node, first, second = -1, -1, math.inf, math.inf
    whenever = deadline_us[job] < 0 or (authors and deadline_us[job] < now)
    for d in range(c.device.shape[1]):
        if c.device[GROUP, d] != d or not has_room(c, job, primary, d, False):
            continue
        node = node_on(c, free, total, job, primary, d, rule, cores, mb, answer)
        if node < 0:
            continue
        # Alg. 4 asks only about the new job on a vGPU, Alg. 1 and 2 about all that share
        if not (rule == RESOURCE_AWARE and c.group[PARTS, d] > 0) and harms(c, d, job, now, deadline_us, authors):
            harmful = True
            continue
        ends = finish_on(c, job, primary, d, node, expected_us, now, authors)
        if authors and rule == MIN_FRAGMENTATION:
            ends = now + expected_us
        if not whenever and ends > deadline_us[job]:
            late = True
            answer.earliest[0] = min(answer.earliest[0], ends)
            continue
        one, two = 0.0, 0.0
        if rule == MAX_COMPOSITION:
            one, two = float(ends - now - lives_us(c, d, job, now)), spare(c, job, primary, d)
        elif rule == MIN_FRAGMENTATION:
            one = alpha(c, job, primary, d, cores, free[CPU, node])
            if authors:
                one = whole_alpha(c, job, primary, d)
        if one < first or (one == first and two < second):
            chosen, chosen_node, first, second = d, node, one, two
    if chosen >= 0:
        use_group(c, chosen, answer.rows[primary])
        others_choice(c, job, primary, chosen_node, FIRST_FIT, 0.0, answer)
        return chosen_node
    best, found, sizes = -1, NO_CORES, answer.sizes[primary]
    few = rule == MIN_FRAGMENTATION or (authors and whenever)
    for grow in (not few, False):
        # where as many free devices as help are not to be had, as few as the demand needs; but not by the authors
        offers(c, job, primary, False, grow, sizes)
        for node in range(nodes):
            if free[CPU, node] < cores or free[MEM, node] < mb:
                continue
            found = NO_DEVICES
            if pool_at(c, node, sizes) < 0 or not others_fit(c, job, primary, node, answer):
                continue
            # the resource-aware rule keeps room for what cannot be split; such devices themselves go by first fit
            composed = c.composable[pool_at(c, node, sizes)]
            if best < 0 or (better_node(free, total, node, best, rule) and not (rule == RESOURCE_AWARE and composed)):
                best = node
            if rule == MAX_COMPOSITION:
                break
        if best >= 0:
            pool = pool_at(c, best, sizes)
            new_group(c, job, primary, pool, sizes[pool], 0, answer.rows[primary])
            others_choice(c, job, primary, best, FIRST_FIT, 0.0, answer)
            return best
        if few or authors:
            break
    if authors and found != NO_CORES and not whenever:
        answer.earliest[0] = 0  # one that is late may have a place, or the rule change: try every job like it
        return LATE
    if late:
        return LATE
    return HARMFUL if harmful else found


@compiled
def place(
    c: DeviceColumns, asks: Ints, free: Ints, total: Ints, deadline_us: Ints, job: int, rule: int, now: int,
    draw: float, draw2: float, answer: PoolAnswer, authors: bool = False,
) -> int:  # fmt: skip
    """Where a job of one task would go.

    Returns the node, or NO_CORES, NO_DEVICES, LATE, HARMFUL.

    Parameters
    ----------
    rule
        A :class:`PoolRule`.
    draw, draw2
        From 0 to 1, for random fit: which node, which device.
    answer
        Written.
    authors
        Whether the policies are read as the authors' program has them: see ``Pooled``.
    """
    answer.earliest[0] = NEVER_US
    if rule <= RANDOM_FIT:
        return simple(c, free, job, asks[ASKED_CORES, job], asks[ASKED_MB, job], rule, draw, draw2, answer)
    return aware(c, asks, free, total, job, rule, deadline_us, now, answer, authors)
