"""Random sites whose jobs accept shorter limits, and EASY in plain Python that knows nothing of the engine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import polars as pl
from twins import Loop, RandomSite, easy, random_reservations, random_site

from unrack.workload.job import Workload


def shorter_site(seed: int, jobs: int = 60) -> tuple[RandomSite, list[int]]:
    """A site by a seed, with windows in a third of them; and the least time of each job, 0: none."""
    site = random_reservations(seed, jobs) if seed % 3 == 0 else random_site(seed, jobs)
    draw = np.random.default_rng(seed + 99)
    for job in site.jobs:
        job.reservation, job.begin, job.submit = "", 0, job.submit // 3
    least = [int(job.request * draw.uniform(0.1, 1.2)) if draw.random() < 0.6 else 0 for job in site.jobs]
    return site, [min(max(0, time), job.request) for time, job in zip(least, site.jobs, strict=True)]


def with_least(site: RandomSite, least: list[int]) -> Workload:
    """The workload, with its least times."""
    made = site.workload
    made.jobs.extra.insert_column(0, pl.Series("time_min_s", [float(time) or None for time in least]))
    return made


class Shortened(Loop):
    """EASY; who has no place with what it asks may have one with less."""

    def __init__(self, site: RandomSite, least: list[int]) -> None:
        super().__init__(site)
        self.least = least
        self.limit: dict[int, int] = {}

    def wake(self, waiting: list[int]) -> list[int]:
        """Windows begin and end."""
        last = self.now
        return [time for _, *times, _ in self.site.windows for time in times if time > last] if waiting else []

    now = -1

    @contextmanager
    def asking(self, number: int, time: int) -> Iterator[None]:
        """A job asks for another time."""
        job = self.site.jobs[number]
        whole, job.request = job.request, time
        yield
        job.request = whole

    def starts(self, waiting: list[int], number: int, time: int, now: int) -> dict[int, int] | None:
        """Where EASY would start a job that asks for so long."""
        twin = Shortened(self.site, self.least)
        twin.free, twin.held, twin.running = list(self.free), dict(self.held), dict(self.running)
        with self.asking(number, time):
            easy(twin, [one for one in waiting if one not in self.start], now)
        return twin.running[number][2] if number in twin.running else None

    def decide(self, loop: Loop, waiting: list[int], now: int) -> None:
        """As EASY says; then one with less, until there is none."""
        assert loop is self
        self.now = now
        again = True
        while again:
            again = False
            easy(self, [number for number in waiting if number not in self.start], now)
            for number in waiting:
                job, least = self.site.jobs[number], self.least[number]
                if number in self.start or not 0 < least < job.request:
                    continue
                if self.starts(waiting, number, least, now) is None:
                    continue
                limit = max(t for t in range(least, job.request) if self.starts(waiting, number, t, now) is not None)
                nodes = self.starts(waiting, number, limit, now)
                assert nodes is not None
                with self.asking(number, limit):
                    self.begin(number, now, nodes)
                end, booked, _ = self.running[number]
                self.running[number] = min(end, now + limit), booked, nodes
                self.limit[number] = limit
                again = True
                break
