"""Which job holds which pooled devices: the part of the cluster's state that only clusters with pools have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from math import ceil
from operator import ge
from typing import Any, NamedTuple

import numpy as np

from unrack.cluster.pools.pool import Devices, Pace
from unrack.errors import RefusedError
from unrack.kernels.arrays import Ints
from unrack.ledger.columns import grown, room_for
from unrack.ledger.devices import columns as at
from unrack.ledger.devices.columns import DeviceColumns, copied_columns, make_columns
from unrack.ledger.devices.sharing import PROBLEMS, ROOM, TAKEN, drop_share, first_end, follow, take_share
from unrack.ledger.lease import FIRST, NODES, TASKS, Lease, Share
from unrack.sealed import sealed_columns, shown


class DeviceReader:
    """The ledger's devices as arrays that cannot be written; they follow the ledger.

    Attributes
    ----------
    devices
        What is installed.
    """

    __slots__ = ("_sealed", "_source", "_state", "devices")

    def __init__(self, state: DeviceState, like: DeviceReader | None = None) -> None:
        """``like``: of the ledger that ``state`` is a copy of, with which it shares what does not change."""
        self._state = state
        self.devices: Devices = state.devices
        self._source = state.columns
        if like is None:
            self._sealed = sealed_columns(state.columns)
        else:
            own: dict[str, Any] = {name: shown(getattr(state.columns, name)) for name in at.CHANGING}
            self._sealed = like.columns._replace(**own)

    @property
    def columns(self) -> DeviceColumns:
        """The columns; take them anew each time: the ledger exchanges those that it has to enlarge."""
        if self._source is not self._state.columns:
            self._source = self._state.columns
            self._sealed = sealed_columns(self._source)
        return self._sealed

    def asks(self, job: int) -> bool:
        """Whether a job asks for devices at all."""
        return bool(self._state.asking[job])

    def members(self, group: int) -> tuple[int, ...]:
        """The devices of a group, ascending."""
        return members(self._state.columns, group)

    def sharers(self, group: int) -> Ints:
        """int64[k]: the jobs on a group; none if there is no such group."""
        return sharers(self._state.columns, group)

    def group_of(self, device: int) -> int:
        """The group of a device, -1 if it is in none."""
        return max(int(self._state.columns.device[at.GROUP, device]), -1)


def draft_of(reader: DeviceReader, jobs: Iterable[int]) -> DeviceState:
    """A copy on which shares may be tried; it says of these jobs alone what they hold, and until when they run.

    Nothing that a policy is given leads to it: its columns can be written.
    """
    return reader._state.copied(jobs)


def amounts_of(c: DeviceColumns, share: Share) -> Ints:
    """int64[quantities]: what a share holds; 0 of quantities that its kind does not have."""
    amounts = np.zeros(c.capacity.shape[0], np.int64)
    amounts[: len(share.amounts)] = share.amounts
    return amounts


def with_more_sharers(c: DeviceColumns) -> DeviceColumns:
    """Room for more jobs on a group, and for more shares of a job."""
    return c._replace(
        sharer=np.concatenate([c.sharer, np.full_like(c.sharer, -1)]),
        job_group=np.concatenate([c.job_group, np.full_like(c.job_group, -1)]),
        job_node=np.concatenate([c.job_node, np.full_like(c.job_node, -1)]),
        job_speed=np.concatenate([c.job_speed, np.ones_like(c.job_speed)]),
    )


def members(c: DeviceColumns, group: int) -> tuple[int, ...]:
    """The devices of a group, ascending."""
    found = [group]
    while c.device[at.NEXT, found[-1]] >= 0:
        found.append(int(c.device[at.NEXT, found[-1]]))
    return tuple(found)


def sharers(c: DeviceColumns, group: int) -> Ints:
    """int64[k]: the jobs on a group, in order of joining."""
    return c.sharer[: c.group[at.JOBS, group], group].copy()


class Leaving(NamedTuple):
    """Devices that are being detached until ``until_us``."""

    devices: tuple[int, ...]
    until_us: int


class DeviceState:
    """Shares of devices; its writers check everything, then write, as those of ``ClusterState`` do.

    Attributes
    ----------
    columns
        The arrays.
    leaving
        Devices that have begun to detach since this list was last emptied.
    detaching
        Every device that is being detached, and until when, µs.
    inside
        Jobs in the system that ask for devices.
    reader
        What others may see of it.
    """

    def __init__(self, devices: Devices, wants: Ints, pace: Pace) -> None:
        self.devices = devices
        self.columns: DeviceColumns = make_columns(devices, wants, pace)
        self.asking = bytearray(self.columns.needs.any(axis=0).tobytes())
        self.leaving: list[Leaving] = []
        self.detaching: dict[int, int] = {}
        self.inside: set[int] = set()
        self._kind = devices.kind.tolist()
        self._nodes = devices.reach.shape[1]
        bits = (1 << np.arange(len(devices.kinds)))[:, None]
        self._asks = (self.columns.needs * bits).sum(axis=0).tolist()
        self._names = [len(names) for names in devices.quantities]
        self.taken = np.zeros(self.columns.wants.shape[2], np.int64)  # by job: how many leases it has taken
        self.reader = DeviceReader(self)

    def copied(self, jobs: Iterable[int] | None = None) -> DeviceState:
        """The same to be changed without changing this, of all jobs inside or of some; ``reader`` is still of this."""
        twin = copy(self)
        twin.inside = set(self.inside if jobs is None else jobs)
        twin.columns = copied_columns(self.columns, min(twin.inside, default=0), 1 + max(twin.inside, default=-1))
        twin.leaving, twin.detaching, twin.taken = [], dict(self.detaching), self.taken.copy()
        return twin

    def add_job(self, wants: Ints, model: Ints) -> None:
        """Make room for one more job that asks ``wants`` (int64[kinds, quantities]) under models (int64[kinds])."""
        job, c = len(self.asking), self.columns
        if job == c.wants.shape[2]:
            room = room_for(job + 1, job)
            fills = {"wants": 0, "needs": 0, "model": -1, "progress": 1, "clock": 0, "job_group": -1, "job_node": -1}
            larger = {name: grown(getattr(c, name), room, fill) for name, fill in {**fills, "job_speed": 1}.items()}
            self.columns, self.taken = (c := c._replace(**larger)), grown(self.taken, room)
        c.wants[:, :, job], c.model[:, job], c.needs[:, job] = wants, model, (wants > 0).any(axis=1)
        self.asking.append(int(c.needs[:, job].any()))
        self._asks.append(sum(1 << kind for kind in np.flatnonzero(c.needs[:, job]).tolist()))

    # --- writers ------------------------------------------------------------------------------------------------

    def note(self, job: int, tasks: int) -> None:
        """A job of so many tasks came into the system, or left it (below 0): what is demanded in all changes."""
        if self.asking[job]:
            asked, wants = self.columns.asked, self.columns.wants[:, :, job]
            asked += wants if tasks == 1 else tasks * wants
            if tasks > 0:
                self.inside.add(job)
            else:
                self.inside.discard(job)

    def take(self, lease: Lease, now: int) -> None:
        """Take all shares of a lease, or none.

        A RefusedError if one of them cannot be, or the shares do not hold what the job's tasks ask; nothing has
        changed.
        """
        for part in lease.parts or (lease,):
            self.check_held(part, f"start job {part.job}")
        for i, share in enumerate(lease.shares):
            verdict = self.try_share(lease.job, share, now)
            if verdict != TAKEN:
                self.undo(lease.job, lease.shares[:i])
                raise RefusedError(f"start job {lease.job}: {PROBLEMS[verdict]} ({share})")
        self.taken[lease.job] += 1

    def try_share(self, job: int, share: Share, now: int) -> int:
        """Take one share: TAKEN, or a key of ``PROBLEMS`` and nothing has changed."""
        devices, amounts = np.array(share.devices, np.int64), amounts_of(self.columns, share)
        verdict = take_share(self.columns.kernel, job, share.node, devices, amounts, share.parts, now)
        if verdict == ROOM:
            self.columns = with_more_sharers(self.columns)
            verdict = take_share(self.columns.kernel, job, share.node, devices, amounts, share.parts, now)
        return verdict

    def undo(self, job: int, shares: Sequence[Share]) -> None:
        """Give back shares that have just been taken, as if they had not been."""
        for share in reversed(shares):
            leader = min(share.devices)
            fresh = self.columns.group[at.JOBS, leader] == 1
            drop_share(self.columns.kernel, job, leader, amounts_of(self.columns, share), True)
            self.columns.counter[0] -= fresh

    def end_us(self, job: int, expected_us: int, now: int) -> int:
        """Set the clock of a job after its shares are taken; its expected end, µs."""
        return first_end(self.columns.kernel, job, expected_us, now)

    def follow(self, shares: tuple[Share, ...], but: int, now: int, running: Ints, count: int) -> None:
        """Bring the speeds of all jobs that share with these up to date."""
        groups = self.columns.group
        for share in shares:
            leader = min(share.devices)
            if groups[at.MODEL, leader] >= 0 and groups[at.JOBS, leader] > (but >= 0):
                follow(self.columns.kernel, leader, but, now, running, count)

    def give(self, job: int, shares: tuple[Share, ...], now: int) -> None:
        """Give back all shares of a job."""
        for share in reversed(shares):
            leader = min(share.devices)
            wait = drop_share(self.columns.kernel, job, leader, amounts_of(self.columns, share), False)
            if wait:
                self.leaving.append(Leaving(share.devices, now + wait))
                self.detaching.update(dict.fromkeys(share.devices, now + wait))

    def detached(self, devices: tuple[int, ...]) -> None:
        """Devices that have been detached are free, once they are in service.

        A RefusedError if one of them is free or in use.
        """
        states = [int(self.columns.device[at.GROUP, d]) for d in devices]
        for device, state in zip(devices, states, strict=True):
            if state not in (at.LEAVING, at.LEAVING_OFFLINE):
                raise RefusedError(f"device {device} is not being detached")
        for device, state in zip(devices, states, strict=True):
            self.detaching.pop(device, None)
            if state == at.LEAVING:
                self._set(device, at.FREE, 1)
            else:
                self._set(device, at.OFFLINE, 0)

    def set_online(self, node: int, online: bool) -> None:
        """The devices at home on a node go out of service with it, or come back; their detaching goes on meanwhile."""
        for device in self.at_home(node):
            state = int(self.columns.device[at.GROUP, device])
            if online:
                self._set(device, at.FREE if state == at.OFFLINE else at.LEAVING, int(state == at.OFFLINE))
            else:
                self._set(device, at.OFFLINE if state == at.FREE else at.LEAVING_OFFLINE, -int(state == at.FREE))

    # --- reading ------------------------------------------------------------------------------------------------

    def left_us(self, job: int, now: int) -> int:
        """The work that is expected to be left of a running job that holds devices, µs at speed 1."""
        left, pace = float(self.columns.progress[at.LEFT, job]), float(self.columns.progress[at.PACE, job])
        done = max(0, now - int(self.columns.clock[at.SINCE_US, job])) * pace
        return max(0, ceil(left - done))

    def begins_us(self, job: int, now: int) -> int:
        """When a job that has just started begins to work: not before its devices are attached."""
        return max(now, int(self.columns.clock[at.SINCE_US, job])) if self.asking[job] else now

    def groups(self, lease: Lease) -> tuple[int, ...]:
        """The number, its own in the run, of the composition or split device behind each share of a running lease."""
        return tuple(int(self.columns.group[at.SERIAL, min(share.devices)]) for share in lease.shares)

    def at_home(self, node: int) -> list[int]:
        """The devices that sit in a node."""
        return np.flatnonzero(self.columns.device[at.HOME] == node).tolist()

    def busy_at(self, node: int) -> bool:
        """Whether a device that sits in the node is in use."""
        return any(self.columns.device[at.GROUP, device] >= 0 for device in self.at_home(node))

    # --- inside -------------------------------------------------------------------------------------------------

    def _set(self, device: int, state: int, free: int) -> None:
        self.columns.device[at.GROUP, device] = state
        self.columns.pool[at.FREE_COUNT, self.columns.device[at.POOL, device]] += free

    def check_held(self, lease: Lease, what: str) -> None:
        """Every task must hold, on its node, what it asks of every kind; ``what`` would be done with the lease.

        A RefusedError if one does not.
        """
        job, c = lease.job, self.columns
        if len(lease.shares) == 1 and lease.rows.shape[0] == 1 and self._plainly_held(lease):
            return
        first = lease.rows[:, FIRST]
        last = first + lease.rows[:, NODES]
        tasks_on: dict[int, int] = {}
        for node, nodes, tasks in lease.rows[:, [FIRST, NODES, TASKS]].tolist():
            for one in range(node, node + min(nodes, self._nodes)):
                tasks_on[one] = tasks_on.get(one, 0) + tasks
        held: dict[tuple[int, int], Ints] = {}
        for share in lease.shares:
            if not share.devices or not all(0 <= d < c.device.shape[1] for d in share.devices):
                raise RefusedError(f"{what}: {PROBLEMS[-1]} ({share})")
            kind = int(c.device[at.KIND, share.devices[0]])
            if len(share.amounts) != self._names[kind]:
                names = ", ".join(self.devices.quantities[kind])
                raise RefusedError(f"{what}: its lease names the amounts {share.amounts}, wanted {names}")
            if not 0 <= share.node < self._nodes or not ((first <= share.node) & (share.node < last)).any():
                raise RefusedError(f"{what}: its lease attaches devices to node {share.node}, where it is not")
            amounts = amounts_of(self.columns, share)
            held[kind, share.node] = held.get((kind, share.node), 0) + amounts
        for kind in np.flatnonzero(c.needs[:, job]).tolist():
            for node, tasks in tasks_on.items():
                if (held.get((kind, node), np.zeros(1, np.int64)) < tasks * c.wants[kind, :, job]).any():
                    raise RefusedError(f"{what}: {PROBLEMS[-11]} ({self.devices.kinds[kind]}, node {node})")

    def _plainly_held(self, lease: Lease) -> bool:
        """Whether one task on one node holds, with one share, the one kind that it asks for: the usual case."""
        share, (node, nodes, tasks, _, _) = lease.shares[0], lease.rows[0].tolist()
        if nodes != 1 or tasks != 1 or share.node != node or not 0 <= node < self._nodes:
            return False
        if not share.devices or not 0 <= share.devices[0] < len(self._kind):
            return False
        kind = self._kind[share.devices[0]]
        if self._asks[lease.job] != 1 << kind or len(share.amounts) != self._names[kind]:
            return False
        wants = self.columns.wants[kind, :, lease.job].tolist()
        return all(map(ge, share.amounts, wants))
