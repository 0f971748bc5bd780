"""Means over seeds, and differences between rows that had the same jobs, with confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from unrack.metric.quantiles import t_point

LEVEL = 0.95
"""Of the confidence intervals."""


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
