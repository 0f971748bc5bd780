"""Curves through the levels of an axis: monotone ones, and those of the forms that unrack's models have.

Which form is good enough is told by leaving out one level at a time and predicting it from the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

from unrack.profile.axes.axis import AxisFile, number
from unrack.profile.fitting.estimates import Estimate
from unrack.slowdown.contention.profile import Method, fitted

Points = Sequence[tuple[float, float]]
Curve = Callable[[float], float]
"""Level → speed."""


def monotone(values: Sequence[float], weights: Sequence[float], falling: bool) -> list[float]:
    """The monotone values that are nearest to some, in weighted least squares: isotonic regression.

    Neighbours in the wrong order are pooled to their mean, until there are none (pool adjacent violators).

    Examples
    --------
    >>> monotone([1.0, 0.7, 0.8], [1, 1, 1], falling=True)
    [1.0, 0.75, 0.75]
    """
    pools: list[tuple[float, float, int]] = []  # mean, weight, how many
    for mean, weight in zip(values, weights, strict=True):
        count = 1
        while pools and (pools[-1][0] < mean if falling else pools[-1][0] > mean):
            before, heavy, many = pools.pop()
            mean = (before * heavy + mean * weight) / (heavy + weight)
            weight, count = heavy + weight, count + many
        pools.append((mean, weight, count))
    return [mean for mean, _, count in pools for _ in range(count)]


def _straight(points: Points) -> Curve:
    return fitted(points, "interpolate").at


def _of(method: Method) -> Callable[[Points], Curve]:
    return lambda points: fitted(points, method).at


def _parts(points: Points) -> Curve:
    """A part of the time goes with what is supplied, the rest does not: 1/speed = a + b/x, at least 0 both."""
    rows = [(1 / x, 1 / y) for x, y in points if x > 0 and y > 0]
    if len(rows) < 2:
        return lambda _: 1.0
    mean_u, mean_v = fmean(u for u, _ in rows), fmean(v for _, v in rows)
    spread = sum((u - mean_u) ** 2 for u, _ in rows)
    b = max(0.0, sum((u - mean_u) * (v - mean_v) for u, v in rows) / spread) if spread else 0.0
    a = mean_v - b * mean_u
    if a < 0:
        a, b = 0.0, sum(u * v for u, v in rows) / sum(u * u for u, _ in rows)
    return lambda x: 1 / (a + b / x) if x > 0 and a + b / x > 0 else 0.0


FORMS: dict[str, tuple[str, Callable[[Points], Curve]]] = {
    "line": ("the least-squares line", _of("line")),
    "parts": ("a part of the time that goes with what is supplied, and a rest: 1/speed = a + b/level", _parts),
    "quadratic": ("the least-squares parabola", _of("quadratic")),
    "monotone": ("straight lines between monotone points", _straight),
}
"""Name → what it is, and what makes it of points; the plainest first."""
TIE = 1e-3
"""Of two forms with errors that differ by less than this, the plainer is offered."""


class FormError(NamedTuple):
    """How well a form predicts levels that it was not shown."""

    form: str
    mean: float  # of |predicted − measured|, of the speed alone = 1
    most: float


@dataclass(frozen=True)
class CurveFit:
    """What was found along an axis of numbers.

    Attributes
    ----------
    x, speed, low, high
        Levels in order, the controls' among them where that has a number; speeds made monotone, and what they lie
        between, also monotone.
    errors
        Of each form that could be tried, over the inner levels; empty with fewer than two inner levels.
    """

    axis: AxisFile
    x: tuple[float, ...]
    speed: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    errors: tuple[FormError, ...]

    @property
    def offered(self) -> str:
        """The form that the measurements support: the plainest of those that predict best."""
        if not self.errors:
            return "monotone"
        least = min(error.mean for error in self.errors)
        return next(error.form for error in self.errors if error.mean <= least + TIE)

    @property
    def points(self) -> list[tuple[float, float]]:
        """(level, speed)."""
        return list(zip(self.x, self.speed, strict=True))

    def curve(self, form: str = "") -> Curve:
        """A form through the points; default: the one that is offered."""
        made = FORMS[form or self.offered][1](self.points)
        return lambda x: min(1.0, max(0.01, made(x)))

    def band(self, x: float) -> tuple[float, float]:
        """What any monotone curve lies between at a level, at the confidence of the axis; beyond the levels: no limit.

        Between two levels a monotone curve is below the higher one's upper end and above the lower one's lower end.
        """
        after = next((i for i, level in enumerate(self.x) if level >= x), len(self.x))
        if after < len(self.x) and self.x[after] == x:
            return self.low[after], self.high[after]
        left = (self.low[after - 1], self.high[after - 1]) if after > 0 else None
        right = (self.low[after], self.high[after]) if after < len(self.x) else None
        upper, lower = (left, right) if self.axis.falling else (right, left)
        return (lower[0] if lower else 0.0), (upper[1] if upper else math.inf)


def fit_axis(axis: AxisFile, estimates: Sequence[Estimate]) -> CurveFit:
    """Curves along an axis with numbers as levels."""
    rows = [(number(one.level), one.speed, one.low, one.high) for one in estimates]
    if axis.origin is not None:
        rows.append((axis.origin, 1.0, 1.0, 1.0))
    rows.sort()
    x = tuple(row[0] for row in rows)
    speeds = monotone([row[1] for row in rows], [_weight(*row[1:]) for row in rows], axis.falling)
    # of the ends of intervals, those that monotone curves can have
    low, high = [row[2] for row in rows], [row[3] for row in rows]
    order = range(len(rows)) if axis.falling else range(len(rows) - 1, -1, -1)
    best = math.inf
    for i in order:
        best = high[i] = min(best, high[i])
    best = 0.0
    for i in reversed(order):
        best = low[i] = max(best, low[i])
    forms = [name for name in FORMS if name != "parts" or not axis.falling]
    return CurveFit(axis, x, tuple(speeds), tuple(low), tuple(high), tuple(_errors(rows, axis, forms)))


def _weight(speed: float, low: float, high: float) -> float:
    """One over the variance, of logarithms; without an interval little, and the controls' own level holds."""
    del speed
    return 1 / max(math.log(high / low), 1e-4) ** 2 if low > 0 and math.isfinite(high) else 1e-4


def _errors(rows: Sequence[tuple[float, ...]], axis: AxisFile, forms: Sequence[str]) -> list[FormError]:
    if len(rows) < 4:
        return []
    found = []
    for form in forms:
        off = []
        for i in range(1, len(rows) - 1):
            rest = [row for k, row in enumerate(rows) if k != i]
            values = monotone([row[1] for row in rest], [_weight(*row[1:]) for row in rest], axis.falling)
            curve = FORMS[form][1]([(row[0], value) for row, value in zip(rest, values, strict=True)])
            off.append(abs(min(1.0, curve(rows[i][0])) - min(1.0, rows[i][1])))
        found.append(FormError(form, fmean(off), max(off)))
    return found
