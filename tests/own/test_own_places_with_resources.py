"""Rules for places of a user's own, for jobs that ask for more than nodes: the rest is chosen on their nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import unrack
from unrack.cluster.spec import Cluster
from unrack.policy import Candidate, ListScheduler, Placed, View, candidates
from unrack.policy.placement.lent_memory import LentMemory
from unrack.sim.explained.job import explain
from unrack.sim.result import Result
from unrack.sim.simulate import simulate
from unrack.workload.formats.rules import Intake
from unrack.workload.job import Workload, job_table

S = 1_000_000
NODES = [{"count": 6, "cores": 8, "memory": 64}]
DRIVES = {"kind": "nvme", "count": 1, "per": "node", "quantities": {"capacity_mb": 100}}


def cluster_of(**keys: Any) -> Cluster:
    return Cluster.from_dict({"nodes": NODES, "nodes_per_rack": 3, **keys})


def jobs_of(count: int, seed: int = 1, **devices: int) -> Workload:
    """Jobs of one to three tasks that come faster than they end; every second one asks for the devices."""
    rng = np.random.default_rng(seed)
    submit, work = np.cumsum(rng.integers(0, 4, count)) * S, rng.integers(1, 30, count) * S
    every_second = np.arange(count) % 2
    jobs = job_table(
        submit_us=submit, work_us=work, tasks=rng.integers(1, 4, count), cores=rng.integers(1, 5, count),
        memory_mb=rng.integers(1, 20, count),
        devices={tuple(key.split("__")): every_second * amount for key, amount in devices.items()},  # type: ignore[misc]
    )  # fmt: skip
    return Workload("jobs", jobs, Intake("jobs", "test", count, count))


def first(free: Any, total: Any, job: Any) -> Iterator[Candidate]:
    return candidates(free, total, job)


def least_loaded(view: View, job: Any, now: int) -> list[Candidate]:
    return sorted(view.candidates(job), key=lambda node: node.load)


def starts(result: Result) -> list[float]:
    return result.jobs["start_s"].to_list()


@pytest.mark.parametrize("backfill", ["none", "any", "easy"])
def test_first_fit_of_ones_own_starts_jobs_with_licences_as_the_named_one_does(backfill: str) -> None:
    cluster = cluster_of(counted=[{"name": "licence", "amount": 3, "asked_by": "task"}])
    workload = jobs_of(60, counted__licence=1)
    own = simulate(cluster, workload, ListScheduler(place=first, backfill=backfill))
    named = simulate(cluster, workload, ListScheduler(place="first-fit", backfill=backfill))
    assert starts(own) == starts(named)
    assert own.metrics["jobs_finished"] == 60


@pytest.mark.parametrize("policy", [Placed(least_loaded, order="fcfs"), ListScheduler(place=first, backfill="easy")])
@pytest.mark.parametrize(
    ("keys", "asks"),
    [({"counted": [{"name": "licence", "amount": 3}]}, {"counted__licence": 1}),
     ({"counted": [{"name": "licence", "amount": 3, "per": "rack", "asked_by": "task"}]}, {"counted__licence": 1}),
     ({"pools": [DRIVES]}, {"nvme__capacity_mb": 30}),
     ({"gpus": [{"machine": {"gpus": 3}, "nodes": "0-5"}]}, {"gpus__count": 1}),
     ({"links": {"mb_s": 900}}, {"links__mb_s": 300})],
)  # fmt: skip
def test_a_rule_for_places_is_not_refused_whatever_jobs_ask_for(
    policy: Any, keys: dict[str, Any], asks: dict[str, int]
) -> None:
    result = simulate(cluster_of(**keys), jobs_of(40, **asks), policy)
    assert result.metrics["jobs_finished"] == 40


def test_a_gang_has_devices_on_the_nodes_that_were_chosen() -> None:
    def last(free: Any, total: Any, job: Any) -> list[Candidate]:
        return sorted(candidates(free, total, job), key=lambda one: -one.node)

    workload = jobs_of(12, nvme__capacity_mb=30)
    result = simulate(cluster_of(pools=[DRIVES]), workload, ListScheduler(place=last, backfill="any"))
    assert result.placements["first_node"].max() == 5
    assert result.metrics["jobs_finished"] == 12


def test_memory_is_lent_to_tasks_on_the_nodes_that_were_chosen() -> None:
    workload = jobs_of(30)
    jobs = job_table(
        submit_us=workload.jobs.submit_us, work_us=workload.jobs.work_us, tasks=np.ones(30, np.int64),
        cores=np.full(30, 8), memory_mb=np.arange(30) % 3 * 40 + 20,
    )  # fmt: skip
    own = ListScheduler(place=first, memory=LentMemory("disaggregated"), nodes="whole", backfill="any")
    result = simulate(cluster_of(), Workload("jobs", jobs, Intake("jobs", "test", 30, 30)), own)
    assert result.metrics["jobs_finished"] == 30
    assert result.tables["loans"].height > 0


def test_a_job_whose_nodes_lack_what_it_asks_for_waits_and_says_why() -> None:
    def always_node_0(view: View, job: Any, now: int) -> Any:
        return unrack.policy.Lease.on(job.index, [0], [job.tasks], [job.tasks * job.cores], [0])

    jobs = job_table(
        submit_us=np.array([0, S]), work_us=np.array([10 * S, 10 * S]), tasks=np.array([1, 1]),
        devices={("counted", "licence"): np.array([2, 2])},
    )  # fmt: skip
    cluster = cluster_of(counted=[{"name": "licence", "amount": 3}])
    workload = Workload("jobs", jobs, Intake("jobs", "test", 2, 2))
    result = simulate(cluster, workload, Placed(always_node_0, order="fcfs"))
    assert starts(result) == [0.0, 10.0]
    told = explain(cluster, workload.jobs, Placed(always_node_0, order="fcfs"), 1)
    assert "counted.licence" in str(told)
