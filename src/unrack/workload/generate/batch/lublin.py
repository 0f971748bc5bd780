"""The Lublin-Feitelson model of rigid batch jobs.

Sizes are two-stage uniform in log2, with shares of serial jobs and of powers of two; the logarithm of the run time is
hyper-gamma, and the larger the job, the likelier it is of the long kind; the logarithm of the gap between arrivals in
the rush hours is gamma, and a gamma curve over the day says how busy the other half-hours are.

References
----------
U. Lublin, D. G. Feitelson: The workload on parallel supercomputers: modeling the characteristics of rigid jobs. Journal
of Parallel and Distributed Computing 63(11), 2003. The defaults are the fit for batch jobs as it is commonly quoted
from the paper's tables of sizes, run times and arrivals; they were not checked against a copy of it. Least certain are
``upper_gap``, ``log_run_max``, ``log_gap_max``, ``rush_to_all``, and the half-hour at which a day begins. The load or
rate of a study replaces the overall rate, so that the arrival constants only shape the day and the bursts. The model
has no requested times: they are run time × ``request_factor``, 1 by default.
"""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from pydantic import Field, FiniteFloat

from unrack.kernels.arrays import Floats
from unrack.resources.checked import Strict
from unrack.workload.generate.batch.model import COMPLETED, Draw
from unrack.workload.generate.distributions import Distribution, Positive
from unrack.workload.generate.week_cycle import DAY_S

_SLOTS = 48
_SLOT_S = DAY_S / _SLOTS
Share = Annotated[FiniteFloat, Field(ge=0, le=1)]


