"""Every schedule of a tiny world of nodes and pooled devices, in plain Python: the oracle of bounds and policies.

Jobs run to their end once begun, on one node each. A job that asks for devices runs on a composition: some free
devices of one pool, seen as one from when its first job begins until its last one ends, attached to one node (or, with
``single = False``, reached from several). A modelled job shares with jobs of its model only, at the speed of the table
for (devices, sharers), which follows every join and leave; its governed quantities do not count. Other jobs share as
long as what they ask fits, at speed 1. Jobs begin only when a job arrives or ends: at each such event, after all that
happens at that time, every set of waiting jobs may begin in every way, the empty set included.

Nothing here knows the engine. A split device is a little more than here with ``single = False``, ``compose = 1`` and
``share`` = its parts: there a part of equal size must also hold the job.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import inf

GRAIN = 1e-6
"""Times closer than this are one, s: the engine's µs."""


@dataclass(frozen=True)
class Ask:
    """A job: times in s, ``due`` None = no deadline, one entry of ``amounts`` per quantity of a device."""

    release: float
    work: float
    cores: int
    due: float | None = None
    amounts: tuple[int, ...] = ()
    model: str | None = None


@dataclass(frozen=True)
class Shelf:
    """A pool: how many equal devices, the nodes that reach it, and the most devices composed and jobs sharing."""

    count: int
    reach: tuple[int, ...]
    compose: int = 99
    share: int = 99
    single: bool = True


@dataclass(frozen=True)
class Instance:
    """A tiny world.

    ``cores`` per node; ``device``: what each device has of each quantity; ``models``: name → {(devices, sharers):
    speed}, more devices than the table has count as its most, more sharers are not admitted; ``governed``: quantities
    that do not limit modelled jobs.
    """

    cores: tuple[int, ...]
    jobs: tuple[Ask, ...]
    shelves: tuple[Shelf, ...] = ()
    device: tuple[int, ...] = ()
    models: Mapping[str, Mapping[tuple[int, int], float]] = field(default_factory=dict)
    governed: frozenset[int] = frozenset({0})

    def speed(self, model: str | None, devices: int, sharers: int) -> float:
        """Speed of a job; 0: not admitted."""
        if model is None:
            return 1.0
        table = self.models[model]
        return table.get((min(devices, max(d for d, _ in table)), sharers), 0.0)

    def fastest(self, job: int) -> float:
        """Shortest run of a job on any composition that the pools allow."""
        ask = self.jobs[job]
        if not any(ask.amounts):
            return ask.work
        speeds = [
            self.speed(ask.model, devices, sharers)
            for shelf in self.shelves
            for devices in range(1, min(shelf.compose, shelf.count) + 1)
            for sharers in range(1, min(shelf.share, len(self.jobs)) + 1)
        ]
        return ask.work / max(speeds) if max(speeds, default=0.0) > 0 else inf


@dataclass(frozen=True)
class Group:
    """A composition in use: of which shelf, how many devices, attached where (-1: to several nodes)."""

    shelf: int
    size: int
    node: int


Running = tuple[tuple[int, float, int, int], ...]
"""(job, work left, node, composition or -1) of each running job, by job."""
Groups = tuple[tuple[int, Group], ...]
"""Compositions in use, each named after the job that made it."""


def fewest_late(instance: Instance) -> int:
    """The least number of jobs that end after they are due, or never."""
    return int(_Search(instance, count_late=True).least())


def least_response(instance: Instance) -> float:
    """The least sum over jobs of end - release, s; every job must run (infinite if one never can)."""
    return _Search(instance, count_late=False).least()


