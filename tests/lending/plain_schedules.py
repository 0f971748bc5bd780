"""Whole runs of FCFS, EASY and conservative backfill over the placement of ``plain_lending``, in plain Python.

Nothing slows jobs down. At one time all ends come first, then all submissions, then one round.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import ceil
from typing import NamedTuple

from plain_lending import Ask, Place

NEVER = 2**62
Amounts = list[list[int]]
Placing = Callable[[Amounts, Ask], Place | None]
"""``placing(free, ask)``: by a rule, on a cluster."""


class Task(NamedTuple):
    """A job: what it asks for, and its times, µs."""

    ask: Ask
    submit: int
    run: int
    request: int


class Held(NamedTuple):
    """What a running job holds, and until when it is booked."""

    end: int
    place: Place


class Attempt(NamedTuple):
    """When and where a job ran."""

    start: int
    end: int
    place: Place


def change(free: Amounts, total: Amounts, place: Place, sign: int) -> None:
    """Give back (1) or take (-1) all that a job holds."""
    for node in place.tasks:
        free[0][node] += sign * total[0][node]
    for node, mb in place.uses().items():
        free[1][node] += sign * mb


def has(free: Amounts, total: Amounts, place: Place) -> bool:
    """Whether exactly this is free."""
    return all(free[0][node] == total[0][node] for node in place.tasks) and all(
        free[1][node] >= mb for node, mb in place.uses().items()
    )


@dataclass
class World:
    """The state of a run."""

    total: Amounts
    placing: Placing
    jobs: Sequence[Task]
    free: Amounts
    queue: list[int] = field(default_factory=list)
    running: dict[int, Held] = field(default_factory=dict)
    started: dict[int, Place] = field(default_factory=dict)
    promised: dict[int, int] = field(default_factory=dict)
    early: bool = False
    wake: int = NEVER

    def start(self, job: int, place: Place, now: int) -> None:
        """Start a queued job."""
        assert has(self.free, self.total, place)
        change(self.free, self.total, place, -1)
        self.queue.remove(job)
        self.running[job] = Held(now + self.jobs[job].request, place)
        self.started[job] = place

    def placed(self, free: Amounts, job: int) -> Place | None:
        """Where a job would go if this were free."""
        return self.placing(free, self.jobs[job].ask)


Round = Callable[[World, int], None]


def run(
    total: Amounts,
    jobs: Sequence[Task],
    placing: Placing,
    scheduler: str,
    threshold: float,
    after: Callable[[World, int], None] | None = None,
) -> list[Attempt | None]:
    """What became of each job; ``None``: it has no place even when nothing else runs.

    ``threshold`` is that of the placement, which conservative backfill has to look after itself.
    """
    world = World(total, placing, jobs, [list(row) for row in total])
    decide: Round = {"fcfs": fcfs, "easy": easy, "conservative": Conservative(threshold).decide}[scheduler]
    events: list[tuple[int, int, int]] = [(job.submit, 1, j) for j, job in enumerate(jobs)]
    events.sort()
    attempts: list[Attempt | None] = [None] * len(jobs)
    while events or world.queue:
        now = min(events[0][0], world.wake) if events else world.wake
        assert now < NEVER, "jobs wait for nothing"
        while events and events[0][0] == now:
            _, submitted, job = heappop(events)
            if submitted:
                if world.placed(total, job) is not None:
                    world.queue.append(job)
            else:
                held = world.running.pop(job)
                world.early = world.early or held.end > now or jobs[job].request == 0
                change(world.free, total, held.place, 1)
        world.started.clear()
        decide(world, now)
        for job, place in world.started.items():
            attempts[job] = Attempt(now, now + jobs[job].run, place)
            heappush(events, (now + jobs[job].run, 0, job))
        if after is not None:
            after(world, now)
    assert not world.queue
    return attempts


def fcfs(world: World, now: int) -> None:
    """Start jobs in order until one has no place."""
    while world.queue:
        place = world.placed(world.free, world.queue[0])
        if place is None:
            return
        world.start(world.queue[0], place, now)


def easy(world: World, now: int) -> None:
    """The head has the earliest place that booked ends make; a later job starts if the head still has it then."""
    fcfs(world, now)
    head = world.queue[0] if world.queue else -1
    shadow: tuple[int, Amounts] | None = None
    known = False
    for job in world.queue[1:]:
        place = world.placed(world.free, job)
        if place is None:
            continue
        if not known:
            shadow, known = shadow_of(world, head, now), True
        if shadow is not None and now + world.jobs[job].request > shadow[0]:
            beside = [list(row) for row in shadow[1]]
            change(beside, world.total, place, -1)
            if world.placed(beside, head) is None:
                continue
            shadow = shadow[0], beside
        world.start(job, place, now)


def shadow_of(world: World, head: int, now: int) -> tuple[int, Amounts] | None:
    """When the head has a place by the booked ends of what runs, and what is free then."""
    then = [list(row) for row in world.free]
    for time in sorted({max(held.end, now + 1) for held in world.running.values()}):
        for held in world.running.values():
            if max(held.end, now + 1) == time:
                change(then, world.total, held.place, 1)
        if world.placed(then, head) is not None:
            return time, then
    return None


class Conservative:
    """Every waiting job has a reservation: a time, its nodes, its loans.

    A node that must have memory free to compute lends no more than leaves it so much when a reservation starts there.
    Of those that start at one time, one that borrows of a node starts behind others that then could not compute there.
    """

    def __init__(self, threshold: float) -> None:
        self.kept: dict[int, tuple[int, Place]] = {}
        self.threshold = threshold

    def decide(self, world: World, now: int) -> None:
        """Keep what can stay, find places for the new, move all forward if a job ended early, start who is due."""
        old = {job: kept for job, kept in self.kept.items() if kept[0] >= now}
        self.kept = {}
        for job in world.queue:
            if job in old:
                start, place = old[job]
                if has(self.throughout(world, start, job, now), world.total, place):
                    self.kept[job] = old[job]
        early, world.early = world.early, False
        for job in world.queue:
            before = self.kept.get(job)
            if before is not None and (not early or before[0] == now):
                continue
            self.kept.pop(job, None)
            new = self.earliest(world, job, now)
            if new is None or (before is not None and before[0] <= new[0]):
                new = before
            if new is not None:
                self.kept[job] = new
        again = True
        while again:
            again = False
            for job in list(world.queue):
                if job in self.kept and self.kept[job][0] == now and self.may_start(world, job, now):
                    world.start(job, self.kept.pop(job)[1], now)
                    again = True
        world.promised = {job: start for job, (start, _) in self.kept.items()}
        on_time = all(held.end > now for held in world.running.values())
        again_at = {start if on_time else now + 1 for start in world.promised.values() if (start > now) == on_time}
        world.wake = min(again_at, default=NEVER)  # what waits for one that was to end now is looked at once more

    def may_start(self, world: World, job: int, now: int) -> bool:
        """Whether exactly its place is free, its nodes may compute, and no lender is to start another job first."""
        place = self.kept[job][1]
        due = {node for other, (start, its) in self.kept.items() if start == now and other != job for node in its.tasks}
        for node in due & {lender for _, lender in place.loans}:
            left = world.free[1][node] - sum(mb for (_, lender), mb in place.loans.items() if lender == node)
            if left < self.threshold * world.total[1][node]:
                return False
        enough = all(world.free[1][node] >= self.threshold * world.total[1][node] for node in place.tasks)
        return enough and has(world.free, world.total, place)

    def length(self, world: World, job: int) -> int:
        """How long a job is expected to run: 1 µs at least."""
        return max(1, world.jobs[job].request)

    def ends(self, world: World, now: int) -> dict[int, int]:
        """When running jobs are expected to end: at once if that is what is booked, else 1 µs from now at least."""
        return {job: held.end if held.end == now else max(held.end, now + 1) for job, held in world.running.items()}

    def free_at(self, world: World, time: int, now: int) -> Amounts:
        """What is free at a time, by booked ends and reservations."""
        free = [list(row) for row in world.free]
        for job, end in self.ends(world, now).items():
            if end <= time:
                change(free, world.total, world.running[job].place, 1)
        for job, (start, place) in self.kept.items():
            if start <= time < start + self.length(world, job):
                change(free, world.total, place, -1)
        return free

    def steps(self, world: World, now: int) -> list[int]:
        """The times at which what is free may change."""
        found = {now, *self.ends(world, now).values()}
        for job, (start, _) in self.kept.items():
            found |= {start, start + self.length(world, job)}
        return sorted(found)

    def throughout(self, world: World, start: int, job: int, now: int) -> Amounts:
        """What is free all the time that a job would run."""
        end = start + self.length(world, job)
        levels = [self.free_at(world, time, now) for time in {start, *self.steps(world, now)} if start <= time < end]
        return [[min(amounts) for amounts in zip(*row, strict=True)] for row in zip(*levels, strict=True)]

    def lendable(self, world: World, start: int, job: int, now: int) -> Amounts:
        """What is free all the time, without memory that nodes must have when another reservation starts meanwhile."""
        free = self.throughout(world, start, job, now)
        for begin, place in self.kept.values():
            if start < begin < start + self.length(world, job):
                for node in place.tasks:
                    least = ceil(self.threshold * world.total[1][node])
                    rest = world.total[1][node] - least - self.lent_at(world, node, begin, now)
                    free[1][node] = min(free[1][node], max(0, rest))
        return free

    def lent_at(self, world: World, node: int, time: int, now: int) -> int:
        """What a node lends at a time, by booked ends and reservations."""
        ends = self.ends(world, now)
        there = [held.place for job, held in world.running.items() if ends[job] > time]
        for job, (start, place) in self.kept.items():
            if start <= time < start + self.length(world, job):
                there.append(place)
        return sum(mb for place in there for (_, lender), mb in place.loans.items() if lender == node)

    def earliest(self, world: World, job: int, now: int) -> tuple[int, Place] | None:
        """The first time at which a job has a place for as long as it is expected to run."""
        for start in self.steps(world, now):
            place = world.placed(self.lendable(world, start, job, now), job)
            if place is not None:
                return start, place
        return None


def easy_head(world: World, now: int) -> tuple[int, int]:
    """The head of the queue and the time at which it has a place by booked ends."""
    shadow = shadow_of(world, world.queue[0], now)
    assert shadow is not None, "a job that is not impossible has a place when all others have ended"
    return world.queue[0], shadow[0]
