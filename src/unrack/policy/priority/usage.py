"""What accounts and users have used, the past counting less: usage that decays with a half-life.

A job that uses ``rate`` from ``start`` to ``end`` has used, at time ``now``, the integral over that time of
``rate * 2 ** (-(now - t) / half_life) dt``. Slurm adds what was used and multiplies by a factor once every
PriorityCalcPeriod; this is the limit of short periods, and is exact at any time.

References
----------
Slurm, classic_fair_share.html, "Normalized Usage"; priority_multifactor.html, PriorityDecayHalfLife and
PriorityUsageResetPeriod.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np

from unrack.errors import InputError
from unrack.kernels.arrays import Floats, Ints

DAY_US = 86_400_000_000


@dataclass(frozen=True)
class Decay:
    """How usage is forgotten. An InputError if a time is negative."""

    half_life_us: int = 7 * DAY_US  # after so long usage counts half, µs; 0: it does not decay
    reset_us: int = 0  # at each multiple of this time usage becomes 0, µs; 0: never

    def __post_init__(self) -> None:
        for name in ("half_life_us", "reset_us"):
            if getattr(self, name) < 0:
                raise InputError(f"decay, {name}", str(getattr(self, name)), "at least 0")

    def later(self, amount: Floats, rate: Ints, since: Ints, now: int) -> Floats:
        """Amounts of the times ``since``, at ``now``, if as much was in use all the while."""
        if self.reset_us:
            reset = now // self.reset_us * self.reset_us
            amount, since = np.where(since < reset, 0.0, amount), np.maximum(since, reset)
        if not self.half_life_us:
            return amount + rate * (now - since).astype(np.float64)
        halvings = (now - since) / self.half_life_us
        grown: Floats = -np.expm1(-log(2) * halvings) * (self.half_life_us / log(2))
        return amount * np.exp2(-halvings) + rate * grown


@dataclass(slots=True)
class Usage:
    """Usage of each row of a tree by its own jobs, without those below it.

    Rates are whole numbers, so that they are exactly 0 again when all jobs have ended. An amount is a sum in the order
    in which jobs start and end: the same events in the same order give the same bits, others may differ by rounding.
    """

    decay: Decay
    amount: Floats  # float64[k]: rate x µs, as of `since_us`
    rate: Ints  # int64[k]: what running jobs use, such as cores
    since_us: Ints  # int64[k]

    @classmethod
    def none(cls, rows: int, decay: Decay, now: int = 0) -> Usage:
        """Nothing was used before ``now``."""
        return cls(decay, np.zeros(rows), np.zeros(rows, np.int64), np.full(rows, now))

    def change(self, row: int, rate: int, now: int) -> None:
        """A job starts, or ends: from ``now`` on, µs, a row uses so much more, or less if negative. O(1)."""
        at = slice(row, row + 1)
        assert now >= self.since_us[row]
        assert self.rate[row] + rate >= 0
        self.amount[at] = self.decay.later(self.amount[at], self.rate[at], self.since_us[at], now)
        self.since_us[row] = now
        self.rate[row] += rate

    def at(self, now: int) -> Floats:
        """float64[k]: the usage of each row at ``now``, µs, not before the last change; rate x µs. O(k)."""
        assert now >= self.since_us.max(initial=now)
        return self.decay.later(self.amount, self.rate, self.since_us, now)
