"""Pooled devices over time: who holds which of them when, by the booked ends of running jobs and by reservations."""

from __future__ import annotations

from bisect import bisect_right, insort
from typing import NamedTuple

from unrack.units import NEVER_US
from unrack.view import Booking, DeviceMoment


class Held(NamedTuple):
    """Devices that are reserved; those that start at one time start in the order of their turns."""

    start_us: int
    turn: int
    job: int
    lease: int  # its number among all that are booked


class Timeline:
    """The devices at every moment to come.

    Parameters
    ----------
    base
        The devices now, before anything that is reserved for now starts.
    """

    def __init__(self, base: DeviceMoment) -> None:
        self.base, self._detach_us = base, base.devices.devices.detach_us
        self.held: list[Held] = []
        self._turn = 0
        self._times: list[int] = []
        self._moments: list[DeviceMoment] = []

    def add(self, *leases: Booking) -> None:
        """Reserve, in order of start."""
        first = self.base.booked.add(*leases)
        for lease, (job, start_us, *_) in enumerate(leases, first):
            self.restore(Held(start_us, self._turn, job, lease))
            self._turn += 1

    def remove(self, job: int) -> Held | None:
        """Give up what is reserved for a job; what it was, or ``None``."""
        found = next((held for held in self.held if held.job == job), None)
        if found is not None:
            self.held.remove(found)
            self._forget(found.start_us)
        return found

    def restore(self, held: Held) -> None:
        """Reserve again what was given up."""
        insort(self.held, held)
        self._forget(held.start_us)

    def at(self, time: int) -> DeviceMoment:
        """The devices at a time, µs, when all that ends and starts then has done so; not to be changed."""
        place = bisect_right(self._times, time)
        if place and self._times[place - 1] == time:
            return self._moments[place - 1]
        after = self._times[place - 1] if place else self.base.now - 1
        moment = (self._moments[place - 1] if place else self.base).copy()
        later = self.held[bisect_right(self.held, (after, self._turn)) :]
        start(moment, [held for held in later if held.start_us <= time])
        moment.move_on(time)
        self._times.insert(place, time)
        self._moments.insert(place, moment)
        return moment

    def least(self, start_us: int, end_us: int) -> DeviceMoment:
        """What may be held from ``start_us`` to ``end_us``, µs, beside all who start meanwhile; not to be changed.

        Where devices stay held after their job for a while, these hold theirs until then, and nobody relies on joining
        others later: if they ended early, the devices would just be detached when they are needed.
        """
        moment, detach_us = self.at(start_us), self._detach_us
        others = self._between(start_us, end_us + detach_us)
        later = detach_us > 0 and start_us > self.base.now
        if others or later:
            moment = moment.copy()
            moment.hold([held.lease for held in others], close=detach_us > 0)
        if later:
            moment.close()
        return moment

    def end_us(self, held: Held, expected_us: int) -> int:
        """When a job ends, where speeds do not depend on who shares, µs; -1: someone could not start as reserved.

        Parameters
        ----------
        held, expected_us
            On devices that were free beside all who start as long as that (:meth:`least`): it is not in their way.
        """
        moment = self.at(held.start_us)
        moment.start([held.lease], stay=False)
        end = moment.end_us(held.lease)
        free_us = end + self._detach_us
        if self._between(held.start_us + expected_us + self._detach_us - 1, free_us):
            return end if start(moment.copy(), [held, *self._between(held.start_us, free_us)]) else -1
        return end

    def ends_us(self, beside: Held | None = None) -> dict[int, int] | None:
        """When each job that holds devices, or is to, ends, µs; ``None``: someone cannot start as reserved."""
        moment = self.base.copy()
        if not start(moment, self.held if beside is None else sorted([*self.held, beside])):
            return None
        moment.move_on(NEVER_US)
        return moment.ended()

    def lengths_us(self) -> dict[int, int]:
        """For how long each holds what is reserved if nobody slows it down, µs; who cannot start so gives it up: -1."""
        moment = self.base.copy()
        start(moment, self.held)
        ends = {held: moment.end_us(held.lease) for held in self.held}
        self.held = [held for held in self.held if ends[held] >= 0]
        return {held.job: -1 if end < 0 else end - held.start_us for held, end in ends.items()}

    def moments(self) -> list[int]:
        """When devices come free, µs, as jobs end and are then detached from theirs."""
        moment, found = self.base.copy(), list[int]()
        start(moment, self.held)
        while (end := moment.next_end_us()) < NEVER_US:
            moment.move_on(max(end, moment.now + 1))
            found.append(moment.now)
        return found

    def held_by(self, lease: Booking) -> Held:
        """What a job would reserve, behind all others who start at that time."""
        return Held(lease[1], self._turn, lease[0], self.base.booked.add(lease))

    def _between(self, after_us: int, before_us: int) -> list[Held]:
        first = bisect_right(self.held, (after_us, self._turn))
        return [held for held in self.held[first:] if held.start_us < before_us]

    def _forget(self, since_us: int) -> None:
        place = bisect_right(self._times, since_us - 1)
        del self._times[place:], self._moments[place:]


def start(moment: DeviceMoment, reserved: list[Held]) -> bool:
    """Move on to the start of each, in order, and start it; False: one of them cannot start so."""
    moment.start([held.lease for held in reserved])
    return all(moment.end_us(held.lease) >= 0 for held in reserved)
