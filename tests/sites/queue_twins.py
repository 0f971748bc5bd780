"""Queues with quotas in plain Python: borrowing and lending as Kueue says it, with no places and no sets of queues."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from twins import first_fit

from unrack.cluster.spec import Cluster
from unrack.workload.formats.rules import Intake
from unrack.workload.job import Workload, job_table


class Quota(NamedTuple):
    """Of one queue in one flavour."""

    nominal: int
    borrow: int | None
    lend: int | None

    @property
    def kept(self) -> int:
        """What nobody else gets."""
        return 0 if self.lend is None else max(0, self.nominal - self.lend)


@dataclass
class Q:
    """A job."""

    submit: int
    work: int
    request: int
    tasks: int
    cores: int
    queue: str
    priority: int = 0

    @property
    def asked(self) -> int:
        """Cores of all its tasks."""
        return self.tasks * self.cores


Use = dict[tuple[str, str], int]
"""(queue, flavour) → cores."""


@dataclass
class QueueSite:
    """Nodes, flavours of them, and queues with quotas of cores by flavour."""

    nodes: list[int]
    flavours: dict[str, set[int]]
    cohorts: dict[str, str]  # queue → its cohort, or ""
    quotas: dict[str, dict[str, Quota]]
    jobs: list[Q] = field(default_factory=list)
    reclaim: dict[str, str] = field(default_factory=dict)
    within: dict[str, str] = field(default_factory=dict)
    preempt: dict[str, Any] | None = None

    @property
    def cluster(self) -> Cluster:
        """As a cluster."""
        queues = []
        for name, quotas in self.quotas.items():
            own: dict[str, Any] = {"name": name, "cohort": self.cohorts[name], "quotas": []}
            for flavour, quota in quotas.items():
                made: dict[str, Any] = {"flavour": flavour, "nominal": {"cores": quota.nominal}}
                made |= {} if quota.borrow is None else {"borrow": {"cores": quota.borrow}}
                made |= {} if quota.lend is None else {"lend": {"cores": quota.lend}}
                own["quotas"].append(made)
            own |= {"reclaim": self.reclaim.get(name, "never"), "within": self.within.get(name, "never")}
            queues.append(own)
        partitions = [{"name": name, "nodes": [str(n) for n in sorted(own)]} for name, own in self.flavours.items()]
        qos = [{"name": f"p{number}", "priority": number} for number in range(3)]
        site: dict[str, Any] = {"partitions": partitions, "queues": queues, "qos": qos}
        site |= {} if self.preempt is None else {"preempt": self.preempt}
        return Cluster.from_dict({"nodes": [{"count": 1, "cores": cores} for cores in self.nodes], "site": site})

    @property
    def workload(self) -> Workload:
        """As a workload."""
        columns = {
            f"{name}_us": np.array([getattr(job, name) for job in self.jobs], np.int64) * 10**6
            for name in ("submit", "work", "request")
        }
        columns |= {name: np.array([getattr(job, name) for job in self.jobs], np.int64) for name in ("tasks", "cores")}
        said = {"queue": [job.queue for job in self.jobs], "qos": [f"p{job.priority}" for job in self.jobs]}
        table = job_table(**columns, extra=pl.DataFrame(said))
        return Workload("random", table, Intake("", "", 0, 0))

    def room(self, use: Use, queue: str, flavour: str, cores: int) -> bool:
        """Whether a queue may use so much more of a flavour."""
        own = self.quotas[queue][flavour]
        after = {**use, (queue, flavour): use.get((queue, flavour), 0) + cores}
        mine, cohort = after[queue, flavour], self.cohorts[queue]
        if not cohort:
            return mine <= own.nominal
        if own.borrow is not None and mine > own.nominal + own.borrow:
            return False
        all_of_it = [(name, some[flavour]) for name, some in self.quotas.items()
                     if self.cohorts[name] == cohort and flavour in some]  # fmt: skip
        shared = sum(quota.nominal - quota.kept for _, quota in all_of_it)
        return sum(max(0, after.get((name, flavour), 0) - quota.kept) for name, quota in all_of_it) <= shared

    def possible(self, job: Q) -> list[str]:
        """The flavours in which a job could ever run."""
        return [
            flavour for flavour in self.quotas[job.queue]
            if self.room({}, job.queue, flavour, job.asked)
            and sum(self.nodes[node] // job.cores for node in self.flavours[flavour]) >= job.tasks
        ]  # fmt: skip

    def allowed(self, job: Q) -> list[str]:
        """The flavours whose quota it does not exceed by itself."""
        return [one for one in self.quotas[job.queue] if self.room({}, job.queue, one, job.asked)]

    def eligible(self, job: Q) -> set[int]:
        """The nodes of all its flavours."""
        return {node for flavour in self.allowed(job) for node in self.flavours[flavour]}


def random_queues(seed: int, jobs: int = 60, several: bool = False, exact: bool = False) -> QueueSite:
    """A site by a seed; ``several``: queues have quotas in more than one flavour."""
    draw = np.random.default_rng(seed)
    nodes = draw.integers(1, 7, int(draw.integers(2, 8))).tolist()
    flavours = {}
    for name in "xyz"[: int(draw.integers(1, 4))]:
        size = int(draw.integers(1, len(nodes) + 1))
        flavours[name] = set(draw.choice(len(nodes), size, replace=False).tolist())
    cohorts, quotas = {}, {}
    for name in "abcde"[: int(draw.integers(2, 6))]:
        cohorts[name] = str(draw.choice(["", "k", "m", "m", "m"]))
        count = int(draw.integers(1, len(flavours) + 1)) if several else 1
        own = {}
        for flavour in draw.choice(list(flavours), count, replace=False).tolist():
            cores = sum(nodes[node] for node in flavours[flavour])
            nominal = int(draw.integers(0, cores + 1))
            borrow = int(draw.integers(0, 5)) if cohorts[name] and draw.random() < 0.4 else None
            lend = int(draw.integers(0, nominal + 1)) if cohorts[name] and draw.random() < 0.5 else None
            own[flavour] = Quota(nominal, borrow, lend)
        quotas[name] = own
    made, at = [], 0
    for number in range(jobs):
        at += int(draw.exponential(25)) + 1
        request = int(draw.integers(5, 160))
        work = request if exact else int(draw.integers(1, request + 1))
        made.append(Q(at, work, request, int(draw.integers(1, 4)), int(draw.integers(1, 4)),
                      str(draw.choice(list(quotas))), number % 3 if seed % 2 else 0))  # fmt: skip
    return QueueSite(nodes, flavours, cohorts, quotas, made)


class Loop:
    """Runs jobs by a rule that starts some of those that wait."""

    def __init__(self, site: QueueSite) -> None:
        self.site, self.free, self.use = site, list(site.nodes), Use()
        self.running: dict[int, tuple[int, int, dict[int, int], str]] = {}  # job → ends, as booked, nodes, flavour
        self.start: dict[int, int] = {}
        self.closed: set[tuple[str, str]] = set()  # queues and flavours that give no job of them a place

    def open_to(self, job: Q) -> list[str]:
        """The flavours whose quota it does not exceed by itself, but those that are closed."""
        return [one for one in self.site.allowed(job) if (job.queue, one) not in self.closed]

    def begin(self, number: int, now: int, nodes: dict[int, int], flavour: str) -> None:
        """A job starts."""
        job = self.site.jobs[number]
        for node, cores in nodes.items():
            self.free[node] -= cores
        self.use[job.queue, flavour] = self.use.get((job.queue, flavour), 0) + job.asked
        self.running[number] = now + job.work, now + job.request, nodes, flavour
        self.start[number] = now

    def end(self, number: int) -> None:
        """A job ends."""
        job = self.site.jobs[number]
        _, _, nodes, flavour = self.running.pop(number)
        for node, cores in nodes.items():
            self.free[node] += cores
        self.use[job.queue, flavour] -= job.asked

    def run(self, decide: Any) -> dict[int, int]:
        """Job → start."""
        jobs, waiting, coming = self.site.jobs, list[int](), 0
        while self.running or coming < len(jobs):
            times = [end for end, *_ in self.running.values()]
            now = min(times + ([jobs[coming].submit] if coming < len(jobs) else []))
            for number in [number for number, (end, *_) in self.running.items() if end == now]:
                self.end(number)
            while coming < len(jobs) and jobs[coming].submit == now:
                waiting += [coming] if self.site.possible(jobs[coming]) else []
                coming += 1
            decide(self, waiting, now)
            waiting = [number for number in waiting if number not in self.start]
        return self.start


def place(loop: Loop, job: Q, use: Use, shut: set[int]) -> tuple[dict[int, int], str] | None:
    """The nodes and the flavour of a job; ``None``: it has no place."""
    for flavour in loop.open_to(job):
        nodes = first_fit(loop.free, loop.site.flavours[flavour] - shut, job)  # type: ignore[arg-type]
        if nodes is not None and loop.site.room(use, job.queue, flavour, job.asked):
            return nodes, flavour
    return None


def fcfs(loop: Loop, waiting: list[int], now: int) -> None:
    """Who has no place closes its nodes, and its part of its quota if that is of one flavour, to who comes later."""
    site, shut, kept = loop.site, set[int](), Use()
    for number in waiting:
        job = site.jobs[number]
        use = {key: loop.use.get(key, 0) + kept.get(key, 0) for key in {**loop.use, **kept}}
        allowed = loop.open_to(job)
        one = len(site.allowed(job)) == 1
        # who has a choice is first looked at as one who needs cores
        some = one or sum(loop.free[node] for node in site.eligible(job) - shut) >= job.asked
        if some and not any(site.room(use, job.queue, name, job.asked) for name in allowed):
            continue
        if (found := place(loop, job, use, shut)) is not None:
            loop.begin(number, now, *found)
            continue
        shut |= site.eligible(job)
        if one:
            kept[job.queue, allowed[0]] = kept.get((job.queue, allowed[0]), 0) + job.asked


def easy(loop: Loop, waiting: list[int], now: int) -> None:
    """Of queues of one flavour each: heads whose nodes are apart; nobody delays a head that is before him."""
    site, heads, shadows = loop.site, list[int](), dict[int, tuple[float, list[int], Use]]()
    for number in waiting:
        job = site.jobs[number]
        flavour = site.allowed(job)[0]
        if not site.room(loop.use, job.queue, flavour, job.asked):
            continue
        found = place(loop, job, loop.use, set())
        if found is None:
            if not any(site.eligible(site.jobs[head]) & site.eligible(job) for head in heads):
                heads.append(number)
            continue
        taken = []
        for head in heads:
            asked = site.jobs[head]
            its = site.allowed(asked)[0]
            mates = its == flavour and (
                job.queue == asked.queue or site.cohorts[job.queue] == site.cohorts[asked.queue] != ""
            )
            if not mates and not site.eligible(asked) & site.eligible(job):
                continue
            if head not in shadows:
                shadows[head] = shadow(loop, head, now)
            time, then, use = shadows[head]
            if now + job.request > time:
                left = [free - found[0].get(node, 0) for node, free in enumerate(then)]
                more = {**use, (job.queue, flavour): use.get((job.queue, flavour), 0) + job.asked}
                room = sum(max(0, left[node]) // asked.cores for node in site.eligible(asked))
                if room < asked.tasks or not site.room(more, asked.queue, its, asked.asked):
                    break
                taken.append((head, left, more))
        else:
            for head, left, more in taken:
                shadows[head] = shadows[head][0], left, more
            loop.begin(number, now, *found)


def shadow(loop: Loop, head: int, now: int) -> tuple[float, list[int], Use]:
    """When booked ends leave room for a head; what is free then, and what queues use."""
    site, job, free, use = loop.site, loop.site.jobs[head], list(loop.free), dict(loop.use)
    flavour = site.allowed(job)[0]
    ends = sorted((max(booked, now + 1e-6), number) for number, (_, booked, *_) in loop.running.items())
    for i, (end, number) in enumerate(ends):
        _, _, nodes, its = loop.running[number]
        for node, cores in nodes.items():
            free[node] += cores
        use[site.jobs[number].queue, its] -= site.jobs[number].asked
        if i + 1 < len(ends) and ends[i + 1][0] == end:
            continue
        room = sum(free[node] // job.cores for node in site.eligible(job))
        if room >= job.tasks and site.room(use, job.queue, flavour, job.asked):
            return end, free, use
    return float("inf"), free, use


class Reserving(Loop):
    """Of queues of one flavour each: the first time that disturbs nobody; jobs run for as long as they ask."""

    def __init__(self, site: QueueSite) -> None:
        super().__init__(site)
        self.booked: list[tuple[int, int, int, dict[int, int]]] = []  # job, start, end, nodes

    def plan(self) -> dict[int, int]:
        """Job → start."""
        for number, job in enumerate(self.site.jobs):
            if self.site.possible(job):
                self.reserve(number, job)
        return {number: start for number, start, *_ in self.booked}

    def reserve(self, number: int, job: Q) -> None:
        """Book its time."""
        site, flavour = self.site, self.site.allowed(job)[0]
        moments = sorted({job.submit, *(t for _, *span, _ in self.booked for t in span if t > job.submit)})
        for time in moments:
            least, ok = list(site.nodes), True
            for moment in [time, *(t for t in moments if time < t < time + job.request)]:
                free, use = list(site.nodes), Use()
                for other, start, end, nodes in self.booked:
                    if start <= moment < end:
                        one = site.jobs[other]
                        key = one.queue, site.allowed(one)[0]
                        use[key] = use.get(key, 0) + one.asked
                        for node, cores in nodes.items():
                            free[node] -= cores
                least = [min(pair) for pair in zip(least, free, strict=True)]
                ok = ok and site.room(use, job.queue, flavour, job.asked)
            nodes = first_fit(least, site.flavours[flavour], job) if ok else None  # type: ignore[arg-type]
            if nodes is not None:
                self.booked.append((number, time, time + job.request, nodes))
                return
        raise AssertionError("every possible job has a time")
