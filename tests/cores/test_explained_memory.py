"""What ``unrack explain`` says of memory on other nodes."""

from __future__ import annotations

from typing import Any

import pytest

import unrack
from unrack.cluster.spec import Cluster
from unrack.policy.table import parse_policy
from unrack.sim.explained.job import explain
from unrack.workload.job import Workload
from unrack_papers.workloads.server_generator import servers


def attempt(cluster: Cluster, workload: Workload, policy: str, job: int) -> Any:
    story = explain(cluster, workload.jobs, parse_policy(policy), job, seed=0)
    return story.attempts[0]


@pytest.mark.long
def test_a_server_is_told_what_it_has_of_every_tier() -> None:
    cluster, workload = Cluster.preset("slo-shared"), servers(30, seed=2)
    frame = unrack.simulate(cluster, workload, "slo").jobs
    names = ("local", "local-remote", "distant-remote")
    for job in range(30):
        words = attempt(cluster, workload, "slo", job).memory
        for name in names:
            mb = frame[f"mb_{name}"][job]
            assert (f"{mb:,} MB {name}" in words) == (mb > 0 or name == "local")


def test_a_job_that_borrows_is_told_of_its_lenders_and_of_how_many_more() -> None:
    content = {"nodes": [{"count": 9, "cores": 4, "memory": 1000}]}
    cluster = Cluster.from_dict(content)
    spec = {"jobs": 1, "arrivals": {"gap_s": 1}, "classes": [{"run_s": 60, "cores": 4, "memory_mb": 6500}]}
    words = attempt(cluster, unrack.generate(spec, seed=0), "disaggregated(scheduler=fcfs)", 0).memory
    assert words.startswith("borrowed 1,000 MB of node 1, ")
    assert words.endswith(" and 2 more")
    spec["classes"] = [{"run_s": 60, "cores": 4, "memory_mb": 600}]
    assert attempt(cluster, unrack.generate(spec, seed=0), "disaggregated(scheduler=fcfs)", 0).memory == ""
