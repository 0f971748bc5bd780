"""Compiled: events and rounds, one after the other, as long as only arrivals, ends and nodes are involved.

It does what :class:`unrack.sim.kernel.Kernel` does with :class:`unrack.core.Core` and a list scheduler, on the columns
of the same ledger and with the same pass over the queue (:mod:`unrack.policy.discipline.queue_kernel`). The tests hold
one to the other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from unrack.events import BOOKED, FINISH, LATE_FINISH, SUBMIT
from unrack.jit import compiled, inlined, melted
from unrack.kernels.arrays import Ints
from unrack.ledger.columns import ASKED_CORES, ASKED_TASKS, ASKED_US, ENDS_US, FIRST_ROW, ROW, ROW_COUNT, ROW_END
from unrack.ledger.holding import find_running, insert_running, remove_running, strike
from unrack.ledger.lease import CORES, NODES
from unrack.ledger.nodes import give_rows
from unrack.ledger.state import FINISHED, QUEUED, REJECTED, RUNNING
from unrack.policy.discipline.queue_kernel import any_may_fit, are_apart, begin_walk, consider, nothing_new
from unrack.policy.discipline.skyline.columns import CLAIM, CLAIM_END
from unrack.policy.discipline.skyline.steps import Slots
from unrack.policy.discipline.walk import CLAIMS, ROWS
from unrack.resources.places import AMOUNT, PLACE
from unrack.sim.compiled.columns import (
    ABOUT,
    ASKING,
    AT,
    CHOOSE,
    CLAIMS_USED,
    COMPLETE,
    ENDED,
    ENDED_CLAIMS,
    ENDED_ROWS,
    ENDS,
    EVENTS,
    FREE_CORES,
    GO_ON,
    HELD,
    JOB,
    KEY,
    KNOWN,
    LAST_JOB,
    LOG_FULL,
    NEEDED,
    NEXT,
    NO_ROOM,
    NOW,
    OVER,
    PAUSED,
    POOL_DEAD,
    POOL_USED,
    QUEUE_END,
    QUEUE_START,
    RANK_SHIFT,
    RELEASES,
    ROUND,
    ROUND_ONLY,
    RUNNING_COUNT,
    SEEN_RELEASES,
    SEQUENCE,
    SOMETHING,
    STAGE,
    UNFORESEEN,
    VALID,
    VERSION,
    WAKE,
    PlanTerms,
    RunConstants,
    World,
    drop_first,
    push,
)
from unrack.units import NEVER_US

nothing_new_here = inlined(nothing_new)


@inlined
def place_of(rank: Ints, ranked: Ints, count: int, job: int) -> int:
    """Where a job is, or would be, among ``count`` jobs by rank."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if rank[ranked[middle]] < rank[job]:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def rank_in(rank: Ints, ranked: Ints, count: int, job: int) -> None:
    """Put a job at its place among ``count`` jobs by rank."""
    place = place_of(rank, ranked, count, job)
    for i in range(count, place, -1):
        ranked[i] = ranked[i - 1]
    ranked[place] = job


@inlined
def rank_out(rank: Ints, ranked: Ints, count: int, job: int) -> None:
    """Take a job out of ``count`` jobs by rank."""
    for i in range(place_of(rank, ranked, count, job), count - 1):
        ranked[i] = ranked[i + 1]


@inlined
def places_in(order: Ints, behind: Ints, rank: Ints) -> Ints:
    """Where in ``order``, which is by rank, the jobs of ``behind`` are."""
    places = np.empty(behind.shape[0], np.int64)
    for i in range(behind.shape[0]):
        places[i] = place_of(rank, order, order.shape[0], behind[i])
    return places


@melted
def asks_claims(asks: NDArray[np.uint8], job: int) -> bool:
    """Whether a job asks for anything of resources."""
    return bool(asks.shape[0] > 0 and asks[job] != 0)


