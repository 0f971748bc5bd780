"""Metrics of failures, for runs with any."""

from __future__ import annotations

import polars as pl

from unrack.metric.metric import Metric

FAILURE_METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in [
        Metric("failures", "failures", "", "failures of nodes, racks and other domains", "count in the window"),
        Metric(
            "jobs_hit_mean", "jobs", "low", "jobs that one failure stopped, averaged over the failures",
            "Σ jobs stopped / failures",
        ),
        Metric("jobs_hit_max", "jobs", "low", "jobs that the worst failure stopped", "max jobs stopped"),
        Metric(
            "core_h_lost", "core-h", "low", "core-hours that jobs had held when a failure stopped them",
            "Σ cores held x time since the start of the attempt, over the jobs stopped",
        ),
    ]
}  # fmt: skip
"""Metrics of failures, in runs that have any."""


def failure_metrics(failures: pl.DataFrame, start_s: float, end_s: float) -> dict[str, float | None]:
    """The metrics of ``FAILURE_METRICS``, in its order; per failure ``None`` where there was none.

    Parameters
    ----------
    failures
        The failures of a run, as ``failures.parquet`` has them.
    start_s, end_s
        The window: failures in it count, both ends included.

    Examples
    --------
    >>> failures = pl.DataFrame({"time_s": [5.0, 9.0], "jobs_hit": [0, 3], "core_s_lost": [0.0, 7200.0]})
    >>> failure_metrics(failures, 0.0, 9.0)
    {'failures': 2.0, 'jobs_hit_mean': 1.5, 'jobs_hit_max': 3.0, 'core_h_lost': 2.0}
    """
    inside = failures.filter(pl.col("time_s").is_between(start_s, end_s))
    hit = inside["jobs_hit"].to_list()
    return {
        "failures": float(inside.height),
        "jobs_hit_mean": sum(hit) / len(hit) if hit else None,
        "jobs_hit_max": float(max(hit)) if hit else None,
        "core_h_lost": float(inside["core_s_lost"].sum()) / 3600,
    }
