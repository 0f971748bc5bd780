"""Metrics of pooled devices, one set for every kind that the cluster has."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from unrack.cluster.pools.pool import Devices
from unrack.cluster.spec import Cluster
from unrack.metric.kinds.pool_steps import levels, pool_steps, spans, stranded_steps

Floats = NDArray[np.float64]


def pool_metrics(
    jobs: pl.DataFrame, shares: pl.DataFrame, placements: pl.DataFrame, cluster: Cluster, start_s: float, end_s: float
) -> dict[str, float | None]:
    """Metrics of every kind of device over a window; the names are those of ``KIND_METRICS`` with the kind put in.

    Parameters
    ----------
    jobs, shares, placements
        The frames of a run: all jobs, also those submitted outside the window.
    start_s, end_s
        The window.
    """
    values: dict[str, float | None] = {}
    length = end_s - start_s
    for kind, quantities in zip(cluster.devices.kinds, cluster.devices.quantities, strict=True):
        count = len(cluster.devices.of_kind(kind))
        steps = pool_steps(shares, kind, count)
        used, some = areas(steps, start_s, end_s)
        values[f"used_{kind}"] = used / (count * length) if length > 0 else None
        values[f"composition_size_{kind}"] = _mean_ratio(steps, "devices_used", start_s, end_s) / some if some else None
        values[f"sharing_{kind}"] = _mean_ratio(steps, "sharers", start_s, end_s) / length if length > 0 else None
        own = shares.filter(pl.col("kind") == kind)
        values[f"stranded_{kind}"] = _stranded(jobs, own, placements, cluster, kind, start_s, end_s, length)
        asked = own.join(jobs.select("job", pl.col(f"^{kind}\\..*$")), on="job", how="left")
        lasts = overlap(*spans(own), start_s, end_s)
        in_use = _installed_in_use(own, cluster.devices, start_s, end_s)
        for q, name in enumerate(quantities):
            column = f"{kind}.{name}"
            amounts = asked[column].to_numpy().astype(np.float64) if column in asked.columns else np.zeros(len(own))
            held, installed = float(amounts @ lasts), cluster.devices.installed(kind, name)
            values[f"asked_{kind}_{name}"] = held / (installed * length) if installed and length > 0 else None
            values[f"fragmentation_{kind}_{name}"] = 1 - held / in_use[q] if in_use[q] > 0 else None
    return values


def overlap(start: Floats, end: Floats, low: float, high: float) -> Floats:
    """float64[n]: how long each span lies within ``low … high``."""
    lasts: Floats = np.maximum(np.minimum(end, high) - np.maximum(start, low), 0.0)
    return lasts


def _lengths(steps: pl.DataFrame, start_s: float, end_s: float) -> Floats:
    times = steps["time_s"].to_numpy()
    lengths: Floats = np.diff(np.clip(np.append(times, np.inf), start_s, max(start_s, end_s)))
    return lengths


def areas(steps: pl.DataFrame, start_s: float, end_s: float) -> tuple[float, float]:
    """The integral of the devices used over the window, and for how long some were."""
    lengths, used = _lengths(steps, start_s, end_s), steps["devices_used"].to_numpy()
    return float(lengths @ used), float(lengths @ (used > 0))


def _mean_ratio(steps: pl.DataFrame, name: str, start_s: float, end_s: float) -> float:
    """The integral of a count per composition in use; 0 while none is."""
    groups = steps["compositions"].to_numpy()
    counts = steps[name].to_numpy().astype(np.float64)
    ratio = np.divide(counts, groups, out=np.zeros(len(counts)), where=groups > 0)
    return float(_lengths(steps, start_s, end_s) @ ratio)


def _installed_in_use(own: pl.DataFrame, devices: Devices, start_s: float, end_s: float) -> list[float]:
    """Per quantity: the integral of what the devices in use have."""
    sizes = own["devices"].list.len().cast(pl.Int64).to_numpy()
    ids = own["devices"].list.explode(keep_nulls=False, empty_as_null=False).cast(pl.Int64).to_numpy()
    start, end = spans(own)
    who, when, level = levels(ids, np.repeat(start, sizes), np.repeat(end, sizes))
    if len(who) == 0:
        return [0.0] * devices.capacity.shape[0]
    lasts = np.where(level > 0, overlap(when, np.append(when[1:], np.inf), start_s, end_s), 0.0)
    return [float(devices.capacity[q, who] @ lasts) for q in range(devices.capacity.shape[0])]


def _stranded(
    jobs: pl.DataFrame,
    own: pl.DataFrame,
    placements: pl.DataFrame,
    cluster: Cluster,
    kind: str,
    start_s: float,
    end_s: float,
    length: float,
) -> float | None:
    asks = [column for column in jobs.columns if column.startswith(f"{kind}.")]
    asking = jobs.filter(pl.any_horizontal(pl.col(column) > 0 for column in asks)) if asks else jobs.clear()
    if asking.height == 0 or length <= 0:
        return None
    least = int(asking["cores_per_task"].min())  # type: ignore[arg-type]  # a column of integers
    devices = cluster.devices
    pools = [(p.first, p.count, devices.reach[i]) for i, p in enumerate(devices.pools) if p.kind == kind]
    steps = stranded_steps(own, placements, pools, cluster.cores, least)
    total = float(_lengths(steps, start_s, end_s) @ steps["stranded"].to_numpy())
    return total / (sum(count for _, count, _ in pools) * length)
