"""The ledger as it is, but for what is free."""

from __future__ import annotations

from collections.abc import Mapping
from operator import index
from types import MappingProxyType
from typing import SupportsIndex

import numpy as np
from numpy.typing import NDArray

from unrack.ledger.copies.assumed import assumed
from unrack.ledger.copies.device_moment import DeviceMoment as DeviceMoment
from unrack.ledger.devices.reader import DeviceReader
from unrack.ledger.devices.view import DeviceView
from unrack.ledger.lease import Lease
from unrack.ledger.state import FINISHED, RUNNING
from unrack.sealed import sealed
from unrack.view.view import View

Ints = NDArray[np.int64]
PLENTY = 2**60
"""More than all memory."""


class Beside(View):
    """A view on which other jobs run, on other leases."""

    held: Mapping[int, Lease] = MappingProxyType({})  # what jobs hold that do not run on the ledger
    now_status: NDArray[np.int8] | None = None  # as of :attr:`View.status`; ``None``: as on the ledger

    @property
    def status(self) -> NDArray[np.int8]:
        """int8[jobs]: a :class:`unrack.ledger.state.Status` each."""
        return super().status if self.now_status is None else self.now_status

    def lease(self, job: SupportsIndex) -> Lease:
        """What a job holds."""
        number = index(job)
        return self.held[number] if number in self.held else super().lease(number)


class Assumed:
    """What policies would see if other amounts were free; the ledger itself does not change.

    Parameters
    ----------
    view
        Of the ledger.
    """

    def __init__(self, view: View) -> None:
        self._ledger, self._devices = view, view._state.devices
        self._state = assumed(view._state)
        self._view = Beside(self._state, view._store)
        self._view.contention = view.contention

    @property
    def lends(self) -> bool:
        """Whether it is kept who uses whose memory."""
        return self._state.memory is not None

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

    def at(
        self, now: int, free: Ints, places: Ints, left: Ints, devices: DeviceMoment | None = None,
        beside: Mapping[int, Lease] = MappingProxyType({}),
    ) -> View:  # fmt: skip
        """The view at a time (µs), which is overwritten by the next; who is booked to end by then does not run.

        Parameters
        ----------
        free : int64[2, nodes]
            Free cores and MB.
        places, left
            int64[k] each: places of resources, and how much is free of each; of others it is what is free now. Behind
            them each node has a place, of which PLENTY less what it lends is free.
        devices
            The pooled devices; ``None``: as they are.
        beside
            Waiting jobs that run then, and on what.
        """
        state, ledger = self._state, self._ledger
        state.free[:] = free
        state.free_cores = int(free[0].sum())
        if state.claimed is not None and ledger.columns.claimed is not None:
            state.claimed.free[:] = ledger.columns.claimed.free
            own = places < len(state.claimed.free)
            state.claimed.free[places[own]] = left[own]
        if state.memory is not None:
            node = places - (0 if state.claimed is None else len(state.claimed.free))
            state.memory.lent[:] = ledger.lent
            state.memory.lent[node[node >= 0]] = PLENTY - left[node >= 0]
        if devices is not None and self._devices is not None:
            state.devices = devices.devices
            state.devices.reader = DeviceReader(state.devices, self._devices.reader)
            state.seen.devices = state.devices.reader
            self._view.devices = DeviceView(state.devices.reader)
        over = int(np.searchsorted(ledger.running_end_us, now, "right"))
        state.running = np.ascontiguousarray(ledger.running[:, over:])
        state.running_count, state.seen.running = ledger.running_count - over, sealed(state.running)
        if beside or self._view.held:
            self._view.held = beside
            status = ledger.status.copy()
            status[ledger.running_jobs[:over]] = FINISHED
            status[list(beside)] = RUNNING
            self._view.now_status = status
        self._view.now = now
        return self._view
