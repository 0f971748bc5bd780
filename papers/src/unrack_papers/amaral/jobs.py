"""A few jobs, written down one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from unrack import Workload
from unrack.resources.gpus import UTILITY_PARTS
from unrack.units import SECOND_US
from unrack.workload import Intake, job_table


class Written(NamedTuple):
    """A job: application, GPUs of one machine, arrival in s, the utility of a place that it asks for at least."""

    app: str
    gpus: int
    arrives_s: float = 0.0
    min_utility: float = 0.0


def written(name: str, jobs: Sequence[Written], run_s: Sequence[float]) -> Workload:
    """These jobs as a workload, called 0, 1, 2 …, with their run times at the best place."""
    ones = np.ones(len(jobs), np.int64)
    table = job_table(
        ids=pl.Series("job", np.arange(len(jobs))),
        submit_us=np.array([round(job.arrives_s * SECOND_US) for job in jobs]),
        work_us=np.array([round(one * SECOND_US) for one in run_s]),
        tasks=ones,
        app=pl.Series([job.app for job in jobs]),
        devices={
            ("gpus", "count"): np.array([job.gpus for job in jobs]),
            ("gpus", "together"): ones,
            ("gpus", "min_utility"): np.array([round(job.min_utility * UTILITY_PARTS) for job in jobs]),
        },
    )
    return Workload(name, table, Intake(name, "written", len(jobs), len(jobs), changed={}, header={}))
