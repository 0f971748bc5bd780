"""The least cost of work that may be done in several modes, each with a speed and a cost rate, before a limit of time.

The modes may follow each other in any mix. That is a linear programme over the time spent in each, with two
constraints (all work done; no more time than the limit), so some optimum uses one mode, or two and all of the time.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unrack.jit import compiled

Floats = NDArray[np.float64]


def cheapest(work: Floats, limit: Floats, speed: Floats, rate: Floats) -> Floats:
    """float64[jobs]: least cost of each job's work within its limit of time; infinite if no mode is fast enough.

    O(jobs x modes²).

    Parameters
    ----------
    work, limit : float64[jobs]
        In the same unit; the limit may be infinite.
    speed : float64[modes]
        Work done per time; above 0.
    rate : float64[modes, jobs]
        Cost per time; infinite where the job may not use the mode.

    Examples
    --------
    Speed 2 costs 3, speed 1 costs 1; 12 of work take 6 to 12 of time:

    >>> modes = np.array([2.0, 1.0]), np.array([[3.0] * 3, [1.0] * 3])
    >>> cheapest(np.full(3, 12.0), np.array([12.0, 10.0, 6.0]), *modes).tolist()
    [12.0, 14.0, 18.0]
    """
    return _cheapest(work.astype(np.float64), limit.astype(np.float64), speed, rate)


@compiled
def _cheapest(work: Floats, limit: Floats, speed: Floats, rate: Floats) -> Floats:
    best = np.full(len(work), np.inf)
    for job in range(len(work)):
        for fast in range(len(speed)):
            if rate[fast, job] == np.inf or speed[fast] * limit[job] < work[job]:
                continue
            best[job] = min(best[job], rate[fast, job] * (work[job] / speed[fast]))
            for slow in range(len(speed)):
                if rate[slow, job] < np.inf and speed[slow] * limit[job] < work[job]:
                    spent = (work[job] - speed[slow] * limit[job]) / (speed[fast] - speed[slow])
                    cost = rate[fast, job] * spent + rate[slow, job] * (limit[job] - spent)
                    best[job] = min(best[job], cost)
    return best
