"""Pooled devices over time: who holds which of them when, by the booked ends of running jobs and by reservations."""

from __future__ import annotations

from bisect import bisect_right, insort
from typing import NamedTuple

from unrack.ledger.lease import Share
from unrack.units import NEVER_US
from unrack.view import DeviceMoment

Shares = tuple[Share, ...]


class Held(NamedTuple):
    """Shares that are reserved; those that start at one time start in the order of their turns."""

    start_us: int
    turn: int
    job: int
    shares: Shares
    expected_us: int


class Timeline:
    """The devices at every moment to come.

    Parameters
    ----------
    base
        The devices now, before anything that is reserved for now starts.
    """

    def __init__(self, base: DeviceMoment) -> None:
        self.base = base
        self.held: list[Held] = []
        self._turn = 0
        self._times: list[int] = []
        self._moments: list[DeviceMoment] = []

    def add(self, job: int, start_us: int, shares: Shares, expected_us: int) -> None:
        """Reserve."""
        self.restore(self.held_by(job, start_us, shares, expected_us))
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
        for held in self.held[bisect_right(self.held, (after, self._turn)) :]:
            if held.start_us > time:
                break
            started(moment, held)
        moment.move_on(time)
        self._times.insert(place, time)
        self._moments.insert(place, moment)
        return moment

    def least(self, start_us: int, end_us: int) -> DeviceMoment:
        """What may be held from ``start_us`` to ``end_us``, µs, beside all who start meanwhile; not to be changed."""
        moment, others = self.at(start_us), self._between(start_us, end_us)
        if others:
            moment = moment.copy()
        for held in others:
            moment.hold(held.job, held.shares)
        return moment

    def end_us(self, job: int, start_us: int, shares: Shares, expected_us: int) -> int:
        """When a job would end, µs; -1: it cannot start then, or someone could not start as reserved."""
        moment = self.at(start_us).copy()
        end = moment.start(job, shares, expected_us)
        for held in self._between(start_us, end):
            if started(moment, held) < 0:
                return -1
        return end

    def ends_us(self, beside: Held | None = None) -> dict[int, int] | None:
        """When each job that holds devices, or is to, ends, µs; ``None``: someone cannot start as reserved."""
        moment = self.base.copy()
        for held in self.held if beside is None else sorted([*self.held, beside]):
            if started(moment, held) < 0:
                return None
        moment.move_on(NEVER_US)
        return moment.ended

    def lengths_us(self) -> dict[int, int]:
        """For how long each holds what is reserved if nobody slows it down, µs; who cannot start so gives it up: -1."""
        moment, found = self.base.copy(), dict[int, int]()
        for held in self.held:
            end = started(moment, held)
            found[held.job] = -1 if end < 0 else end - held.start_us
        self.held = [held for held in self.held if found[held.job] >= 0]
        return found

    def moments(self) -> list[int]:
        """When devices come free, µs, as jobs end and are then detached from theirs."""
        moment, found = self.base.copy(), list[int]()
        for held in self.held:
            started(moment, held)
        while (end := moment.next_end_us()) is not None:
            moment.move_on(max(end, moment.now + 1))
            found.append(moment.now)
        return found

    def held_by(self, job: int, start_us: int, shares: Shares, expected_us: int) -> Held:
        """What a job would reserve, behind all others who start at that time."""
        return Held(start_us, self._turn, job, shares, expected_us)

    def _between(self, after_us: int, before_us: int) -> list[Held]:
        first = bisect_right(self.held, (after_us, self._turn))
        return [held for held in self.held[first:] if held.start_us < before_us]

    def _forget(self, since_us: int) -> None:
        place = bisect_right(self._times, since_us - 1)
        del self._times[place:], self._moments[place:]


def started(moment: DeviceMoment, held: Held) -> int:
    """Move on to the start of what is reserved, and start it: its booked end, µs; -1: that is not possible."""
    moment.move_on(held.start_us)
    return moment.start(held.job, held.shares, held.expected_us)
