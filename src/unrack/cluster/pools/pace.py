"""How fast jobs run on shared, composed and split devices, as columns."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unrack.cluster.pools.pool import Devices

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Truths = NDArray[np.bool_]


class Pace(NamedTuple):
    """How fast jobs run on shared, composed and split devices; the fields are those of the columns of the ledger."""

    model: Ints
    speeds: Floats
    governed: Truths
    frozen: Truths


def no_pace(devices: Devices, jobs: int) -> Pace:
    """Nobody has a model: every job runs its base time."""
    kinds, quantities = len(devices.kinds), devices.capacity.shape[0]
    model = np.full((kinds, jobs), -1, np.int64)
    return Pace(model, np.ones((1, 2, 2)), np.zeros((1, quantities), np.bool_), np.zeros(1, np.bool_))
