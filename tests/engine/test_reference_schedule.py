"""EASY on a real log, against the start times of a published simulator."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from small_worlds import S, workload_of

from unrack.cluster.spec import Cluster
from unrack.sim.simulate import simulate
from unrack.sim.world import World
from unrack.workload.job import job_table


@pytest.mark.needs_data
def test_easy_gives_the_published_start_time_of_every_job_of_kth_sp2(data: Path) -> None:
    with gzip.open(data / "swf" / "KTH-SP2.easy-reference.swf.gz", "rt") as lines:
        rows = np.array([[int(x) for x in line.split()[:9]] for line in lines if not line.startswith(";")])
    number, submit, wait, run, tasks, request = rows[:, [0, 1, 2, 3, 7, 8]].T
    jobs = job_table(submit_us=submit * S, work_us=run * S, request_us=request * S, tasks=tasks, ids=pl.Series(number))
    result = simulate(Cluster.preset("kth-sp2"), workload_of(jobs), "easy", world=World(ties="submit-first"))
    published = dict(zip(number.tolist(), (submit + wait).tolist(), strict=True))
    ours = dict(zip(result.jobs["job"].to_list(), result.jobs["start_s"].to_list(), strict=True))
    assert len(published) == 28_481
    assert ours == published
    assert result.metrics["wait_s_mean"] == pytest.approx(wait.mean(), rel=1e-12)
