"""Means over seeds, and differences between rows that had the same jobs, with confidence intervals.

Quantiles of Student's t and of the beta distribution are by bisection of the incomplete beta function, which is a
continued fraction. The tests hold them to SciPy's, to 1e-12 (``docs/decisions/0042-without-scipy.md``).

References
----------
Abramowitz, M., Stegun, I. A. (1964). Handbook of Mathematical Functions, equations 6.1.41, 26.5.8 and 26.7.1.
Press, W. H. et al. (1992). Numerical Recipes in C, section 6.4: the fraction by Lentz's method.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import exp, inf, lgamma, log, log1p, sqrt

LARGE = 50
"""From here on Stirling's series is exact to a double."""
LEVEL = 0.95
"""Of the confidence intervals."""


@lru_cache(maxsize=1024)
def t_point(degrees: int, below: float) -> float:
    """The value below which Student's t is with a probability of a half or more.

    Examples
    --------
    >>> round(t_point(2, 0.975), 3)
    4.303
    """
    if below >= 1.0:
        return inf
    beyond, high = 2 * (1 - below), 1.0

    def short(u: float) -> bool:  # of t² / degrees
        return incomplete_beta(1 / (1 + u), u / (1 + u), degrees / 2, 0.5) > beyond

    while short(high):
        high *= 4
    return sqrt(degrees * _last(short, high))


@lru_cache(maxsize=1024)
def beta_point(a: int, b: int, below: float) -> float:
    """The value below which a variable of the beta distribution is with a probability.

    Examples
    --------
    >>> round(beta_point(18, 3, 0.05), 3)
    0.717
    """
    return _last(lambda x: incomplete_beta(x, 1 - x, a, b) < below, 1.0)


def _last(holds: Callable[[float], bool], high: float) -> float:
    """The last number from 0 to ``high`` for which something holds that ceases to."""
    low = 0.0
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if holds(middle) else (low, middle)
    return middle


def incomplete_beta(x: float, y: float, a: float, b: float) -> float:
    """The share of the beta distribution that is below x; ``y``: 1 − x, which may be known to more digits.

    Examples
    --------
    >>> round(incomplete_beta(0.25, 0.75, 1.0, 2.0), 6)
    0.4375
    """
    if x > (a + 1) / (a + b + 2):
        return 1.0 - incomplete_beta(y, x, b, a)
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    fraction, m = d, 0
    while abs(c * d - 1) > 2e-16:
        m += 1
        for term in (m * (b - m) / (a + 2 * m - 1), -(a + m) * (a + b + m) / (a + 2 * m + 1)):
            d = 1 / (1 + term * x / (a + 2 * m) * d)
            c = 1 + term * x / (a + 2 * m) / c
            fraction *= c * d
    logs = a * (log(x) if x < 0.5 else log1p(-y)) + b * (log(y) if y < 0.5 else log1p(-x))
    return fraction * exp(logs - _log_beta(a, b)) / a


def _log_beta(a: float, b: float) -> float:
    """The logarithm of the beta function."""
    a, b = min(a, b), max(a, b)
    if b < LARGE:
        return lgamma(a) + lgamma(b) - lgamma(a + b)
    # Γ(b) / Γ(a + b) by the difference of their series: of large ones the logarithms agree in most digits
    return lgamma(a) - (b - 0.5) * log1p(a / b) - a * log(a + b) + a + _stirling(b) - _stirling(a + b)


def _stirling(z: float) -> float:
    return (1 / 12 - (1 / 360 - 1 / (1260 * z * z)) / (z * z)) / z


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds.

    Attributes
    ----------
    mean
        The mean, in the unit of the metric.
    half
        Half the width of its confidence interval (Student's t); 0 with one value.
    count
        How many seeds gave a value.
    """

    mean: float
    half: float
    count: int

    @property
    def excludes_0(self) -> bool:
        """True if 0 is outside the interval; False with one value, which has none."""
        return self.count > 1 and abs(self.mean) > self.half


def estimate(values: Iterable[float | None], level: float = LEVEL) -> Estimate | None:
    """The mean of the values that are there, with its confidence interval; ``None`` without any.

    Examples
    --------
    >>> found = estimate([1.0, None, 3.0])
    >>> found.mean, round(found.half, 3), found.count
    (2.0, 12.706, 2)
    """
    there = [float(value) for value in values if value is not None and math.isfinite(value)]
    if not there:
        return None
    count = len(there)
    mean = math.fsum(there) / count
    if count == 1:
        return Estimate(mean, 0.0, 1)
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in there) / (count - 1))
    return Estimate(mean, student_t(count - 1, level) * spread / math.sqrt(count), count)


def difference(
    more: Mapping[int, float | None], less: Mapping[int, float | None], level: float = LEVEL
) -> Estimate | None:
    """The mean of more − less over the seeds that both have: paired, as both had the same jobs; ``None`` without any.

    Examples
    --------
    >>> found = difference({0: 5.0, 1: 9.0, 2: 3.0}, {0: 4.0, 1: 7.9, 3: 1.0})
    >>> round(found.mean, 3), round(found.half, 3), found.excludes_0
    (1.05, 0.635, True)
    """
    pairs = ((more[seed], less[seed]) for seed in more if seed in less)
    return estimate((None if a is None or b is None else a - b for a, b in pairs), level)


def student_t(degrees: int, level: float) -> float:
    """The two-sided point of Student's t distribution: half the width of an interval, in standard errors.

    Examples
    --------
    >>> round(student_t(2, 0.95), 3)
    4.303
    """
    return t_point(degrees, (1 + level) / 2)
