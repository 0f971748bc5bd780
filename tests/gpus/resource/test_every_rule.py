"""Every rule for GPUs under every discipline on small clusters: all jobs finish, the audit passes, runs repeat."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from plain_gpus import S
from tries import seeds

from unrack.cluster.spec import Cluster
from unrack.policy.gpus.rules import RULES
from unrack.sim.faults import Fault
from unrack.sim.result import Result
from unrack.sim.simulate import simulate
from unrack.sim.world import World
from unrack.workload.formats.rules import Intake
from unrack.workload.job import JobTable, Workload, job_table

DISCIPLINES = ("fcfs", "list(backfill=any)", "easy", "conservative", "slurm(interval=20 s)")
MACHINES = ({"gpus": 4, "per_socket": 2, "nvlink": "socket"}, "pcie-4", {"gpus": 1}, {"gpus": 3, "per_socket": 1},
            {"gpus": 2, "slices": 8}, {"gpus": 1, "slices": 4})  # fmt: skip
APPS = ("alexnet/1", "cafferef/8", "googlenet/2", "other", "")


def small_world(seed: int, count: int = 30) -> tuple[Cluster, JobTable]:
    """Four or five machines of any kind, one without GPUs; jobs on whole GPUs, parts, slices, and none."""
    random = np.random.default_rng(seed)
    picked = [MACHINES[i] for i in random.integers(0, len(MACHINES), int(random.integers(3, 5)))]
    fleet = [{"machine": machine, "nodes": str(node)} for node, machine in enumerate(picked)]
    cluster = Cluster.from_dict({
        "nodes": [{"count": len(picked) + 1, "cores": 6, "memory": 32}],
        "gpus": {"machines": fleet, "profiles": "deep-learning" if seed % 2 else ""},
    })  # fmt: skip
    sort = random.integers(0, 5, count)
    asked = {
        "count": np.where(sort == 1, random.integers(1, 5, count), np.where(sort == 4, 2, 0)),
        "milli": np.where(sort == 2, random.integers(1, 10, count) * 100, np.where(sort == 4, 400, 0)),
        "slices": np.where(sort == 3, random.integers(1, 6, count), 0),
        "min_utility": np.where(random.random(count) < 0.4, random.integers(1, 10_000, count), 0),
        "graph": random.integers(0, 4, count), "weight": random.integers(0, 1001, count),
    }  # fmt: skip
    where = random.integers(0, 3, count)
    asked |= {"together": (where == 1).astype(np.int64), "apart": (where == 2).astype(np.int64)}
    work = random.integers(1, 60, count) * S
    jobs = job_table(
        submit_us=np.sort(random.integers(0, 200, count)) * S, work_us=work, request_us=work * 2,
        tasks=random.integers(1, 4, count), cores=random.integers(1, 3, count), memory_mb=random.integers(0, 9, count),
        app=pl.Series([APPS[i] for i in random.integers(0, len(APPS), count)]),
        devices={("gpus", name): amounts for name, amounts in asked.items()},
    )  # fmt: skip
    return cluster, jobs


def run(seed: int, policy: str, together: bool = True) -> Result:
    """A run with its audit; two nodes fail for a while in every second world."""
    cluster, jobs = small_world(seed)
    if not together:
        jobs = replace(jobs, devices=jobs.devices | {("gpus", "together"): np.zeros(len(jobs), np.int64)})
    faults = [Fault(f"node{i}", (40 + 30 * i) * S, 25 * S) for i in range(2 * (seed % 2))]
    return simulate(
        cluster, Workload("w", jobs, Intake("", "", len(jobs), len(jobs))), policy, world=World(faults=faults)
    )


def with_rule(discipline: str, rule: str) -> str:
    """A discipline with a rule for GPUs."""
    name, _, given = discipline.rstrip(")").partition("(")
    return f"{name}({', '.join([*([given] if given else []), f'gpus={rule}'])})"


@pytest.mark.parametrize("discipline", DISCIPLINES)
@pytest.mark.parametrize("rule", ["nearest", *RULES])
def test_every_feasible_job_finishes_under_every_rule_and_discipline(rule: str, discipline: str) -> None:
    place = [*RULES, "nearest"].index(rule) + DISCIPLINES.index(discipline)
    for seed in (place, place + 7):
        result = run(seed, with_rule(discipline, rule), together=rule != "nearest")
        states = result.jobs["state"].to_list()
        assert set(states) <= {"finished", "rejected"}, result.jobs.filter(pl.col("state") == "queued")
        assert states.count("finished") > 5
        assert result.table("claims").height


@pytest.mark.parametrize("rule", RULES)
def test_two_runs_are_the_same(rule: str) -> None:
    for policy in (f"topo-aware-p(gpus={rule}, patience=50 s)", f"easy(gpus={rule})"):
        assert run(3, policy).table("claims").equals(run(3, policy).table("claims")), policy


def test_whether_a_job_is_rejected_does_not_depend_on_the_rule() -> None:
    for seed in range(12):
        rejected = {
            tuple(run(seed, f"list(backfill=any, gpus={rule})").jobs.filter(pl.col("state") == "rejected")["job"])
            for rule in ("best-fit", "topology", "first-fit")
        }
        assert len(rejected) == 1


@pytest.mark.draws(10)
def test_a_rejected_job_would_have_no_place_on_the_empty_cluster_and_any_other_has_one() -> None:
    """Each job alone, by rules that look at every machine."""
    seen: dict[str, int] = {"finished": 0, "rejected": 0}
    for seed in seeds(10):
        cluster, jobs = small_world(seed)
        result = simulate(cluster, Workload("w", jobs, Intake("", "", 30, 30)), "list(backfill=any, gpus=worst-fit)")
        for job, state in zip(range(len(jobs)), result.jobs["state"].to_list(), strict=True):
            alone: Any = jobs.take(np.array([job]))
            one = simulate(cluster, Workload("w", alone, Intake("", "", 1, 1)), "fcfs(gpus=first-fit)", audit=False)
            assert one.jobs["state"].to_list() == [state], (seed, job, one.jobs["reason"].to_list())
            seen[state] += 1
    assert min(seen.values()) > 3 * len(seeds(10)), seen


def test_tasks_that_must_be_together_find_the_only_machine_that_holds_them_all() -> None:
    cluster = Cluster.from_dict({
        "nodes": [{"count": 2, "cores": 8}],
        "gpus": [{"machine": {"gpus": 1}, "nodes": "0"}, {"machine": {"gpus": 4}, "nodes": "1"}],
    })  # fmt: skip
    one = np.ones(1, np.int64)
    asked = {("gpus", "count"): one, ("gpus", "together"): one}
    jobs = job_table(submit_us=0 * one, work_us=S * one, tasks=3 * one, cores=one, memory_mb=0 * one, devices=asked)
    assert simulate(cluster, Workload("w", jobs, Intake("", "", 1, 1)), "fcfs").jobs["state"].to_list() == ["finished"]


@pytest.mark.parametrize(
    ("rule", "node"),
    [("best-fit", 0), ("pack", 0), ("worst-fit", 1), ("spread", 1), ("packing", 0), ("least-left", 0), ("fgd", 0)],
)
def test_a_gpu_in_slices_is_as_much_as_a_whole_one(rule: str, node: int) -> None:
    """One whole GPU, or two in slices; a job without GPUs. Where both machines are as good, the first is taken."""
    table = [{"machine": {"gpus": 1}, "nodes": "0"}, {"machine": {"gpus": 2, "slices": 8}, "nodes": "1"}]
    cluster = Cluster.from_dict({"nodes": [{"count": 2, "cores": 8}], "gpus": table})
    one = np.ones(1, np.int64)
    jobs = job_table(submit_us=0 * one, work_us=S * one, tasks=one, cores=one, memory_mb=0 * one)
    result = simulate(cluster, Workload("w", jobs, Intake("", "", 1, 1)), f"fcfs(gpus={rule})")
    assert result.placements["first_node"].to_list() == [node]
