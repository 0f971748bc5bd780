"""Metrics of memory: lent, in use, and of tiers, for runs that have such.

References
----------
Farshin, A., Roozbeh, A., Schulte, C., Maguire, G. Q., Kostić, D. (2021). Scheduling - a secret sauce for resource
disaggregation, section 5.2: SLOs violated, price and clusters of an allocation; here over time.
"""

from __future__ import annotations

from unrack.cluster.tiers import installed_mb
from unrack.metric.holdings import STATISTICS, Metric, Window, by_name, number, ratio, statistics
from unrack.steps import largest

MB_PER_TB = 1024 * 1024

MEMORY_METRICS = by_name(
    Metric("remote_share", "", "low", "share of the memory held that was of other nodes",
           "∫ borrowed MB dt / ∫ held MB dt"),
    Metric("nodes_lending", "", "", "share of the nodes that lend memory, averaged over time",
           "∫ nodes that lend dt / (nodes x window)"),
    Metric("memory_only_nodes", "", "low", "share of the nodes that lend and compute nothing, averaged over time",
           "∫ nodes that lend and hold no job's cores dt / (nodes x window)"),
    Metric("jobs_remote", "", "", "share of the finished jobs that borrowed memory", "count / jobs finished"),
    *(
        Metric(
            f"stretch_{statistic}", "", "low", f"{name} run time of finished jobs over that undisturbed",
            f"{rule}, x = run / work, where work > 0",
        )
        for statistic, (name, rule) in STATISTICS.items()
    ),
)  # fmt: skip
"""Metrics of lent memory, in runs of policies that lend."""


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
    Metric("memory_used", "", "high", "share of the installed memory that running jobs used",
           "∫ MB used dt / (installed MB x window from the first look on)"),
    Metric("memory_held_unused", "", "low", "share of the memory held by jobs that they did not use",
           "1 - ∫ MB used dt / ∫ MB held dt"),
    Metric("memory_overcommit_max", "", "", "share of the installed memory that running jobs ask for, at most",
           "max MB asked / installed MB"),
    Metric("memory_stops", "", "low", "attempts that were stopped for lack of memory", "count"),
    Metric("jobs_out_of_memory", "", "low", "share of the jobs that were ever stopped for lack of memory",
           "count / jobs submitted in the window"),
    Metric("node_h_lost_memory", "node-h", "low", "node-hours of work that were lost with these attempts",
           "Σ nodes x work that no checkpoint has kept"),
    Metric("node_h_blocked", "node-h", "low", "node-hours in which jobs stood still for lack of memory",
           "Σ nodes x time"),
    Metric("memory_moved_tb", "TB", "", "memory that leases grew by and shrank by while jobs ran",
           "Σ |change of a lease| over all changes"),
)  # fmt: skip
"""Metrics of use, in runs of workloads that say what jobs use."""


def use_metrics(window: Window) -> dict[str, float | None]:
    """The metrics of ``USE_METRICS``, in its order."""
    if "memory" not in window.tables:
        return {}
    jobs, looks, areas = window.jobs, window.tables["memory"], window.areas("memory")
    first_s = number(looks["time_s"].min())  # nothing is known of before
    length = -1.0 if first_s is None else window.end_s - max(window.start_s, first_s)
    installed = window.cluster.total_mb if length >= 0 else None
    return {
        "memory_used": areas["used_mb"] / (installed * length) if installed and length > 0 else None,
        "memory_held_unused": 1 - areas["used_mb"] / areas["held_mb"] if areas["held_mb"] else None,
        "memory_overcommit_max": largest(looks, "asked_mb", window.start_s, window.end_s) / installed
        if installed
        else None,
        "memory_stops": float(jobs["memory_stops"].sum()),
        "jobs_out_of_memory": float((jobs["memory_stops"] > 0).sum()) / jobs.height if jobs.height else None,
        "node_h_lost_memory": float(jobs["node_s_lost"].sum()) / 3600,
        "node_h_blocked": float(jobs["node_s_blocked"].sum()) / 3600,
        "memory_moved_tb": float((jobs["memory_grown_mb"] + jobs["memory_shrunk_mb"]).sum()) / MB_PER_TB,
    }


