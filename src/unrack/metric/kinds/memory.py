"""Metrics of lent memory, for runs whose policy lends."""

from __future__ import annotations

from unrack.metric.metric import STATISTICS, Metric, statistics
from unrack.metric.window import Window, ratio

MEMORY_METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in [
        Metric(
            "remote_share", "", "low", "share of the memory held that was of other nodes",
            "∫ borrowed MB dt / ∫ held MB dt",
        ),
        Metric(
            "nodes_lending", "", "", "share of the nodes that lend memory, averaged over time",
            "∫ nodes that lend dt / (nodes x window)",
        ),
        Metric(
            "memory_only_nodes", "", "low", "share of the nodes that lend and compute nothing, averaged over time",
            "∫ nodes that lend and hold no job's cores dt / (nodes x window)",
        ),
        Metric("jobs_remote", "", "", "share of the finished jobs that borrowed memory", "count / jobs finished"),
        *(
            Metric(
                f"stretch_{statistic}", "", "low", f"{name} run time of finished jobs over that undisturbed",
                f"{rule}, x = run / work, where work > 0",
            )
            for statistic, (name, rule) in STATISTICS.items()
        ),
    ]
}  # fmt: skip
"""Metrics of lent memory, in runs whose policy lends."""


def memory_metrics(window: Window) -> dict[str, float | None]:
    """The metrics of ``MEMORY_METRICS``, in its order; ``None`` where one is not defined."""
    if "memory_mb_lent" not in window.tables["usage"].columns:
        return {}
    areas = window.areas("usage") if window.length_s > 0 else {}
    finished, time = window.finished, len(window.cluster) * window.length_s
    stretch = finished["stretch"].drop_nulls()
    return {
        "remote_share": ratio(areas.get("memory_mb_lent", 0.0), areas.get("memory_mb_held", 0.0)),
        "nodes_lending": areas["nodes_lending"] / time if areas else None,
        "memory_only_nodes": areas["nodes_only_lending"] / time if areas else None,
        "jobs_remote": float((finished["remote_mb"] > 0).sum()) / finished.height if finished.height else None,
        **statistics("stretch", stretch),
    }
