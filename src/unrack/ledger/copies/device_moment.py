"""The pooled devices as they will be at a moment, as jobs that hold some end and start as booked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from unrack.kernels.arrays import Ints
from unrack.ledger.copies.draft import copied_devices
from unrack.ledger.devices.columns import JOBS, MODEL, Columns
from unrack.ledger.devices.playing import (
    BEGAN,
    CLOSED,
    ENDED,
    FIRST,
    JOB,
    LAST,
    NOW,
    RUNNING,
    Bookings,
    Play,
    hold_all,
    move_on,
    next_us,
    settle,
    start_all,
)
from unrack.ledger.devices.reader import with_more_sharers
from unrack.ledger.devices.state import DeviceState
from unrack.ledger.growing import grown, grown_rows
from unrack.ledger.lease import Share

Shares = tuple[Share, ...]
Booking = tuple[int, int, int, Shares]
"""A job, when it starts (µs), for how long it works at speed 1 (µs), and what it holds."""


class Booked:
    """Leases of devices that are held or reserved, each with a number.

    Parameters
    ----------
    quantities
        How many quantities a kind of devices has at most.
    """

    def __init__(self, quantities: int) -> None:
        rows = ((64, 5), (64, 5), (64, quantities), (64,))
        self._all, self._used = Bookings(*(np.zeros(shape, np.int64) for shape in rows)), (0, 0, 0, 0)
        self._nothing = (0,) * quantities

    def add(self, *leases: Booking) -> int:
        """Take in leases; the number of the first."""
        number, share, _, device = self._used
        made, shares, amounts = list[tuple[int, ...]](), list[tuple[int, ...]](), list[tuple[int, ...]]()
        devices = list[int]()
        for job, start_us, expected_us, those in leases:
            first = share + len(shares)
            for held in those:
                at = device + len(devices)
                devices += held.devices
                shares.append((job, held.node, held.parts, at, at + len(held.devices)))
                amounts.append((*held.amounts, *self._nothing[len(held.amounts) :]))
            made.append((job, start_us, expected_us, first, share + len(shares)))
        self._used = number + len(made), share + len(shares), share + len(shares), device + len(devices)
        self._all = Bookings(*map(grown_rows, self._all, self._used))
        new: tuple[list[Any], ...] = made, shares, amounts, devices
        for column, used, rows in zip(self._all, self._used, new, strict=True):
            if rows:
                column[used - len(rows) : used] = rows
        return number

    @property
    def columns(self) -> Bookings:
        """All of them, for kernels."""
        return Bookings(*(column[:used] for column, used in zip(self._all, self._used, strict=True)))


class DeviceMoment:
    """A private copy of the devices, at a time.

    Parameters
    ----------
    devices
        Is copied.
    now
        The time, µs.
    held
        Running job to its booked end, µs, and its shares.

    Attributes
    ----------
    booked
        Leases that may be started; those that are held are the first.
    """

    def __init__(self, devices: DeviceState, now: int, held: dict[int, tuple[int, Shares]]) -> None:
        self.devices, self.booked = copied_devices(devices), Booked(devices.columns.capacity.shape[0])
        self.booked.add(*((job, now, 0, shares) for job, (_, shares) in held.items()))
        runs = sorted((end, job, number) for number, (job, (end, _)) in enumerate(held.items()))
        running = np.zeros((3, len(runs) + 16), np.int64)
        running[:, : len(runs)] = np.array(runs, np.int64).reshape(-1, 3).T
        leaving = np.zeros(len(devices.devices), np.int64)
        leaving[list(devices.detaching)] = list(devices.detaching.values())
        self._play = Play(running, np.full((2, len(runs)), -1, np.int64), leaving, np.array([now, len(runs)]))

    def copy(self) -> DeviceMoment:
        """Another of the same, with the same leases."""
        twin = object.__new__(DeviceMoment)
        twin.devices, twin.booked = copied_devices(self.devices), self.booked
        twin._play = Play(*(column.copy() for column in self._play))
        return twin

    @property
    def now(self) -> int:
        """The time, µs."""
        return int(self._play.mark[NOW])

    def start(self, leases: Sequence[int], stay: bool = True) -> None:
        """Move on to the start of each lease, and start it if its devices are free.

        ``stay`` false: they would start now, where speeds do not depend on who shares, and nothing changes.
        """
        play, most = self._play, 1 + max(leases, default=-1)
        room = int(play.mark[RUNNING]) + len(leases)
        self._play = play._replace(
            running=play.running if room <= play.running.shape[1] else grown(play.running, 2 * room),
            done=play.done if most <= play.done.shape[1] else grown(play.done, 2 * most, -1),
        )
        self._each(leases, lambda c, b, some: start_all(c, b, self._play, some, stay))

    def end_us(self, lease: int) -> int:
        """When a lease that was to start was booked to end as it started, µs; -1: its devices were not free."""
        return int(self._play.done[BEGAN, lease])

    def hold(self, leases: Sequence[int], close: bool = False) -> None:
        """Take what will be held later, as if from now on; devices that are not free are closed, or all (``close``)."""
        spans = self.booked.columns.lease[list(leases)][:, [FIRST, LAST]].tolist()
        shares = [s for first, last in spans for s in range(first, last)]
        self._each(shares, lambda c, b, some: hold_all(c, b, self.now, some, close))

    def close(self) -> None:
        """Nobody may join those who hold devices."""
        group = self.devices.columns.group
        group[MODEL, group[JOBS] > 0] = CLOSED

    def move_on(self, until: int) -> None:
        """Let everything end that is booked to end by ``until`` (µs); what is overdue ends 1 µs from now."""
        move_on(self.devices.columns.kernel, self.booked.columns, self._play, until)

    def settle(self, overdue: bool = True) -> None:
        """Let everything end that is booked to end by now, or just now if not ``overdue``."""
        settle(self.devices.columns.kernel, self.booked.columns, self._play, overdue)

    def next_end_us(self) -> int:
        """When a job ends next, or a device is detached, µs; it may have passed. ``NEVER_US``: never."""
        return next_us(self._play)

    def ended(self) -> dict[int, int]:
        """When the jobs ended that have ended since the first moment, µs."""
        done = self._play.done[ENDED]
        over = np.flatnonzero(done >= 0)
        jobs = self.booked.columns.lease[over, JOB]
        order = np.lexsort((jobs, done[over]))
        return dict(zip(jobs[order].tolist(), done[over][order].tolist(), strict=True))

    def shown(self) -> DeviceState:
        """The devices for a view."""
        leaving = self._play.leaving
        found = np.flatnonzero(leaving)
        self.devices.detaching = dict(zip(found.tolist(), leaving[found].tolist(), strict=True))
        return self.devices

    def _each(self, numbers: Sequence[int], what: Callable[[Columns, Bookings, Ints], int]) -> None:
        """Do something with each, with as much room for sharers as that takes."""
        left, booked = np.array(numbers, np.int64), self.booked.columns
        while len(left):
            left = left[what(self.devices.columns.kernel, booked, left) :]
            if len(left):
                self.devices.columns = with_more_sharers(self.devices.columns)
