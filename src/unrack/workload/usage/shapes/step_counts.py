"""How many steps to draw, so that as many are left after thinning as measured series have."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unrack.workload.generate.batch.agreement import Bools
from unrack.workload.generate.batch.curve import curve_of
from unrack.workload.usage.curves import Ints
from unrack.workload.usage.series import UsageSeries, series_of
from unrack.workload.usage.shapes.draw import drawn
from unrack.workload.usage.shapes.parameters import KINDS, Shapes
from unrack.workload.usage.shapes.properties import properties
from unrack.workload.usage.thin import SHARE_UNIT

KNOTS = 12
"""Points of a quantile curve."""

_DRAWN = 2000
_ROUNDS = 4
_MOST_TIMES = 5.0
_LONG = 20.0


def in_use(series: UsageSeries) -> UsageSeries:
    """Series that never use anything, of jobs that do, use a millionth of the peak: properties are ratios to peaks."""
    return replace(series, amount=np.maximum(series.amount, 1 / SHARE_UNIT))


def highest(series: UsageSeries) -> Ints:
    """int64[jobs]: the series of each job with the highest peak, the first of equals."""
    order: Ints = np.lexsort((-series.peaks(), series.job_of_series()))
    return order[series.first[:-1]]


def long_enough(series: UsageSeries, interval_s: float) -> Bools:
    """``bool[series]``: whose job is long enough, by its samples, for its number of steps to be its kind's."""
    long: Bools = ~(series.run_s < _LONG * interval_s)
    return long[series.job_of_series()]


def like(shapes: Shapes, given: UsageSeries, seed: int) -> UsageSeries:
    """Drawn series for jobs of the same sizes and run times as those given: 2 000 or more.

    Jobs whose run time is not known are given one of a thousand samples.
    """
    times = -(-_DRAWN // len(given))
    run = np.where(np.isnan(given.run_s), 1000 * shapes.interval_s, given.run_s)
    tasks, run = np.tile(given.series, times), np.tile(run, times)
    return in_use(series_of(drawn(shapes, tasks, run, np.full(len(tasks), SHARE_UNIT), seed), run).over_peak())


def with_steps(shapes: Shapes, given: UsageSeries, seed: int) -> Shapes:
    """The parameters with more steps, where some of those drawn are so alike that thinning takes them for one.

    Parameters
    ----------
    shapes
        Whose quantile curves of steps are those of thinned series.
    given
        What they were fitted to.
    seed
        Of the curves that are drawn and thinned, four times over.
    """
    wanted = {name: np.array(one.steps) for name, one in shapes.kinds.items()}
    for _ in range(_ROUNDS):
        made = like(shapes, given, seed)
        ours = properties(made)
        kind = np.where(long_enough(made, shapes.interval_s), ours.kind[highest(made)][made.job_of_series()], -1)
        kinds = dict(shapes.kinds)
        for name, goal in wanted.items():
            left = ours.steps[kind == KINDS.index(name)]
            if not len(left):
                continue
            now = np.array(curve_of(left.astype(np.float64), KNOTS))
            steps = np.maximum.accumulate(np.clip(np.array(kinds[name].steps) * goal / now, 1, _MOST_TIMES * goal))
            kinds[name] = kinds[name].model_copy(update={"steps": tuple(float(f"{one:.4g}") for one in steps)})
        shapes = shapes.model_copy(update={"kinds": kinds})
    return shapes
