"""A run in which jobs may have another size than they were submitted with, change it, and ask for changes."""

from __future__ import annotations

from unrack.core import Core
from unrack.events import ASK, Asked
from unrack.ledger.lease import Lease
from unrack.sim.kernel import Entry, Kernel
from unrack.sim.recorder import Outcome
from unrack.sim.world import NOTHING_SPECIAL, World
from unrack.slowdown.combined import Undisturbed
from unrack.slowdown.sizes import SizedSpeeds
from unrack.workload.job import JobTable


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
