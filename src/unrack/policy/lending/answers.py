"""Compiled: the choices of plans and of passes over the queue for jobs that ask for nothing but nodes and memory.

What is chosen is written where :mod:`unrack.policy.discipline.skyline.columns` says; a loan is a row of
its lender.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from unrack.jit import inlined
from unrack.kernels.arrays import Ints
from unrack.ledger.columns import CPU, MEM
from unrack.ledger.lease import BORROWER, CORES, FIRST, LENDER, LOAN_MB, LOCAL_MB, NODES, TASKS
from unrack.policy.discipline.head_search import take_then
from unrack.policy.discipline.skyline.columns import (
    AT,
    CHOSEN,
    CLAIMED,
    CLAIMS,
    CLAIMS_CHOSEN,
    LEASES,
    LENGTH_CHOSEN,
    ROWS,
    ROWS_CHOSEN,
    STAGE,
    STEP,
)
from unrack.policy.discipline.skyline.levels import short_of
from unrack.policy.discipline.skyline.starting import limit_lending
from unrack.policy.discipline.skyline.steps import RowSpan as Held
from unrack.policy.discipline.skyline.steps import Slots, always_open, claims_fit, close_kept, lent_by, usable
from unrack.policy.discipline.walk import (
    ANSWER,
    ASKING,
    CLAIMS_FOUND,
    FOUND,
    HELD_US,
    JUDGING,
    PLACED,
    ROOM,
    SHADOW,
    SOUGHT,
    TIME,
)
from unrack.policy.discipline.walk import CLAIMS as CLAIMS_USED
from unrack.policy.discipline.walk import ROWS as ROWS_USED
from unrack.policy.discipline.walk import STAGE as WALK_STAGE
from unrack.policy.lending.borrowing import cores_of_idle
from unrack.policy.lending.lease_kernel import Asker, Leases, place_job
from unrack.policy.lending.lender_cost import LendingTerms
from unrack.policy.placement.node_kernel import Gang, gang_of


class Moment(NamedTuple):
    """What is free at a time, or throughout one."""

    free: Ints  # int64[2, nodes]
    left: Ints  # of places in slots, in row `k`, from column `first` on
    k: int
    first: int
    lendable: Ints  # int64[nodes]: how many MB each node may lend; none: all that is free


@inlined
def placed(
    job: int, now: int, running: int, whole: bool, terms: LendingTerms, aware: Any, look: bool, moment: Moment, sky: Any
) -> tuple[Leases, int, int]:  # fmt: skip
    """Rows and loans for a job that would start ``now``, and how many; -1 rows: it has no place.

    ``look``: as of :func:`unrack.policy.lending.lease_kernel.spread`.
    """
    free, none = moment.free, np.empty(0, np.int64)
    nodes, installed = free.shape[1], usable(job, now, sky)
    if not always_open(job, sky):  # what is kept for others lends nothing to this job
        free = free.copy()
        close_kept(job, now, free, sky)
    tasks, cores, mb, us = gang_of(sky.asks, job)
    asker = Asker(job, now, sky.running, running, tasks, cores, mb, max(1, us), none, none, moment.lendable)
    out = Leases(np.empty((nodes, 5), np.int64), np.empty((2 * nodes, 3), np.int64))
    cores_at = cores_of_idle(free, installed, terms.threshold_mb)
    slots = Slots(sky.slot, sky.place_of, sky.free_places, moment.first)
    places = sky.free_places.shape[0] - nodes
    for node in range(0 if whole else nodes):
        is_open = lent_by(moment.left, moment.k, slots, places, node) <= sky.may_lend[node]
        cores_at[node] = free[CPU, node] if is_open and installed[CPU, node] > 0 else -1
    rows, loans = place_job(terms, free, sky.installed[0], cores_at, whole, 0, asker, aware, look, out)
    return out, rows, loans


@inlined
def write(
    job: int, out: Leases, count: int, loans: int, sky: Any, rows: Ints, row: int, claims: Ints, claim: int
) -> None:
    """Write what was found, from ``row`` and ``claim`` on: rows, what is claimed anywhere, and loans as both."""
    for r in range(count):
        for c in range(5):
            rows[row + r, c] = out.rows[r, c]
    row += count
    for c in range(sky.fixed_at[0, job], sky.fixed_at[1, job]):
        claims[claim, 0], claims[claim, 1] = sky.fixed[c, 0], sky.fixed[c, 1]
        claim += 1
    first = sky.free_places.shape[0] - sky.installed.shape[2]
    for i in range(loans):
        borrower, lender, mb = out.loans[i, BORROWER], out.loans[i, LENDER], out.loans[i, LOAN_MB]
        rows[row + i, FIRST], rows[row + i, NODES], rows[row + i, TASKS] = lender, 1, -1 - borrower
        rows[row + i, CORES], rows[row + i, LOCAL_MB] = 0, mb
        claims[claim + i, 0], claims[claim + i, 1] = first + lender, mb


@inlined
def choose(order: Ints, running: int, whole: bool, terms: LendingTerms, aware: Any, sky: Any) -> int:
    """Of a plan: choose for the job, at the step, that the cursor says, on the least of the levels.

    0; below that: there is too little room.
    """
    cursor, low = sky.cursor, sky.low
    job = order[cursor[AT]]
    us = max(1, gang_of(sky.asks, job).us)
    nodes, fixed = sky.installed.shape[2], sky.fixed_at[1, job] - sky.fixed_at[0, job]
    if cursor[ROWS] + 3 * nodes > sky.new_rows.shape[0]:
        return short_of(cursor, LEASES)
    if cursor[CLAIMS] + 2 * nodes + fixed > sky.new_claims.shape[0]:
        return short_of(cursor, CLAIMED)
    free, most = np.empty((2, nodes), np.int64), np.empty(nodes, np.int64)
    for node in range(nodes):
        free[CPU, node], free[MEM, node] = low[0, CPU, node], max(0, low[0, MEM, node])
        most[node] = free[MEM, node]
    limit_lending(order.shape[0], us, sky, most)
    for node in range(nodes if whole else 0):  # where another starts, the job itself cannot run
        free[MEM, node] = most[node]
    moment = Moment(free, low, 0, sky.total.shape[2], most[:0] if whole else most)
    out, count, loans = placed(job, sky.times[cursor[STEP]], running, whole, terms, aware, False, moment, sky)
    cursor[STAGE], cursor[ROWS_CHOSEN] = CHOSEN, -1
    if count >= 0:
        write(job, out, count, loans, sky, sky.new_rows, cursor[ROWS], sky.new_claims, cursor[CLAIMS])
        cursor[ROWS_CHOSEN] = count + loans
        cursor[CLAIMS_CHOSEN] = fixed + loans
        cursor[LENGTH_CHOSEN] = us
    return 0


@inlined
def answer(now: int, running: int, whole: bool, terms: LendingTerms, aware: Any, sky: Any) -> None:
    """Of a pass over the queue: answer what it asks (``walk[STAGE]``).

    PLACED: a place for the job. SOUGHT: whether it has one when ``then`` is free. JUDGED: whether it still has one at
    its time beside the job that is looked at, which is taken from what is free then.
    """
    walk, job = sky.walk, sky.walk[ASKING]
    at, claim, none = walk[ROWS_USED], walk[CLAIMS_USED], np.empty(0, np.int64)
    if walk[WALK_STAGE] == PLACED:
        moment = Moment(sky.now, sky.left, 0, 0, none)
        out, count, loans = placed(job, now, running, whole, terms, aware, False, moment, sky)
        if count < 0:
            sky.refused[sky.kind[job]] = 1
            return
        write(job, out, count, loans, sky, sky.out, at, sky.new_claims, claim)
        walk[FOUND] = at + count + loans
        walk[CLAIMS_FOUND] = claim + sky.fixed_at[1, job] - sky.fixed_at[0, job] + loans
        walk[HELD_US] = max(1, gang_of(sky.asks, job).us)
        return
    walk[ANSWER] = 1
    h = walk[JUDGING]
    later = Moment(sky.then[h], sky.left, 1 + h, 0, none)
    if walk[WALK_STAGE] == SOUGHT:
        walk[ANSWER] = placed(job, walk[TIME], running, whole, terms, aware, True, later, sky)[1] >= 0
    elif sky.heads[h, SHADOW] >= 0 and now + walk[HELD_US] > sky.heads[h, SHADOW]:
        asked = gang_of(sky.asks, job)
        head = Gang(asked.tasks, asked.cores, 0, asked.us)
        slots = Slots(sky.slot, sky.place_of, sky.free_places, 0)
        wanted = Held(sky.out, 0, 0, sky.fixed, sky.fixed_at[0, job], sky.fixed_at[1, job])
        taken = Held(sky.out, at, walk[FOUND], sky.new_claims, claim, walk[CLAIMS_FOUND])
        total = usable(job, sky.heads[h, SHADOW], sky)
        take_then(head, total, whole, False, h, taken, 0, -1, sky)
        fits = sky.heads[h, ROOM] >= head.tasks and claims_fit(sky.left, 1 + h, slots, wanted)
        if not fits or placed(job, sky.heads[h, SHADOW], running, whole, terms, aware, True, later, sky)[1] < 0:
            take_then(head, total, whole, False, h, taken, 0, 1, sky)
            walk[ANSWER] = 0
