"""A run in which jobs may start with shorter limits than they ask for, and end at these with work left undone."""

from __future__ import annotations

from unrack.core import Core
from unrack.ledger.lease import Lease
from unrack.policy.contract import Decision, Requeue, Start
from unrack.sim.changing.suspending import SuspendingKernel
from unrack.sim.recorder import Outcome
from unrack.sim.world import NOTHING_SPECIAL, World
from unrack.workload.job import JobTable


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
