"""Arrivals at a rate that follows the hour of the day and the day of the week."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import AfterValidator, Field, FiniteFloat

from unrack.kernels.arrays import Floats
from unrack.resources.checked import Strict
from unrack.workload.generate.distributions import Positive

HOUR_S = 3600.0
DAY_S = 86_400.0
WEEK_S = 7 * DAY_S


def _some_rate(value: tuple[float, ...]) -> tuple[float, ...]:
    if sum(value) <= 0:
        raise ValueError("a weight above 0 somewhere")
    return value


Weight = Annotated[FiniteFloat, Field(ge=0, le=1e6)]
Hours = Annotated[tuple[Weight, ...], Field(min_length=24, max_length=24), AfterValidator(_some_rate)]
Weekdays = Annotated[tuple[Weight, ...], Field(min_length=7, max_length=7), AfterValidator(_some_rate)]


class WeekCycle(Strict):
    """When jobs arrive. The clock of what is drawn begins on a Monday at midnight.

    The rate at an hour of a weekday is proportional to the product of the two weights. Between arrivals lie gamma
    distributed gaps on a clock that runs as fast as the rate.
    """

    jobs_per_day: Positive  # on average over a week
    hour: Hours = (1.0,) * 24  # 24 weights, from midnight on
    weekday: Weekdays = (1.0,) * 7  # 7 weights, from Monday on
    # Shape of the gaps: 1 = Poisson, less = in bursts, more = evenly. Their coefficient of variation is 1 /
    # sqrt(gap_shape).
    gap_shape: Annotated[FiniteFloat, Field(ge=0.001, le=1e6)] = 1.0

    def units(self, rng: np.random.Generator, count: int) -> Floats:
        """``float64[count]``: gaps of mean 1 on the clock of the rate."""
        return rng.gamma(self.gap_shape, 1.0 / self.gap_shape, count)

    def times_s(self, units: Floats, gap_s: float) -> Floats:
        """``float64[count]``: arrivals in s, ascending, at a mean gap of ``gap_s`` over whole weeks."""
        return self.clock_s(np.cumsum(units) * gap_s)

    def clock_s(self, paced_s: Floats) -> Floats:
        """Seconds since a Monday at midnight, of seconds on the clock that runs as fast as the rate."""
        real, paced = self._week()
        weeks, rest = np.divmod(paced_s, WEEK_S)
        return weeks * WEEK_S + np.interp(rest, paced, real)

    def paced_s(self, clock_s: Floats) -> Floats:
        """The inverse of :meth:`clock_s`; where the rate is 0 the clock stands still."""
        real, paced = self._week()
        weeks, rest = np.divmod(clock_s, WEEK_S)
        return weeks * WEEK_S + np.interp(rest, real, paced)

    def _week(self) -> tuple[Floats, Floats]:
        """float64[169] each: hours of a week in s, and the paced clock at them; both end at a week."""
        rates = np.outer(self.weekday, self.hour).ravel()
        paced = np.concatenate([[0.0], np.cumsum(rates)])
        hours: Floats = np.arange(169, dtype=np.float64) * HOUR_S
        return hours, np.asarray(paced * (WEEK_S / paced[-1]), np.float64)


def rates_of(clock_s: Floats, knows_weekday: bool) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Weights of 24 hours and 7 weekdays, of mean 1, to four digits: arrivals over how long the log was there for them.

    ``clock_s``: float64[jobs], seconds since a Monday at midnight, ascending. Unless weekdays are known, or in a log of
    less than a week, all days count alike; in one of less than a day all hours do, too.
    """
    first, last = float(clock_s.min()), float(clock_s.max())
    edges = np.arange(np.floor(first / HOUR_S), np.ceil(last / HOUR_S) + 1) * HOUR_S
    there = np.minimum(edges[1:], last) - np.maximum(edges[:-1], first)
    place = (edges[:-1] // HOUR_S).astype(np.int64)

    def weights(kinds: int, of_hour: int, enough: bool) -> tuple[float, ...]:
        if not enough:
            return (1.0,) * kinds
        jobs = np.bincount((clock_s // (HOUR_S * of_hour)).astype(np.int64) % kinds, minlength=kinds)
        lasted = np.bincount(place // of_hour % kinds, there, minlength=kinds)
        rate = jobs / np.maximum(lasted, 1.0)
        return tuple(float(f"{weight:.4g}") for weight in rate / rate.mean())

    span = last - first
    return weights(24, 1, span >= DAY_S), weights(7, 24, knows_weekday and span >= WEEK_S)


def gap_shape_of(paced_s: Floats) -> float:
    """The gamma shape most likely for gaps on the paced clock.

    Gaps count as 1 s or more, the resolution of logs, or as a tenth of the mean gap or more where that is less.

    Thomas Minka's closed approximation to the maximum-likelihood estimate, within 1.5 %.
    """
    gaps = np.maximum(np.diff(paced_s), 0.0)
    if not len(gaps) or gaps.mean() <= 0:
        return 1.0
    gaps = np.maximum(gaps, min(1.0, gaps.mean() / 10))
    s = float(np.log(gaps.mean()) - np.log(gaps).mean())
    if s < 1e-6:
        return 1e6
    return float(f"{min(max((3.0 - s + np.sqrt((s - 3.0) ** 2 + 24.0 * s)) / (12.0 * s), 0.001), 1e6):.4g}")
