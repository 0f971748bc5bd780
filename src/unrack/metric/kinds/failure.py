"""Metrics of failures, for runs with any."""

from __future__ import annotations

from unrack.metric.metric import Metric, by_name
from unrack.metric.window import Window

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
