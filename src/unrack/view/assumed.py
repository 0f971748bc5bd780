"""The ledger as it is, but for what is free of nodes and of places of resources."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unrack.ledger.copies.assumed import assumed
from unrack.view.view import View

Ints = NDArray[np.int64]


class Assumed:
    """What policies would see if other amounts were free; the ledger itself does not change.

    Parameters
    ----------
    view
        Of the ledger.
    """

    def __init__(self, view: View) -> None:
        self._origin = view.columns.claimed
        self._state = assumed(view._state)
        self._view = View(self._state, view._store)
        self._view.contention = view.contention

    def at(self, now: int, free: Ints, places: Ints, left: Ints) -> View:
        """The view at a time (µs), which is overwritten by the next.

        Parameters
        ----------
        free : int64[2, nodes]
            Free cores and MB.
        places, left
            int64[k] each: places of resources, and how much is free of each; of others it is what is free now.
        """
        state = self._state
        state.free[:] = free
        state.free_cores = int(free[0].sum())
        if state.claimed is not None and self._origin is not None:
            state.claimed.free[:] = self._origin.free
            state.claimed.free[places] = left
        self._view.now = now
        return self._view