class LublinModel(Strict):
    """Parameters of the model, with the published ones for batch jobs as defaults."""

    # serial_share, power_share: jobs of one node; jobs, serial ones aside, with the log2 of the size rounded to a
    # whole number
    serial_share: Share = 0.2927
    power_share: Share = 0.6686
    # low, upper_gap, low_share: log2 of the size is uniform from ``low`` to log2(nodes) - ``upper_gap`` with
    # probability ``low_share``, else from there to log2(nodes)
    low: Annotated[FiniteFloat, Field(ge=0, le=30)] = 1.2
    upper_gap: Annotated[FiniteFloat, Field(ge=0, le=30)] = 2.5
    low_share: Share = 0.7875
    # short_shape, short_scale, long_shape, long_scale: gamma distributions of ln(run time in s)
    short_shape: Positive = 6.57
    short_scale: Positive = 0.823
    long_shape: Positive = 639.1
    long_scale: Positive = 0.0156
    # short_slope, short_base: probability of the short one: slope × nodes of the job + base, within 0 and 1
    short_slope: FiniteFloat = -0.003
    short_base: FiniteFloat = 0.6986
    # log_run_max, log_gap_max: larger logarithms are drawn again
    log_run_max: Annotated[FiniteFloat, Field(ge=9, le=20)] = 12.0
    log_gap_max: Annotated[FiniteFloat, Field(ge=9, le=20)] = 13.0
    # gap_shape, gap_scale: gamma distribution of ln(gap in s) in the rush hours
    gap_shape: Positive = 6.0415
    gap_scale: Positive = 0.8531
    # day_shape, day_scale, day_begins: gamma curve of the busyness of the half-hours of a day that begins at the
    # half-hour ``day_begins``
    day_shape: Positive = 6.1271
    day_scale: Positive = 5.2740
    day_begins: Annotated[int, Field(ge=0, lt=_SLOTS)] = 11
    rush_to_all: Positive = 1.0519  # arrival rate of the rush hours over that of the whole day
    # requested time over run time; below 1 counts as 1
    request_factor: Distribution = Field(default=1, validate_default=True)

    def draw(self, rng: np.random.Generator, count: int, nodes: int, never_ran: bool = False) -> Draw:
        """Draw jobs for a system without their arrivals: sizes, then run times in whole seconds, then request factors.

        ``never_ran`` changes nothing: the model has no cancelled jobs.
        """
        highest = math.log2(nodes)
        middle = min(max(highest - self.upper_gap, self.low), highest)
        lowest = min(self.low, middle)
        serial, power, below = (rng.random(count) < share for share in (
            self.serial_share, self.power_share, self.low_share))  # fmt: skip
        exponent = np.where(below, rng.uniform(lowest, middle, count), rng.uniform(middle, highest, count))
        exponent = np.where(power, np.rint(exponent), exponent)
        size = np.where(serial, 1, np.rint(np.exp2(exponent)).astype(np.int64))
        size = np.clip(size, 1, nodes)
        short = rng.random(count) < self.short_slope * size + self.short_base
        shape = np.where(short, self.short_shape, self.long_shape)
        scale = np.where(short, self.short_scale, self.long_scale)
        run_s = np.maximum(np.rint(np.exp(_below(rng, shape, scale, self.log_run_max))), 1.0)
        request_s = np.maximum(np.ceil(run_s * self.request_factor.draw(rng, count)), run_s)
        return Draw(size, run_s, request_s, np.full(count, COMPLETED, np.int64))

    @property
    def arrivals(self) -> LublinModel:
        """When jobs arrive: the model says it itself."""
        return self

    def units(self, rng: np.random.Generator, count: int) -> Floats:
        """``float64[count]``: gaps of mean 1 on the clock of the rate (their own mean, not that of the model)."""
        shape, scale = np.full(count, self.gap_shape), np.full(count, self.gap_scale)
        gaps = np.exp(_below(rng, shape, scale, self.log_gap_max))
        return np.asarray(gaps / self._mean_gap_s(), np.float64)

    @property
    def jobs_per_day(self) -> float:
        """What the model says: from the mean gap in the rush hours and their rate over that of the day."""
        return DAY_S / (self._mean_gap_s() * self.rush_to_all)

    def times_s(self, units: Floats, gap_s: float) -> Floats:
        """``float64[count]``: arrivals in s since a midnight, at a mean gap of ``gap_s`` over whole days."""
        paced = np.concatenate([[0.0], np.cumsum(self.day_weights())]) * _SLOT_S
        days, rest = np.divmod(np.cumsum(units) * gap_s, DAY_S)
        found: Floats = days * DAY_S + np.interp(rest, paced * (DAY_S / paced[-1]), np.arange(_SLOTS + 1) * _SLOT_S)
        return found

    def day_weights(self) -> Floats:
        """float64[48]: busyness of the half-hours from midnight on, of mean 1."""
        fine = self.day_begins - 0.5 + np.arange(_SLOTS * 64) / 64 + 1 / 128
        density = np.exp((self.day_shape - 1) * np.log(np.maximum(fine, 1e-9)) - fine / self.day_scale)
        weights = density.reshape(_SLOTS, 64).mean(axis=1)
        return np.asarray(np.roll(weights / weights.mean(), self.day_begins), np.float64)

    def _mean_gap_s(self) -> float:
        """The mean of exp(x), x gamma below the limit, by the midpoint rule."""
        x = (np.arange(20_000) + 0.5) * (self.log_gap_max / 20_000)
        log_density = (self.gap_shape - 1) * np.log(x) - x / self.gap_scale
        density = np.exp(log_density - log_density.max())
        return float((density * np.exp(x)).sum() / density.sum())


def _below(rng: np.random.Generator, shape: Floats, scale: Floats, most: float) -> Floats:
    """Gamma numbers; those of ``most`` or more are drawn again, and after a hundred times are ``most``."""
    found: Floats = rng.gamma(shape, scale)
    for _ in range(100):
        again = np.flatnonzero(found >= most)
        if not len(again):
            break
        found[again] = rng.gamma(shape[again], scale[again])
    return np.asarray(np.minimum(found, most), np.float64)
