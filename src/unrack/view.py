"""What a policy or a slowdown model may see: the cluster's state and the jobs, read-only, in columns."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from unrack.cluster.device_view import DeviceView
from unrack.cluster.lease import Lease
from unrack.cluster.spec import Cluster
from unrack.cluster.state import ClusterState
from unrack.units import NEVER_US
from unrack.workload.job import CORES, ESTIMATE, MEMORY, Job, JobTable
from unrack.workload.tier_asks import TierAsks

Ints = NDArray[np.int64]


def _locked(array: Ints) -> Ints:
    seen = array.view()
    seen.flags.writeable = False
    return seen


class View:
    """The state as policies see it: arrays that cannot be written.

    What a policy must not know is not here: when jobs that are not submitted yet will come, and how long a job will
    really run (unless the policy declares that its estimates are exact).

    Attributes
    ----------
    cluster
        What is installed.
    asks : int64[4, jobs]
        Per job: tasks, cores per task, MB per task, and the expected run time in µs.
    free, total : int64[2, nodes]
        Cores and MB, free and installed. Offline nodes have nothing free.
    contention
        How running jobs slow each other down through memory, where a run says so: for policies that look at it.
    devices
        A :class:`unrack.cluster.device_view.DeviceView` of the pooled devices; ``None`` on a cluster without pools.
    """

    def __init__(self, state: ClusterState, jobs: JobTable, asks: Ints) -> None:
        self._state = state
        self._jobs = jobs
        self.cluster: Cluster = state.cluster
        self.asks = _locked(asks)
        self.free = _locked(state.free)
        self.total = _locked(state.total)
        self.online = state.online.view()
        self.online.flags.writeable = False
        self.status = state.status.view()
        self.status.flags.writeable = False
        self.submit_us = _locked(jobs.submit_us)
        self.priority = _locked(jobs.priority)
        self.deadline_us = _locked(jobs.deadline_us)
        self.lease_at = _locked(state.lease_at)
        self._running_of: Ints = state.running
        self._running = _locked(state.running)
        self._pool_of: Ints = state.pool
        self._pool = _locked(state.pool)
        self.contention: object = None
        self.devices = None if state.devices is None else DeviceView(state.devices)

    # --- the cluster --------------------------------------------------------------------------------------------

    @property
    def free_cores(self) -> int:
        """Free cores on all nodes together."""
        return self._state.free_cores

    @property
    def lent(self) -> Ints:
        """int64[nodes]: MB of each node that tasks elsewhere use."""
        memory = self._state.memory
        return _locked(np.zeros(len(self.cluster), np.int64) if memory is None else memory.lent)

    @property
    def version(self) -> int:
        """Grows by one with every change of the state."""
        return self._state.version

    @property
    def releases(self) -> int:
        """Grows by one with every change that gives something back: a job's end, a node's return."""
        return self._state.releases

    @property
    def capacity_version(self) -> int:
        """Grows by one whenever a node goes offline or comes back."""
        return self._state.capacity_version

    # --- running jobs -------------------------------------------------------------------------------------------

    @property
    def running(self) -> Ints:
        """int64[2, room]: booked end (µs) and job, in that order; only the first ``running_count`` columns count."""
        if self._running_of is not self._state.running:
            self._running_of = self._state.running
            self._running = _locked(self._running_of)
        return self._running

    @property
    def running_count(self) -> int:
        """How many jobs run."""
        return self._state.running_count

    @property
    def first_end_us(self) -> int:
        """The first booked end of the running jobs, µs; a time after everything if none runs."""
        return int(self._state.running[0, 0]) if self._state.running_count else NEVER_US

    @property
    def pool(self) -> Ints:
        """int64[room, 5]: rows of running leases; those of job j are ``pool[lease_at[0, j]:][:lease_at[1, j]]``."""
        if self._pool_of is not self._state.pool:
            self._pool_of = self._state.pool
            self._pool = _locked(self._pool_of)
        return self._pool

    def equal_cores(self) -> bool:
        """Whether every task of every job asks one core and no memory: on shared nodes any core then serves as well."""
        return bool((self.asks[CORES] == 1).all() and (self.asks[MEMORY] == 0).all())

    def lease(self, job: int) -> Lease:
        """What a running job holds."""
        return self._state.lease(job)

    # --- waiting jobs -------------------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """How many jobs wait."""
        return self._state.queue_end - self._state.queue_start

    @property
    def last_waiting(self) -> int:
        """The waiting job that was submitted last; only if any waits."""
        return int(self._state.queue[self._state.queue_end - 1])

    def cores_asked(self, job: int) -> int:
        """How many cores a job asks for in all."""
        return int(self.asks[0, job] * self.asks[1, job])

    @property
    def queue(self) -> Ints:
        """int64[waiting]: the jobs that wait, in order of (submission, id)."""
        return _locked(self._state.queue[self._state.queue_start : self._state.queue_end])

    @property
    def slo(self) -> TierAsks | None:
        """What the jobs ask of the tiers of memory; ``None``: nothing."""
        return self._jobs.slo

    def job(self, index: int) -> Job:
        """A job as an object, for policies that decide job by job."""
        return self._jobs.job(index)

    @property
    def estimate_us(self) -> Ints:
        """int64[jobs]: how long each job is expected to run, µs."""
        column: Ints = self.asks[ESTIMATE]
        return column

    def column(self, name: str) -> pl.Series:
        """A further column of the trace (``queue``, ``group`` …), by job.

        Raises
        ------
        KeyError
            The trace has no such column.
        """
        if name not in self._jobs.extra.columns:
            raise KeyError(f"the trace has no column {name!r} (it has {', '.join(self._jobs.extra.columns) or 'none'})")
        return self._jobs.extra[name]


def arrays_of(view: View) -> ClusterState:
    """The state behind a view, for the compiled kernels of this package: they take its arrays and only read them.

    Kernels would be compiled once more for the read-only arrays of a view.
    """
    return view._state