@inlined
def take_claims(w: World, new: Ints, job: int, first: int, last: int) -> None:
    """A job that starts holds what the pass has noted for it; there is room."""
    c, at = w.claims, w.mark
    c.held_at[FIRST_ROW, job], c.held_at[ROW_COUNT, job] = at[CLAIMS_USED], last - first
    for k in range(first, last):
        place, amount = new[k, PLACE], new[k, AMOUNT]
        c.free[place] -= amount
        c.holders[0, place] += 1
        c.holders[1, place] += job
        c.rows[at[CLAIMS_USED], PLACE], c.rows[at[CLAIMS_USED], AMOUNT] = place, amount
        at[CLAIMS_USED] += 1


@inlined
def give_claims(w: World, job: int, into: int) -> None:
    """A job that ends gives back its claims, which go into the log."""
    c, at = w.claims, w.mark
    first, count = c.held_at[FIRST_ROW, job], c.held_at[ROW_COUNT, job]
    for k in range(count):
        place, amount = c.rows[first + k, PLACE], c.rows[first + k, AMOUNT]
        c.free[place] += amount
        c.holders[0, place] -= 1
        c.holders[1, place] -= job
        w.ended_claims[into + k, PLACE], w.ended_claims[into + k, AMOUNT] = place, amount
    c.held_at[ROW_COUNT, job] = 0
    at[ENDED_CLAIMS] = into + count
    at[ASKING] -= 1


@melted
def end_job(w: World, job: int) -> bool:
    """A job ends: it gives back what it held, and the log has its attempt; False: the log has no room."""
    ledger, at = w.ledger, w.mark
    first, count = ledger.lease_at[FIRST_ROW, job], ledger.lease_at[ROW_COUNT, job]
    ended, row, claim = at[ENDED], at[ENDED_ROWS], at[ENDED_CLAIMS]
    claims = w.claims.held_at[ROW_COUNT, job] if asks_claims(w.claims.asks, job) else 0
    if ended == w.ended.shape[1] or row + count > w.ended_rows.shape[0] or claim + claims > w.ended_claims.shape[0]:
        at[NEEDED] = max(row + count, claim + claims)
        return False
    w.ended[0, ended], w.ended[1, ended], w.ended[2, ended] = job, w.started_us[job], at[NOW]
    w.ended_count[0, ended], w.ended_count[1, ended] = count, claims
    if asks_claims(w.claims.asks, job):
        give_claims(w, job, claim)
    for r in range(count):
        for c in range(5):
            w.ended_rows[row + r, c] = ledger.pool[first + r, c]
    at[ENDED], at[ENDED_ROWS] = ended + 1, row + count
    at[UNFORESEEN] += w.started_us[job] + ledger.asks[ASKED_US, job] > at[NOW] or ledger.asks[ASKED_US, job] < 1
    place = find_running(ledger.running, at[RUNNING_COUNT], w.started_us[job] + ledger.asks[ASKED_US, job], job)
    remove_running(ledger.running, at[RUNNING_COUNT], place)
    at[FREE_CORES] += give_rows(ledger.free, ledger.most, ledger.pool, first, first + count)
    at[RUNNING_COUNT] -= 1
    at[POOL_DEAD] += count
    at[RELEASES] += 1
    at[VERSION] += 1
    ledger.status[job] = FINISHED
    return True


@melted
def submit_job(w: World, job: int) -> None:
    """A job arrives at the end of the queue, or is rejected."""
    ledger, at = w.ledger, w.mark
    at[VERSION] += 1
    at[KNOWN] = max(at[KNOWN], job + 1)
    if w.refused[job]:
        ledger.status[job] = REJECTED
        return
    ledger.status[job] = QUEUED
    if asks_claims(w.claims.asks, job):
        at[ASKING] += 1
    start, end = at[QUEUE_START], at[QUEUE_END]
    if end == ledger.queue.shape[0]:
        for i in range(start, end):
            ledger.queue[i - start] = ledger.queue[i]
        start, end = 0, end - start
        at[QUEUE_START] = start
    ledger.queue[end] = job
    at[QUEUE_END] = end + 1
    for i in range(2):
        if w.rank[i].shape[0]:
            rank_in(w.rank[i], w.ranked[i], end - start, job)


@melted
def next_submit_us(w: World) -> int:
    """When the next job comes; NEVER_US: none is left."""
    return w.submit_us[w.mark[NEXT]] if w.mark[NEXT] < w.submit_us.shape[0] else NEVER_US


