"""Cost of fetching (as of Quincy, Isard et al. 2009): a host that has the image of an application costs least.

A sub-task costs nothing where a job of its application has run before, 1 where its image has to be fetched, and as much
again where its devices are not at its node. To wait costs ``PATIENCE``: a job that has its image somewhere waits for a
place there for so much of a round's cost. O(sorts x hosts).
"""

from __future__ import annotations

import numpy as np

from unrack.policy.flow.costs.contract import Costs, Phase

PATIENCE = 2.0


def image_locality(phase: Phase) -> Costs:
    """Costs by images and distance."""
    sorts = len(phase.sorts)
    if phase.group == "nodes":
        return Costs(np.where(phase.seen, 0.0, 1.0), np.full(sorts, PATIENCE), np.zeros(sorts))
    return Costs(np.ones(phase.fits.shape), np.full(sorts, PATIENCE), np.zeros(sorts))