TIER_METRICS = by_name(
    Metric("slo_broken_local", "", "low", "share of the servers placed that had less local memory than their floor",
           "count / servers of the window that were placed"),
    Metric("slo_broken_remote", "", "low", "share of the servers placed with too much weighted remote memory",
           "count with Σ MB x cost of the tier > ceiling / servers of the window that were placed"),
    Metric("servers_rejected", "", "low", "share of the servers that were refused",
           "count / servers submitted in the window"),
    Metric("clusters_used_mean", "clusters", "low", "clusters with a server, averaged over time",
           "∫ clusters in use dt / window"),
    Metric("clusters_used_max", "clusters", "low", "most clusters with a server at one time",
           "max clusters in use"),
    Metric("price_total", "", "", "price of the memory that servers held in the window", "∫ price per hour dt"),
    Metric("price_per_server_h", "", "low", "price of the memory of a server for an hour",
           "∫ price per hour dt / ∫ servers dt"),
    Metric("price_per_gb_h", "", "low", "price of a GB that a server held for an hour",
           "∫ price per hour dt / ∫ GB used dt"),
    Metric("price_over_bound", "", "low", "price over the least that the same servers could cost within their SLOs",
           "∫ price per hour dt / ∫ Σ price of each server alone in the empty cluster where it is cheapest dt"),
    Metric("used_memory_TIER", "", "", "share of the memory of a tier that servers held",
           "∫ MB used dt / (MB installed x window)"),
    Metric("stranded_memory_TIER", "", "low", "share of the memory of a tier that is free and out of reach",
           "∫ MB stranded dt / (MB installed x window); docs/metrics.md, tiers of memory"),
    Metric("stranded_memory", "", "low", "share of all memory that is free and out of reach",
           "∫ MB stranded dt / (MB installed x window)"),
    Metric("stranded_in_use", "", "low", "share of the memory of clusters in use that is free and out of reach",
           "∫ MB stranded in pools of clusters in use dt / ∫ MB installed in these dt"),
)  # fmt: skip
"""Metrics of tiers of memory, those with ``TIER`` for every tier, in runs on a cluster with tiers."""


def tier_metrics(window: Window) -> dict[str, float | None]:
    """The metrics of ``TIER_METRICS``, in its order, ``TIER`` being each tier; ``None`` where one is not defined."""
    if "tiers" not in window.tables:
        return {}
    placed, states = window.jobs["slo"].drop_nulls(), window.jobs["state"]
    area, length = window.areas("tiers"), max(window.length_s, 0.0)
    installed = installed_mb(window.cluster)
    used = {name: area[f"used_mb_{name}"] for name in installed}
    stranded = {name: area[f"stranded_mb_{name}"] for name in installed}

    def broken(*words: str) -> float | None:
        return ratio(float(placed.is_in(words).sum()), len(placed))

    return {
        "slo_broken_local": broken("local", "both"),
        "slo_broken_remote": broken("remote", "both"),
        "servers_rejected": ratio(float((states == "rejected").sum()), len(states)),
        "clusters_used_mean": ratio(area["clusters_used"], length),
        "clusters_used_max": largest(window.tables["tiers"], "clusters_used", window.start_s, window.end_s),
        "price_total": area["price_per_h"] / 3600,
        "price_per_server_h": ratio(area["price_per_h"], area["servers"]),
        "price_per_gb_h": ratio(area["price_per_h"], sum(used.values()) / 1024),
        "price_over_bound": ratio(area["price_per_h"], area["least_price_per_h"]),
        **{f"used_memory_{name}": ratio(used[name], mb * length) for name, mb in installed.items()},
        **{f"stranded_memory_{name}": ratio(stranded[name], mb * length) for name, mb in installed.items()},
        "stranded_memory": ratio(sum(stranded.values()), sum(installed.values()) * length),
        "stranded_in_use": ratio(area["stranded_opened_mb"], area["opened_mb"]),
    }
