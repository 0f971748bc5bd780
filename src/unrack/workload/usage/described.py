"""Of what shape measured curves of memory use are, and what else is in a file of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unrack.kernels.arrays import Floats, Ints
from unrack.workload.usage.curves import SHARE_UNIT, UsageSeries
from unrack.workload.usage.thin import Thinned, thinned

KINDS = ("flat", "ramp", "phases", "spikes")
"""The kinds of shapes: nearly always at the peak; rising to it; at levels that last; mostly low, with short peaks."""

NEAR = 0.9
"""The share of the peak from which on a curve counts as near its peak."""

TOLERANCE, RISE = 0.05, 0.1
"""How series are thinned before their steps are counted: shares of the peak."""

_FLAT = 0.8
_RISING = 0.8
_STAIRS = 4
_SHORT = 0.1


@dataclass(frozen=True)
class Properties:
    """Of each series."""

    # int64[series]: place in :data:`KINDS`. Flat: near its peak for 80 % of the progress or more. Ramp: of four steps
    # or more, and correlated with the progress by 0.8 or more. Spikes: above the middle of its median and its peak for
    # a tenth of the progress or less. Phases: all others.
    kind: Ints
    # ratio, near: float64[series]: mean over peak; share of the progress at 90 % of the peak or above
    ratio: Floats
    near: Floats
    steps: Ints  # int64[series]: steps that are left when it is thinned to 5 % of its peak
    thin: Thinned  # the thinned curves


def properties(series: UsageSeries) -> Properties:
    """The properties of series, each of which uses something.

    Parameters
    ----------
    series
        In shares of a peak (:meth:`unrack.workload.usage.curves.UsageSeries.over_peak`), lest rounding lose steps.
    """
    begin = series.point[:-1]
    owner = np.repeat(np.arange(len(begin)), np.diff(series.point))
    span = series.spans()
    level = series.amount / series.peaks()[owner]

    def mean(values: Floats) -> Floats:
        return np.add.reduceat(values * span, begin)

    ratio, near = mean(level), np.minimum(mean((level >= NEAR).astype(np.float64)), 1.0)
    middle = series.at + span / 2
    apart, along = level - ratio[owner], middle - mean(middle)[owner]
    spread = np.sqrt(mean(apart**2) * mean(along**2))
    rising = mean(apart * along) / np.maximum(spread, 1e-12)
    high = (1 + _median(level, span, owner, begin)) / 2
    above = mean((level > high[owner]).astype(np.float64))
    thin = thinned(series, TOLERANCE, RISE)
    steps = np.diff(thin.curves.point)
    kind = np.select(
        [near >= _FLAT, (rising >= _RISING) & (steps >= _STAIRS), above <= _SHORT],
        [KINDS.index("flat"), KINDS.index("ramp"), KINDS.index("spikes")],
        KINDS.index("phases"),
    )
    return Properties(kind.astype(np.int64), ratio, near, steps, thin)


def _median(level: Floats, span: Floats, owner: Ints, begin: Ints) -> Floats:
    """float64[series]: the level that is not passed for half of the progress."""
    order = np.lexsort((level, owner))
    passed = np.cumsum(span[order])
    passed -= np.repeat(np.append(0.0, passed[begin[1:] - 1]), np.diff(np.append(begin, len(level))))
    half = np.flatnonzero(passed >= 0.5 - 1e-9)
    first = half[np.searchsorted(owner[order][half], np.arange(len(begin)))]
    return level[order][first]


def in_use(series: UsageSeries) -> UsageSeries:
    """Series that never use anything, of jobs that do, use a millionth of the peak: properties are ratios to peaks."""
    return replace(series, amount=np.maximum(series.amount, 1 / SHARE_UNIT))


def highest(series: UsageSeries) -> Ints:
    """int64[jobs]: the series of each job with the highest peak, the first of equals."""
    order: Ints = np.lexsort((-series.peaks(), series.job_of_series()))
    return order[series.first[:-1]]


QUANTILES = (0.0, 0.25, 0.5, 0.75, 1.0)


def describe_usage(series: UsageSeries) -> dict[str, Any]:
    """What is in a file as a record of plain numbers, ready for JSON.

    ``idle``: jobs that never use anything; ``samples`` (a series), ``run_s``, ``peak``, ``mean_over_peak`` and
    ``progress_near_peak``: smallest, quartiles and largest; ``kinds`` → jobs; ``thinned`` → points, and the error made
    by default as a share of the peak; ``dropped`` and ``changed`` by rule.
    """
    busy = np.flatnonzero(series.job_peaks() > 0)
    found: dict[str, Any] = {
        "source": series.source,
        "unit": "share of a limit" if series.shares else "MB",
        "rows": series.read,
        "jobs": len(series),
        "series": len(series.point) - 1,
        "idle": len(series) - len(busy),
        "interval_s": None if np.isnan(series.interval_s) else round(series.interval_s, 6),
        "samples": _quantiles(np.diff(series.point).astype(np.float64)),
        "run_s": _quantiles(series.run_s[~np.isnan(series.run_s)]),
        "peak": _quantiles(series.job_peaks()),
    }
    if len(busy):
        shapes = in_use(series.take(busy).over_peak())
        seen = properties(shapes)
        kinds = np.bincount(seen.kind[highest(shapes)], minlength=len(KINDS))
        made = thinned(shapes)
        found |= {
            "mean_over_peak": _quantiles(seen.ratio),
            "progress_near_peak": _quantiles(seen.near),
            "kinds": {name: int(count) for name, count in zip(KINDS, kinds, strict=True)},
            "thinned": {
                "points": made.points,
                "largest_error": round(float((made.largest_error / shapes.peaks()).max()), 6),
                "mean_error": round(float((made.mean_error / shapes.peaks()).mean()), 6),
            },
        }
    return found | {"dropped": dict(series.dropped), "changed": dict(series.changed)}


def _quantiles(values: Floats) -> list[float] | None:
    if not len(values):
        return None
    return [round(float(part), 6) for part in np.quantile(values, QUANTILES, method="inverted_cdf")]
