"""Metrics of jobs that can have several sizes."""

from __future__ import annotations

from unrack.metric.metric import Metric, Window, by_name

SIZE_METRICS = by_name(
    Metric("tasks_mean", "tasks", "", "mean size of finished jobs that can have several", "mean ∫ tasks dt / run"),
    Metric("size_changes", "", "low", "changes of the sizes of running jobs", "count, by jobs in the window"),
    Metric(
        "core_h_lost_changing", "core-h", "low", "core-hours in which jobs stood still for changes of their size",
        "Σ cores held after it x time of a change",
    ),
)  # fmt: skip
"""Metrics of sizes."""


def size_metrics(window: Window) -> dict[str, float | None]:
    """The metrics of ``SIZE_METRICS``, in its order."""
    jobs = window.jobs
    if "mean_tasks" not in jobs.columns:
        return {}
    several = jobs.filter(jobs["least_tasks"] < jobs["most_tasks"])["mean_tasks"].drop_nulls()
    return {
        "tasks_mean": float(several.sum()) / len(several) if len(several) else None,
        "size_changes": float(jobs["size_changes"].sum()),
        "core_h_lost_changing": float(jobs["core_s_lost_changing"].sum()) / 3600,
    }
