"""Random sites with preemption, and schedulers in plain Python that know nothing of the engine."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from twins import J, Loop, RandomSite, fcfs, random_site

from unrack.cluster.spec import Cluster
from unrack.workload.formats.rules import Intake
from unrack.workload.job import Workload, job_table


@dataclass
class PreemptingSite(RandomSite):
    """A random site whose partitions have tiers."""

    tiers: dict[str, int] = field(default_factory=dict)
    modes: dict[str, str] = field(default_factory=dict)
    victims: str = "youngest"
    exempt: int = 0

    @property
    def cluster(self) -> Cluster:
        """As a cluster."""
        partitions = []
        for name, nodes in self.partitions.items():
            table: dict[str, Any] = {"name": name, "nodes": [str(node) for node in sorted(nodes)]}
            table |= {"tier": self.tiers[name], "preempt_mode": self.modes[name]}
            if name in self.limits:
                per, measure, amount = self.limits[name]
                table["limits"] = [{"per": per, "amounts": {measure: amount}}]
            partitions.append(table)
        preempt = {"by": "partition", "victims": self.victims, "exempt_time": self.exempt}
        return Cluster.from_dict({"nodes": self.classes, "site": {"partitions": partitions, "preempt": preempt}})

    @property
    def classes(self) -> list[dict[str, Any]]:
        """The nodes."""
        return [{"count": 1, "cores": cores} for cores in self.nodes]

    def may(self, one: J, other: J) -> bool:
        """Whether one job may preempt another."""
        if not one.partition or not other.partition or self.modes[other.partition] == "off":
            return False
        return self.tiers[one.partition] > self.tiers[other.partition]


def preempting_site(seed: int, jobs: int = 60) -> PreemptingSite:
    """A site by a seed; its ``exempt`` is 0 in half of them."""
    site, draw = random_site(seed, jobs), np.random.default_rng(seed + 7)
    ladder = draw.permutation(len(site.partitions)).tolist()
    tiers = {name: 1 + (tier if seed % 3 else tier // 2) for name, tier in zip(site.partitions, ladder, strict=True)}
    modes = {name: str(draw.choice(["requeue", "requeue", "cancel", "checkpoint", "off"])) for name in site.partitions}
    for number, job in enumerate(site.jobs):
        job.submit = job.submit * 400 + 3 * number  # hardly any two things happen at once
        job.work, job.request = job.work * 1000 + 7 * number, job.request * 1000 + 11 * number + 60_000
    exempt = int(draw.choice([0, 0, 10_000, 40_000]))
    return PreemptingSite(site.nodes, site.partitions, site.limits, site.jobs, tiers=tiers, modes=modes, exempt=exempt)


class Preempting(Loop):
    """First come, first served; who may preempt others stops the youngest of them, as few as will do."""

    site: PreemptingSite

    def __init__(self, site: PreemptingSite) -> None:
        super().__init__(site)
        self.since: dict[int, int] = {}
        self.attempts: list[tuple[int, int, int, str]] = []  # job, start, end, outcome
        self.done: dict[int, int] = {}
        self.cancelled: set[int] = set()
        self.requeued: list[int] = []
        self.for_whom: list[tuple[int, int, int]] = []

    def begin(self, number: int, now: int, nodes: dict[int, int]) -> None:
        """A job starts, or goes on."""
        super().begin(number, now, nodes)
        job, done = self.site.jobs[number], self.done.get(number, 0)
        self.running[number] = now + job.work - done, max(now, now + job.request - done), nodes
        self.since[number] = now

    def end(self, number: int) -> None:
        """A job ends."""
        self.attempts.append((number, self.since[number], self.running[number][0], "finished"))
        super().end(number)

    def run(self, decide: Any) -> dict[int, int]:
        """Job → its last start."""
        jobs, waiting, coming = self.site.jobs, list[int](), 0
        while True:
            times = [end for end, _, _ in self.running.values()]
            times += [jobs[coming].submit] if coming < len(jobs) else []
            hungry = [n for n in waiting if any(self.site.may(jobs[n], jobs[v]) for v in self.running)]
            if hungry:
                now = self.now
                times += [t for v in self.running if (t := self.since[v] + self.site.exempt) > now]
            if not times:
                return self.start
            now = self.now = min(times)
            for number in [number for number, (end, _, _) in self.running.items() if end == now]:
                self.end(number)
            while coming < len(jobs) and jobs[coming].submit == now:
                if self.site.possible(jobs[coming]):
                    waiting.append(coming)
                coming += 1
            again = True
            while again:
                before = set(self.running)
                self.trial(waiting, now)
                fresh = set(self.running) - before
                again = self.preempt(waiting, now, fresh)
                gone = self.cancelled | set(self.running)
                waiting = sorted({*waiting, *self.requeued} - gone)
                self.requeued.clear()

    now = -1

    def trial(self, waiting: list[int], now: int) -> None:
        """First come, first served."""
        fcfs(self, [number for number in waiting if number not in self.running], now)

    def copy(self) -> Preempting:
        """What may be changed without changing this."""
        twin = Preempting(self.site)
        twin.free, twin.held, twin.running = list(self.free), dict(self.held), dict(self.running)
        twin.start, twin.done, twin.since = dict(self.start), dict(self.done), dict(self.since)
        return twin

    def place(self, victims: list[int], jobs: list[int], number: int, now: int) -> dict[int, int] | None:
        """The nodes of a job once some are stopped, and nobody waits but these jobs."""
        twin = self.without(victims)
        fcfs(twin, jobs, now)
        return twin.running[number][2] if number in twin.running else None

    def without(self, victims: list[int]) -> Any:
        """What would be without some."""
        twin = self.copy()
        for victim in victims:
            Loop.end(twin, victim)
        return twin

    def waits(self, number: int, before: list[int], able: list[int], now: int) -> bool:
        """Whether a job has a place, as has one before it for which it is not yet its turn."""
        rights = self.rights(self.site.jobs[number])
        behind = [n for n in able[able.index(number) :] if self.rights(self.site.jobs[n]) == rights]
        twin = self.without([])
        fcfs(twin, sorted([*before, *(n for n in behind if n not in self.running)]), now)
        return not twin.running.keys().isdisjoint(before) and self.place([], [number], number, now) is not None

    def preempt(self, waiting: list[int], now: int, fresh: set[int]) -> bool:
        """Stop some for others; whether somebody was."""
        site, jobs, ahead, mine = self.site, self.site.jobs, list[int](), set[int]()
        able = [
            n
            for n in waiting
            if n not in self.running and any(site.may(jobs[n], J(0, 0, 0, 0, 0, "", name)) for name in site.partitions)
        ]
        some = False
        able = sorted(able, key=lambda n: -self.height(jobs[n]))
        for number in able:
            own = [
                v
                for v in self.running
                if site.may(jobs[number], jobs[v])
                and v not in mine
                and (v in fresh or now - self.since[v] >= site.exempt)
            ]
            own.sort(key=lambda v: (v not in fresh, -self.since[v], -v))
            before = [n for n in ahead if self.rights(jobs[number]) <= self.rights(jobs[n])]
            line = sorted([*before, number])
            if not own or self.place(own, line, number, now) is None or self.waits(number, before, able, now):
                ahead.append(number)
                continue
            count = next(k for k in range(len(own) + 1) if self.place(own[:k], line, number, now) is not None)
            nodes = self.place(own[:count], line, number, now)
            assert nodes is not None
            needed = own[:count]
            for victim in needed[::-1]:
                fewer = [v for v in needed if v != victim]
                other = nodes if self.fits(fewer, number, nodes) else self.place(fewer, line, number, now)
                if other is not None:
                    needed, nodes = fewer, other
            if not needed:
                ahead.append(number)
                continue
            some = True
            for victim in needed:
                self.stop(victim, now, victim in fresh)
                self.for_whom.append((now, victim, number))
            self.begin(number, now, nodes)
            mine.add(number)
        return some

    def height(self, job: J) -> int:
        """How many tiers of others are below, each of which may be preempted."""
        below = {self.site.tiers[name] for name in self.rights(job)}
        return len(below)

    def rights(self, job: J) -> set[str]:
        """The partitions whose jobs it may preempt."""
        return {name for name in self.site.partitions if self.site.may(job, J(0, 0, 0, 0, 0, "", name))}

    def fits(self, victims: list[int], number: int, nodes: dict[int, int]) -> bool:
        """Whether these nodes are free once some are stopped."""
        twin = self.copy()
        for victim in victims:
            Loop.end(twin, victim)
        return twin.room(self.site.jobs[number]) and all(twin.free[node] >= cores for node, cores in nodes.items())

    def stop(self, victim: int, now: int, fresh: bool) -> None:
        """A job is stopped."""
        mode = self.site.modes[self.site.jobs[victim].partition]
        Loop.end(self, victim)
        since = self.since[victim]
        if fresh:
            return
        self.attempts.append((victim, since, now, "preempted"))
        self.requeued.append(victim)
        if mode == "checkpoint":
            self.done[victim] = self.done.get(victim, 0) + now - since
        if mode == "cancel":
            self.cancelled.add(victim)


DRIVES = {"name": "drives", "kind": "nvme", "count": 4, "compose": 3, "share": 6,
          "quantities": {"bandwidth_mb_s": 2000, "capacity_mb": 600_000}}  # fmt: skip
ORDER = {"high": {"normal", "standby"}, "normal": {"standby"}, "low": {"standby"}}
"""Quality of service → those whose jobs its own may preempt."""


def mixed_site(seed: int, count: int = 40) -> tuple[Cluster, Workload]:
    """Nodes that may lend, drives that are composed and shared, licences, limits; by quality of service."""
    draw = np.random.default_rng(seed)
    modes = {name: str(draw.choice(["requeue", "requeue", "cancel", "checkpoint"])) for name in ("normal", "standby")}
    qos: list[dict[str, Any]] = [
        {"name": "high", "preempts": ["normal", "standby"], "limits": [{"per": "user", "amounts": {"cores": 9}}]},
        {"name": "normal", "preempts": ["standby"], "preempt_mode": modes["normal"]},
        {"name": "low", "preempts": ["standby"]},
        {"name": "standby", "preempt_mode": modes["standby"]},
    ]
    preempt = {
        "by": "qos", "victims": str(draw.choice(["youngest", "lowest", "fewest", "cheapest"])),
        "exempt_time": int(draw.choice([0, 0, 30])),
    }  # fmt: skip
    cluster = Cluster.from_dict({
        "nodes": [{"count": 3, "cores": 4, "memory": 8}, {"count": 2, "cores": 6, "memory": 16}],
        "counted": [{"name": "matlab", "amount": 3}], "pools": [DRIVES] if seed % 2 else [],
        "site": {"qos": qos, "preempt": preempt, "limits": [{"per": "user", "amounts": {"jobs": 5}}]},
    })  # fmt: skip
    submit = np.sort(draw.integers(0, 700, count)) * 10**6
    work = draw.integers(5, 120, count) * 10**6
    asks = draw.random(count) < 0.4 * (seed % 2)
    devices = {("nvme", name): np.where(asks, most, 0) for name, most in
               {"bandwidth_mb_s": 1800, "capacity_mb": 40_000}.items()} if seed % 2 else {}  # fmt: skip
    names = draw.choice(["high", "normal", "low", "standby", "standby", ""], count)
    jobs = job_table(
        submit_us=submit, work_us=work, request_us=work + draw.integers(0, 6, count) * 10**7,
        tasks=draw.integers(1, 4, count), cores=draw.integers(1, 4, count), memory_mb=draw.integers(0, 8, count),
        user=pl.Series([f"u{n}" for n in draw.integers(0, 3, count)]), extra=pl.DataFrame({"qos": names.tolist()}),
        devices={("counted", "matlab"): draw.integers(0, 3, count), **devices},
    )  # fmt: skip
    return cluster, Workload("random", jobs, Intake("", "", 0, 0))
