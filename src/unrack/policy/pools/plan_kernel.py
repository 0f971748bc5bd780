"""Compiled: the choices of a plan for jobs that ask for pooled devices: nodes, memory and devices together.

The tasks of a job are placed as :mod:`unrack.policy.placement.mixed` has it for whatever else jobs may ask; here by
rules that look at no models and no deadlines.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from unrack.jit import inlined
from unrack.kernels.arrays import Ints
from unrack.kernels.ordering import order_of, zeros
from unrack.ledger.columns import ASKED_US, CPU, ENDS_US, MEM
from unrack.ledger.devices.columns import COUNT, KIND, KIND_OF, NEXT, POOL, SHARE
from unrack.ledger.devices.columns import FIRST as FIRST_OF_POOL
from unrack.ledger.devices.line_kernel import (
    ASKED,
    ASKED_AT,
    HELD,
    OLD,
    OLD_TURN,
    TRIED,
    give_up,
    has_room,
    least,
    reserve,
    would_end,
)
from unrack.ledger.devices.playing import (
    BEGAN,
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
from unrack.policy.discipline.skyline.columns import (
    AT,
    BOOKED,
    CHOSEN,
    CLAIMED,
    CLAIMS,
    CLAIMS_CHOSEN,
    LENGTH_CHOSEN,
    ROWS,
    ROWS_CHOSEN,
    SHARERS,
    STAGE,
    START,
    STEP,
)
from unrack.policy.discipline.skyline.columns import LEASES as ROWS_SHORT
from unrack.policy.discipline.skyline.levels import short_of
from unrack.policy.discipline.skyline.starting import leaves_open, lendable
from unrack.policy.discipline.skyline.steps import Slots, lent_by
from unrack.policy.lending.answers import write
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
def choose_devices(
    order: Ints, now: int, running: int, whole: bool, terms: Any, aware: Any, line: Any, answer: PoolAnswer, rule: int,
    fit: int, sky: Any,
) -> int:  # fmt: skip
    """Of a plan: choose for the job, at the step, that the cursor says, on the least of the levels.

    0; below that: there is too little room.
    """
    cursor, low, b, mark = sky.cursor, sky.low, line.booked, line.reserved.mark
    job, start_us = order[cursor[AT]], sky.times[cursor[STEP]]
    tasks, cores, mb, us = gang_of(sky.asks, job)
    us = max(1, us)
    nodes, kinds, installed = sky.installed.shape[2], line.other.needs.shape[0], sky.installed[sky.set_of[job]]
    fixed = sky.fixed_at[1, job] - sky.fixed_at[0, job]
    loans_room = 2 * nodes + tasks
    if cursor[ROWS] + nodes + loans_room > sky.new_rows.shape[0]:
        return short_of(cursor, ROWS_SHORT)
    if cursor[CLAIMS] + loans_room + fixed > sky.new_claims.shape[0]:
        return short_of(cursor, CLAIMED)
    used, compose = b.used.copy(), answer.rows.shape[1] - FIRST_DEVICE
    if not has_room(line, tasks * kinds, tasks * kinds * compose):
        return short_of(cursor, BOOKED)
    if mark[ASKED] != job:
        settle_last(line, sky.turn, sky.asks, now)
        mark[ASKED], mark[ASKED_AT] = job, cursor[AT]
        mark[OLD], mark[OLD_TURN] = give_up(line, job)
    mark[TRIED] = -1
    cursor[STAGE], cursor[ROWS_CHOSEN] = CHOSEN, -1
    lends = sky.may_lend.shape[0] > 0
    slots, first_place = Slots(sky.slot, sky.place_of, sky.free_places, sky.total.shape[2]), sky.free_places.shape[0]
    first_place -= nodes
    room = PoolRoom(
        np.empty(nodes, np.int64), np.empty((2, nodes), np.int64), zeros(nodes if lends else 0), sky.may_lend,
        zeros(nodes if lends else 0),
    )  # fmt: skip
    none = np.empty(0, np.int64)
    limit = lendable(order.shape[0], us, sky) if lends else none
    for node in range(nodes):
        is_open = installed[CPU, node] > 0
        if lends:
            already = lent_by(low, 0, slots, first_place, node)
            is_open = is_open and already <= sky.may_lend[node]
            room.lent[node] = already
            room.limit[node] = limit[node] + already  # beside what it lends already
        room.free[CPU, node], room.free[MEM, node] = low[0, CPU, node], low[0, MEM, node]
        is_open = is_open and not (whole and low[0, CPU, node] < installed[CPU, node])
        room.cores[node] = low[0, CPU, node] if is_open else -1
    asker = Asker(job, start_us, sky.running, running, tasks, cores, mb, us, none, none, limit)
    close_taken(line, job, start_us, start_us + us, room.cores, answer)
    if not may_hold(terms, room.free, room.cores, asker):  # asked first, as devices at a time cost more
        return 0
    if least(line, start_us, start_us + us) == ROOM:
        return short_of(cursor, SHARERS)
    count, local, cores_at = zeros(nodes), zeros(nodes), np.empty(nodes, np.int64)
    found = Leases(np.empty((nodes, 5), np.int64), np.empty((2 * nodes, 3), np.int64))
    loans, loan_end, first_share = np.empty((loans_room if lends else 0, 3), np.int64), 0, used[SHARES]
    left, part, part_of = tasks, 0, -1  # of a node: tasks that have their devices there, and no memory yet
    while left > 0:
        asks = part if part > 0 else left
        if part == 0:
            close_unserved(line.other, job, rule, room.cores, answer)
        for node in range(nodes):
            if lends:
                limit[node] = room.limit[node] - room.lent[node]
                if part == 0 and room.lent[node] > room.may_lend[node]:
                    room.cores[node] = -1
            cores_at[node] = room.cores[node] if part == 0 else room.free[CPU, node] if node == part_of else -1
        asker = Asker(job, start_us, sky.running, running, asks, cores, mb, us, none, none, limit)
        end, lent = place_job(terms, room.free, sky.installed[0], cores_at, False, fit, asker, aware, False, found)
        if end <= 0:
            return 0
        r, given, part, rows = 0, part, 0, found.rows
        while r < end:
            here, here_mb = rows[r, TASKS], rows[r, LOCAL_MB]
            for node in range(rows[r, FIRST], rows[r, FIRST] + rows[r, NODES]):
                held = take_for_each(line, job, rule, node, start_us, given, here, answer, used)
                if held < 0:
                    return short_of(cursor, SHARERS)
                if held < here:
                    part, part_of, end = held, node, 0
                    room.cores[node] = -1
                    break
                room.cores[node] -= cores * here
                room.free[CPU, node] -= cores * here
                room.free[MEM, node] -= here_mb
                count[node] += here
                local[node] += here_mb
                left -= here
                for i in range(lent):
                    if found.loans[i, BORROWER] != node:
                        continue
                    if loan_end == loans_room:
                        return short_of(cursor, ROWS_SHORT)
                    lender, mb_lent = found.loans[i, LENDER], found.loans[i, LOAN_MB]
                    loans[loan_end, BORROWER], loans[loan_end, LENDER], loans[loan_end, LOAN_MB] = node, lender, mb_lent
                    room.free[MEM, lender] -= mb_lent
                    room.lent[lender] += mb_lent
                    loan_end += 1
            r += 1
    lease = used[LEASES]
    b.lease[lease, JOB], b.lease[lease, START_US], b.lease[lease, EXPECTED_US] = job, start_us, us
    b.lease[lease, FIRST_SHARE], b.lease[lease, LAST_SHARE] = first_share, used[SHARES]
    b.used[LEASES], b.used[SHARES], b.used[DEVICES] = lease + 1, used[SHARES], used[DEVICES]
    verdict = would_end(line, lease)
    if verdict == ROOM:
        return short_of(cursor, SHARERS)
    if verdict != TAKEN:
        return 0
    length = line.here_play.done[BEGAN, lease] - start_us
    if loan_end > 0 and length > us and not leaves_open(order.shape[0], length, loans[:loan_end], sky):
        return 0
    mark[TRIED] = lease
    out = Leases(np.empty((nodes, 5), np.int64), joined(loans, loan_end))
    at = 0
    for node in range(nodes):
        if count[node] > 0:
            held = installed[CPU, node] if whole else cores * count[node]
            start = at if terms is None and not whole and fit == 0 else 0  # a row a node, as these are placed elsewhere
            at = add_node(out.rows, start, at, node, count[node], held, local[node])
    lent = out.loans.shape[0]
    write(job, out, at, lent, sky, sky.new_rows, cursor[ROWS], sky.new_claims, cursor[CLAIMS])
    cursor[ROWS_CHOSEN], cursor[LENGTH_CHOSEN] = at + lent, length
    cursor[CLAIMS_CHOSEN] = fixed + lent
    return 0


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
