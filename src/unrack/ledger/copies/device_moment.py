"""The pooled devices as they will be at a moment, as jobs that hold some end and start as booked."""

from __future__ import annotations

from unrack.errors import RefusedError
from unrack.ledger.copies.draft import copied_devices
from unrack.ledger.devices.columns import FREE, FREE_COUNT, GROUP, LEAVING, MODEL, POOL
from unrack.ledger.devices.sharing import TAKEN
from unrack.ledger.devices.state import DeviceState
from unrack.ledger.lease import NO_ROWS, Lease, Share

Shares = tuple[Share, ...]
CLOSED = -2
"""The model of a group that nobody may join; no job has it."""


class DeviceMoment:
    """A private copy of the devices, at a time.

    Jobs on it may not slow each other down: each ends when it was to end as it started.

    Parameters
    ----------
    devices
        Is copied.
    now
        The time, µs.
    ends
        Running job to its booked end, µs, and its shares.
    """

    def __init__(self, devices: DeviceState, now: int, ends: dict[int, tuple[int, Shares]]) -> None:
        self.devices, self.now, self.ends = copied_devices(devices), now, dict(ends)

    def copy(self) -> DeviceMoment:
        """Another of the same."""
        return DeviceMoment(self.devices, self.now, self.ends)

    def start(self, job: int, shares: Shares, expected_us: int) -> int:
        """Start a job; its booked end, µs; -1: its devices are not free, and nothing has changed."""
        self.devices.trusts = True
        try:
            self.devices.take(Lease(job, NO_ROWS, shares=shares), self.now)
        except RefusedError:
            return -1
        end = self.devices.end_us(job, expected_us, self.now)
        self.ends[job] = end, shares
        return end

    def hold(self, job: int, shares: Shares) -> None:
        """Take shares that will be held later, as if they were from now on; devices that are not free are closed."""
        for share in shares:
            if self.devices.try_share(job, share, self.now) != TAKEN:
                for device in share.devices:
                    self._close(device)

    def next_end_us(self) -> int | None:
        """When a job ends next, or a device is detached, µs; it may have passed."""
        ends = [end for end, _ in self.ends.values()]
        return min((*ends, *self.devices.detaching.values()), default=None)

    def move_on(self, until: int) -> None:
        """Let everything end that is booked to end by ``until`` (µs); what is overdue ends 1 µs from now."""
        while (first := self.next_end_us()) is not None and max(first, self.now + 1) <= until:
            self.now = max(first, self.now + 1)
            self.settle()
        self.now = until

    def settle(self, overdue: bool = True) -> bool:
        """Let everything end that is booked to end by now, or just now if not ``overdue``; whether anything is."""
        over = sorted(
            (end, job) for job, (end, _) in self.ends.items() if end == self.now or (overdue and end < self.now)
        )
        for _, job in over:
            self.devices.give(job, self.ends.pop(job)[1], self.now)
        done = tuple(device for device, end in self.devices.detaching.items() if end <= self.now)
        self.devices.detached(done)
        self.devices.leaving.clear()
        return bool(over or done)

    def _close(self, device: int) -> None:
        columns = self.devices.columns
        group = int(columns.device[GROUP, device])
        if group >= 0:
            columns.group[MODEL, group] = CLOSED
        elif group == FREE:
            columns.device[GROUP, device] = LEAVING
            columns.pool[FREE_COUNT, columns.device[POOL, device]] -= 1
