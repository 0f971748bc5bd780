"""What is in a workload: the account that ``unrack trace info`` prints and that reports quote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from unrack.kernels.arrays import Ints
from unrack.resources.gpus.columns import GPUS, WHOLE
from unrack.units import DATES_S, SECOND_US
from unrack.workload.formats.rules import RULES
from unrack.workload.generate.memory import BAND_GB
from unrack.workload.job import JobTable, Workload
from unrack.workload.tier_asks import NO_CEILING

MODELS = "gpu_models"
"""The column, carried along, with the models that a job accepts."""
_MOST_SHOWN = 8
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_QUANTILES = {"min": 0.0, "p25": 0.25, "median": 0.5, "p75": 0.75, "p95": 0.95, "max": 1.0}


def describe(workload: Workload, *, nodes: int | None = None, cores: int | None = None) -> dict[str, Any]:
    """Everything worth knowing about a workload before it is run, ready for JSON.

    Returns ``name``, ``source``, ``format``, ``header``; ``jobs`` (read, kept); ``dropped``, ``changed`` and
    ``ignored`` (lists of rule, jobs, sentence, and perhaps an example); ``missing`` (field → jobs); ``span`` (first and
    last submission, in s, and dates where the log gives them); ``users``, ``apps``; ``cores``, ``tasks``,
    ``memory_mb``, ``run_s``, ``request_s``, ``accuracy`` (run over request): quantiles; ``memory_bands``: share of jobs
    and of task-hours by GB per task, or None where no job asks for memory; ``states``: how jobs ended (state → jobs),
    or None where the log does not say; ``arrays``: how many ``arrays`` there are, and ``jobs`` in them, or None;
    ``asks``: what jobs ask beside cores and memory (:func:`other_asks`); ``tiers``: what servers ask of tiers of
    memory, or None (:func:`asked`); ``gpus``: what jobs ask of the resource ``gpus``, or None
    (:func:`unrack.workload.account.gpus_asked`); ``common_sizes`` (cores → jobs); ``core_hours``; ``load``;
    ``arrivals`` by ``hour`` and ``weekday`` (counts, in ``clock``); ``too_big`` (jobs that the cluster cannot hold).

    Parameters
    ----------
    workload
        The workload.
    nodes, cores
        A cluster to hold it against: number of nodes, and cores per node (default 1). Without it the load is measured
        against the header's MaxProcs, where there is one.
    """
    jobs, intake = workload.jobs, workload.intake
    total = jobs.tasks * jobs.cores
    ran = jobs.request_us > 0
    return {
        "name": workload.name,
        "source": intake.source,
        "format": intake.format,
        "header": dict(intake.header),
        "jobs": {"read": intake.read, "kept": intake.kept},
        "dropped": _rules(intake.dropped, intake.examples),
        "changed": _rules(intake.changed),
        "ignored": _rules(intake.ignored, intake.examples),
        "missing": dict(intake.missing),
        "span": _span(jobs, intake.header),
        "users": len(set(jobs.user[jobs.user >= 0].tolist())),
        "apps": len(set(jobs.app[jobs.app >= 0].tolist())),
        "cores": _spread(total),
        "tasks": _spread(jobs.tasks),
        "memory_mb": _spread(jobs.memory_mb),
        "run_s": _spread(jobs.work_us / SECOND_US),
        "request_s": _spread(jobs.request_us / SECOND_US),
        "accuracy": _spread(jobs.work_us[ran] / jobs.request_us[ran]),
        "memory_bands": _bands(jobs),
        "asks": other_asks(jobs),
        "tiers": asked(jobs),
        "gpus": gpus_asked(jobs),
        "common_sizes": _common(total),
        "core_hours": float((jobs.work_us / (3600 * SECOND_US) * total).sum()),
        "load": _load(jobs, intake.header, nodes, cores),
        "arrivals": _arrivals(jobs, intake.header),
        "states": told(jobs, "state"),
        "arrays": arrays(jobs),
        "too_big": None if nodes is None else _too_big(jobs, nodes, cores or 1),
    }


def _rules(counts: Mapping[str, int], examples: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
    shown = examples or {}
    return [
        {"rule": rule, "jobs": jobs, "sentence": RULES.get(rule, "")}
        | ({"example": shown[rule]} if rule in shown else {})
        for rule, jobs in counts.items()
    ]


def _spread(values: NDArray[Any]) -> dict[str, float] | None:
    """Quantiles (the smallest value that so large a part does not exceed) and the mean; ``None`` of nothing."""
    if not len(values):
        return None
    found = np.quantile(values, list(_QUANTILES.values()), method="inverted_cdf")
    return dict(zip(_QUANTILES, map(float, found), strict=True)) | {"mean": float(np.sort(values).mean())}


def _bands(jobs: JobTable) -> list[dict[str, float | None]] | None:
    """The bands of Table 5.5 in the thesis on disaggregated memory, and one for all above."""
    if not len(jobs) or jobs.memory_mb.max() == 0:
        return None
    edges_mb = np.array(BAND_GB[1:]) * 1024
    band = np.searchsorted(edges_mb, jobs.memory_mb, side="right")
    hours = jobs.tasks * (jobs.work_us / (3600 * SECOND_US))
    count = np.bincount(band, minlength=len(BAND_GB)) / len(jobs)
    held = np.bincount(band, hours, len(BAND_GB)) / (hours.sum() or 1.0)
    tops: list[int | None] = [*BAND_GB[1:], None]
    return [
        {"from_gb": low, "to_gb": high, "jobs": float(count[place]), "task_hours": float(held[place])}
        for place, (low, high) in enumerate(zip(BAND_GB, tops, strict=True))
    ]


def other_asks(jobs: JobTable) -> dict[str, Any]:
    """What jobs ask beside cores and memory.

    ``devices``: ``KIND.QUANTITY`` → ``jobs`` that ask for it, quantiles of what a task of ``each`` asks, and the
    ``common`` amounts → jobs. ``deadlines``, or None: ``jobs`` with one, and quantiles of the time until it
    ``over_run`` time. ``priorities`` → jobs, or None where all are 0. What is common is at most the eight commonest.
    """
    devices = {}
    for (kind, name), amounts in sorted(jobs.devices.items()):
        asking = amounts[amounts > 0]
        devices[f"{kind}.{name}"] = {"jobs": len(asking), "each": _spread(asking), "common": _common(asking)}
    due = (jobs.deadline_us >= 0) & (jobs.work_us > 0)
    over_run = (jobs.deadline_us - jobs.submit_us)[due] / jobs.work_us[due]
    with_one = int((jobs.deadline_us >= 0).sum())
    return {
        "devices": devices,
        "deadlines": {"jobs": with_one, "over_run": _spread(over_run)} if with_one else None,
        "priorities": _common(jobs.priority) if bool((jobs.priority != 0).any()) else None,
    }


def told(jobs: JobTable, column: str) -> dict[str, int] | None:
    """Value → jobs, the commonest first, of a column that was carried along; ``None`` where there is none."""
    if column not in jobs.extra.columns:
        return None
    counts = jobs.extra[column].drop_nulls().cast(pl.String).value_counts(name="jobs")
    return dict(counts.sort(["jobs", column], descending=[True, False]).iter_rows()) or None


def arrays(jobs: JobTable) -> dict[str, int] | None:
    """How many arrays there are, and how many jobs are in them; ``None`` where no job is."""
    if "array" not in jobs.extra.columns:
        return None
    members = jobs.extra["array"].drop_nulls()
    return {"arrays": members.n_unique(), "jobs": len(members)} if len(members) else None


def asked(jobs: JobTable) -> dict[str, Any] | None:
    """What servers ask of tiers of memory; ``None`` where nothing is.

    ``local_mb``: quantiles of the floors; ``alpha``: quantiles of ceiling over memory that may be remote, of those with
    both; ``no_ceiling``: jobs; ``groups`` of replicas and ``replicas`` in them; ``spread`` (level → replicas);
    ``forbidden`` (tier → jobs).
    """
    slo = jobs.slo
    if slo is None:
        return None
    remote_mb = jobs.memory_mb - slo.floor_mb
    both = (slo.ceiling_mb < NO_CEILING) & (remote_mb > 0)
    return {
        "local_mb": _spread(slo.floor_mb),
        "alpha": _spread(slo.ceiling_mb[both] / remote_mb[both]),
        "no_ceiling": int((slo.ceiling_mb >= NO_CEILING).sum()),
        "groups": len(np.unique(slo.group[slo.group >= 0])),
        "replicas": int((slo.group >= 0).sum()),
        "spread": {name: int((slo.spread == level).sum()) for level, name in enumerate(slo.spread_names)},
        "forbidden": {name: int(slo.forbidden[:, tier].sum()) for tier, name in enumerate(slo.tier_names)},
    }


def _common(values: NDArray[Any]) -> dict[str, int]:
    """Value → how often, the commonest in order of value."""
    there, counts = np.unique(values, return_counts=True)
    top = sorted(np.lexsort((there, -counts))[:_MOST_SHOWN].tolist())
    return {str(there[place]): int(counts[place]) for place in top}


def _number(header: Mapping[str, str], key: str) -> int | None:
    text = header.get(key, "").split("\n")[0].split(" ")[0]
    return int(text) if text.lstrip("-").isdecimal() and len(text) < 12 else None


def _load(
    jobs: JobTable, header: Mapping[str, str], nodes: int | None, cores: int | None
) -> dict[str, float | str] | None:
    """Core-seconds of work over core-seconds between the first and the last submission."""
    against, procs = "the cluster given", 0 if nodes is None else nodes * (cores or 1)
    if nodes is None:
        against, procs = "MaxProcs of the header", _number(header, "MaxProcs") or _number(header, "MaxNodes") or 0
    lasts_us = int(jobs.submit_us[-1] - jobs.submit_us[0]) if len(jobs) else 0
    if procs <= 0 or lasts_us == 0:
        return None
    area = float((jobs.work_us.astype(np.float64) * jobs.tasks * jobs.cores).sum())
    return {"offered": area / (float(procs) * lasts_us), "cores": procs, "against": against}


def local_clock(times_us: Sequence[int] | Ints, header: Mapping[str, str]) -> tuple[pl.Series, str] | None:
    """Local dates of times that ascend and the name of their clock; ``None`` where the log gives no dates."""
    start_s = _number(header, "UnixStartTime") or 0
    if not len(times_us) or start_s + times_us[0] / SECOND_US < DATES_S:
        return None
    if times_us[0] / SECOND_US > DATES_S:
        start_s = 0  # they are dates themselves
    if start_s + times_us[-1] / SECOND_US > 2**33:  # year 2242: not a date
        return None
    dates = (pl.Series(times_us) + start_s * SECOND_US).cast(pl.Datetime("us")).dt.replace_time_zone("UTC")
    zone = header.get("TimeZoneString", "").split("\n")[0].strip()
    if zone:
        try:
            return dates.dt.convert_time_zone(zone).dt.replace_time_zone(None), zone
        except pl.exceptions.PolarsError:
            pass  # an unknown zone: the offset below, or UTC
    offset = _number(header, "TimeZone") or 0
    if abs(offset) > 86_400:
        offset = 0
    return dates.dt.replace_time_zone(None).dt.offset_by(f"{offset}s"), f"UTC{offset / 3600:+g} h" if offset else "UTC"


def _span(jobs: JobTable, header: Mapping[str, str]) -> dict[str, Any]:
    if not len(jobs):
        return {"first_s": None, "last_s": None, "days": 0.0, "first": None, "last": None}
    span = {
        "first_s": float(jobs.submit_us[0] / SECOND_US),
        "last_s": float(jobs.submit_us[-1] / SECOND_US),
        "days": float((jobs.submit_us[-1] - jobs.submit_us[0]) / (86_400 * SECOND_US)),
        "first": None,
        "last": None,
    }
    if clock := local_clock(jobs.submit_us, header):
        dates = clock[0].dt.strftime("%Y-%m-%d %H:%M")
        span |= {"first": dates[0], "last": dates[-1]}
    return span


def _arrivals(jobs: JobTable, header: Mapping[str, str]) -> dict[str, Any]:
    """Counts by hour of the day and, where there are dates, by weekday."""
    if clock := local_clock(jobs.submit_us, header):
        hours, days = clock[0].dt.hour().to_numpy(), clock[0].dt.weekday().to_numpy() - 1
        counts = np.bincount(days, minlength=7).tolist()
        return {
            "clock": clock[1],
            "hour": np.bincount(hours, minlength=24).tolist(),
            "weekday": dict(zip(WEEKDAYS, counts, strict=True)),
        }
    hours = jobs.submit_us // (3600 * SECOND_US) % 24
    return {"clock": "hours since the log began", "hour": np.bincount(hours, minlength=24).tolist(), "weekday": None}


def _too_big(jobs: JobTable, nodes: int, cores: int) -> dict[str, Any]:
    """Jobs that an empty cluster of equal nodes cannot hold: a task beyond a node, or more tasks than fit."""
    fit = cores // jobs.cores  # int64[jobs]: tasks on a node
    too_big = fit * nodes < jobs.tasks
    return {
        "nodes": nodes,
        "cores": cores,
        "jobs": int(too_big.sum()),
        "ids": [str(name) for name in jobs.ids.filter(pl.Series(too_big)).head(10).to_list()],
        "largest": int((jobs.tasks * jobs.cores)[too_big].max()) if too_big.any() else 0,
    }


def gpus_asked(jobs: JobTable) -> dict[str, Any] | None:
    """What jobs ask of the resource ``gpus``; ``None`` where none asks for a GPU.

    ``jobs`` that ask for GPUs; ``gpus`` that all together ask for, parts counted as parts; ``sizes`` (GPUs of a job →
    jobs) and ``fragments`` (1/1000 of a GPU → jobs that ask for less than whole ones), the eight commonest; ``shared``:
    jobs in ``fragments``; ``slices``: jobs that ask for slices; ``models``: (models accepted → jobs), of those that say
    so.
    """
    count = jobs.devices.get((GPUS, "count"))
    if count is None or not bool((count > 0).any()):
        return None
    asking = count > 0
    none = np.zeros(len(jobs), np.int64)
    milli = np.where(asking, jobs.devices.get((GPUS, "milli"), none), 0)
    parts = (milli > 0) & (milli < WHOLE)
    total = jobs.tasks * count
    models: dict[str, int] = {}
    if MODELS in jobs.extra.columns:
        models = _common(jobs.extra[MODELS].filter(pl.Series(asking)).drop_nulls().to_numpy())
    return {
        "jobs": int(asking.sum()),
        "gpus": float((total.astype(np.float64) * np.where(milli > 0, milli, WHOLE)).sum() / WHOLE),
        "sizes": _common(total[asking]),
        "shared": int(parts.sum()),
        "fragments": _common(milli[parts]),
        "slices": int((jobs.devices.get((GPUS, "slices"), none) > 0).sum()),
        "models": models,
    }
