"""What curves of memory use are like, measured in the same way for given and for drawn ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unrack.kernels.arrays import Floats, Ints
from unrack.workload.usage.curves import UsageSeries
from unrack.workload.usage.shapes.parameters import KINDS, NEAR
from unrack.workload.usage.thin import Thinned, thinned

TOLERANCE, RISE = 0.05, 0.1
"""How series are thinned before their steps are counted: shares of the peak."""

_FLAT = 0.8
_RISING = 0.8
_STAIRS = 4
_SHORT = 0.1


@dataclass(frozen=True)
class Properties:
    """Of each series."""

    # int64[series]: Place in :data:`unrack.workload.usage.shapes.parameters.KINDS`. Flat: near its peak for 80 % of
    # the progress or more. Ramp: of four steps or more, and correlated with the progress by 0.8 or more. Spikes:
    # above the middle of its median and its peak for a tenth of the progress or less. Phases: all others.
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
