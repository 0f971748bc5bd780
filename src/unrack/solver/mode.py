"""The least cost of work that may be done in several modes, each with a speed and a cost rate, before a limit of time.

The modes may follow each other in any mix, idle time included. At a mean speed v, the least mean cost rate is h(v) with
h the lower convex hull of the points (speed, rate) and the origin; work w within a limit t costs t·h(w/t), which is
the least over all shorter times too, as h starts at the origin.
"""

from __future__ import annotations

import numpy as np

from unrack.jit import compiled
from unrack.kernels.arrays import Floats, Ints


def cheapest(work: Floats, limit: Floats, speed: Floats, rate: Floats, which: Ints) -> Floats:
    """float64[jobs]: least cost of each job's work within its limit of time; infinite if no mode is fast enough.

    O(modes x (classes + log modes) + jobs x log modes).

    Parameters
    ----------
    work, limit : float64[jobs]
        In the same unit; the limit may be infinite.
    speed : float64[modes]
        Work done per time; above 0.
    rate : float64[modes, classes]
        Cost per time, at least 0; infinite where jobs of the class may not use the mode.
    which : int64[jobs]
        The class of each job.

    Examples
    --------
    Speed 2 costs 3, speed 1 costs 1; 12 of work take 6 to 12 of time:

    >>> modes = np.array([2.0, 1.0]), np.array([[3.0], [1.0]])
    >>> cheapest(np.full(3, 12.0), np.array([12.0, 10.0, 6.0]), *modes, np.zeros(3, np.int64)).tolist()
    [12.0, 14.0, 18.0]
    """
    order = np.argsort(speed, kind="stable")
    speed, rate = speed[order], rate[order]
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.where(work > 0, work / np.maximum(limit, 0.0), 0.0)
    cost = np.full(len(work), np.inf)
    for group in range(rate.shape[1]):
        mine = np.flatnonzero(which == group)
        corner = _hull(speed, np.ascontiguousarray(rate[:, group]))
        if len(mine) == 0 or len(corner) == 0:
            continue
        x, y = np.append(0.0, speed[corner]), np.append(0.0, rate[corner, group])
        right = np.clip(np.searchsorted(x, mean[mine]), 1, len(corner))
        slope = (y[right] - y[right - 1]) / (x[right] - x[right - 1])
        rest = np.maximum(work[mine] - x[right - 1] * np.where(right > 1, limit[mine], 0.0), 0.0)
        base = np.where(right > 1, y[right - 1] * np.where(right > 1, limit[mine], 0.0), 0.0)
        cost[mine] = np.where(mean[mine] <= x[-1], base + slope * rest, np.inf)
    return cost


@compiled
def _hull(speed: Floats, rate: Floats) -> Ints:
    """Corners of the lower convex hull of the origin and the modes, by speed, which ascends."""
    corner = np.empty(len(speed), np.int64)
    count = 0
    for i in range(len(speed)):
        if rate[i] == np.inf:
            continue
        if count > 0 and speed[corner[count - 1]] == speed[i]:
            if rate[corner[count - 1]] <= rate[i]:
                continue
            count -= 1
        while count > 0:
            x, y = speed[corner[count - 1]], rate[corner[count - 1]]
            before_x, before_y = 0.0, 0.0
            if count > 1:
                before_x, before_y = speed[corner[count - 2]], rate[corner[count - 2]]
            if (y - before_y) * (speed[i] - before_x) < (rate[i] - before_y) * (x - before_x):
                break
            count -= 1
        corner[count] = i
        count += 1
    return corner[:count]
