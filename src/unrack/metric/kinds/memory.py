"""Metrics of lent memory, for runs whose policy lends."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from unrack.metric.metric import STATISTICS, Metric

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


def memory_metrics(
    finished: pl.DataFrame, areas: Mapping[str, float], nodes: int, length_s: float
) -> dict[str, float | None]:
    """The metrics of ``MEMORY_METRICS``, in its order; ``None`` where one is not defined.

    Parameters
    ----------
    finished
        The finished jobs of the window, as in the jobs frame of a run whose policy lends.
    areas
        The integrals of its usage frame over the window, in the column's unit times s; empty: there is no window.
    nodes
        Of the cluster, memory pools among them.
    length_s
        Of the window.

    Examples
    --------
    >>> jobs = pl.DataFrame({"remote_mb": [0, 50], "stretch": [1.0, 1.5]})
    >>> areas = {"memory_mb_held": 800.0, "memory_mb_lent": 100.0, "nodes_lending": 6.0, "nodes_only_lending": 2.0}
    >>> found = memory_metrics(jobs, areas, nodes=4, length_s=10.0)
    >>> found["remote_share"], found["nodes_lending"], found["memory_only_nodes"], found["jobs_remote"]
    (0.125, 0.15, 0.05, 0.5)
    """
    held, time = areas.get("memory_mb_held", 0.0), nodes * length_s
    stretch = finished["stretch"].drop_nulls()
    return {
        "remote_share": areas["memory_mb_lent"] / held if held > 0 else None,
        "nodes_lending": areas["nodes_lending"] / time if areas else None,
        "memory_only_nodes": areas["nodes_only_lending"] / time if areas else None,
        "jobs_remote": float((finished["remote_mb"] > 0).sum()) / finished.height if finished.height else None,
        "stretch_mean": _number(stretch.mean()),
        "stretch_median": _number(stretch.median()),
        "stretch_p95": _number(stretch.quantile(0.95, "linear")),
        "stretch_max": _number(stretch.max()),
    }


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None
