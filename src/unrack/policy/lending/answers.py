"""Compiled: the choices of plans and of passes over the queue for jobs that ask for nothing but nodes and memory.

On whole nodes. What is chosen is written where :mod:`unrack.policy.discipline.skyline.columns` says; a loan is a row of
its lender.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from unrack.jit import compiled, inlined
from unrack.kernels.arrays import Ints
from unrack.ledger.holding import add_rows
from unrack.ledger.lease import BORROWER, CORES, FIRST, LENDER, LOAN_MB, LOCAL_MB, NODES, TASKS
from unrack.ledger.names import MEM
from unrack.policy.columns import Gang, gang_of
from unrack.policy.discipline.head_search import change_claims, change_rows
from unrack.policy.discipline.queue_kernel import PassRule, lacking, passed
from unrack.policy.discipline.skyline.columns import (
    AT,
    CHOOSE,
    CHOSEN,
    CLAIMED,
    CLAIMS,
    CLAIMS_CHOSEN,
    LEASES,
    LENGTH_CHOSEN,
    ROWS,
    ROWS_CHOSEN,
    STAGE,
    STARTS,
    STEP,
    Round,
    Rule,
)
from unrack.policy.discipline.skyline.levels import short_of
from unrack.policy.discipline.skyline.plan_round import planned
from unrack.policy.discipline.skyline.starting import limit_lending
from unrack.policy.discipline.skyline.steps import Slots, claims_fit
from unrack.policy.discipline.skyline.steps import Span as Held
from unrack.policy.discipline.walk import (
    ANSWER,
    ASKING,
    CLAIMS_FOUND,
    FOUND,
    HELD_US,
    LOOK,
    PLACED,
    ROOM,
    SHADOW,
    SOUGHT,
    TIME,
)
from unrack.policy.discipline.walk import CLAIMS as CLAIMS_USED
from unrack.policy.discipline.walk import ROWS as ROWS_USED
from unrack.policy.discipline.walk import STAGE as WALK_STAGE
from unrack.policy.lending.lease_kernel import Leases, Span, Who, place_job
from unrack.policy.lending.rules import Terms


class Alone(NamedTuple):
    """Who answers in one round."""

    terms: Terms
    aware: Any  # ranks lenders; ``None``: nothing does

    def pass_over(self, *how: Any) -> int:
        """As :func:`unrack.policy.discipline.queue_kernel.pass_over`; it asks nothing."""
        return pass_over(self.terms, self.aware, *how)

    def plan_round(self, *how: Any) -> int:
        """As :func:`unrack.policy.discipline.skyline.plan_round.plan_round`; it asks nothing."""
        return plan_round(self.terms, self.aware, *how)


@inlined
def placed(job: int, now: int, running: int, terms: Terms, aware: Any, free: Ints, sky: Any) -> tuple[Leases, Span]:
    """Rows and loans for a job that would start ``now``; ``row_end`` -1: it has no place."""
    nodes, zero, none = free.shape[1], 0, np.empty(0, np.int64)
    tasks, cores, mb, us = gang_of(sky.asks, job)
    who = Who(job, now, sky.running, running, tasks, cores, mb, max(1, us), none, none, none)
    out = Leases(np.empty((nodes, 5), np.int64), np.empty((2 * nodes, 3), np.int64))
    return out, place_job(terms, free, sky.installed, who, aware, out, Span(zero, zero, zero, zero))


@inlined
def write(job: int, out: Leases, span: Span, sky: Any, rows: Ints, row: int, claims: Ints, claim: int) -> None:
    """Write what was found, from ``row`` and ``claim`` on: rows, what is claimed anywhere, and loans as both."""
    for r in range(span.row_end):
        for c in range(5):
            rows[row + r, c] = out.rows[r, c]
    row += span.row_end
    for c in range(sky.fixed_at[0, job], sky.fixed_at[1, job]):
        claims[claim, 0], claims[claim, 1] = sky.fixed[c, 0], sky.fixed[c, 1]
        claim += 1
    first = sky.free_places.shape[0] - sky.installed.shape[1]
    for i in range(span.loan_end):
        borrower, lender, mb = out.loans[i, BORROWER], out.loans[i, LENDER], out.loans[i, LOAN_MB]
        rows[row + i, FIRST], rows[row + i, NODES], rows[row + i, TASKS] = lender, 1, -1 - borrower
        rows[row + i, CORES], rows[row + i, LOCAL_MB] = 0, mb
        claims[claim + i, 0], claims[claim + i, 1] = first + lender, mb


@compiled
def plan_round(
    terms: Terms, aware: Any, order: Ints, now: int, running: int, grain: int, whole: bool, fit: int, compress: bool,
    trust: bool, brief: bool, sky: Any,
) -> int:  # fmt: skip
    """As :func:`unrack.policy.discipline.skyline.plan_round.plan_round`, where all want LENT: it asks nothing."""
    while True:
        count = planned(order, now, running, Rule(grain, whole, fit), Round(compress, trust, brief), sky)
        if count != CHOOSE:
            return int(count)
        short = choose(order, running, terms, aware, sky)
        if short < 0:
            return int(short)


@inlined
def choose(order: Ints, running: int, terms: Terms, aware: Any, sky: Any) -> int:
    """Of a plan: choose for the job, at the step, that the cursor says, on the least of the levels.

    0; below that: there is too little room.
    """
    cursor, low = sky.cursor, sky.low
    job = order[cursor[AT]]
    us = max(1, gang_of(sky.asks, job).us)
    nodes, fixed = sky.installed.shape[1], sky.fixed_at[1, job] - sky.fixed_at[0, job]
    if cursor[ROWS] + 3 * nodes > sky.new_rows.shape[0]:
        return short_of(cursor, LEASES)
    if cursor[CLAIMS] + 2 * nodes + fixed > sky.new_claims.shape[0]:
        return short_of(cursor, CLAIMED)
    free = np.empty((2, sky.installed.shape[1]), np.int64)
    for row in range(2):
        for node in range(free.shape[1]):
            free[row, node] = low[0, row, node]
    limit_lending(order.shape[0], us, sky, free[MEM])
    out, span = placed(job, sky.times[cursor[STEP]], running, terms, aware, free, sky)
    cursor[STAGE], cursor[ROWS_CHOSEN] = CHOSEN, -1
    if span.row_end >= 0:
        write(job, out, span, sky, sky.new_rows, cursor[ROWS], sky.new_claims, cursor[CLAIMS])
        cursor[ROWS_CHOSEN] = span.row_end + span.loan_end
        cursor[CLAIMS_CHOSEN] = sky.fixed_at[1, job] - sky.fixed_at[0, job] + span.loan_end
        cursor[LENGTH_CHOSEN] = us
    return 0


@compiled
def pass_over(
    terms: Terms, aware: Any, order: Ints, second: Ints, now: int, running: int, free_cores: int, backfill: int,
    depth: int, whole: bool, fit: int, alike: bool, sky: Any,
) -> int:  # fmt: skip
    """As :func:`unrack.policy.discipline.queue_kernel.pass_over`, where all want LENT: it asks nothing."""
    while True:
        rule = PassRule(backfill, depth, whole, fit)
        count = passed(order, second, now, running, free_cores, rule, alike, sky)
        if count != CHOOSE:
            return int(count)
        nodes, job = sky.installed.shape[1], sky.walk[ASKING]
        if sky.walk[WALK_STAGE] == PLACED:
            if sky.walk[ROWS_USED] + 3 * nodes > sky.out.shape[0]:
                return lacking(sky, LOOK, STARTS)
            fixed = sky.fixed_at[1, job] - sky.fixed_at[0, job]
            if sky.walk[CLAIMS_USED] + 2 * nodes + fixed > sky.new_claims.shape[0]:
                return lacking(sky, LOOK, CLAIMED)
        answer(now, running, terms, aware, sky)


@inlined
def answer(now: int, running: int, terms: Terms, aware: Any, sky: Any) -> None:
    """Of a pass over the queue: answer what it asks (``walk[STAGE]``).

    PLACED: a place for the job. SOUGHT: whether it has one when ``then`` is free. JUDGED: whether it still has one at
    its time beside the job that is looked at, which is taken from what is free then.
    """
    walk, job = sky.walk, sky.walk[ASKING]
    at, claim = walk[ROWS_USED], walk[CLAIMS_USED]
    if walk[WALK_STAGE] == PLACED:
        out, span = placed(job, now, running, terms, aware, sky.now, sky)
        if span.row_end < 0:
            sky.refused[sky.kind[job]] = 1
            return
        write(job, out, span, sky, sky.out, at, sky.new_claims, claim)
        walk[FOUND] = at + span.row_end + span.loan_end
        walk[CLAIMS_FOUND] = claim + sky.fixed_at[1, job] - sky.fixed_at[0, job] + span.loan_end
        walk[HELD_US] = max(1, gang_of(sky.asks, job).us)
        return
    walk[ANSWER] = 1
    if walk[WALK_STAGE] == SOUGHT:
        walk[ANSWER] = placed(job, walk[TIME], running, terms, None, sky.then, sky)[1].row_end >= 0
    elif walk[SHADOW] >= 0 and now + walk[HELD_US] > walk[SHADOW]:
        asked = gang_of(sky.asks, job)
        head = Gang(asked.tasks, asked.cores, 0, asked.us)
        slots = Slots(sky.slot, sky.place_of, sky.free_places, 0)
        wanted = Held(sky.out, 0, 0, sky.fixed, sky.fixed_at[0, job], sky.fixed_at[1, job])
        taken = Held(sky.out, at, walk[FOUND], sky.new_claims, claim, walk[CLAIMS_FOUND])
        change_claims(sky.left, 1, slots, taken, -1)
        lost = change_rows(sky.then, sky.installed, head, True, sky.out, at, walk[FOUND], -1)
        fits = walk[ROOM] + lost >= head.tasks and claims_fit(sky.left, 1, slots, wanted)
        if fits and placed(job, walk[SHADOW], running, terms, None, sky.then, sky)[1].row_end >= 0:
            walk[ROOM] += lost
            return
        add_rows(sky.then, sky.out, at, walk[FOUND], 1)
        change_claims(sky.left, 1, slots, taken, 1)
        walk[ANSWER] = 0
