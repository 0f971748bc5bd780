"""What it costs that memory changes while jobs run: moved data, pauses, checkpoints, restarts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from unrack.errors import InputError, first_fault, got_and_want
from unrack.kernels.arrays import Ints
from unrack.reasons import Code
from unrack.units import amount_of, bandwidth_mb_s, time_us

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
        raise InputError(f"memory_changes, {fault['loc'][0]}", *got_and_want(fault)) from None
