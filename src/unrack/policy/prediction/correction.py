"""Compiled: what a prediction becomes once its job has run for longer.

Each time a job is still running at its predicted end, the prediction grows, up to the requested run time:

* ``STEPS`` (Tsafrir, Etsion and Feitelson 2007, as their program has it): to the first prediction and 1 min; the next
  time to the first prediction and 5 min, then 15, 30 min, 1, 2, 5, 10, 20, 50, 100 h, and then to the request.
* ``REQUEST``: to the request at once.
* ``DOUBLE``: to twice what it was.
* ``ADDED_STEPS``: by the same steps, each added to the prediction before, as the paper's text can be read.

So the expected end follows from the start, the prediction made then, the request and the time; nothing is remembered.
"""

from __future__ import annotations

from enum import IntEnum

from unrack.jit import compiled, inlined
from unrack.units import SECOND_US


class Correction(IntEnum):
    """How a prediction grows that its job has outlived."""

    STEPS = 0
    REQUEST = 1
    DOUBLE = 2
    ADDED_STEPS = 3


MINUTE_US = 60 * SECOND_US
STEPS_US = tuple(minutes * MINUTE_US for minutes in (1, 5, 15, 30, 60, 120, 300, 600, 1200, 3000, 6000))
"""By how much the first prediction is exceeded after the first correction, the second …"""


@inlined
def expected_end(start: int, predicted: int, request: int, after: int, rule: int) -> int:
    """The first end later than ``after`` that is expected of a job, or the end of its request; all in µs."""
    run, ran = predicted, after - start
    if rule == 1:
        return start + (run if run > ran else request)
    k = 0
    while run <= ran and run < request:
        if rule == 2:
            run = 2 * run
        elif k == 11:
            run = request
        else:
            run = (predicted if rule == 0 else run) + STEPS_US[k]
        k += 1
    return start + min(run, request)


@compiled
def expected_end_us(start: int, predicted: int, request: int, after: int, rule: int) -> int:
    """:func:`expected_end`, for one job."""
    return expected_end(start, predicted, request, after, rule)
