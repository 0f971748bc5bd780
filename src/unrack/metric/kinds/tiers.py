"""Metrics of servers on tiers of memory, for runs on a cluster with tiers.

References
----------
Farshin, A., Roozbeh, A., Schulte, C., Maguire, G. Q., Kostić, D. (2021). Scheduling - a secret sauce for resource
disaggregation, section 5.2: SLOs violated, price and clusters of an allocation; here over time.
"""

from __future__ import annotations

from unrack.cluster.tiers.tier import installed_mb
from unrack.metric.metric import Metric, by_name
from unrack.metric.window import Window, ratio
from unrack.steps import largest

TIER_METRICS = by_name(
    Metric(
        "slo_broken_local", "", "low", "share of the servers placed that had less local memory than their floor",
        "count / servers of the window that were placed",
    ),
    Metric(
        "slo_broken_remote", "", "low", "share of the servers placed whose weighted remote memory was too much",
        "count with Σ MB x cost of the tier > ceiling / servers of the window that were placed",
    ),
    Metric(
        "servers_rejected", "", "low", "share of the servers that were refused",
        "count / servers submitted in the window",
    ),
    Metric("clusters_used_mean", "clusters", "low", "clusters with a server, averaged over time",
           "∫ clusters in use dt / window"),
    Metric("clusters_used_max", "clusters", "low", "most clusters with a server at one time",
           "max clusters in use"),
    Metric("price_total", "", "", "price of the memory that servers held in the window", "∫ price per hour dt"),
    Metric("price_per_server_h", "", "low", "price of the memory of a server for an hour",
           "∫ price per hour dt / ∫ servers dt"),
    Metric("price_per_gb_h", "", "low", "price of a GB that a server held for an hour",
           "∫ price per hour dt / ∫ GB used dt"),
    Metric(
        "price_over_bound", "", "low", "price over the least that the same servers could cost within their SLOs",
        "∫ price per hour dt / ∫ Σ price of each server alone in the empty cluster where it is cheapest dt",
    ),
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
