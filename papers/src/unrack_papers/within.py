"""Values that are known only within ends: what lies beyond the last place that was tried."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from unrack import Estimate, estimate


@dataclass(frozen=True)
class Within:
    """A value that was not seen, but must lie between two ends; arithmetic goes by intervals.

    Attributes
    ----------
    shown
        What stands for it: the last place that was tried.
    low, high
        It is no less, and no more; either may be infinite.

    Examples
    --------
    The least memory that is enough, where all of it was not, and how much is saved by one of which 75 % are:

    >>> needed = Within(100.0, 100.0, math.inf)
    >>> 1 - 75.0 / needed
    Within(shown=0.25, low=0.25, high=1.0)
    """

    shown: float
    low: float
    high: float

    def __neg__(self) -> Within:
        return Within(-self.shown, -self.high, -self.low)

    def __add__(self, other: Value) -> Within:
        more = within(other)
        return Within(self.shown + more.shown, self.low + more.low, self.high + more.high)

    def __mul__(self, factor: float) -> Within:
        low, high = sorted((_times(factor, self.low), _times(factor, self.high)))
        return Within(factor * self.shown, low, high)

    def __truediv__(self, other: Value) -> Within:
        """By what is not negative."""
        by = within(other)
        low = _over(self.low, by.high if self.low >= 0 else by.low)
        high = _over(self.high, by.low if self.high >= 0 else by.high)
        return Within(_over(self.shown, by.shown), low, high)

    def __sub__(self, other: Value) -> Within:
        return self + -within(other)

    def __rsub__(self, other: float) -> Within:
        return -self + other

    def __rtruediv__(self, other: float) -> Within:
        return within(other) / self

    __radd__ = __add__
    __rmul__ = __mul__


Value = float | Within


@dataclass(frozen=True)
class Bounded(Estimate):
    """A mean over seeds of values of which some are known only within ends.

    Attributes
    ----------
    floor, ceiling
        The means of their lower and of their upper ends, infinite where one of these is.
    """

    floor: Estimate
    ceiling: Estimate


def within(value: Value) -> Within:
    """A value as one within ends: a number is both of them."""
    return value if isinstance(value, Within) else Within(value, value, value)


def mean_of(values: Iterable[Value | None]) -> Estimate | None:
    """The mean of the values that are there, as :func:`unrack.metric.estimate.estimate` has it, and of their ends.

    Examples
    --------
    >>> found = mean_of([25.0, Within(25.0, 25.0, 100.0)])
    >>> found.mean, found.floor.mean, found.ceiling.mean
    (25.0, 25.0, 62.5)
    """
    there = [value for value in values if value is not None]
    mean = estimate(value.shown if isinstance(value, Within) else value for value in there)
    if mean is None or not any(isinstance(value, Within) for value in there):
        return mean
    known = [one for one in map(within, there) if math.isfinite(one.shown)]
    return Bounded(
        mean.mean, mean.half, mean.count, _end([one.low for one in known]), _end([one.high for one in known])
    )


def ends(value: Estimate) -> tuple[Estimate, Estimate]:
    """The means of the lower and of the upper ends; both are the mean itself where every value is known."""
    return (value.floor, value.ceiling) if isinstance(value, Bounded) else (value, value)


def sign_of(value: Estimate) -> str:
    """What stands before a mean: ``"≥ "`` (``"≤ "``) where it is known only to be at least (at most) so much.

    Examples
    --------
    >>> sign_of(mean_of([100.0, Within(100.0, 100.0, math.inf)])), sign_of(mean_of([1.0, 2.0]))
    ('≥ ', '')
    """
    floor, ceiling = ends(value)
    below, above = floor.mean < value.mean, ceiling.mean > value.mean
    return "≈ " if below and above else "≤ " if below else "≥ " if above else ""


def mirrored(value: Estimate) -> Estimate:
    """The mean of the values with the other sign."""
    if isinstance(value, Bounded):
        ends_of_it = (mirrored(value.ceiling), mirrored(value.floor))
        return Bounded(-value.mean, value.half, value.count, *ends_of_it)
    return replace(value, mean=-value.mean)


def _end(several: list[float]) -> Estimate:
    infinite = [one for one in several if math.isinf(one)]
    found = None if infinite else estimate(several)
    return Estimate(infinite[0], 0.0, len(several)) if found is None else found


def _times(factor: float, end: float) -> float:
    return factor * end if factor else 0.0


def _over(end: float, by: float) -> float:
    if math.isinf(end):
        return end
    return end / by if by else math.copysign(math.inf, end) if end else 0.0
