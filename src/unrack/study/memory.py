"""How much memory a run needs: estimated before it starts, so that no worker is killed for it after an hour."""

from __future__ import annotations

from collections.abc import Iterable

from unrack.errors import InputError
from unrack.study.grid import Run
from unrack.study.workers.contract import Workers

PROGRAM_MB = 280.0
"""A process that has loaded the code and its kernels; compiling them takes some 400 more for a while."""
JOB_KB = 2.0
NODE_KB = 0.2
"""Measured (peak resident size, audit included), 10 000 to 1 000 000 jobs on 100 to 100 000 nodes: 0.9 KB a job of one
task, 2.2 where jobs of many tasks are scattered."""
MARGIN = 1.25


def needed_mb(run: Run) -> int:
    """What a run needs at its peak, with a margin, MB (of 2²⁰ bytes)."""
    return round(MARGIN * (PROGRAM_MB + (JOB_KB * len(run.workload) + NODE_KB * len(run.cluster)) / 1024))


def check_memory(workers: Workers, runs: Iterable[Run]) -> None:
    """Refuse runs that need more than a worker has: an InputError has the numbers, and those of the largest."""
    limit = workers.memory_mb
    if limit is None:
        return
    large = [run for run in runs if needed_mb(run) > limit]
    if not large:
        return
    run = max(large, key=needed_mb)
    others = f"; {len(large) - 1:,} other runs need too much, too" if len(large) > 1 else ""
    got = f"{len(run.workload):,} jobs on {len(run.cluster):,} nodes, which need about {needed_mb(run):,} MB{others}"
    fewer = ": with fewer workers (--jobs) each has more" if workers.count > 1 else ""
    raise InputError(f"run {run.id}", got, f"at most {limit:,} MB, what a worker has ({workers.name}){fewer}")
