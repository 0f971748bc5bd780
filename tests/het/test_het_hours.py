"""Components of a heterogeneous job in partitions with hours of their own: all start together when all are open."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from law_worlds import World, begun

import unrack
from unrack.cluster.spec import Cluster
from unrack.events import Submitted
from unrack.ledger.lease import Lease
from unrack.view.draft import Apart
from unrack.workload.formats.rules import Intake
from unrack.workload.job import Workload, job_table

S = 10**6
POLICIES = ("fcfs", "easy", "conservative", "slurm(interval=7 s)", "list(backfill=any)")


def starts(policy: str, hours: dict[str, tuple[int, int] | None], parts: str) -> list[float | None]:
    """When the components of a job of 20 s start; ``hours``: by partition, from when and for how long."""
    count = len(parts)
    table = job_table(
        submit_us=np.zeros(count, np.int64), work_us=np.full(count, 20 * S), tasks=np.ones(count, np.int64),
        extra=pl.DataFrame({"het": ["a"] * count, "partition": [*parts]}),
    )  # fmt: skip
    spans = {name: {"hours": [{"start": open_[0], "duration": open_[1]}]} for name, open_ in hours.items() if open_}
    site = {"partitions": [{"name": name, **spans.get(name, {})} for name in hours]}
    cluster = Cluster.from_dict({"nodes": [{"count": 3, "cores": 1}], "site": site})
    found = unrack.simulate(cluster, Workload("het", table, Intake("", "", 0, 0)), policy).jobs.sort("job")
    return found["start_s"].to_list()


@pytest.mark.parametrize("policy", POLICIES)
def test_components_start_when_the_hours_of_all_have_begun_whichever_is_first(policy: str) -> None:
    for first, second in ("pq", "qp"):
        assert starts(policy, {first: None, second: (100, 100)}, "pq") == [100, 100]
        assert starts(policy, {first: (100, 100), second: (150, 100)}, "pq") == [150, 150]
        assert starts(policy, {first: (100, 100), second: (185, 100)}, "pq") == [None, None]  # no 20 s are in both


@pytest.mark.parametrize("policy", POLICIES)
def test_the_third_component_counts_as_the_others_do(policy: str) -> None:
    assert starts(policy, {"p": None, "q": (40, 100), "r": (100, 50)}, "pqr") == [100] * 3


def test_a_job_without_components_is_one_by_itself() -> None:
    jobs = job_table(submit_us=np.zeros(2, np.int64), work_us=np.full(2, S), tasks=np.array([1, 2]))
    kernel = begun(World(Cluster.homogeneous(nodes=2, cores=2), jobs), "fcfs")
    kernel.core.handle(Submitted(0), 0)
    view = kernel.core.view
    left = Apart(view, 0)
    left.hold(Lease.on(0, [1], [1], [1], [0]))
    assert left.view.free[0].tolist() == [2, 1]
    assert view.free[0].tolist() == [2, 2]
