"""What-ifs: a private copy of the ledger on which a policy carries out what it thinks of.

A simpler one is the ledger as it is, but for what is free.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from functools import partial
from operator import index
from types import MappingProxyType
from typing import NamedTuple, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from unrack.kernels.arrays import Ints
from unrack.ledger.changes import extend, keep_cores, reshape, suspend
from unrack.ledger.columns import ENDS_US, OF_JOB
from unrack.ledger.copies.device_line import DeviceLine as DeviceLine
from unrack.ledger.copies.draft import apart, assumed, copied, hold, move_on, next_end_us, show
from unrack.ledger.devices.columns import copied_columns
from unrack.ledger.devices.view import DeviceView
from unrack.ledger.jobs import NO_PROMISES
from unrack.ledger.lease import LENDER, LOAN_MB, Lease, Suspended, ranges
from unrack.ledger.state import FINISHED, QUEUED, REJECTED, RUNNING
from unrack.resources.places import PLACE
from unrack.sealed import sealed
from unrack.units import NEVER_US
from unrack.view.view import View
from unrack.workload.job import ESTIMATE


class Draft:
    """A private copy of the ledger on which a policy carries out what it thinks of: the ledger itself does not change.

    Parameters
    ----------
    view
        Of the ledger, or of another draft.
    now
        The time, µs.

    Attributes
    ----------
    now
        The time of the draft, µs.
    """

    def __init__(self, view: View, now: int) -> None:
        self._origin = view
        self._state = copied(view._state)
        self._view: View | None = None
        self.now = now

    @property
    def view(self) -> View:
        """The draft as policies see the ledger."""
        if self._view is None:
            show(self._state, self._origin._state)
            self._view = View(self._state, self._origin._store)
            self._view.contention = self._origin.contention
        self._view.now = self.now
        return self._view

    def submit(self, job: int, devices: bool = True) -> None:
        """Let a new job come, before anything else happens on the draft; it asks for pooled ``devices``, or does not.

        Raises
        ------
        RefusedError
            It has come already.
        """
        state, source = self._state.devices, self._origin._state.devices
        if state is not None and source is not None:  # a copy says nothing of new jobs
            state.columns, state.asking = copied_columns(source.columns, 0, None), bytearray(state.asking)
            state.asking[job] &= devices
        self._state.submit(job)

    def start(self, lease: Lease) -> None:
        """Start a waiting job.

        Raises
        ------
        RefusedError
            The job does not wait, or something is not free; nothing has changed.
        """
        state = self._state
        state.start(lease, int(state.asks[ESTIMATE, lease.job]), self.now)

    def reshape(self, job: int, tasks: int) -> None:
        """Let a waiting job have another of its sizes; before the draft is looked at.

        Raises
        ------
        RefusedError
            The job does not wait, or that is none of its sizes.
        """
        self._state.asks_anew()
        reshape(self._state, job, tasks)

    def expect(self, job: int, time_us: int) -> None:
        """Let a waiting job ask for another time, with no promise; before the draft is looked at."""
        state = self._state
        state.asks_anew()
        state.expect(job, time_us)
        made = state.promises.by_job()
        made.pop(job, None)
        state.promises = state.promises._replace(made=made)

    def extend(self, job: int, until_us: int) -> None:
        """Let a running job ask for, and run until, a time, µs; before the draft is looked at."""
        self._state.asks_anew()
        extend(self._state, job, until_us, self.now)
        self._state.expect(job, until_us - self.now)

    def stop(self, job: int) -> None:
        """Stop a running job for good."""
        self._state.release(job, self.now, REJECTED)

    @property
    def suspended(self) -> Mapping[int, Suspended]:
        """Those that are suspended on the draft, as of :attr:`unrack.ledger.copies.seen.Seen.suspended`."""
        return self._state.suspended

    def suspend(self, job: int) -> None:
        """Suspend a running job: it holds no cores, and all else that it did."""
        suspend(self._state, job, self.now)

    def keep_cores(self, jobs: Sequence[int]) -> None:
        """Let suspended jobs, in order, seem to hold the cores that they go on with; see there."""
        keep_cores(self._state, jobs, self.now)

    def close(self, places: Sequence[int]) -> None:
        """Let nothing be free of some places; before the draft is looked at."""
        assert self._state.claimed is not None
        self._state.claimed.free[list(places)] = 0

    def only(self, jobs: Sequence[int]) -> None:
        """Turn away all that wait but these jobs, and promise nothing to them."""
        state = self._state
        state.status[state.queue[state.queue_start : state.queue_end]] = REJECTED
        state.status[list(jobs)] = QUEUED
        state.queue[: len(jobs)] = np.sort(np.array(jobs, np.int64))
        state.queue_start, state.queue_end, state.promises = 0, len(jobs), NO_PROMISES

    def next_end_us(self) -> int | None:
        """When something is next booked to end, µs; a job that is overdue ends at once. ``None``: nothing is held."""
        first = next_end_us(self._state)
        return None if first == NEVER_US else max(first, self.now + 1)

    def move_on(self, until: int) -> None:
        """Let everything end that is booked to end by ``until`` (µs)."""
        move_on(self._state, self.now + 1, until)
        self.now = until


class Expecting(View):
    """The state as policies see it, but for how long jobs are expected to run.

    Parameters
    ----------
    view
        All else is as here.
    asks
        int64[4, at least jobs]: as of :attr:`View.asks`.
    running, count
        int64[2, room]: as of :attr:`View.running`; the first ``count`` columns count.
    """

    def __init__(self, view: View, asks: Ints, running: Ints, count: int) -> None:
        super().__init__(view._state, view._store)
        self.contention, self.now = view.contention, view.now
        self._asks, self._running, self._count = sealed(asks), sealed(running), count

    @property
    def asks(self) -> Ints:
        """int64[4, jobs]: as of :attr:`View.asks`; expected run times are those given."""
        return self._asks[:, : self.jobs]

    @property
    def running(self) -> Ints:
        """int64[2, room]: expected end (µs) and job."""
        return self._running

    @property
    def running_count(self) -> int:
        """How many jobs run."""
        return self._count

    @property
    def first_end_us(self) -> int:
        """The first expected end of the running jobs, µs; a time after everything if none runs."""
        return int(self._running[0, 0]) if self._count else NEVER_US


class Apart:
    """A view on which each component of a job is a job by itself.

    Parameters
    ----------
    view
        Of the ledger, or of what is assumed of it.
    job
        Its first component.

    Attributes
    ----------
    view
        What is left of it by the components that have chosen.
    """

    def __init__(self, view: View, job: int) -> None:
        self._state = apart(view._state, job)
        self.view = copy(view)
        self.view._state, self.view.columns = self._state, self._state.seen
        if self._state.devices is not None:
            self.view.devices = DeviceView(self._state.devices.reader)
        if view.lendable is not None:
            self.view.lendable = view.lendable.copy()

    def hold(self, lease: Lease) -> None:
        """A component has chosen."""
        hold(self._state, lease, self.view.now)
        if self.view.lendable is not None:
            for lender, mb in lease.borrowed[:, [LENDER, LOAN_MB]].tolist():
                self.view.lendable[lender] -= mb


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
    line.begin(now, view.running[:, : view.running_count], lambda job: extra[job].shares, trust)
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
        state.free[0], state.free[1] = free[0], np.maximum(free[1], 0)  # jobs that grow may take more than there is
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
        if len(ended):
            place = seen.rows[ranges(*(held := seen.held_at[:, ended])), PLACE]
            np.subtract.at(holders[0], place, 1)
            np.subtract.at(holders[1], place, np.repeat(ended, held[1]))
        for job, runs in beside.items():
            place = runs.lease.claims[:, PLACE]
            holders[0, place] += 1
            holders[1, place] += job
        return holders
