"""What a policy or a slowdown model may see: the cluster and the jobs submitted so far, read-only, in columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from operator import index
from types import MappingProxyType
from typing import NamedTuple, SupportsIndex

import numpy as np
import polars as pl
from numpy.typing import NDArray

from unrack.cluster.spec import Cluster
from unrack.errors import RefusedError
from unrack.kernels.arrays import Bools, Ints
from unrack.ledger.candidate import Candidate, TaskAsk, candidates_on
from unrack.ledger.claims import Components
from unrack.ledger.columns import ENDS_US, OF_JOB
from unrack.ledger.devices.view import DeviceChoices, DeviceView
from unrack.ledger.jobs import Promises, Runs
from unrack.ledger.lease import Lease, Sizes
from unrack.ledger.state import ClusterState
from unrack.sealed import sealed
from unrack.units import NEVER_US
from unrack.view.windows import outside_windows
from unrack.workload.job import ESTIMATE, AskColumns
from unrack.workload.seen_job import SeenJob
from unrack.workload.store import JobStore
from unrack.workload.tier_asks import TierAsk, TierAsks


class NodeColumns(NamedTuple):
    """The nodes in columns; all but ``online`` (bool) int64[nodes]."""

    free_cores: Ints
    free_mb: Ints  # nodes out of service have nothing free
    cores: Ints
    memory_mb: Ints
    online: Bools  # which are in service


class View(AskColumns):
    """The state as policies see it: arrays that cannot be written, of jobs that have been submitted.

    What a policy must not know is not here: jobs that are not submitted yet, and how long a job will really run (unless
    the policy declares that its estimates are exact). Columns by job have one entry for every job submitted so far:
    take them anew each time.

    Attributes
    ----------
    cluster
        What is installed.
    now
        The time of the round, µs.
    contention
        How running jobs slow each other down through memory, where a run says so: for policies that look at it.
    lendable
        int64[nodes]: how many MB each node may lend besides what it does; ``None``: all that is free.
    devices
        A :class:`unrack.ledger.devices.view.DeviceView` of the pooled devices; ``None`` on a cluster without pools.
    grows
        What running jobs may still come to hold of memory: node and MB (int64[k, 2]), and of each job the first and
        the last (int64[2, jobs], of jobs that run); for plans, where a policy wants it left free. ``None``: nothing.
    knows_windows
        Whether what it says is free of places is so beside what windows keep of them for others.
    columns
        The ledger's columns whole, read-only, for kernels that take them so. Columns by job have room for more jobs
        than :attr:`jobs`; what lies beyond means nothing.
    """

    def __init__(self, state: ClusterState, store: JobStore) -> None:
        self._state = state
        self.columns = state.seen
        self._store = store
        self._slo: tuple[int, TierAsks] | None = None
        self.cluster: Cluster = state.cluster
        self.contention: object = None
        self.lendable: Ints | None = None
        self.grows: tuple[Ints, Ints] | None = None
        self.now, self.knows_windows = 0, False
        self._kinds = dict(zip(state.cluster.devices.kinds, state.cluster.devices.quantities, strict=True))
        self.devices = None if state.devices is None else DeviceView(state.devices.reader)

    # --- jobs, by number ----------------------------------------------------------------------------------------

    @property
    def jobs(self) -> int:
        """How many jobs have been submitted so far; their numbers are 0 to ``jobs - 1``."""
        return self._state.known

    @property
    def asks(self) -> Ints:
        """int64[4, jobs]: per job: tasks, cores per task, MB per task, and the expected run time in µs."""
        return self.columns.asks[:, : self._state.known]

    @property
    def estimate_us(self) -> Ints:
        """int64[jobs]: how long each job is expected to run, µs."""
        column: Ints = self.asks[ESTIMATE]
        return column

    @property
    def status(self) -> NDArray[np.int8]:
        """int8[jobs]: a :class:`unrack.ledger.state.Status` each."""
        return self.columns.status[: self._state.known]

    @property
    def submit_us(self) -> Ints:
        """int64[jobs]: when each was submitted."""
        column: Ints = self._store.submit_us[: self._state.known]
        return column

    @property
    def priority(self) -> Ints:
        """int64[jobs]: larger goes first, under policies that look at it."""
        column: Ints = self._store.priority[: self._state.known]
        return column

    @property
    def deadline_us(self) -> Ints:
        """int64[jobs]: when each should be done; -1 = none."""
        column: Ints = self._store.deadline_us[: self._state.known]
        return column

    @property
    def user(self) -> Ints:
        """int64[jobs]: the number of each job's user, in the order in which users first submit; -1 = not known."""
        return self._store.user[: self._state.known]

    @property
    def app(self) -> Ints:
        """int64[jobs]: the number of each job's application, in the order in which they first come; -1 = not known."""
        return self._store.app[: self._state.known]

    @property
    def lease_at(self) -> Ints:
        """int64[2, jobs]: where the rows of each running job's lease are in ``pool``: first row, number of rows."""
        return self.columns.lease_at[:, : self._state.known]

    # --- the cluster --------------------------------------------------------------------------------------------

    @property
    def free(self) -> Ints:
        """int64[2, nodes]: free cores and MB; offline nodes have nothing free."""
        return self.columns.free

    @property
    def total(self) -> Ints:
        """int64[2, nodes]: installed cores and MB."""
        return self.columns.total

    @property
    def nodes(self) -> NodeColumns:
        """The nodes in columns with names: free and installed cores and memory, and which are in service."""
        columns = self.columns
        return NodeColumns(columns.free[0], columns.free[1], columns.total[0], columns.total[1], columns.online)

    @property
    def online(self) -> Bools:
        """bool[nodes]: which nodes are in service."""
        return self.columns.online

    @property
    def free_cores(self) -> int:
        """Free cores on all nodes together."""
        return self._state.free_cores

    @property
    def lent(self) -> Ints:
        """int64[nodes]: MB of each node that tasks elsewhere use."""
        memory = self.columns.memory
        return sealed(np.zeros(len(self.cluster), np.int64)) if memory is None else memory.lent

    @property
    def version(self) -> int:
        """Grows by one with every change of the state."""
        return self._state.version

    @property
    def releases(self) -> int:
        """Grows by one with every change that gives something back: a job's end, a node's return."""
        return self._state.releases

    @property
    def openings(self) -> int:
        """Grows with every change that may let a job start that was passed over: as releases, and with latecomers."""
        return self._state.releases + self._state.latecomers

    @property
    def unforeseen(self) -> int:
        """Grows by one with every change by which there is more than was booked: an early end, a node's return."""
        return self._state.unforeseen

    @property
    def local(self) -> Ints:
        """int64[2, nodes + 1]: :attr:`unforeseen`, and :attr:`releases`, when last on each node alone; how often so."""
        return self._state.local

    @property
    def capacity_version(self) -> int:
        """Grows by one whenever a node goes offline or comes back."""
        return self._state.capacity_version

    @property
    def running(self) -> Ints:
        """int64[2, room]: booked end (µs) and job, in that order; only the first ``running_count`` columns count."""
        return self.columns.running

    @property
    def running_count(self) -> int:
        """How many jobs run."""
        return self._state.running_count

    @property
    def running_jobs(self) -> Ints:
        """int64[running]: the jobs that run, in order of their booked ends."""
        return self.running[OF_JOB, : self.running_count]

    @property
    def running_end_us(self) -> Ints:
        """int64[running]: when each of :attr:`running_jobs` is booked to end, µs."""
        return self.running[ENDS_US, : self.running_count]

    @property
    def first_end_us(self) -> int:
        """The first booked end of the running jobs, µs; a time after everything if none runs."""
        return int(self._state.running[0, 0]) if self._state.running_count else NEVER_US

    @property
    def pool(self) -> Ints:
        """int64[room, 5]: rows of running leases; those of job j are ``pool[lease_at[0, j]:][:lease_at[1, j]]``."""
        return self.columns.pool

    @property
    def ended(self) -> int:
        """How many jobs have ended by themselves, where that is kept: see :attr:`runs`."""
        return self._state.ended_count

    @property
    def runs(self) -> Runs | None:
        """When jobs started, and how long those ran that have ended; ``None`` unless the policy declares ``learns``."""
        runs, known = self.columns.runs, self._state.known
        if runs is None:
            return None
        ended = runs.ended[: self._state.ended_count]
        return Runs(runs.started_us[:known], runs.ran_us[:known], ended, runs.released_us[:known])

    @property
    def components(self) -> Components:
        """Heterogeneous jobs, and what their components ask."""
        return self._state.components

    def equal_cores(self) -> bool:
        """Whether every task submitted so far asks one core and no memory: on shared nodes any core then will do."""
        return self._state.known <= self._state.first_unequal

    def outside_windows(self, job: SupportsIndex) -> Bools:
        """bool[nodes]: those that are not kept for other jobs if a job starts now and runs as long as expected."""
        return outside_windows(self, index(job))

    def lease(self, job: SupportsIndex) -> Lease:
        """What a running job holds."""
        return self._state.lease(index(job))

    @property
    def promises(self) -> Promises:
        """What this policy, or the one before it, has promised to waiting jobs: for ``begin``, which may keep it."""
        return self._state.promises

    @property
    def sizes(self) -> Mapping[int, Sizes]:
        """Job → its sizes, of jobs that can have several; ask it about jobs that were submitted."""
        return self._state.sizes

    @property
    def wanted(self) -> Mapping[int, int]:
        """Running job → the size that it asks for, in the order in which they asked."""
        return MappingProxyType(self._state.wanted)

    def own_us(self, job: SupportsIndex) -> int:
        """How long a job is expected to run at the size with which it was submitted, µs."""
        return self._state.own_us(index(job))

    def change_us(self, job: SupportsIndex) -> int:
        """How long a running job that can have several sizes stands still if its size changes now, µs."""
        return self._state.change_us(index(job), self.now)

    # --- waiting jobs -------------------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """How many jobs wait."""
        return self._state.queue_end - self._state.queue_start

    @property
    def last_waiting(self) -> int:
        """The waiting job that was submitted last; only if any waits."""
        return int(self._state.queue[self._state.queue_end - 1])

    def cores_asked(self, job: SupportsIndex) -> int:
        """How many cores a job asks for in all."""
        tasks, cores, _, _ = self.columns.asks[:, job]
        of = self._state.components
        return of.cores(index(job)) if of.of and index(job) in of.of else int(tasks * cores)

    @property
    def queue(self) -> Ints:
        """int64[waiting]: the jobs that wait, in order of (submission, id)."""
        queue = self.columns.queue[self._state.queue_start : self._state.queue_end]
        return queue if not self._store.came_late else sealed(queue[self.submit_us[queue].argsort(kind="stable")])

    @property
    def slo(self) -> TierAsks | None:
        """What the jobs submitted so far ask of the tiers of memory; ``None``: nothing."""
        slo, known = self._store.slo, self._state.known
        if slo is None or len(slo) == known:
            return slo
        if self._slo is None or self._slo[0] != known:
            self._slo = known, slo.take(slice(0, known))
        return self._slo[1]

    def slo_of(self, job: SupportsIndex) -> TierAsk | None:
        """What a submitted job asks of the tiers of memory; ``None``: nothing."""
        slo = self._store.slo
        return None if slo is None else slo.of(index(job))

    def waiting_jobs(self) -> Iterator[SeenJob]:
        """The jobs that wait as objects, in order of (submission, id)."""
        return map(self.job, self.queue.tolist())

    def job(self, job: SupportsIndex) -> SeenJob:
        """A job by its number as an object, for policies that decide job by job.

        A RefusedError if no such job has been submitted.
        """
        number = index(job)
        if not 0 <= number < self._state.known:
            raise RefusedError(f"view.job({number}): no such job has been submitted; there are {self._state.known}")
        said = self._store.job(number)
        tasks, _, mb, estimate_us = self.asks[:, number].tolist()
        demand = said.demand if said.demand.tasks == tasks else replace(said.demand, tasks=tasks)
        return SeenJob(
            said.index, said.id, said.submit_us, said.request_us, said.deadline_us, said.priority, said.user, said.app,
            demand, said.said, said.components, estimate_us, mb, self.now, self._kinds,
        )  # fmt: skip

    def candidates(self, job: SupportsIndex) -> Iterator[Candidate]:
        """Where tasks of a waiting job could go now: nodes by number, and on each the devices that it could have.

        ``Start.on(candidates)`` starts the job on them, its tasks filling one after the other in the order given. They
        have devices for a job of one task. Whatever else a job asks for is chosen where ``Placed`` or a list scheduler
        places it on them; nodes on which a task would find too little of what is counted are not among them.
        A RefusedError if no such job has been submitted.
        """
        seen, free, claimed = self.job(job), self.columns.free, self.columns.claimed
        wants = {kind: asked for kind, asked in seen.demand.devices.items() if any(asked.values())}
        if claimed is not None and (asked := claimed.asked(seen.index)).any():
            none = np.empty(0, np.int64)
            free = np.where(claimed.places.open_nodes(asked, claimed.free, none, none, seen.tasks), free, -1)
        asks = TaskAsk(seen.tasks, seen.cores, seen.memory_mb)
        found = candidates_on(seen.index, asks, free, self.columns.total, self._kinds)
        pooled = {kind: asked for kind, asked in wants.items() if kind in self.cluster.devices.kinds}
        if not pooled or seen.tasks > 1 or self.devices is None:
            yield from found
        else:
            choices = DeviceChoices(self.devices, seen.index, pooled)
            yield from (one for candidate in found for one in choices.on(candidate))

    def expected_ends_us(self, candidate: Candidate) -> dict[int, int]:
        """When a job would end if it started on a candidate now, and those with which it would share: job → µs."""
        lease, estimate_us = candidate.lease, int(self.estimate_us[candidate.job])
        if self.devices is None or lease is None or not lease.shares:
            return {candidate.job: self.now + estimate_us}
        return self.devices.predicted_us(lease, estimate_us, self.now)

    def column(self, name: str) -> pl.Series:
        """A further column of the trace (``queue``, ``group`` …), by job.

        Raises
        ------
        KeyError
            The trace has no such column.
        """
        return self._store.column(name, self._state.known)
