"""A run in which jobs are stopped once they have used up their limits, and the grace after these."""

from __future__ import annotations

from unrack.core import Core
from unrack.events import EXPIRE, FINISH, Expired
from unrack.ledger.lease import Lease
from unrack.policy.contract import Extend, Resume, Suspend
from unrack.sim.changing.limits import LimitedKernel
from unrack.sim.changing.suspending import SuspendingKernel
from unrack.sim.kernel import Entry
from unrack.sim.recorder import Extension, Outcome
from unrack.sim.world import NOTHING_SPECIAL, World
from unrack.units import NEVER_US
from unrack.workload.job import JobTable


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
        limit_us = self.expected_us(job) if job in self.standing else self.core.booked_us(job)
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
