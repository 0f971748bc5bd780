"""Conservative backfilling over nodes, licences and links in plain Python: the twin of the skyline, by brute force.

What is free at a time is added up anew for every question. Jobs run no longer than they ask.
"""

from __future__ import annotations

from typing import NamedTuple


class Ask(NamedTuple):
    """A job: times in whole units; cores, MB and link per task; licences of all tasks together."""

    submit: int
    run: int
    estimate: int
    tasks: int
    cores: int
    mb: int
    licences: int
    link: int


class Site(NamedTuple):
    """What there is: cores, MB and link of each node, and licences."""

    nodes: tuple[tuple[int, int, int], ...]
    licences: int


class Held(NamedTuple):
    """What a job holds from ``start`` to ``end``: tasks by node."""

    job: int
    start: int
    end: int
    tasks: dict[int, int]


class Plain:
    """A run."""

    def __init__(self, site: Site, asks: list[Ask]) -> None:
        self.site, self.asks = site, asks
        self.running: list[Held] = []
        self.reserved: dict[int, Held] = {}
        self.starts: dict[int, int] = {}

    def run(self) -> list[int]:
        """When each job starts."""
        waiting: list[int] = []
        ends: dict[int, int] = {}
        coming = sorted(range(len(self.asks)), key=lambda job: (self.asks[job].submit, job))
        now = 0
        while coming or waiting or ends:
            moments = [*(self.asks[job].submit for job in coming[:1]), *ends.values()]
            moments += [held.start for held in self.reserved.values() if held.start > now]
            now = min(moment for moment in moments)
            over = [job for job, end in ends.items() if end == now]
            early = any(held.job in over and held.end > now for held in self.running)
            self.running = [held for held in self.running if held.job not in over]
            for job in over:
                del ends[job]
            while coming and self.asks[coming[0]].submit == now:
                waiting.append(coming.pop(0))
            for job in self.round(now, waiting, early):
                waiting.remove(job)
                ends[job] = now + self.asks[job].run
        return [self.starts[job] for job in range(len(self.asks))]

    def round(self, now: int, waiting: list[int], early: bool) -> list[int]:
        """Reserve, move forward, start; who starts."""
        for job in waiting:
            old = self.reserved.get(job)
            if old is not None and (not early or old.start == now):
                continue
            self.reserved.pop(job, None)
            new = self.earliest(now, job)
            assert old is None or new.start <= old.start, "a reservation moved back"
            self.reserved[job] = new if old is None or new.start < old.start else old
        started = [job for job in waiting if self.reserved[job].start == now]
        for job in started:
            self.running.append(self.reserved.pop(job))
            self.starts[job] = now
        return started

    def earliest(self, now: int, job: int) -> Held:
        """The first place for a job beside all that is held and reserved."""
        ask = self.asks[job]
        everyone = [*self.running, *self.reserved.values()]
        moments = sorted({now, *(held.start for held in everyone), *(held.end for held in everyone)})
        for start in (moment for moment in moments if moment >= now):
            end = start + max(1, ask.estimate)
            window = [start, *(moment for moment in moments if start < moment < end)]
            frees = [self.free(moment, everyone) for moment in window]
            nodes = [
                tuple(min(at[node][q] for at, _ in frees) for q in range(3)) for node in range(len(self.site.nodes))
            ]
            tasks = placed(ask, nodes)
            if tasks is not None and min(left for _, left in frees) >= ask.licences:
                return Held(job, start, end, tasks)
        raise AssertionError("no place at the end of all")

    def free(self, moment: int, everyone: list[Held]) -> tuple[list[list[int]], int]:
        """Cores, MB and link of each node, and licences, that nobody holds then."""
        nodes, licences = [list(node) for node in self.site.nodes], self.site.licences
        for held in everyone:
            if held.start <= moment < held.end:
                ask = self.asks[held.job]
                licences -= ask.licences
                for node, tasks in held.tasks.items():
                    for q, each in enumerate((ask.cores, ask.mb, ask.link)):
                        nodes[node][q] -= tasks * each
        return nodes, licences


def placed(ask: Ask, nodes: list[tuple[int, ...]]) -> dict[int, int] | None:
    """Tasks by node, filled by number; ``None``: they do not fit."""
    left, found = ask.tasks, {}
    for node, free in enumerate(nodes):
        asked = zip(free, (ask.cores, ask.mb, ask.link), strict=True)
        here = min(left, *(amount // each for amount, each in asked if each))
        if here > 0:
            found[node], left = here, left - here
    return None if left else found
