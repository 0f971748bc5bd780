"""Heterogeneous jobs in plain Python: schedulers that know nothing of the engine, on small worlds.

A job is a list of components. They are placed in order, each by first fit on what those before it leave, on the nodes
of its partition; the job starts when all have a place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from unrack.cluster.spec import Cluster
from unrack.workload.formats.rules import Intake
from unrack.workload.job import Workload, job_table


class C(NamedTuple):
    """A component."""

    tasks: int
    cores: int
    mb: int
    partition: str
    licences: int = 0


@dataclass
class J:
    """A job, times in seconds."""

    submit: int
    work: int
    request: int
    parts: list[C]
    user: str = "u"


@dataclass
class World:
    """Nodes of cores and MB, partitions, and a limit of cores by user in some of these."""

    nodes: list[tuple[int, int]]
    partitions: dict[str, set[int]]
    limits: dict[str, int]
    licences: int = 0
    jobs: list[J] = field(default_factory=list)

    @property
    def cluster(self) -> Cluster:
        """As a cluster."""
        parts = []
        for name, nodes in self.partitions.items():
            table: dict[str, Any] = {"name": name, "nodes": [str(node) for node in sorted(nodes)]}
            if name in self.limits:
                table["limits"] = [{"per": "user", "amounts": {"cores": self.limits[name]}}]
            parts.append(table)
        made: dict[str, Any] = {"nodes": [{"count": 1, "cores": c, "memory": mb} for c, mb in self.nodes]}
        made |= {"site": {"partitions": parts}} if parts else {}
        made |= {"counted": [{"name": "lic", "amount": self.licences, "asked_by": "task"}]} if self.licences else {}
        return Cluster.from_dict(made)

    @property
    def workload(self) -> Workload:
        """As a workload: a row for each component, of which those of one job have the same `het`."""
        rows = [(number, i, job, part) for number, job in enumerate(self.jobs) for i, part in enumerate(job.parts)]
        second = 10**6
        table = job_table(
            ids=pl.Series([number_of(number, i) for number, i, _, _ in rows]),
            submit_us=np.array([job.submit for _, _, job, _ in rows]) * second,
            work_us=np.array([job.work for _, _, job, _ in rows]) * second,
            request_us=np.array([job.request for _, _, job, _ in rows]) * second,
            tasks=np.array([part.tasks for *_, part in rows]), cores=np.array([part.cores for *_, part in rows]),
            memory_mb=np.array([part.mb for *_, part in rows]), user=pl.Series([job.user for _, _, job, _ in rows]),
            devices={("counted", "lic"): np.array([part.licences for *_, part in rows])} if self.licences else None,
            extra=pl.DataFrame(
                {
                    "het": [str(1 + number) if len(job.parts) > 1 else "" for number, _, job, _ in rows],
                    "partition": [part.partition for *_, part in rows],
                }
            ),
        )  # fmt: skip
        return Workload("random", table, Intake("", "", 0, 0))

    def open_to(self, part: C) -> set[int]:
        """The nodes of a component."""
        return self.partitions[part.partition] if part.partition else set(range(len(self.nodes)))

    def nodes_of(self, job: J) -> set[int]:
        """Those of all components."""
        return set.union(*(self.open_to(part) for part in job.parts))

    def claims(self, job: J) -> dict[str, int]:
        """Limits and licences → how much a job takes of them."""
        found: dict[str, int] = {}
        for part in job.parts:
            own = part.tasks * part.cores if part.partition in self.limits else 0
            pairs = (f"{job.user} in {part.partition}", own), ("licences", part.tasks * part.licences)
            for name, amount in pairs:
                if amount:
                    found[name] = found.get(name, 0) + amount
        return found

    def most(self, name: str) -> int:
        """How much there is."""
        return self.licences if name == "licences" else self.limits[name.split(" in ")[1]]


def number_of(number: int, component: int) -> str:
    """The id of a component."""
    return f"{1000 + number}+{component}"


Free = list[list[int]]


def placed(world: World, free: Free, job: J, closed: set[int] = set()) -> list[tuple[int, int, int]] | None:  # noqa: B006
    """Node, cores and MB of all components; ``None``: one has no place."""
    left, found = [list(one) for one in free], []
    for part in job.parts:
        missing = part.tasks
        for node in sorted(world.open_to(part) - closed):
            cores, mb = left[node]
            here = min(missing, cores // part.cores, mb // part.mb if part.mb else missing)
            if here > 0:
                found.append((node, here * part.cores, here * part.mb))
                left[node][0] -= here * part.cores
                left[node][1] -= here * part.mb
                missing -= here
        if missing:
            return None
    return found


class Loop:
    """Runs jobs by a rule that starts some of those that wait."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.free: Free = [list(node) for node in world.nodes]
        self.held: dict[str, int] = {}
        self.running: dict[int, tuple[int, int, list[tuple[int, int, int]]]] = {}
        self.start: dict[int, int] = {}

    def short(self, job: J, kept: dict[str, int] | None = None, limits: bool = False) -> bool:
        """Whether it lacks a licence or a limit; ``limits``: these alone."""
        held = {name: self.held.get(name, 0) + (kept or {}).get(name, 0) for name in self.world.claims(job)}
        return any(
            held[name] + amount > self.world.most(name)
            for name, amount in self.world.claims(job).items()
            if not (limits and name == "licences")
        )

    def change(self, number: int, nodes: list[tuple[int, int, int]], sign: int) -> None:
        """Take (-1) or give back (1)."""
        for node, cores, mb in nodes:
            self.free[node][0] += sign * cores
            self.free[node][1] += sign * mb
        for name, amount in self.world.claims(self.world.jobs[number]).items():
            self.held[name] = self.held.get(name, 0) - sign * amount

    def begin(self, number: int, now: int, nodes: list[tuple[int, int, int]]) -> None:
        """A job starts."""
        job = self.world.jobs[number]
        self.change(number, nodes, -1)
        self.running[number] = now + job.work, now + job.request, nodes
        self.start[number] = now

    def possible(self, job: J) -> bool:
        """Whether it could ever run."""
        claims = self.world.claims(job)
        return all(amount <= self.world.most(name) for name, amount in claims.items()) and (
            placed(self.world, [list(node) for node in self.world.nodes], job) is not None
        )

    def run(self, decide: Callable[[Loop, list[int], int], None]) -> dict[int, int]:
        """Job → start."""
        jobs, waiting, coming = self.world.jobs, list[int](), 0
        while True:
            times = [end for end, _, _ in self.running.values()] + self.wake()
            times += [jobs[coming].submit] if coming < len(jobs) else []
            if not times:
                return self.start
            now = min(times)
            for number in [number for number, (end, _, _) in self.running.items() if end == now]:
                self.change(number, self.running.pop(number)[2], 1)
            while coming < len(jobs) and jobs[coming].submit == now:
                if self.possible(jobs[coming]):
                    waiting.append(coming)
                coming += 1
            decide(self, waiting, now)
            waiting = [number for number in waiting if number not in self.start]

    def wake(self) -> list[int]:
        """When else something is due."""
        return []


