"""What is counted on each node: never more of it than a node has, and who is first waits for nothing: a loop tells."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from unrack.cluster.spec import Cluster
from unrack.errors import ClusterError
from unrack.sim.simulate import simulate
from unrack.workload.formats.rules import Intake
from unrack.workload.job import Workload, job_table


def world(seed: int) -> tuple[dict[str, Any], list[dict[str, int]]]:
    """A small cluster with unlike nodes, and jobs of one task."""
    draw = random.Random(seed)
    nodes = draw.randint(2, 5)
    has = [draw.choice([0, 1, 3, 4]) for _ in range(nodes)]
    if not any(has):
        has[-1] = 2
    tables = [
        {"name": "nvme", "amount": amount, "per": "node", "nodes": [str(n) for n in range(nodes) if has[n] == amount]}
        for amount in sorted({one for one in has if one})
    ]
    cores = draw.randint(2, 4)
    cluster = {"name": "c", "nodes": [{"count": nodes, "cores": cores}], "counted": tables}
    jobs = [
        {"submit": draw.randint(0, 30), "run": draw.randint(1, 20), "cores": draw.randint(1, cores),
         "nvme": min(draw.choice([0, 0, 1, 2, 4]), max(has))}
        for _ in range(25)
    ]  # fmt: skip
    return {"cluster": cluster, "has": has, "cores": cores}, sorted(jobs, key=lambda job: job["submit"])


@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative"])
@pytest.mark.parametrize("seed", range(25))
def test_no_node_gives_more_than_it_has_and_who_is_first_waits_for_nothing(policy: str, seed: int) -> None:
    said, jobs = world(seed)
    second = 1_000_000
    table = job_table(
        submit_us=np.array([job["submit"] * second for job in jobs]),
        work_us=np.array([job["run"] * second for job in jobs]),
        tasks=np.ones(len(jobs), np.int64), cores=np.array([job["cores"] for job in jobs]),
        devices={("counted", "nvme"): np.array([job["nvme"] for job in jobs])},
    )  # fmt: skip
    intake = Intake("jobs", "test", len(jobs), len(jobs))
    result = simulate(Cluster.from_dict(said["cluster"], "c"), Workload("jobs", table, intake), policy)
    rows = {row["job"]: row for row in result.jobs.iter_rows(named=True)}
    where = {row["job"]: row["first_node"] for row in result.placements.iter_rows(named=True)}
    spans = {number: (rows[number]["start_s"], rows[number]["end_s"], where[number]) for number in where}
    assert len(spans) == len(jobs)

    def free(at: float, without: int) -> list[tuple[int, int]]:
        left = [[said["cores"], has] for has in said["has"]]
        for number, (start, end, node) in spans.items():
            if number != without and start <= at < end:
                left[node][0] -= jobs[number - 1]["cores"]
                left[node][1] -= jobs[number - 1]["nvme"]
        return [(cores, nvme) for cores, nvme in left]

    moments = sorted({time for span in spans.values() for time in span[:2]} | {job["submit"] for job in jobs})
    for at in moments:
        assert all(cores >= 0 and nvme >= 0 for cores, nvme in free(at, 0)), at
    for number, (start, _, _) in spans.items():
        job = jobs[number - 1]
        for at in moments:
            waits_first = all(spans[other][0] <= at for other in range(1, number))
            if job["submit"] <= at < start and waits_first:
                assert not any(cores >= job["cores"] and nvme >= job["nvme"] for cores, nvme in free(at, number)), (
                    number
                )


def test_a_task_that_no_node_has_enough_for_is_rejected_with_the_reason() -> None:
    counted = [{"name": "nvme", "amount": 2, "per": "node", "nodes": ["1"]}]
    cluster = Cluster.from_dict({"nodes": [{"count": 3, "cores": 4}], "counted": counted}, "c")
    written = cluster.places.written()["counted"]
    assert written == [{"name": "nvme", "amount": 2, "per": "node", "asked_by": None, "nodes": ["1"]}]
    table = job_table(
        submit_us=np.zeros(3, np.int64), work_us=np.ones(3, np.int64), tasks=np.array([1, 2, 1]),
        cores=np.array([1, 1, 4]), devices={("counted", "nvme"): np.array([3, 2, 2])},
    )  # fmt: skip
    result = simulate(cluster, Workload("jobs", table, Intake("jobs", "test", 3, 3)), "easy")
    assert result.jobs["start_s"].null_count() == 2
    assert "nvme in one node (asked 3, free 2)" in result.jobs["reason"][0]
    assert "2 counted.nvme in their nodes (asked 2, free 1)" in result.jobs["reason"][1]


@pytest.mark.parametrize(
    ("tables", "want"),
    [
        ([{"name": "a", "amount": 1, "nodes": ["0"]}], "nodes with per = 'node' alone"),
        ([{"name": "a", "amount": 1, "per": "node"}, {"name": "a", "amount": 1}], "a name that no other counter has"),
        ([{"name": "a", "amount": 1, "per": "node", "nodes": ["9"]}], "9"),
    ],
)
def test_counters_that_cannot_be_are_refused(tables: list[dict[str, Any]], want: str) -> None:
    with pytest.raises(ClusterError, match=want):
        Cluster.from_dict({"nodes": [{"count": 2, "cores": 4}], "counted": tables}, "c")
