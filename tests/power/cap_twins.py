"""Schedulers under a power cap in plain Python, which know nothing of the engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from unrack.cluster.spec import Cluster
from unrack.workload.job import JobTable, job_table

S = 1_000_000


@dataclass
class J:
    """A job: its times in s, and mW of each task."""

    submit: int
    work: int
    request: int
    tasks: int
    cores: int
    boost: int
    mw: int

    @property
    def watts(self) -> int:
        """Of all its tasks, rounded up."""
        return -(-self.mw * self.tasks // 1000)


@dataclass
class Capped:
    """Nodes, jobs, and the watts that jobs may share; what a task draws is its cores and its boost."""

    nodes: list[int]
    core: list[float]  # W of a core of each node
    cap: float
    boost_w: float
    jobs: list[J] = field(default_factory=list)

    @property
    def left(self) -> int:
        """Watts beside what is drawn idle, which is 50 W a node."""
        return int(self.cap) - 50 * len(self.nodes)

    @property
    def cluster(self) -> Cluster:
        """As a cluster."""
        power = {
            "idle": 50, "core": 1, "cap": self.cap, "devices": {"counted.boost": self.boost_w},
            "nodes": [{"nodes": [str(i)], "idle": 50, "core": core} for i, core in enumerate(self.core)],
        }  # fmt: skip
        return Cluster.from_dict({
            "nodes": [{"count": 1, "cores": cores} for cores in self.nodes], "power": power,
            "counted": [{"name": "boost", "amount": 10**6, "asked_by": "task"}],
        })  # fmt: skip

    @property
    def table(self) -> JobTable:
        """Its jobs."""
        column = {
            name: np.array([getattr(job, name) for job in self.jobs], np.int64)
            for name in ("submit", "work", "request", "tasks", "cores", "boost")
        }
        return job_table(
            submit_us=column["submit"] * S, work_us=column["work"] * S, request_us=column["request"] * S,
            tasks=column["tasks"], cores=column["cores"], devices={("counted", "boost"): column["boost"]},
        )  # fmt: skip

    def possible(self, job: J) -> bool:
        """Whether it could ever run."""
        return job.watts <= self.left and sum(cores // job.cores for cores in self.nodes) >= job.tasks


def random_capped(seed: int, count: int = 60, exact: bool = False) -> Capped:
    """A world by a seed; ``exact``: jobs run for as long as they ask."""
    draw = np.random.default_rng(seed)
    nodes = draw.integers(1, 6, int(draw.integers(2, 7))).tolist()
    core = [int(draw.integers(1000, 9000)) / 1000 for _ in nodes]
    tight = float(draw.uniform(0.3, 1.2))
    boost_w = float(draw.integers(1, 8)) / 2
    whole = sum(a * b for a, b in zip(nodes, core, strict=True))
    world = Capped(nodes, core, 50 * len(nodes) + 12 + int(whole * tight), boost_w)
    at = 0
    for _ in range(count):
        at += int(draw.exponential(25))
        request = int(draw.integers(5, 120))
        work = request if exact else int(draw.integers(1, request + 1))
        cores, boost = int(draw.integers(1, 4)), int(draw.integers(0, 4))
        dearest = max((own for size, own in zip(nodes, core, strict=True) if size >= cores), default=0)
        mw = round(cores * dearest * 1000 + boost * boost_w * 1000)
        world.jobs.append(J(at, work, request, int(draw.integers(1, 4)), cores, boost, mw))
    return world


def first_fit(free: list[int], job: J) -> dict[int, int] | None:
    """Node → cores."""
    found, left = dict[int, int](), job.tasks
    for node, cores in enumerate(free):
        if (here := min(left, max(cores, 0) // job.cores)) > 0:
            found[node] = here * job.cores
            left -= here
    return None if left else found


class Loop:
    """Runs the jobs of a world by a rule that starts some of those that wait."""

    def __init__(self, world: Capped) -> None:
        self.world, self.free, self.watts = world, list(world.nodes), world.left
        self.running: dict[int, tuple[int, int, dict[int, int]]] = {}  # job → end, booked end, nodes
        self.start: dict[int, int] = {}
        self.booked: dict[int, tuple[int, dict[int, int]]] = {}  # job → reserved start, nodes

    def fits(self, job: J) -> dict[int, int] | None:
        """Where a job could run now."""
        return first_fit(self.free, job) if job.watts <= self.watts else None

    def begin(self, number: int, now: int, nodes: dict[int, int]) -> None:
        """A job starts."""
        job = self.world.jobs[number]
        for node, cores in nodes.items():
            self.free[node] -= cores
        self.watts -= job.watts
        assert self.watts >= 0
        self.start[number], self.running[number] = now, (now + job.work, now + job.request, nodes)

    def run(self, decide: Callable[[Loop, list[int], int], None]) -> dict[int, int]:
        """Job → start."""
        jobs, waiting, coming = self.world.jobs, list[int](), 0
        while True:
            times = [end for end, _, _ in self.running.values()]
            times += [jobs[coming].submit] if coming < len(jobs) else []
            times += [start for number, (start, _) in self.booked.items() if number not in self.start]
            if not times:
                return self.start
            now = min(times)
            for number in [number for number, own in self.running.items() if own[0] == now]:
                for node, cores in self.running.pop(number)[2].items():
                    self.free[node] += cores
                self.watts += jobs[number].watts
            while coming < len(jobs) and jobs[coming].submit == now:
                waiting += [coming] if self.world.possible(jobs[coming]) else []
                coming += 1
            decide(self, waiting, now)
            waiting = [number for number in waiting if number not in self.start]


def fcfs(loop: Loop, waiting: list[int], now: int) -> None:
    """In order, until one has no place: who waits for watts alone holds up the others too."""
    for number in waiting:
        if (nodes := loop.fits(loop.world.jobs[number])) is None:
            return
        loop.begin(number, now, nodes)


def easy(loop: Loop, waiting: list[int], now: int) -> None:
    """The first without a place is promised the time at which booked ends give it one; nobody delays that."""
    jobs = loop.world.jobs
    head: J | None = None
    time, then, watts = 0.0, list[int](), 0
    for number in waiting:
        job = jobs[number]
        nodes = loop.fits(job)
        if head is None:
            if nodes is not None:
                loop.begin(number, now, nodes)
                continue
            head, (time, then, watts) = job, shadow(loop, job, now)
        elif nodes is not None:
            if now + job.request > time:
                left = [free - nodes.get(node, 0) for node, free in enumerate(then)]
                if first_fit(left, head) is None or watts - job.watts < head.watts:
                    continue
                then, watts = left, watts - job.watts
            loop.begin(number, now, nodes)


def shadow(loop: Loop, head: J, now: int) -> tuple[float, list[int], int]:
    """When booked ends leave room for the head; what is free then."""
    free, watts = list(loop.free), loop.watts
    ends = sorted((max(booked, now + 1e-6), number) for number, (_, booked, _) in loop.running.items())
    for i, (end, number) in enumerate(ends):
        for node, cores in loop.running[number][2].items():
            free[node] += cores
        watts += loop.world.jobs[number].watts
        if i + 1 < len(ends) and ends[i + 1][0] == end:
            continue
        if first_fit(free, head) is not None and watts >= head.watts:
            return end, free, watts
    raise AssertionError("on the empty cluster it has a place")


def conservative(loop: Loop, waiting: list[int], now: int) -> None:
    """Everybody gets the first time and nodes that disturb nobody when he comes; jobs run for as long as they ask."""
    world = loop.world
    for number in waiting:
        if number not in loop.booked:
            job = world.jobs[number]
            others = [(world.jobs[own], start, nodes) for own, (start, nodes) in loop.booked.items()]
            ends = {start + other.request for other, start, _ in others} | {start for _, start, _ in others}
            for time in sorted({now, *(moment for moment in ends if moment > now)}):
                least, watts = list(world.nodes), world.left
                for moment in {time, *(m for m in ends if time < m < time + job.request)}:
                    free, left = list(world.nodes), world.left
                    for other, start, nodes in others:
                        if start <= moment < start + other.request:
                            left -= other.watts
                            for node, cores in nodes.items():
                                free[node] -= cores
                    least, watts = [min(a, b) for a, b in zip(least, free, strict=True)], min(watts, left)
                nodes = first_fit(least, job)
                if nodes is not None and watts >= job.watts:
                    loop.booked[number] = time, nodes
                    break
    for number in waiting:
        if loop.booked[number][0] == now:
            loop.begin(number, now, loop.booked[number][1])
