"""Compiled: where one job with its pooled devices would go now. Nothing is changed; the answer is in ``answer``.

O(devices + pairs of a node and a pool in its reach) a job.
"""

from __future__ import annotations

import math
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from unrack.jit import compiled, inlined, melted
from unrack.ledger.devices.columns import (
    COMPOSE,
    FIRST,
    FREE,
    FREE_COUNT,
    GROUP,
    JOBS,
    KIND,
    KIND_OF,
    MODEL,
    NODE,
    PACE,
    PARTS,
    POOL,
    READY_US,
    SHARE,
    SINCE_US,
    SIZE,
    SPLIT,
    Columns,
)  # fmt: skip
from unrack.ledger.devices.sharing import left_at, slowed, speed_of
from unrack.ledger.names import ASKED_CORES, ASKED_MB, ASKED_US, CPU, MEM
from unrack.units import NEVER_US

Ints = NDArray[np.int64]


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
"""Columns of a row of ``answer``: the group in use (-1: a new one), how many devices, parts, and then the devices."""
NO_CORES, NO_DEVICES, LATE, HARMFUL = -1, -2, -3, -4
"""Why there is no place: no node has the cores; there is no device; on the compositions that have room the job would be
late; or it would make others late. Time alone changes only the last two."""
ROUNDING_US = 1
"""Ends are sums of floats: in the authors' reading, an end so little after a deadline meets it."""


@inlined
def least_devices(c: Columns, job: int, kind: int, pool: int, hard: bool) -> int:
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
def grown(c: Columns, job: int, kind: int, pool: int, least: int) -> int:
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
def new_parts(c: Columns, job: int, kind: int, pool: int) -> int:
    """Into how many parts to split a free device so that the job fits in one (Call 2022, Alg. 3); 0: not split."""
    if c.pool[SPLIT, pool] <= 1:
        return 0
    parts = c.pool[SPLIT, pool]
    for q in range(c.capacity.shape[0]):
        if c.wants[kind, q, job] > 0:
            parts = min(parts, c.capacity[q, c.pool[FIRST, pool]] // c.wants[kind, q, job])
    return int(parts)


@melted
def has_room(c: Columns, job: int, kind: int, group: int, hard: bool) -> bool:
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
    c: Columns, job: int, kind: int, group: int, node: int, expected_us: int, now: int, authors: bool = False
) -> int:  # fmt: skip
    """When a job would end if it joined a group now, µs; ``authors``: at the speed without it."""
    jobs = c.group[JOBS, group] + (0 if authors else 1)
    speed = speed_of(c, c.model[kind, job], c.group[SIZE, group], jobs) * slowed(c, group, node)
    return int(max(now, c.group[READY_US, group]) + math.ceil(expected_us / speed))


@inlined
def harms(c: Columns, group: int, but: int, now: int, deadline_us: Ints, authors: bool) -> bool:
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
def node_of(c: Columns, job: int, group: int) -> int:
    """On which node a job holds its share of a group."""
    for h in range(c.job_group.shape[0]):
        if c.job_group[h, job] == group:
            return int(c.job_node[h, job])
    return -1


@inlined
def lives_us(c: Columns, group: int, but: int, now: int) -> int:
    """How long a group will live if nobody joins: until its last job ends, µs; the tasks of ``but`` have not begun."""
    longest = 0
    for i in range(c.group[JOBS, group]):
        job = c.sharer[i, group]
        if job == but:
            continue
        ends = max(now, c.clock[SINCE_US, job]) + math.ceil(left_at(c, job, now) / c.progress[PACE, job])
        longest = max(longest, ends - now)
    return longest


@inlined
def spare(c: Columns, job: int, kind: int, group: int) -> float:
    """What would be left of a group: bandwidth in MB/s plus capacity in GB (Call et al. 2022, eq. 1)."""
    total = 0.0
    for q in range(c.capacity.shape[0]):
        left = c.installed[q, group] - c.held[q, group] - c.wants[kind, q, job]
        total += left / c.unit[q, kind]
    return total


@inlined
def alpha(c: Columns, job: int, kind: int, group: int, cores: int, free_cores: int) -> float:
    """Fragmentation that a job would leave on a group and its node (Call et al. 2022, eq. 2); less is better.

    What is free counts as 1 at least, so that a quantity that is used up counts as used very well; so do the cores.
    """
    used = 0.0
    for q in range(c.capacity.shape[0]):
        used += c.wants[kind, q, job] / max(c.installed[q, group] - c.held[q, group], 1)
    return (1.0 - used) / (max(cores, 1) / max(free_cores, 1))


@inlined
def whole_alpha(c: Columns, job: int, kind: int, group: int) -> float:
    """Equation 2 as the authors' program divides, towards 0 and also by less than nothing; cores count as 1."""
    used = 0
    for q in range(c.capacity.shape[0]):
        free = c.installed[q, group] - c.held[q, group]
        whole = c.wants[kind, q, job] // max(abs(free), 1)
        used += whole if free >= 0 else -whole
    return 1.0 - used