class _Search:
    """Depth first over all decisions; branches that cannot beat the best, or were seen at less cost, are cut."""

    def __init__(self, instance: Instance, count_late: bool) -> None:
        self.world = instance
        self.count_late = count_late
        self.order = sorted(range(len(instance.jobs)), key=lambda job: (instance.jobs[job].release, job))
        self.fastest = [instance.fastest(job) for job in range(len(instance.jobs))]
        self.modelled = any(ask.model is not None for ask in instance.jobs)
        self.best = inf
        self.seen: dict[object, float] = {}

    def least(self) -> float:
        self.floor = self.bound(0.0, (), (), 0, 0.0)
        if self.count_late:
            self.best = sum(ask.due is not None for ask in self.world.jobs)
        self.visit(0.0, 0, (), (), (), 0.0)
        return self.best

    def price(self, job: int, end: float) -> float:
        """What it costs that a job ends then."""
        ask = self.world.jobs[job]
        if self.count_late:
            return float(ask.due is not None and end > ask.due + GRAIN)
        return end - ask.release

    def bound(self, now: float, waiting: tuple[int, ...], running: Running, arrived: int, cost: float) -> float:
        """At least this in the end: as if everyone not done ran as fast as can be from now on."""
        for job in (*waiting, *self.order[arrived:]):
            cost += self.price(job, max(now, self.world.jobs[job].release) + self.fastest[job])
        for job, left, _, _ in running:
            cost += self.price(job, now + left * self.fastest[job] / self.world.jobs[job].work)
        return cost

    def visit(
        self, now: float, arrived: int, waiting: tuple[int, ...], running: Running, groups: Groups, cost: float
    ) -> None:
        """Go to the next event, settle it, and try every decision."""
        jobs, order = self.world.jobs, self.order
        paces = self.paces(running, groups)
        ends = [now + left / pace for (_, left, _, _), pace in zip(running, paces, strict=True)]
        time = min([*ends, jobs[order[arrived]].release if arrived < len(order) else inf])
        if time == inf:  # all is quiet: who still waits never runs
            cost += sum(self.price(job, inf) for job in waiting)
            self.best = min(self.best, cost)
            return
        cost += sum(self.price(run[0], end) for run, end in zip(running, ends, strict=True) if end <= time + GRAIN)
        running = tuple(
            (job, left - (time - now) * pace, node, group)
            for (job, left, node, group), pace, end in zip(running, paces, ends, strict=True)
            if end > time + GRAIN
        )
        used = {run[3] for run in running}
        groups = tuple(entry for entry in groups if entry[0] in used)
        while arrived < len(order) and jobs[order[arrived]].release <= time + GRAIN:
            waiting = (*waiting, order[arrived])
            arrived += 1
        if self.count_late and not self.modelled:  # nobody gains by the end of a job that will be late anyway
            lost = [job for job in waiting if self.price(job, time + self.fastest[job])]
            cost += len(lost)
            waiting = tuple(job for job in waiting if job not in lost)
        for left_waiting, now_running, now_groups in self.decisions(waiting, running, groups):
            if self.best <= self.floor:
                return
            if self.bound(time, left_waiting, now_running, arrived, cost) >= self.best:
                continue
            state = (
                round(time, 5), left_waiting, now_groups,
                tuple((job, round(left, 5), node, group) for job, left, node, group in now_running),
            )  # fmt: skip
            if self.seen.get(state, inf) > cost:
                self.seen[state] = cost
                self.visit(time, arrived, left_waiting, now_running, now_groups, cost)

    def paces(self, running: Running, groups: Groups) -> list[float]:
        """Speed of each running job now."""
        named = dict(groups)
        sharers = [run[3] for run in running]
        return [
            1.0 if group < 0 else self.world.speed(self.world.jobs[job].model, named[group].size, sharers.count(group))
            for job, _, _, group in running
        ]

    def decisions(
        self, waiting: tuple[int, ...], running: Running, groups: Groups
    ) -> Iterator[tuple[tuple[int, ...], Running, Groups]]:
        """Every set of waiting jobs begun in every way, more jobs first."""
        if not waiting:
            yield waiting, running, groups
            return
        job, rest = waiting[0], waiting[1:]
        for node, made, group in self.ways(job, running, groups):
            more = groups if made is None else (*groups, (job, made))
            yield from self.decisions(
                rest, tuple(sorted((*running, (job, self.world.jobs[job].work, node, group)))), more
            )
        for left, now_running, now_groups in self.decisions(rest, running, groups):
            yield (job, *left), now_running, now_groups

    def ways(self, job: int, running: Running, groups: Groups) -> Iterator[tuple[int, Group | None, int]]:
        """Every (node, new composition, composition's name) with which a job may begin now."""
        world, ask = self.world, self.world.jobs[job]
        seen = set()
        for node, cores in enumerate(world.cores):
            used = sum(world.jobs[run[0]].cores for run in running if run[2] == node)
            if used + ask.cores > cores:
                continue
            here = any(run[2] == node for run in running)
            looks = (cores, tuple(node in shelf.reach for shelf in world.shelves))
            if not here and looks in seen:
                continue  # an empty node like one that was tried
            if not here:
                seen.add(looks)
            if not any(ask.amounts):
                yield node, None, -1
                continue
            for name, group in groups:
                on_it = [run[0] for run in running if run[3] == name]
                if (
                    node in world.shelves[group.shelf].reach
                    and group.node in (node, -1)
                    and self.fit(job, on_it, group)
                ):
                    yield node, None, name
            for s, shelf in enumerate(world.shelves):
                free = shelf.count - sum(group.size for _, group in groups if group.shelf == s)
                for size in range(1, min(free, shelf.compose) + 1):
                    fresh = Group(s, size, node if shelf.single else -1)
                    if node in shelf.reach and self.fit(job, [], fresh):
                        yield node, fresh, job

    def fit(self, job: int, others: list[int], group: Group) -> bool:
        """Whether a job may join these on a composition."""
        world, ask = self.world, self.world.jobs[job]
        if len(others) >= world.shelves[group.shelf].share or any(world.jobs[o].model != ask.model for o in others):
            return False
        for q, capacity in enumerate(world.device):
            governed = ask.model is not None and q in world.governed
            if not governed and sum(world.jobs[o].amounts[q] for o in (*others, job)) > capacity * group.size:
                return False
        return world.speed(ask.model, group.size, len(others) + 1) > 0
