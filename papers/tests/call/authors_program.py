"""The disaggregation-aware policy as its authors' program has it, once more: plain Python, a clock in whole seconds.

Written from the description of that program in docs/reproductions.md, without a look at it or at the engine: its own
events, queue, nodes, drives and rules. Where the description leaves something open, :class:`Open` has the answer taken
and the others. ``python tests/papers/call/authors_program.py`` prints how many starts each of those changes.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, inf
from typing import NamedTuple

import numpy as np

from unrack.workload.generate.generator import generate
from unrack.workload.job import Workload

SMUFIN = "smufin"
TIMES = (
    (1489.15, 1601.25, 1677.35, 1936.245, 2411.56, 2802.62),
    (1455.48, 1455.45, 1474.12, 1569.89, 1668.35, 1835.62),
    (1478.5, 1461.5, 1513.0, 1550.5, 1578.5, 1618.5),
)
BANDWIDTH, CAPACITY = 2000, 600
POOL, ATTACHED = ((10, (0, 1, 2, 3, 4)),), ((4, (0,)), (6, (2,)))
"""Racks: how many drives, and the nodes that reach them."""


class Open(NamedTuple):
    """What the description leaves open; the first of each is taken."""

    late_at_deadline: bool = False  # a job is late after its deadline, or already at it
    one_device: str = "late"  # which jobs get one device: late, begun (would be late if begun now), none
    low_strict: bool = False  # the low threshold: at most, or below
    seconds: str = "cut"  # model times: cut, nearest, up
    every_second: bool = True  # the queue is gone through every second, or at arrivals and ends only
    from_head: bool = False  # after a start: on from there, or again from the head
    rule_per_round: bool = False  # the loads are taken at every job, or once a round
    protected: str = (
        "all"  # who is protected: all, timely (sharers that are not late), from-timely (but from late ones)
    )
    quotients: str = "signed"  # eq. 2, what is free of an oversubscribed composition: signed, one (counts as 1)
    cores: str = "one"  # eq. 2, the quotient of cores: one, whole (0: infinite), float
    ties: int = 1  # equal deadlines: by submission, or the other way round (-1)
    by_age: bool = False  # equal candidates: the lowest drive first, or the oldest composition


TAKEN = Open()


class Job(NamedTuple):
    """What a job asks; times in s, MB/s, GB."""

    at: int
    due: int
    base: int
    cores: int
    bandwidth: int
    capacity: int
    app: str


@dataclass
class Composition:
    """Drives of one rack, attached to a node."""

    rack: int
    drives: list[int]
    node: int
    app: str
    born: int
    jobs: list[int] = field(default_factory=list)


class Running(NamedTuple):
    """A job that runs: it ends when it was said to, whoever joins."""

    end: int
    took: int
    node: int
    on: Composition | None


Place = tuple[int, Composition | None, tuple[int, int] | None]
"""The node; the composition to join; or the rack and how many drives of it."""


class Program:
    """The data centre of five nodes of 25 cores under one rule: ``aware``, ``max`` or ``min``."""

    def __init__(
        self, jobs: Sequence[Job], racks: Sequence[tuple[int, Sequence[int]]], rule: str, how: Open = TAKEN
    ) -> None:
        self.jobs, self.racks, self.rule, self.how = jobs, racks, rule, how
        self.cores = [25] * 5
        self.free: list[list[int]] = []
        for count, _ in racks:
            first = sum(map(len, self.free))
            self.free.append(list(range(first, first + count)))
        self.drives = sum(count for count, _ in racks)
        self.compositions: list[Composition] = []
        self.made = 0
        self.running: dict[int, Running] = {}
        self.starts: list[int] = [-1] * len(jobs)
        self.pressing = False

    def run(self) -> list[int]:
        """Seconds at which the jobs start."""
        queue: list[int] = []
        coming, now = 0, 0
        while coming < len(self.jobs) or queue or self.running:
            self.finish(now)
            while coming < len(self.jobs) and self.jobs[coming].at <= now:
                queue.append(coming)
                coming += 1
            queue.sort(key=lambda job: (self.jobs[job].due, self.how.ties * job))
            started = self.round(queue, now)
            moments = [one.end for one in self.running.values()]
            moments += [self.jobs[coming].at] if coming < len(self.jobs) else []
            if queue and self.how.every_second:  # at the seconds that are left out, nothing can have changed
                moments += [now + 1] if started or self.pressing else []
                turns = (turn for job in queue for turn in self.turns(job))
                moments += [turn for turn in turns if turn > now]
            if not moments:
                break
            now = min(moments)
        return self.starts

    def round(self, queue: list[int], now: int) -> bool:
        """Go through the queue; whether a job was started."""
        self.pressing = started = False
        rule, todo = self.rule_now(), list(queue)
        while todo:
            job = todo.pop(0)
            if not self.how.rule_per_round:
                rule = self.rule_now()
            place = self.place(job, now, rule)
            if place is None:
                continue
            self.start(job, now, place)
            queue.remove(job)
            started = True
            if self.how.from_head:
                todo = list(queue)
        return started

    def turns(self, job: int) -> tuple[int, int]:
        """From when on a job is late, and would be if it were begun."""
        one = self.jobs[job]
        return one.due + (not self.how.late_at_deadline), one.due - one.base + 1

    def rule_now(self) -> str:
        if self.rule != "aware":
            return self.rule
        asked = [self.jobs[job] for job in self.running]
        bandwidth = sum(job.bandwidth for job in asked) / (BANDWIDTH * self.drives)
        capacity = sum(job.capacity for job in asked) / (CAPACITY * self.drives)
        relaxed = max(bandwidth, capacity) < 0.5 if self.how.low_strict else max(bandwidth, capacity) <= 0.5
        return "max" if relaxed or (bandwidth >= 0.7 and capacity < 0.7) else "min"

    def time(self, job: Job, drives: int, sharers: int) -> float:
        if job.app != SMUFIN:
            return job.base
        if sharers > 6:
            return inf
        time = TIMES[min(drives, 3) - 1][sharers - 1]
        return {"cut": int(time), "nearest": int(time + 0.5), "up": ceil(time)}[self.how.seconds]

    def late(self, job: int, now: int) -> bool:
        return now >= self.turns(job)[0]

    def place(self, job: int, now: int, rule: str) -> Place | None:
        one = self.jobs[job]
        nodes = [node for node, cores in enumerate(self.cores) if cores >= one.cores]
        if rule == "min":
            nodes.sort(key=lambda node: -self.cores[node])
        if not nodes:
            return None
        if one.capacity == 0:
            return nodes[0], None, None
        return self.join(job, now, rule, nodes) or self.compose(job, now, rule, nodes)

    def join(self, job: int, now: int, rule: str, nodes: list[int]) -> Place | None:
        one, late = self.jobs[job], self.late(job, now)
        found: list[tuple[tuple[float, ...], int, Composition]] = []
        for made in sorted(self.compositions, key=lambda made: made.born if self.how.by_age else made.drives[0]):
            size, sharers = len(made.drives), len(made.jobs)
            bandwidth = BANDWIDTH * size - sum(self.jobs[other].bandwidth for other in made.jobs)
            capacity = CAPACITY * size - sum(self.jobs[other].capacity for other in made.jobs)
            if made.node not in nodes or (SMUFIN in (one.app, made.app) and one.app != made.app):
                continue
            if one.app != SMUFIN and (one.bandwidth > bandwidth or one.capacity > capacity):
                continue
            if self.time(one, size, sharers + 1) == inf:
                continue
            if self.harmed(made, job, now):
                self.pressing = True
                continue
            expected = self.time(one, size, sharers) if rule == "max" else one.base
            if not late and now + expected > one.due:
                continue
            if rule == "max":
                lives = max(self.running[other].end for other in made.jobs) - now
                key = (expected - lives, bandwidth - one.bandwidth + capacity - one.capacity)
            else:
                key = (self.fragmentation(one, made.node, bandwidth, capacity),)
            found.append((key, len(found), made))
        return (min(found)[2].node, min(found)[2], None) if found else None

    def fragmentation(self, job: Job, node: int, bandwidth: int, capacity: int) -> float:
        """Equation 2 in whole numbers."""
        if self.how.quotients == "one":
            bandwidth, capacity = max(bandwidth, 1), max(capacity, 1)
        left = 1 - sum(int(ask / free) for ask, free in ((job.bandwidth, bandwidth), (job.capacity, capacity)) if free)
        if self.how.cores == "float":
            return left * self.cores[node] / job.cores
        if self.how.cores == "whole" and job.cores < self.cores[node]:
            return left * inf if left else 0.0
        return left

    def harmed(self, made: Composition, job: int, now: int) -> bool:
        """Whether one more would make a job of a composition late."""
        if self.how.protected == "from-timely" and self.late(job, now):
            return False
        for other in made.jobs:
            if self.how.protected == "timely" and self.late(other, now):
                continue
            one, then = self.running[other], self.time(self.jobs[other], len(made.drives), len(made.jobs) + 1)
            if (one.end - now) * then > (self.jobs[other].due - now) * one.took:
                return True
        return False

    def compose(self, job: int, now: int, rule: str, nodes: list[int]) -> Place | None:
        one, size = self.jobs[job], max(1, -(-self.jobs[job].capacity // CAPACITY))
        few = {"late": self.late(job, now), "begun": now >= self.turns(job)[1], "none": False}[self.how.one_device]
        while rule == "max" and not few and self.time(one, size + 1, 1) < self.time(one, size, 1):
            size += 1
        for node in nodes:
            for rack, (_, near) in enumerate(self.racks):
                if node in near and len(self.free[rack]) >= size:
                    return node, None, (rack, size)
        return None

    def start(self, job: int, now: int, place: Place) -> None:
        node, made, new = place
        if new is not None:
            rack, size = new
            made = Composition(rack, self.free[rack][:size], node, self.jobs[job].app, self.made)
            self.made += 1
            del self.free[rack][:size]
            self.compositions.append(made)
        took = self.jobs[job].base
        if made is not None:
            made.jobs.append(job)
            took = int(self.time(self.jobs[job], len(made.drives), len(made.jobs)))
        self.cores[node] -= self.jobs[job].cores
        self.running[job] = Running(now + took, took, node, made)
        self.starts[job] = now

    def finish(self, now: int) -> None:
        for job in [job for job, one in self.running.items() if one.end <= now]:
            one = self.running.pop(job)
            self.cores[one.node] += self.jobs[job].cores
            if one.on is None:
                continue
            one.on.jobs.remove(job)
            if not one.on.jobs:
                self.compositions.remove(one.on)
                self.free[one.on.rack] = sorted(self.free[one.on.rack] + one.on.drives)


def drawn(scenario: str, load: float, arrivals: str, count: int, seed: int) -> Workload:
    """A list of jobs that arrive at whole seconds."""
    how = {"kind": arrivals, "whole_seconds": True}
    return generate({"scenario": scenario, "load": load, "jobs": count, "arrivals": how}, seed)


def listed(workload: Workload) -> list[Job]:
    """The jobs of a list."""
    jobs = workload.jobs
    seconds = [column // 10**6 for column in (jobs.submit_us, jobs.deadline_us, jobs.work_us)]
    asked = [jobs.devices["nvme", "bandwidth_mb_s"], jobs.devices["nvme", "capacity_mb"] // 1024]
    columns = np.array([*seconds, jobs.cores, *asked]).T.tolist()
    return [Job(*row, jobs.app_names[app]) for row, app in zip(columns, jobs.app, strict=True)]


def main() -> None:
    """Print how many starts, in %, each other answer changes: 300 jobs, fixed arrivals, loads of 0.6 and 0.85."""
    others = {
        "late at its deadline": Open(late_at_deadline=True), "one device if late when begun": Open(one_device="begun"),
        "one device for none": Open(one_device="none"), "low threshold strict": Open(low_strict=True),
        "model times to the nearest second": Open(seconds="nearest"), "model times up": Open(seconds="up"),
        "rounds at arrivals and ends": Open(every_second=False), "again from the head": Open(from_head=True),
        "loads once a round": Open(rule_per_round=True), "late sharers unprotected": Open(protected="timely"),
        "late joiners may harm": Open(protected="from-timely"), "oversubscribed counts as 1": Open(quotients="one"),
        "cores as whole numbers": Open(cores="whole"), "cores as fractions": Open(cores="float"),
        "ties the other way": Open(ties=-1), "oldest composition first": Open(by_age=True),
    }  # fmt: skip
    scenarios = [(f"nvme-s{n}", racks) for n in (1, 2, 3) for racks in (POOL, ATTACHED)]
    heads = (f"{name[5:]} {'pool' if racks is POOL else 'att.'}" for name, racks in scenarios)
    sys.stdout.write(f"{'':34}{''.join(f'{head:>9}' for head in heads)}\n")
    cells = [
        (jobs, racks, np.array(Program(jobs, racks, "aware").run()))
        for name, racks in scenarios
        for jobs in [listed(drawn(name, load, "fixed", 300, seed)) for load in (0.6, 0.85) for seed in (3, 4)]
    ]
    for words, how in others.items():
        each = [np.mean(taken != Program(jobs, racks, "aware", how).run()) for jobs, racks, taken in cells]
        changed = 100 * np.reshape(each, (len(scenarios), -1)).mean(axis=1)
        sys.stdout.write(f"{words:34}{''.join(f'{share:9.1f}' for share in changed)}\n")


if __name__ == "__main__":
    main()
