"""Cost of what is left over: hosts that a placement leaves with least room cost least.

A host costs the share of its own size that would stay free for sub-tasks of the same sort, (fits - 1)/size with the
size of the largest host; so hosts that are nearly full are filled first, and whole hosts stay free for large demands.
O(sorts x hosts).
"""

from __future__ import annotations

import numpy as np

from unrack.policy.flow.costs.contract import Costs, Phase

REMOTE = 1.0


def least_left(phase: Phase) -> Costs:
    """Costs by room left."""
    largest = np.maximum(phase.fits.max(axis=1, initial=1), 1)[:, None]
    left = np.maximum(phase.fits - 1, 0) / largest
    remote = REMOTE if phase.chosen else 0.0
    sorts = len(phase.sorts)
    return Costs(left + remote, np.full(sorts, 1 + remote), np.zeros(sorts))
