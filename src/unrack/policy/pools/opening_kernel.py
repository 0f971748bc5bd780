"""Compiled: when time alone will open a composition to a job that may not join it now.

Jobs that share a composition use up their work, so that one more slows them down forever less: the end of a sharer
beside one more falls with the moment at which that one joins, until it is harmless. Nothing else changes between two
events but this, and that jobs become late. O(jobs x devices x (sharers + nodes)).
"""

from __future__ import annotations

import math

from unrack.jit import compiled, inlined, melted
from unrack.kernels.arrays import Ints
from unrack.ledger.columns import ASKED_CORES, ASKED_MB, ASKED_US
from unrack.ledger.devices.columns import (
    FREE_COUNT,
    GROUP,
    JOBS,
    KIND_OF,
    LEFT,
    MODEL,
    NODE,
    PACE,
    PARTS,
    POOL,
    SINCE_US,
    SIZE,
    SPLIT,
    DeviceColumns,
)  # fmt: skip
from unrack.ledger.devices.sharing import left_at, slowed, speed_of
from unrack.policy.pools.compositions import ROUNDING_US, finish_on, grown, has_room, least_devices, new_parts, node_of
from unrack.policy.pools.lookahead_kernel import wasteful
from unrack.policy.pools.place_kernel import (
    MAX_COMPOSITION,
    MIN_FRAGMENTATION,
    RESOURCE_AWARE,
    PoolAnswer,
    fits_on,
    node_on,
    primary_kind,
)
from unrack.units import NEVER_US, SECOND_US


