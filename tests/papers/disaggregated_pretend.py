"""Reproductions of disaggregated GPUs with few jobs on four machines, and of flows on small networks."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from unrack.papers.execution import execute
from unrack.papers.measured import Measured
from unrack.papers.reproduction import Point
from unrack.papers.table import REPRODUCTIONS

NAMES = ("flow-makespan", "flow-network", "flow-utilisation", "flow-solvers")
RUN_S = {"kind": "uniform", "min": 360, "max": 440}
"""So long that jobs still wait when those that warm up have ended."""


@cache
def few(name: str, seeds: int = 2) -> Measured:
    """A reproduction at a size that takes a second or two."""
    one = REPRODUCTIONS[name]
    return execute(replace(one, points=tuple(map(_smaller, one.points))), replace(one.defaults, seeds=seeds))


def _smaller(point: Point) -> Point:
    keys: dict[str, Any] = dict(point.workload)
    if "tasks" in keys:
        return replace(point, workload={"tasks": min(keys["tasks"], 60)})
    return replace(point, workload={**keys, "machines": 4, "jobs": 44, "run_s": RUN_S})
