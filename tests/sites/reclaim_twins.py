"""Reclaim in plain Python: first come, first served over queues with quotas, and who lends gets it back."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from queue_twins import Loop, Q, QueueSite, Use, fcfs, random_queues


def random_reclaim(seed: int, jobs: int = 50, several: bool = False) -> QueueSite:
    """A site whose queues reclaim; hardly any two things happen at once."""
    site, draw = random_queues(seed, jobs, several), np.random.default_rng(seed + 3)
    if several:  # of nodes in two flavours, which one a job counts for is a choice of the engine's
        names = list(site.flavours)
        site.nodes += [3] * max(0, len(names) - len(site.nodes))
        for node in range(len(site.nodes)):
            for name in names:
                (site.flavours[name].add if name == names[node % len(names)] else site.flavours[name].discard)(node)
    for name in site.quotas:
        site.reclaim[name] = str(draw.choice(["never", "lower-priority", "any", "any"]))
        site.within[name] = str(draw.choice(["never", "lower-priority"]))
    site.preempt = {"by": "quota", "victims": "youngest", "mode": str(draw.choice(["requeue", "checkpoint"]))}
    for number, job in enumerate(site.jobs):
        job.priority = int(draw.integers(0, 3))
        job.submit = job.submit * 400 + 3 * number
        job.work, job.request = job.work * 1000 + 7 * number, job.request * 1000 + 11 * number + 60_000
    return site


class Reclaiming(Loop):
    """First come, first served; queues get their nominal quota back."""

    def __init__(self, site: QueueSite) -> None:
        super().__init__(site)
        self.since: dict[int, int] = {}
        self.done: dict[int, int] = {}
        self.attempts: list[tuple[int, int, int, str]] = []
        self.gone: set[int] = set()  # stopped at this moment: nobody is stopped twice at one time

    def begin(self, number: int, now: int, nodes: dict[int, int], flavour: str) -> None:
        """A job starts, or goes on."""
        super().begin(number, now, nodes, flavour)
        job, done = self.site.jobs[number], self.done.get(number, 0)
        self.running[number] = now + job.work - done, max(now, now + job.request - done), nodes, flavour
        self.since[number] = now

    def over(self) -> list[tuple[int, int, int, str]]:
        """Job, start, end and outcome of every attempt."""
        jobs, waiting, coming = self.site.jobs, list[int](), 0
        while self.running or coming < len(jobs):
            times = [end for end, *_ in self.running.values()]
            now = min(times + ([jobs[coming].submit] if coming < len(jobs) else []))
            for number in [number for number, (end, *_) in self.running.items() if end == now]:
                self.attempts.append((number, self.since[number], now, "finished"))
                self.end(number)
            while coming < len(jobs) and jobs[coming].submit == now:
                waiting += [coming] if self.site.possible(jobs[coming]) else []
                coming += 1
            again, self.gone = True, set()
            while again:
                before = set(self.running)
                fcfs(self, [number for number in waiting if number not in self.running], now)
                stopped = self.preempt(waiting, now, set(self.running) - before)
                again = stopped is not None
                waiting = sorted({*waiting, *(stopped or ())} - set(self.running))
        return self.attempts

    def may(self, one: Q, other: Q) -> bool:
        """Whether a job may have another stopped for it if the quotas allow it."""
        site = self.site
        if one.queue == other.queue:
            return site.within[one.queue] != "never" and other.priority < one.priority
        if not site.cohorts[one.queue] or site.cohorts[one.queue] != site.cohorts[other.queue]:
            return False
        rule = site.reclaim[one.queue]
        return rule == "any" or (rule == "lower-priority" and other.priority < one.priority)

    def classes(self) -> list[Q]:
        """One of every queue and priority that there is."""
        return [
            Q(0, 0, 0, 0, 0, queue, priority) for queue, priority in {(j.queue, j.priority) for j in self.site.jobs}
        ]

    def rights(self, job: Q) -> set[tuple[str, int]]:
        """Whom it may have stopped."""
        return {(one.queue, one.priority) for one in self.classes() if self.may(job, one)}

    def copy(self) -> Reclaiming:
        """What may be changed without changing this."""
        twin = Reclaiming(self.site)
        twin.free, twin.use, twin.running = list(self.free), dict(self.use), dict(self.running)
        twin.done, twin.since = dict(self.done), dict(self.since)
        return twin

    def borrowed(self, job: Q, ahead: list[int]) -> set[tuple[str, str]]:
        """The flavours in which it would borrow, if there are others, and nobody of its queue is ahead of it."""
        beyond = {
            (job.queue, flavour) for flavour in self.site.allowed(job)
            if self.use.get((job.queue, flavour), 0) + job.asked > self.site.quotas[job.queue][flavour].nominal
        }  # fmt: skip
        mates = any(self.site.jobs[other].queue == job.queue for other in ahead)
        return set() if mates or len(beyond) == len(self.site.allowed(job)) else beyond

    def least(
        self, own: list[int], line: list[int], number: int, now: int, closed: Collection[tuple[str, str]] = ()
    ) -> tuple[tuple[dict[int, int], str], list[int]]:
        """Where a job starts, and who is stopped for it: of those that may be, which are enough."""
        few, count = -1, len(own)  # which may not be the fewest where a job has a choice of flavours
        while count - few > 1:
            middle = (few + count) // 2
            has_place = self.placed(own[:middle], line, number, now, closed) is not None
            few, count = (few, middle) if has_place else (middle, count)
        found, needed = self.placed(own[:count], line, number, now, closed), own[:count]
        assert found is not None
        for victim in needed[::-1]:
            fewer = [v for v in needed if v != victim]
            other = found if self.fits(fewer, number, *found) else self.placed(fewer, line, number, now, closed)
            if other is not None:
                found, needed = other, fewer
        return found, needed

    def placed(
        self, victims: list[int], jobs: list[int], number: int, now: int, closed: Collection[tuple[str, str]] = ()
    ) -> tuple[dict[int, int], str] | None:
        """Where a job starts once some are stopped, and nobody waits but these jobs."""
        twin = self.copy()
        twin.closed = set(closed)
        for victim in victims:
            Loop.end(twin, victim)
        fcfs(twin, jobs, now)
        return twin.running[number][2:] if number in twin.running else None

    def victims(self, number: int, fresh: set[int], mine: set[int], stopped: set[int]) -> list[int]:
        """Who may be stopped for a job, in order."""
        site, job, use = self.site, self.site.jobs[number], dict(self.use)
        inside = {
            flavour for flavour in site.allowed(job)
            if use.get((job.queue, flavour), 0) + job.asked <= site.quotas[job.queue][flavour].nominal
        }  # fmt: skip
        able = [
            v for v in self.running
            if self.may(job, site.jobs[v]) and v not in mine and (v in fresh or v not in self.gone)
        ]  # fmt: skip
        found = []
        for victim in sorted(able, key=lambda v: (v not in fresh, -self.since[v], -v)):
            other, flavour = site.jobs[victim], self.running[victim][3]
            if other.queue != job.queue:
                borrows = use[other.queue, flavour] > site.quotas[other.queue][flavour].nominal
                if not borrows or flavour not in inside:
                    continue
            use[other.queue, flavour] -= other.asked
            found.append(victim)
        return found

    def preempt(self, waiting: list[int], now: int, fresh: set[int]) -> list[int] | None:
        """Who was stopped for others and now waits; ``None``: nobody was."""
        site, jobs, ahead, mine = self.site, self.site.jobs, list[int](), set[int]()
        stopped: set[int] = set()
        some: list[int] | None = None
        able = [n for n in waiting if n not in self.running and self.rights(jobs[n])]
        for number in sorted(able, key=lambda n: -jobs[n].priority):
            own = self.victims(number, fresh, mine, stopped)
            more = [n for n in ahead if self.rights(jobs[number]) <= self.rights(jobs[n]) and self.has_quota(jobs[n])]
            line = sorted([*more, number])
            ahead.append(number)
            if not own or self.placed(own, line, number, now) is None or self.placed([], line, number, now):
                continue
            found, needed = self.least(own, line, number, now)
            if not self.allowed(number, found[1], needed):
                closed = self.borrowed(jobs[number], more)
                if not closed or self.placed(own, line, number, now, closed) is None:
                    continue
                found, needed = self.least(own, line, number, now, closed)
            if not needed or not self.allowed(number, found[1], needed):
                continue
            ahead.remove(number)
            some = some or []
            for victim in needed:
                stopped.add(victim)
                Loop.end(self, victim)
                some.append(victim)
                if victim not in fresh:
                    self.gone.add(victim)
                    self.attempts.append((victim, self.since[victim], now, "preempted"))
                    if site.preempt is not None and site.preempt["mode"] == "checkpoint":
                        self.done[victim] = self.done.get(victim, 0) + now - self.since[victim]
            self.begin(number, now, *found)
            mine.add(number)
        return some

    def has_quota(self, job: Q) -> bool:
        """Whether it lacks no quota, or leaves its queue within what that has: what comes back is for it."""
        return any(
            self.site.room(self.use, job.queue, flavour, job.asked)
            or self.use.get((job.queue, flavour), 0) + job.asked <= self.site.quotas[job.queue][flavour].nominal
            for flavour in self.site.allowed(job)
        )

    def fits(self, victims: list[int], number: int, nodes: dict[int, int], flavour: str) -> bool:
        """Whether these nodes and the quota are free once some are stopped."""
        twin, job = self.copy(), self.site.jobs[number]
        for victim in victims:
            Loop.end(twin, victim)
        room = self.site.room(twin.use, job.queue, flavour, job.asked)
        return room and all(twin.free[node] >= cores for node, cores in nodes.items())

    def allowed(self, number: int, flavour: str, victims: list[int]) -> bool:
        """Whether it borrows nothing, if others than its own queue's are stopped for it."""
        site, job = self.site, self.site.jobs[number]
        if all(site.jobs[v].queue == job.queue for v in victims):
            return True
        use: Use = dict(self.use)
        for victim in victims:
            use[site.jobs[victim].queue, self.running[victim][3]] -= site.jobs[victim].asked
        return use.get((job.queue, flavour), 0) + job.asked <= site.quotas[job.queue][flavour].nominal
