"""Quantiles of Student's t and of the beta distribution, which confidence intervals need.

Both by bisection of the incomplete beta function, which is a continued fraction. The tests hold them to SciPy's, to
1e-12 (``docs/decisions/0042-without-scipy.md``).

References
----------
Abramowitz, M., Stegun, I. A. (1964). Handbook of Mathematical Functions, equations 6.1.41, 26.5.8 and 26.7.1.
Press, W. H. et al. (1992). Numerical Recipes in C, section 6.4: the fraction by Lentz's method.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import exp, inf, lgamma, log, log1p, sqrt

LARGE = 50
"""From here on Stirling's series is exact to a double."""


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
