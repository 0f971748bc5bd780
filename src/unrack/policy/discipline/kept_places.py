"""Compiled: whether a job leaves what windows keep of places, such as licences, and of cores of nodes."""

from __future__ import annotations

from typing import Any

from unrack.jit import inlined
from unrack.kernels.arrays import Ints
from unrack.ledger.columns import ASKED_US, CPU, ENDS_US, FIRST_ROW, MEM, OF_JOB, ROW_COUNT
from unrack.ledger.lease import CORES, FIRST, NODES
from unrack.policy.discipline.skyline.columns import CLAIM, CLAIM_END, CLOSES_US, JOB, OPENS_US, UNTIL
from unrack.policy.discipline.skyline.steps import RowSpan
from unrack.policy.discipline.walk import COUNT
from unrack.units import NEVER_US


@inlined
def amount_at(place: int, claims: Ints, first: int, last: int) -> int:
    """How much of a place these claims are."""
    found = 0
    for k in range(first, last):
        if claims[k, 0] == place:
            found += claims[k, 1]
    return found


@inlined
def given_back(before: int, moment: int, now: int, i: int, count: int, c: Any) -> int:
    """Add to ``back`` what jobs give back of places after one moment, µs, and until another; parameters as below.

    Running jobs are in order of their ends: ``i`` is the first that did not end until ``before``; returns the next one.
    """
    back, held_at, started, claims = c.back, c.claimed_at, c.started, c.new_claims
    while i < count and max(c.running[ENDS_US, i], now + 1) <= moment:
        one = c.running[OF_JOB, i]
        first = held_at[FIRST_ROW, one]
        if c.limit_us[one] <= c.asks[ASKED_US, one]:
            for k in range(first, first + held_at[ROW_COUNT, one]):
                back[c.claimed[k, 0]] += c.claimed[k, 1]
        i += 1
    for n in range(c.walk[COUNT]):
        one, end = started[JOB, n], max(started[UNTIL, n], now + 1)
        if before < end <= moment and c.limit_us[one] <= c.asks[ASKED_US, one]:
            for k in range(started[CLAIM, n], started[CLAIM_END, n]):
                back[claims[k, 0]] += claims[k, 1]
    return i


@inlined
def leaves_kept(job: int, time: int, now: int, count: int, beside: RowSpan, until: int, c: Any) -> bool:
    """Whether a job that starts at a time (µs) leaves what windows keep of the places that it claims.

    So it does if enough is free when a window begins, or at that time, by the booked ends of ``count`` running jobs,
    that start in this pass, and of one more ``beside`` them, which ends at ``until``. A job that may run for longer
    than is expected of it is not expected to have ended.
    """
    windows, kept = c.windows, c.window_claims
    ends = time + max(1, c.limit_us[job])
    for w in range(windows.shape[0]):
        place = kept[w, 0]
        if place >= 0 and ends <= windows[w, OPENS_US]:
            break
        if place < 0 or windows[w, CLOSES_US] <= time:
            continue
        asked = amount_at(place, c.fixed, c.fixed_at[0, job], c.fixed_at[1, job])
        if asked == 0:
            continue
        at, s = max(time, windows[w, OPENS_US]), c.slot[place]
        free = c.free_places[place] if s < 0 else c.left[0, CPU, s]
        c.back[place] = free - (amount_at(place, beside.claims, beside.claim, beside.claim_end) if until > at else 0)
        given_back(now, at, now, 0, count, c)
        if c.back[place] - kept[w, 1] < asked:
            return False
    return True


@inlined
def beside_kept(job: int, time: int, now: int, count: int, free: Ints, beside: RowSpan, until: int, c: Any) -> Ints:
    """int64[2, nodes]: of what is free, what is left beside kept cores for a job that starts at a time (µs).

    Until the next such question. Parameters as of :func:`leaves_kept`. O(claims of running jobs + nodes + windows that
    begin before its end).
    """
    own = c.kept_of[job]
    if own == 0:
        return free
    found: Ints = c.beside
    kept, at, back, ends, moment = c.kept, c.kept_at, c.back, time + max(1, c.limit_us[job]), time
    for node in range(found.shape[1]):
        found[CPU, node], found[MEM, node] = free[CPU, node], free[MEM, node]
    for row in range(at.shape[0]):
        for node in range(at.shape[1]):
            place = at[row, node]
            if place >= 0:
                s = c.slot[place]
                back[place] = c.free_places[place] if s < 0 else c.left[0, CPU, s]
    for k in range(beside.claim, beside.claim_end):
        back[beside.claims[k, 0]] -= beside.claims[k, 1]
    before, i, w, k = now - 1, 0, 0, beside.claim
    while moment < ends:
        i = given_back(before, moment, now, i, count, c)
        while until <= moment and k < beside.claim_end:
            back[beside.claims[k, 0]] += beside.claims[k, 1]
            k += 1
        for row in range(at.shape[0] if moment == time else 0):
            for node in range(at.shape[1] if (own >> row) & 1 else 0):
                if at[row, node] >= 0:
                    found[CPU, node] = min(found[CPU, node], back[at[row, node]])
        while w < kept.shape[0] and kept[w, 0] <= moment:  # of those that have begun only at first
            if kept[w, 1] > moment and (own >> kept[w, 2]) & 1:
                node = kept[w, 3]
                found[CPU, node] = min(found[CPU, node], back[kept[w, 4]] - kept[w, 5])
            w += 1
        before, moment = moment, kept[w, 0] if w < kept.shape[0] else NEVER_US
    return found


@inlined
def claim_cores(job: int, rows: Ints, first: int, last: int, claim: int, c: Any) -> int:
    """Write down what a job claims of the places of its nodes, which are in these rows; the end of its claims."""
    own, at, claims = c.kept_of[job], c.kept_at, c.new_claims
    for row in range(at.shape[0] if own > 0 else 0):
        for r in range(first, last if (own >> row) & 1 else first):
            for node in range(rows[r, FIRST], rows[r, FIRST] + rows[r, NODES]):
                if at[row, node] >= 0:
                    claims[claim, 0], claims[claim, 1] = at[row, node], rows[r, CORES]
                    claim += 1
    return claim
