"""What schedulers promise, watched from outside in plain Python: no plan and no pass is asked, but what came of them.

The head of the queue is promised the time at which it has a place if no other job starts: a copy of the run tells it,
in which the others that wait are gone, those that run end as booked, and the head waits alone. A conservative
scheduler says itself what it has promised (``view.promises``), a Slurm-like one when its first starts (``starts_us``).
Promises are forgotten when a node fails, or a job runs past its booked end: they relied on it; and when a job is
stopped for another, or left out for one as it was about to start, or goes on after it was suspended. A job for which a
limit has no room is no head, nor is a gang with drives, for which a rule may find a place where less is free.
"""

from __future__ import annotations

from contextlib import suppress
from heapq import heapify, heappop
from typing import Any

import numpy as np
from law_worlds import World as Run
from law_worlds import begun
from mixed_worlds import with_rules
from test_irrelevance import World

from unrack.cluster.spec import Cluster
from unrack.events import FAIL, REPAIR, Withdrawn
from unrack.ledger.columns import ENDS_US, OF_JOB
from unrack.ledger.state import QUEUED
from unrack.policy.contract import Decision, Requeue, Resume, Suspend
from unrack.policy.discipline.reservations import SlurmLike
from unrack.policy.discipline.skyline.columns import limits_of
from unrack.policy.preemption.preempting import as_site_says
from unrack.policy.table import parse_policy
from unrack.reasons import Code, Reason
from unrack.sim.faults import Fault
from unrack.sim.kernel import Kernel
from unrack.units import NEVER_US
from unrack.workload.job import TASKS, job_table

GONE = Reason(Code.NOT_YET)


class StoppedError(Exception):
    """A run is no longer to go on by itself."""


