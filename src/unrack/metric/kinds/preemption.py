"""Metrics of preemption, on clusters where jobs are stopped for others."""

from __future__ import annotations

from unrack.metric.metric import Metric, Window, by_name

PREEMPTION_METRICS = by_name(
    Metric("preemptions", "", "low", "attempts that were stopped for other jobs", "count, by jobs in the window"),
    Metric("jobs_preempted", "", "low", "share of jobs that were stopped for others at least once", "jobs / jobs"),
    Metric(
        "core_h_lost_preempted", "core-h", "low", "core-hours of work that were lost with these attempts",
        "Σ cores held x work that is not kept",
    ),
    Metric("suspensions", "", "low", "how often jobs were suspended for others", "count, by jobs in the window"),
    Metric("jobs_suspended", "", "low", "share of jobs that were suspended at least once", "jobs / jobs"),
    Metric("suspended_h", "h", "low", "for how long jobs were suspended", "Σ time without cores"),
)  # fmt: skip
"""Metrics of preemption."""


def preemption_metrics(window: Window) -> dict[str, float | None]:
    """The metrics of ``PREEMPTION_METRICS``, in its order."""
    jobs = window.jobs
    if "preemptions" not in jobs.columns:
        return {}
    found: dict[str, float | None] = {
        "preemptions": float(jobs["preemptions"].sum()),
        "jobs_preempted": float((jobs["preemptions"] > 0).sum()) / jobs.height if jobs.height else None,
        "core_h_lost_preempted": float(jobs["core_s_lost_preempted"].sum()) / 3600,
    }
    if "suspensions" in jobs.columns:
        found["suspensions"] = float(jobs["suspensions"].sum())
        found["jobs_suspended"] = float((jobs["suspensions"] > 0).sum()) / jobs.height if jobs.height else None
        found["suspended_h"] = float(jobs["suspended_s"].sum()) / 3600
    return found
