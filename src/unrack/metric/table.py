"""The metrics: name, unit, which way is better, and the formula; and how they are measured on a finished run."""

from __future__ import annotations

import inspect
import re
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import polars as pl

from unrack.cluster.spec import Cluster
from unrack.errors import InputError
from unrack.metric.holdings import STATISTICS, Metric, Window, by_name, measures, number, ratio, statistics
from unrack.metric.kinds.jobs import (
    CORE_METRICS,
    FAILURE_METRICS,
    POWER_METRICS,
    PREEMPTION_METRICS,
    SIZE_METRICS,
    core_metrics,
    failure_metrics,
    power_metrics,
    preemption_metrics,
    served,
    size_metrics,
)
from unrack.metric.kinds.memory import (
    MEMORY_METRICS,
    TIER_METRICS,
    USE_METRICS,
    memory_metrics,
    tier_metrics,
    use_metrics,
)
from unrack.metric.kinds.pool import pool_metrics
from unrack.plugins.code import blamed
from unrack.plugins.table import Table
from unrack.resources.table import RESOURCES, resource_of
from unrack.resources.use import Measured
from unrack.steps import areas_of, largest


class _OfResources(Mapping[str, Metric]):
    def __getitem__(self, name: str) -> Metric:
        return {one.name: one for resource in RESOURCES.values() for one in resource.metrics}[name]

    def __iter__(self) -> Iterator[str]:
        return (one.name for resource in RESOURCES.values() for one in resource.metrics)

    def __len__(self) -> int:
        return sum(1 for _ in self)


RESOURCE_METRICS = _OfResources()
"""One for every quantity of a resource, where the name has QUANTITY in it."""


def resource_metrics(window: Window) -> dict[str, float | None]:
    """Metrics of every resource that the cluster has, over a window."""
    tables, values = window.tables, dict[str, float | None]()
    for name, installed in window.cluster.places.installed.items():
        own = tables["claims"].filter(pl.col("resource") == name)
        with blamed(f"the resource {name}, measure,"):
            values |= resource_of(name).measure(
                Measured(installed, own, tables["jobs"], tables["placements"], window.start_s, window.end_s)
            )
    return values


OF_JOBS = {
    "wait_s": ("s", "wait of finished jobs", "x = start - submit"),
    "response_s": ("s", "response time (wait + run) of finished jobs", "x = end - submit"),
    "slowdown": ("", "slowdown of finished jobs that ran at all", "x = response / run, where run > 0"),
    "bounded_slowdown": ("", "bounded slowdown of finished jobs", "x = max(1, response / max(run, 10 s))"),
}


METRICS = by_name(
    Metric("jobs_finished", "jobs", "high", "jobs that ended: with their work done, or at their limit", "count"),
    Metric("jobs_rejected", "jobs", "low", "jobs too big for the cluster, rejected, or cancelled for others", "count"),
    Metric("jobs_queued", "jobs", "low", "jobs that never started", "count"),
    Metric("served", "", "high", "share of the core-time asked for by jobs that did all their work",
           "Σ tasks x cores x work of these / the same of all jobs submitted in the window"),
    *(
        Metric(f"{column}_{statistic}", unit, "low", f"{name} {words}", f"{rule}, {formula}")
        for column, (unit, words, formula) in OF_JOBS.items()
        for statistic, (name, rule) in STATISTICS.items()
    ),
    Metric("throughput_jobs_per_h", "jobs/h", "high", "jobs ended per hour of the window", "ended / window"),
    Metric("makespan_s", "s", "low", "from the first submission to the last end", "max end - min submit"),
    Metric("utilisation_cores", "", "high", "share of the online cores that jobs held",
           "∫ held cores dt / ∫ online cores dt"),
    Metric("utilisation_cores_asked", "", "high", "share of the online cores that running jobs asked for",
           "∫ cores asked by running jobs dt / ∫ online cores dt"),
    Metric("utilisation_memory", "", "high", "share of the installed memory that jobs held",
           "∫ held MB dt / (installed MB x window)"),
    Metric("queue_length_mean", "jobs", "low", "waiting jobs, averaged over time", "∫ waiting dt / window"),
    Metric("queue_length_max", "jobs", "low", "most jobs waiting at one time", "max waiting"),
    Metric("missed_deadlines", "", "low", "share of jobs that miss their deadline: late, cut at a limit, or never done",
           "count / jobs submitted in the window"),
    Metric("missed_deadlines_high", "", "low", "share of the jobs that are of high priority and miss their deadline",
           "count with priority > 0 / jobs submitted in the window"),
    Metric("bound_missed_deadlines", "", "", "share of missed deadlines that no policy could avoid",
           "docs/metrics.md, the bound"),
    Metric("restarts", "", "low", "attempts that ended before their job did", "count"),
    Metric("window_start_s", "s", "", "start of the window of the metrics of time", ""),
    Metric("window_end_s", "s", "", "end of the window of the metrics of time", ""),
)  # fmt: skip

