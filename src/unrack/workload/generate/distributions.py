"""Random variables for synthetic workloads, as a study file writes them: a number, or ``{kind = "...", ...}``."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import AfterValidator, BeforeValidator, Field, FiniteFloat, model_validator

from unrack.errors import InputError
from unrack.kernels.arrays import Floats, Ints
from unrack.resources.checked import Strict
from unrack.units import LONGEST_US, SECOND_US

Amount = Annotated[FiniteFloat, Field(ge=0, le=1e15)]
Positive = Annotated[FiniteFloat, Field(gt=0, le=1e15)]


def ascending(values: tuple[float, ...]) -> tuple[float, ...]:
    """The values; one below that before it is a ValueError."""
    if any(after < before for before, after in pairwise(values)):
        raise ValueError("values in ascending order")
    return values


class Constant(Strict):
    """Always ``value``; a plain number means the same."""

    kind: Literal["constant"]
    value: Amount

    def draw(self, rng: np.random.Generator, count: int) -> Floats:
        """``float64[count]``; draws nothing from the generator."""
        return np.full(count, self.value)


class _Range(Strict):
    min: Amount
    max: Amount

    @model_validator(mode="after")
    def _ordered(self) -> _Range:
        if self.min > self.max:
            raise ValueError(f"min {self.min:g} is above max {self.max:g}")
        return self


class Uniform(_Range):
    """Between ``min`` and ``max``, all alike."""

    kind: Literal["uniform"]

    def draw(self, rng: np.random.Generator, count: int) -> Floats:
        """``float64[count]``."""
        return rng.uniform(self.min, self.max, count)


class LogUniform(_Range):
    """Between ``min`` (above 0) and ``max``, with a uniform logarithm."""

    kind: Literal["log-uniform"]
    min: Positive

    def draw(self, rng: np.random.Generator, count: int) -> Floats:
        """``float64[count]``."""
        return np.exp(rng.uniform(math.log(self.min), math.log(self.max), count))


class PowerOfTwo(_Range):
    """The powers of two from ``min`` to ``max``, all alike."""

    kind: Literal["power-of-two"]
    min: Annotated[FiniteFloat, Field(ge=1, le=1e15)] = 1

    @model_validator(mode="after")
    def _holds_one(self) -> PowerOfTwo:
        if math.ceil(math.log2(self.min)) > math.floor(math.log2(self.max)):
            raise ValueError(f"there is no power of two from {self.min:g} to {self.max:g}")
        return self

    def draw(self, rng: np.random.Generator, count: int) -> Floats:
        """``float64[count]``."""
        low, high = math.ceil(math.log2(self.min)), math.floor(math.log2(self.max))
        return np.exp2(rng.integers(low, high + 1, count).astype(np.float64))


class _Bounded(Strict):
    min: Amount = 0
    max: Amount = 1e15

    def _bounded(self, values: Floats) -> Floats:
        return np.clip(values, self.min, self.max)


class Exponential(_Bounded):
    """With this ``mean``; values outside ``min`` and ``max`` are moved to them."""

    kind: Literal["exponential"]
    mean: Positive

    def draw(self, rng: np.random.Generator, count: int) -> Floats:
        """``float64[count]``."""
        return self._bounded(rng.exponential(self.mean, count))


class LogNormal(_Bounded):
    """With this ``median``, ``sigma`` of the logarithm; values outside ``min`` and ``max`` are moved to them."""

    kind: Literal["lognormal"]
    median: Positive
    sigma: Annotated[FiniteFloat, Field(ge=0, le=20)]

    def draw(self, rng: np.random.Generator, count: int) -> Floats:
        """``float64[count]``."""
        return self._bounded(self.median * np.exp(self.sigma * rng.standard_normal(count)))


class Pareto(_Bounded):
    """With this ``mean`` and ``shape`` of the tail, above 1: the nearer to 1, the more the few longest hold of all.

    The least is mean × (shape - 1) / shape; values outside ``min`` and ``max`` are moved to them.
    """

    kind: Literal["pareto"]
    mean: Positive
    shape: Annotated[FiniteFloat, Field(gt=1, le=1000)]

    def draw(self, rng: np.random.Generator, count: int) -> Floats:
        """``float64[count]``."""
        least = self.mean * (self.shape - 1) / self.shape
        return self._bounded(least * (1.0 + rng.pareto(self.shape, count)))


class Choice(Strict):
    """One of ``values``, with ``weights`` (default: all alike)."""

    kind: Literal["choice"]
    values: Annotated[list[Amount], Field(min_length=1)]
    weights: list[Amount] | None = None

    @model_validator(mode="after")
    def _weighted(self) -> Choice:
        if self.weights is not None and len(self.weights) != len(self.values):
            raise ValueError(f"{len(self.weights)} weights for {len(self.values)} values")
        if self.weights is not None and sum(self.weights) <= 0:
            raise ValueError("all weights are 0")
        return self

    def draw(self, rng: np.random.Generator, count: int) -> Floats:
        """``float64[count]``."""
        weights = np.ones(len(self.values)) if self.weights is None else np.array(self.weights)
        return np.array(self.values)[pick(rng, weights, count)]


def pick(rng: np.random.Generator, weights: Floats, count: int) -> Ints:
    """``int64[count]``: indices into ``weights``, drawn in proportion to them."""
    edges = np.cumsum(weights)
    return np.searchsorted(edges / edges[-1], rng.random(count), side="right").clip(max=len(weights) - 1)


def _number_is_constant(value: Any) -> Any:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return {"kind": "constant", "value": value}
    return value


Distribution = Annotated[
    Annotated[
        Constant | Uniform | LogUniform | PowerOfTwo | Exponential | LogNormal | Pareto | Choice,
        Field(discriminator="kind"),
    ],
    BeforeValidator(_number_is_constant),
]
"""Any of the kinds; a plain number is a constant."""


def numbers_from(seed: int) -> np.random.Generator:
    """The generator of a workload's random numbers.

    Raises
    ------
    InputError
        The seed is below 0, or 2**64 or more.
    """
    if not 0 <= seed < 2**64:
        raise InputError("seed", repr(seed), "a number from 0 to 2**64")
    return np.random.Generator(np.random.PCG64(seed))


def as_us(seconds: Floats, where: str) -> Ints:
    """``int64``: times in µs, rounded to the nearest.

    Raises
    ------
    InputError
        One is beyond 285 years; it says ``where``.
    """
    micro = np.rint(seconds * SECOND_US)
    if len(micro) and micro.max() > LONGEST_US:
        raise InputError(f"generator, {where}", f"{seconds.max():g} s", "times within 285 years")
    return micro.astype(np.int64)


def upward(values: Floats, fewest: int, most: int, where: str) -> Ints:
    """``int64``: amounts rounded up, as a demand is, to ``fewest`` or more.

    Raises
    ------
    InputError
        One is above ``most``; it says ``where``.
    """
    if len(values) and values.max() > most:
        raise InputError(f"generator, {where}", f"{values.max():g}", f"at most {most}")
    return np.maximum(np.ceil(np.round(values, 6)), fewest).astype(np.int64)


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
