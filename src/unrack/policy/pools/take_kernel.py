"""Compiled: nodes, memory and devices for all tasks of one job, on what is free at a time or throughout one."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from unrack.jit import inlined
from unrack.kernels.arrays import Ints
from unrack.kernels.ordering import order_of, zeros
from unrack.ledger.columns import CPU, ENDS_US, MEM
from unrack.ledger.devices.columns import COUNT, KIND, KIND_OF, NEXT, POOL, SHARE
from unrack.ledger.devices.columns import FIRST as FIRST_OF_POOL
from unrack.ledger.devices.line_kernel import HELD, has_room, least, would_end
from unrack.ledger.devices.playing import (
    DEVICES,
    EXPECTED_US,
    HOLDER,
    JOB,
    LEASE,
    LEASES,
    NODE,
    PARTS,
    RUNNING,
    SHARES,
    START_US,
    take_one,
)
from unrack.ledger.devices.playing import FIRST as FIRST_SHARE
from unrack.ledger.devices.playing import FIRST_DEVICE as FIRST_OF
from unrack.ledger.devices.playing import LAST as LAST_SHARE
from unrack.ledger.devices.playing import LAST_DEVICE as LAST_OF
from unrack.ledger.devices.sharing import ROOM, TAKEN
from unrack.ledger.lease import BORROWER, FIRST, LENDER, LOAN_MB, LOCAL_MB, NODES, TASKS
from unrack.policy.discipline.skyline.columns import BOOKED, SHARERS
from unrack.policy.discipline.skyline.columns import LEASES as ROWS_SHORT
from unrack.policy.discipline.skyline.levels import short_of
from unrack.policy.discipline.skyline.steps import Slots, lent_by
from unrack.policy.lending.answers import Moment, write
from unrack.policy.lending.lease_kernel import Asker, Leases, may_hold, place_job
from unrack.policy.placement.node_kernel import add_node, gang_of
from unrack.policy.pools.compositions import least_devices
from unrack.policy.pools.place_kernel import DEVICES as SIZE
from unrack.policy.pools.place_kernel import (
    FIRST_DEVICE,
    LEADER,
    NEW_PARTS,
    PoolAnswer,
    close_unserved,
    look,
    others_choice,
    others_fit,
    pool_at,
)

NOWHERE = -2
"""There is no place: not NO_ROOM."""


class PoolRoom(NamedTuple):
    """What is left while the tasks of one job are placed."""

    cores: Ints  # int64[nodes]: cores that the next task may use; -1: the node takes none
    free: Ints  # int64[2, nodes]: free cores and MB
    lent: Ints  # int64[nodes]: MB of each that tasks elsewhere use; none, where no memory is lent
    may_lend: Ints  # int64[nodes]: how many MB each may lend and run tasks
    limit: Ints  # int64[nodes]: how many MB each may lend in all


@inlined
def take_devices(line: Any, job: int, node: int, start_us: int, answer: PoolAnswer, used: Ints) -> int:
    """Note and take the devices of a task, behind those ``used`` so far: TAKEN, or ROOM."""
    c, b = line.other, line.booked
    for kind in range(c.needs.shape[0]):
        if not c.needs[kind, job]:
            continue
        row, s, first = answer.rows[kind], used[SHARES], used[DEVICES]
        last, leader = first, row[LEADER]
        if leader >= 0:
            d = leader
            while d >= 0:
                b.device[last] = d
                last, d = last + 1, c.device[NEXT, d]
        else:
            for i in range(row[SIZE]):
                b.device[last] = row[FIRST_DEVICE + i]
                last += 1
        b.share[s, HOLDER], b.share[s, NODE], b.share[s, PARTS] = job, node, row[NEW_PARTS]
        b.share[s, FIRST_OF], b.share[s, LAST_OF] = first, last
        for q in range(b.amount.shape[1]):
            b.amount[s, q] = c.wants[kind, q, job]
        used[SHARES], used[DEVICES] = s + 1, last
        if take_one(c, b, s, start_us) != TAKEN:
            return ROOM
    return TAKEN


@inlined
def take_for_each(
    line: Any, job: int, rule: int, node: int, start_us: int, held: int, tasks: int, answer: PoolAnswer, used: Ints
) -> int:  # fmt: skip
    """How many of so many tasks of a node hold their devices then, beside those that do; -1: there is no room."""
    while held < tasks:
        look(line.other, job, rule, answer)
        if not others_fit(line.other, job, -1, node, answer):
            break
        others_choice(line.other, job, -1, node, rule, 0.0, answer)
        if take_devices(line, job, node, start_us, answer, used) == ROOM:
            return -1
        held += 1
    return held


@inlined
def mark_taken(line: Any, lease: int, kind: int, whole: int, taken: Ints) -> None:
    """Mark the devices of a kind that a lease shares with nobody; ``whole``: the quantity that counts them, or -1."""
    c, b = line.base, line.booked
    for s in range(b.lease[lease, FIRST_SHARE], b.lease[lease, LAST_SHARE]):
        first, last = b.share[s, FIRST_OF], b.share[s, LAST_OF]
        device = b.device[first]
        alone = c.pool[SHARE, c.device[POOL, device]] == 1 or (whole >= 0 and b.amount[s, whole] >= last - first)
        for i in range(first, last if alone and c.device[KIND, device] == kind else first):
            taken[b.device[i]] = 1


@inlined
def close_taken(line: Any, job: int, start_us: int, end_us: int, cores: Ints, answer: PoolAnswer) -> None:
    """Set ``cores`` (int64[nodes]) to -1 where others hold so many devices meanwhile that the job finds too few.

    A bound, which looks at booked ends alone: what is closed here would be by :func:`close_unserved`, which takes the
    devices as they are then.
    """
    c, b, play, held = line.base, line.booked, line.base_play, line.reserved.held
    for kind in range(c.needs.shape[0]):
        if not c.needs[kind, job]:
            continue
        whole, taken, sizes = c.whole[kind], zeros(c.device.shape[1]), answer.sizes[kind]
        whole = whole if whole >= 0 and c.wants[kind, whole, job] > 0 else -1
        for i in range(play.mark[RUNNING]):
            if play.running[ENDS_US, i] > start_us:
                mark_taken(line, play.running[LEASE, i], kind, whole, taken)
        for i in range(line.reserved.mark[HELD]):
            lease = held[LEASE, i]
            if b.lease[lease, START_US] < end_us and b.lease[lease, START_US] + b.lease[lease, EXPECTED_US] > start_us:
                mark_taken(line, lease, kind, whole, taken)
        for pool in range(c.pool.shape[1]):
            needed, left, first = 0, 0, c.pool[FIRST_OF_POOL, pool]
            if c.pool[KIND_OF, pool] == kind:
                needed = least_devices(c, job, kind, pool, True)
            for d in range(first, first + c.pool[COUNT, pool]):
                left += 1 - taken[d]
            sizes[pool] = 1 if 0 < needed <= left else 0
        for node in range(cores.shape[0]):
            if pool_at(c, node, sizes) < 0:
                cores[node] = -1


class Chooser(NamedTuple):
    """What chooses nodes, memory and devices together."""

    terms: Any  # on which memory is lent; ``None``: it is not
    aware: Any  # ranks lenders; ``None``: nothing does
    line: Any  # the devices over time
    answer: PoolAnswer
    rule: int  # by which rule devices are chosen
    fit: int  # and nodes that have all memory


class Taken(NamedTuple):
    """What the tasks of a job take on each node."""

    tasks: Ints  # int64[nodes]
    mb: Ints  # int64[nodes]: of its own memory
    loans: Ints  # int64[room, 3]
    used: Ints  # int64[3]: how much of the bookings is used, that of its tasks within


@inlined
def nothing_taken(job: int, line: Any, sky: Any) -> Taken:
    """Of a job that is to be placed, with room for its loans."""
    nodes = sky.installed.shape[2]
    room = most_loans(job, sky) if sky.may_lend.shape[0] > 0 else 0
    return Taken(zeros(nodes), zeros(nodes), np.empty((room, 3), np.int64), line.booked.used.copy())


@inlined
def most_loans(job: int, sky: Any) -> int:
    """How many loans a job may have."""
    return int(2 * sky.installed.shape[2] + gang_of(sky.asks, job).tasks)


@inlined
def room_at(job: int, whole: bool, moment: Moment, sky: Any) -> PoolRoom:
    """What a job finds of nodes and memory; ``whole``: only on nodes of which no job holds a core."""
    free, installed, lends = moment.free, sky.installed[sky.set_of[job]], sky.may_lend.shape[0] > 0
    nodes, slots = free.shape[1], Slots(sky.slot, sky.place_of, sky.free_places, moment.first)
    cores, lent, limit = np.empty(nodes, np.int64), zeros(nodes if lends else 0), zeros(moment.lendable.shape[0])
    for node in range(nodes):
        is_open = installed[CPU, node] > 0 and not (whole and free[CPU, node] < installed[CPU, node])
        if lends:
            lent[node] = lent_by(moment.left, moment.k, slots, sky.free_places.shape[0] - nodes, node)
            is_open = is_open and lent[node] <= sky.may_lend[node]
        if limit.shape[0] > 0:
            limit[node] = moment.lendable[node] + lent[node]  # beside what it lends already
        cores[node] = free[CPU, node] if is_open else -1
    return PoolRoom(cores, free.copy(), lent, sky.may_lend, limit)


@inlined
def take_tasks(
    job: int, start_us: int, until_us: int, running: int, how: Chooser, room: PoolRoom, taken: Taken, sky: Any
) -> int:  # fmt: skip
    """Take nodes, memory and devices for all tasks of a job from a time to another, µs: how many loans.

    NOWHERE: it has no place; NO_ROOM: there is too little room.
    """
    line, answer, none = how.line, how.answer, np.empty(0, np.int64)
    tasks, cores, mb, us = gang_of(sky.asks, job)
    us = max(1, us)
    nodes, lends, shares = room.cores.shape[0], room.lent.shape[0] > 0, tasks * line.other.needs.shape[0]
    if not has_room(line, shares, shares * (answer.rows.shape[1] - FIRST_DEVICE)):
        return short_of(sky.cursor, BOOKED)
    limit = room.limit.copy()
    for node in range(limit.shape[0]):
        limit[node] -= room.lent[node]
    asker = Asker(job, start_us, sky.running, running, tasks, cores, mb, us, none, none, limit)
    close_taken(line, job, start_us, until_us, room.cores, answer)
    if not may_hold(how.terms, room.free, room.cores, asker):  # asked first, as devices at a time cost more
        return NOWHERE
    if least(line, start_us, until_us) == ROOM:
        return short_of(sky.cursor, SHARERS)
    cores_at, loans, loan_end = np.empty(nodes, np.int64), taken.loans, 0
    found = Leases(np.empty((nodes, 5), np.int64), np.empty((2 * nodes, 3), np.int64))
    left, part, part_of = tasks, 0, -1  # of a node: tasks that have their devices there, and no memory yet
    while left > 0:
        asks = part if part > 0 else left
        if part == 0:
            close_unserved(line.other, job, how.rule, room.cores, answer)
        for node in range(nodes):
            if limit.shape[0] > 0:
                limit[node] = room.limit[node] - room.lent[node]
            if lends and part == 0 and room.lent[node] > room.may_lend[node]:
                room.cores[node] = -1
            cores_at[node] = room.cores[node] if part == 0 else room.free[CPU, node] if node == part_of else -1
        asker = Asker(job, start_us, sky.running, running, asks, cores, mb, us, none, none, limit)
        end, lent = place_job(
            how.terms, room.free, sky.installed[0], cores_at, False, how.fit, asker, how.aware, False, found
        )
        if end <= 0:
            return NOWHERE
        r, given, part, rows = 0, part, 0, found.rows
        while r < end:
            here, here_mb = rows[r, TASKS], rows[r, LOCAL_MB]
            for node in range(rows[r, FIRST], rows[r, FIRST] + rows[r, NODES]):
                held = take_for_each(line, job, how.rule, node, start_us, given, here, answer, taken.used)
                if held < 0:
                    return short_of(sky.cursor, SHARERS)
                if held < here:
                    part, part_of, end = held, node, 0
                    room.cores[node] = -1
                    break
                room.cores[node] -= cores * here
                room.free[CPU, node] -= cores * here
                room.free[MEM, node] -= here_mb
                taken.tasks[node] += here
                taken.mb[node] += here_mb
                left -= here
                for i in range(lent):
                    if found.loans[i, BORROWER] != node:
                        continue
                    if loan_end == loans.shape[0]:
                        return short_of(sky.cursor, ROWS_SHORT)
                    lender, mb_lent = found.loans[i, LENDER], found.loans[i, LOAN_MB]
                    loans[loan_end, BORROWER], loans[loan_end, LENDER], loans[loan_end, LOAN_MB] = node, lender, mb_lent
                    room.free[MEM, lender] -= mb_lent
                    room.lent[lender] += mb_lent
                    loan_end += 1
            r += 1
    return loan_end


@inlined
def book_tasks(
    job: int, start_us: int, running: int, how: Chooser, room: PoolRoom, taken: Taken, sky: Any
) -> tuple[int, int]:  # fmt: skip
    """As :func:`take_tasks`, for as long as the job asks; and the number of its lease, of which the end is noted."""
    us, line, b, used = max(1, gang_of(sky.asks, job).us), how.line, how.line.booked, taken.used
    loans, lease = take_tasks(job, start_us, start_us + us, running, how, room, taken, sky), b.used[LEASES]
    if loans < 0:
        return loans, -1
    b.lease[lease, JOB], b.lease[lease, START_US], b.lease[lease, EXPECTED_US] = job, start_us, us
    b.lease[lease, FIRST_SHARE], b.lease[lease, LAST_SHARE] = b.used[SHARES], used[SHARES]
    b.used[LEASES], b.used[SHARES], b.used[DEVICES] = lease + 1, used[SHARES], used[DEVICES]
    verdict = would_end(line, lease)
    if verdict == ROOM:
        return short_of(sky.cursor, SHARERS), -1
    return (loans, lease) if verdict == TAKEN else (NOWHERE, -1)


@inlined
def write_taken(
    job: int, whole: bool, taken: Taken, loans: int, how: Chooser, sky: Any, rows: Ints, row: int, claims: Ints,
    claim: int,
) -> tuple[int, int]:  # fmt: skip
    """Write what was taken, as of :func:`unrack.policy.lending.answers.write`: how many rows and claims."""
    nodes, cores, at = sky.installed.shape[2], gang_of(sky.asks, job).cores, 0
    out = Leases(np.empty((nodes, 5), np.int64), joined(taken.loans, loans))
    for node in range(nodes):
        count = taken.tasks[node]
        if count > 0:
            held = sky.installed[sky.set_of[job], CPU, node] if whole else cores * count
            # a row a node, as these are placed elsewhere
            start = at if how.terms is None and not whole and how.fit == 0 else 0
            at = add_node(out.rows, start, at, node, count, held, taken.mb[node])
    lent = out.loans.shape[0]
    write(job, out, at, lent, sky, rows, row, claims, claim)
    return at + lent, sky.fixed_at[1, job] - sky.fixed_at[0, job] + lent


@inlined
def joined(loans: Ints, count: int) -> Ints:
    """The first ``count`` loans, one for each pair of nodes: by borrower, and as they came."""
    borrower, found, end = np.empty(count, np.int64), np.empty((count, 3), np.int64), 0
    for i in range(count):
        borrower[i] = loans[i, BORROWER]
    for i in order_of(borrower):
        r = 0
        while r < end and not (found[r, BORROWER] == loans[i, BORROWER] and found[r, LENDER] == loans[i, LENDER]):
            r += 1
        if r == end:
            found[r, BORROWER], found[r, LENDER], found[r, LOAN_MB] = loans[i, BORROWER], loans[i, LENDER], 0
            end += 1
        found[r, LOAN_MB] += loans[i, LOAN_MB]
    return found[:end]
