"""Devices of plans and passes are chosen in a kernel as they are outside of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tries import seeds

from unrack import simulate
from unrack.cluster.spec import Cluster
from unrack.kernels.arrays import Ints
from unrack.policy.discipline.skyline import reserved
from unrack.policy.discipline.skyline.plan import Plan
from unrack.policy.placement.alone import Alone
from unrack.workload.formats.rules import Intake
from unrack.workload.job import Workload, job_table

S = 1_000_000
FITS = ("first-fit", "best-fit", "worst-fit")
MEMORY = ("", "memory=disaggregated", "memory=naive", "memory=strawman", "memory=local", "memory=local-spread")


PLANS = ("conservative", "conservative(compress=ends)", "slurm(interval=10 s)")
PASSES = ("easy", "easy(backfill_order=sjf)", "easy(order=sjf)", "list(backfill=any)", "fcfs", "easy(depth=3)")


def world(seed: int, count: int = 40, disciplines: Sequence[str] = PLANS) -> tuple[Cluster, Workload, str]:
    """Pools that are shared, composed or split, near or far, attached slowly or not; and nodes that may lend."""
    random = np.random.default_rng(seed)
    nodes = int(random.integers(2, 7))
    memory = MEMORY[int(random.integers(len(MEMORY)))]
    spec: dict[str, Any] = {
        "nodes": [{"count": nodes, "cores": 4, "memory": 16, "gpus": int(random.integers(1, 3))},
                  {"count": 2, "cores": 6, "memory": 24}],
        "nodes_per_rack": int(random.integers(2, 4)), "counted": [{"name": "seats", "amount": 4}],
        "pools": [{
            "name": "drives", "kind": "nvme", "count": 4, **({"per": "rack"} if random.random() < 0.5 else {}),
            "share": int(random.integers(1, 4)), "compose": int(random.integers(1, 4)),
            "quantities": {"capacity_mb": 1000, "bandwidth_mb_s": 500},
        }],
    }  # fmt: skip
    latency = int(random.integers(3))
    if latency:
        spec["pools"][0] |= {"attach_latency": "3 s", "detach_latency": "7 s" if latency == 2 else 0}
    if memory:
        spec["lending"] = "all" if random.random() < 0.5 else "rack"
    work = random.integers(5, 60, count) * S
    kind = random.integers(0, 4, count)
    jobs = job_table(
        submit_us=np.sort(random.integers(0, 300, count)) * S, work_us=work,
        request_us=np.maximum(1, work + random.integers(-3, 12, count) * 4 * S),
        tasks=random.integers(1, 4, count), cores=random.integers(1, 4, count),
        memory_mb=random.integers(0, 20 if memory else 12, count),
        devices={("nvme", "capacity_mb"): np.where(kind % 2 == 1, random.integers(100, 2200, count), 0),
                 ("nvme", "bandwidth_mb_s"): np.where(kind % 2 == 1, random.integers(0, 600, count), 0),
                 ("gpu", "devices"): np.where(kind >= 2, 1, 0),
                 ("counted", "seats"): random.integers(0, 2, count)},
    )  # fmt: skip
    discipline = disciplines[int(random.integers(len(disciplines)))]
    rules = [f"place={FITS[int(random.integers(3))]}", *([memory] if memory else [])]
    if random.random() < 0.4:
        rules.append("nodes=whole")
    name, _, given = discipline.rstrip(")").partition("(")
    policy = f"{name}({', '.join([*([given] if given else []), *rules])})"
    return Cluster.from_dict(spec), Workload("w", jobs, Intake("w", "x", count, count)), policy


def schedule(cluster: Cluster, workload: Workload, policy: str) -> tuple[Any, ...]:
    """All that was held, when, by whom."""
    log = simulate(cluster, workload, policy).log
    names = ("attempt_job", "attempt_start_us", "attempt_end_us", "attempt_rows", "rows", "state")
    return *(getattr(log, name).tolist() for name in names), repr(log.shares), repr(log.loans)


@pytest.mark.draws(60)
def test_a_plan_chooses_devices_in_a_kernel_as_outside_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    kernel = Plan.chosen_in_kernel
    monkeypatch.setattr(reserved, "FEW_ASKED", -1)

    def noted(plan: Plan, jobs: Ints) -> bool:
        asked.append(kernel(plan, jobs))
        return asked[-1]

    for seed in seeds(60):
        made = world(seed)
        monkeypatch.setattr(Plan, "chosen_in_kernel", noted)
        inside = schedule(*made)
        monkeypatch.setattr(Plan, "chosen_in_kernel", lambda plan, jobs: False)
        assert inside == schedule(*made), (seed, made[2])
    assert sum(asked) > len(asked) / 2


@pytest.mark.draws(80)
def test_a_pass_chooses_devices_in_a_kernel_as_outside_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[bool]()
    kernel = Alone.pass_over

    def noted(alone: Alone, *how: Any, line: Any = None) -> int:
        asked.append(line is not None)
        return kernel(alone, *how, line=line)

    monkeypatch.setattr(Alone, "pass_over", noted)
    for seed in seeds(80):
        made = world(seed, 60, PASSES)
        monkeypatch.setattr(reserved, "FEW_ASKED", -1)
        inside = schedule(*made)
        monkeypatch.setattr(reserved, "FEW_ASKED", 10**9)
        assert inside == schedule(*made), (seed, made[2])
    assert sum(asked) > 10 * len(seeds(80))
