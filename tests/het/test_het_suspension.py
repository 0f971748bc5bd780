"""Heterogeneous jobs that are suspended, all components at once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from het_worlds import together, with_components
from suspending import mixed_suspending_site
from test_suspension import small, times

import unrack
from unrack.workload.job import Workload

HET = ("fcfs", "list(backfill=any, order=sjf)", "easy", "conservative", "slurm", "conservative(memory=disaggregated)")


@pytest.mark.parametrize("policy", HET)
def test_all_components_of_a_job_are_suspended_and_go_on_together(policy: str) -> None:
    stood = 0
    for seed in (0, 1, 3, 4):
        cluster, workload = mixed_suspending_site(seed)
        jobs = with_components(workload.jobs, seed)
        one_class = pl.when(pl.col("het") == "").then("partition").otherwise(pl.col("partition").first().over("het"))
        jobs = replace(jobs, extra=jobs.extra.with_columns(partition=one_class))  # else few may be preempted as a whole
        result = unrack.simulate(cluster, Workload("het", jobs, workload.intake), policy)  # what was held is audited
        ran, parts = result.jobs.filter(pl.col("state") == "finished"), result.jobs.filter(pl.col("het") != "")
        assert together(result, jobs) > 3
        assert (parts.group_by("het").agg(pl.col("suspended_s").n_unique())["suspended_s"] == 1).all()
        assert ran.height > 20
        assert ran["run_s"].to_list() == pytest.approx(ran["work_s"].to_list())
        stood += int((parts["suspensions"] > 0).sum())
    assert stood > 3


@pytest.mark.long
@pytest.mark.parametrize("policy", [one for one in HET if "conservative" not in one])
def test_components_that_are_alike_are_suspended_as_one_job_of_all_their_tasks(policy: str) -> None:
    draw, few = np.random.default_rng(5), 0
    for _ in range(6):
        size, names = draw.integers([5, 1, 1], [60, 3, 3], (30, 3)).tolist(), ["low", "low", "mid", "high"]
        submit = np.sort(draw.integers(0, 200, 30)).tolist()
        jobs = [(at, *own, 100, str(draw.choice(names))) for at, own in zip(submit, size, strict=True)]
        cluster, one = small(jobs)
        parts = [2 if tasks == 2 else 1 for _, _, tasks, *_ in jobs]
        apart = [
            (*job[:2], job[2] // count, *job[3:]) for job, count in zip(jobs, parts, strict=True) for _ in range(count)
        ]
        _, many = small(apart)
        het = [str(row) if count > 1 else "" for row, count in enumerate(parts, 1) for _ in range(count)]
        table = replace(many.jobs, extra=many.jobs.extra.with_columns(het=pl.Series(het)))
        found = unrack.simulate(cluster, Workload("het", table, many.intake), policy)
        whole = unrack.simulate(cluster, one, policy)
        assert times(whole) == [times(found)[first] for first in (np.cumsum(parts) - parts).tolist()]
        few += int((whole.jobs["suspensions"] > 0).sum())
    assert few > 10
