"""Metrics of memory: lent, for runs whose policy lends; and in use, for runs that know what jobs use of theirs."""

from __future__ import annotations

from unrack.metric.metric import STATISTICS, Metric, by_name, statistics
from unrack.metric.window import Window, ratio

MB_PER_TB = 1024 * 1024

MEMORY_METRICS = by_name(
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
)  # fmt: skip
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


USE_METRICS = by_name(
    Metric(
        "memory_used", "", "high", "share of the installed memory that running jobs used",
        "∫ MB used dt / (installed MB x window)",
    ),
    Metric(
        "memory_held_unused", "", "low", "part of the memory held by jobs that they did not use",
        "1 - ∫ MB used dt / ∫ MB held dt",
    ),
    Metric(
        "memory_overcommit_max", "", "", "memory asked by running jobs over what is installed, at most",
        "max MB asked / installed MB",
    ),
    Metric(
        "memory_stops", "", "low", "attempts that were stopped for lack of memory", "count",
    ),
    Metric(
        "jobs_out_of_memory", "", "low", "share of the jobs that were ever stopped for lack of memory",
        "count / jobs submitted in the window",
    ),
    Metric(
        "node_h_lost_memory", "node-h", "low", "node-hours of work that were lost with these attempts",
        "Σ nodes x work that no checkpoint has kept",
    ),
    Metric(
        "node_h_blocked", "node-h", "low", "node-hours in which jobs stood still for lack of memory",
        "Σ nodes x time",
    ),
    Metric(
        "memory_moved_tb", "TB", "", "memory that leases grew by and shrank by while jobs ran",
        "Σ |change of a lease| over all changes",
    ),
)  # fmt: skip
"""Metrics of use, in runs whose workload says what jobs use."""


def use_metrics(window: Window) -> dict[str, float | None]:
    """The metrics of ``USE_METRICS``, in its order."""
    if "memory" not in window.tables:
        return {}
    jobs, areas = window.jobs, window.areas("memory")
    length, installed = window.length_s, window.cluster.total_mb
    most = window.inside("memory")["asked_mb"].max()
    return {
        "memory_used": areas["used_mb"] / (installed * length) if installed and length > 0 else None,
        "memory_held_unused": 1 - areas["used_mb"] / areas["held_mb"] if areas["held_mb"] else None,
        "memory_overcommit_max": float(most) / installed if installed and isinstance(most, int) else None,
        "memory_stops": float(jobs["memory_stops"].sum()),
        "jobs_out_of_memory": float((jobs["memory_stops"] > 0).sum()) / jobs.height if jobs.height else None,
        "node_h_lost_memory": float(jobs["node_s_lost"].sum()) / 3600,
        "node_h_blocked": float(jobs["node_s_blocked"].sum()) / 3600,
        "memory_moved_tb": float((jobs["memory_grown_mb"] + jobs["memory_shrunk_mb"]).sum()) / MB_PER_TB,
    }
