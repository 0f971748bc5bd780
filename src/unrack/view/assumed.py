"""The ledger as it is, but for what is free."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from operator import index
from types import MappingProxyType
from typing import NamedTuple, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from unrack.kernels.arrays import Ints
from unrack.ledger.columns import ENDS_US, OF_JOB
from unrack.ledger.copies.device_line import DeviceLine as DeviceLine
from unrack.ledger.copies.draft import assumed
from unrack.ledger.lease import Lease, ranges
from unrack.ledger.state import FINISHED, RUNNING
from unrack.resources.places import PLACE
from unrack.sealed import sealed
from unrack.view.view import View

PLENTY = 2**60
"""More than all memory."""


class AssumedRun(NamedTuple):
    """A job that runs in what is assumed: when it ends, µs, and what it holds."""

    end_us: int
    lease: Lease


NOBODY: Mapping[int, AssumedRun] = MappingProxyType({})


class Beside(View):
    """A view on which other jobs run, on other leases."""

    held: Mapping[int, AssumedRun] = NOBODY  # jobs that do not run on the ledger
    now_status: NDArray[np.int8] | None = None  # as of :attr:`View.status`; ``None``: as on the ledger

    @property
    def status(self) -> NDArray[np.int8]:
        """int8[jobs]: a :class:`unrack.ledger.state.Status` each."""
        return super().status if self.now_status is None else self.now_status

    def lease(self, job: SupportsIndex) -> Lease:
        """What a job holds."""
        number = index(job)
        return self.held[number].lease if number in self.held else super().lease(number)


def device_line(view: View, now: int, trust: bool, kept: DeviceLine | None) -> DeviceLine | None:
    """The pooled devices from now (µs) on, in what was ``kept`` of a line; ``None`` on a cluster without any.

    ``trust``: as of :class:`Assumed`.
    """
    devices, extra = view._state.devices, view._state.extra
    if devices is None:
        return None
    line = kept if kept is not None and kept.serves(devices) else DeviceLine(devices)
    runs, asking = view.running[:, : view.running_count].T.tolist(), devices.asking
    line.begin(now, ((end, job, extra[job].shares) for end, job in runs if asking[job] and job in extra), trust)
    return line


class Assumed:
    """What policies would see if other amounts were free; the ledger itself does not change.

    Parameters
    ----------
    view
        Of the ledger.
    trust
        Whether jobs that are booked to end now have ended.

    Attributes
    ----------
    running : int64[2, running]
        Booked end and job, in that order, of those that run on the ledger.
    """

    def __init__(self, view: View, trust: bool) -> None:
        self._ledger, self._trust = view, trust
        self.running = view.running[:, : view.running_count]
        # those on the ledger, how many of them not, who beside them and how many: as they are shown to run now
        self._shown: tuple[Ints, int, Mapping[int, AssumedRun], int] = self.running[:, :0], -1, NOBODY, 0
        self._state = assumed(view._state)
        self._view = Beside(self._state, view._store)
        self._view.contention = view.contention

    @property
    def lends(self) -> bool:
        """Whether it is kept which job uses which node's memory."""
        return self._state.memory is not None

    def at(
        self, now: int, free: Ints, places: Ints, left: Ints, devices: DeviceLine | None = None,
        beside: Mapping[int, AssumedRun] = NOBODY,
    ) -> View:  # fmt: skip
        """The view at a time (µs), which is overwritten by the next; a job that is booked to end by then does not run.

        Parameters
        ----------
        free : int64[2, nodes]
            Free cores and MB.
        places, left
            int64[k] each: places of resources, and how much is free of each; of others it is what is free now. Behind
            them each node has a place, of which PLENTY less what it lends is free.
        devices
            The pooled devices, as it shows them; ``None``: as they are.
        beside
            Waiting jobs that run then.
        """
        state, ledger = self._state, self._ledger
        later = self._trust or now > ledger.now
        over = int(np.searchsorted(self.running[ENDS_US], now, "right")) if later else 0
        state.version += 1  # what is kept of one moment is not true of the next
        state.free[:] = free
        state.free_cores = int(np.maximum(free[0], 0).sum())  # closed nodes have less than none
        if state.claimed is not None and ledger.columns.claimed is not None:
            state.claimed.free[:] = ledger.columns.claimed.free
            own = places < len(state.claimed.free)
            state.claimed.free[places[own]] = left[own]
            state.claimed.then = partial(self._holders, self.running[OF_JOB, :over], beside)
        if state.memory is not None:
            node = places - (0 if state.claimed is None else len(state.claimed.free))
            state.memory.lent[:] = ledger.lent
            state.memory.lent[node[node >= 0]] = PLENTY - left[node >= 0]
        if devices is not None:
            state.devices, self._view.devices = devices.shown, devices.view
            state.seen.devices = devices.shown.reader
        self._let_run(over, beside)
        self._view.now, self._view.lendable = now, None
        return self._view

    def _let_run(self, over: int, beside: Mapping[int, AssumedRun]) -> None:
        """Show as running all on the ledger but the first, and some beside them: most often those of before, and more.

        O(running) to copy where only one more runs.
        """
        state, view, (running, were, whose, count) = self._state, self._view, self._shown
        if running is self.running and were == over and whose is beside:
            if count == len(beside):
                return
            found = state.running
        else:
            found, count = self.running[:, over:], 0
            if beside or view.held:
                view.now_status = self._ledger.status.copy()
                view.now_status[self.running[OF_JOB, :over]] = FINISHED
        more = [(beside[job].end_us, job) for job in [*beside][count:]]
        if len(more) == 1:
            (end, job) = more[0]
            first, last = (int(np.searchsorted(found[ENDS_US], end, side)) for side in ("left", "right"))
            found = np.insert(found, first + np.searchsorted(found[OF_JOB, first:last], job), more[0], axis=1)
        elif more:
            found = np.concatenate([found, np.array(more, np.int64).T], axis=1)
            found = found[:, np.lexsort((found[OF_JOB], found[ENDS_US]))]
        if view.now_status is not None:
            view.now_status[[job for _, job in more]] = RUNNING
        state.running = np.ascontiguousarray(found)
        state.running_count, state.seen.running = found.shape[1], sealed(state.running)
        view.held, self._shown = beside, (self.running, over, beside, len(beside))

    def _holders(self, ended: Ints, beside: Mapping[int, AssumedRun]) -> Ints:
        """Jobs that hold something of each place, as of :attr:`unrack.ledger.claims.Claimed.holders`."""
        seen = self._ledger.columns.claimed
        assert seen is not None
        holders = seen.holders.copy()
        first, count = seen.held_at[:, ended]
        place = seen.rows[ranges(first, count), PLACE]
        np.subtract.at(holders[0], place, 1)
        np.subtract.at(holders[1], place, np.repeat(ended, count))
        for job, runs in beside.items():
            holders[:, runs.lease.claims[:, PLACE]] += np.array([[1], [job]])
        return holders
