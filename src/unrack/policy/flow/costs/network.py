"""Network-aware cost (Amaral 2019, section 5.6.5.1): the load of the network times how much a job minds it.

A placement costs the load of the host's link, relative to the most loaded one, times the job's sensitivity. A placement
at which a job would run for longer than its SLO, its undisturbed run time and ``TOLERANCE`` of it, is not made before
the job was postponed ``POSTPONED`` times. O(sorts x hosts).
"""

from __future__ import annotations

import numpy as np

from unrack.policy.flow.costs.contract import Costs, Phase

TOLERANCE = 0.05
POSTPONED = 10


def network_load(phase: Phase) -> Costs:
    """Costs by load and sensitivity."""
    most = max(float(phase.load.max(initial=0.0)), 1e-12)
    place = phase.sensitivity[:, None] * (phase.load / most)[None]
    broken = (phase.slowdown > 1 + TOLERANCE) & ~phase.postponed[:, None]
    worst = float(phase.sensitivity.max(initial=0.0)) + 1
    return Costs(np.where(broken, np.inf, place), np.full(len(phase.sorts), worst), np.zeros(len(phase.sorts)))


network_load.postpones = POSTPONED  # type: ignore[attr-defined]
