"""What-ifs: a private copy of the ledger on which a policy carries out what it thinks of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy

import numpy as np

from unrack.kernels.arrays import Ints
from unrack.ledger.changes import extend, keep_cores, reshape, suspend
from unrack.ledger.copies.draft import apart, copied, hold, move_on, next_end_us, show
from unrack.ledger.devices.columns import copied_columns
from unrack.ledger.devices.view import DeviceView
from unrack.ledger.jobs import NO_PROMISES
from unrack.ledger.lease import LENDER, LOAN_MB, Lease, Suspended
from unrack.ledger.state import QUEUED, REJECTED
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

    def submit(self, job: int) -> None:
        """Let a new job come, before anything else happens on the draft.

        Raises
        ------
        RefusedError
            It has come already.
        """
        devices, source = self._state.devices, self._origin._state.devices
        if devices is not None and source is not None:  # a copy says nothing of new jobs
            devices.columns = copied_columns(source.columns, 0, None)
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
