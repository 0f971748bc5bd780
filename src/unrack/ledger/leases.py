"""What running jobs hold: rows of nodes, borrowed memory, shares of devices, claims on places of resources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from unrack.cluster.spec import Cluster
from unrack.errors import RefusedError
from unrack.kernels.arrays import Ints
from unrack.ledger.claims import NO_COMPONENTS, Claimed, check_parts
from unrack.ledger.columns import ENDS_US, FIRST_ROW, OF_JOB, ROW_COUNT, grown
from unrack.ledger.devices.state import DeviceState
from unrack.ledger.holding import (
    MEETS,
    PROBLEMS,
    exchange_leases,
    hold_job,
    hold_jobs,
    release_job,
    stacked,
    starts_of,
)  # fmt: skip
from unrack.ledger.jobs import QUEUED, RUNNING, JobLedger
from unrack.ledger.lease import NO_LOANS, NODES, Lease, Share, loans_of, nodes_of, ranges
from unrack.ledger.memory_use import NO_PEAKS, Peaks, drop_uses, make_memory_use, note_uses, with_room
from unrack.ledger.nodes import NodeLedger
from unrack.resources.contract import NodeSets
from unrack.resources.places import NO_CLAIMS

INT64 = np.dtype(np.int64)


@dataclass(slots=True)
class Extra:
    """What a running job holds beyond its rows."""

    borrowed: Ints = field(default_factory=lambda: NO_LOANS)
    shares: tuple[Share, ...] = ()
    claims: Ints = field(default_factory=lambda: NO_CLAIMS)
    parts: tuple[Lease, ...] = ()


NOTHING = Extra()
"""What most jobs hold beyond their rows; it never changes."""


def on_nodes_alone(lease: Lease) -> bool:
    """Whether a lease is of nodes and their memory, and of nothing else."""
    return lease.borrowed is NO_LOANS and not lease.shares and lease.claims is NO_CLAIMS and not lease.parts


class LeaseLedger(JobLedger, NodeLedger):
    """The part of :class:`unrack.ledger.state.ClusterState` that gives nodes, memory and claims, and takes them back.

    ``claimed``: the claims on places of resources; ``None``: the cluster has none; ``lends``: whether it is kept which
    job uses which node's memory.
    """

    def __init__(
        self,
        cluster: Cluster,
        asks: Ints,
        devices: DeviceState | None,
        claimed: Claimed | None,
        lends: bool,
        learns: bool,
    ) -> None:
        JobLedger.__init__(self, asks, learns)
        NodeLedger.__init__(self, cluster, devices)
        self.running = np.zeros((2, 256), np.int64)
        self.running_count = 0
        self.pool = np.zeros((1024, 5), np.int64)
        self.pool_used = 0
        self.pool_dead = 0
        self.lease_at = np.zeros((2, self.jobs), np.int64)
        self.open_to = self.total[None]
        self.set_owner = np.zeros(1, np.int64)
        self.set_of = np.zeros(self.jobs, np.int64)
        self.extra: dict[int, Extra] = {}
        self.components = NO_COMPONENTS
        self.claimed = claimed
        self.memory = make_memory_use(len(cluster), self.jobs) if lends else None
        self.peaks: Peaks | None = None

    # --- reading ----------------------------------------------------------------------------------------------------

    def lease(self, job: int) -> Lease:
        """What a running job holds (a copy). A RefusedError if it is not running."""
        if self.condition(job) != RUNNING:
            raise RefusedError(f"lease of job {job}: it is not running")
        rows, extra = self._rows(job).copy(), self.extra.get(job, NOTHING)
        return Lease(job, rows, extra.borrowed, extra.shares, extra.claims, extra.parts)

    def booked_end(self, job: int) -> int:
        """When a running job is expected to end, µs."""
        column = np.flatnonzero(self.running[OF_JOB, : self.running_count] == job)[0]
        return int(self.running[ENDS_US, column])

    def left_us(self, job: int, now: int) -> int:
        """The work that is expected to be left of a running job, µs at speed 1, 0 or more.

        A RefusedError if it is not running.
        """
        if self.condition(job) != RUNNING:
            raise RefusedError(f"requeue job {job}: it is not running")
        if self.devices is not None and self.devices.asking[job]:
            return self.devices.left_us(job, now)
        return max(0, self.booked_end(job) - now)

    def begins_us(self, job: int, now: int) -> int:
        """When a job that has just started begins to work: later than ``now`` while its devices are being attached."""
        return now if self.devices is None else self.devices.begins_us(job, now)

    def groups(self, lease: Lease) -> tuple[int, ...]:
        """The number, its own in the run, of the composition or split device behind each share of a running lease."""
        return () if self.devices is None else self.devices.groups(lease)

    def _rows(self, job: int) -> Ints:
        at = self.lease_at[FIRST_ROW, job]
        return self.pool[at : at + self.lease_at[ROW_COUNT, job]]

    # --- giving and taking back -------------------------------------------------------------------------------------

    def take_rows(self, lease: Lease, booked_end_us: int, below: bool = False) -> None:
        """Give a job its rows, borrowed memory and claims: shares of devices are taken by the caller.

        A RefusedError if something is not free, or the lease is not what the job asks; nothing has changed.
        """
        job, rows = lease.job, lease.rows
        count = rows.shape[0]
        if self.running_count == self.running.shape[1] or self.pool_used + count > self.pool.shape[0]:
            self.make_room(count)
        loans = lease.borrowed
        if loans is not NO_LOANS:
            loans = self._loans(lease, f"start job {job}")
        if lease.parts or job in self.components.of:
            check_parts(self, lease, below)
        elif self.claimed is not None or lease.claims is not NO_CLAIMS:
            self.check_claims(lease, NO_CLAIMS, f"start job {job}")
        used = self.pool_used
        verdict = hold_job(
            job, booked_end_us, rows, loans, below, self.group, self.asks, self.free, self.running,
            self.running_count, self.pool, used,
        )  # fmt: skip
        if verdict < MEETS:
            raise RefusedError(f"start job {job}: {PROBLEMS[verdict]}")
        self.lease_at[FIRST_ROW, job] = used
        self.lease_at[ROW_COUNT, job] = count
        self.running_count += 1
        self.pool_used += count
        self.free_cores -= verdict
        if self.claimed is not None and len(lease.claims):
            self.claimed.take(job, lease.claims)
        if len(loans) or len(lease.claims) or lease.parts:
            self.extra[job] = Extra(loans, (), lease.claims, lease.parts)
        if self.memory is not None:
            self._note_uses(job, rows, loans)

    def take_back(self, job: int, early: bool = False) -> Extra:
        """Take back a job's rows, borrowed memory and claims; returns all that it held beyond its rows."""
        self.releases += 1
        extra = self.extra.pop(job, NOTHING)
        if len(self.open_to) > 1 and not len(extra.claims):
            self.note_where(nodes_of(self._rows(job)), early)
        self.free_cores += release_job(
            job, extra.borrowed, self.free, self.running, self.running_count, self.pool, self.lease_at
        )
        self.running_count -= 1
        self.pool_dead += int(self.lease_at[ROW_COUNT, job])
        if self.claimed is not None and len(extra.claims):
            self.claimed.give(job, extra.claims)
        if self.memory is not None:
            drop_uses(self.memory.kernel, job)
        return extra

    def exchange(self, leases: Sequence[Lease], below: bool) -> None:
        """Give running jobs other leases, all at once; their booked ends and their devices stay.

        Nodes and memory are free once all of these jobs have given back what they hold; leases with other claims than
        before are exchanged one at a time. ``below``: as of :meth:`unrack.ledger.state.ClusterState.start`. A
        RefusedError if a job is not running, or something is not free; nothing has changed.
        """
        for lease in leases:
            if self.condition(lease.job) != RUNNING:
                raise RefusedError(f"resize job {lease.job}: it is not running")
            self.check_rows(lease, "resize")
        jobs = np.array([lease.job for lease in leases], np.int64)
        if len(jobs) > 1 and len(set(jobs.tolist())) < len(jobs):
            raise RefusedError(f"resize jobs {jobs.tolist()}: one of them twice")
        held = [self.extra.get(lease.job, NOTHING) for lease in leases]
        borrowed = [self._exchangeable(lease, extra) for lease, extra in zip(leases, held, strict=True)]
        new = stacked([lease.rows for lease in leases], borrowed)
        old = stacked([self._rows(lease.job) for lease in leases], [extra.borrowed for extra in held])
        self.make_room(len(new.rows), 0)
        verdict, which, cores = exchange_leases(jobs, new, old, below, self.group, self.asks, self.free)
        if verdict < MEETS:
            raise RefusedError(f"resize job {jobs[which]}: {PROBLEMS[verdict]}")
        if self.before is not None:
            for lease in leases:
                self.before.held(lease.job)
        self.pool[self.pool_used : self.pool_used + len(new.rows)] = new.rows
        self.pool_dead += len(old.rows)
        self.free_cores += cores
        for lease, extra, loans in zip(leases, held, borrowed, strict=True):
            self.lease_at[FIRST_ROW, lease.job], self.lease_at[ROW_COUNT, lease.job] = self.pool_used, len(lease.rows)
            self.pool_used += len(lease.rows)
            if self.claimed is not None and (len(extra.claims) or len(lease.claims)):
                self.claimed.give(lease.job, extra.claims)
                self.claimed.take(lease.job, lease.claims)
            if extra is not NOTHING or len(loans) or len(lease.claims):
                self.extra[lease.job] = Extra(loans, extra.shares, lease.claims)
            if self.memory is not None:
                drop_uses(self.memory.kernel, lease.job)
                self._note_uses(lease.job, lease.rows, loans)
        self.version += 1
        self.releases += 1
        self.unforeseen += 1

    def _exchangeable(self, lease: Lease, held: Extra) -> Ints:
        """The loans of a lease, if the job that runs on ``held`` may have that lease instead where it is free."""
        what = f"resize job {lease.job}"
        if held.parts:
            raise RefusedError(f"{what}: what the components of a heterogeneous job hold cannot be exchanged")
        if lease.shares != held.shares:
            raise RefusedError(f"{what}: the devices that a running job holds cannot be exchanged")
        loans = self._loans(lease, what)
        if self.devices is not None and lease.shares:
            self.devices.check_held(lease, what)
        self.check_claims(lease, held.claims, what)
        return loans

    def keeps_the_rest(self, lease: Lease) -> bool:
        """Whether a lease has the devices and claims that its job holds; nodes and loans may be others."""
        extra = self.extra.get(lease.job, NOTHING)
        return lease.shares == extra.shares and np.array_equal(lease.claims, extra.claims)

    def hold_many(self, leases: Sequence[Lease], now: int) -> bool:
        """Give many waiting jobs leases of nodes alone, all at once; False: not possible, and nothing has changed."""
        if self.memory is not None or self.components.of or not all(map(on_nodes_alone, leases)):
            return False
        every = [lease.rows for lease in leases]
        if any(rows.dtype != INT64 or rows.ndim != 2 or rows.shape[1] != 5 for rows in every):
            return False
        jobs = np.array([lease.job for lease in leases], np.int64)
        order = np.sort(jobs)
        if order[0] < 0 or order[-1] >= self.known or (order[1:] == order[:-1]).any():
            return False
        if (self.status[jobs] != QUEUED).any():
            return False
        if self.devices is not None and any(self.devices.asking[job] for job in jobs.tolist()):
            return False
        if self.claimed is not None and self.claimed.asked[:, jobs].any():
            return False
        rows, starts = np.concatenate(every), starts_of([len(own) for own in every])
        self.make_room(len(rows), len(jobs))
        cores = hold_jobs(jobs, rows, starts, self.group, self.asks, self.free)
        if cores < MEETS:
            return False
        used, count = self.pool_used, self.running_count
        self.pool[used : used + len(rows)] = rows
        self.lease_at[FIRST_ROW, jobs], self.lease_at[ROW_COUNT, jobs] = used + starts[:-1], np.diff(starts)
        booked = now + np.array([self.expected_us[job] for job in jobs.tolist()], np.int64)
        among = np.concatenate([self.running[:, :count], np.stack([booked, jobs])], axis=1)
        self.running[:, : among.shape[1]] = among[:, np.lexsort((among[OF_JOB], among[ENDS_US]))]
        self.running_count, self.pool_used = among.shape[1], used + len(rows)
        self.free_cores -= cores
        return True

    # --- checks -----------------------------------------------------------------------------------------------------

    def check_rows(self, lease: Lease, what: str) -> None:
        """Refuse a lease with rows of another form: a RefusedError says so."""
        rows = lease.rows
        if rows.dtype != INT64 or rows.ndim != 2 or rows.shape[1] != 5:
            raise RefusedError(f"{what} job {lease.job}: the rows of its lease are no int64[rows, 5]")

    def check_claims(self, lease: Lease, held: Ints, what: str, own_set: int | None = None) -> None:
        """Refuse a lease with claims that are wrong beside those held, or that is outside of its set of nodes."""
        if self.claimed is not None:
            self.claimed.check(lease, held, what)
        elif lease.claims is not NO_CLAIMS and len(lease.claims):
            raise RefusedError(f"{what}: it would claim places of resources, and this cluster has none")
        if of := self.set_of[lease.job] if own_set is None else own_set:
            closed = self.open_to[of, 0] == 0
            outside = [node for node in nodes_of(lease.rows).tolist() if 0 <= node < len(closed) and closed[node]]
            if outside:
                raise RefusedError(f"{what}: node {outside[0]} is none of those on which it may run")

    def _open(self, asked: Ints, first: int) -> None:
        """Note on which nodes the jobs from ``first`` on may run that ask so much (int64[quantities, jobs])."""
        found = self.cluster.places.sets(asked)
        if found is None:
            return
        self.set_of[first : first + len(found.of)] = numbers = self.numbered(found)
        if numbers.any():
            self.first_unequal = min(self.first_unequal, first + int(np.flatnonzero(numbers)[0]))

    def numbered(self, found: NodeSets) -> Ints:
        """int64[jobs]: the numbers of their sets of nodes, of which those that are new are noted."""
        known = zip(self.open_to, self.set_owner.tolist(), strict=True)
        numbers = {((own[0] > 0).tobytes(), owner): number for number, (own, owner) in enumerate(known)}
        more, owners = list[Ints](), list[int]()
        number_of = np.zeros(len(found.masks), np.int64)
        for i, (mask, owner) in enumerate(zip(found.masks & (self.total[0] > 0), found.owner.tolist(), strict=True)):
            number_of[i] = numbers.setdefault((mask.tobytes(), owner), len(numbers))
            if number_of[i] == len(self.open_to) + len(more):
                more.append(self.total * mask)
                owners.append(owner)
        if more:
            self.open_to = np.concatenate([self.open_to, np.stack(more)])
            self.set_owner = np.concatenate([self.set_owner, np.array(owners, np.int64)])
            self._replaced("open_to")
            self._replaced("set_owner")
        return number_of[found.of]

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
        assert self.memory is not None
        memory = with_room(self.memory, int(rows[:, NODES].sum()) + len(loans))
        if memory is not self.memory:
            self.memory = memory
            self._replaced("memory")
        note_uses(self.memory.kernel, job, rows, loans, NO_PEAKS if self.peaks is None else self.peaks.of(job))

    def make_room(self, rows: int, jobs: int = 1) -> None:
        """Make space for so many more rows and running jobs: drop the rows of ended jobs, or take more memory."""
        if self.running_count + jobs > self.running.shape[1]:
            more = np.zeros((2, max(jobs, self.running.shape[1])), np.int64)
            self.running = np.concatenate([self.running, more], axis=1)
            self._replaced("running")
        if self.pool_used + rows > self.pool.shape[0]:
            self._compact(rows)

    def _compact(self, count: int) -> None:
        """Make space for ``count`` rows: drop the rows of ended jobs, or double the pool."""
        size, live = self.pool.shape[0], self.pool_used - self.pool_dead
        while size < 2 * (live + count):
            size *= 2
        jobs = self.running[OF_JOB, : self.running_count]
        first, rows = self.lease_at[:, jobs]
        at = np.cumsum(rows) - rows
        pool = np.zeros((size, 5), np.int64)
        used = int(rows.sum())
        pool[:used] = self.pool[ranges(first, rows)]
        self.lease_at[FIRST_ROW, jobs] = at
        self.pool, self.pool_used, self.pool_dead = pool, used, 0
        self._replaced("pool")

    def _more_jobs(self, room: int) -> tuple[str, ...]:
        self.lease_at, self.set_of = grown(self.lease_at, room), grown(self.set_of, room)
        if self.memory is not None:
            self.memory = self.memory._replace(first_of=grown(self.memory.first_of, room, -1))
        return (*super()._more_jobs(room), "lease_at", "set_of")

    def _replaced(self, name: str) -> None:
        """A column is another array now; views that show it are told."""
        raise NotImplementedError
