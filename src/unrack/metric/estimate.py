"""Means over seeds with their confidence intervals, and which rows are told apart by them.

Quantiles of Student's t and of the beta distribution are by bisection of the incomplete beta function, which is a
continued fraction. The tests hold them to SciPy's, to 1e-12 (``docs/decisions/0042-without-scipy.md``).

One row is called better than another only where the numbers carry it. Three things must hold:

*The same world.* Rows compete only with rows of the same ``world``; see :func:`world_of`.

*The same work.* On every seed, a row must have served as much as the row of its world that served most: in core-time
(``served``) and in jobs. There is no allowance beyond rounding, as the one job left out can be the one that waits
longest. ``COUNT_THE_UNSERVED`` are compared without this: a policy that serves less looks worse there by itself.

*More than noise.* With several seeds, the difference to the best mean is taken seed by seed, as the rows had the same
jobs, and its Student-t interval must exclude 0. Of k rows, k − 1 are compared with the best mean, so the intervals are
at 1 − 0.05 / (k − 1) (Bonferroni): with 95 % confidence the best row is among those not told apart from the best mean
(as in Gupta's selection of subsets, 1965). With one seed there is no interval, and the numbers are those of these jobs,
unless the time of the log was resampled: then the difference is taken draw by draw (:mod:`unrack.metric.bootstrap`).

References
----------
Abramowitz, M., Stegun, I. A. (1964). Handbook of Mathematical Functions, equations 6.1.41, 26.5.8 and 26.7.1.
Press, W. H. et al. (1992). Numerical Recipes in C, section 6.4: the fraction by Lentz's method.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import exp, inf, lgamma, log, log1p, sqrt
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from unrack.facts import counted

if TYPE_CHECKING:
    from unrack.metric.bootstrap import Resampled


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


COUNT_THE_UNSERVED = frozenset({"served", "jobs_finished", "jobs_rejected", "jobs_queued", "servers_rejected"})
"""Metrics that are worse where less is served, so that all rows may be compared."""
ROUNDING = 1e-9
"""Shares of work served that differ by less are the same."""

Mark = Literal["best", "among", ""]
"""``best``: better than all others; ``among``: not told apart from the best, as others are."""


class ComparedRow(NamedTuple):
    """A row that may be compared: seed → its metrics, its world, and of one seed perhaps what resampled time gives."""

    seeds: Mapping[int, Mapping[str, Any]]
    world: str = ""
    drawn: Resampled | None = None

    def estimate(self, metric: str) -> Estimate | None:
        """The mean over the seeds, or the value of the one log, with its interval if there is one."""
        values = self.by_seed(metric)
        if self.drawn is not None and len(values) == 1:
            return self.drawn.estimate(metric, *values.values())
        return estimate(values.values())

    def above(self, other: ComparedRow, metric: str, level: float) -> Estimate | None:
        """By how much it is above another row, seed by seed or draw by draw."""
        more, less = self.by_seed(metric), other.by_seed(metric)
        found = difference(more, less, level)
        if found is None or found.count > 1 or self.drawn is None or other.drawn is None:
            return found
        return self.drawn.difference(other.drawn, metric, found.mean, level)

    def by_seed(self, metric: str) -> dict[int, float]:
        """Seed → value, where there is one."""
        found = {seed: values.get(metric) for seed, values in self.seeds.items()}
        return {seed: float(value) for seed, value in found.items() if value is not None and math.isfinite(value)}


@dataclass(frozen=True)
class MetricStanding:
    """How the rows of one world compare by one metric."""

    world: str  # theirs
    values: Mapping[str, Estimate]  # row → mean over its seeds, for the rows that were compared
    # Rows that are better than all others; several where they are equal on every seed. Empty where nothing is.
    best: tuple[str, ...] = ()
    # rows that cannot be told apart from the one with the best mean, that one first; empty where ``best`` is not, or
    # where no two rows can be told apart from the best
    among: tuple[str, ...] = ()
    # row → its difference to the row with the best mean, with the interval that decided; several seeds or draws only
    gaps: Mapping[str, Estimate] = field(default_factory=dict)
    drawn: bool = False  # whether the intervals come of resampled time, not of seeds

    @property
    def over(self) -> str:
        """What the rows were compared on, at least: ``"5 seeds"``, ``"52 blocks of time"``."""
        count = min((gap.count for gap in self.gaps.values()), default=1)
        return f"{counted(count, 'block')} of time" if self.drawn else counted(count, "seed")


def world_of(record: Mapping[str, Any]) -> str:
    """What must be equal for two rows to compete: the ``world`` of a row of the summary, or of the record of a run."""
    world = record.get("world")
    return "" if world is None else world if isinstance(world, str) else json.dumps(world, sort_keys=True)


def served_less(rows: Mapping[str, ComparedRow]) -> dict[str, float]:
    """Row → the share of core-time that it served, of those that served less than the best of their world.

    Where the core-time is the same and jobs are missing, it is the share of the jobs.
    """
    found = {}
    for names in _worlds(rows).values():
        shares = {name: {seed: _shares(values) for seed, values in rows[name].seeds.items()} for name in names}
        most: dict[int, tuple[float, float]] = {}
        for own in shares.values():
            for seed, (work, jobs) in own.items():
                most[seed] = max(most.get(seed, (0.0, 0.0))[0], work), max(most.get(seed, (0.0, 0.0))[1], jobs)
        for name, own in shares.items():
            for kind in (0, 1):
                if any(share[kind] < most[seed][kind] - ROUNDING for seed, share in own.items()):
                    found[name] = math.fsum(share[kind] for share in own.values()) / len(own)
                    break
    return found


def _shares(values: Mapping[str, Any]) -> tuple[float, float]:
    """What a run served: of the core-time asked for, and of the jobs; of the jobs, where the former is not known."""
    counts = [float(values.get(f"jobs_{state}") or 0) for state in ("finished", "rejected", "queued")]
    jobs = counts[0] / sum(counts) if sum(counts) else 1.0
    work = values.get("served")
    return jobs if work is None else float(work), jobs


def standings(
    rows: Mapping[str, ComparedRow], metric: str, better: str, less: Mapping[str, float] | None = None
) -> tuple[MetricStanding, ...]:
    """Compare rows by a metric: one standing a world, in order of first appearance.

    ``better``: ``"low"``, ``"high"`` or ``""`` (neither is better: nothing is marked). ``less``: rows that served less,
    from :func:`served_less`; ``None``: find out.
    """
    less = served_less(rows) if less is None else less
    found = []
    for world, names in _worlds(rows).items():
        fair = [name for name in names if metric in COUNT_THE_UNSERVED or name not in less]
        found.append(_standing(world, {name: rows[name] for name in fair}, metric, better))
    return tuple(found)


def marks(
    rows: Mapping[str, ComparedRow], metric: str, better: str, less: Mapping[str, float] | None = None
) -> dict[str, Mark]:
    """Row → its mark in the column of a metric; rows without one are left out.

    Examples
    --------
    >>> one, other = ComparedRow({0: {"wait": 1}, 1: {"wait": 2}}), ComparedRow({0: {"wait": 1.5}, 1: {"wait": 2.5}})
    >>> marks({"a": one, "b": other}, "wait", "low")
    {'a': 'best'}
    """
    found: dict[str, Mark] = {}
    for own in standings(rows, metric, better, less):
        found.update((name, "best") for name in own.best)
        found.update((name, "among") for name in own.among)
    return found


def _worlds(rows: Mapping[str, ComparedRow]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, row in rows.items():
        found.setdefault(row.world, []).append(name)
    return found


def _standing(world: str, rows: Mapping[str, ComparedRow], metric: str, better: str) -> MetricStanding:
    means = {name: mean for name, row in rows.items() if (mean := row.estimate(metric)) is not None}
    values = {name: rows[name].by_seed(metric) for name in means}
    shared = set.intersection(*(set(own) for own in values.values())) if values else set()
    if better not in ("low", "high") or len(values) < 2 or not shared:
        return MetricStanding(world, means)
    sign = 1 if better == "low" else -1
    top = min(values, key=lambda name: sign * math.fsum(values[name][seed] for seed in sorted(shared)))
    others = [name for name in values if name != top]
    equal = [name for name in others if _equal(values[name], values[top])]
    if len(equal) == len(others):
        return MetricStanding(world, means)
    drawn = all(mean.count > 1 and len(values[name]) == 1 for name, mean in means.items())
    if not drawn and all(len(own) == 1 for own in values.values()):
        return MetricStanding(world, means, best=_in_order(values, [top, *equal]))
    level = 1 - (1 - LEVEL) / len(others)
    gaps = {name: gap for name in others if (gap := rows[name].above(rows[top], metric, level)) is not None}
    # a row with which the top has more seeds in common than with all may be below it on these
    worse = {name for name, gap in gaps.items() if gap.excludes_0 and sign * gap.mean > 0}
    near = [name for name in others if name not in equal and name not in worse]
    if not near:
        return MetricStanding(world, means, _in_order(values, [top, *equal]), gaps=gaps, drawn=drawn)
    among = (top, *(name for name in others if name in equal or name in near))
    return MetricStanding(world, means, (), among if len(among) < len(values) else (), gaps, drawn)


def _in_order(values: Mapping[str, object], names: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in values if name in names)


def _equal(one: Mapping[int, float], other: Mapping[int, float]) -> bool:
    return all(math.isclose(one[seed], other[seed], rel_tol=1e-9, abs_tol=1e-12) for seed in one if seed in other)
