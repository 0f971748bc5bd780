"""A job with room does not wait for one that was to end now and does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from law_worlds import World, begun

from unrack.cluster.spec import Cluster
from unrack.workload.job import job_table

S = 1_000_000
NODES = ([{"count": 2, "cores": 2}], [{"count": 1, "cores": 2}, {"count": 1, "cores": 3}])
POLICIES = ("conservative", "conservative(compress=ends)", "conservative(nodes=whole)", "easy", "slurm(interval=10 s)")


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("nodes", NODES)
@pytest.mark.parametrize("licence", [0, 1])
@pytest.mark.parametrize("comes", [100, 60])
def test_a_job_starts_on_other_nodes_when_one_outruns_its_request(
    policy: str, nodes: list[dict[str, Any]], licence: int, comes: int
) -> None:
    """The first job is booked to end at 100 s, and ends at 300 s; a node is free all the time, or from 100 s on."""
    jobs = job_table(
        submit_us=np.array([0, 0, comes]) * S, work_us=np.array([300, comes, 50]) * S,
        request_us=np.array([100, comes, 60]) * S, tasks=np.ones(3, np.int64), cores=np.full(3, 2),
        devices={("counted", "seats"): np.full(3, licence)},
    )  # fmt: skip
    cluster = Cluster.from_dict({"nodes": nodes, "counted": [{"name": "seats", "amount": 3}]})
    log = begun(World(cluster, jobs), policy).run()
    start = dict(zip(log.attempt_job.tolist(), log.attempt_start_us.tolist(), strict=True))
    assert comes * S <= start[2] <= comes * S + 1
