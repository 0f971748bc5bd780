"""What may be read of the devices that jobs hold, and drafts: private copies on which a policy tries things out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from unrack.cluster.pools.pool import Devices
from unrack.kernels.arrays import Ints
from unrack.ledger.devices.columns import CHANGING, GROUP, HELD, JOBS, NEXT, Columns
from unrack.ledger.devices.sharing import ROOM, take_share
from unrack.ledger.lease import Share
from unrack.sealed import sealed, sealed_columns, shown

if TYPE_CHECKING:
    from unrack.ledger.devices.state import DeviceState


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
            own: dict[str, Any] = {name: shown(getattr(state.columns, name)) for name in CHANGING}
            self._sealed = like.columns._replace(**own)

    @property
    def columns(self) -> Columns:
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
        return max(int(self._state.columns.device[GROUP, device]), -1)

    def draft(self, job: int, shares: int = 1) -> DeviceDraft:
        """A copy on which one job may try what it could hold; ``shares``: how many it may be, more are possible."""
        return DeviceDraft(self, self._state.columns, job, shares)


class DeviceDraft:
    """What the ledger would say of devices if a job held some more; the ledger itself does not change.

    O(devices x sharers) to make: columns by job are not copied.
    """

    def __init__(self, reader: DeviceReader, ledger: Columns, job: int, shares: int) -> None:
        self.job = job
        self._reader = reader
        room = max(len(reader.devices.kinds), shares, 1)
        own: dict[str, Any] = {name: np.full((room, 1), -1, np.int64) for name in ("job_group", "job_node")}
        copied: dict[str, Any] = {name: getattr(ledger, name).copy() for name in (*HELD, "counter")}
        self._columns = ledger._replace(**copied, **own)
        self._seal()

    def _seal(self) -> None:
        held: dict[str, Any] = {name: sealed(getattr(self._columns, name)) for name in HELD}
        self.columns: Columns = self._reader.columns._replace(**held)
        """Read-only, for kernels that place; of the job itself they do not say what it holds."""

    def try_share(self, share: Share, now: int) -> int:
        """Take one share: TAKEN, or a key of ``PROBLEMS`` and nothing has changed."""
        verdict = take(self._columns, self.job, 0, share, now)
        if verdict == ROOM:
            self._columns = with_more_sharers(self._columns)
            self._seal()
            verdict = take(self._columns, self.job, 0, share, now)
        return verdict


def take(c: Columns, job: int, at: int, share: Share, now: int) -> int:
    """:func:`take_share` with the amounts of a share."""
    amounts = amounts_of(c, share)
    return take_share(c.kernel, job, at, share.node, np.array(share.devices, np.int64), amounts, share.parts, now)


def amounts_of(c: Columns, share: Share) -> Ints:
    """int64[quantities]: what a share holds; 0 of quantities that its kind does not have."""
    amounts = np.zeros(c.capacity.shape[0], np.int64)
    amounts[: len(share.amounts)] = share.amounts
    return amounts


def with_more_sharers(c: Columns) -> Columns:
    """Room for more jobs on a group, and for more shares of a job."""
    return c._replace(
        sharer=np.concatenate([c.sharer, np.full_like(c.sharer, -1)]),
        job_group=np.concatenate([c.job_group, np.full_like(c.job_group, -1)]),
        job_node=np.concatenate([c.job_node, np.full_like(c.job_node, -1)]),
        job_speed=np.concatenate([c.job_speed, np.ones_like(c.job_speed)]),
    )


def members(c: Columns, group: int) -> tuple[int, ...]:
    """The devices of a group, ascending."""
    found = [group]
    while c.device[NEXT, found[-1]] >= 0:
        found.append(int(c.device[NEXT, found[-1]]))
    return tuple(found)


def sharers(c: Columns, group: int) -> Ints:
    """int64[k]: the jobs on a group, in order of joining."""
    return c.sharer[: c.group[JOBS, group], group].copy()
