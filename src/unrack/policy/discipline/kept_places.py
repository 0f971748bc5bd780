"""Compiled: whether a job leaves what windows keep of places, such as licences."""

from __future__ import annotations

from typing import Any

from unrack.jit import inlined
from unrack.kernels.arrays import Ints
from unrack.ledger.names import ASKED_US, CPU, ENDS_US, FIRST_ROW, ROW_COUNT, WHO
from unrack.policy.discipline.skyline.columns import CLAIM, CLAIM_END, CLOSES_US, JOB, OPENS_US, UNTIL
from unrack.policy.discipline.skyline.steps import Span
from unrack.policy.discipline.walk import COUNT


@inlined
def amount_at(place: int, claims: Ints, first: int, last: int) -> int:
    """How much of a place these claims are."""
    found = 0
    for k in range(first, last):
        if claims[k, 0] == place:
            found += claims[k, 1]
    return found


@inlined
def leaves_kept(job: int, time: int, now: int, count: int, beside: Span, until: int, c: Any) -> bool:
    """Whether a job that starts at a time (µs) leaves what windows keep of the places that it claims.

    So it does if enough is free when a window begins, or at that time, by the booked ends of those ``count`` who run,
    who start in this pass, and of one more ``beside`` them, which ends at ``until``. Who may run for longer than is
    expected of him is not expected to have ended.
    """
    windows, kept, held_at, started = c.windows, c.window_claims, c.claimed_at, c.started
    ends = time + max(1, c.limit_us[job])
    for w in range(windows.shape[0]):
        place = kept[w, 0]
        if place < 0 or windows[w, CLOSES_US] <= time or ends <= windows[w, OPENS_US]:
            continue
        asked = amount_at(place, c.fixed, c.fixed_at[0, job], c.fixed_at[1, job])
        if asked == 0:
            continue
        at, s = max(time, windows[w, OPENS_US]), c.slot[place]
        free = c.free_places[place] if s < 0 else c.left[0, CPU, s]
        for i in range(count):
            one = c.running[WHO, i]
            if max(c.running[ENDS_US, i], now + 1) > at:
                break
            if c.limit_us[one] <= c.asks[ASKED_US, one]:
                first = held_at[FIRST_ROW, one]
                free += amount_at(place, c.claimed, first, first + held_at[ROW_COUNT, one])
        for n in range(c.walk[COUNT]):
            one = started[JOB, n]
            if max(started[UNTIL, n], now + 1) <= at and c.limit_us[one] <= c.asks[ASKED_US, one]:
                free += amount_at(place, c.new_claims, started[CLAIM, n], started[CLAIM_END, n])
        if until > at:
            free -= amount_at(place, beside.claims, beside.claim, beside.claim_end)
        if free - kept[w, 1] < asked:
            return False
    return True
