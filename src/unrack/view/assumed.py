"""The ledger as it is, but for what is free."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unrack.ledger.copies.assumed import assumed
from unrack.ledger.copies.device_moment import DeviceMoment as DeviceMoment
from unrack.ledger.devices.reader import DeviceReader
from unrack.ledger.devices.view import DeviceView
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
        self._devices = view._state.devices
        self._state = assumed(view._state)
        self._view = View(self._state, view._store)
        self._view.contention = view.contention

    def devices_now(self, now: int) -> DeviceMoment | None:
        """The pooled devices now (µs), with the running jobs that hold some; ``None`` on a cluster without any."""
        if self._devices is None:
            return None
        held = {
            job: (end, self._view.lease(job).shares)
            for end, job in zip(self._view.running_end_us.tolist(), self._view.running_jobs.tolist(), strict=True)
            if self._devices.asking[job]
        }
        return DeviceMoment(self._devices, now, held)

    def at(self, now: int, free: Ints, places: Ints, left: Ints, devices: DeviceMoment | None = None) -> View:
        """The view at a time (µs), which is overwritten by the next.

        Parameters
        ----------
        free : int64[2, nodes]
            Free cores and MB.
        places, left
            int64[k] each: places of resources, and how much is free of each; of others it is what is free now.
        devices
            The pooled devices; ``None``: as they are.
        """
        state = self._state
        state.free[:] = free
        state.free_cores = int(free[0].sum())
        if state.claimed is not None and self._origin is not None:
            state.claimed.free[:] = self._origin.free
            state.claimed.free[places] = left
        if devices is not None and self._devices is not None:
            state.devices = devices.devices
            state.devices.reader = DeviceReader(state.devices, self._devices.reader)
            state.seen.devices = state.devices.reader
            self._view.devices = DeviceView(state.devices.reader)
        self._view.now = now
        return self._view
