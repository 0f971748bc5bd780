"""Tasks that are kept apart: each of a job that asks for N nodes wants a node of its own."""

from __future__ import annotations

from collections.abc import Iterable

from unrack.live.driver.contract import Orchestrator
from unrack.live.driver.portable import Names
from unrack.live.driver.seen import SeenJob, Shown

APART = "spread"
"""The resource that keeps tasks of a group apart; a job's own group makes that one task a node."""


def wants_apart(jobs: Iterable[SeenJob], orchestrator: Orchestrator, names: Names) -> bool:
    """True if a job that waits has tasks that must be kept apart."""
    held = (job for job in jobs if job.shown == Shown.HELD and job.ours)
    return any(orchestrator.wants_apart(job, names) for job in held)
