"""Reproductions of GPUs at a tiny size; and an engine that pretends to fill a cluster, for which files are needed."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from unrack_papers.execution import execute
from unrack_papers.measured import Measured
from unrack_papers.reproduction import Numbers, Task
from unrack_papers.table import REPRODUCTIONS
from unrack_papers.weng.fragmentation import LEVELS, PAPER

NAMES = tuple(name for name in REPRODUCTIONS if name.startswith("gpu-"))


@cache
def tiny(name: str, seeds: int = 2, jobs: int = 12, times: str | None = None) -> Measured:
    """A reproduction with few jobs; that of fragmentation as pretended."""
    one = REPRODUCTIONS[name]
    options = replace(one.defaults, times=times)
    options = replace(options, seeds=1 if one.exact else seeds, jobs=jobs if "jobs" in one.takes else options.jobs)
    return execute(one, options, solve=filled if name == "gpu-fragmentation" else None)


def filled(task: Task) -> list[Numbers]:
    """The paper's numbers at full demand, and all that was asked for before."""
    values: list[Numbers] = []
    for row in task.rows:
        most = PAPER.get(row.name, 96.0 if row.name.startswith("Foresight") else 94.0) / 100 + task.seed / 1000
        levels: Numbers = {f"at.{level}": min(level / 100, most) for level in LEVELS}
        values.append({**levels, "turned_away": 2500.0})
    return values