@inlined
def offers(c: Columns, job: int, kind: int, hard: bool, grow: bool, sizes: Ints) -> None:
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
def pool_at(c: Columns, node: int, sizes: Ints) -> int:
    """The first pool that the node reaches and that offers devices; -1: none."""
    for i in range(c.pools_near[node], c.pools_near[node + 1]):
        if sizes[c.pools_near[i]] > 0:
            return int(c.pools_near[i])
    return -1


@inlined
def first_free(c: Columns, pool: int) -> int:
    """The first free device of a pool that has one."""
    d = c.pool[FIRST, pool]
    while c.device[GROUP, d] != FREE:
        d += 1
    return int(d)


@inlined
def new_group(c: Columns, job: int, kind: int, pool: int, size: int, skip: int, row: Ints) -> None:
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
def use_group(c: Columns, group: int, row: Ints) -> None:
    """Write a group in use into a row of the answer."""
    row[LEADER], row[DEVICES], row[NEW_PARTS] = group, c.group[SIZE, group], c.group[PARTS, group]


@inlined
def best_at_nodes(c: Columns, job: int, kind: int, hard: bool, tight: bool, at: Ints) -> None:
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
def simple_fits(c: Columns, node: int, at: Ints, sizes: Ints) -> bool:
    """Whether the node has a device for the job: a group with room, or a free one."""
    return bool(at[node] >= 0 or pool_at(c, node, sizes) >= 0)


