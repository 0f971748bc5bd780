"""Choices of a placement in a plan: where a job would go if nothing but the least of the levels were free."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from unrack.ledger.lease import Lease
from unrack.policy.placement.contract import Placement
from unrack.view import Assumed, View

Ints = NDArray[np.int64]


class Choices:
    """Where jobs would go, in one round."""

    def __init__(self, placement: Placement, notes: Any, view: View) -> None:
        self.placement, self.notes = placement, notes
        self._assumed = Assumed(view)

    def find(self, job: int, now: int, free: Ints, places: Ints, left: Ints) -> Lease | None:
        """A lease; ``None``: the job has no place.

        Parameters
        ----------
        now
            When it would start, µs.
        free : int64[2, nodes]
            Free cores and MB.
        places, left
            int64[k] each: places of resources, and how much is free of each; of others it is what is free now.
        """
        return self.placement.find(self._assumed.at(now, free, places, left), self.notes, job, now)
