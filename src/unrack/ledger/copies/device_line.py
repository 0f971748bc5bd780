"""The pooled devices at times to come, as jobs that hold some end, and as reservations begin and end as booked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from operator import attrgetter
from typing import Any

import numpy as np

from unrack.kernels.arrays import Ints
from unrack.ledger.columns import ENDS_US, OF_JOB, grown, grown_rows
from unrack.ledger.devices import playing as at
from unrack.ledger.devices.columns import BY_JOB, CHANGING, KIND, DeviceColumns
from unrack.ledger.devices.columns import HELD as HELD_BY_DEVICE
from unrack.ledger.devices.line_kernel import (
    ASKED,
    DETACH_US,
    HELD,
    NOT_BEGUN,
    RIGHT,
    START,
    TURNS,
    DeviceTimeline,
    Upcoming,
    give_up,
    least,
    reserve,
    reserve_all,
    start_all,
    take_over,
    would_end,
)
from unrack.ledger.devices.playing import Bookings, Play, move_on, next_us, settle, start_one
from unrack.ledger.devices.sharing import ROOM, TAKEN
from unrack.ledger.devices.state import DeviceReader, DeviceState, with_more_sharers
from unrack.ledger.devices.view import DeviceView
from unrack.ledger.lease import Share
from unrack.units import NEVER_US

Shares = tuple[Share, ...]
Booking = tuple[int, int, int, Shares]
"""A job, when it starts (µs), for how long it works at speed 1 (µs), and what it holds."""
BASE, HERE, OTHER = range(3)
"""Which columns, of those that are its own."""
SPARE = 64
"""Room for further leases."""


class DeviceLine:
    """The pooled devices over time, by the booked ends of running jobs and by reservations.

    ``devices``: those of the ledger, which do not change.

    Attributes
    ----------
    shown, view
        The devices that were asked about last (:meth:`least`), for placements.
    columns
        All of it, for kernels.
    """

    def __init__(self, devices: DeviceState) -> None:
        self._source, self._like = devices.columns, devices
        count, quantities = len(devices.devices), devices.columns.capacity.shape[0]
        self.shown = copy(devices)
        self.shown.leaving = []
        self._own = [_cleared(devices.columns) for _ in range(3)]
        self.shown.columns = self._own[OTHER]
        self.shown.reader = DeviceReader(self.shown, devices.reader)
        self.view = DeviceView(self.shown.reader)
        shapes = (3, 0), (2, 0), (count,), (3,)
        self._plays = [Play._make(np.zeros(shape, np.int64) for shape in shapes) for _ in range(3)]
        self._runs = np.zeros((3, 0), np.int64)  # booked end (µs), job and lease of those that hold devices now
        rows = ((0, 5), (0, 5), (0, quantities), (0,))
        self._booked = Bookings._make([np.zeros(shape, np.int64) for shape in (*rows, (3,))])
        jobs = devices.columns.wants.shape[2]
        self._held = Upcoming(np.zeros((3, 0), np.int64), np.zeros(10, np.int64), np.full(jobs, -1, np.int64))
        self._held.mark[DETACH_US] = devices.devices.detach_us
        self._known: dict[int, tuple[Shares, int]] = {}  # by job: its shares and the number of its lease
        self._running = np.full((2, jobs), -1)  # by job: how many leases it had taken with the one held, and its number
        self._span = 0, 0  # from which job on the columns of now say what jobs hold, and up to which
        self._together()

    def __deepcopy__(self, memo: Any) -> DeviceLine:
        """Itself: nothing of it is needed after the round that it began with."""
        return self

    def serves(self, devices: DeviceState) -> bool:
        """Whether it is of these devices, with as much room as they have."""
        return devices is self._like and devices.columns is self._source

    def begin(self, now: int, running: Ints, shares_of: Callable[[int], Shares], trust: bool) -> None:
        """Take over the devices as they are now, µs.

        ``running``: int64[2, k], as the ledger has it; ``shares_of``: what one of these jobs holds; ``trust``: whether
        jobs that are booked to end just now have ended.
        """
        if self._booked.used[at.LEASES] > 2 * (self._runs.shape[1] + self._held.mark[HELD]) + SPARE:
            self._booked.used[:], self._known, self._running[0] = 0, {}, -1
        some = running[:, np.frombuffer(self._like.asking, np.bool_)[running[OF_JOB]]]
        held = some[:, self._source.job_group[0, some[OF_JOB]] >= 0]  # of others a copy says nothing
        (taken, number), jobs = self._running, held[OF_JOB]
        for job in jobs[taken[jobs] != self._like.taken[jobs]].tolist():
            taken[job], number[job] = self._like.taken[job], self._number_of(job, shares_of(job))
        self._runs = np.stack([*held, number[jobs]])
        self.more_room(0, 0, 0)
        self._as_now(now)
        self._held.mark[[HELD, RIGHT, TURNS]], self._held.mark[ASKED] = 0, -1
        self._held.made[:] = -1
        self._settled = trust and bool(self._like.detaching or (len(jobs) and held[ENDS_US, 0] <= now))
        if self._settled:  # what is to end now has ended in the columns of now
            settle(self._own[BASE].kernel, self._booked.kernel, self._plays[BASE].kernel, False)

    def _as_now(self, now: int) -> None:
        """Let the columns of now be those of the ledger, which may not be written meanwhile."""
        own, play, (first, last) = self._own[BASE], self._plays[BASE], self._span
        own.job_group[:, first:last], own.job_node[:, first:last] = -1, -1
        for mine, column in self._followed:
            mine[:] = column
        jobs: list[int] = self._runs[OF_JOB].tolist()
        self._span = first, last = (min(jobs), max(jobs) + 1) if jobs else (0, 0)
        for mine, column in self._followed_by_job:
            mine[:, first:last] = column[:, first:last]
        play.running[:, : len(jobs)] = self._runs
        play.leaving[:], play.done[:] = 0, -1
        if self._like.detaching:
            play.leaving[[*self._like.detaching]] = [*self._like.detaching.values()]
        play.mark[:] = now, len(jobs), 0 if self._held.mark[DETACH_US] or self._like.detaching else -1

    def rest(self) -> None:
        """Say that it is of before, and begins anew when it is asked."""
        self._held.mark[ASKED] = NOT_BEGUN

    @property
    def rests(self) -> bool:
        """Whether it has not begun anew since."""
        return bool(self._held.mark[ASKED] == NOT_BEGUN)

    def numbers_of(self, leases: Sequence[Booking]) -> Ints:
        """int64[k]: the numbers of leases, which may then be started or reserved."""
        numbers = np.array([self._number_of(job, shares) for job, _, _, shares in leases], np.int64)
        times = np.array([lease[1:3] for lease in leases], np.int64).reshape(-1, 2)
        self._booked.lease[numbers, at.START_US : at.EXPECTED_US + 1] = times
        return numbers

    def _number_of(self, job: int, shares: Shares) -> int:
        known = self._known.get(job)
        if known is not None and known[0] is shares:
            return known[1]
        number, share, device = self._booked.used.tolist()
        devices = [d for held in shares for d in held.devices]
        self.more_room(1, len(shares), len(devices))
        b = self._booked
        for held in shares:
            end = device + len(held.devices)
            b.device[device:end], b.share[share] = held.devices, (job, held.node, held.parts, device, end)
            b.amount[share] = 0
            b.amount[share, : len(held.amounts)] = held.amounts
            share, device = share + 1, end
        b.lease[number] = job, 0, 0, share - len(shares), share
        b.used[:] = number + 1, share, device
        self._known[job] = shares, number
        return int(number)

    def add(self, *leases: Booking) -> None:
        """Reserve, in order of start."""
        numbers = self.numbers_of(leases)
        self.more_room(len(leases), 0, 0)
        reserve_all(self.columns.kernel, numbers)

    def remove(self, job: int) -> tuple[int, int] | None:
        """Give up what is reserved for a job; what it was (lease and turn), or ``None``."""
        lease, turn = give_up(self.columns.kernel, job)
        return None if lease < 0 else (lease, turn)

    def restore(self, lease: int, turn: int = -1) -> None:
        """Reserve what was given up, or a lease behind all others that start at its time."""
        self.more_room(1, 0, 0)
        reserve(self.columns.kernel, lease, turn)

    def least(self, start_us: int, end_us: int) -> None:
        """Show what may be held from ``start_us`` to ``end_us``, µs, beside all that start meanwhile."""
        self._tried(least, start_us, end_us)
        found = np.flatnonzero(leaving := self._plays[OTHER].leaving)
        self.shown.detaching = dict(zip(found.tolist(), leaving[found].tolist(), strict=True))

    def end_us(self, lease: int) -> int:
        """When a job ends, where sharers do not change speeds, µs; -1: a job could not start as reserved."""
        fits = self._tried(would_end, lease) == TAKEN
        return int(self._plays[HERE].done[at.BEGAN, lease]) if fits else -1

    def ends_us(self, beside: int = -1) -> dict[int, int] | None:
        """When each job that holds devices, or is to, ends, µs; ``None``: a job cannot start as reserved."""
        if self._tried(start_all, beside, True) != TAKEN:
            return None
        move_on(*self._asked, NEVER_US)
        done = self._plays[OTHER].done[at.ENDED]
        over = np.flatnonzero(done >= 0)
        jobs = self._booked.lease[over, at.JOB]
        order = np.lexsort((jobs, done[over]))
        return dict(zip(jobs[order].tolist(), done[over][order].tolist(), strict=True))

    def lengths_us(self) -> tuple[Ints, Ints]:
        """int64[k] each: jobs that reserved something, and for how long it is held if not slowed down, µs.

        A job that cannot start so gives it up: -1.
        """
        self._tried(start_all, -1, False)
        start_us, lease = self._held.held[[START, at.LEASE], : self._held.mark[HELD]]
        jobs, ends = self._booked.lease[lease, at.JOB], self._plays[OTHER].done[at.BEGAN, lease]
        for job in jobs[ends < 0].tolist():
            self.remove(job)
        return jobs, np.where(ends < 0, -1, ends - start_us)

    def moments(self) -> list[int]:
        """When devices come free, µs, as jobs end and are then detached from theirs."""
        self._tried(start_all, -1, False)
        play, found = self._plays[OTHER], list[int]()
        while (end := int(next_us(play.kernel))) < NEVER_US:
            move_on(*self._asked, max(end, int(play.mark[at.NOW]) + 1))
            found.append(int(play.mark[at.NOW]))
        return found

    def begin_starts(self) -> None:
        """From now on ask whether leases may start (:meth:`starts`), on devices that are free now."""
        if self._settled:
            self._as_now(int(self._plays[BASE].mark[at.NOW]))
        take_over(self._own[BASE].kernel, self._plays[BASE].kernel, *self._asked[::2])

    def starts(self, lease: int) -> bool:
        """Whether the devices of a lease are free now, beside those of leases that were asked about before."""
        self.more_room(int(self._plays[OTHER].mark[at.RUNNING]) + 1, 0, 0)
        while (verdict := start_one(*self._asked, lease, True)) == ROOM:
            self.more_sharers()
        return bool(verdict == TAKEN)

    # --- inside -------------------------------------------------------------------------------------------------

    @property
    def _asked(self) -> tuple[Any, Any, Any]:
        return self._own[OTHER].kernel, self._booked.kernel, self._plays[OTHER].kernel

    def _tried(self, what: Callable[..., int], *how: Any) -> int:
        """The answer of a kernel, with as much room for sharers as it takes."""
        while (verdict := int(what(self.columns.kernel, *how))) == ROOM:
            self.more_sharers()
        return verdict

    def made(self, jobs: Ints) -> dict[int, Shares]:
        """Job → the devices that a kernel has reserved for it in this round, of these jobs."""
        made, found = self._held.made, dict[int, Shares]()
        for job in jobs[made[jobs] >= 0].tolist():
            number = int(made[job])
            shares = self._shares(number)
            self._known[job] = shares, number
            found[job] = shares
        return found

    def _shares(self, number: int) -> Shares:
        b, found = self._booked, list[Share]()
        names = self._like.devices.quantities
        first, last = b.lease[number, at.FIRST :].tolist()
        for s in range(first, last):
            _, node, parts, device, end = b.share[s].tolist()
            devices = tuple(b.device[device:end].tolist())
            amounts = b.amount[s, : len(names[self._source.device[KIND, devices[0]]])]
            found.append(Share(node, devices, tuple(amounts.tolist()), parts))
        return tuple(found)

    def more(self, sharers: bool) -> None:
        """Make more room: for jobs on one device (``sharers``), or for leases."""
        if sharers:
            self.more_sharers()
        else:
            b = self._booked
            self.more_room(len(b.lease) + SPARE, len(b.share) + SPARE, len(b.device) + SPARE)

    def more_sharers(self) -> None:
        """Make more room for sharers."""
        self._own = [with_more_sharers(columns) for columns in self._own]
        self.shown.columns = self._own[OTHER]
        self._together()

    def more_room(self, leases: int, shares: int, devices: int) -> None:
        """Make room for more leases, shares and devices of these, for their reservations, and for one lease besides."""
        b, (number, share, device) = self._booked, self._booked.used.tolist()
        number, share, device = number + leases, share + shares, device + devices
        runs, room = self._runs.shape[1] + int(self._held.mark[HELD]) + leases + 1, self._plays[BASE].running.shape[1]
        if number <= len(b.lease) and share <= len(b.share) and device <= len(b.device) and runs <= room:
            return
        number, share, device = number + SPARE, share + SPARE, device + SPARE
        self._booked = Bookings._make([*map(grown_rows, b[:4], (number, share, share, device)), b.used])
        room, most = max(room, 2 * runs + SPARE), len(self._booked.lease)
        self._plays = [
            play._replace(running=grown(play.running, room), done=grown(play.done, most, -1)) for play in self._plays
        ]
        self._held = self._held._replace(held=grown(self._held.held, room))
        self._together()

    def _together(self) -> None:
        own = (part.kernel for pair in zip(self._own, self._plays, strict=True) for part in pair)
        self.columns = DeviceTimeline._make([*own, self._booked.kernel, self._held.kernel])
        self._followed, self._followed_by_job = (  # columns of now, and those of the ledger that they follow
            [(mine[: len(of)], of) for mine, of in zip(some(self._own[BASE]), some(self._source), strict=True)]
            for some in (attrgetter(*HELD_BY_DEVICE, "counter"), attrgetter(*BY_JOB))
        )


def _cleared(columns: DeviceColumns) -> DeviceColumns:
    """The same in which nothing is held."""
    own: dict[str, Any] = {name: getattr(columns, name).copy() for name in CHANGING if name != "asked"}
    own["job_group"][:], own["job_node"][:], own["job_speed"][:] = -1, -1, 1
    own["group"][:] = 0
    return columns._replace(**own)
