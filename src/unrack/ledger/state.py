"""The one mutable state of a run: what is free, which jobs wait, which run, and on what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from unrack.cluster.pools.pool import Pace, no_pace
from unrack.cluster.spec import Cluster
from unrack.errors import RefusedError
from unrack.kernels.arrays import Ints
from unrack.ledger.claims import Claimed, join, tasks_of
from unrack.ledger.columns import ASKED_US, room_for
from unrack.ledger.copies.seen import Seen
from unrack.ledger.devices.state import DeviceState
from unrack.ledger.holding import rebook_job
from unrack.ledger.jobs import FINISHED as FINISHED
from unrack.ledger.jobs import HELD as HELD
from unrack.ledger.jobs import QUEUED as QUEUED
from unrack.ledger.jobs import REJECTED as REJECTED
from unrack.ledger.jobs import RUNNING as RUNNING
from unrack.ledger.jobs import UNKNOWN as UNKNOWN
from unrack.ledger.jobs import Status as Status
from unrack.ledger.lease import Lease
from unrack.ledger.leases import Extra as Extra
from unrack.ledger.leases import LeaseLedger
from unrack.units import NEVER_US


class ClusterState(LeaseLedger):
    """Free amounts, queue and leases; changed by its writers only.

    The writers are :meth:`submit`, :meth:`start`, :meth:`start_many`, :meth:`exchange`, :meth:`release` (with
    :meth:`reject` for a job that leaves the queue unserved), :meth:`requeue`, :meth:`rebook`, :meth:`reserve`, those of
    :mod:`unrack.ledger.changes`; and of nodes :meth:`set_online` (with
    :meth:`drain`, :meth:`withhold` and :meth:`resume` where jobs go on). Each checks all, then writes; a refusal
    changes nothing. Several are done whole or not at all inside :func:`unrack.ledger.copies.before.all_or_nothing`.

    Attributes
    ----------
    free, total : int64[2, nodes]
        Rows: cores, MB. A node that is offline has nothing free.
    open_to : int64[sets, 2, nodes]
        ``total`` on the nodes of each set, 0 on others; the first set is of all nodes.
    set_owner : int64[sets]
        The number of the window (:class:`unrack.resources.contract.Window`) that jobs of a set run in; 0: none.
    set_of : int64[jobs]
        The set of nodes outside of which a job must hold no cores.
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
        Which job uses which node's memory; ``None`` where that does not matter.
    peaks
        The most memory that tasks ever use, as the world knows it, for its slowdowns; ``None``: what they hold.
    runs, ended_count
        When jobs started and how long they ran, and how many have ended by themselves; ``None`` where it is not needed.
    devices
        Which job holds which pooled devices; ``None`` on a cluster without pools.
    claimed
        What is claimed of the places of resources; ``None`` on a cluster without any.
    promises
        What the policy has promised to waiting jobs, as it was after the last round.
    expected_us
        How long each job is expected to run from its next start on when nothing slows it down, µs.
    before
        Keeps what a plan changes while one is carried out; ``None``: none is.
    sizes, wanted, suspended, extended_us
        Job → its sizes, of those that may change; the size that it asks for; what it goes on with, suspended; and more
        time than it asked for that it was given, µs.
    jobs, known, first_unequal
        How many jobs there are, and how many of them have been submitted: they come in order of their numbers; and the
        first with tasks that ask for more or less than one core, or for memory.
    seen, latecomers
        The columns, read-only; how many jobs were queued later than they came.
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
        components: Mapping[int, tuple[int, ...]] | None = None,
    ) -> None:
        jobs, devices, claimed = asks.shape[1], None, None
        if len(cluster.devices):
            wants = cluster.devices.wanted({}, jobs) if wants is None else wants
            devices = DeviceState(cluster.devices, wants, pace or no_pace(cluster.devices, jobs))
        if cluster.places.parts:
            asked = cluster.places.asked({}, jobs) if claims is None else claims.copy()
            claimed = Claimed(cluster.places, asked, cluster.devices.home)
        super().__init__(cluster, asks, devices, claimed, lends, learns)
        self.seen = Seen(self)
        if claimed is not None:
            self._open(claimed.asked, 0)
        join(self, components or {})

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
            for name in self._more_jobs(room_for(job + 1, job)):
                self.seen.again(name)
            self.seen.show_columns()
        self.asks[:, job] = asks
        self.expected_us.append(int(asks[ASKED_US]))
        if self.devices is not None:
            self.devices.add_job(wants, model)
        if self.claimed is not None:
            self.claimed.add_job(job, 0 if claims is None else claims)
            self._open(self.claimed.asked[:, job : job + 1], job)
        self.components = self.components.and_job(self, job)
        if self.first_unequal == NEVER_US and (asks[1] != 1 or asks[2] != 0):
            self.first_unequal = job
        self.jobs = job + 1
        return job

    # --- the writers --------------------------------------------------------------------------------------------------

    def submit(self, job: int) -> None:
        """Put a job at its place in the queue: its first time, or again after it was stopped.

        A RefusedError if it is queued, running, finished or rejected already.
        """
        if self.condition(job) not in (UNKNOWN, HELD):
            raise RefusedError(f"submit job {job}: it is {Status(self.conditions[job]).name} already")
        self.latecomers += self.conditions[job] == HELD
        self.conditions[job] = QUEUED
        self.version += 1
        if job >= self.known:
            self.known = job + 1
        self._note(job, 1)
        self.enter_queue(job)

    def hold(self, job: int) -> None:
        """Note that a job has come which is not to be started yet; it is submitted later.

        A RefusedError if it has come already.
        """
        if self.condition(job) != UNKNOWN:
            raise RefusedError(f"hold job {job}: it is {Status(self.conditions[job]).name} already")
        self.conditions[job] = HELD
        self.known = max(self.known, job + 1)
        self.version += 1

    def start(self, lease: Lease, expected_us: int, now: int, below: bool = False) -> None:
        """Give a queued job what the lease says.

        A RefusedError if the job is not queued, or something is not free; nothing has changed.

        Parameters
        ----------
        lease
            Must hold all the job's tasks, with their cores and memory, on nodes that have them free.
        expected_us
            How long the job is expected to run when nothing slows it down.
        now
            The time, µs. ``view.running`` is kept in the order of the ends that follow from this.
        below
            It may be less than the job asks: all its tasks, with a core on each of their nodes (where they ask for
            cores), but fewer cores or less memory than that.
        """
        job = lease.job
        if self.condition(job) != QUEUED:
            raise RefusedError(f"start job {job}: it is not queued")
        self.check_rows(lease, "start")
        devices = self.devices
        if devices is not None and (lease.shares or devices.asking[job]):
            self._take_with_devices(devices, lease, expected_us, now, below)
        elif lease.shares:
            raise RefusedError(f"start job {job}: it would hold devices, and this cluster has none")
        else:
            self.take_rows(lease, now + expected_us, below)
        if self.before is not None:
            self.before.held(job)
        self.conditions[job] = RUNNING
        self.leave_queue(job)
        self.note_start(job, now)
        self.version += 1

    def _take_with_devices(
        self, devices: DeviceState, lease: Lease, expected_us: int, now: int, below: bool
    ) -> None:  # fmt: skip
        devices.take(lease, now)
        try:
            self.take_rows(lease, devices.end_us(lease.job, expected_us, now), below)
        except RefusedError:
            devices.undo(lease.job, lease.shares)
            raise
        self.extra.setdefault(lease.job, Extra()).shares = lease.shares
        devices.follow(lease.shares, lease.job, now, self.running, self.running_count)

    def start_many(self, leases: Sequence[Lease], now: int) -> bool:
        """Start waiting jobs as their leases say; False: not possible in this way, and nothing has changed.

        Then they are to be started one after the other, which says what is wrong where something is. Each job may ask
        for nodes and their memory alone. O(jobs log jobs + rows + running + queue).
        """
        if not self.hold_many(leases, now):
            return False
        jobs = np.array([lease.job for lease in leases], np.int64)
        if self.before is not None:
            for job in jobs.tolist():
                self.before.held(job)
        self.status[jobs] = RUNNING
        self.leave_queue_together()
        if self.runs is not None:
            self.runs.started_us[jobs] = now
        if self.sizes:
            self.begun_us.update(dict.fromkeys(jobs.tolist(), now))
        self.version += len(jobs)
        return True

    def release(self, job: int, now: int, status: int = FINISHED, noted: bool = True) -> None:
        """Take back all that a running job holds, at time ``now`` (µs).

        ``status``: what becomes of it: FINISHED, or UNKNOWN so that it may be submitted again; ``noted``: false:
        :meth:`note_end` will say of a job that is FINISHED that it has ended. A RefusedError if it is not running.
        """
        if self.condition(job) != RUNNING:
            raise RefusedError(f"release job {job}: it is not running")
        if self.before is not None:
            self.before.held(job)
        early = job in self.suspended or self._is_early(job, now)
        self.unforeseen += early
        extra = self.take_back(job, early)
        self.forget_changes(job)
        self._note(job, -1)
        if self.devices is not None and extra.shares:
            self.devices.give(job, extra.shares, now)
            self.devices.follow(extra.shares, -1, now, self.running, self.running_count)
        self.conditions[job] = status
        if self.runs is not None and noted and status == FINISHED:
            self.note_end(job, now)
        self.version += 1

    def requeue(self, job: int, now: int, keep_work: bool) -> None:
        """Take back all that a running job holds, and queue it again: whole, or with the work that is left of it.

        A RefusedError if it is not running.
        """
        left_us = self.suspended[job].left_us if job in self.suspended else self.left_us(job, now)
        self.release(job, now, UNKNOWN)
        self.submit(job)
        if keep_work:
            self.carry_on(job, left_us)
        else:
            self.start_over(job)
            if job in self.sizes:
                self.ask_for(job, self.sizes[job].own)

    def reject(self, job: int) -> None:
        """Drop a queued job, or one that was not let into the queue at all.

        A RefusedError if it is running, finished or rejected already.
        """
        status = self.condition(job)
        if status == QUEUED:
            if self.before is not None:
                self.before.held(job)
            self.unforeseen += 1
            self.leave_queue(job)
            self._note(job, -1)
        elif status not in (UNKNOWN, HELD):
            raise RefusedError(f"reject job {job}: it is {Status(self.conditions[job]).name}")
        self.conditions[job] = REJECTED
        self.known = max(self.known, job + 1)
        self.version += 1

    def rebook(self, job: int, end_us: int) -> None:
        """Expect the end of a running job at another time, µs; of one that holds devices, their models say when.

        A RefusedError if it is not running.
        """
        if self.condition(job) != RUNNING:
            raise RefusedError(f"expect the end of job {job}: it is not running")
        if self.devices is not None and self.devices.asking[job]:
            return
        booked_us = self.booked_end(job)
        self.unforeseen += end_us < booked_us
        rebook_job(self.running, self.running_count, booked_us, end_us, job)
        self.version += 1

    def detached(self, devices: tuple[int, ...]) -> None:
        """Devices that have been detached are free again.

        A RefusedError if one of them is free or in use.
        """
        if self.devices is None:
            raise RefusedError(f"devices {devices} do not exist")
        self.devices.detached(devices)
        self.opened(foreseen=False)  # no plan has a step at this time

    def opened(self, foreseen: bool) -> None:
        """Jobs may use what they could not before, though no job gave it back."""
        self.unforeseen += not foreseen
        self.version += 1
        self.releases += 1

    def _note(self, job: int, sign: int) -> None:
        """A job has come into the system (sign 1), or left it (-1)."""
        if self.devices is not None and self.devices.asking[job]:
            for one, tasks in tasks_of(self, job).items():
                self.devices.note(one, sign * tasks)
        if self.claimed is not None:
            self.claimed.note(job, sign)

    def _is_early(self, job: int, now: int) -> bool:
        """Whether a running job's booked end is yet to come; one that asks for no time is planned to take 1 µs."""
        running = self.running
        for i in range(self.running_count):
            if running[0, i] > now:
                return True
            if running[1, i] == job:
                return bool(self.asks[3, job] < 1)
        return True

    def _replaced(self, name: str) -> None:
        if name == "memory":
            self.seen.show_columns()
        else:
            self.seen.again(name)
