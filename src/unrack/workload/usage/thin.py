"""Fewer points in a measured series, by Ramer, Douglas and Peucker, and the step function of what is left.

The points that the algorithm keeps cut the series into stretches. A step is the largest sample of its stretch, so that
it is nowhere below the series. A ramp is two points for the algorithm, and one step at its top would be far above its
foot: a stretch with samples further apart than ``rise`` is therefore cut in the middle as well. Neighbouring
stretches that have all samples within the tolerance are one step.

References
----------
Douglas and Peucker 1973; Ramer 1972. Vieira Zacarias 2023, sections 5.2.2 and 5.2.3, thins usage by it, and says
neither the tolerance nor how a step gets its height. What differs from the original: distances are vertical, MB at the
same progress, as there is no common unit of the two axes; it runs over a stack, not by recursion; among equally far
points the one nearest to the middle is kept, and a stretch that has been split 128 times over is split in its middle,
so that no series takes quadratic time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unrack.errors import InputError
from unrack.jit import compiled
from unrack.kernels.arrays import Bools, Floats, Ints
from unrack.workload.usage.curves import SHARE_UNIT, WHOLE, UsageCurves, UsageSeries, starts

TOLERANCE = 0.02
"""How far a kept line may be from a sample, as a share of the series's peak."""

RISE = 0.1
"""How far a step may be above a sample, as a share of the series's peak."""

_DEEPEST = 128


@dataclass(frozen=True)
class Thinned:
    """Curves, and what they cost."""

    curves: UsageCurves  # one for each series
    # samples, points: before and after
    samples: int
    points: int
    # largest_error, mean_error: float64[series]: how far a curve is above its series at most, and on average over the
    # progress, in the series's own unit and before curves are rounded up to whole amounts
    largest_error: Floats
    mean_error: Floats


def thinned(series: UsageSeries, tolerance: float = TOLERANCE, rise: float | None = RISE) -> Thinned:
    """The curves of a source, with fewer points.

    Parameters
    ----------
    series
        Measured.
    tolerance
        How far the line between two kept points may be from a sample between them, as a share of the peak of the
        series, 0 to 1; 0 keeps whatever is not on a straight line.
    rise
        How far a step may be above a sample, as a share of the peak; ``None``: any distance, as Ramer, Douglas and
        Peucker have it.

    Raises
    ------
    InputError
        A share is not from 0 to 1.
    """
    for name, share in (("error", tolerance), ("rise", rise)):
        if share is not None and (isinstance(share, bool) or not 0 <= share <= 1):
            raise InputError(f"thin, {name}", repr(share), "a share of the peak from 0 to 1")
    peaks = series.peaks()
    limits = np.full(len(peaks), np.inf) if rise is None else rise * peaks
    point, at, amount = series.point.copy(), series.at.copy(), series.amount.copy()  # writable: one type of arrays
    keep = kept(point, at, amount, tolerance * peaks, limits)
    return stepped(series, _joined(point, amount, keep, np.minimum(tolerance * peaks, limits)))


