"""Metrics of jobs that only some runs have: of those served, of how close their cores were, and of failures."""

from __future__ import annotations

import polars as pl

from unrack.metric.metric import Metric, Window, by_name, ratio


def served(jobs: pl.DataFrame) -> float | None:
    """Core-time of the jobs that ran to their end over the core-time that all asked for, 0 to 1; ``None`` without jobs.

    The core-time of a job is tasks × cores of a task × work, what it asked for and not what it held: a larger lease, a
    slower run or an attempt that was lost changes nothing. Jobs that were rejected, still wait or never ended count in
    the denominator alone. Where no job asks for any core-time (no cores, or no work), jobs are counted instead.

    Examples
    --------
    >>> jobs = {"tasks": [2, 1], "cores_per_task": [4, 8], "work_s": [30.0, 10.0], "state": ["finished", "rejected"]}
    >>> served(pl.DataFrame(jobs))
    0.75
    """
    if jobs.height == 0:
        return None
    done = (jobs["state"] == "finished").cast(pl.Float64)
    asked = (jobs["tasks"] * jobs["cores_per_task"]).cast(pl.Float64) * jobs["work_s"].cast(pl.Float64)
    total = float(asked.sum())
    if total > 0:
        return float((asked * done).sum()) / total
    return float(done.sum()) / jobs.height


CORE_METRICS = by_name(
    Metric(
        "core_distance_over_least", "", "low",
        "hops between the cores of finished jobs on one die, over the least that empty dies allow",
        "Σ core_distance / Σ core_distance_least",
    ),
    Metric(
        "core_pairs_apart", "", "low", "pairs of cores of one job and node that were on different dies",
        "Σ cores_apart",
    ),
)  # fmt: skip
"""Metrics of the cores that jobs had, in runs that chose them."""


def core_metrics(window: Window) -> dict[str, float | None]:
    """The metrics of ``CORE_METRICS``, in its order; a ratio is ``None`` where nothing is below the bar."""
    jobs = window.finished
    if "core_distance" not in jobs.columns:
        return {}
    distance, least, apart = (
        float(jobs[name].sum()) for name in ("core_distance", "core_distance_least", "cores_apart")
    )
    return {"core_distance_over_least": ratio(distance, least), "core_pairs_apart": apart}


FAILURE_METRICS = by_name(
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
)  # fmt: skip
"""Metrics of failures, in runs that have any."""


def failure_metrics(window: Window) -> dict[str, float | None]:
    """The metrics of ``FAILURE_METRICS``, in its order, over the window; ``None`` where there was none."""
    if "failures" not in window.tables:
        return {}
    inside = window.inside("failures")
    hit = inside["jobs_hit"].to_list()
    return {
        "failures": float(inside.height),
        "jobs_hit_mean": sum(hit) / len(hit) if hit else None,
        "jobs_hit_max": float(max(hit)) if hit else None,
        "core_h_lost": float(inside["core_s_lost"].sum()) / 3600,
    }