@inlined
def let_happen(w: World, together: bool) -> bool:
    """Let the events of this time happen, up to the next round; False: the log has no room, and some are left."""
    at, now = w.mark, w.mark[NOW]
    while at[ENDS] > 0 and w.ends[AT, 0] == now and not (at[SOMETHING] and not together):
        key, job, about = w.ends[KEY, 0], w.ends[JOB, 0], w.ends[ABOUT, 0]
        rank = key >> RANK_SHIFT
        if rank > SUBMIT and next_submit_us(w) == now:
            break
        if about == VALID and not end_job(w, job):
            return False
        drop_first(w.ends, at[ENDS])
        at[ENDS] -= 1
        if about == VALID and rank == BOOKED:
            late = (LATE_FINISH << RANK_SHIFT) + key - (rank << RANK_SHIFT)
            push(w.ends, at[ENDS], now, late, job, ROUND_ONLY)
            at[ENDS] += 1
        elif about in (VALID, ROUND_ONLY):
            at[SOMETHING] = 1
    while next_submit_us(w) == now and not (at[SOMETHING] and not together):
        submit_job(w, at[NEXT])
        at[NEXT] += 1
        at[SOMETHING] = 1
    return True


@melted
def spared(w: World, terms: RunConstants) -> bool:
    """Whether there is nothing to try in this round; notes what was seen."""
    ledger, at = w.ledger, w.mark
    newest = ledger.queue[at[QUEUE_END] - 1]
    released, last_job = at[SEEN_RELEASES] != at[RELEASES], at[LAST_JOB]
    at[SEEN_RELEASES] = at[RELEASES]
    at[LAST_JOB] = max(last_job, newest)
    fits = ledger.asks[ASKED_TASKS, newest] * ledger.asks[ASKED_CORES, newest] <= at[FREE_CORES]
    overdue = at[RUNNING_COUNT] > 0 and ledger.running[ENDS_US, 0] <= at[NOW]
    return nothing_new_here(terms.rule.backfill == 2, at[COMPLETE] == 1, released, newest, last_job, fits, overdue)


@melted
def start_job(w: World, passing: Any, terms: RunConstants | PlanTerms, s: int) -> None:
    """Carry out answer ``s`` of a pass that has taken its rows already."""
    ledger, at, now = w.ledger, w.mark, w.mark[NOW]
    job, first, end = passing.started[0, s], passing.started[ROW, s], passing.started[ROW_END, s]
    insert_running(ledger.running, at[RUNNING_COUNT], now + ledger.asks[ASKED_US, job], job)
    at[RUNNING_COUNT] += 1
    used = at[POOL_USED]
    for r in range(end - first):
        for c in range(5):
            ledger.pool[used + r, c] = passing.out[first + r, c]
        at[FREE_CORES] -= passing.out[first + r, NODES] * passing.out[first + r, CORES]
    ledger.lease_at[FIRST_ROW, job], ledger.lease_at[ROW_COUNT, job] = used, end - first
    at[POOL_USED] = used + end - first
    if asks_claims(w.claims.asks, job):
        take_claims(w, passing.new_claims, job, passing.started[CLAIM, s], passing.started[CLAIM_END, s])
    ledger.status[job] = RUNNING
    start = at[QUEUE_START]
    for i in range(2):
        if w.rank[i].shape[0]:
            rank_out(w.rank[i], w.ranked[i], at[QUEUE_END] - start, job)
    if ledger.queue[start] == job or strike(ledger.queue, start, at[QUEUE_END], job):
        at[QUEUE_START] += 1
    else:
        at[QUEUE_END] -= 1
    at[VERSION] += 1
    w.started_us[job] = now
    rank, time = FINISH, now + w.work_us[job]
    if terms.submit_first:
        rank = BOOKED if w.work_us[job] == ledger.asks[ASKED_US, job] and time > now else LATE_FINISH
    at[SEQUENCE] += 1
    push(w.ends, at[ENDS], time, (rank << RANK_SHIFT) + at[SEQUENCE], job, VALID)
    at[ENDS] += 1


