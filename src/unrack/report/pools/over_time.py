"""The pool section's charts over time: devices in use, sharing, devices stranded, fragmentation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from unrack.metric.kinds.pool_steps import held_steps, pool_steps, stranded_of
from unrack.plots.series import Floats, bin_edges
from unrack.report.charts.chart import SHARE, Chart, Lines, time_charts
from unrack.report.pools.run import PoolRun, kinds_of_all

Runs = Mapping[str, PoolRun]
_ASKED = {"title": "unasked part of what is in use", "axis": {"format": ".0%"}, "tip": ".1%"}


def pool_time_charts(runs: Runs, policies: Sequence[str]) -> list[Chart]:
    """Charts of the devices in use, the jobs that share them and those stranded, over time, of a run of each policy.

    As :func:`unrack.report.pools.chart.pool_charts`; empty where no job held a device.
    """
    ends = [
        (float(run.shares["start_s"].min()), float(run.shares["end_s"].max()))  # type: ignore[arg-type]  # of floats
        for run in runs.values() if len(run.shares)
    ]  # fmt: skip
    if not ends:
        return []
    edges, charts = bin_edges(ends), list[Chart]()
    for kind in kinds_of_all({policy: [run] for policy, run in runs.items()}):
        installed = {policy: len(run.devices.of_kind(kind)) for policy, run in runs.items()}
        used = {policy: pool_steps(run.shares, kind, installed[policy]) for policy, run in runs.items()}
        used = {policy: steps for policy, steps in used.items() if len(steps)}
        stranded = {policy: lost for policy in used if (lost := _stranded(runs[policy], kind)) is not None}
        shared = any((own["sharers"] > own["compositions"]).any() for own in used.values())  # by several jobs, ever
        share = pl.col("devices")
        for name, title, y, steps, of, over in (
            ("used", f"{kind} devices in use", {"title": "share of devices", **SHARE}, used,
             pl.col("devices_used") / share, None),
            ("sharers", f"Jobs per {kind} composition", {"title": "jobs per composition in use"},
             used if shared else {}, "sharers", "compositions"),
            ("stranded", f"{kind} devices stranded", {"title": "share of devices", **SHARE}, stranded,
             pl.col("stranded") / share, None),
        ):  # fmt: skip
            counted = {policy: own.with_columns(devices=pl.lit(installed[policy])) for policy, own in steps.items()}
            charts += _drawn(Lines(f"{name} {kind}", f"{title} over time", y, of, over), counted, policies, edges)
        demands = dict.fromkeys(name for run in runs.values() for name in run.demands if name.startswith(f"{kind}."))
        for demand in demands:
            title = f"Fragmentation of {quantity_words(demand)} over time"
            held = {policy: _held(runs[policy], kind, demand) for policy in used if demand in runs[policy].demands}
            name, unasked = f"fragmentation {demand.replace('.', ' ')}", pl.col("installed") - pl.col("held")
            charts += _drawn(Lines(name, title, _ASKED, unasked, "installed"), held, policies, edges)
    return charts


def _drawn(line: Lines, steps: Mapping[str, pl.DataFrame], policies: Sequence[str], edges: Floats) -> list[Chart]:
    return [{**own, "group": "time"} for own in time_charts(steps, [line], policies, edges=edges, whole=True)]


def _held(run: PoolRun, kind: str, demand: str) -> pl.DataFrame:
    own, devices = run.shares.filter(pl.col("kind") == kind), run.devices
    number = devices.kinds.index(kind)
    row = devices.quantities[number].index(demand.partition(".")[2])
    asked = own.join(run.run.frame("jobs", ("job", demand)), on="job", how="left", maintain_order="left")
    capacity = np.where(devices.kind == number, devices.capacity[row], 0)
    return held_steps(own, asked[demand].fill_null(0).to_numpy(), capacity)


def _stranded(run: PoolRun, kind: str) -> pl.DataFrame | None:
    jobs = run.run.frame("jobs", ("cores_per_task", *run.demands))
    return stranded_of(run.shares, kind, jobs, run.placements, run.devices, run.run.hardware.cores)


def quantity_words(name: str) -> str:
    """A quantity of a kind, ``"nvme.bandwidth_mb_s"`` for example, without its unit."""
    return name.replace(".", " ").removesuffix("_mb_s").removesuffix("_mb").replace("_", " ")
