"""Compiled: until when a round in which no job of a counted plan starts would go as it does, if nothing changes.

Of the times of a plan some stand still: booked ends, and what is reserved from these on. Others move with the clock:
now, the ends of jobs that are overdue (which are expected at once), and what is reserved from these on. A later round
is the same with all moving times moved as far, as long as

* no step that moves passes one that stands still;
* of a window that was tried from a step that stands still, nothing leaves that moves, and may have been what was in
  the way. (A window that moves only ever comes to have more in it);
* the windows of jobs that have a place now, but not for as long as they run, come to have nothing more in them: what
  such a job would take may depend on it.

So it costs a comparison of times to tell that nothing starts before the first of these happens.
"""

from __future__ import annotations

from typing import Any

from unrack.jit import inlined
from unrack.kernels.arrays import Ints
from unrack.kernels.ordering import zeros
from unrack.ledger.columns import ENDS_US
from unrack.ledger.holding import first_at_least
from unrack.policy.columns import gang_of
from unrack.policy.discipline.skyline.columns import LENGTH, START
from unrack.units import NEVER_US


@inlined
def moving_steps(now: int, running: int, planned: int, tried: Ints, steps: int, sky: Any) -> tuple[Ints, int]:
    """int64[steps]: 1 of steps that move; and how many of them are also said to stand still.

    ``tried``: int64[jobs]: until when jobs that have a place now would run; 0: it has none.
    """
    times, turn, moves, stands, both = sky.times, sky.turn, zeros(steps), zeros(steps), 0
    moves[0] = 1
    for i in range(running):
        end = sky.running[ENDS_US, i]
        (moves if end <= now else stands)[first_at_least(times, 0, steps, max(end, now + 1))] = 1
    for q in range(planned):
        k = first_at_least(times, 0, steps, tried[q])
        if tried[q] > 0 and k < steps and times[k] == tried[q]:
            moves[k] = 1
        if turn[START, q] >= 0:
            k = first_at_least(times, 0, steps, turn[START, q])
            end = turn[START, q] + turn[LENGTH, q]
            (moves if moves[k] == 1 else stands)[first_at_least(times, 0, steps, end)] = 1
    for k in range(steps):
        both += moves[k] * stands[k]
    return moves, both


@inlined
def stands_until(order: Ints, now: int, running: int, planned: int, tried: Ints, steps: int, sky: Any) -> int:
    """Before which time (µs) such a round starts no job either; ``planned``: of how many of ``order`` it decides."""
    times, turn, asks = sky.times, sky.turn, sky.asks
    moves, both = moving_steps(now, running, planned, tried, steps, sky)
    if both > 0:
        return now
    gap = following = NEVER_US - now
    for k in range(steps - 1, -1, -1):
        if moves[k] == 0:
            following = times[k]
        else:
            gap = min(gap, following - times[k])
    for q in range(planned):
        length, start, last, until = max(1, gang_of(asks, order[q]).us), turn[START, q], -1, 0
        for i in range(1, steps):
            if start >= 0 and times[i] >= start:
                break
            if moves[i] == 1:
                continue
            while until < steps and times[until] < times[i] + length:
                last = until if moves[until] == 1 else last
                until += 1
            if last > i:
                gap = min(gap, times[i] + length - times[last])
        if tried[q] > 0:
            k = first_at_least(times, 0, steps, tried[q])
            while k < steps and moves[k] == 1:
                k += 1
            gap = min(gap, times[k] - tried[q]) if k < steps else gap
    return now + gap
