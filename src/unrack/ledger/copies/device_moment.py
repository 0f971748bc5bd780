"""The pooled devices as they will be at a moment, as jobs that hold some end and start as booked."""

from __future__ import annotations

import numpy as np

from unrack.errors import RefusedError
from unrack.ledger.copies.draft import copied_devices
from unrack.ledger.devices.columns import END_US, FREE, FREE_COUNT, GROUP, JOBS, LEAVING, MODEL, POOL
from unrack.ledger.devices.sharing import TAKEN
from unrack.ledger.devices.state import DeviceState
from unrack.ledger.lease import NO_ROWS, Lease, Share

Shares = tuple[Share, ...]
CLOSED = -2
"""The model of a group that nobody may join; no job has it."""


class DeviceMoment:
    """A private copy of the devices, at a time.

    Parameters
    ----------
    devices
        Is copied.
    now
        The time, µs.
    ends
        Running job to its booked end, µs, and its shares.

    Attributes
    ----------
    ended
        When the jobs ended that have ended since, µs.
    """

    def __init__(self, devices: DeviceState, now: int, ends: dict[int, tuple[int, Shares]]) -> None:
        self.devices, self.now, self.ends = copied_devices(devices), now, dict(ends)
        self.ended: dict[int, int] = {}

    def copy(self) -> DeviceMoment:
        """Another of the same."""
        twin = DeviceMoment(self.devices, self.now, self.ends)
        twin.ended = dict(self.ended)
        return twin

    def start(self, job: int, shares: Shares, expected_us: int) -> int:
        """Start a job; its booked end, µs; -1: its devices are not free, and nothing has changed."""
        self.devices.trusts = True
        try:
            self.devices.take(Lease(job, NO_ROWS, shares=shares), self.now)
        except RefusedError:
            return -1
        end = self.devices.end_us(job, expected_us, self.now)
        self.ends[job] = end, shares
        self._follow(shares, job)
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

    def settle(self, overdue: bool = True) -> None:
        """Let everything end that is booked to end by now, or just now if not ``overdue``."""
        over = sorted(
            (end, job) for job, (end, _) in self.ends.items() if end == self.now or (overdue and end < self.now)
        )
        for _, job in over:
            shares = self.ends.pop(job)[1]
            self.ended[job] = self.now
            self.devices.give(job, shares, self.now)
            self._follow(shares, -1)
        done = tuple(device for device, end in self.devices.detaching.items() if end <= self.now)
        self.devices.detached(done)
        self.devices.leaving.clear()

    def _follow(self, shares: Shares, but: int) -> None:
        """Those who share with these go on at other speeds, and end at other times."""
        columns = self.devices.columns
        groups = columns.group[:, [min(share.devices) for share in shares]]
        if not ((groups[JOBS] > 0) & (groups[MODEL] >= 0)).any():
            return
        booked = np.array(sorted((end, job) for job, (end, _) in self.ends.items()), np.int64).reshape(-1, 2)
        self.devices.follow(shares, but, self.now, np.ascontiguousarray(booked.T), len(booked))
        self.ends = {job: (int(columns.clock[END_US, job]), held) for job, (_, held) in self.ends.items()}

    def _close(self, device: int) -> None:
        columns = self.devices.columns
        group = int(columns.device[GROUP, device])
        if group >= 0:
            columns.group[MODEL, group] = CLOSED
        elif group == FREE:
            columns.device[GROUP, device] = LEAVING
            columns.pool[FREE_COUNT, columns.device[POOL, device]] -= 1