@inlined
def simple_choice(
    c: Columns, job: int, kind: int, node: int, rule: int, draw: float, at: Ints, sizes: Ints, row: Ints
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
def simple(
    c: Columns, free: Ints, job: int, cores: int, mb: int, rule: int, hard: bool, draw: float, draw2: float, at: Ints,
    sizes: Ints, answer: Ints,
) -> int:  # fmt: skip
    """First, best, worst or random fit over nodes, and on each over devices: the node, or why there is none."""
    kinds, nodes = c.needs.shape[0], free.shape[1]
    for kind in range(kinds):
        if c.needs[kind, job]:
            best_at_nodes(c, job, kind, hard, rule == BEST_FIT, at[kind])
            offers(c, job, kind, hard, False, sizes[kind])
    best, found, seen, wanted = -1, NO_CORES, 0, -1
    for turn in range(2 if rule == RANDOM_FIT else 1):
        for node in range(nodes):
            if free[CPU, node] < cores or free[MEM, node] < mb:
                continue
            if found == NO_CORES:
                found = NO_DEVICES
            fits = True
            for kind in range(kinds):
                if c.needs[kind, job] and not simple_fits(c, node, at[kind], sizes[kind]):
                    fits = False
            if not fits:
                continue
            if rule == FIRST_FIT or seen == wanted:
                best = node
                break
            if (rule == BEST_FIT and (best < 0 or free[CPU, node] < free[CPU, best])) or (
                rule == WORST_FIT and (best < 0 or free[CPU, node] > free[CPU, best])
            ):
                best = node
            seen += 1
        if rule == RANDOM_FIT and turn == 0:
            if seen == 0:
                break
            wanted, seen = min(int(draw * seen), seen - 1), 0
    if best < 0:
        return found
    for kind in range(kinds):
        if c.needs[kind, job]:
            simple_choice(c, job, kind, best, rule, draw2, at[kind], sizes[kind], answer[kind])
    return best


@melted
def better_node(free: Ints, total: Ints, node: int, than: int, rule: int) -> bool:
    """Whether a node is to be preferred: the first, the emptiest (eq. 3), or the one with most cores left (eq. 5.1)."""
    if than < 0:
        return True
    if rule == MIN_FRAGMENTATION:
        return bool(free[CPU, node] * total[CPU, than] > free[CPU, than] * total[CPU, node])
    return bool(rule == RESOURCE_AWARE and free[CPU, node] > free[CPU, than])


@melted
def others_fit(c: Columns, job: int, primary: int, node: int, at: Ints, sizes: Ints) -> bool:
    """Whether the node has what the job asks of other kinds than the primary one."""
    for kind in range(c.needs.shape[0]):
        if kind != primary and c.needs[kind, job] and not simple_fits(c, node, at[kind], sizes[kind]):
            return False
    return True


@inlined
def others_choice(c: Columns, job: int, primary: int, node: int, at: Ints, sizes: Ints, answer: Ints) -> None:
    """Choose, by first fit, what the job asks of other kinds than the primary one."""
    for kind in range(c.needs.shape[0]):
        if kind != primary and c.needs[kind, job]:
            simple_choice(c, job, kind, node, FIRST_FIT, 0.0, at[kind], sizes[kind], answer[kind])


@inlined
def primary_kind(c: Columns, job: int, at: Ints, sizes: Ints) -> int:
    """The first kind that a job asks for, -1: none; ``at`` and ``sizes`` are filled for the others."""
    primary = -1
    for kind in range(c.needs.shape[0]):
        if c.needs[kind, job]:
            if primary < 0:
                primary = kind
            else:
                best_at_nodes(c, job, kind, False, False, at[kind])
                offers(c, job, kind, False, False, sizes[kind])
    return primary


@inlined
def node_on(
    c: Columns, free: Ints, total: Ints, job: int, primary: int, group: int, rule: int, cores: int, mb: int, at: Ints,
    sizes: Ints,
) -> int:  # fmt: skip
    """The node on which a job would join a group, deadlines apart; -1: none has all it asks."""
    node = c.group[NODE, group]
    if node >= 0:
        fits = free[CPU, node] >= cores and free[MEM, node] >= mb and others_fit(c, job, primary, node, at, sizes)
        return int(node) if fits else -1
    pool = c.device[POOL, group]
    for i in range(c.nodes_near[pool], c.nodes_near[pool + 1]):
        n = c.nodes_near[i]
        if (
            free[CPU, n] >= cores and free[MEM, n] >= mb
            and better_node(free, total, n, node, rule)
            and others_fit(c, job, primary, n, at, sizes)
        ):  # fmt: skip
            node = n
    return int(node)


@inlined
def aware(
    c: Columns, free: Ints, total: Ints, job: int, cores: int, mb: int, rule: int, expected_us: int, deadline_us: Ints,
    now: int, at: Ints, sizes: Ints, answer: Ints, earliest: Ints, authors: bool,
) -> int:  # fmt: skip
    """Model-aware placement: join a composition on which no deadline is missed, or else make a new one."""
    nodes, late, harmful = free.shape[1], False, False
    primary = primary_kind(c, job, at, sizes)
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
        node = node_on(c, free, total, job, primary, d, rule, cores, mb, at, sizes)
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
            earliest[0] = min(earliest[0], ends)
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
        use_group(c, chosen, answer[primary])
        others_choice(c, job, primary, chosen_node, at, sizes, answer)
        return chosen_node
    best, found = -1, NO_CORES
    few = rule == MIN_FRAGMENTATION or (authors and whenever)
    for grow in (not few, False):
        # where as many free devices as help are not to be had, as few as the demand needs; but not by the authors
        offers(c, job, primary, False, grow, sizes[primary])
        for node in range(nodes):
            if free[CPU, node] < cores or free[MEM, node] < mb:
                continue
            found = NO_DEVICES
            if pool_at(c, node, sizes[primary]) < 0 or not others_fit(c, job, primary, node, at, sizes):
                continue
            # the resource-aware rule keeps room for what cannot be split; such devices themselves go by first fit
            composed = c.composable[pool_at(c, node, sizes[primary])]
            if best < 0 or (better_node(free, total, node, best, rule) and not (rule == RESOURCE_AWARE and composed)):
                best = node
            if rule == MAX_COMPOSITION:
                break
        if best >= 0:
            pool = pool_at(c, best, sizes[primary])
            new_group(c, job, primary, pool, sizes[primary, pool], 0, answer[primary])
            others_choice(c, job, primary, best, at, sizes, answer)
            return best
        if few or authors:
            break
    if authors and found != NO_CORES and not whenever:
        earliest[0] = 0  # one that is late may have a place, or the rule change: try every job like it
        return LATE
    if late:
        return LATE
    return HARMFUL if harmful else found


@compiled
def place(
    c: Columns, asks: Ints, free: Ints, total: Ints, deadline_us: Ints, job: int, rule: int, hard: bool, now: int,
    draw: float, draw2: float, at: Ints, sizes: Ints, answer: Ints, earliest: Ints,
    authors: bool = False,
) -> int:  # fmt: skip
    """Where a job of one task would go.

    Parameters
    ----------
    rule
        A :class:`PoolRule`.
    hard
        Whether every quantity is a hard limit, as for rules that do not use the models.
    draw, draw2
        From 0 to 1, for random fit: which node, which device.
    at : int64[kinds, nodes]
    sizes : int64[kinds, pools]
        Scratch.
    answer : int64[kinds, room]
        Per kind that the job asks: LEADER, DEVICES, NEW_PARTS, and the devices of a new group.
    earliest : int64[1]
        If LATE: when it would end on the composition that is best for it, µs: a job like it whose deadline is earlier
        has no place either.
    authors
        Whether the policies are read as the authors' program has them: see ``Pooled``.

    Returns
    -------
    int
        The node, or NO_CORES, NO_DEVICES, LATE, HARMFUL.
    """
    cores, mb = asks[ASKED_CORES, job], asks[ASKED_MB, job]
    earliest[0] = NEVER_US
    if rule <= RANDOM_FIT:
        return simple(c, free, job, cores, mb, rule, hard, draw, draw2, at, sizes, answer)
    return aware(
        c, free, total, job, cores, mb, rule, asks[ASKED_US, job], deadline_us, now, at, sizes, answer, earliest,
        authors,
    )  # fmt: skip