@inlined
def start_jobs(w: World, c: Any, terms: RunConstants) -> bool:
    """A round: start the jobs that may start; False: somewhere is no room, and nothing was done."""
    ledger, at, rule = w.ledger, w.mark, terms.rule
    if at[QUEUE_START] == at[QUEUE_END]:
        return True
    seen, last_job, complete = at[SEEN_RELEASES], at[LAST_JOB], at[COMPLETE]
    if spared(w, terms):
        return True
    alike = not rule.whole and at[KNOWN] <= terms.first_unequal
    at[COMPLETE] = terms.settles and (rule.backfill != 2 or (terms.by_arrival and alike))
    waiting = at[QUEUE_END] - at[QUEUE_START]
    order = w.ranked[0][:waiting] if w.rank[0].shape[0] else ledger.queue[at[QUEUE_START] : at[QUEUE_END]]
    behind = w.ranked[1][:waiting]
    if not any_may_fit(order, behind, rule.backfill, rule.depth, are_apart(c), ledger.asks, at[FREE_CORES]):
        return True
    begin_walk(c.walk, c.cursor, Slots(c.slot, c.place_of, c.free_places, 0), at[FREE_CORES])
    second = places_in(order, behind, w.rank[0])
    count = consider(rule, order, second, at[NOW], alike, at[RUNNING_COUNT], c)
    rows, claims = c.walk[ROWS], c.walk[CLAIMS]
    if (
        count < 0
        or at[RUNNING_COUNT] + count > ledger.running.shape[1]
        or at[ENDS] + count > w.ends.shape[1]
        or at[POOL_USED] + rows > ledger.pool.shape[0]
        or at[CLAIMS_USED] + claims > w.claims.rows.shape[0]
    ):
        give_rows(ledger.free, ledger.most, c.out, 0, rows)
        at[SEEN_RELEASES], at[LAST_JOB], at[COMPLETE] = seen, last_job, complete
        at[NEEDED] = -1 if count < 0 else max(count, rows, claims)
        return False
    for s in range(count):
        start_job(w, c, terms, s)
    return True


@inlined
def choose_time(at: Ints, submit_us: Ints, ends: Ints, until_us: int, rest: bool) -> int:
    """Choose the next time; GO_ON, or why it stops. ``rest``: it is to.

    It takes three columns of the world, as every array that is handed on costs time.
    """
    why, jobs = GO_ON, submit_us.shape[0]
    left = at[NEXT] < jobs or at[RUNNING_COUNT] > 0 or at[QUEUE_START] != at[QUEUE_END]
    time = min(submit_us[at[NEXT]] if at[NEXT] < jobs else NEVER_US, at[WAKE])
    if at[ENDS] > 0:
        time = min(time, ends[AT, 0])
    if rest:
        why = PAUSED
    elif not left or (time >= NEVER_US and until_us >= NEVER_US):
        why = OVER
    elif time >= until_us:
        why = HELD
    else:
        at[NOW], at[SOMETHING], at[STAGE] = time, 0, EVENTS
    return why


@compiled
def run_rounds(w: World, passing: Any, terms: RunConstants, until_us: int, most: int) -> int:
    """Let things happen before ``until_us``, for ``most`` rounds; returns why it stopped (OVER to NO_ROOM).

    ``passing``: a :class:`unrack.policy.discipline.skyline.columns.PlanColumns` for passes; its ``now`` is the ledger's
    ``free``. It is no part of ``w``, as it takes a millisecond to find out the type of a tuple that holds one.

    After LOG_FULL and NO_ROOM it is in the middle of the events of one time, and goes on there when it is called again.
    """
    at = w.mark
    rounds: int = 0
    while True:
        if at[STAGE] == CHOOSE:
            why = choose_time(at, w.submit_us, w.ends, until_us, rounds == most)
            if why != GO_ON:
                return int(why)
        if at[STAGE] == EVENTS:
            if not let_happen(w, terms.together):
                return LOG_FULL
            at[STAGE] = ROUND if at[SOMETHING] or at[WAKE] <= at[NOW] else CHOOSE
        if at[STAGE] == ROUND:
            if not start_jobs(w, passing, terms):
                return NO_ROOM
            rounds += 1
            at[STAGE] = CHOOSE
