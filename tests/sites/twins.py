"""Sites in plain Python: schedulers that know nothing of the engine, for random sites with partitions and limits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import polars as pl

from unrack.cluster.spec import Cluster
from unrack.workload.formats.rules import Intake
from unrack.workload.job import Workload, job_table


@dataclass
class J:
    """A job of a random site."""

    submit: int
    work: int
    request: int
    tasks: int
    cores: int
    user: str
    partition: str
    after: tuple[tuple[str, int], ...] = ()  # what of which job, by place
    begin: int = 0
    array: str = ""
    array_limit: int = 0
    reservation: str = ""
    account: str = ""
    qos: str = ""
    nice: int = 0
    seats: int = 0  # licences, of the whole job
    memory: int = 0  # MB of a task


@dataclass
class RandomSite:
    """Nodes with cores, partitions that may overlap, and limits by user or of all."""

    nodes: list[int]
    partitions: dict[str, set[int]]
    limits: dict[str, tuple[str, str, int]]  # partition → per, measure, amount
    jobs: list[J] = field(default_factory=list)
    windows: list[tuple[str, int, int, set[int]]] = field(default_factory=list)  # reservation, from, until, nodes
    more: dict[str, Any] = field(default_factory=dict)  # further keys of `site`
    ranks: dict[str, tuple[int, int]] = field(default_factory=dict)  # partition → tier, priority
    seats: int = 0  # licences that there are
    keeps: dict[str, int] = field(default_factory=dict)  # reservation → how many of them it keeps
    flex: set[str] = field(default_factory=set)  # reservations whose jobs run outside of them, too
    bare: set[str] = field(default_factory=set)  # reservations of no nodes
    parts: dict[str, dict[int, int]] = field(default_factory=dict)  # reservation → node → how many cores it keeps
    said: dict[str, dict[str, Any]] = field(default_factory=dict)  # when they are, in the words of a cluster file

    @property
    def cluster(self) -> Cluster:
        """As a cluster."""
        partitions = []
        for name, nodes in self.partitions.items():
            table: dict[str, Any] = {"name": name, "nodes": [str(node) for node in sorted(nodes)]}
            if name in self.limits:
                per, measure, amount = self.limits[name]
                table["limits"] = [{"per": per, "amounts": {measure: amount}}]
            if name in self.ranks:
                table["tier"], table["priority"] = self.ranks[name]
            partitions.append(table)
        classes = [{"count": 1, "cores": cores} for cores in self.nodes]
        reservations: dict[str, dict[str, Any]] = {}
        for name, start, end, nodes in self.windows:
            if name in reservations:  # it comes again
                reservations[name].setdefault("every", start - reservations[name]["start"])
                reservations[name]["until"] = end
            else:
                known = [str(node) for node in sorted(nodes)]
                reservations[name] = {"name": name, "start": start, "duration": end - start, "nodes": known}
        for name, table in reservations.items():
            table |= {"licences": {"seat": self.keeps[name]}} if name in self.keeps else {}
            table |= {"flex": True} if name in self.flex else {}
            if name in self.bare:
                del table["nodes"]
            if name in self.parts:
                table["cores"] = [cores for _, cores in sorted(self.parts[name].items())]
            if name in self.said:
                reservations[name] = {key: table[key] for key in table if key not in ("every", "until")}
                reservations[name] |= self.said[name]
        site = {"partitions": partitions, "reservations": [*reservations.values()], **self.more}
        counted = {"counted": [{"name": "seat", "amount": self.seats}]} if self.seats else {}
        return Cluster.from_dict({"nodes": classes, "site": site, **counted})

    @property
    def workload(self) -> Workload:
        """As a workload."""
        jobs = self.jobs

        def column(name: str, scale: int = 1) -> Any:
            return np.array([getattr(job, name) * scale for job in jobs], np.int64)

        table = job_table(
            submit_us=column("submit", 10**6), work_us=column("work", 10**6), request_us=column("request", 10**6),
            tasks=column("tasks"), cores=column("cores"), memory_mb=column("memory"),
            devices={("counted", "seat"): column("seats")} if self.seats else {},
            user=pl.Series([job.user for job in jobs]),
            extra=pl.DataFrame(
                {
                    "partition": [job.partition for job in jobs],
                    "dependency": [",".join(f"{kind}:{other + 1}" for kind, other in job.after) for job in jobs],
                    "begin_s": [float(job.begin) for job in jobs],
                    "reservation": [job.reservation for job in jobs],
                    "array": [job.array for job in jobs],
                    "array_limit": [job.array_limit for job in jobs],
                    "account": [job.account for job in jobs],
                    "qos": [job.qos for job in jobs],
                    "nice": [job.nice for job in jobs],
                }
            ),
        )  # fmt: skip
        return Workload("random", table, Intake("", "", 0, 0))

    def eligible(self, job: J, time: int | None = None) -> set[int]:
        """The nodes that a job may use, if it starts at a time."""
        own = self.of_partition(job)
        if job.reservation and job.reservation not in self.flex | self.bare:
            own &= next(nodes for name, _, _, nodes in self.windows if name == job.reservation)
        inside = not job.reservation
        if job.reservation in self.flex and time is not None:
            inside = time < max(end for name, _, end, _ in self.windows if name == job.reservation)
        for name, start, end, nodes in self.windows if time is not None else ():
            assert time is not None
            if name == job.reservation:
                inside = inside or (start <= time and time + job.request <= end)
            elif time < end and start < time + job.request and name not in self.parts:
                own = own - nodes
        return own if inside or time is None else set()

    def openings(self, job: J) -> list[int]:
        """When its reservation begins, each time that it could still run to its end in it."""
        mine = [(start, end) for name, start, end, _ in self.windows if name == job.reservation]
        if job.reservation in self.flex:
            return [job.submit] if job.submit < max(end for _, end in mine) else []
        return [start for start, end in mine if max(start, job.submit) + job.request <= end]

    def leaves_seats(self, job: J, time: float, held: Any, moments: Iterable[float] = ()) -> bool:
        """Whether there are seats for a job, and those that are kept stay; ``held``: who holds some at a time.

        Looked at when it starts, when others are kept, and at other moments.
        """
        begins = [start for _, start, _, _ in self.windows if time < start < time + job.request]
        for moment in [time, *begins, *moments] if job.seats else []:
            there = {name for name, start, end, _ in self.windows if name in self.keeps and start <= moment < end}
            own, others = job.seats, dict.fromkeys(there - {job.reservation}, 0)
            for one in held(moment):
                if one.reservation in others:
                    others[one.reservation] += one.seats
                else:
                    own += one.seats
            if own + sum(max(seats, self.keeps[name]) for name, seats in others.items()) > self.seats:
                return False
        return True

    def beside_cores(self, job: J, time: float, free: list[int], held: Any, moments: Iterable[float] = ()) -> list[int]:
        """Node → cores that are free for a job, and leave those that are kept; ``held``: who has which at a time."""
        begins = [start for _, start, _, _ in self.windows if time < start < time + job.request]
        left = list(free)
        for moment in [time, *begins, *moments] if self.parts else []:
            there = {name for name, start, end, _ in self.windows if name in self.parts and start <= moment < end}
            for node, cores in enumerate(self.nodes):
                own, rest, mine = 0, dict.fromkeys(there - {job.reservation}, 0), 0
                for one, nodes in held(moment):
                    mine += nodes.get(node, 0) if one.reservation == job.reservation else 0
                    if one.reservation in rest:
                        rest[one.reservation] += nodes.get(node, 0)
                    else:
                        own += nodes.get(node, 0)
                kept = sum(max(some, self.parts[name].get(node, 0)) for name, some in rest.items())
                left[node] = min(left[node], cores - own - kept)
                if job.reservation in self.parts and job.reservation not in self.flex:
                    left[node] = min(left[node], self.parts[job.reservation].get(node, 0) - mine)
        return [max(0, cores) for cores in left]

    def of_partition(self, job: J) -> set[int]:
        """The nodes of its partition."""
        return set(self.partitions[job.partition]) if job.partition else set(range(len(self.nodes)))

    def counts(self, job: J) -> tuple[str, int, int] | None:
        """The limit for which a job counts, how much, and of how much."""
        if job.array_limit:
            return f"array {job.array}", 1, job.array_limit
        if job.partition not in self.limits:
            return None
        per, measure, amount = self.limits[job.partition]
        whom = job.user if per == "user" else ""
        return f"{job.partition} {whom}", 1 if measure == "jobs" else job.tasks * job.cores, amount

    def possible(self, job: J) -> bool:
        """Whether a job could ever run."""
        counts = self.counts(job)
        own = {} if job.reservation in self.flex else self.parts.get(job.reservation, {})
        room = sum(own.get(node, self.nodes[node]) // job.cores for node in self.eligible(job))
        if (job.reservation and not self.openings(job)) or (self.seats and job.seats > self.seats):
            return False
        return room >= job.tasks and (counts is None or counts[1] <= counts[2])


def random_site(seed: int, jobs: int, exact: bool = False) -> RandomSite:
    """A site by a seed; ``exact``: jobs run for as long as they ask."""
    draw = np.random.default_rng(seed)
    count = int(draw.integers(2, 9))
    nodes = draw.integers(1, 7, count).tolist()
    partitions, limits = {}, {}
    for name in "abcd"[: int(draw.integers(1, 5))]:
        size = int(draw.integers(1, count + 1))
        partitions[name] = set(draw.choice(count, size, replace=False).tolist())
        if draw.random() < 0.5:
            per = "user" if draw.random() < 0.6 else "all"
            measure = "jobs" if draw.random() < 0.5 else "cores"
            limits[name] = per, measure, int(draw.integers(1, 4 if measure == "jobs" else 12))
    made, at = [], 0
    for _ in range(jobs):
        at += int(draw.exponential(25))
        request = int(draw.integers(5, 120))
        work = request if exact else int(draw.integers(1, request + 1))
        names = [*partitions, ""]
        made.append(J(at, work, request, int(draw.integers(1, 4)), int(draw.integers(1, 4)),
                      f"u{draw.integers(0, 3)}", names[int(draw.integers(0, len(names)))]))  # fmt: skip
    return RandomSite(nodes, partitions, limits, made)


def random_graph(seed: int, jobs: int) -> RandomSite:
    """A random site without limits, whose jobs wait for each other and for times, and whose arrays have limits."""
    site, draw = random_site(seed, jobs), np.random.default_rng(seed + 10**6)
    site.limits.clear()
    for number, job in enumerate(site.jobs):
        if number and draw.random() < 0.4:
            kinds = ("afterany", "afterok", "after", "afternotok")
            others = draw.choice(number, min(number, int(draw.integers(1, 3))), replace=False).tolist()
            job.after = tuple((kinds[int(draw.choice(4, p=(0.4, 0.3, 0.2, 0.1)))], other) for other in others)
        if draw.random() < 0.2:
            job.begin = job.submit + int(draw.integers(-20, 200))
        if draw.random() < 0.4:
            job.array = f"array{draw.integers(0, 3)}"
            job.array_limit = 1 + int(job.array[-1])
    return site


def random_reservations(seed: int, jobs: int, exact: bool = False) -> RandomSite:
    """A random site with windows in which nodes are kept for some jobs, or for none."""
    site, draw = random_site(seed, jobs, exact), np.random.default_rng(seed + 2 * 10**6)
    last = site.jobs[-1].submit
    for name in "xyz"[: int(draw.integers(1, 4))]:
        start, size = int(draw.integers(0, last)), int(draw.integers(1, len(site.nodes) + 1))
        nodes = set(draw.choice(len(site.nodes), size, replace=False).tolist())
        length, every = int(draw.integers(50, 400)), int(draw.integers(0, 300))
        often = int(draw.integers(2, 4)) if draw.random() < 0.5 else 1
        begins = [start + i * (length + every) for i in range(often)]
        site.windows += [(name, begin, begin + length, nodes) for begin in begins]
    for job in site.jobs:
        if draw.random() < 0.25:
            job.reservation = site.windows[int(draw.integers(0, len(site.windows)))][0]
            job.begin = next(iter(site.openings(job)), 0)
    return site


def random_licences(seed: int, jobs: int, exact: bool = False) -> RandomSite:
    """A random site with reservations that keep licences, with or without nodes, and some whose jobs run outside."""
    site, draw = random_reservations(seed, jobs, exact), np.random.default_rng(seed + 3 * 10**6)
    names = list(dict.fromkeys(name for name, *_ in site.windows))
    site.seats = left = int(draw.integers(2, 9))
    if draw.random() < 0.7:
        site.limits.clear()
    for name in names:
        if left and draw.random() < 0.8:
            site.keeps[name] = int(draw.integers(1, left + 1))
            left -= site.keeps[name]
        if draw.random() < 0.4:
            site.flex.add(name)
    site.bare = {name for name in site.keeps if draw.random() < 0.5}
    site.windows = [(name, a, b, set() if name in site.bare else nodes) for name, a, b, nodes in site.windows]
    for job in site.jobs:
        job.seats = int(draw.integers(0, 4)) if draw.random() < 0.7 else 0
        job.begin = next(iter(site.openings(job)), 0) if job.reservation else 0
    return site


def random_cores(seed: int, jobs: int, exact: bool = False) -> RandomSite:
    """A random site of larger nodes, of which reservations keep some cores, and a few whole nodes or licences."""
    site, draw = random_licences(seed, jobs, exact), np.random.default_rng(seed + 5 * 10**6)
    site.nodes = draw.integers(1, 13, len(site.nodes)).tolist()
    left = list(site.nodes)
    if draw.random() < 0.6:
        site.seats, site.keeps = 0, {}
        for job in site.jobs:
            job.seats = 0
        site.bare = set()
    for name in dict.fromkeys(name for name, *_ in site.windows if name not in site.bare):
        nodes = next(nodes for one, *_, nodes in site.windows if one == name)
        nodes = nodes or set(draw.choice(len(left), int(draw.integers(1, len(left) + 1)), replace=False).tolist())
        if draw.random() < 0.8 and all(left[node] for node in nodes):
            site.parts[name] = {node: int(draw.integers(1, left[node] + 1)) for node in sorted(nodes)}
        for node in nodes:
            left[node] -= site.parts.get(name, {}).get(node, 0)
        site.windows = [(one, a, b, nodes if one == name else own) for one, a, b, own in site.windows]
    for job in site.jobs:
        if draw.random() < 0.3:
            job.reservation = site.windows[int(draw.integers(0, len(site.windows)))][0]
        job.begin = next(iter(site.openings(job)), 0) if job.reservation else 0
    return site


def random_days(seed: int, jobs: int, exact: bool = False) -> RandomSite:
    """A random site, of which nodes are kept on some days of the week."""
    site, draw = random_site(seed, jobs, exact), np.random.default_rng(seed + 4 * 10**6)
    for job in site.jobs:
        job.submit, job.work, job.request = job.submit * 900, job.work * 600, job.request * 600
    for name in "xy"[: int(draw.integers(1, 3))]:
        first = datetime(2026, 1, 1) + timedelta(days=int(draw.integers(0, 7)))
        start, length = int(draw.integers(-86_400, 4 * 86_400)), int(draw.integers(3_600, 86_400))
        days = set(draw.choice(7, int(draw.integers(1, 7)), replace=False).tolist())
        nodes = set(draw.choice(len(site.nodes), int(draw.integers(1, len(site.nodes) + 1)), replace=False).tolist())
        dates = [first + timedelta(days=day) for day in range(28)]
        begins = [start + (date - first).days * 86_400 for date in dates if date.weekday() in days]
        site.windows += [(name, at, at + length, nodes) for at in begins if at + length > 0]
        site.said[name] = {
            "start": start, "duration": length, "every": "1 d", "until": start + 28 * 86_400,
            "days": [f"{first + timedelta(days=(day - first.weekday()) % 7):%a}".lower() for day in sorted(days)],
            "start_day": f"{first:%a}".lower(),
        }  # fmt: skip
    for job in site.jobs:
        if draw.random() < 0.25:
            job.reservation = site.windows[int(draw.integers(0, len(site.windows)))][0]
            job.begin = next(iter(site.openings(job)), 0)
    return site


def first_fit(free: list[int], eligible: set[int], job: J) -> dict[int, int] | None:
    """Node → cores."""
    found, left = {}, job.tasks
    for node in range(len(free)):
        here = min(left, free[node] // job.cores) if node in eligible else 0
        if here > 0:
            found[node] = here * job.cores
            left -= here
        if left == 0:
            return found
    return None


class Loop:
    """Runs jobs by a rule that starts some of those that wait."""

    def __init__(self, site: RandomSite) -> None:
        self.site = site
        self.free = list(site.nodes)
        self.held: dict[str, int] = {}
        self.running: dict[int, tuple[int, int, dict[int, int]]] = {}  # job → real end, booked end, nodes
        self.start: dict[int, int] = {}

    def seats_fit(self, job: J, time: float, now: int, *beside: tuple[float, J]) -> bool:
        """Whether there are seats for a job at a time, as booked; ``beside``: who else holds some, and until when."""
        ends = [(max(booked, now + 1e-6), self.site.jobs[number]) for number, (_, booked, _) in self.running.items()]
        return self.site.leaves_seats(job, time, lambda at: [one for end, one in (*ends, *beside) if end > at])

    def beside(self, job: J, time: float, now: int, free: list[int], *more: tuple[float, J, dict[int, int]]) -> Any:
        """Node → cores free for a job at a time, as booked; ``more``: who else has which, and until when."""
        runs = [
            (max(end, now + 1e-6), self.site.jobs[number], nodes) for number, (_, end, nodes) in self.running.items()
        ]
        return self.site.beside_cores(
            job, time, free, lambda at: [(one, nodes) for end, one, nodes in (*runs, *more) if end > at]
        )

    def room(self, job: J) -> bool:
        """Whether its limit leaves room."""
        counts = self.site.counts(job)
        return counts is None or self.held.get(counts[0], 0) + counts[1] <= counts[2]

    def fit(self, eligible: set[int], job: J) -> dict[int, int] | None:
        """Node → cores, of the first of these nodes that are free."""
        return first_fit(self.free, eligible, job)

    def begin(self, number: int, now: int, nodes: dict[int, int]) -> None:
        """A job starts."""
        job = self.site.jobs[number]
        for node, cores in nodes.items():
            self.free[node] -= cores
        if (counts := self.site.counts(job)) is not None:
            self.held[counts[0]] = self.held.get(counts[0], 0) + counts[1]
        self.running[number] = now + job.work, now + job.request, nodes
        self.start[number] = now

    def end(self, number: int) -> None:
        """A job ends."""
        job = self.site.jobs[number]
        for node, cores in self.running.pop(number)[2].items():
            self.free[node] += cores
        if (counts := self.site.counts(job)) is not None:
            self.held[counts[0]] -= counts[1]

    def run(self, decide: Any) -> dict[int, int]:
        """Job → start."""
        jobs, waiting, coming = self.site.jobs, list[int](), 0
        while True:
            times = [end for end, _, _ in self.running.values()]
            times += [jobs[coming].submit] if coming < len(jobs) else []
            times += self.wake(waiting)
            if not times:
                return self.start
            now = min(times)
            for number in [number for number, (end, _, _) in self.running.items() if end == now]:
                self.end(number)
            while coming < len(jobs) and jobs[coming].submit == now:
                if self.site.possible(jobs[coming]):
                    waiting.append(coming)
                coming += 1
            decide(self, waiting, now)
            waiting = [number for number in waiting if number not in self.start]

    def wake(self, waiting: list[int]) -> list[int]:
        """When else something is due."""
        return []


def fcfs(loop: Loop, waiting: list[int], now: int) -> None:
    """Who has no place closes its nodes, and its part of limits, to all that come later; limits close nothing."""
    site, closed, kept, seated = loop.site, set[int](), dict[str, int](), list[tuple[float, J]]()
    for number in waiting:
        job = site.jobs[number]
        counts = site.counts(job)
        if counts is not None and loop.held.get(counts[0], 0) + kept.get(counts[0], 0) + counts[1] > counts[2]:
            continue
        there = site.eligible(job, now) - closed
        nodes = first_fit(loop.beside(job, now, now, loop.free), there, job) if site.parts else loop.fit(there, job)
        if nodes is not None and loop.seats_fit(job, now, now, *seated):
            loop.begin(number, now, nodes)
            continue
        closed |= site.eligible(job)
        seated.append((float("inf"), job))
        if counts is not None:
            kept[counts[0]] = kept.get(counts[0], 0) + counts[1]


def easy(loop: Loop, waiting: list[int], now: int) -> None:
    """Heads whose nodes are apart from each other; nobody delays a head that is before him."""
    site, heads = loop.site, list[int]()
    shadows: dict[int, tuple[float, list[int], int]] = {}  # as of `shadow`
    for number in waiting:
        job = site.jobs[number]
        if not loop.room(job):
            continue
        free = loop.beside(job, now, now, loop.free)
        nodes = first_fit(free, site.eligible(job, now), job) if loop.seats_fit(job, now, now) else None
        met = [head for head in heads if site.eligible(site.jobs[head]) & site.eligible(job)]
        if nodes is None:
            if not met:
                heads.append(number)
            continue
        taken = []
        mine = site.counts(job)
        for head in heads:
            asked = site.jobs[head]
            its = site.counts(asked)
            same_limit = mine is not None and its is not None and mine[0] == its[0]
            if head not in met and not same_limit and not (job.seats and asked.seats):
                continue
            if head not in shadows:
                shadows[head] = shadow(loop, head, now)
            time, then, held = shadows[head]
            if now + job.request > time:
                left = [free - nodes.get(node, 0) for node, free in enumerate(then)]
                more = held + (mine[1] if same_limit and mine is not None else 0)
                then = loop.beside(asked, time, now, left, (now + job.request, job, nodes))
                room = sum(then[node] // asked.cores for node in site.eligible(asked, int(time)))
                short = room < asked.tasks or not loop.seats_fit(asked, time, now, (now + job.request, job))
                if short or (its is not None and more + its[1] > its[2]):
                    break
                taken.append((head, left, more))
        else:
            for head, left, more in taken:
                shadows[head] = shadows[head][0], left, more
            loop.begin(number, now, nodes)


def shadow(loop: Loop, head: int, now: int) -> tuple[float, list[int], int]:
    """When booked ends leave room for a head; what is free then, and how much is held of its limit."""
    site, job, free = loop.site, loop.site.jobs[head], list(loop.free)
    its = site.counts(job)
    held = 0 if its is None else loop.held.get(its[0], 0)
    ends = [(max(booked, now + 1e-6), number) for number, (_, booked, _) in loop.running.items()]
    ends = sorted(ends + [(float(t), -1) for _, *times, _ in site.windows for t in times if t > now])
    for i, (end, number) in enumerate(ends):
        for node, cores in loop.running[number][2].items() if number >= 0 else ():
            free[node] += cores
        other = site.counts(site.jobs[number]) if number >= 0 else None
        if its is not None and other is not None and other[0] == its[0]:
            held -= other[1]
        if i + 1 < len(ends) and ends[i + 1][0] == end:
            continue
        there = loop.beside(job, end, now, free)
        room = sum(there[node] // job.cores for node in site.eligible(job, int(end)))
        if room >= job.tasks and (its is None or held + its[1] <= its[2]) and loop.seats_fit(job, end, now):
            return end, free, held
    return float("inf"), free, held


class Graphed(Loop):
    """Jobs that wait for others: they come when what they wait for has come."""

    def run(self, decide: Any) -> dict[int, int]:
        """Job → start."""
        jobs = self.site.jobs
        ended: dict[int, bool] = {}  # whether it ran
        waiting: list[int] = []
        come: set[int] = set()
        while True:
            now = self.next_time(come, ended)
            if now is None:
                return self.start
            for number in [number for number, (end, _, _) in self.running.items() if end == now]:
                self.end(number)
                ended[number] = True
            again = True
            while again:
                again = False
                for number, job in enumerate(jobs):
                    if number in come or number in ended or job.submit > now:
                        continue
                    state = self.state(job, ended) if self.site.possible(job) else "never"
                    if state == "never":
                        ended[number] = False
                        again = True
                    elif state == "met" and job.begin <= now:
                        come.add(number)
                        again = True
            waiting = sorted(number for number in come if number not in self.start)
            for number in waiting:
                name = jobs[number].reservation
                if name and all(end <= now for one, _, end, _ in self.site.windows if one == name):
                    ended[number] = False
            waiting = [number for number in waiting if number not in ended]
            decide(self, waiting, now)

    def state(self, job: J, ended: dict[int, bool]) -> str:
        """Whether what it waits for has come, is open, or never comes."""
        answers = []
        for kind, other in job.after:
            if kind == "after":
                answers.append("met" if other in self.start or other in ended else "open")
            elif other not in ended:
                answers.append("open")
            else:
                fits = kind == "afterany" or (kind == "afterok") == ended[other]
                answers.append("met" if fits else "never")
        return "never" if "never" in answers else "open" if "open" in answers else "met"

    def next_time(self, come: set[int], ended: dict[int, bool]) -> int | None:
        """When something happens next; ``None``: nothing does."""
        last = max([-1, *self.seen])
        times = [end for end, _, _ in self.running.values()]
        if waiting := come - set(self.start) - set(ended):
            times += [end for _, _, end, _ in self.site.windows if end > last]
            wanted = {self.site.jobs[number].reservation for number in waiting}
            times += [start for name, start, _, _ in self.site.windows if start > last and name in wanted]
        for number, job in enumerate(self.site.jobs):
            if number in come or number in ended:
                continue
            if job.submit > last:
                times.append(job.submit)
            elif self.state(job, ended) == "met":
                times.append(max(job.begin, last))
        now = min(times, default=None)
        if now is not None:
            self.seen.append(now)
        return now

    @property
    def seen(self) -> list[int]:
        """The times at which something happened."""
        return self.__dict__.setdefault("_seen", [])


class Reserving(Loop):
    """Every job gets the first time and nodes that disturb nobody when it comes; jobs run for as long as they ask."""

    def __init__(self, site: RandomSite) -> None:
        super().__init__(site)
        self.booked: list[tuple[int, int, int, dict[int, int]]] = []  # job, start, end, nodes

    def wake(self, waiting: list[int]) -> list[int]:
        """The starts that are reserved."""
        return [start for number, start, _, _ in self.booked if number not in self.start]

    def decide(self, _: Loop, waiting: list[int], now: int) -> None:
        """Reserve for those who are new; start whose time it is."""
        known = {number for number, *_ in self.booked}
        for number in waiting:
            if number not in known:
                self.reserve(number, now)
        for number, start, _, nodes in self.booked:
            if start == now and number not in self.start:
                self.begin(number, now, nodes)

    def reserve(self, number: int, now: int) -> None:
        """The first time at which it disturbs nobody."""
        site, job = self.site, self.site.jobs[number]
        counts = site.counts(job)
        windows = [t for _, start, end, _ in site.windows for t in (start, end)]
        moments = sorted({now, *(t for _, start, end, _ in self.booked for t in (start, end) if t > now)}
                         | {t for t in windows if t > now})  # fmt: skip
        for time in moments:
            inside = [time, *(t for t in moments if time < t < time + job.request)]
            free, held = list(site.nodes), 0
            least, most = list(site.nodes), 0
            for moment in inside:
                free, held = list(site.nodes), 0
                for other, start, end, nodes in self.booked:
                    if start <= moment < end:
                        for node, cores in nodes.items():
                            free[node] -= cores
                        mine = site.counts(site.jobs[other])
                        if counts is not None and mine is not None and mine[0] == counts[0]:
                            held += mine[1]
                least, most = [min(pair) for pair in zip(least, free, strict=True)], max(most, held)
            if counts is not None and most + counts[1] > counts[2]:
                continue
            if not site.leaves_seats(
                job,
                time,
                lambda at: [site.jobs[one] for one, start, end, _ in self.booked if start <= at < end],
                inside,
            ):
                continue
            least = site.beside_cores(
                job,
                time,
                least,
                lambda at: [(site.jobs[one], nodes) for one, start, end, nodes in self.booked if start <= at < end],
                inside,
            )
            if (nodes := first_fit(least, site.eligible(job, time), job)) is not None:
                self.booked.append((number, time, time + job.request, nodes))
                return
        assert job.reservation, "every other possible job has a time"
