"""EASY++ over processors alone, in plain Python: an event loop for reading, which shares nothing with unrack."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple

S = 1_000_000
STEPS = [minutes * 60 * S for minutes in (1, 5, 15, 30, 60, 120, 300, 600, 1200, 3000, 6000)]
NEVER = 2**62


class Ask(NamedTuple):
    """A job as the log has it, in seconds."""

    submit: int
    run: int
    size: int
    request: int
    user: int


@dataclass(eq=False)
class Job:
    """A job on its way, in µs."""

    submit: int
    run: int
    size: int
    request: int
    user: int
    predicted: int = 0
    first: int = 0
    start: int = -1
    corrections: int = 0
    holds: bool = False


class Machine:
    """So many processors under EASY++; ``starts`` gives the start of each job, s."""

    def __init__(self, processors: int, correction: str, predict_at: str, rounds: str, ties: str) -> None:
        self.free, self.correction, self.predict_at, self.rounds = processors, correction, predict_at, rounds
        self.one_by_one = ties == "submit-first"
        self.past: dict[int, list[int]] = {}
        self.queue: list[Job] = []
        self.running: list[Job] = []
        self.ends: list[tuple[int, int, Job]] = []
        self.started = 0

    def predict(self, job: Job) -> None:
        last = self.past.get(job.user, [])[-2:]
        mean = max(1, sum(last) // 2 // S) * S if len(last) == 2 else job.request
        job.predicted = job.first = min(job.request, mean)

    def correct(self, until: int) -> None:
        """Whatever is predicted to end by then has not."""
        for job in self.running:
            while job.holds and job.start + job.predicted <= until and job.predicted < job.request:
                step = STEPS[job.corrections] if job.corrections < len(STEPS) else job.request
                longer = {
                    "steps": job.first + step,
                    "added-steps": job.predicted + step,
                    "double": 2 * job.predicted,
                    "request": job.request,
                }[self.correction]
                job.predicted, job.corrections = min(job.request, longer), job.corrections + 1

    def start(self, job: Job, now: int) -> None:
        job.start, job.holds = now, True
        self.free -= job.size
        self.running.append(job)
        self.started += 1
        heappush(self.ends, (now + job.run, self.started, job))

    def schedule(self, now: int) -> None:
        self.correct(now)
        if self.predict_at == "pass":
            for job in self.queue:
                self.predict(job)
        while self.queue and self.queue[0].size <= self.free:
            self.start(self.queue.pop(0), now)
        if not self.queue:
            return
        head, *others = self.queue
        holding = [job for job in self.running if job.holds]
        ends = sorted({max(now + 1, job.start + job.predicted) for job in holding})
        for shadow in ends:
            back = sum(job.size for job in holding if max(now + 1, job.start + job.predicted) <= shadow)
            if self.free + back >= head.size:
                break
        beside = self.free + back - head.size
        for job in sorted(others, key=lambda job: job.predicted):
            if job.size <= self.free and (now + job.predicted <= shadow or job.size <= beside):
                if now + job.predicted > shadow:
                    beside -= job.size
                self.queue.remove(job)
                self.start(job, now)

    def give_back(self, job: Job) -> None:
        if job.holds:
            self.free, job.holds = self.free + job.size, False

    def learn(self, job: Job) -> None:
        self.give_back(job)
        self.past.setdefault(job.user, []).append(job.run)

    def starts(self, asks: Sequence[Ask]) -> list[int]:
        jobs = [Job(ask.submit * S, ask.run * S, ask.size, ask.request * S, ask.user) for ask in asks]
        coming = list(reversed(jobs))
        while coming or self.ends:
            corrected = [job.start + job.predicted for job in self.running if job.holds and job.predicted < job.request]
            wake = min(corrected, default=NEVER) if self.queue and self.rounds == "corrections" else NEVER
            event = min(coming[-1].submit if coming else NEVER, self.ends[0][0] if self.ends else NEVER)
            now = min(event, wake)
            if now < event:
                self.schedule(now)
                continue
            self.correct(now - 1)
            ended = []
            while self.ends and self.ends[0][0] == now:
                ended.append(heappop(self.ends)[2])
            for job in ended:
                if not self.one_by_one:
                    self.learn(job)
                elif job.start + job.predicted == now and job.run > 0:
                    self.give_back(job)
            while coming and coming[-1].submit == now:
                job = coming.pop()
                self.queue.append(job)
                if self.predict_at == "submission":
                    self.predict(job)
                if self.one_by_one:
                    self.schedule(now)
            for job in ended if self.one_by_one else []:
                self.learn(job)
                self.schedule(now)
            if not self.one_by_one:
                self.schedule(now)
            self.running = [job for job in self.running if job.holds]
        return [job.start // S for job in jobs]
