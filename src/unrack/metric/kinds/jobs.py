"""Metrics of jobs that only some runs have: of those served, of how close their cores were, and of failures."""

from __future__ import annotations

import polars as pl

from unrack.metric.holdings import Metric, Window, by_name, ratio
from unrack.resources.power.resource import Power
from unrack.steps import areas_of, largest


def served(jobs: pl.DataFrame) -> float | None:
    """Core-time of the jobs that did all their work over what all asked for, 0 to 1; ``None`` without jobs.

    The core-time of a job is tasks × cores of a task × work, what it asked for and not what it held: a larger lease, a
    slower run or an attempt that was lost changes nothing. Jobs that were rejected, still wait, never ended or were cut
    at their limit with work left count in the denominator alone. Where no job asks for any core-time (no cores, or no
    work), jobs are counted instead.

    Examples
    --------
    >>> jobs = {"tasks": [2, 1], "cores_per_task": [4, 8], "work_s": [30.0, 10.0], "state": ["finished", "rejected"]}
    >>> served(pl.DataFrame(jobs))
    0.75
    """
    if jobs.height == 0:
        return None
    done = (jobs["state"] == "finished").cast(pl.Float64) * (~jobs["cut"] if "cut" in jobs.columns else 1)
    asked = (jobs["tasks"] * jobs["cores_per_task"]).cast(pl.Float64) * jobs["work_s"].cast(pl.Float64)
    total = float(asked.sum())
    if total > 0:
        return float((asked * done).sum()) / total
    return float(done.sum()) / jobs.height


CORE_METRICS = by_name(
    Metric("core_distance_over_least", "", "low",
           "hops between the cores of finished jobs on one die, over the least that empty dies allow",
           "Σ core_distance / Σ core_distance_least"),
    Metric("core_pairs_apart", "", "low", "pairs of cores of one job and node that were on different dies",
           "Σ cores_apart"),
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


FAILURE_METRICS = by_name(
    Metric("failures", "failures", "", "failures of nodes, racks and other domains", "count in the window"),
    Metric("jobs_hit_mean", "jobs", "low", "jobs that one failure stopped, averaged over the failures",
           "Σ jobs stopped / failures"),
    Metric("jobs_hit_max", "jobs", "low", "jobs that the worst failure stopped", "max jobs stopped"),
    Metric("core_h_lost", "core-h", "low", "core-hours that jobs had held when a failure stopped them",
           "Σ cores held x time since the start of the attempt, over the jobs stopped"),
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


KWH = 3.6e6
"""A kilowatt-hour, in J."""

POWER_METRICS = by_name(
    Metric("energy_kwh", "kWh", "low", "energy that all nodes drew", "∫ W dt"),
    Metric("energy_without_jobs_kwh", "kWh", "low", "energy of nodes on which no job held anything",
           "∫ W of nodes without jobs dt"),
    Metric("energy_per_job_kwh", "kWh", "low", "energy over the jobs of the window that ran to their end",
           "energy / jobs finished"),
    Metric("energy_delay_kwh_h", "kWh h", "low", "energy-delay product", "energy x window"),
    Metric("power_mean_kw", "kW", "", "power, averaged over time", "∫ W dt / window"),
    Metric("power_peak_kw", "kW", "low", "most power at one time", "max W"),
    Metric("power_peak_of_cap", "", "", "share of the power cap that was drawn at most", "max W / cap"),
    Metric("nodes_switched_off", "", "", "share of the nodes that were switched off",
           "∫ nodes switched off dt / (nodes x window)"),
)  # fmt: skip
"""Metrics of a cluster with the table ``power``."""


def power_metrics(window: Window) -> dict[str, float | None]:
    """The metrics of ``POWER_METRICS``; ``None`` over a window that lasts no time. Nodes idle before the first row."""
    power = window.cluster.places.installed.get("power")
    if not isinstance(power, Power) or "power" not in window.tables:
        return {}
    if window.length_s <= 0:
        return dict.fromkeys(POWER_METRICS)
    length_s, cap, idle = window.length_s, power.file.cap, float(power.idle_mw.sum()) / 1000
    first = {"time_s": float("-inf"), "watts": idle, "watts_without_jobs": idle, "nodes_off": 0}
    steps = pl.concat([pl.DataFrame(first), window.tables["power"]], how="vertical_relaxed")
    areas = areas_of(steps, list(first)[1:], window.start_s, window.end_s)
    energy, peak = areas["watts"] / KWH, largest(steps, "watts", window.start_s, window.end_s)
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


PREEMPTION_METRICS = by_name(
    Metric("preemptions", "", "low", "attempts that were stopped for other jobs", "count, by jobs in the window"),
    Metric("jobs_preempted", "", "low", "share of jobs that were stopped for others at least once", "jobs / jobs"),
    Metric("core_h_lost_preempted", "core-h", "low", "core-hours of work that were lost with these attempts",
           "Σ cores held x work that is not kept"),
    Metric("suspensions", "", "low", "how often jobs were suspended for others", "count, by jobs in the window"),
    Metric("jobs_suspended", "", "low", "share of jobs that were suspended at least once", "jobs / jobs"),
    Metric("suspended_h", "h", "low", "for how long jobs were suspended", "Σ time without cores"),
)  # fmt: skip
"""Metrics of preemption."""


def preemption_metrics(window: Window) -> dict[str, float | None]:
    """The metrics of ``PREEMPTION_METRICS``, in its order."""
    jobs = window.jobs
    if "preemptions" not in jobs.columns:
        return {}
    found: dict[str, float | None] = {
        "preemptions": float(jobs["preemptions"].sum()),
        "jobs_preempted": float((jobs["preemptions"] > 0).sum()) / jobs.height if jobs.height else None,
        "core_h_lost_preempted": float(jobs["core_s_lost_preempted"].sum()) / 3600,
    }
    if "suspensions" in jobs.columns:
        found["suspensions"] = float(jobs["suspensions"].sum())
        found["jobs_suspended"] = float((jobs["suspensions"] > 0).sum()) / jobs.height if jobs.height else None
        found["suspended_h"] = float(jobs["suspended_s"].sum()) / 3600
    return found


SIZE_METRICS = by_name(
    Metric("tasks_mean", "tasks", "", "mean size of finished jobs that can have several", "mean ∫ tasks dt / run"),
    Metric("size_changes", "", "low", "changes of the sizes of running jobs", "count, by jobs in the window"),
    Metric("core_h_lost_changing", "core-h", "low", "core-hours in which jobs stood still for changes of their size",
           "Σ cores held after it x time of a change"),
    Metric("jobs_shortened", "", "", "share of jobs that started with a shorter limit than they ask", "jobs / jobs"),
    Metric("jobs_cut", "", "low", "share of jobs that ended at their limit with work left", "jobs / jobs"),
    Metric("jobs_extended", "", "", "share of jobs that were given more time than they ask", "jobs / jobs"),
    Metric("core_h_cut", "core-h", "low", "core-hours of jobs that ended at their limit", "Σ cores x run of those"),
    Metric("core_h_saved", "core-h", "",
           "core-hours of jobs that finished in more time than they ask, and would be lost",
           "Σ cores x run of jobs with a limit above their request, of those not cut"),
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
