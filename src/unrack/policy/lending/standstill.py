"""Compiled: until when a round in which no job of a counted plan starts would go as it does, if nothing changes.

Of the times of a plan some stand still: booked ends, and what is reserved from these on. Others move with the clock:
now, the ends of overdue jobs, which are expected at once, and what is reserved from these on. A later round is the same
with these moved, as long as none passes one that stands still; none leaves a window that was tried from one that stands
still, where it may have been in the way; and no more comes into the window of a job that has a place now but not for
long enough, as what it would take may depend on that.
"""

from __future__ import annotations

from typing import Any

from unrack.jit import inlined
from unrack.kernels.arrays import Ints
from unrack.kernels.ordering import zeros
from unrack.ledger.columns import ENDS_US
from unrack.ledger.holding import first_at_least
from unrack.policy.discipline.skyline.columns import LENGTH, START
from unrack.policy.placement.node_kernel import gang_of
from unrack.units import NEVER_US

MOVES, STANDS = 1, 2


@inlined
def stands_until(order: Ints, now: int, running: int, planned: int, tried: Ints, steps: int, sky: Any) -> int:
    """Before which time (µs) such a round starts no job either; ``planned``: of how many of ``order`` it decides.

    ``tried``: int64[jobs]: until when jobs that have a place now would run; 0: it has none.
    """
    times, turn, kind, gap, following = sky.times, sky.turn, zeros(steps + 1), NEVER_US - now, NEVER_US
    kind[0] = MOVES
    for i in range(running):
        end = sky.running[ENDS_US, i]
        kind[first_at_least(times, 0, steps, max(end, now + 1))] |= MOVES if end <= now else STANDS
    for q in range(planned):
        k = first_at_least(times, 0, steps, tried[q])
        if k < steps and times[k] == tried[q]:
            kind[k] |= MOVES
        if turn[START, q] >= 0:
            k = first_at_least(times, 0, steps, turn[START, q])
            kind[first_at_least(times, 0, steps, turn[START, q] + turn[LENGTH, q])] |= kind[k]
    for k in range(steps - 1, -1, -1):
        if kind[k] == MOVES | STANDS:
            return now
        if kind[k] == MOVES:
            gap = min(gap, following - times[k])
        else:
            following = times[k]
    for q in range(planned):
        length, last, until = max(1, gang_of(sky.asks, order[q]).us), -1, 0
        for i in range(1, steps):
            if turn[START, q] >= 0 and times[i] >= turn[START, q]:
                break
            while until < steps and times[until] < times[i] + length:
                last = until if kind[until] == MOVES else last
                until += 1
            if last > i and kind[i] == STANDS:
                gap = min(gap, times[i] + length - times[last])
        k = first_at_least(times, 0, steps, tried[q])
        while k < steps and kind[k] == MOVES:
            k += 1
        if tried[q] > 0 and k < steps:
            gap = min(gap, times[k] - tried[q])
    return now + gap
