"""A job like one that would have delayed the head, and that runs as long, is not tried again in a pass."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import polars as pl
import pytest
from laws.mixed_worlds import DRIVES, S

from unrack.cluster.spec import Cluster
from unrack.policy.discipline.pass_choices import PassChoices
from unrack.policy.discipline.queue_pass import Passes
from unrack.policy.discipline.skyline import reserved
from unrack.sim.result import Result
from unrack.sim.simulate import simulate
from unrack.workload.formats.rules import Intake
from unrack.workload.job import JobTable, Workload, job_table

POLICIES = ("easy", "easy(memory=disaggregated)", "easy(place=best-fit, order=sjf)", "easy(memory=contention-aware)",
            "easy(place=worst-fit, memory=disaggregated, nodes=whole)", "easy(backfill_order=sjf)")  # fmt: skip
PARTITIONS = [{"name": "a", "nodes": ["0-2"]}, {"name": "b", "nodes": ["3-5"]}, {"name": "c", "nodes": ["0-5"]}]


def few_kinds(seed: int, count: int) -> tuple[Cluster, JobTable]:
    """Jobs of five kinds, more than there is room for, on nodes that lend, with drives and a licence.

    In every other world in partitions, of which the last has all nodes.
    """
    random = np.random.default_rng(seed)
    parts, lending = seed % 2 == 1, ("all", "rack")[seed // 2 % 2]
    cluster = Cluster.from_dict({
        "nodes": [{"count": 6, "cores": 8, "memory": 16}], "nodes_per_rack": 3, "lending": lending,
        "pools": [DRIVES], "counted": [{"name": "solver", "amount": 2}],
        **({"site": {"partitions": PARTITIONS}} if parts else {}),
    })  # fmt: skip
    kind = random.integers(0, 5, count)
    shapes = np.array([(1, 4, 6, 0, 0), (3, 2, 2, 0, 0), (1, 8, 24, 0, 0), (1, 2, 4, 1800, 0), (2, 3, 1, 0, 1)])[kind]
    work = random.integers(20, 900, count) * S
    jobs = job_table(
        submit_us=np.sort(random.integers(0, 12 * count, count)) * S, work_us=work,
        request_us=work + random.integers(0, 3, count) * 100 * S,
        tasks=shapes[:, 0], cores=shapes[:, 1], memory_mb=shapes[:, 2], app=pl.Series(["job"] * count),
        devices={("nvme", "bandwidth_mb_s"): shapes[:, 3], ("nvme", "capacity_mb"): shapes[:, 3] * 20,
                 ("counted", "solver"): shapes[:, 4]},
        extra=pl.DataFrame({"partition": random.choice([*"abcc"], count).tolist()}) if parts else None,
    )  # fmt: skip
    return cluster, jobs


def asked(monkeypatch: pytest.MonkeyPatch, seed: int, policy: str, count: int, alike: bool) -> tuple[Result, int]:
    """A run, and how often it asked whether a head still has a place."""
    calls = Counter[str]()
    leaves = PassChoices._leaves_place

    def counting(self: PassChoices, *how: Any) -> bool:
        calls["leaves"] += 1
        return leaves(self, *how)

    with monkeypatch.context() as patched:
        patched.setattr(PassChoices, "_leaves_place", counting)
        patched.setattr(reserved, "FEW_ASKED", 10**9)  # all is asked outside of kernels, where it is counted
        if not alike:
            patched.setattr(Passes, "goes_by_kind", lambda self, view: False)
        cluster, jobs = few_kinds(seed, count)
        workload = Workload("w", jobs, Intake("drawn", "drawn", count, count))
        return simulate(cluster, workload, policy), calls["leaves"]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", range(6))
def test_every_start_is_as_if_all_were_tried(monkeypatch: pytest.MonkeyPatch, seed: int, policy: str) -> None:
    (found, _), (every, _) = (asked(monkeypatch, seed, policy, 60, alike) for alike in (True, False))
    assert found.jobs.equals(every.jobs)


def test_jobs_of_a_few_kinds_are_tried_a_few_times_in_a_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    few, every = (asked(monkeypatch, 3, "easy(memory=disaggregated)", 150, alike)[1] for alike in (True, False))
    assert 0 < 3 * few < 2 * every, (few, every)