KIND_METRICS = by_name(
    Metric("used_KIND", "", "", "share of the devices in use", "∫ devices in use dt / (devices x window)"),
    Metric("asked_KIND_QUANTITY", "", "high",
           "share of what is installed that running jobs ask for; above 1 where shared",
           "∫ amount asked by running jobs dt / (installed x window)"),
    Metric("composition_size_KIND", "devices", "", "devices in a composition in use",
           "mean over the time in which some are in use of devices in use / compositions in use"),
    Metric("sharing_KIND", "jobs", "", "jobs on a composition in use",
           "mean over the window of shares held / compositions in use, 0 while none is"),
    Metric("stranded_KIND", "", "low", "share of the devices that are free, with no free cores in reach",
           "∫ stranded devices dt / (devices x window); enough = fewest cores of a job that asks for the kind"),
    Metric("fragmentation_KIND_QUANTITY", "", "low",
           "share of the devices in use that no job asks; below 0 where shared",
           "1 - ∫ amount asked by running jobs dt / ∫ installed on devices in use dt"),
)  # fmt: skip
"""Metrics of pooled devices: one for every kind of device, and every quantity, that the cluster has."""


def _of_others(name: str, found: Any) -> Metric:
    """The metric of a plug-in: a :class:`Metric` with its measure, or a function, which its docstring describes."""
    if callable(found):
        return Metric(name, "", "", (inspect.getdoc(found) or "a plug-in's").split("\n")[0].rstrip("."), "", found)
    if not isinstance(found, Metric) or found.measure is None or found.name != name:
        raise InputError(
            f"the metric {name}", f"{found!r:.100}", f"a function, or Metric({name!r}, …, measure=function)"
        )
    return found


EVERY_METRIC: Table[Metric] = Table(
    "metrics",
    ChainMap(  # the last comes first
        USE_METRICS,
        RESOURCE_METRICS,  # type: ignore[arg-type]  # is not written to
        {
            **METRICS,
            **FAILURE_METRICS,
            **PREEMPTION_METRICS,
            **SIZE_METRICS,
            **MEMORY_METRICS,
            **TIER_METRICS,
            **CORE_METRICS,
            **POWER_METRICS,
        }
        | KIND_METRICS,
    ),
    _of_others,
)
"""All of them, those that only some runs have included."""


def entry_of(name: str) -> Metric | None:
    """The metric of that name, or the one that stands for it; ``None``: there is none.

    Examples
    --------
    >>> entry_of("used_nvme").name, entry_of("used_memory_rack").name
    ('used_KIND', 'used_memory_TIER')
    """
    if name in EVERY_METRIC:
        return EVERY_METRIC[name]
    for key, metric in {**RESOURCE_METRICS, **TIER_METRICS, **KIND_METRICS}.items():
        if re.fullmatch(re.sub("TIER|KIND|QUANTITY", "(.+)", key), name):
            return metric
    return None


def measure(
    tables: Mapping[str, pl.DataFrame], cluster: Cluster, window_us: tuple[int, int] | None = None
) -> dict[str, float | None]:
    """Every metric of ``METRICS``, in its order; ``None`` where one is not defined.

    Those of lent memory, of tiers, of chosen cores, of failures, of the kinds of devices, of memory in use, of
    resources and of plug-ins in use follow where there are any.

    Parameters
    ----------
    tables
        The tables of a run, by name: ``jobs`` and ``usage``, and the others that it has; see :class:`Window`.
    cluster
        Its cluster.
    window_us
        Metrics of jobs are over the jobs submitted in this window (both ends included), metrics of time over the
        window. ``None``: all jobs, and from the first submission to the last end.
    """
    window = Window(tables, cluster, window_us)
    values: dict[str, float | None] = dict.fromkeys(METRICS)
    for measured in (_of_jobs, _over_time, *KINDS):
        values |= measured(window)
    for name, metric in EVERY_METRIC.taking_part().items():
        assert metric.measure is not None
        with blamed(f"the metric {name}"):
            values[name] = _told(name, metric.measure(window))
    return values