def fcfs(loop: Loop, waiting: list[int], now: int) -> None:
    """Who has no place closes its nodes, and its part of licences and limits, to all behind it; limits alone do not."""
    world, closed, kept = loop.world, set[int](), dict[str, int]()
    for number in waiting:
        job = world.jobs[number]
        if loop.short(job, kept, limits=True):
            continue
        nodes = None if loop.short(job, kept) else placed(world, loop.free, job, closed)
        if nodes is not None:
            loop.begin(number, now, nodes)
            continue
        closed |= world.nodes_of(job)
        for name, amount in world.claims(job).items():
            kept[name] = kept.get(name, 0) + amount


def easy(loop: Loop, waiting: list[int], now: int) -> None:
    """Heads whose nodes are apart from each other; nobody delays a head that is before him."""
    world, heads = loop.world, list[int]()
    shadows: dict[int, tuple[float, Free, dict[str, int]]] = {}
    for number in waiting:
        job = world.jobs[number]
        if loop.short(job, limits=True):
            continue
        nodes = None if loop.short(job) else placed(world, loop.free, job)
        met = [head for head in heads if world.nodes_of(world.jobs[head]) & world.nodes_of(job)]
        if nodes is None:
            if not met:
                heads.append(number)
            continue
        taken, passes = [], True
        for head in heads:
            asked = world.jobs[head]
            if head not in met and not world.claims(job):
                continue
            if head not in shadows:
                shadows[head] = shadow(loop, head, now)
            time, then, held = shadows[head]
            if now + job.request > time:
                left, more = [list(one) for one in then], dict(held)
                for node, cores, mb in nodes:
                    left[node][0] -= cores
                    left[node][1] -= mb
                for name, amount in world.claims(job).items():
                    more[name] = more.get(name, 0) + amount
                if not fits(world, asked, left, more):
                    passes = False
                    break
                taken.append((head, left, more))
        if passes:
            for head, left, more in taken:
                shadows[head] = shadows[head][0], left, more
            loop.begin(number, now, nodes)


