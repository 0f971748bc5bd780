"""What the runs of an axis say of each of its levels, and by how much that may be wrong.

A run is held against the controls right before and after it in the same sitting, so that what drifts slowly cancels.
Times are compared by their logarithms. The intervals of an axis hold all together at the stated confidence
(Bonferroni).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean, median, stdev

from unrack.metric.estimate import t_point
from unrack.profile.axes.axis import Level
from unrack.profile.running.records import Run


@dataclass(frozen=True)
class Estimate:
    """The speed at a level, as a share of that of the controls."""

    level: Level
    speed: float
    # low, high: within which the true one is, at the confidence of the axis
    low: float
    high: float
    runs: int  # that counted
    missed: int  # that did not, as the level was not held

    @property
    def half(self) -> float:
        """Half of the interval, as a share of the speed: the larger half."""
        return max(self.high / self.speed - 1, 1 - self.low / self.speed)


_t_point = cache(t_point)


def ratios_of(runs: Sequence[Run]) -> dict[Level, list[float]]:
    """Level → logarithms of its times over those of the controls beside them, of runs that held it."""
    found: dict[Level, list[float]] = {}
    for i, run in enumerate(runs):
        if run.level is None or not run.held:
            continue
        near = [runs[k] for k in (i - 1, i + 1) if 0 <= k < len(runs)]
        controls = [one for one in near if one.level is None and one.sitting == run.sitting and one.block == run.block]
        if controls:
            base = fmean(math.log(one.time_s) for one in controls)
            found.setdefault(run.level, []).append(math.log(run.time_s) - base)
    return found


def estimates_of(runs: Sequence[Run], levels: Sequence[Level], confidence: float) -> list[Estimate]:
    """An estimate for every level that has a run or more; ``runs``: of one axis, in the order in which they were run.

    One run, or none that differs, gives no interval: from 0 to infinity, or none at all.
    """
    found, made = ratios_of(runs), []
    below = 1 - (1 - confidence) / (2 * max(1, len(levels)))
    for level in levels:
        ratios = found.get(level, [])
        missed = sum(run.level == level and not run.held for run in runs)
        if not ratios:
            continue
        mean = fmean(ratios)
        half = (
            _t_point(len(ratios) - 1, below) * stdev(ratios) / math.sqrt(len(ratios)) if len(ratios) > 1 else math.inf
        )
        low, high = (math.exp(-mean - half), math.exp(-mean + half)) if half < 700 else (0.0, math.inf)
        made.append(Estimate(level, math.exp(-mean), low, high, len(ratios), missed))
    return made


def noise_of(runs: Sequence[Run]) -> float:
    """How much runs of the same differ: the standard deviation of controls within their blocks, as a share.

    Examples
    --------
    >>> noise_of([])
    0.0
    """
    squares, degrees = 0.0, 0
    for times in _controls(runs).values():
        logs = [math.log(time) for time in times]
        squares += sum((one - fmean(logs)) ** 2 for one in logs)
        degrees += len(logs) - 1
    return math.sqrt(squares / degrees) if degrees else 0.0


def drift_of(runs: Sequence[Run]) -> dict[int, float]:
    """Block → by how much, as a share, its controls are off: from those of all blocks, or from each other.

    Off from all: the mean of the block against the median over blocks. Off from each other: the standard deviation.
    """
    blocks = _controls(runs)
    if not blocks:
        return {}
    usual = median(fmean(times) for times in blocks.values())
    return {
        block: max(abs(fmean(times) / usual - 1), stdev(times) / fmean(times) if len(times) > 1 else 0.0)
        for block, times in blocks.items()
    }


def _controls(runs: Sequence[Run]) -> dict[int, list[float]]:
    found: dict[int, list[float]] = {}
    for run in runs:
        if run.level is None:
            found.setdefault(run.block, []).append(run.time_s)
    return found
