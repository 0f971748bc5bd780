"""Quantile curves: a distribution as its values at equal steps of probability, and ranks that depend on each other."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from unrack.workload.distributions import Floats

_REACH = 8.0
_GRID = np.linspace(-_REACH, _REACH, 4097)
_NORMAL_CDF = np.array([0.5 * (1.0 + math.erf(z / math.sqrt(2.0))) for z in _GRID.tolist()])


def curve_of(values: Floats, knots: int) -> tuple[float, ...]:
    """The values at ``knots`` equal steps of probability, from the smallest to the largest, to six digits.

    Examples
    --------
    >>> curve_of(np.array([3.0, 1.0, 2.0]), 3)
    (1.0, 2.0, 3.0)
    """
    found = np.quantile(values, np.linspace(0.0, 1.0, knots), method="inverted_cdf")
    return tuple(float(f"{value:.6g}") for value in found)


def along(curve: Sequence[float], part: Floats, *, logarithmic: bool = True) -> Floats:
    """``float64[n]``: the values of a curve at the probabilities ``part``, between its points by straight lines.

    Parameters
    ----------
    curve
        Values in ascending order, at equal steps of probability; all above 0 where ``logarithmic``.
    part : float64[n]
        From 0 to 1.
    logarithmic
        The lines are straight for the logarithm of the value: uniform-log between two points.

    Examples
    --------
    >>> along((1, 4), np.array([0.0, 0.5, 1.0])).tolist()
    [1.0, 2.0, 4.0]
    """
    points = np.asarray(curve, np.float64)
    steps = np.linspace(0.0, 1.0, len(points))
    if not logarithmic:
        return np.interp(part, steps, points)
    return np.clip(np.exp(np.interp(part, steps, np.log(points))), points[0], points[-1])


def linked(rng: np.random.Generator, correlation: Floats, count: int) -> Floats:
    """``float64[k, count]``: numbers from 0 to 1, all alike in each row, whose normal scores have the correlation.

    Parameters
    ----------
    rng
        Draws ``k × count`` normal numbers.
    correlation : float64[k, k]
        Symmetric with ones on the diagonal. Where it is not positive definite, the links are weakened until it is.
    count
        How many columns.
    """
    size = len(correlation)
    weakest = float(np.linalg.eigvalsh(correlation)[0])
    if weakest < 1e-6:
        weight = 1.0 / (1.0 - weakest + 1e-6)
        correlation = weight * correlation + (1.0 - weight) * np.eye(size)
    scores = np.linalg.cholesky(correlation) @ rng.standard_normal((size, count))
    return np.interp(scores, _GRID, _NORMAL_CDF)


def normal_scores(values: Floats) -> Floats:
    """``float64[n]``: the normal number of each value's rank; equal values share their mean rank."""
    count = len(values)
    _, place, times = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(times)
    middle = (last - times / 2) / count  # of the ranks that equal values share, as a part of all
    return np.interp(middle[place], _NORMAL_CDF, _GRID)


def correlation_of(first: Floats, second: Floats) -> float:
    """The correlation of the normal scores of two columns; 0 where one of them never changes.

    Examples
    --------
    >>> correlation_of(np.array([1.0, 2.0, 3.0]), np.array([10.0, 100.0, 1000.0]))
    1.0
    """
    if len(first) < 2:
        return 0.0
    a, b = normal_scores(first), normal_scores(second)
    a, b = a - a.mean(), b - b.mean()
    spread = math.sqrt(float(a @ a) * float(b @ b))
    return round(float(a @ b) / spread, 6) if spread > 0 else 0.0


def distance(first: Floats, second: Floats) -> float:
    """The Kolmogorov-Smirnov distance: how far two distributions of values are apart at most, 0 to 1.

    Examples
    --------
    >>> distance(np.array([1.0, 2.0]), np.array([2.0, 3.0]))
    0.5
    """
    if not len(first) or not len(second):
        return float("nan")
    places = np.union1d(first, second)
    ranks = [np.searchsorted(np.sort(one), places, side="right") / len(one) for one in (first, second)]
    return float(np.abs(ranks[0] - ranks[1]).max())
