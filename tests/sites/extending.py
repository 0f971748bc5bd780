"""Jobs that overrun their limits on equal nodes, and lists and EASY in plain Python that give them more time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from twins import J, Loop, RandomSite, easy, fcfs


def overrunning_site(seed: int, jobs: int = 50) -> RandomSite:
    """Equal nodes, and jobs of which many run for longer than they ask."""
    draw = np.random.default_rng(seed)
    cores, at, made = int(draw.integers(1, 5)), 0, list[J]()
    nodes = [cores] * int(draw.integers(2, 6))
    gap = float(draw.choice([12, 25, 40]))
    for _ in range(jobs):
        at += int(draw.exponential(gap))
        request = int(draw.integers(5, 60))
        work = int(request * draw.uniform(0.3, 2.5)) + 1
        each = int(draw.integers(1, cores + 1))
        room = len(nodes) * (cores // each)
        made.append(J(at, work, request, int(draw.integers(1, min(4, room) + 1)), each, "u", ""))
    return RandomSite(nodes, {}, {}, made)


def any_fit(loop: Loop, waiting: list[int], now: int) -> None:
    """Whoever has a place starts."""
    for number in waiting:
        job = loop.site.jobs[number]
        nodes = loop.fit(loop.site.eligible(job, now), job)
        if nodes is not None:
            loop.begin(number, now, nodes)


RULES: dict[str, Callable[[Loop, list[int], int], None]] = {"fcfs": fcfs, "list(backfill=any)": any_fit, "easy": easy}
"""Policy → its pass."""


class Extended(Loop):
    """Stops jobs that have overrun their limits for so long, unless they are given more time."""

    def __init__(self, site: RandomSite, rule: str, step: int, most: int, grace: int) -> None:
        super().__init__(site)
        self.rule, self.step, self.most, self.grace = rule, step, most, grace
        self.due: dict[int, tuple[int, int]] = {}  # job → when it is stopped, and since which of all such moments
        self.given: dict[int, int] = {}
        self.ended: dict[int, int] = {}
        self.cut: set[int] = set()
        self.turn = 0

    def begin(self, number: int, now: int, nodes: dict[int, int]) -> None:
        """A job starts."""
        super().begin(number, now, nodes)
        self._stop_at(number, now + self.site.jobs[number].request + self.grace)

    def _stop_at(self, number: int, time: int) -> None:
        self.turn += 1
        self.due[number] = time, self.turn
        _, booked, nodes = self.running[number]
        self.running[number] = min(self.start[number] + self.site.jobs[number].work, time), booked, nodes

    def end(self, number: int) -> None:
        """A job ends."""
        self.due.pop(number, None)
        super().end(number)

    def simulate(self) -> dict[int, tuple[int, int, bool, int]]:
        """Job → start, end, whether it was stopped with work left, and how much more time it was given."""
        jobs, waiting, coming = self.site.jobs, list[int](), 0
        while self.running or coming < len(jobs):
            now = min([end for end, _, _ in self.running.values()] + [job.submit for job in jobs[coming : coming + 1]])
            over = [number for number, (end, _, _) in self.running.items() if end == now]
            for number in over:
                if self.start[number] + jobs[number].work == now:
                    self._over(number, now)
            for number in sorted(set(over) & set(self.running), key=lambda n: self.due[n][1]):
                more = min(self.step, self.most - self.given.get(number, 0))
                if more > 0 and not self.delays(number, waiting, now + more, now):
                    self.given[number] = self.given.get(number, 0) + more
                    _, _, nodes = self.running[number]
                    self.running[number] = 0, now + more, nodes
                    self._stop_at(number, now + more)
                    continue
                self.cut.add(number)
                self._over(number, now)
            while coming < len(jobs) and jobs[coming].submit == now:
                waiting.append(coming)
                coming += 1
            RULES[self.rule](self, waiting, now)
            waiting = [number for number in waiting if number not in self.start]
        return {n: (at, self.ended[n], n in self.cut, self.given.get(n, 0)) for n, at in self.start.items()}

    def _over(self, number: int, now: int) -> None:
        self.ended[number] = now
        self.end(number)

    def copy(self, without: int = -1, booked: tuple[int, int] = (-1, 0)) -> Loop:
        """What may be changed: one job has ended, or is booked to end at another time."""
        twin = Loop(self.site)
        twin.free, twin.running, twin.start = list(self.free), dict(self.running), dict(self.start)
        if without >= 0:
            twin.end(without)
        if booked[0] >= 0:
            end, _, nodes = twin.running[booked[0]]
            twin.running[booked[0]] = end, booked[1], nodes
        return twin

    def delays(self, number: int, waiting: list[int], until: int, now: int) -> bool:
        """Whether somebody who waits would start later if a job ran until a time."""
        ended, longer = self.copy(without=number), self.copy(booked=(number, until))
        if self.rule != "easy":
            one, two = self.copy(without=number), self.copy(booked=(number, until))
            for loop in (one, two):
                RULES[self.rule](loop, waiting, now)
            if any(other in one.start and other not in two.start for other in waiting):
                return True
        fcfs(longer, waiting, now)
        for other in waiting:
            if other in longer.start:
                ended.begin(other, now, longer.running[other][2])
        left = [other for other in waiting if other not in longer.start]
        if not left:
            return False
        head = self.site.jobs[left[0]]
        times = [now, *sorted(max(booked, now + 1e-6) for _, booked, _ in ended.running.values())]
        first = next((time for time in times if time < until and self.fits(ended, head, time, now)), None)
        return first is not None and not self.fits(longer, head, first, now)

    @staticmethod
    def fits(loop: Loop, job: J, time: float, now: int) -> bool:
        """Whether a job fits at a time, as others are booked to end."""
        free: Any = list(loop.free)
        for _, booked, nodes in loop.running.values():
            for node, cores in nodes.items() if time > now and max(booked, now + 1e-6) <= time else ():
                free[node] += cores
        return sum(cores // job.cores for cores in free) >= job.tasks
