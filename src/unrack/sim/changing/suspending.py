"""A run in which jobs may be suspended: they stand still without cores, and go on later."""

from __future__ import annotations

from unrack.core import Core
from unrack.ledger.lease import CORES, Lease
from unrack.policy.contract import Resume, Suspend
from unrack.sim.changing.kernel import SizedKernel
from unrack.sim.kernel import Kernel
from unrack.sim.recorder import Outcome, Suspension
from unrack.sim.world import NOTHING_SPECIAL, World
from unrack.slowdown.combined import Undisturbed
from unrack.workload.job import JobTable


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
