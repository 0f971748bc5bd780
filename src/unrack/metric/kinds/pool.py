"""Metrics of pooled devices, one set for every kind that the cluster has."""

from __future__ import annotations

import numpy as np
import polars as pl

from unrack.kernels.arrays import Floats, Ints
from unrack.metric.kinds.pool_steps import per_device, pool_steps, stranded_of
from unrack.metric.window import Window
from unrack.steps import levels, spans


def pool_metrics(window: Window) -> dict[str, float | None]:
    """Metrics of every kind of device; the names are those of ``KIND_METRICS`` with the kind put in."""
    values: dict[str, float | None] = {}
    if "shares" not in window.tables:
        return values
    jobs, shares, devices = window.tables["jobs"], window.tables["shares"], window.cluster.devices
    length = window.length_s
    for kind, quantities in zip(devices.kinds, devices.quantities, strict=True):
        count = len(devices.of_kind(kind))
        steps = pool_steps(shares, kind, count)
        lengths = window.lengths(steps["time_s"].to_numpy())
        used, groups = (steps[name].to_numpy() for name in ("devices_used", "compositions"))
        some, size = float(lengths @ (used > 0)), float(lengths @ _per(used, groups))
        sharers = float(lengths @ _per(steps["sharers"].to_numpy(), groups))
        values[f"used_{kind}"] = float(lengths @ used) / (count * length) if length > 0 else None
        values[f"composition_size_{kind}"] = size / some if some else None
        values[f"sharing_{kind}"] = sharers / length if length > 0 else None
        own = shares.filter(pl.col("kind") == kind)
        lost = stranded_of(own, kind, jobs, window.tables["placements"], devices, window.cluster.cores)
        values[f"stranded_{kind}"] = None
        if lost is not None and length > 0:
            area = float(window.lengths(lost["time_s"].to_numpy()) @ lost["stranded"].to_numpy())
            values[f"stranded_{kind}"] = area / (count * length)
        asked = own.join(jobs.select("job", pl.col(f"^{kind}\\..*$")), on="job", how="left")
        lasts = _overlap(*spans(own), window)
        in_use = _installed_in_use(own, window)
        for q, name in enumerate(quantities):
            column = f"{kind}.{name}"
            amounts = asked[column].to_numpy().astype(np.float64) if column in asked.columns else np.zeros(len(own))
            held, installed = float(amounts @ lasts), devices.installed(kind, name)
            values[f"asked_{kind}_{name}"] = held / (installed * length) if installed and length > 0 else None
            values[f"fragmentation_{kind}_{name}"] = 1 - held / in_use[q] if in_use[q] > 0 else None
    return values


def _overlap(start: Floats, end: Floats, window: Window) -> Floats:
    """float64[n]: for how long each span lies within the window."""
    lasts: Floats = np.maximum(np.minimum(end, window.end_s) - np.maximum(start, window.start_s), 0.0)
    return lasts


def _per(counts: Ints, groups: Ints) -> Floats:
    """float64[n]: counts per composition in use; 0 while none is."""
    return np.divide(counts.astype(np.float64), groups, out=np.zeros(len(counts)), where=groups > 0)


def _installed_in_use(own: pl.DataFrame, window: Window) -> list[float]:
    """Per quantity: the integral of what the devices in use have."""
    capacity = window.cluster.devices.capacity
    who, when, level = levels(*per_device(own))
    if len(who) == 0:
        return [0.0] * len(capacity)
    lasts = np.where(level > 0, _overlap(when, np.append(when[1:], np.inf), window), 0.0)
    return [float(row[who] @ lasts) for row in capacity]
