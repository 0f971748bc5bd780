"""Counts of a run of batch jobs with memory: responses of large and normal jobs, and attempts to place a job."""

from __future__ import annotations

import numpy as np
import polars as pl

from unrack import Result
from unrack.study import Run
from unrack_papers.reproduction import Numbers

NORMAL_MB = 32 * 1024
"""Memory of a normal node; a job that needs more on a node is large."""
KINDS = ("all", "large", "normal")
MINUTE, HOUR, DAY = 60, 3600, 86_400
RESPONSES_S = (
    10, 30, MINUTE, 3 * MINUTE, 10 * MINUTE, 30 * MINUTE, HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 4 * DAY,
    8 * DAY, 16 * DAY, 32 * DAY, 64 * DAY,
)  # fmt: skip
"""Response times at which the distribution is taken, s."""
DEPTH, INTERVAL_S = 100, 30.0
"""Jobs that the scheduler looks at, and how often."""


def jobs_with_memory(run: Run, result: Result, took_s: float) -> Numbers:
    """Throughput, the distribution of response times, and how often the scheduler tried to place a job.

    Returns
    -------
    dict
        The metrics; ``jobs_per_h``: jobs finished over the makespan; ``within.large.3600`` …: share of the large jobs
        whose response took at most 3600 s; ``response.large.median`` and ``.mean``: of those that finished;
        ``attempts``: as :func:`attempts` has it, a job. ``None`` where there are no such jobs.
    """
    jobs = result.jobs
    makespan, finished = result.metrics["makespan_s"], result.metrics["jobs_finished"] or 0.0
    values: Numbers = {**result.metrics, "jobs_per_h": 3600 * finished / makespan if makespan else None}
    large = pl.col("memory_mb_per_task") > NORMAL_MB
    for kind, own in zip(KINDS, (jobs, jobs.filter(large), jobs.filter(~large)), strict=True):
        responses = own["response_s"].drop_nulls().sort().to_numpy()
        within = np.searchsorted(responses, RESPONSES_S, side="right")
        for time_s, count in zip(RESPONSES_S, within.tolist(), strict=True):
            values[f"within.{kind}.{time_s}"] = count / own.height if own.height else None
        values[f"response.{kind}.median"] = float(np.median(responses)) if len(responses) else None
        values[f"response.{kind}.mean"] = float(responses.mean()) if len(responses) else None
    values["attempts"] = attempts(result.usage) / jobs.height if jobs.height else None
    return values


def attempts(usage: pl.DataFrame) -> float:
    """How often a scheduler tries to place a job that looks at the first 100 that wait every 30 s.

    Parameters
    ----------
    usage
        The usage frame of a run: ``time_s``, ``queued_jobs``.

    Examples
    --------
    >>> attempts(pl.DataFrame({"time_s": [0.0, 60.0, 90.0], "queued_jobs": [3, 150, 0]}))
    106.0
    """
    lengths = np.diff(usage["time_s"].to_numpy())
    looked_at = np.minimum(usage["queued_jobs"].to_numpy()[:-1], DEPTH)
    return float(np.dot(lengths, looked_at)) / INTERVAL_S
