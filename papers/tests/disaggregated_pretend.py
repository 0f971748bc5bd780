"""Reproductions of disaggregated GPUs with few jobs on four machines, and of flows on small networks."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from unrack_papers.execution import execute
from unrack_papers.measured import Measured
from unrack_papers.reproduction import Point
from unrack_papers.table import REPRODUCTIONS

NAMES = ("flow-makespan", "flow-network", "flow-utilisation", "flow-solvers")
LONG_S = {"kind": "uniform", "min": 360, "max": 440}
"""So long that jobs still wait when those that warm up have ended."""
SHORT_S = {"kind": "uniform", "min": 60, "max": 80}


@cache
def few(name: str, seeds: int = 2) -> Measured:
    """A reproduction at a size that takes a second or two."""
    one = REPRODUCTIONS[name]
    return execute(
        replace(one, points=tuple(_smaller(point, name == "flow-makespan") for point in one.points)),
        replace(one.defaults, seeds=seeds),
    )


def _smaller(point: Point, until_others_end: bool) -> Point:
    keys: dict[str, Any] = dict(point.workload)
    if "tasks" in keys:
        return replace(point, workload={"tasks": min(keys["tasks"], 60)})
    size = {"jobs": 44, "run_s": LONG_S} if until_others_end else {"jobs": 24, "run_s": SHORT_S}
    return replace(point, workload={**keys, "machines": 4, **size})
