"""Metrics of how close together the cores of jobs were, for runs that chose them."""

from __future__ import annotations

from unrack.metric.metric import Metric, by_name
from unrack.metric.window import Window, ratio

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
