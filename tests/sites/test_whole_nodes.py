"""Partitions whose jobs have nodes to themselves."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import unrack
from unrack.cluster.spec import Cluster
from unrack.errors import ClusterError
from unrack.workload.formats.rules import Intake
from unrack.workload.job import Workload, job_table

S = 10**6
SITE = {
    "partitions": [
        {"name": "whole", "nodes": ["0-3"], "whole_nodes": True, "limits": [{"per": "user", "amounts": {"cores": 16}}]},
        {"name": "shared", "nodes": ["4-5"]},
    ]
}
CLUSTER = {"nodes": [{"count": 6, "cores": 8, "memory": 100}], "site": SITE}


def run(policy: str) -> pl.DataFrame:
    table = job_table(
        submit_us=np.zeros(5, np.int64), work_us=np.full(5, 10) * S, tasks=np.array([5, 1, 3, 1, 9]),
        cores=np.array([3, 1, 1, 1, 1]), memory_mb=np.array([10, 60, 0, 10, 20]),
        user=pl.Series(["ann", "bob", "bob", "ann", "eve"]),
        extra=pl.DataFrame({"partition": ["whole", "whole", "whole", "shared", "whole"]}),
    )  # fmt: skip
    workload = Workload("whole", table, Intake("", "", 0, 0))
    return unrack.simulate(Cluster.from_dict(CLUSTER), workload, policy).jobs.sort("job")


@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative", "slurm(interval=1 s)"])
def test_a_job_has_its_nodes_to_itself_and_counts_with_all_their_cores(policy: str) -> None:
    """Ann's tasks need three nodes: 24 cores, over her 16. Of Eve's nine of 20 MB a node takes five."""
    jobs = run(policy)
    assert jobs["state"].to_list() == ["rejected", "finished", "finished", "finished", "finished"]
    assert "cores of user ann" in jobs["reason"][0]
    assert jobs["nodes"].to_list()[1:] == [1, 1, 1, 2]
    assert jobs["cores"].to_list()[1:] == [8, 8, 1, 16]
    assert jobs["start_s"].to_list()[1:] == [0, 0, 0, 0]


def test_nodes_of_several_sizes_are_refused() -> None:
    nodes = [{"count": 1, "cores": 8}, {"count": 1, "cores": 4}]
    with pytest.raises(ClusterError, match="nodes of 4, 8 cores in partition 'a'"):
        Cluster.from_dict({"nodes": nodes, "site": {"partitions": [{"name": "a", "whole_nodes": True}]}})
