"""Readings of a small Slurm, as values."""

from __future__ import annotations

from typing import Any

from unrack.live.slurm.reading import Licence, NodeShare, Reading, SlurmJob, SlurmNode

AT_S = 1_000_000.0


def node(name: str, cores: int = 8, memory_mb: int = 16_000, **more: Any) -> SlurmNode:
    """A node of the partition main that is idle."""
    said: dict[str, Any] = {"words": frozenset({"IDLE"}), "partitions": frozenset({"main"}), **more}
    return SlurmNode(name, cores, memory_mb, **said)


def waiting(number: int, cpus: int = 1, **more: Any) -> SlurmJob:
    """A job that waits for its turn since 100 s ago."""
    said: dict[str, Any] = {
        "reason": "Priority", "user": "ann", "partition": "main", "priority": 1000 - number, "cpus": cpus,
        "tasks": cpus,
        "submit_s": int(AT_S) - 100, "limit_s": 600, "node_memory_mb": 100, **more,
    }  # fmt: skip
    return SlurmJob(number, "PENDING", **said)


def running(number: int, holds: dict[str, tuple[int, int]], ran_s: int = 60, **more: Any) -> SlurmJob:
    """A job that runs on some nodes with so many cores and MB of each."""
    said: dict[str, Any] = {
        "user": "bob", "partition": "main", "priority": 5, "start_s": int(AT_S) - ran_s, "limit_s": 600,
        "submit_s": int(AT_S) - ran_s - 10, "nodes_min": len(holds), "cpus": sum(cores for cores, _ in holds.values()),
        "holds": {name: NodeShare(*one) for name, one in holds.items()}, **more,
    }  # fmt: skip
    return SlurmJob(number, "RUNNING", **said)


def ended(number: int, ran_s: int, limit_s: int, user: str = "ann", state: str = "COMPLETED") -> SlurmJob:
    """A job that has ended."""
    start_s = int(AT_S) - 5000
    return SlurmJob(number, state, user=user, start_s=start_s, end_s=start_s + ran_s, limit_s=limit_s)


def reading(
    jobs: list[SlurmJob], nodes: list[SlurmNode] | None = None, licences: dict[str, int] | None = None
) -> Reading:
    """What Slurm says; by default of four equal nodes."""
    found = [node(f"n{number}") for number in range(1, 5)] if nodes is None else nodes
    return Reading(
        AT_S, tuple(found), tuple(jobs), {name: Licence(total, 0) for name, total in (licences or {}).items()}
    )
