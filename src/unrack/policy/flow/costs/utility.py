"""Cost as lost utility (Amaral 2019, equations 11 to 13).

With a goal τ for the run time and an expected run time φ, Ut = (τ - φ)/τ if φ is at most τ, else that times
(10 - z)/9: z from 1 (an interference counts in full) to 10 (it does not count). A placement costs (1 - Ut) · P; P is 1
at the node that an earlier phase chose, and ``REMOTE`` elsewhere. To wait costs what a placement elsewhere that just
meets its goal costs, so whoever meets its goal never waits for a better place, and whoever does not waits until its
rounds make up for it. O(sorts x hosts).

What the thesis leaves open: τ is taken as ``SLACK`` times the undisturbed run time, as its goals are not given; P has
no values there.
"""

from __future__ import annotations

import numpy as np

from unrack.policy.flow.costs.contract import Costs, Floats, Phase

SLACK = 1.5
REMOTE = 2.0
IMPORTANCE = 1.0


def utility(slowdown: Floats, slack: float = SLACK, importance: float = IMPORTANCE) -> Floats:
    """Equation 11, of run times as multiples of the undisturbed one.

    Examples
    --------
    >>> utility(np.array([1.0, 1.5, 3.0])).round(3).tolist()
    [0.333, 0.0, -1.0]
    """
    spare = (slack - slowdown) / slack
    found: Floats = np.where(slowdown <= slack, spare, spare * (10 - importance) / 9)
    return found


def lost_utility(phase: Phase) -> Costs:
    """Costs by equations 12 and 13."""
    elsewhere = REMOTE if phase.chosen else 1.0
    sorts = len(phase.sorts)
    return Costs((1 - utility(phase.slowdown)) * elsewhere, np.full(sorts, elsewhere), 1 - utility(phase.home))
