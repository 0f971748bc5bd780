"""Decisions of a plan, carried out on the ledger."""

from __future__ import annotations

from typing import Any

from unrack.errors import RefusedError
from unrack.ledger.changing.changes import change_size, extend, reshape, resume, suspend
from unrack.ledger.lease import Lease
from unrack.ledger.state import QUEUED, RUNNING, ClusterState
from unrack.policy.contract import (
    Decision,
    Extend,
    Hold,
    Policy,
    Reject,
    Requeue,
    Reshape,
    Resize,
    Resume,
    Start,
    Suspend,
)


def exchanges(state: ClusterState, decisions: list[Decision]) -> list[Lease] | None:
    """The leases of a plan that only exchanges leases of nodes and loans; ``None``: it does something else."""
    leases = []
    for decision in decisions:
        if type(decision) is not Resize or not decision.below or not state.is_plain(decision.lease):
            return None
        leases.append(decision.lease)
    return leases if state.memory is not None and not state.sizes else None


def carry_out(state: ClusterState, decision: Decision, now: int, policy: Policy[Any]) -> None:
    """Do what one decision of a policy says. A RefusedError if it contradicts the state; nothing has changed."""
    if type(decision) is Start:
        job = decision.lease.job
        # of a number that no job has the state says so
        expected_us = state.expected_us[job] if 0 <= job < state.jobs else 0
        limited = 0 < decision.limit_us < expected_us
        state.start(decision.lease, decision.limit_us if limited else expected_us, now)
        if limited:
            state.limit(job, decision.limit_us)
    elif isinstance(decision, Resize) and decision.lease.job in state.sizes:
        change_size(state, decision.lease, now)
    elif isinstance(decision, Resize):
        state.exchange([decision.lease], decision.below)
    elif isinstance(decision, Reshape):
        reshape(state, decision.job, decision.tasks)
    elif isinstance(decision, Requeue):
        state.requeue(decision.job, now, decision.keep_work)
    elif isinstance(decision, Reject):
        if state.condition(decision.job) != QUEUED:
            raise RefusedError(f"reject job {decision.job}: it is not queued")
        state.reject(decision.job)
    elif isinstance(decision, Suspend):
        suspend(state, decision.job, now)
    elif isinstance(decision, Resume):
        resume(state, decision.job, now)
    elif isinstance(decision, Extend):
        extend(state, decision.job, decision.until_us, now)
    elif isinstance(decision, Hold):
        if state.condition(decision.job) != RUNNING:
            raise RefusedError(f"hold job {decision.job}: it is not running")
    else:
        raise RefusedError(f"policy {policy.name} decided {decision!r}, which is not a decision")
