"""Give a running job more time than it asked for."""

from __future__ import annotations

from unrack.errors import RefusedError
from unrack.ledger.state import RUNNING, ClusterState


def extend(state: ClusterState, job: int, until_us: int, now: int) -> None:
    """Let a running job run until a time, µs; until it is stopped it is expected to run for as much longer.

    A RefusedError if it is not running, is suspended, holds pooled devices (the models of which say when it ends), or
    the time has passed.
    """
    if state.condition(job) != RUNNING or job in state.suspended:
        raise RefusedError(f"extend job {job}: it is not running")
    if state.devices is not None and state.devices.asking[job]:
        raise RefusedError(f"extend job {job}: it holds pooled devices")
    ends_us = max(now, state.booked_end(job))
    if until_us <= ends_us:
        raise RefusedError(f"extend job {job}: it may run until then, or that is over")
    if state.before is not None:
        state.before.held(job)
    state.extended_us[job] = state.extended_us.get(job, 0) + until_us - ends_us
    state.limit(job, state.expected_us[job] + until_us - state.booked_end(job))
    state.rebook(job, until_us)
