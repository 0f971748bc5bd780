"""Runs in which jobs change: their size, the time that they may take, whether they are suspended."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from unrack.cluster.pools.pool import Pace
from unrack.cluster.spec import Cluster
from unrack.core import Core
from unrack.events import ASK, EXPIRE, FINISH, Asked, Expired
from unrack.ledger.lease import CORES, Lease, Sizes
from unrack.policy.contract import Decision, Extend, Policy, Requeue, Resume, Start, Suspend
from unrack.sim.kernel import Entry, Kernel
from unrack.sim.recorder import Extension, Outcome, Suspension
from unrack.sim.world import NOTHING_SPECIAL, World
from unrack.slowdown.combined import SizedSpeeds, Undisturbed
from unrack.units import NEVER_US
from unrack.workload.job import TASKS, JobTable


class SizedKernel(Kernel):
    """The usual kernel with jobs that run as fast as their size allows and stand still while it changes."""

    def __init__(self, core: Core, world: World = NOTHING_SPECIAL, jobs: JobTable | None = None) -> None:
        super().__init__(core, world, jobs)
        self.sizes = core.state.sizes
        self.slowdown = SizedSpeeds(self.slowdown or Undisturbed(), self.sizes)
        self.asked: dict[int, int] = {}  # running job that evolves → how often it has asked for a change

    def begin(self, lease: Lease, now: int) -> None:
        """A job runs with a lease from now on; one that kept its work does not ask again for what it has."""
        job = lease.job
        if job in self.sizes and self.sizes[job].asks:
            done = 1 - self.kept_work.get(job, self.work[job]) / self.work[job] if self.work[job] else 1.0
            self.asked[job] = sum(share <= done for share, _ in self.sizes[job].asks)
        super().begin(lease, now)

    def exchange(self, lease: Lease, now: int) -> None:
        """A running job holds another lease from now on, and stands still for as long as that takes."""
        job = lease.job
        if job in self.sizes:
            self.works.stall(job, self.core.state.change_us(job, now), now)
        super().exchange(lease, now)
        if job in self.sizes:
            self.version[job] += 1
            self.plan_end(job, max(now, self.works.end_us(job)), now)

    def plan_end(self, job: int, time: int, now: int) -> None:
        """Plan the end of a running job, and when it next asks for another size."""
        super().plan_end(job, time, now)
        if (times := self.asked.get(job)) is not None and times < len(self.sizes[job].asks):
            share, _ = self.sizes[job].asks[times]
            more = self.works.left(job, now) - (1 - share) * self.work[job]
            self.push(self.works.after(job, max(0.0, more), now), ASK, job, self.version[job])

    def happen(self, entry: Entry, now: int) -> bool:
        """As usual; or a job asks for another size."""
        _, rank, _, job, version = entry
        if rank != ASK:
            return super().happen(entry, now)
        if self.version[job] != version:
            return False
        _, tasks = self.sizes[job].asks[self.asked[job]]
        self.asked[job] += 1
        self.core.handle(Asked(job, tasks), now)
        self.version[job] += 1
        self.plan_end(job, max(now, self.works.end_us(job)), now)
        return True

    def end(self, job: int, now: int, outcome: Outcome) -> Lease:
        """Note that an attempt has ended; returns what it held."""
        self.asked.pop(job, None)
        return super().end(job, now, outcome)


def possible_sizes(
    cluster: Cluster, jobs: JobTable, policy: Policy[Any], pace: Callable[[JobTable], Pace], sizes: Mapping[int, Sizes]
) -> dict[int, Sizes]:
    """The same, without sizes that the empty cluster could not hold; one of which it could hold none keeps all."""
    found: dict[int, list[int]] = {job: [] for job in sizes}
    for place in range(max((len(one.tasks) for one in sizes.values()), default=0)):
        asks = jobs.asks.copy()
        some = {job: one.tasks[place] for job, one in sizes.items() if place < len(one.tasks)}
        asks[TASKS, list(some)] = list(some.values())
        table = replace(jobs, asks=asks)
        never = Core(cluster, table, policy, pace).refused()
        for job in some:
            found[job] += [] if never[job] else [place]
    return {job: sizes[job].some(places) if places else sizes[job] for job, places in found.items()}


def without_cores(part: Lease) -> Lease:
    """The lease of a component that is suspended."""
    rows = part.rows.copy()
    rows[:, CORES] = 0
    return part._replace(rows=rows)


class SuspendingKernel(Kernel):
    """The usual kernel, in which jobs may stand still."""

    def __init__(self, core: Core, world: World = NOTHING_SPECIAL, jobs: JobTable | None = None) -> None:
        super().__init__(core, world, jobs)
        self.slowdown = self.slowdown or Undisturbed()

    def pause(self, decision: Suspend | Resume, now: int) -> None:
        """A job was suspended, or goes on; its end moves."""
        job, works = decision.job, self.works
        self.version[job] += 1
        if isinstance(decision, Suspend):
            self.paused[job] = works.hold(job, now)
            self.recorder.suspended.setdefault(job, []).append(Suspension(now, -1, decision.reason))
        lease = self.core.state.lease(job)
        lease.rows.flags.writeable = False  # the log keeps them
        if isinstance(decision, Suspend):
            lease = lease._replace(parts=tuple(without_cores(part) for part in lease.parts))
        self.exchange(lease, now)
        if isinstance(decision, Resume):
            self.recorder.went_on(job, now)
            works.go_on(job, now + self.paused.pop(job))
            self.plan_end(job, max(now, works.end_us(job)), now)

    def end(self, job: int, now: int, outcome: Outcome) -> Lease:
        """Note that an attempt has ended; returns what it held."""
        if self.paused.pop(job, None) is not None:
            self.recorder.went_on(job, now)
        return super().end(job, now, outcome)


class SizedSuspendingKernel(SuspendingKernel, SizedKernel):
    """As both; no running job changes its size."""

    exchange = Kernel.exchange


class LimitedKernel(SuspendingKernel):
    """A kernel that ends jobs at the limits with which they were started, as those that read traces do at a request."""

    def __init__(self, core: Core, world: World = NOTHING_SPECIAL, jobs: JobTable | None = None) -> None:
        self.cut: dict[int, float] = {}  # running job → work that it will not do, µs at speed 1
        super().__init__(core, world, jobs)

    def carry_out(self, decisions: list[Decision], now: int) -> None:
        """Turn decisions into future events; limits are noted first."""
        for decision in decisions:
            if isinstance(decision, Start):
                self.recorder.limits.pop(decision.lease.job, None)
                if decision.limit_us:
                    self.recorder.limits[decision.lease.job] = decision.limit_us
        super().carry_out(decisions, now)

    def begin(self, lease: Lease, now: int) -> None:
        """A job runs with a lease from now on, for as long as its limit allows."""
        job = lease.job
        limit_us, kept = self.recorder.limits.get(job), self.kept_work.get(job)
        work = float(self.work[job]) if kept is None else kept
        if limit_us is None or work <= limit_us:
            super().begin(lease, now)
            return
        self.cut[job], self.kept_work[job] = work - limit_us, float(limit_us)
        super().begin(lease, now)
        self.kept_work.pop(job)
        if kept is not None:
            self.kept_work[job] = kept

    def stop(self, decision: Requeue, now: int) -> None:
        """A job was stopped; all of its work is left again."""
        self.works.more(decision.job, self.cut.pop(decision.job, 0.0), now)
        super().stop(decision, now)

    def end(self, job: int, now: int, outcome: Outcome) -> Lease:
        """Note that an attempt has ended, and that its limit has cut it."""
        if self.cut.pop(job, None) is not None:
            self.recorder.cut.add(job)
        return super().end(job, now, outcome)


class ExpiringKernel(LimitedKernel):
    """A kernel in which limits are of the time for which a job runs, however fast it does."""

    def __init__(self, core: Core, world: World = NOTHING_SPECIAL, jobs: JobTable | None = None) -> None:
        self.due: dict[int, int] = {}  # running job → when it is stopped
        self.may: dict[int, int] = {}  # running job → for how long it may run
        self.left: dict[int, int] = {}  # suspended job → how much longer it may run
        super().__init__(core, world, jobs)
        self.given = self.recorder.extensions = dict[int, list[Extension]]()

    def begin(self, lease: Lease, now: int) -> None:
        """A job runs with a lease from now on, with a limit as the policy was told."""
        SuspendingKernel.begin(self, lease, now)
        state, job = self.core.state, lease.job
        limit_us = self.expected_us(job) if job in self.standing else self.core.state.expected_us[job]
        self.may[job] = limit_us + int(state.grace_us[job])
        self._stop_at(job, state.begins_us(job, now) + self.may[job])

    def _stop_at(self, job: int, time: int) -> None:
        self.due[job] = time
        if time < NEVER_US:
            self.push(time, EXPIRE, job, 0)

    def pause(self, decision: Suspend | Resume, now: int) -> None:
        """A job was suspended, or goes on: while it stands nothing of its limit is used up."""
        super().pause(decision, now)
        if isinstance(decision, Suspend):
            self.left[decision.job] = self.due.pop(decision.job) - now
        else:
            self._stop_at(decision.job, now + self.left.pop(decision.job))

    def happen(self, entry: Entry, now: int) -> bool:
        """As usual; or a job has used up its limit, and runs on only if it is given more time."""
        _, rank, sequence, job, _ = entry
        if rank != EXPIRE:
            return super().happen(entry, now)
        if self.due.get(job) != now:
            return False
        for decision in self.core.handle(Expired(job), now):
            assert isinstance(decision, Extend)
            self._stop_at(job, decision.until_us)
            self.given.setdefault(job, []).append(Extension(now, decision.until_us))
            self.may[job] += decision.until_us - now
            self.recorder.limits[job] = self.may[job]
            return True
        self.recorder.cut.add(job)
        return super().happen((now, FINISH, sequence, job, self.version[job]), now)

    def end(self, job: int, now: int, outcome: Outcome) -> Lease:
        """Note that an attempt has ended; returns what it held."""
        self.due.pop(job, None)
        self.left.pop(job, None)
        self.may.pop(job, None)
        return super().end(job, now, outcome)