def _told(name: str, value: object) -> float | None:
    """What the metric of a plug-in returned: a number, also one of NumPy; ``None``: it is not defined, or NaN."""
    plain = value.item() if isinstance(value, np.generic) else value
    if plain is not None and (not isinstance(plain, int | float) or abs(plain) == float("inf")):
        raise InputError(f"the metric {name}", " ".join(repr(value).split())[:100], "a number, or None")
    return None if plain is None or plain != plain else float(plain)


def _of_jobs(window: Window) -> dict[str, float | None]:
    jobs, finished = window.jobs, window.finished
    values: dict[str, float | None] = {}
    if jobs.height and bool(jobs["deadline_s"].is_not_null().any()):
        values["missed_deadlines"] = float(jobs["missed"].sum()) / jobs.height
        high = jobs.filter(pl.col("priority") > 0)
        values["missed_deadlines_high"] = float(high["missed"].sum()) / jobs.height
    values["jobs_finished"] = float(finished.height)
    for state in ("rejected", "queued"):
        values[f"jobs_{state}"] = float((jobs["state"] == state).sum())
    values["served"] = served(jobs)
    for column in OF_JOBS:
        values |= statistics(column, finished[column].drop_nulls())
    if finished.height:
        values["makespan_s"] = (number(finished["end_s"].max()) or 0.0) - (number(jobs["submit_s"].min()) or 0.0)
    values["restarts"] = float(jobs["restarts"].sum())
    return values


def _over_time(window: Window) -> dict[str, float | None]:
    start, end, length = window.start_s, window.end_s, window.length_s
    values: dict[str, float | None] = {"window_start_s": start, "window_end_s": end}
    if length <= 0:
        return values
    usage, total_mb = window.tables["usage"], window.cluster.total_mb
    areas = integrals(usage, start, end)
    ended = int(window.tables["jobs"]["end_s"].drop_nulls().is_between(start, end).sum())
    values["throughput_jobs_per_h"] = 3600 * ended / length
    values["utilisation_cores"] = ratio(areas["cores_held"], areas["cores_online"])
    values["utilisation_cores_asked"] = ratio(areas["cores_asked"], areas["cores_online"])
    if total_mb and bool((window.jobs["memory_mb"] > 0).any()):
        values["utilisation_memory"] = areas["memory_mb_held"] / (total_mb * length)
    values["queue_length_mean"] = areas["queued_jobs"] / length
    values["queue_length_max"] = largest(usage, "queued_jobs", start, end)
    return values


KINDS: tuple[Callable[[Window], dict[str, float | None]], ...] = (
    memory_metrics, tier_metrics, core_metrics, failure_metrics, preemption_metrics, size_metrics, pool_metrics,
    use_metrics, power_metrics, resource_metrics,
)  # fmt: skip
"""Metrics that only some runs have: each of these gives none where there is nothing to measure."""


def integrals(usage: pl.DataFrame, start_s: float, end_s: float) -> dict[str, float]:
    """The integral over time of every column of a usage frame, from ``start_s`` to ``end_s``.

    Before the first row nothing is held and no job waits; the cores online are those of the first row.
    """
    columns = [name for name in usage.columns if name != "time_s"]
    areas = areas_of(usage, columns, start_s, end_s)
    if usage.height and end_s > start_s:
        before = min(max(float(usage["time_s"][0]) - start_s, 0.0), end_s - start_s)
        areas["cores_online"] += before * float(usage["cores_online"][0])
    return areas


def per_group(jobs: pl.DataFrame, by: str) -> pl.DataFrame:
    """Metrics of jobs for every value of a column: ``user``, ``app`` or any other column of the jobs frame.

    Returns
    -------
    pl.DataFrame
        The column; jobs, core_hours; and for wait, response and bounded slowdown mean, median, p95 and max; most
        core-hours first, then by name.
    """
    return (
        jobs.filter(pl.col("state") == "finished")
        .group_by(by)
        .agg(
            pl.len().alias("jobs"),
            (pl.col("core_s").sum() / 3600).alias("core_hours"),
            *(each for column in ("wait_s", "response_s", "bounded_slowdown") for each in measures(column)),
        )
        .sort("core_hours", by, descending=[True, False], nulls_last=True)
    )
