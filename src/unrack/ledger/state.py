"""The one mutable state of a run: what is free, who waits, who runs, and on what."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unrack.cluster.pools.pool import Pace, no_pace
from unrack.cluster.spec import Cluster
from unrack.errors import RefusedError
from unrack.ledger.claims import Claimed, ClaimReader
from unrack.ledger.devices.reader import DeviceReader
from unrack.ledger.devices.state import DeviceState
from unrack.ledger.growing import grown, room_for
from unrack.ledger.holding import MEETS, PROBLEMS, exchange_job, hold_job, rebook_job, release_job, strike
from unrack.ledger.lease import CORES, LENDER, NO_LOANS, NODES, Lease, Share, loans_of
from unrack.ledger.memory_use import MemoryUse, drop_uses, make_memory_use, note_uses, with_room
from unrack.ledger.past_runs import Runs, no_runs
from unrack.ledger.past_runs import with_room as runs_with_room
from unrack.ledger.promises import NO_PROMISES, Promises
from unrack.resources.places import NO_CLAIMS
from unrack.sealed import sealed, sealed_columns
from unrack.units import NEVER_US

Ints = NDArray[np.int64]


class Status(IntEnum):
    """What became of a job so far."""

    UNKNOWN = 0  # not submitted yet
    QUEUED = 1
    RUNNING = 2
    FINISHED = 3
    REJECTED = 4


UNKNOWN, QUEUED, RUNNING, FINISHED, REJECTED = (int(status) for status in Status)
"""The same as plain integers: looking up a member of an enumeration is slow in the inner loop."""


INT64 = np.dtype(np.int64)


class Peaks(NamedTuple):
    """The most that tasks ever use.

    Attributes
    ----------
    first : int64[jobs + 1]
        The entries of job i are ``mb[first[i]:first[i + 1]]``: none (all that it holds), one for all its tasks, or one
        a task.
    mb : int64[entries]
    """

    first: Ints
    mb: Ints

    def of(self, job: int) -> Ints:
        """int64[k]: the entries of a job."""
        return self.mb[self.first[job] : self.first[job + 1]] if job + 1 < len(self.first) else NO_PEAKS


NO_PEAKS: Ints = np.empty(0, np.int64)


@dataclass(slots=True)
class Extra:
    """What a running job holds beyond its rows."""

    borrowed: Ints = field(default_factory=lambda: NO_LOANS)
    shares: tuple[Share, ...] = ()
    claims: Ints = field(default_factory=lambda: NO_CLAIMS)


class Seen:
    """A state's columns as arrays that cannot be written; counts are those of the moment.

    Attributes
    ----------
    asks, free, total, online, status, queue, running, pool, lease_at, memory, runs
        As in :class:`ClusterState`, read-only.
    devices
        Who holds which pooled devices; ``None`` on a cluster without pools.
    claimed
        What is claimed of the places of resources; ``None`` on a cluster without any.
    """

    __slots__ = (
        "_state", "asks", "claimed", "devices", "free", "lease_at", "memory", "online", "pool", "queue", "running",
        "runs", "status", "total",
    )  # fmt: skip

    asks: Ints
    free: Ints
    total: Ints
    online: NDArray[np.bool_]
    status: NDArray[np.int8]
    queue: Ints
    running: Ints
    pool: Ints
    lease_at: Ints
    memory: MemoryUse | None
    runs: Runs | None
    devices: DeviceReader | None
    claimed: ClaimReader | None

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        for name in ("asks", "free", "total", "online", "status", "queue", "running", "pool", "lease_at"):
            self.again(name)
        self.memory = None if state.memory is None else sealed_columns(state.memory)
        self.runs = None if state.runs is None else sealed_columns(state.runs)
        self.devices = None if state.devices is None else state.devices.reader
        self.claimed = None if state.claimed is None else ClaimReader(state.claimed)

    def again(self, name: str) -> None:
        """Show a column that the state has replaced."""
        setattr(self, name, sealed(getattr(self._state, name)))

    @property
    def running_count(self) -> int:
        """How many jobs run."""
        return self._state.running_count

    @property
    def free_cores(self) -> int:
        """Free cores on all nodes together."""
        return self._state.free_cores


class ClusterState:
    """Free amounts, queue and leases; changed by its writers only.

    The writers are :meth:`submit`, :meth:`apply`, :meth:`release` (with :meth:`reject` for a job that leaves the queue
    unserved), :meth:`set_online` (with :meth:`drain`, :meth:`withhold` and :meth:`resume` where jobs go on) and
    :meth:`rebook`. Each checks everything, then writes; a refusal raises and changes nothing.

    Attributes
    ----------
    free, total : int64[2, nodes]
        Rows: cores, MB. A node that is offline has nothing free.
    online : bool[nodes]
    withheld
        Node that drains → int64[2], the cores and MB of it that are neither free nor held.
    conditions, status
        A :class:`Status` each, as a bytearray and as int8[jobs] over the same memory.
    queue : int64[jobs + 1]
        Waiting jobs in order of (submission, id), at ``queue[queue_start:queue_end]``.
    running : int64[2, running]
        Rows: booked end, job; in order of (booked end, job); the first ``running_count`` columns count.
    pool, lease_at
        The rows of all running leases, and per job (first row, number of rows) in them.
    group : int64[nodes]
        Within which memory may be lent, as :attr:`Cluster.lending_group`.
    memory
        Who uses whose memory; ``None`` where that does not matter.
    peaks
        The most memory that tasks ever use, as the world knows it, for its slowdowns; ``None``: what they hold.
    runs, ended_count
        When jobs started and how long they ran, and how many have ended by themselves; ``None`` where nobody looks.
    devices
        Who holds which pooled devices; ``None`` on a cluster without pools.
    claimed
        What is claimed of the places of resources; ``None`` on a cluster without any.
    promises
        What the policy has promised to waiting jobs, as it was after the last round.
    jobs, known
        How many jobs there are, and how many of them have been submitted: they come in order of their numbers.
    first_unequal
        The first job whose tasks ask for more or less than one core, or for memory.
    seen
        The columns, read-only.
    version, releases, unforeseen
        Grow by one with every change; with every change that gives something back; and with every change by which there
        is more, at some time, than was booked: a job ends before its booked end or is booked to end earlier, holds
        something else from now on, or leaves the queue without having run; a node comes back.
    """

    def __init__(
        self,
        cluster: Cluster,
        asks: Ints,
        wants: Ints | None = None,
        pace: Pace | None = None,
        lends: bool = False,
        claims: Ints | None = None,
        learns: bool = False,
    ) -> None:
        nodes, jobs = len(cluster), asks.shape[1]
        self.cluster = cluster
        self.jobs: int = jobs
        self.known = 0
        unequal = np.flatnonzero((asks[1] != 1) | (asks[2] != 0))
        self.first_unequal: int = int(unequal[0]) if len(unequal) else NEVER_US
        self.asks = asks
        self.total = np.ascontiguousarray(np.stack([cluster.cores, cluster.memory_mb]))
        self.free = self.total.copy()
        self.online = np.ones(nodes, np.bool_)
        self.withheld: dict[int, Ints] = {}
        self.conditions = bytearray(jobs)
        self.status = np.frombuffer(self.conditions, np.int8)
        self.queue = np.zeros(jobs + 1, np.int64)
        self.queue_start = 0
        self.queue_end = 0
        self.running = np.zeros((2, 256), np.int64)
        self.running_count = 0
        self.pool = np.zeros((1024, 5), np.int64)
        self.pool_used = 0
        self.pool_dead = 0
        self.lease_at = np.zeros((2, jobs), np.int64)
        self.free_cores = int(self.free[0].sum())
        self.group = cluster.lending_group
        self.memory = make_memory_use(nodes, jobs) if lends else None
        self.peaks: Peaks | None = None
        self.runs = no_runs(jobs) if learns else None
        self.ended_count = 0
        self.extra: dict[int, Extra] = {}
        self.devices: DeviceState | None = None
        if len(cluster.devices):
            if wants is None:
                wants = np.zeros((len(cluster.devices.kinds), cluster.devices.capacity.shape[0], jobs), np.int64)
            self.devices = DeviceState(cluster.devices, wants, pace or no_pace(cluster.devices, jobs))
        self.claimed: Claimed | None = None
        if len(cluster.places):
            asked = cluster.places.asked({}, jobs) if claims is None else claims.copy()
            self.claimed = Claimed(cluster.places, asked, cluster.devices.home)
        self.version = 0
        self.releases = 0
        self.unforeseen = 0
        self.promises: Promises = NO_PROMISES
        self.capacity_version = 0
        self.seen = Seen(self)

    def add_job(self, asks: Ints, wants: Ints, model: Ints, claims: Ints | None = None) -> int:
        """Make room for one more job; returns its number.

        Parameters
        ----------
        asks : int64[4]
            As a column of ``asks``.
        wants : int64[kinds, quantities]
            What a task asks of pooled devices.
        model : int64[kinds]
            Which model governs it on each kind; -1: none.
        claims : int64[quantities]
            What it asks of resources; default: nothing.
        """
        job = self.jobs
        if job == self.asks.shape[1]:
            room = room_for(job + 1, job)
            self.asks, self.lease_at = grown(self.asks, room), grown(self.lease_at, room)
            self.queue = grown(self.queue, room + 1)
            self.conditions = self.conditions + bytearray(room - job)
            self.status = np.frombuffer(self.conditions, np.int8)
            if self.memory is not None:
                self.memory = self.memory._replace(first_of=grown(self.memory.first_of, room, -1))
                self.seen.memory = sealed_columns(self.memory)
            if self.runs is not None:
                self.runs = runs_with_room(self.runs, room)
                self.seen.runs = sealed_columns(self.runs)
            for name in ("asks", "lease_at", "queue", "status"):
                self.seen.again(name)
        self.asks[:, job] = asks
        if self.devices is not None:
            self.devices.add_job(wants, model)
        if self.claimed is not None:
            self.claimed.add_job(job, np.zeros(len(self.claimed.asked), np.int64) if claims is None else claims)
        if self.first_unequal == NEVER_US and (asks[1] != 1 or asks[2] != 0):
            self.first_unequal = job
        self.jobs = job + 1
        return job

    # --- the writers ---------------------------------------------------------------------------------------

    def submit(self, job: int) -> None:
        """Put a job at its place in the queue: its first time, or again after it was stopped.

        Raises
        ------
        RefusedError
            It is queued, running, finished or rejected already.
        """
        if self.condition(job) != UNKNOWN:
            raise RefusedError(f"submit job {job}: it is {Status(self.conditions[job]).name} already")
        self.conditions[job] = QUEUED
        self.version += 1
        if job >= self.known:
            self.known = job + 1
        if self.devices is not None:
            self.devices.note(job, int(self.asks[0, job]))
        if self.claimed is not None:
            self.claimed.note(job, 1)
        self.enter_queue(job)

    def enter_queue(self, job: int) -> None:
        """Put a job at its place in the queue, and do nothing else."""
        queue, start, end = self.queue, self.queue_start, self.queue_end
        if start == end or queue[end - 1] < job:
            if end == len(queue):
                queue[: end - start] = queue[start:end].copy()
                start, end = 0, end - start
                self.queue_start = start
            queue[end] = job
            self.queue_end = end + 1
            return
        at = start + int(np.searchsorted(queue[start:end], job))
        if start > 0:
            queue[start - 1 : at - 1] = queue[start:at].copy()
            queue[at - 1] = job
            self.queue_start = start - 1
        else:
            queue[at + 1 : end + 1] = queue[at:end].copy()
            queue[at] = job
            self.queue_end = end + 1

    def apply(self, lease: Lease, expected_us: int, now: int, below: bool = False) -> None:
        """Give a queued job what the lease says, or exchange what a running job holds for it.

        Parameters
        ----------
        lease
            Must hold all the job's tasks, with their cores and memory, on nodes that have them free.
        expected_us
            How long the job is expected to run when nothing slows it down; of a running job it stays what it was.
        now
            The time, µs. ``view.running`` is kept in the order of the ends that follow from this.
        below
            What a running job gets may be less than it asks: all its tasks, with a core on each of their nodes (where
            they ask for cores), but fewer cores or less memory than that.

        Raises
        ------
        RefusedError
            The job is neither queued nor running, or something is not free; nothing has changed.
        """
        job = lease.job
        if self.condition(job) != RUNNING:
            self.start(lease, expected_us, now)
            return
        self._check_rows(lease)
        self.exchange(lease, below)
        self.version += 1

    def start(self, lease: Lease, expected_us: int, now: int, below: bool = False) -> None:
        """Give a queued job what the lease says, as :meth:`apply` does; ``below``: it may hold less than it asks.

        Raises
        ------
        RefusedError
            The job is not queued, or something is not free; nothing has changed.
        """
        job = lease.job
        if self.condition(job) != QUEUED:
            raise RefusedError(f"start job {job}: it is not queued")
        self._check_rows(lease)
        self._start(lease, expected_us, now, below)
        self.conditions[job] = RUNNING
        self.leave_queue(job)
        if self.runs is not None:
            self.runs.started_us[job] = now
        self.version += 1

    def release(self, job: int, now: int, status: int = FINISHED, noted: bool = True) -> None:
        """Take back all that a running job holds, at time ``now`` (µs).

        Parameters
        ----------
        status
            What becomes of it: FINISHED, or UNKNOWN so that it may be submitted again.
        noted
            False: :meth:`note_end` will say of a job that is FINISHED that it has ended.

        Raises
        ------
        RefusedError
            It is not running.
        """
        if self.condition(job) != RUNNING:
            raise RefusedError(f"release job {job}: it is not running")
        self.unforeseen += self._is_early(job, now)
        extra = self.take_back(job)
        if self.devices is not None:
            self.devices.note(job, -int(self.asks[0, job]))
            if extra is not None and extra.shares:
                self.devices.give(job, extra.shares, now)
                self.devices.follow(extra.shares, -1, now, self.running, self.running_count)
        if self.claimed is not None:
            self.claimed.note(job, -1)
        self.conditions[job] = status
        if self.runs is not None and noted and status == FINISHED:
            self.note_end(job, now)
        self.version += 1

    def note_end(self, job: int, now: int) -> None:
        """Note in :attr:`runs` that a job has ended by itself."""
        if self.runs is not None:
            self.runs.ran_us[job] = now - self.runs.started_us[job]
            self.runs.ended[self.ended_count] = job
            self.ended_count += 1

    def reject(self, job: int) -> None:
        """Drop a queued job, or one that was not let into the queue at all.

        Raises
        ------
        RefusedError
            It is running, finished or rejected already.
        """
        status = self.condition(job)
        if status == QUEUED:
            self.unforeseen += 1
            self.leave_queue(job)
            if self.devices is not None:
                self.devices.note(job, -int(self.asks[0, job]))
            if self.claimed is not None:
                self.claimed.note(job, -1)
        elif status != UNKNOWN:
            raise RefusedError(f"reject job {job}: it is {Status(self.conditions[job]).name}")
        self.conditions[job] = REJECTED
        self.known = max(self.known, job + 1)
        self.version += 1

    def set_online(self, node: int, online: bool) -> None:
        """Take an idle node out of service, or bring it back.

        Raises
        ------
        RefusedError
            The node still holds jobs, or is in that condition already.
        """
        if not 0 <= node < len(self.online):
            raise RefusedError(f"node {node} does not exist")
        if bool(self.online[node]) == online:
            raise RefusedError(f"node {node} is {'online' if online else 'offline'} already")
        if not online and (self.free[:, node] != self.total[:, node]).any():
            raise RefusedError(f"node {node} still holds jobs")
        if self.devices is not None:
            if not online and self.devices.busy_at(node):
                raise RefusedError(f"node {node} still has a device in use")
            self.devices.set_online(node, online)
        self.online[node] = online
        self.free[:, node] = self.total[:, node] if online else 0
        self.free_cores += int(self.total[0, node]) * (1 if online else -1)
        self.version += 1
        self.releases += 1
        self.unforeseen += online
        self.capacity_version += 1

    def drain(self, node: int) -> None:
        """Take a node out of service: at once if it is idle, or else what comes free there is withheld until then.

        A node that is out of service or drains already stays so.

        Raises
        ------
        RefusedError
            There is no such node.
        """
        if not 0 <= node < len(self.online):
            raise RefusedError(f"node {node} does not exist")
        if self.online[node] and node not in self.withheld:
            self.withheld[node] = np.zeros(2, np.int64)
            self.version += 1
            self.capacity_version += 1
        self.withhold()

    def withhold(self) -> None:
        """Keep back what has come free on nodes that drain; those that are idle by now go out of service."""
        for node in sorted(self.withheld):
            kept, free = self.withheld[node], self.free[:, node]
            if free.any():
                self.free_cores -= int(free[0])
                kept += free
                free[:] = 0
                self.version += 1
            if (kept == self.total[:, node]).all() and not (self.devices is not None and self.devices.busy_at(node)):
                self._give_back(node)
                self.set_online(node, False)

    def resume(self, node: int) -> None:
        """Bring a node back into service, or let one that drains be used again.

        Raises
        ------
        RefusedError
            There is no such node, or it is in service.
        """
        if node not in self.withheld:
            self.set_online(node, True)
            return
        self._give_back(node)
        self.version += 1
        self.releases += 1
        self.unforeseen += 1
        self.capacity_version += 1

    def _give_back(self, node: int) -> None:
        """Nothing of a node is withheld any more."""
        kept = self.withheld.pop(node)
        self.free[:, node] += kept
        self.free_cores += int(kept[0])

    def rebook(self, job: int, end_us: int) -> None:
        """Expect the end of a running job at another time, µs; of one that holds devices, their models say when.

        Raises
        ------
        RefusedError
            It is not running.
        """
        if self.condition(job) != RUNNING:
            raise RefusedError(f"expect the end of job {job}: it is not running")
        if self.devices is not None and self.devices.asking[job]:
            return
        booked_us = self.booked_end(job)
        self.unforeseen += end_us < booked_us
        rebook_job(self.running, self.running_count, booked_us, end_us, job)
        self.version += 1

    def detached(self, devices: tuple[int, ...], now: int) -> None:
        """Devices whose detaching is over at time ``now`` (µs) are free again.

        Raises
        ------
        RefusedError
            One of them is free or in use.
        """
        if self.devices is None:
            raise RefusedError(f"devices {devices} do not exist")
        early = any(self.devices.detaching.get(device, now) > now for device in devices)
        self.devices.detached(devices)
        self.unforeseen += early
        self.version += 1
        self.releases += 1

    # --- reading ------------------------------------------------------------------------------------------------

    def condition(self, job: int) -> int:
        """The :class:`Status` of a job, as a plain integer.

        Raises
        ------
        RefusedError
            There is no such job.
        """
        if not 0 <= job < self.jobs:
            raise RefusedError(f"job {job}: there is no such job; they are numbered 0 to {self.jobs - 1}")
        return self.conditions[job]

    def lease(self, job: int) -> Lease:
        """What a running job holds (a copy).

        Raises
        ------
        RefusedError
            It is not running.
        """
        if self.condition(job) != RUNNING:
            raise RefusedError(f"lease of job {job}: it is not running")
        at, rows = self.lease_at[:, job]
        extra = self.extra.get(job)
        held = self.pool[at : at + rows].copy()
        return Lease(job, held) if extra is None else Lease(job, held, extra.borrowed, extra.shares, extra.claims)

    def booked_end(self, job: int) -> int:
        """When a running job is expected to end, µs."""
        column = np.flatnonzero(self.running[1, : self.running_count] == job)[0]
        return int(self.running[0, column])

    def left_us(self, job: int, now: int) -> int:
        """The work that is expected to be left of a running job, µs at speed 1, 0 or more.

        Raises
        ------
        RefusedError
            It is not running.
        """
        if self.condition(job) != RUNNING:
            raise RefusedError(f"requeue job {job}: it is not running")
        if self.devices is not None and self.devices.asking[job]:
            return self.devices.left_us(job, now)
        return max(0, self.booked_end(job) - now)

    def jobs_on(self, node: int) -> list[int]:
        """The running jobs that hold something of a node or of a device that sits in it, in order of id."""
        found = []
        for job in self.running[1, : self.running_count].tolist():
            at, count = self.lease_at[:, job]
            rows = self.pool[at : at + count]
            extra = self.extra.get(job)
            if ((rows[:, 0] <= node) & (node < rows[:, 0] + rows[:, 1])).any() or (
                extra is not None and (bool((extra.borrowed[:, LENDER] == node).any()) or self._at_home(extra, node))
            ):
                found.append(job)
        return sorted(found)

    # --- inside -------------------------------------------------------------------------------------------------

    def _is_early(self, job: int, now: int) -> bool:
        """Whether a running job's booked end is yet to come; one that asks for no time is planned to take 1 µs."""
        running = self.running
        for i in range(self.running_count):
            if running[0, i] > now:
                return True
            if running[1, i] == job:
                return bool(self.asks[3, job] < 1)
        return True

    def _check_rows(self, lease: Lease) -> None:
        rows = lease.rows
        if rows.dtype != INT64 or rows.ndim != 2 or rows.shape[1] != 5:
            raise RefusedError(f"start job {lease.job}: the rows of its lease are no int64[rows, 5]")

    def _start(self, lease: Lease, expected_us: int, now: int, below: bool = False) -> None:
        devices = self.devices
        if devices is None:
            if lease.shares:
                raise RefusedError(f"start job {lease.job}: it would hold devices, and this cluster has none")
            self.take_rows(lease, now + expected_us, below)
            return
        if not lease.shares and not devices.asking[lease.job]:
            self.take_rows(lease, now + expected_us, below)
            return
        devices.take(lease, now)
        try:
            self.take_rows(lease, devices.end_us(lease.job, expected_us, now), below)
        except RefusedError:
            devices.undo(lease.job, lease.shares)
            raise
        extra = self.extra.get(lease.job)
        if extra is None:
            self.extra[lease.job] = Extra(NO_LOANS, lease.shares, NO_CLAIMS)
        else:
            extra.shares = lease.shares
        devices.follow(lease.shares, lease.job, now, self.running, self.running_count)

    def exchange(self, lease: Lease, below: bool) -> None:
        """Give a running job another lease; its booked end and its devices stay."""
        job, rows, what = lease.job, lease.rows, f"resize job {lease.job}"
        extra = self.extra.get(job)
        if lease.shares != (() if extra is None else extra.shares):
            raise RefusedError(f"{what}: the devices that a running job holds cannot be exchanged")
        loans, held = self._loans(lease, what), self.lease(job)
        if self.devices is not None and lease.shares:
            self.devices.check_held(lease, what)
        before = NO_CLAIMS if extra is None else extra.claims
        self._check_claims(lease, before, what)
        verdict = exchange_job(job, rows, loans, below, self.group, self.asks, self.free, held.rows, held.borrowed)
        if verdict < MEETS:
            raise RefusedError(f"{what}: {PROBLEMS[verdict]}")
        count = rows.shape[0]
        if self.pool_used + count > self.pool.shape[0]:
            self._make_room(count)
        self.pool[self.pool_used : self.pool_used + count] = rows
        self.lease_at[:, job] = self.pool_used, count
        self.pool_used += count
        self.pool_dead += held.rows.shape[0]
        self.free_cores += int(held.rows[:, NODES] @ held.rows[:, CORES] - rows[:, NODES] @ rows[:, CORES])
        if extra is not None:
            extra.borrowed, extra.claims = loans, lease.claims
        elif len(loans) or len(lease.claims):
            self.extra[job] = Extra(loans, (), lease.claims)
        if self.claimed is not None:
            self.claimed.give(job, before)
            self.claimed.take(job, lease.claims)
        self.releases += 1
        self.unforeseen += 1
        if self.memory is not None:
            drop_uses(self.memory, job)
            self._note_uses(job, rows, loans)

    def _check_claims(self, lease: Lease, held: Ints, what: str) -> None:
        """Refuse a lease that does not claim what its job asks, or what is not free."""
        if self.claimed is not None:
            self.claimed.check(lease, held, what)
        elif lease.claims is not NO_CLAIMS and len(lease.claims):
            raise RefusedError(f"{what}: it would claim places of resources, and this cluster has none")

    def _loans(self, lease: Lease, what: str) -> Ints:
        """What a lease borrows, if that has the right form and is within reach."""
        loans = loans_of(lease.borrowed)
        if loans.dtype != INT64 or loans.ndim != 2 or loans.shape[1] != 3:
            raise RefusedError(f"{what}: what its lease borrows is no int64[loans, 3]")
        tiers = self.cluster.tiers
        if tiers is not None and not tiers.pairs.issuperset(
            (borrower, lender) for borrower, lender, _ in loans.tolist()
        ):
            raise RefusedError(f"{what}: its lease has memory of a pool of another cluster of pools")
        return loans

    def _note_uses(self, job: int, rows: Ints, loans: Ints) -> None:
        """Note whose memory a lease uses."""
        assert self.memory is not None
        memory = with_room(self.memory, int(rows[:, NODES].sum()) + len(loans))
        if memory is not self.memory:
            self.memory, self.seen.memory = memory, sealed_columns(memory)
        note_uses(self.memory, job, rows, loans, NO_PEAKS if self.peaks is None else self.peaks.of(job))

    def take_rows(self, lease: Lease, booked_end_us: int, below: bool = False) -> None:
        """Give a job its rows and borrowed memory, and nothing else: shares of devices are taken by the caller."""
        rows = lease.rows
        count = rows.shape[0]
        if self.running_count == self.running.shape[1] or self.pool_used + count > self.pool.shape[0]:
            self.make_room(count)
        loans = lease.borrowed
        if loans is not NO_LOANS:
            loans = self._loans(lease, f"start job {lease.job}")
        if self.claimed is not None or lease.claims is not NO_CLAIMS:
            self._check_claims(lease, NO_CLAIMS, f"start job {lease.job}")
        verdict = hold_job(
            lease.job, booked_end_us, rows, loans, self.group, self.asks, self.free, self.running,
            self.running_count, self.pool, self.pool_used, self.lease_at, below,
        )  # fmt: skip
        if verdict < MEETS:
            raise RefusedError(f"start job {lease.job}: {PROBLEMS[verdict]}")
        self.running_count += 1
        self.pool_used += count
        self.free_cores -= verdict
        if self.claimed is not None and len(lease.claims):
            self.claimed.take(lease.job, lease.claims)
            self.extra[lease.job] = Extra(loans, (), lease.claims)
        elif len(loans):
            self.extra[lease.job] = Extra(loans, (), NO_CLAIMS)
        if self.memory is not None:
            self._note_uses(lease.job, rows, loans)

    def take_back(self, job: int) -> Extra | None:
        """Take back a job's rows and borrowed memory, and nothing else; returns what else it held."""
        self.releases += 1
        extra = self.extra.pop(job, None)
        loans = NO_LOANS if extra is None else extra.borrowed
        self.free_cores += release_job(
            job, loans, self.free, self.running, self.running_count, self.pool, self.lease_at
        )  # fmt: skip
        self.running_count -= 1
        self.pool_dead += int(self.lease_at[1, job])
        if self.claimed is not None and extra is not None:
            self.claimed.give(job, extra.claims)
        if self.memory is not None:
            drop_uses(self.memory, job)
        return extra

    def _at_home(self, extra: Extra, node: int) -> bool:
        """Whether one of the devices held sits in the node."""
        if self.devices is None:
            return False
        home = self.devices.devices.home
        return any(home[device] == node for share in extra.shares for device in share.devices)

    def leave_queue(self, job: int) -> None:
        """Take a job out of the queue, and do nothing else."""
        if self.queue[self.queue_start] == job or strike(self.queue, self.queue_start, self.queue_end, job):
            self.queue_start += 1
        else:
            self.queue_end -= 1

    def make_room(self, rows: int, jobs: int = 1) -> None:
        """Make space for so many more rows and running jobs: drop the rows of ended jobs, or take more memory."""
        if self.running_count + jobs > self.running.shape[1]:
            more = np.zeros((2, max(jobs, self.running.shape[1])), np.int64)
            self.running = np.concatenate([self.running, more], axis=1)
            self.seen.again("running")
        if self.pool_used + rows > self.pool.shape[0]:
            self._make_room(rows)

    def _make_room(self, count: int) -> None:
        """Make space for ``count`` rows: drop the rows of ended jobs, or double the pool."""
        size, live = self.pool.shape[0], self.pool_used - self.pool_dead
        while size < 2 * (live + count):
            size *= 2
        jobs = self.running[1, : self.running_count]
        first, rows = self.lease_at[:, jobs]
        at = np.cumsum(rows) - rows
        pool = np.zeros((size, 5), np.int64)
        used = int(rows.sum())
        pool[:used] = self.pool[np.arange(used) + np.repeat(first - at, rows)]
        self.lease_at[0, jobs] = at
        self.pool, self.pool_used, self.pool_dead = pool, used, 0
        self.seen.again("pool")