@compiled
def kept(point: Ints, at: Floats, amount: Floats, tolerance: Floats, rise: Floats) -> Bools:
    """``bool[samples]``: which samples begin a stretch; series begin at ``point``, int64[series + 1].

    ``tolerance``, ``rise``: float64[series], in the unit of ``amount``; the latter may be infinite. O(samples × log
    samples) as a rule, at most O(samples × (128 + log samples)).
    """
    keep = np.zeros(len(at), np.bool_)
    room = 4096
    begin = np.empty(room, np.int64)
    end = np.empty(room, np.int64)
    depth = np.empty(room, np.int64)
    for series in range(len(point) - 1):
        keep[point[series]] = True
        keep[point[series + 1] - 1] = True
        begin[0], end[0], depth[0] = point[series], point[series + 1] - 1, 0
        size = 1
        while size > 0:
            size -= 1
            low, high, deep = begin[size], end[size], depth[size]
            if high - low < 2:
                continue
            slope = (amount[high] - amount[low]) / (at[high] - at[low])
            middle = (low + high) // 2
            far, where = -1.0, middle
            least, most = amount[low], amount[low]
            for sample in range(low + 1, high):
                here = amount[sample]
                apart = abs(here - (amount[low] + slope * (at[sample] - at[low])))
                if apart > far or (apart == far and abs(sample - middle) < abs(where - middle)):
                    far, where = apart, sample
                least, most = min(least, here), max(most, here)
            if far > tolerance[series]:
                cut = where if deep < _DEEPEST else middle
            elif most - least > rise[series]:
                cut = middle
            else:
                continue
            keep[cut] = True
            if size + 2 > room:
                room *= 2
                begin, end, depth = _longer(begin, room), _longer(end, room), _longer(depth, room)
            begin[size], end[size], depth[size] = low, cut, deep + 1
            begin[size + 1], end[size + 1], depth[size + 1] = cut, high, deep + 1
            size += 2
    return keep


@compiled
def _longer(values: Ints, room: int) -> Ints:
    found = np.empty(room, np.int64)
    for place in range(len(values)):
        found[place] = values[place]
    return found


@compiled
def _joined(point: Ints, amount: Floats, keep: Bools, width: Floats) -> Bools:
    """Without the beginnings of stretches that lie, with the step before them, within ``width``."""
    found = np.zeros(len(keep), np.bool_)
    for series in range(len(point) - 1):
        least, most = 0.0, 0.0
        begin = point[series]
        while begin < point[series + 1]:
            end = begin + 1
            low, high = amount[begin], amount[begin]
            while end < point[series + 1] and not keep[end]:
                low, high = min(low, amount[end]), max(high, amount[end])
                end += 1
            if begin > point[series] and max(most, high) - min(least, low) <= width[series]:
                least, most = min(least, low), max(most, high)
            else:
                least, most = low, high
                found[begin] = True
            begin = end
    return found


def stepped(series: UsageSeries, keep: Bools) -> Thinned:
    """The step function with steps that begin at the kept samples, each as high as the largest sample of its stretch.

    ``keep``: bool[samples]; of every series the first is kept. Shares become parts per million of their limit.
    """
    unit = float(SHARE_UNIT) if series.shares else 1.0
    kept_at = np.flatnonzero(keep)
    owner = np.repeat(np.arange(len(series.point) - 1), np.diff(series.point))
    height = np.maximum.reduceat(series.amount, kept_at) if len(kept_at) else np.zeros(0)
    of_step = owner[kept_at]
    progress = np.minimum((series.at[kept_at] * WHOLE).astype(np.int64), WHOLE - 1)
    mb = np.ceil(np.round(height * unit, 6)).astype(np.int64)
    new = np.ones(len(mb), np.bool_)
    new[1:] = (np.diff(of_step) != 0) | (np.diff(progress) > 0)  # two within a part per billion are one
    mb = np.maximum.reduceat(mb, np.flatnonzero(new)) if len(mb) else mb
    of_step, progress = of_step[new], progress[new]
    other = np.ones(len(mb), np.bool_)
    other[1:] = (np.diff(of_step) != 0) | (np.diff(mb) != 0)  # a step as high as the one before is none
    of_step, progress, mb = of_step[other], progress[other], mb[other]
    point = starts(np.bincount(of_step, minlength=len(series.point) - 1))
    curves = UsageCurves(series.first, point, progress, mb)
    above = height[np.cumsum(keep) - 1] - series.amount if len(height) else np.zeros(0)
    spots = series.point[:-1]
    return Thinned(
        curves, len(series.amount), len(mb),
        np.maximum.reduceat(above, spots) if len(above) else np.zeros(0),
        np.add.reduceat(above * series.spans(), spots) if len(above) else np.zeros(0),
    )  # fmt: skip