@melted
def whole_second(us: int) -> int:
    """The first whole second at or after a moment, µs."""
    return us if us >= NEVER_US else -(-us // SECOND_US) * SECOND_US


@melted
def suffers(c: DeviceColumns, job: int, pace: float, at_us: int, deadline: int, protected: bool) -> bool:
    """Whether a sharer misses its deadline if it goes on at a pace from a moment on.

    ``protected``: only one that would be on time otherwise, as in
    :func:`unrack.policy.pools.lookahead_kernel.extra_us`.
    """
    left, begins = left_at(c, job, at_us), max(at_us, c.clock[SINCE_US, job])
    if protected:
        return bool(begins + left / c.progress[PACE, job] <= deadline < math.ceil(begins + left / pace))
    return bool(begins + math.ceil(left / pace) > deadline)


@inlined
def bearable_from(c: DeviceColumns, job: int, pace: float, now: int, deadline: int, protected: bool) -> int:
    """The first moment from which a sharer that suffers now bears a pace; NEVER_US: none before its end.

    With W left at S and the speed P until t, it ends at t + (W - (t - S) P) / p, which is the deadline D at
    t = S + (W - (D - S) p) / (P - p). The microsecond is found by trying around that.
    """
    work, since, before = c.progress[LEFT, job], c.clock[SINCE_US, job], c.progress[PACE, job]
    if pace >= before:
        return NEVER_US
    low, high = now, since + math.ceil(work / before)
    if high <= low or suffers(c, job, pace, high, deadline, protected):
        return NEVER_US
    around = since + (work - (deadline - since) * pace) / (before - pace)
    for guess in (math.floor(max(around, low)) - 1, math.ceil(min(max(around, low), high)) + 1):
        if low < guess < high:
            if suffers(c, job, pace, guess, deadline, protected):
                low = guess
            else:
                high = guess
    while high - low > 1:
        middle = (low + high) // 2
        if suffers(c, job, pace, middle, deadline, protected):
            low = middle
        else:
            high = middle
    return int(high)


@inlined
def open_from(
    c: DeviceColumns, group: int, more: int, but: int, now: int, deadline_us: Ints, protected: bool, spare_us: int
) -> int:  # fmt: skip
    """From when on so many more jobs on a group harm no job there: ``now``: at once; NEVER_US: not by time alone.

    ``spare_us``: by how much a sharer may end after its deadline.
    """
    model = c.group[MODEL, group]
    if protected and (model < 0 or c.frozen[model]):
        return now
    speed = speed_of(c, model, c.group[SIZE, group], c.group[JOBS, group] + more)
    if speed <= 0.0:
        return NEVER_US
    at_us = now
    for _turn in range(3):  # one that is bearable later may have been harmless only until then
        before = at_us
        for i in range(c.group[JOBS, group]):
            job = c.sharer[i, group]
            if deadline_us[job] < 0 or job == but:
                continue
            pace = c.progress[PACE, job] if model < 0 else speed * slowed(c, group, node_of(c, job, group))
            due = deadline_us[job] + spare_us
            if suffers(c, job, pace, at_us, due, protected):
                at_us = bearable_from(c, job, pace, at_us, due, protected)
                if at_us >= NEVER_US:
                    return NEVER_US
        if at_us == before:
            return at_us
    return NEVER_US


@compiled
def opening(
    c: DeviceColumns, asks: Ints, free: Ints, total: Ints, deadline_us: Ints, jobs: Ints, late_us: Ints, rule: int,
    now: int, answer: PoolAnswer, authors: bool,
) -> int:  # fmt: skip
    """The first moment after ``now`` at which one of the jobs may join a composition in use; NEVER_US: none.

    By the authors, in whole seconds. One that becomes late may also make a composition then, where it asks for less by
    then, or was refused because it would have been late.

    Parameters
    ----------
    jobs : int64[k]
        Jobs of one task without a place now.
    late_us : int64[k]
        From when on the deadline of each counts no more; NEVER_US: it always does.
    rule, answer, authors
        As in :func:`unrack.policy.pools.place_kernel.place`, of the rules that know models; a rule below 0: as of
        :func:`unrack.policy.pools.lookahead_kernel.cheapest_place`.
    """
    first, spare_us, ahead = NEVER_US, ROUNDING_US if authors else 0, rule < 0
    for k in range(len(jobs)):
        job, late_from = jobs[k], late_us[k]
        deadline, expected_us = deadline_us[job], asks[ASKED_US, job]
        cores, mb = asks[ASKED_CORES, job], asks[ASKED_MB, job]
        primary = primary_kind(c, job, answer)
        if primary < 0:
            continue
        asks_less = (ahead or (authors and rule == MAX_COMPOSITION)) and now < late_from < first
        if asks_less and may_begin(c, free, job, primary, cores, mb, answer):
            first = late_from
        for d in range(c.device.shape[1]):
            if c.device[GROUP, d] != d or not has_room(c, job, primary, d, False) or (ahead and wasteful(c, d)):
                continue
            only, pool, opens = c.group[NODE, d], c.device[POOL, d], -1
            if not ahead:
                only = node_on(c, free, total, job, primary, d, rule, cores, mb, answer)
                if only < 0:
                    continue
            alone = rule == RESOURCE_AWARE and c.group[PARTS, d] > 0  # only its own deadline counts
            for i in range(c.nodes_near[pool], c.nodes_near[pool + 1] if only < 0 else c.nodes_near[pool] + 1):
                node = c.nodes_near[i] if only < 0 else only
                if ahead and not fits_on(c, free, job, primary, node, cores, mb, answer):
                    continue
                if opens < 0:
                    opens = now if alone else open_from(c, d, 1, job, now, deadline_us, ahead, spare_us)
                    if authors and opens > now:
                        opens = whole_second(opens)
                if opens >= first:
                    break
                when = opens
                if deadline >= 0 and opens < late_from:
                    ends = finish_on(c, job, primary, d, node, expected_us, opens, authors)
                    if authors and rule == MIN_FRAGMENTATION:
                        ends = opens + expected_us
                    if ends > deadline:  # in time alone it cannot be, but it may count no more
                        when = late_from
                        if not alone and late_from < first:
                            when = open_from(c, d, 1, job, late_from, deadline_us, ahead, spare_us)
                            when = whole_second(when) if authors else when
                if now < when < first:
                    first = when
    return first


@inlined
def may_begin(c: DeviceColumns, free: Ints, job: int, primary: int, cores: int, mb: int, answer: PoolAnswer) -> bool:
    """Whether there are free devices for a new composition of some size, for a job to which its deadline is nothing."""
    for pool in range(c.pool.shape[1]):
        if c.pool[KIND_OF, pool] != primary or c.pool[FREE_COUNT, pool] == 0:
            continue
        least = least_devices(c, job, primary, pool, False)
        if least == 0 or (c.pool[SPLIT, pool] > 1 and new_parts(c, job, primary, pool) == 0):
            continue
        if min(grown(c, job, primary, pool, least), c.pool[FREE_COUNT, pool]) < least:
            continue
        for i in range(c.nodes_near[pool], c.nodes_near[pool + 1]):
            if fits_on(c, free, job, primary, c.nodes_near[i], cores, mb, answer):
                return True
    return False


@compiled
def closed_until(
    c: DeviceColumns, deadline_us: Ints, job: int, tasks: int, now: int, protected: bool, moments: Ints
) -> int:  # fmt: skip
    """When groups open to one, two … further tasks of a gang, in no order; returns how many moments there are."""
    found = 0
    for d in range(c.device.shape[1]):
        if c.device[GROUP, d] != d:
            continue
        for more in range(1, tasks + 1):
            opens = open_from(c, d, more, job, now, deadline_us, protected, 0)
            if now < opens < NEVER_US:
                moments[found] = opens
                found += 1
    return found
