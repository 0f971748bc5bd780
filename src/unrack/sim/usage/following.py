"""Jobs that use more and less memory while they run: when they lack it, stand still, and go on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from unrack.errors import InputError, first_fault, got_and_want
from unrack.events import LACK, MONITOR, Stuck
from unrack.kernels.arrays import Ints
from unrack.ledger.lease import BORROWER, LOAN_MB, LOCAL_MB, NODES, Lease, loans_of
from unrack.ledger.memory_use import Peaks, lacking_mb
from unrack.policy.contract import Hold, Resize, Used
from unrack.reasons import Code, Reason
from unrack.sim.recorder import MemoryStop
from unrack.sim.usage.memory_in_use import MemoryInUse, whole_ticks
from unrack.units import NEVER_US, amount_of, bandwidth_mb_s, time_us

if TYPE_CHECKING:
    from unrack.sim.kernel import Kernel
    from unrack.workload.usage.curves import UsageCurves


class Following:
    """The part of a kernel that follows what jobs use, in runs in which that is known.

    ``use``: what running jobs use, by their progress; ``held``: the jobs that stand still for lack of memory, and what
    they need.
    """

    def __init__(self, kernel: Kernel, usage: UsageCurves) -> None:
        core = kernel.core
        core.state.peaks = Peaks(usage.first, usage.peaks())
        asked_mb, look_us = kernel.jobs.memory_mb, core.traits.monitor_us
        self.kernel = kernel
        self.use = MemoryInUse(usage, core.state, kernel.works, kernel.work, asked_mb, look_us)
        self.held: dict[int, Used] = {}
        self._keeps: dict[int, bool] = {}
        self._looks_at = NEVER_US
        self._grower = -1
        self._freed = False

    def plan(self, job: int, now: int) -> None:
        """Plan when a job next needs more memory than it holds, and when use is looked at next."""
        if self.use.known(job) and job not in self.held and (planned := self.use.plan(job, now)) is not None:
            self.kernel.push(planned[0], LACK, job, planned[1])
        if self._looks_at == NEVER_US:
            self._look_at(whole_ticks(now, self.use.look_us))

    def _look_at(self, time: int) -> None:
        self._looks_at = time
        self.kernel.push(time, MONITOR, 0, 0)

    def lack(self, job: int, version: int, now: int) -> bool:
        """A job needs more memory than it holds: others give, or one is stopped."""
        used = self.use.lacking(job, version)
        if used is None:
            return False
        decisions = self.kernel.core.handle(used, now)
        self._grower = job
        self.kernel.carry_out(decisions, now)
        return any(not isinstance(decision, Resize) for decision in decisions)

    def look(self, now: int) -> bool:
        """What the running jobs use is looked at; the policy is told, where it wants to know."""
        kernel = self.kernel
        self._looks_at = NEVER_US
        used = self.use.look(kernel.running, self.held, now)
        if kernel.running:
            self._look_at(now + self.use.look_us)
        decisions = [] if used is None or not kernel.core.traits.monitor_us else kernel.core.handle(used, now)
        kernel.carry_out(decisions, now)
        self.use.sample(kernel.running, used, now)
        return bool(decisions)

    # --- standing still ---------------------------------------------------------------------------------------------

    def hold(self, job: int, keep_work: bool, now: int) -> None:
        """A job stands still from now on; ``keep_work``: of :class:`Hold`."""
        self._keeps[job] = keep_work
        if job not in self.held:
            self.kernel.works.hold(job, now)
            self.kernel.version[job] += 1
            self.held[job] = self.use.needed(job)
            self.kernel.recorder.held_since[job] = now

    def ask_again(self, now: int) -> bool:
        """Jobs that stand still get the memory that has come back; if no job goes on, one of them is stopped."""
        kernel, changed = self.kernel, False
        while self.held and (self._freed or len(self.held) == len(kernel.running)):
            if not self._freed:
                youngest = sorted(self.held, key=lambda job: (-kernel.running[job][0], -job))
                kernel.recorder.deadlocks.append(now)
                self._grower = youngest[0]
                kernel.carry_out(kernel.core.handle(Stuck(tuple(youngest), self._keeps[youngest[0]]), now), now)
            self._freed = False
            changed = True
            for job in list(self.held):
                decisions = kernel.core.handle(self.held[job], now)
                if not any(isinstance(decision, Hold) for decision in decisions):
                    self._go_on(job, now)
                self._grower = job
                kernel.carry_out(decisions, now)
        return changed

    def _go_on(self, job: int, now: int) -> None:
        kernel = self.kernel
        del self.held[job]
        kernel.recorder.stood_still(job, now, kernel.running[job][1])
        kernel.works.go_on(job, now)
        kernel.version[job] += 1
        kernel.plan_end(job, kernel.works.end_us(job), now)
        self.plan(job, now)

    # --- leases that change or end ----------------------------------------------------------------------------------

    def exchanged(self, before: Lease, lease: Lease, now: int) -> None:
        """A job's lease has changed: the job stands still for as long as that takes."""
        self._freed = True
        job, kernel = lease.job, self.kernel
        if job not in self.held and (kernel.changes.pause or kernel.changes.bandwidth is not None):
            size, signs = len(kernel.core.state.cluster), ((lease, 1), (before, -1))
            local = ((one.nodes, sign * np.repeat(one.rows[:, LOCAL_MB], one.rows[:, NODES])) for one, sign in signs)
            remote = ((one.borrowed[:, BORROWER], -sign * one.borrowed[:, LOAN_MB]) for one, sign in signs)
            more, fewer = (sum(np.bincount(node, mb, size) for node, mb in part) for part in (local, remote))
            delay_us = kernel.changes.delay_us(int(np.minimum(more, fewer).clip(0).sum()))
            if delay_us:
                kernel.works.stall(job, delay_us, now)
                kernel.version[job] += 1
                kernel.plan_end(job, kernel.works.end_us(job), now)
        self.plan(job, now)

    def ended(self, lease: Lease, now: int) -> None:
        """A job does not run any more."""
        self._freed = True
        if self.held.pop(lease.job, None) is not None:
            self.kernel.recorder.stood_still(lease.job, now, lease)
        self.use.forget(lease.job)

    def note_stop(self, reason: Reason, lost_us: int) -> None:
        """A job is stopped, and so much of its work is lost, for the one that lacks memory now."""
        kernel, grower = self.kernel, self._grower
        lease = kernel.running[grower][1]
        rows = lease.rows.copy()  # the log's cannot be written to, which is another type for a kernel
        lacks_mb = lacking_mb(rows, loans_of(lease.borrowed), self.use.needed(grower).mb)
        why = MemoryStop(reason, str(kernel.jobs.ids[grower]), lacks_mb, lost_us)
        kernel.recorder.memory_stops[len(kernel.recorder.job)] = why


