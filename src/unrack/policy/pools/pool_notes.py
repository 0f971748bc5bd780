"""What a rule for pools remembers: what jobs ask, and room for its answers."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from unrack.ledger.devices.columns import DeviceColumns
from unrack.policy.pools.place_kernel import PoolAnswer
from unrack.view import View
from unrack.workload.job import ESTIMATE


@dataclass(slots=True)
class PoolNotes:
    """Which waiting jobs ask the same, and what depends on the cluster and the rule alone.

    It grows with the jobs: of those that are not submitted yet nothing is known, and nothing depends on them.
    """

    answer: PoolAnswer
    draws: np.random.Generator
    plain: DeviceColumns  # columns without devices, for a cluster without pools
    loads: dict[str, tuple[int, int, int]]  # of the disaggregation-aware rule: quantity → kind, row, amount installed
    authors: bool  # as in `place`
    # job → which other jobs ask the same; of the jobs that have waited so far
    shape_of: dict[int, int] = field(default_factory=dict)
    shapes: dict[bytes, int] = field(default_factory=dict)  # what is asked → that number
    rule: int = 0  # the one that is in force
    refused: int = 0  # why the job that was asked about last has no place; 0: that is not known
    patient: int = -1  # a job with an own deadline that does not count just now; -1: none

    def shape(self, view: View, job: int) -> int:
        """The shape of a job: known, or noted now."""
        found = self.shape_of.get(job)
        if found is not None:
            return found
        state = view.columns
        asked = state.asks[:ESTIMATE, job].tobytes()
        if state.devices is not None:
            c = state.devices.columns
            asked += c.wants[:, :, job].tobytes() + c.model[:, job].tobytes()
        if state.claimed is not None:
            asked += state.claimed.asked(job).tobytes()
        if view.cluster.places.windows:  # how long a job runs decides where it may
            asked += state.asks[ESTIMATE, job].tobytes()
        found = self.shape_of[job] = self.shapes.setdefault(asked, len(self.shapes))
        return found
