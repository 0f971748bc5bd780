"""What a job goes on with that is suspended."""

from __future__ import annotations

from typing import NamedTuple

from unrack.kernels.arrays import Ints


class Suspended(NamedTuple):
    """What it held, and what is left of it."""

    rows: Ints  # int64[rows, 5]: of its lease, with its cores
    since_us: int
    left_us: int  # the work that is expected to be left of it, µs at speed 1
    lead_us: int  # how much longer its devices were being attached
