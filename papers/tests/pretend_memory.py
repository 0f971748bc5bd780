"""Engines that pretend to run batch jobs with memory: numbers by rule from the mix, the system and the policy."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import disaggregated_pretend
import flow_pretend
import gpu_pretend
import pretend
import zacarias_pretend

from unrack_papers.execution import execute
from unrack_papers.measured import Measured
from unrack_papers.reproduction import Numbers, Row, Task
from unrack_papers.table import REPRODUCTIONS
from unrack_papers.zacarias.counts import KINDS, RESPONSES_S
from unrack_papers.zacarias.published import ALL_COMPUTE, CONTENDING, SOME_COMPUTE

LOSS = {"Strawman": 0.3, "Naive": 0.25, "Local": 0.12, "Local-spread": 0.1, "Disaggregated": 0.04}
"""Throughput lost for a system that is short of all large nodes."""


def large_nodes(row: Row) -> float:
    """Share of large nodes, from the name of the system."""
    return int(str(row.cluster).rpartition("-")[2]) / 100


COSTS = {ALL_COMPUTE: 0.0, SOME_COMPUTE: 0.2, CONTENDING: 0.3}
"""The same for rows that take the cost of lending apart; beside them the disaggregated policy loses a twenty-fifth."""


@cache
def _exact(name: str) -> Measured:
    return execute(REPRODUCTIONS[name], REPRODUCTIONS[name].defaults)


def pretended(name: str, seeds: int) -> Measured:
    """Any reproduction, by the engine that pretends for it; where nothing is drawn, the real one."""
    one = REPRODUCTIONS[name]
    if name == flow_pretend.NAME:
        return flow_pretend.pretended()
    if name in disaggregated_pretend.NAMES:
        return disaggregated_pretend.few(name, seeds)
    if one.exact:
        return _exact(name)
    if name in gpu_pretend.NAMES:
        return gpu_pretend.tiny(name, seeds)
    if name in zacarias_pretend.NAMES:
        return zacarias_pretend.pretended(name, seeds)
    options = replace(one.defaults, seeds=seeds)
    if one.solve is not None:
        return execute(pretend.without_batches(one), options)
    return execute(one, options, solve=engine if name.startswith("memory-") else pretend.engine)


def engine(task: Task) -> list[Numbers]:
    """As the thesis has it: the baseline loses most where large nodes lack, the disaggregated policy a twenty-fifth."""
    mix = float(task.workload["large_share"])
    numbers = []
    for row in task.rows:
        name = row.name.partition(",")[0]
        short = max(mix - large_nodes(row), 0.0) / max(mix, 0.01)
        lost = short * LOSS.get(name, 0.75 if name == "Baseline" else 0.03)
        if "threshold" in row.policy:
            lost += 0.02 * short * (1 - float(row.policy.partition("threshold=")[2].rstrip(")")))
        if row.name in COSTS:
            lost = COSTS[row.name] * short
        if "group=1)" in row.policy:
            lost = 0.75 * short
        speed = (1 - lost) * (1 + 0.002 * pretend.noise(mix, row.name, row.policy, task.seed))
        mean_s = 20_000 / (1 - lost)
        values: Numbers = {
            "jobs_per_h": 40.0 * speed * (1 + 0.1 * pretend.noise(mix, task.seed)),
            "jobs_rejected": 0.0,
            "utilisation_cores": 0.95 * speed,
            "utilisation_memory": (0.2 + 0.5 * mix) * speed / (1 + large_nodes(row)) / 0.5 * 0.6,
            "remote_share": 0.0 if name == "Baseline" else 0.2 * short,
            "stretch_mean": 1 + 0.1 * lost,
            "attempts": 100 * (1 + 5 * lost),
        }
        for kind in KINDS:
            values |= {f"within.{kind}.{t}": 1 - math.exp(-t / mean_s) for t in RESPONSES_S}
            values |= {f"response.{kind}.mean": mean_s, f"response.{kind}.median": math.log(2) * mean_s}
        values["wall_s"] = 2.0 * (1 + lost)
        numbers.append(values)
    return numbers
