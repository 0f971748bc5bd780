"""Conservative backfill over processors, written from its description: an event loop that shares nothing with unrack.

A job is given the earliest start that the plan allows when it is submitted. A job that ends before its estimate gives
back the rest of it, and then the waiting jobs are planned again one by one, in order of arrival, each no later than it
was. After an end at the very estimate nothing is planned again. A job starts when it was told that it would.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

NEVER = 2**62


class Ask(NamedTuple):
    """A job: integer times, of which the estimate is at least the run time and at least 1."""

    submit: int
    run: int
    size: int
    estimate: int


class Profile:
    """How many processors are free, from each time to the next."""

    def __init__(self, processors: int) -> None:
        self.processors = processors
        self.at, self.free = [-1], [processors]

    def cut(self, time: int) -> int:
        """The place at which ``time`` begins."""
        place = bisect_left(self.at, time)
        if place == len(self.at) or self.at[place] != time:
            self.at.insert(place, time)
            self.free.insert(place, self.free[place - 1])
        return place

    def add(self, size: int, start: int, end: int) -> None:
        """Give back (or take, below 0) processors for a time."""
        if start < end:
            for place in range(self.cut(start), self.cut(end)):
                self.free[place] += size

    def earliest(self, ask: Ask, now: int) -> int:
        """When the job first fits for as long as it is estimated to run."""
        place, start = bisect_right(self.at, now) - 1, now
        while True:
            ahead = place
            while ahead < len(self.at) and self.at[ahead] < start + ask.estimate:
                if self.free[ahead] < ask.size:
                    break
                ahead += 1
            else:
                return start
            place = ahead + 1
            start = self.at[place]

    def reserve(self, job: int, ask: Ask, now: int) -> int:
        """Reserve at the earliest time; returns it."""
        start = self.earliest(ask, now)
        self.add(-ask.size, start, start + ask.estimate)
        return start

    def give_back(self, job: int, ask: Ask, start: int, since: int) -> None:
        """What a job has reserved is free again from ``since`` on."""
        self.add(ask.size, since, start + ask.estimate)

    def room(self, job: int, size: int, running: Mapping[int, int]) -> bool:
        """Whether a job can start beside those that run, of so many processors each."""
        return size + sum(running.values()) <= self.processors

    def forget(self, now: int) -> None:
        """Drop what is over."""
        place = bisect_right(self.at, now) - 1
        del self.at[:place], self.free[:place]


class Names:
    """Which processors are reserved from when to when; a reservation keeps them as long as it keeps its time."""

    def __init__(self, processors: int) -> None:
        self.taken: list[dict[int, tuple[int, int]]] = [{} for _ in range(processors)]
        self.was: dict[int, tuple[int, list[int]]] = {}

    def free(self, start: int, end: int) -> list[int]:
        """The processors that nobody has meanwhile."""
        return [
            one
            for one, taken in enumerate(self.taken)
            if all(till <= start or since >= end for since, till in taken.values())
        ]

    def reserve(self, job: int, ask: Ask, now: int) -> int:
        """Reserve the first processors that are free for long enough, at the earliest time; returns it."""
        ends = {till for taken in self.taken for _, till in taken.values() if till > now}
        for start in sorted({now, *ends}):
            free = self.free(start, start + ask.estimate)
            if len(free) >= ask.size:
                before = self.was.get(job)
                chosen = before[1] if before is not None and before[0] == start else free[: ask.size]
                self.was[job] = start, chosen
                for one in chosen:
                    self.taken[one][job] = start, start + ask.estimate
                return start
        raise AssertionError("when all is over it fits")

    def give_back(self, job: int, ask: Ask, start: int, since: int) -> None:
        """What a job has reserved is free again from ``since`` on."""
        for taken in self.taken:
            taken.pop(job, None)

    def room(self, job: int, size: int, running: Mapping[int, int]) -> bool:
        """Whether a job can start beside those that run."""
        return all(set(self.was[job][1]).isdisjoint(self.was[other][1]) for other in running)

    def forget(self, now: int) -> None:
        """Nothing is too old."""


def plain_conservative(
    asks: Sequence[Ask], processors: int, *, one_by_one: bool = False, compress: str = "early", named: bool = False
) -> list[int]:
    """When each job starts; the jobs in order of arrival.

    ``one_by_one``: at one time submissions come before ends, and each is dealt with before the next is looked at; else
    all ends come first, then one pass over the queue. ``compress``: "ends" plans again after every end. ``named``: a
    reservation is of certain processors, not of so many.
    """
    profile = Names(processors) if named else Profile(processors)
    planned: dict[int, int] = {}
    running: dict[int, int] = {}
    starts = [-1] * len(asks)
    events = [(ask.submit, 0, job, job) for job, ask in enumerate(asks)]
    events.sort()
    begun = 0

    def place(job: int, now: int) -> None:
        planned[job] = profile.reserve(job, asks[job], now)

    def again(now: int) -> None:
        for job in sorted(planned):
            if planned[job] > now:
                profile.give_back(job, asks[job], planned[job], planned[job])
                place(job, now)

    def ended(job: int, now: int) -> bool:
        profile.give_back(job, asks[job], starts[job], now)
        del running[job]
        return compress == "ends" or now < starts[job] + asks[job].estimate

    def start(now: int) -> None:
        nonlocal begun
        for job in sorted(job for job, at in planned.items() if at == now):
            on = {other: size for other, size in running.items() if starts[other] + asks[other].estimate > now}
            if not profile.room(job, asks[job].size, on):  # until the end of another, at this very time
                continue
            starts[job], running[job], begun = now, asks[job].size, begun + 1
            heappush(events, (now + asks[job].run, 1, begun, job))
            del planned[job]

    while events or planned:
        now = min(events[0][0] if events else NEVER, min(planned.values(), default=NEVER))
        profile.forget(now)
        while one_by_one and events and events[0][0] == now:
            _, kind, _, job = heappop(events)
            if kind == 0:
                place(job, now)
            elif ended(job, now):
                again(now)
            start(now)
        early, new = False, []
        while events and events[0][0] == now:
            _, kind, _, job = heappop(events)
            if kind == 0:
                new.append(job)
            else:
                early = ended(job, now) or early
        if early:
            again(now)
        for job in new:
            place(job, now)
        start(now)
    return starts
