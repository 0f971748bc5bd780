"""Memory and time of running jobs: the policy is asked what to change as they use more, and what others are given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unrack.errors import RefusedError
from unrack.events import Expired
from unrack.ledger.memory.use import lacks
from unrack.ledger.state import QUEUED, RUNNING
from unrack.policy.contract import Ability, Decision, Hold, Reject, Requeue, Used
from unrack.reasons import Code, Reason

if TYPE_CHECKING:
    from unrack.core.core import Core


class Provisions:
    """The part of a core that is about what running jobs lack; of most policies it only ends jobs that lack memory."""

    def __init__(self, core: Core) -> None:
        policy: Any = core.policy  # for methods beyond the contract, which its traits declare
        self.core = core
        self._adjusts = policy.adjust if Ability.ADJUST in core.traits.does else None
        self._extends = policy.extends if Ability.EXTENDS in core.traits.does else None
        self._reserves = policy.reserves_mb if Ability.RESERVES_MB in core.traits.does else None

    def _more_time(self, expired: Expired, now: int) -> list[Decision]:
        """Ask the policy whether a job that has used up its limit may run on."""
        core = self.core
        found = None if self._extends is None else self._extends(core.view, core.memory, expired.job, now)
        core.commit(done := [] if found is None else [found], now)
        return done

    def provision(self, used: Used | Expired, now: int) -> list[Decision]:
        """Ask the policy what to change, as long as jobs lack memory and it decides something; stop those that do."""
        if isinstance(used, Expired):
            return self._more_time(used, now)
        core = self.core
        for job in used.jobs.tolist():
            if core.state.condition(job) != RUNNING:
                raise RefusedError(f"use of job {job}: it is not running")
        done: list[Decision] = []
        core.state.withhold()
        while self._adjusts is not None:
            step, core.memory = self._adjusts(core.view, core.memory, used, now)
            core.commit(step, now)
            done += self.reserved(step)
            held = {decision.job for decision in step if isinstance(decision, Hold)}
            left = [i for i in self._lacking(used) if int(used.jobs[i]) not in held] if used.lacking else []
            if not left:
                return done
            used = used if len(left) == len(used.jobs) else used.of(left)
            if not any(isinstance(decision, Requeue | Hold) for decision in step):
                break
        for job in used.jobs[self._lacking(used)].tolist() if used.lacking else ():
            reason = Reason(Code.OUT_OF_MEMORY, "MB" if self._adjusts else "MB: more than it asked for")
            stopped: list[Decision] = [Requeue(job, reason)]
            if self._adjusts is None:
                stopped.append(Reject(job, reason))  # it would need as much again
            core.commit(stopped, now)
            done += self.reserved(stopped)
        return done

    def reserved(self, decisions: list[Decision]) -> list[Decision]:
        """The same decisions; jobs that were stopped and wait again are to be given as much as the policy now says."""
        for decision in decisions if self._reserves is not None else ():
            if isinstance(decision, Requeue) and self.core.state.condition(decision.job) == QUEUED:
                self.reserve(decision.job)
        return decisions

    def reserve(self, job: int) -> None:
        """A waiting job is to be given as much memory as the policy says."""
        if self._reserves is not None:
            core = self.core
            asked_mb = core.jobs.memory_mb[job] if job < len(core.jobs) else core.store.job(job).demand.memory_mb
            core.state.reserve(job, self._reserves(core.view, core.memory, job, int(asked_mb)))

    def _lacking(self, used: Used) -> list[int]:
        """Which of these jobs run and lack memory, by their places."""
        state, found = self.core.state, []
        for i, job in enumerate(used.jobs.tolist()):
            if state.condition(job) == RUNNING and lacks(state.lease(job), used.mb[used.first[i] : used.first[i + 1]]):
                found.append(i)
        return found
