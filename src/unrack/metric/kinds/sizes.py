"""Metrics of jobs that can have several sizes, or other limits than they ask."""

from __future__ import annotations

from unrack.metric.metric import Metric, Window, by_name

SIZE_METRICS = by_name(
    Metric("tasks_mean", "tasks", "", "mean size of finished jobs that can have several", "mean ∫ tasks dt / run"),
    Metric("size_changes", "", "low", "changes of the sizes of running jobs", "count, by jobs in the window"),
    Metric(
        "core_h_lost_changing", "core-h", "low", "core-hours in which jobs stood still for changes of their size",
        "Σ cores held after it x time of a change",
    ),
    Metric("jobs_shortened", "", "", "share of jobs that started with a shorter limit than they ask", "jobs / jobs"),
    Metric("jobs_cut", "", "low", "share of jobs that ended at their limit with work left", "jobs / jobs"),
    Metric("jobs_extended", "", "", "share of jobs that were given more time than they ask", "jobs / jobs"),
    Metric("core_h_cut", "core-h", "low", "core-hours of jobs that ended at their limit", "Σ cores x run of those"),
    Metric(
        "core_h_saved", "core-h", "", "core-hours of jobs that finished in more time than they ask, and would be lost",
        "Σ cores x run of jobs with a limit above their request, of those not cut",
    ),
)  # fmt: skip
"""Metrics of sizes."""


def size_metrics(window: Window) -> dict[str, float | None]:
    """The metrics of ``SIZE_METRICS``, in its order."""
    jobs, found = window.jobs, dict[str, float | None]()
    if "limit_s" in jobs.columns:
        some = max(jobs.height, 1)
        found["jobs_shortened"] = float((jobs["limit_s"] < jobs["request_s"]).sum()) / some
        found["jobs_cut"] = float(jobs["cut"].sum()) / some
    if "extended_s" in jobs.columns:
        core_h = (jobs["tasks"] * jobs["cores_per_task"] * jobs["run_s"]).fill_null(0) / 3600
        saved = (jobs["limit_s"] > jobs["request_s"]).fill_null(False) & ~jobs["cut"]
        found["jobs_extended"] = float((jobs["extensions"] > 0).sum()) / some
        found["core_h_cut"] = float(core_h.filter(jobs["cut"]).sum())
        found["core_h_saved"] = float(core_h.filter(saved).sum())
    if "mean_tasks" not in jobs.columns:
        return found
    several = jobs.filter(jobs["least_tasks"] < jobs["most_tasks"])["mean_tasks"].drop_nulls()
    return found | {
        "tasks_mean": float(several.sum()) / len(several) if len(several) else None,
        "size_changes": float(jobs["size_changes"].sum()),
        "core_h_lost_changing": float(jobs["core_s_lost_changing"].sum()) / 3600,
    }
