"""Jobs that want nodes side by side have them, under every discipline."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import unrack
from unrack.resources.site.features import MOST_WAYS, ways_of
from unrack.units import SECOND_US
from unrack.workload.formats.rules import Intake
from unrack.workload.job import Workload, job_table

SAID = ["fast", "", "contiguous*3", "contiguous*4", "fast&contiguous*5", "contiguous*2", "fast&contiguous*3"]
TASKS = np.array([1, 1, 3, 4, 5, 2, 3])


@pytest.mark.parametrize("policy", ["list", "easy", "conservative", "slurm(interval=1 s)", "flow"])
def test_jobs_that_want_nodes_side_by_side_have_them(policy: str) -> None:
    site = {"features": {"fast": ["4-9"]}}
    cluster = unrack.Cluster.from_dict({"nodes": [{"count": 10, "cores": 4}], "site": site})
    count = len(TASKS)
    table = job_table(
        submit_us=np.arange(count) * SECOND_US, work_us=np.full(count, 20 * SECOND_US),
        request_us=np.full(count, 30 * SECOND_US), tasks=TASKS, cores=np.full(count, 4),
        extra=pl.DataFrame({"constraint": SAID}),
    )  # fmt: skip
    found = unrack.simulate(cluster, Workload("side by side", table, Intake("", "", 0, 0)), policy)
    assert found.jobs["start_s"].to_list() == [0, 1, 2, 3, 23, 22, 43]
    for job, tasks, said in zip(found.jobs["job"], TASKS.tolist(), SAID, strict=True):
        rows = found.placements.filter(pl.col("job") == job).select("first_node", "nodes").iter_rows()
        nodes = sorted(first + k for first, many in rows for k in range(many))
        assert len(nodes) == tasks
        assert "contiguous" not in said or nodes == list(range(nodes[0], nodes[0] + tasks))
        assert "fast" not in said or nodes[0] >= 4


def test_of_many_runs_some_are_looked_at_from_the_first_to_the_last() -> None:
    ways = [np.flatnonzero(way.nodes).tolist() for way in ways_of("contiguous*3", {}, 1000)]
    assert len(ways) == MOST_WAYS
    assert (ways[0], ways[-1]) == ([0, 1, 2], [997, 998, 999])
    assert ways_of("contiguous*5", {}, 4) == []


def test_a_feature_that_is_called_so_is_meant() -> None:
    own = np.array([True, False, True])
    (way,) = ways_of("contiguous*2", {"contiguous": own}, 3)
    assert [(count, mask.tolist()) for count, mask in way.counts] == [(2, own.tolist())]