class Watch:
    """A run in which what was promised is watched, and the policy begins anew now and then.

    Parameters
    ----------
    world, discipline, rules
        What runs, under which discipline with which rules for places.
    faults
        Nodes that fail.
    forgets
        A seed for when the policy begins anew; 0: never.
    """

    def __init__(
        self, world: World, discipline: str, rules: dict[str, str], faults: tuple[Fault, ...] = (), forgets: int = 0
    ) -> None:
        self.made = world, discipline, rules, faults, forgets
        run = Run(Cluster.from_dict(world.cluster), job_table(**world.jobs), world.models, faults=faults)
        self.kernel, self.head = begun(run, with_rules(discipline, **rules)), not discipline.startswith("conservative")
        self.draw, self.forgets = np.random.default_rng(forgets), forgets
        self.promised, self.count, self.rounds, self.failed = dict[int, int](), 0, 0, 0
        self.planned: dict[int, int] = {}
        self.stirred = False  # whether jobs were stopped for others, or went on

    def run(self, rounds: int = -1) -> int:
        """Run to the end, or for so many rounds, which are not watched; returns how many promises there were.

        An AssertionError if one is broken.
        """
        kernel, core, plain = self.kernel, self.kernel.core, self.kernel.round
        decide = core._decide

        def decided(now: int) -> list[Decision]:
            decisions = decide(now)
            stopped = any(isinstance(one, Requeue | Suspend | Resume) for one in decisions)
            self.stirred = self.stirred or stopped or bool(getattr(core.memory, "stopped", ()))
            return decisions

        def round_(now: int) -> int:
            self.rounds += 1
            if self.forgets and self.draw.random() < 0.3:
                kernel.core.begin_anew()
            planned = self._planned(now) if rounds < 0 else {}
            wanted = plain(now)
            if self.rounds == rounds:
                raise StoppedError
            if rounds < 0:
                self._look(now, planned)
            return wanted

        kernel.round, core._decide = round_, decided  # type: ignore[method-assign]
        with suppress(StoppedError):
            kernel.run(after_round=lambda now: None)
        kernel.round, core._decide = plain, decide  # type: ignore[method-assign]
        return self.count

    def _planned(self, now: int) -> dict[int, int]:
        """When jobs would start, as a Slurm-like policy says before a round in which it plans."""
        policy, view = self.kernel.core.policy, self.kernel.core.view
        if not isinstance(policy, SlurmLike) or now % policy.interval_us or not view.waiting:
            return {}
        view.now = now
        return policy.starts_us(view, now)

    def _look(self, now: int, planned: dict[int, int]) -> None:
        kernel, view = self.kernel, self.kernel.core.view
        late, self.failed = len(kernel.outages.capacity) > self.failed, len(kernel.outages.capacity)
        late = late or view.first_end_us < now
        if late or self.stirred:
            self.promised.clear()
        self.stirred = False
        waits = view.queue.tolist()
        for job in self.promised.keys() - set(waits):
            at, first = kernel.running[job][0] if job in kernel.running else now, self.promised.pop(job)
            assert at <= first, f"job {job} started at {at}, promised {first}"
        told = {job: one.start_us for job, one in view.promises.by_job().items()}
        due = self.head and waits and (waits[0] not in self.promised or self.rounds % 3 == 0)
        if due and self._is_head(waits[0]):
            told[waits[0]] = self.start_alone(waits[0], now)
        for job, at in told.items():
            self.count += job not in self.promised
            first = self.promised.get(job, at)
            assert at <= first, f"at {now}, job {job} is to start at {at}, promised {first}"
            self.promised[job] = at
        for job in waits:
            assert now <= self.promised.get(job, now), f"at {now}, job {job} waits, promised {self.promised[job]}"
        if waits and waits[0] in planned and not late:  # others are planned anew, on other nodes
            at = kernel.core.policy.starts_us(view, now).get(waits[0], NEVER_US)
            assert at <= planned[waits[0]], f"at {now}, {waits[0]} would start at {at}, in the plan {planned[waits[0]]}"

    def _is_head(self, job: int) -> Any:
        view, devices = self.kernel.core.view, self.kernel.core.view.columns.devices
        gang = devices is not None and devices.asks(job) and view.asks[TASKS, job] > 1
        if gang or (claimed := view.columns.claimed) is None:
            return not gang
        (place, amount), (first, end) = claimed.at_least(job, int(view.asks[TASKS, job])).T, limits_of(view)
        return not ((place >= first) & (place < end) & (amount > claimed.free[place])).any()

    def start_alone(self, job: int, now: int) -> int:
        """When a job that waits would start, µs, if the others that wait were gone after this round, and none came."""
        again = Watch(*self.made)
        again.run(self.rounds)
        kernel, core, view = again.kernel, again.kernel.core, again.kernel.core.view
        kernel.heap = [entry for entry in kernel.heap if entry[1] not in (FAIL, REPAIR)]
        heapify(kernel.heap)
        for other in view.queue.tolist():
            if other != job:
                core.handle(Withdrawn(other, GONE), now)
        self._booked(kernel, now)
        alone = as_site_says(parse_policy(with_rules("fcfs", **self.made[2])), core.state.cluster)
        core.policy, core._promised, kernel.slowdown = alone, None, None
        core.begin_anew()
        wake = kernel.round(now)
        while core.state.conditions[job] == QUEUED:
            now = min(kernel.heap[0][0] if kernel.heap else NEVER_US, wake)
            if now == NEVER_US:
                break
            while kernel.heap and kernel.heap[0][0] == now:
                kernel.happen(heappop(kernel.heap), now)
            wake = kernel.round(now)
            self._booked(kernel, now)
        return now

    @staticmethod
    def _booked(kernel: Kernel, now: int) -> None:
        """Let jobs that run end as booked, which changes as others that share their devices leave."""
        view = kernel.core.view
        for end, job in view.running[[ENDS_US, OF_JOB], : view.running_count].T.tolist():
            kernel.version[job] += 1
            kernel.plan_end(job, max(end, now + 1), now)