_time = amount_of(time_us, "a time: seconds, or text such as '2 min'")
_rate = amount_of(bandwidth_mb_s, "a rate: MB/s, or text such as '10 GB/s'")
Time = Annotated[int, BeforeValidator(_time), Field(ge=0)]


class MemoryChanges(BaseModel):
    """Costs of the executor, and checkpoints."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    # MB/s at which memory that moves from another node to the job's own is copied; the job waits. ``None``: at once.
    bandwidth: Annotated[int, BeforeValidator(_rate), Field(ge=1)] | None = None
    pause: Time = 0  # how long a job stands still whenever its lease changes, µs
    # work between two checkpoints, µs at speed 1; ``None``: there are none
    checkpoint_every: Annotated[int, BeforeValidator(_time), Field(ge=1)] | None = None
    # checkpoint_cost, restart_cost: what a checkpoint takes, and going on from one, µs of work
    checkpoint_cost: Time = 0
    restart_cost: Time = 0

    def whole_us(self, work_us: Ints) -> Ints:
        """int64[jobs]: the work of jobs with their checkpoints, µs; none is made at the end of a job."""
        if self.checkpoint_every is None or not self.checkpoint_cost:
            return work_us
        made: Ints = np.maximum(work_us - 1, 0) // self.checkpoint_every
        return work_us + made * self.checkpoint_cost

    def decide_what_is_kept(self, code: Code) -> bool:
        """Whether a job that is stopped and keeps its work has only what its last checkpoint kept."""
        return code == Code.OUT_OF_MEMORY or (code == Code.PREEMPTED and self.checkpoint_every is not None)

    def kept_us(self, done_us: float) -> float:
        """Of work done, what the last checkpoint has kept, its own cost included."""
        if self.checkpoint_every is None:
            return 0.0
        step = self.checkpoint_every + self.checkpoint_cost
        return float(done_us // step * step)

    def left_us(self, work_us: float, at_start_us: float, left_us: float, returned: bool) -> float:
        """What is left to do of a job that is stopped and goes on from its last checkpoint, µs.

        ``work_us``: all its work; ``at_start_us``, ``left_us``: what was left when it started, and what is left now;
        ``returned``: it went on from a checkpoint when it started.
        """
        before = work_us - at_start_us + (self.restart_cost if returned else 0)
        kept = self.kept_us(max(before, work_us - left_us))
        return work_us - kept + (self.restart_cost if kept else 0)

    def delay_us(self, moved_mb: int) -> int:
        """How long a job stands still when its lease changes and so much data moves."""
        return self.pause + (0 if self.bandwidth is None else -(-moved_mb * 1_000_000 // self.bandwidth))


def make_memory_changes(value: Mapping[str, Any] | MemoryChanges | None) -> MemoryChanges:
    """Costs from a table; ``None``: changes cost nothing, and there are no checkpoints. Others are an InputError."""
    if isinstance(value, MemoryChanges):
        return value
    try:
        return MemoryChanges.model_validate(dict(value or {}))
    except ValidationError as error:
        fault = first_fault(error.errors())
        raise InputError(
            f"memory_changes, {fault['loc'][0]}", *got_and_want(fault, list(MemoryChanges.model_fields))
        ) from None
