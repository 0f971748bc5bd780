"""Random sites whose jobs are suspended for others, and a scheduler in plain Python that knows no engine."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from preempting import DRIVES, Preempting, PreemptingSite, preempting_site
from twins import J, Loop

from unrack.cluster.spec import Cluster
from unrack.workload.formats.rules import Intake
from unrack.workload.job import Workload, job_table


@dataclass
class SuspendingSite(PreemptingSite):
    """A random site with tiers, whose nodes have memory."""

    memory: list[int] = field(default_factory=list)

    @property
    def classes(self) -> list[dict[str, Any]]:
        """The nodes."""
        both = zip(self.nodes, self.memory, strict=True)
        return [{"count": 1, "cores": cores, "memory": f"{mb} MB"} for cores, mb in both]

    def possible(self, job: J) -> bool:
        """Whether a job could ever run."""
        room = sum(self.tasks_on(self.nodes[node], self.memory[node], job) for node in self.eligible(job))
        return super().possible(job) and room >= job.tasks

    def tasks_on(self, cores: int, mb: int, job: J) -> int:
        """How many tasks of a job fit."""
        return min(cores // job.cores, mb // job.memory if job.memory else cores)


def suspending_site(seed: int, jobs: int = 60) -> SuspendingSite:
    """A site by a seed, where most jobs are suspended if they are preempted, and memory binds."""
    site, draw = preempting_site(seed, jobs), np.random.default_rng(seed + 77)
    if len(site.partitions) == 1:
        site.partitions["z"] = set(range(len(site.nodes)))
    tiers = {name: 1 + tier for tier, name in enumerate(draw.permutation(list(site.partitions)).tolist())}
    modes = {name: str(draw.choice(["suspend"] * 5 + ["requeue", "cancel", "off"])) for name in tiers}
    for name, nodes in site.partitions.items():
        nodes |= set(range(len(site.nodes))) if draw.random() < 0.6 else set()
        if draw.random() < 0.6:
            site.limits.pop(name, None)
    for number, job in enumerate(site.jobs):
        job.partition = str(draw.choice(list(site.partitions)))
        job.submit = job.submit // 2 + number
        job.memory = int(draw.choice([0, 100, 100, 200, 400]))
    memory = [int(draw.integers(6, 20)) * 100 for _ in site.nodes]
    return SuspendingSite(site.nodes, site.partitions, site.limits, site.jobs, tiers=tiers, modes=modes,
                          exempt=site.exempt, memory=memory)  # fmt: skip


class Suspending(Preempting):
    """First come, first served; who may preempt others suspends the youngest of them, as few as will do.

    A suspended job keeps its memory and counts for its limits. What is free of its cores is kept for it from all but
    those that may preempt it, and it goes on when all are free.
    """

    site: SuspendingSite

    def __init__(self, site: SuspendingSite) -> None:
        super().__init__(site)
        self.free_mb = list(site.memory)
        self.asleep: dict[int, tuple[dict[int, int], int]] = {}  # job → its nodes, the work that is left
        self.hidden = [0] * len(site.nodes)  # cores that are kept
        self.fell: dict[int, int] = {}
        self.spans: dict[int, list[tuple[int, int, bool]]] = {}
        self.told: list[tuple[int, int, int, bool, str]] = []  # job, from, until, whether it ran, outcome

    def fit(self, eligible: set[int], job: J) -> dict[int, int] | None:
        """Node → cores, of the first of these nodes that are free."""
        found, left = {}, job.tasks
        for node in sorted(eligible):
            here = min(left, self.site.tasks_on(self.free[node] - self.hidden[node], self.free_mb[node], job))
            if here > 0:
                found[node] = here * job.cores
                left -= here
            if left == 0:
                return found
        return None

    def mb(self, number: int, nodes: dict[int, int]) -> dict[int, int]:
        """Node → MB."""
        job = self.site.jobs[number]
        return {node: cores // job.cores * job.memory for node, cores in nodes.items()}

    def begin(self, number: int, now: int, nodes: dict[int, int]) -> None:
        """A job starts."""
        super().begin(number, now, nodes)
        for node, mb in self.mb(number, nodes).items():
            self.free_mb[node] -= mb
        self.fell[number] = now

    def leave(self, number: int) -> None:
        """A job gives all back."""
        for node, mb in self.mb(number, self.running[number][2]).items():
            self.free_mb[node] += mb
        Loop.end(self, number)

    def end(self, number: int) -> None:
        """A job ends."""
        self.tell(number, self.running[number][0], "finished")
        self.leave(number)

    def tell(self, number: int, now: int, outcome: str) -> None:
        """An attempt is over."""
        spans = [*self.spans.pop(number, []), (self.fell[number], now, True)]
        spans = spans if len(spans) == 1 else [one for one in spans if one[0] < one[1]]
        self.told += [(number, start, end, ran, outcome) for start, end, ran in spans]

    def order(self) -> list[int]:
        """In which those that sleep go on."""
        return sorted(self.asleep, key=lambda n: (-self.height(self.site.jobs[n]), self.since[n], n))

    def hide(self, but: list[int]) -> None:
        """Keep what is free of their cores for those that sleep, but for some."""
        self.hidden = [0] * len(self.free)
        for number in self.order():
            for node, cores in self.asleep[number][0].items() if number not in but else ():
                self.hidden[node] += max(0, min(cores, self.free[node] - self.hidden[node]))

    def copy(self) -> Suspending:
        """What may be changed without changing this."""
        twin = Suspending(self.site)
        twin.free, twin.held, twin.running = list(self.free), dict(self.held), dict(self.running)
        twin.start, twin.done, twin.since = dict(self.start), dict(self.done), dict(self.since)
        twin.free_mb, twin.asleep, twin.fresh, twin.now = list(self.free_mb), dict(self.asleep), self.fresh, self.now
        return twin

    fresh: set[int] = set()  # noqa: RUF012  # who has just been started

    def sleeps(self, victim: int) -> bool:
        """Whether a job that runs is suspended if it is preempted."""
        mode = self.site.modes[self.site.jobs[victim].partition]
        return mode == "suspend" and victim not in self.fresh and self.since[victim] < self.now

    def without(self, victims: list[int]) -> Suspending:
        """What would be without some."""
        twin = self.copy()
        for victim in victims:
            if victim in twin.asleep:
                continue
            if self.sleeps(victim):
                twin.sleep(victim)
            else:
                twin.leave(victim)
        twin.hide(victims)
        return twin

    def sleep(self, victim: int) -> None:
        """A job gives its cores back."""
        end, _, nodes = self.running.pop(victim)
        for node, cores in nodes.items():
            self.free[node] += cores
        self.asleep[victim] = nodes, end - self.now

    def fits(self, victims: list[int], number: int, nodes: dict[int, int]) -> bool:
        """Whether these nodes are free once some are stopped."""
        twin, mb = self.without(victims), self.mb(number, nodes)
        enough = all(twin.free[n] - twin.hidden[n] >= cores and twin.free_mb[n] >= mb[n] for n, cores in nodes.items())
        return twin.room(self.site.jobs[number]) and enough

    def trial(self, waiting: list[int], now: int) -> None:
        """First come, first served, on what is not kept."""
        self.hide([])
        super().trial([number for number in waiting if number not in self.asleep], now)

    def preempt(self, waiting: list[int], now: int, fresh: set[int]) -> bool:
        """Suspend or stop some for others; then let go on who can; whether somebody was stopped."""
        self.fresh = fresh - set(self.asleep)
        some = self.look([number for number in waiting if number not in self.asleep], now)
        free = list(self.free)
        for number in self.order():
            nodes, left = self.asleep[number]
            if all(free[node] >= cores for node, cores in nodes.items()):
                del self.asleep[number]
                self.spans[number].append((self.fell[number], now, False))
                for node, cores in nodes.items():
                    self.free[node] -= cores
                self.since[number] += now - self.spans[number][-1][0]
                self.fell[number] = now
                self.running[number] = now + left, now + left, nodes
            for node, cores in nodes.items():
                free[node] -= min(cores, free[node])
        return some

    def look(self, waiting: list[int], now: int) -> bool:
        """Who gets a place instead of others."""
        site, jobs, ahead, mine, some = self.site, self.site.jobs, list[int](), set[int](), False
        able = [n for n in waiting if n not in self.running and self.rights(jobs[n])]
        able = sorted(able, key=lambda n: -self.height(jobs[n]))
        for number in able:
            own = [v for v in self.running if site.may(jobs[number], jobs[v]) and v not in mine]
            own = [v for v in own if v in self.fresh or now - self.since[v] >= site.exempt]
            own += [v for v in self.asleep if site.may(jobs[number], jobs[v])]
            own.sort(key=lambda v: (v not in self.fresh and v not in self.asleep, -self.since[v], -v))
            before = [n for n in ahead if self.rights(jobs[number]) <= self.rights(jobs[n])]
            line = sorted([*before, number])
            needed: list[int] = []
            waits = self.waits(number, before, able, now)
            if own and self.place(own, line, number, now) is not None and not waits:
                count = next(k for k in range(len(own) + 1) if self.place(own[:k], line, number, now) is not None)
                nodes, needed = self.place(own[:count], line, number, now), own[:count]
                assert nodes is not None
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
                if victim not in self.asleep:
                    self.stop(victim, now, victim in self.fresh)
                self.for_whom.append((now, victim, number))
            self.begin(number, now, nodes)
            mine.add(number)
        return some

    def stop(self, victim: int, now: int, fresh: bool) -> None:
        """A job is suspended or stopped."""
        if self.sleeps(victim):
            self.spans.setdefault(victim, []).append((self.fell[victim], now, True))
            self.fell[victim] = now
            self.sleep(victim)
            return
        if not fresh:
            self.tell(victim, now, "preempted")
            self.requeued.append(victim)
        self.leave(victim)
        if not fresh and self.site.modes[self.site.jobs[victim].partition] == "cancel":
            self.cancelled.add(victim)


def suspended_twin(site: SuspendingSite) -> Suspending:
    """A twin that has run."""
    twin: Any = Suspending(site)
    twin.run(None)
    return twin


def mixed_suspending_site(seed: int, count: int = 50) -> tuple[Cluster, Workload]:
    """Nodes that may lend, drives, licences and windows, whose jobs of lower tiers are suspended."""
    draw = np.random.default_rng(seed)
    partitions: list[dict[str, Any]] = [
        {"name": "low", "nodes": ["0", "1", "2", "3", "4"], "tier": 1},
        {
            "name": "mid",
            "nodes": ["0", "1", "2", "3"],
            "tier": 2,
            "preempt_mode": str(draw.choice(["suspend", "requeue"])),
        },
        {"name": "high", "nodes": ["1", "2", "3", "4"], "tier": 3},
    ]
    windows = [{"name": "w", "start": 200, "duration": 60, "nodes": ["2", "3"], "maintenance": True}] * (seed % 3 == 0)
    preempt = {"by": "partition", "mode": "suspend", "victims": str(draw.choice(["youngest", "fewest", "cheapest"])),
               "exempt_time": int(draw.choice([0, 0, 15]))}  # fmt: skip
    cluster = Cluster.from_dict({
        "nodes": [{"count": 3, "cores": 4, "memory": "8 GB"}, {"count": 2, "cores": 6, "memory": "8 GB"}],
        "counted": [{"name": "matlab", "amount": 4}], "pools": [DRIVES] if seed % 2 else [],
        "site": {"partitions": partitions, "preempt": preempt, "reservations": windows},
    })  # fmt: skip
    submit, work = np.sort(draw.integers(0, 600, count)) * 10**6, draw.integers(5, 90, count) * 10**6
    asks = draw.random(count) < 0.4 * (seed % 2)
    devices = {("nvme", name): np.where(asks, most, 0) for name, most in
               {"bandwidth_mb_s": 600, "capacity_mb": 40_000}.items()} if seed % 2 else {}  # fmt: skip
    jobs = job_table(
        submit_us=submit, work_us=work, request_us=work + draw.integers(0, 6, count) * 10**7,
        tasks=draw.integers(1, 5, count), cores=draw.integers(1, 4, count), memory_mb=draw.integers(0, 3000, count),
        user=pl.Series([f"u{n}" for n in draw.integers(0, 3, count)]),
        extra=pl.DataFrame({"partition": draw.choice(["low", "low", "mid", "high", ""], count).tolist()}),
        devices={("counted", "matlab"): draw.integers(0, 2, count), **devices},
    )  # fmt: skip
    return cluster, Workload("random", jobs, Intake("", "", 0, 0))
