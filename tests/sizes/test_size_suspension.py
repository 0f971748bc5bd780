"""Jobs whose sizes are chosen before they start, and which are suspended for others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from suspending import mixed_suspending_site

import unrack
from unrack.errors import PolicyError
from unrack.workload.formats.rules import Intake
from unrack.workload.job import Workload, job_table

S = 10**6


def with_sizes(workload: Workload, seed: int) -> tuple[Workload, list[dict[int, float]]]:
    """Moldable jobs, and by job how long each size takes, as a part of its work."""
    jobs, draw = workload.jobs, np.random.default_rng(seed)
    times = [
        {max(1, n // 2): 1.9, n: 1.0, 2 * n: 0.6} if draw.random() < 0.6 else {n: 1.0} for n in jobs.tasks.tolist()
    ]
    times = [{**own, n: 1.0} for own, n in zip(times, jobs.tasks.tolist(), strict=True)]
    said = [";".join(f"{n}:{1000 * part:g}" for n, part in sorted(own.items())) for own in times]
    return Workload(
        "sizes", replace(jobs, extra=jobs.extra.with_columns(sizes=pl.Series(said))), workload.intake
    ), times


@pytest.mark.long
@pytest.mark.parametrize(
    "policy",
    ["fcfs(molding=earliest-end)", "easy(molding=earliest-end)", "easy(molding=working-set)",
     "conservative(molding=earliest-end)", "slurm(molding=working-set)",
     "conservative(memory=disaggregated, molding=earliest-end)"],
)  # fmt: skip
def test_a_suspended_job_of_another_size_runs_for_as_long_as_that_size_takes(policy: str) -> None:
    both = 0
    for seed in (0, 2, 4, 6):
        cluster, workload = mixed_suspending_site(seed)
        sized, times = with_sizes(workload, seed)
        result = unrack.simulate(cluster, sized, policy)  # what was held is audited
        assert set(result.jobs["state"]) == {"finished"}
        tasks = (pl.col("nodes") * pl.col("tasks_per_node")).sum().alias("size")
        size = dict(result.placements.group_by("job", "start_s").agg(tasks).select("job", "size").iter_rows())
        columns = ("job", "start_s", "end_s", "suspended_s", "work_s", "suspensions")
        for job, start, end, stood, work, often in (
            result.jobs.filter(pl.col("restarts") == 0).select(columns).iter_rows()
        ):
            number = int(job) - 1
            assert end - start - stood == pytest.approx(work * times[number][size[job]], abs=1e-4)
            both += often > 0 and size[job] != workload.jobs.tasks[number]
    assert both > 0


def test_a_suspended_job_whose_size_was_chosen_asks_for_no_cores() -> None:
    cluster, workload = mixed_suspending_site(0)
    usage = unrack.simulate(cluster, with_sizes(workload, 0)[0], "fcfs(molding=earliest-end)", audit=False).usage
    assert (usage["cores_asked"] <= usage["cores_held"]).all()


def test_running_jobs_change_no_size_where_some_are_suspended() -> None:
    cluster, workload = mixed_suspending_site(0)
    with pytest.raises(PolicyError, match="sizes of running jobs"):
        unrack.simulate(cluster, with_sizes(workload, 0)[0], "easy(resizing=fpsma)")


@pytest.mark.parametrize("policy", ["easy(molding=earliest-end)", "easy(resizing=fpsma)"])
def test_what_a_preempted_job_of_another_size_loses_is_its_work_on_the_cores_of_its_own(policy: str) -> None:
    site = {
        "preempt": {"by": "qos", "mode": "requeue"},
        "qos": [{"name": "low"}, {"name": "high", "preempts": ["low"]}],
    }
    cluster = unrack.Cluster.from_dict({"nodes": [{"count": 1, "cores": 4}], "site": site})
    said = pl.DataFrame({"qos": ["low", "high"], "sizes": ["2:1000;4:500", None], "flexibility": ["malleable", None]})
    jobs = job_table(submit_us=[0, 100 * S], work_us=[1000 * S, 10 * S], tasks=[2, 4], extra=said)
    result = unrack.simulate(cluster, Workload("sizes", jobs, Intake("", "", 2, 2)), policy)
    held = result.placements.filter(outcome="preempted")
    assert held["cores_per_node"].max() == 4
    area = (held["cores_per_node"] * (held["end_s"] - held["start_s"])).sum()
    assert result.jobs["core_s_lost_preempted"].to_list() == pytest.approx([area, 0])
