"""An engine that pretends to run jobs that use less than they ask for: numbers by rule from mix, system and policy."""

from __future__ import annotations

import math
from dataclasses import replace

import pretend

from unrack_papers.execution import execute
from unrack_papers.measured import Measured
from unrack_papers.reproduction import Numbers, Row, Task
from unrack_papers.simulation import cluster_of
from unrack_papers.table import REPRODUCTIONS
from unrack_papers.zacarias.counts import RESPONSES_S
from unrack_papers.zacarias.dynamic.counts import LEVELS as TIMES
from unrack_papers.zacarias.overestimation.users import AT, BANDS

NAMES = [name for name in REPRODUCTIONS if name.startswith(("overestimation-", "dynamic-"))]
GB = 1024


def memory_of(row: Row) -> float:
    """Memory of the row's system, as a part of 128 GB a node."""
    cluster = cluster_of(row.cluster)
    return cluster.total_mb / len(cluster) / (128 * GB)


def engine(task: Task) -> list[Numbers]:
    """Static loses by what jobs ask for, dynamic a quarter of that by what they use."""
    mix = float(task.workload.get("large_share", 0.2))
    over = float(task.workload.get("overestimate", 0.0))
    numbers = []
    for row in task.rows:
        dynamic = "provisioning=dynamic" in row.policy
        lost = max((0.3 + 0.6 * mix) * (1 + over) - memory_of(row), 0.0) * (0.25 if dynamic else 1.0)
        if row.policy.startswith("baseline"):
            lost = 2 * max(0.4 + 0.6 * mix - memory_of(row), 0.0)
        kept = max(1 - lost, 0.05) * (1 + 0.001 * pretend.noise(mix, over, row.name, row.policy, task.seed))
        mean_s = 20_000 / kept
        values: Numbers = {
            "jobs_per_h": 40.0 * kept * (1 + 0.1 * pretend.noise(mix, task.seed)),
            "jobs_rejected": 0.0,
            "jobs_finished": 2000.0,
            "utilisation_cores": 0.9 * kept,
            "memory_used": 0.3 * kept / memory_of(row),
            "memory_held_unused": 0.1 if dynamic else 0.4,
            "jobs_out_of_memory": 0.004 * lost,
            "memory_stops": 9.0 * lost * (2 - float(row.policy.partition("initial=")[2].partition(")")[0] or 1)),
            "response.mean": mean_s,
            "response.all.mean": mean_s,
            "response.median": math.log(2) * mean_s,
            "base_s": mean_s,
            "everyone": 0.05 if dynamic else 0.9,
            "diligent": 0.04 if dynamic else 0.8,
            "alone.60": 0.03,
            "alone.100": 0.05 + 0.001 * pretend.noise(mix, row.name, task.seed),
        }
        values |= {f"within.{t}": 1 - math.exp(-t / mean_s) for t in RESPONSES_S}
        values |= {f"lending.{level}": (0.2 if dynamic else 0.3) * lost * level / 50 for level in TIMES}
        for band in range(1, BANDS + 1):
            base_s = 3600.0 * band
            values[f"{band}.base_s"] = base_s
            values |= {f"{band}.{one.metric}": base_s * (1.5 + 0.1 * level / 100) for level, one in AT.items()}
        numbers.append(values)
    return numbers


def pretended(name: str, seeds: int) -> Measured:
    """A reproduction of these names, by the engine."""
    one = REPRODUCTIONS[name]
    return execute(one, replace(one.defaults, seeds=seeds), solve=engine)
