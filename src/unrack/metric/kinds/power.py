"""Metrics of power and energy, on clusters that say what nodes draw."""

from __future__ import annotations

from unrack.metric.metric import Metric, Window, by_name, ratio
from unrack.resources.power.resource import Power
from unrack.steps import largest

KWH = 3.6e6
"""A kilowatt-hour, in J."""

POWER_METRICS = by_name(
    Metric("energy_kwh", "kWh", "low", "energy that all nodes drew", "∫ W dt"),
    Metric(
        "energy_without_jobs_kwh", "kWh", "low", "energy of nodes on which no job held anything",
        "∫ W of nodes without jobs dt",
    ),
    Metric(
        "energy_per_job_kwh", "kWh", "low", "energy over the jobs of the window that ran to their end",
        "energy / jobs finished",
    ),
    Metric("energy_delay_kwh_h", "kWh h", "low", "energy-delay product", "energy x window"),
    Metric("power_mean_kw", "kW", "", "power, averaged over time", "∫ W dt / window"),
    Metric("power_peak_kw", "kW", "low", "most power at one time", "max W"),
    Metric("power_peak_of_cap", "", "", "share of the power cap that was drawn at most", "max W / cap"),
    Metric(
        "nodes_switched_off", "", "", "share of the nodes that were switched off",
        "∫ nodes switched off dt / (nodes x window)",
    ),
)  # fmt: skip
"""Metrics of a cluster with the table ``power``."""


def power_metrics(window: Window) -> dict[str, float | None]:
    """The metrics of ``POWER_METRICS``; ``None`` over a window that lasts no time."""
    power = window.cluster.places.installed.get("power")
    if not isinstance(power, Power) or "power" not in window.tables:
        return {}
    if window.length_s <= 0:
        return dict.fromkeys(POWER_METRICS)
    areas, length_s, cap = window.areas("power"), window.length_s, power.file.cap
    energy = areas["watts"] / KWH
    peak = largest(window.tables["power"], "watts", window.start_s, window.end_s)
    return {
        "energy_kwh": energy,
        "energy_without_jobs_kwh": areas["watts_without_jobs"] / KWH,
        "energy_per_job_kwh": ratio(energy, window.finished.height),
        "energy_delay_kwh_h": energy * length_s / 3600,
        "power_mean_kw": areas["watts"] / length_s / 1000,
        "power_peak_kw": peak / 1000,
        "power_peak_of_cap": None if cap is None else peak * 1000 / cap,
        "nodes_switched_off": areas["nodes_off"] / (length_s * len(power.idle_mw)),
    }