def fits(world: World, job: J, free: Free, held: dict[str, int]) -> bool:
    """Whether a job has a place if so much is free, and held of licences and limits."""
    if any(held.get(name, 0) + amount > world.most(name) for name, amount in world.claims(job).items()):
        return False
    return placed(world, free, job) is not None


def shadow(loop: Loop, head: int, now: int) -> tuple[float, Free, dict[str, int]]:
    """When booked ends leave room for a head; what is free then, and what is held."""
    world, free, held = loop.world, [list(one) for one in loop.free], dict(loop.held)
    ends = sorted((max(booked, now + 1e-6), number) for number, (_, booked, _) in loop.running.items())
    for i, (end, number) in enumerate(ends):
        for node, cores, mb in loop.running[number][2]:
            free[node][0] += cores
            free[node][1] += mb
        for name, amount in world.claims(world.jobs[number]).items():
            held[name] -= amount
        if i + 1 < len(ends) and ends[i + 1][0] == end:
            continue
        if fits(world, world.jobs[head], free, held):
            return end, free, held
    return float("inf"), free, held


class Reserving(Loop):
    """Every job gets the first time and nodes that disturb nobody when it comes; jobs run for as long as they ask."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.booked: dict[int, tuple[int, int, list[tuple[int, int, int]]]] = {}  # job → start, end, nodes

    def wake(self) -> list[int]:
        """The starts that are reserved."""
        return [start for number, (start, _, _) in self.booked.items() if number not in self.start]

    def decide(self, _: Loop, waiting: list[int], now: int) -> None:
        """Reserve for those who are new; start whose time it is."""
        for number in waiting:
            if number not in self.booked:
                self.reserve(number, now)
        for number, (start, _, nodes) in self.booked.items():
            if start == now and number not in self.start:
                self.begin(number, now, nodes)

    def reserve(self, number: int, now: int) -> None:
        """The first time at which it disturbs nobody."""
        world, job = self.world, self.world.jobs[number]
        moments = sorted({now, *(t for start, end, _ in self.booked.values() for t in (start, end) if t > now)})
        for time in moments:
            least, most = [list(node) for node in world.nodes], dict[str, int]()
            for moment in [time, *(t for t in moments if time < t < time + job.request)]:
                free, held = [list(node) for node in world.nodes], dict[str, int]()
                for other, (start, end, nodes) in self.booked.items():
                    if start <= moment < end:
                        for node, cores, mb in nodes:
                            free[node][0] -= cores
                            free[node][1] -= mb
                        for name, amount in world.claims(world.jobs[other]).items():
                            held[name] = held.get(name, 0) + amount
                least = [[min(pair) for pair in zip(*two, strict=True)] for two in zip(least, free, strict=True)]
                most = {name: max(most.get(name, 0), held.get(name, 0)) for name in {*most, *held}}
            if fits(world, job, least, most) and (nodes := placed(world, least, job)) is not None:
                self.booked[number] = time, time + job.request, nodes
                return
        raise AssertionError("every possible job has a time")


def random_world(seed: int, jobs: int = 40, exact: bool = False, parted: bool = True) -> World:
    """A world by a seed; ``exact``: jobs run for as long as they ask; ``parted``: there are partitions."""
    draw = np.random.default_rng(seed)
    count = int(draw.integers(2, 8))
    nodes = [(int(draw.integers(1, 7)), int(draw.integers(2, 9))) for _ in range(count)]
    partitions, limits = dict[str, set[int]](), dict[str, int]()
    for name in "abc"[: int(draw.integers(0, 4))] if parted else "":
        partitions[name] = set(draw.choice(count, int(draw.integers(1, count + 1)), replace=False).tolist())
        if draw.random() < 0.3:
            limits[name] = int(draw.integers(2, 14))
    world = World(nodes, partitions, limits, int(draw.integers(2, 7)) if draw.random() < 0.4 else 0)
    names, at = [*partitions, ""], 0
    for _ in range(jobs):
        at += int(draw.exponential(25))
        request = int(draw.integers(5, 120))
        work = request if exact else int(draw.integers(1, request + 1))
        parts = [
            C(int(draw.integers(1, 4)), int(draw.integers(1, 4)), int(draw.integers(0, 4)),
              names[int(draw.integers(0, len(names)))], int(draw.integers(0, 2)) if world.licences else 0)
            for _ in range(int(draw.choice([1, 2, 3], p=(0.4, 0.4, 0.2))))
        ]  # fmt: skip
        world.jobs.append(J(at, work, request, parts, f"u{draw.integers(0, 2)}"))
    return world
