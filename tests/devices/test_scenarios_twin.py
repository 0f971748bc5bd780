"""First fit on the papers' scenarios, pooled and attached: start for start as its plain twin."""

from __future__ import annotations

import pytest
from naive import Naive

import unrack
from unrack.core import Core
from unrack.policy.table import parse_policy
from unrack.sim.kernel import Kernel
from unrack.sim.log import RunLog
from unrack.sim.world import World


def run(cluster: unrack.Cluster, workload: unrack.Workload, policy: object) -> RunLog:
    world = World(["smufin"])
    core = Core(cluster, workload.jobs, policy, world.pace(cluster))  # type: ignore[arg-type]
    return Kernel(core, world).run()


@pytest.mark.long
@pytest.mark.parametrize("jobs", [300, pytest.param(3000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("scenario", ["nvme-s1", "nvme-s2", "nvme-s3"])
@pytest.mark.parametrize("preset", ["nvme-pool", "nvme-attached"])
def test_first_fit_starts_every_job_when_and_where_its_twin_does(preset: str, scenario: str, jobs: int) -> None:
    cluster = unrack.Cluster.preset(preset)
    workload = unrack.generate({"scenario": scenario, "load": 0.7, "jobs": jobs}, seed=3)
    ours = run(cluster, workload, parse_policy("first-fit"))
    tables = [{"model": "smufin", **make_smufin()}]
    theirs = run(cluster, workload, Naive("first-fit", "edf", tables))
    assert len(ours.attempt_job) == jobs
    for name in ("attempt_job", "attempt_start_us", "attempt_end_us"):
        assert getattr(ours, name).tolist() == getattr(theirs, name).tolist(), name
    assert ours.rows.tolist() == theirs.rows.tolist()
    assert ours.shares == theirs.shares


def make_smufin() -> dict[str, object]:
    from unrack.slowdown.model import PUBLISHED

    return dict(PUBLISHED["smufin"].keys)
