"""Moldable and malleable jobs on equal cores in plain Python, with a loop of its own: nothing here is unrack's."""

from __future__ import annotations

from math import ceil
from typing import Any


class Run:
    """A job that runs."""

    def __init__(self, job: dict[str, Any], size: int, now: int) -> None:
        self.job, self.size, self.start = job, size, now
        self.speed = speed(job, size)
        self.left, self.since = float(job["work"]), now
        self.booked = now + ceil(job["request"] / self.speed)
        self.spans = [(now, size)]
        self.asked, self.ask_at = 0, -1
        self.plan(now)

    def left_at(self, now: int) -> float:
        return max(0.0, self.left - max(0, now - self.since) * self.speed)

    def plan(self, now: int) -> None:
        """When an evolving job next asks for another size."""
        self.ask_at = -1
        if self.asked < len(asks := self.job.get("asks", ())):
            more = max(0.0, self.left_at(now) - (1 - asks[self.asked][0]) * self.job["work"])
            self.ask_at = max(now, self.since) + ceil(more / self.speed)

    @property
    def end(self) -> int:
        return self.since + ceil(self.left / self.speed)

    def change(self, size: int, now: int) -> None:
        new, cost = speed(self.job, size), self.cost(now)
        self.booked = now + ceil(max(0, self.booked - now) * (self.speed / new)) + cost
        self.left = self.left_at(now)
        self.since = max(now, self.since) + cost
        self.size, self.speed = size, new
        self.spans.append((now, size))
        self.plan(now)

    def booked_with(self, size: int, now: int) -> int:
        if size == self.size:
            return self.booked
        return now + ceil(max(0, self.booked - now) * (self.speed / speed(self.job, size))) + self.cost(now)

    def cost(self, now: int) -> int:
        return 0 if now == self.start else int(self.job["change"])


def speed(job: dict[str, Any], size: int) -> float:
    times = job["times"]
    return float(times[job["tasks"]] / times[size])


class World:
    """Jobs ``{"submit", "work", "request", "tasks", "times", "malleable", "change"}`` on so many cores; times in µs."""

    def __init__(self, cores: int, jobs: list[dict[str, Any]], easy: bool, molding: bool, resizing: bool) -> None:
        self.cores, self.easy, self.molding, self.resizing = cores, easy, molding, resizing
        self.jobs = [dict(job, number=i) for i, job in enumerate(jobs)]
        self.size = [job["tasks"] for job in jobs]
        self.waiting: list[dict[str, Any]] = []
        self.running: list[Run] = []
        self.done: dict[int, Run] = {}
        self.wanted: dict[int, tuple[Run, int]] = {}

    @property
    def free(self) -> int:
        return self.cores - sum(run.size for run in self.running)

    def play(self) -> dict[int, Run]:
        coming = list(self.jobs)
        while coming or self.running:
            asks = [run.ask_at for run in self.running if run.ask_at >= 0]
            now = min([job["submit"] for job in coming[:1]] + [run.end for run in self.running] + asks)
            for run in [run for run in self.running if run.end == now]:
                self.running.remove(run)
                self.done[run.job["number"]] = run
                self.wanted.pop(run.job["number"], None)
            if not (coming and coming[0]["submit"] == now):
                self.ask(now)
            while coming and coming[0]["submit"] == now:
                self.waiting.append(coming.pop(0))
            self.round(now)
            if not coming and not self.running and self.waiting:
                break
        return self.done

    def ask(self, now: int) -> None:
        for run in [run for run in self.running if run.ask_at == now]:
            number, size = run.job["number"], run.job["asks"][run.asked][1]
            run.asked += 1
            run.plan(now)
            self.wanted.pop(number, None)
            if size != run.size:
                self.wanted[number] = run, size

    def answer(self, now: int, once: set[int], larger: bool) -> bool:
        changed = False
        for number, (run, size) in list(self.wanted.items()):
            if number not in once and (size > run.size) == larger and size - run.size <= self.free:
                run.change(size, now)
                del self.wanted[number]
                once.add(number)
                changed = True
        return changed

    def round(self, now: int) -> None:
        once: set[int] = set()
        while True:
            self.answer(now, once, larger=False)
            if self.molding:
                self.mold(now, once)
            self.pass_over(now)
            if self.molding and self.mold(now, once):
                continue
            if not (self.resizing and self.resize(now, once)):
                return

    # --- molding ---

    def opens(self, size: int, now: int) -> int:
        free = self.free
        if free >= size:
            return now
        for run in sorted(self.running, key=lambda one: one.booked):
            free += run.size
            if free >= size:
                return max(run.booked, now + 1)
        return -1

    def mold(self, now: int, once: set[int]) -> bool:
        changed = False
        for job in self.waiting:
            if job["number"] in once or len(job["times"]) < 2:
                continue
            ends = [
                (start + ceil(job["request"] / speed(job, size)), size)
                for size in sorted(job["times"]) if (start := self.opens(size, now)) >= 0
            ]  # fmt: skip
            if ends and min(ends)[1] != self.size[job["number"]]:
                self.size[job["number"]] = min(ends)[1]
                changed = True
        return changed

    # --- first come, first served, and EASY ---

    def begin(self, job: dict[str, Any], now: int) -> None:
        self.waiting.remove(job)
        self.running.append(Run(job, self.size[job["number"]], now))

    def pass_over(self, now: int) -> None:
        while self.waiting and self.size[self.waiting[0]["number"]] <= self.free:
            self.begin(self.waiting[0], now)
        if not self.easy or not self.waiting:
            return
        head = self.size[self.waiting[0]["number"]]
        shadow = self.opens(head, now)
        then = self.cores - head - sum(run.size for run in self.running if max(run.booked, now + 1) > shadow)
        for job in self.waiting[1:]:
            size = self.size[job["number"]]
            if size > self.free:
                continue
            if now + ceil(job["request"] / speed(job, size)) <= shadow:
                self.begin(job, now)
            elif size <= then:
                then -= size
                self.begin(job, now)

    # --- growing and shrinking: the first to have started grows first, the last shrinks first ---

    def resize(self, now: int, once: set[int]) -> bool:
        able = [run for run in self.running if run.job["malleable"] and run.job["number"] not in once]
        if not self.waiting:
            grown = self.answer(now, once, larger=True)
            for run in sorted(able, key=lambda one: (one.start, one.job["number"])):
                larger = [n for n in sorted(run.job["times"]) if run.size < n <= run.size + self.free]
                ends = [(run.booked_with(n, now), n) for n in larger]
                if ends and min(ends)[0] < run.booked:
                    run.change(min(ends)[1], now)
                    once.add(run.job["number"])
                    grown = True
            return grown
        head = self.waiting[0]
        if head["number"] in once:
            return False
        held = self.size[head["number"]]
        may = [n for n in sorted(head["times"]) if n <= max(held, own(head))] if head["malleable"] else [held]
        room, plan = self.free, {}
        for run in sorted(able, key=lambda one: (one.start, one.job["number"]), reverse=True):
            for n in sorted(run.job["times"], reverse=True):
                if n < run.size and room < may[0]:
                    room += plan.get(id(run), (run, run.size))[1] - n
                    plan[id(run)] = run, n
        if room < may[0]:
            return False
        for run, n in plan.values():
            run.change(n, now)
            once.add(run.job["number"])
        once.add(head["number"])
        size = max(n for n in may if n <= room)
        changed = bool(plan) or size != held
        self.size[head["number"]] = size
        return changed


def own(job: dict[str, Any]) -> int:
    """Its own size, or the smallest that is as fast."""
    return min(n for n in job["times"] if speed(job, n) == 1.0)
