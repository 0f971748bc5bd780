"""Quantile curves: a distribution as its values at steps of probability, and ranks that depend on each other."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from unrack.kernels.arrays import Floats

_FEWEST_WITH_TAIL = 9
_REACH = 8.0
_GRID = np.linspace(-_REACH, _REACH, 4097)
_NORMAL_CDF = np.array([0.5 * (1.0 + math.erf(z / math.sqrt(2.0))) for z in _GRID.tolist()])


def steps(points: int) -> Floats:
    """``float64[points]``: the probabilities of a curve's points.

    They are equally far apart; a curve of nine points or more has three of them within the last step, each a quarter as
    far from the end as the one before: a few jobs there do much of the work.

    Examples
    --------
    >>> steps(3).tolist()
    [0.0, 0.5, 1.0]
    """
    if points < _FEWEST_WITH_TAIL:
        return np.linspace(0.0, 1.0, points)
    even = np.linspace(0.0, 1.0, points - 3)
    tail = 1.0 - even[1] * 0.25 ** np.arange(1, 4)
    return np.concatenate([even[:-1], tail, even[-1:]])


def curve_of(values: Floats, knots: int) -> tuple[float, ...]:
    """The values at the :func:`steps` of ``knots`` points, from the smallest to the largest, to six digits."""
    found = np.quantile(values, steps(knots), method="inverted_cdf")
    return tuple(float(f"{value:.6g}") for value in found)


def along(curve: Sequence[float], part: Floats) -> Floats:
    """``float64[n]``: the values of a curve at the probabilities ``part`` (float64[n]), uniform-log between its points.

    The curve has values above 0 in ascending order, at the probabilities of :func:`steps`.

    Examples
    --------
    >>> along((1, 4), np.array([0.0, 0.5, 1.0])).tolist()
    [1.0, 2.0, 4.0]
    """
    points = np.asarray(curve, np.float64)
    places = steps(len(points))
    return np.clip(np.exp(np.interp(part, places, np.log(points))), points[0], points[-1])


def normal_ranks(scores: Floats, weight: Floats, mean: Floats, spread: Floats) -> Floats:
    """``float64[n]``: the rank, 0 to 1, of each score in a mixture of normal distributions.

    ``weight``, ``mean``, ``spread``: float64[classes]; weights need not sum to 1, and classes of weight 0 have no part.
    """
    if weight.sum() <= 0:
        return np.full(len(scores), 0.5)
    total = np.zeros(len(_GRID))
    for part, centre, width in zip((weight / weight.sum()).tolist(), mean.tolist(), spread.tolist(), strict=True):
        if part > 0:
            total += part * np.interp((_GRID - centre) / width, _GRID, _NORMAL_CDF)
    return np.interp(scores, _GRID, total)


def normal_scores(values: Floats) -> Floats:
    """``float64[n]``: the normal number of each value's rank; equal values share their mean rank."""
    count = len(values)
    _, place, times = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(times)
    middle = (last - times / 2) / count  # of the ranks that equal values share, as a part of all
    return np.interp(middle[place], _NORMAL_CDF, _GRID)


def correlation_of(first: Floats, second: Floats) -> float:
    """The correlation of the normal scores of two columns; 0 where one of them never changes."""
    if len(first) < 2:
        return 0.0
    a, b = normal_scores(first), normal_scores(second)
    a, b = a - a.mean(), b - b.mean()
    spread = math.sqrt(float(a @ a) * float(b @ b))
    return round(float(a @ b) / spread, 6) if spread > 0 else 0.0


def distance(first: Floats, second: Floats) -> float:
    """The Kolmogorov-Smirnov distance: how far two distributions of values are apart at most, 0 to 1."""
    if not len(first) or not len(second):
        return float("nan")
    places = np.union1d(first, second)
    ranks = [np.searchsorted(np.sort(one), places, side="right") / len(one) for one in (first, second)]
    return float(np.abs(ranks[0] - ranks[1]).max())
