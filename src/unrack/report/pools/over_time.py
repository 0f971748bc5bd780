"""The pool section's charts over time: devices in use, sharing, devices stranded, fragmentation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from unrack.metric.kinds.pool_steps import held_steps, pool_steps, stranded_steps
from unrack.plots.series import Floats, bin_edges, binned_mean
from unrack.report.charts.chart import SHARE, Chart, ratio, time_chart
from unrack.report.pools.run import PoolRun, kinds_of_all


def pool_time_charts(runs: Mapping[str, PoolRun], policies: Sequence[str]) -> list[Chart]:
    """Charts of the devices in use, the jobs that share them and those stranded, over time.

    Parameters
    ----------
    runs
        Policy → one of its runs.
    policies
        All policies of the study: they fix the colours.

    Returns
    -------
    list of dict
        As :func:`unrack.report.pools.chart.pool_charts`; empty where no job held a device.
    """
    ends = [
        (float(run.shares["start_s"].min()), float(run.shares["end_s"].max()))  # type: ignore[arg-type]  # of floats
        for run in runs.values() if len(run.shares)
    ]  # fmt: skip
    if not ends:
        return []
    edges = bin_edges(ends)
    charts = []
    for kind in kinds_of_all({policy: [run] for policy, run in runs.items()}):
        used, sharing, stranded = {}, {}, {}
        for policy, run in runs.items():
            devices = len(run.devices.of_kind(kind))
            frame = pool_steps(run.shares, kind, devices)
            if not devices or frame.is_empty():
                continue
            times = _bracketed(frame["time_s"].to_numpy(), edges)
            columns = {name: np.concatenate([[0.0], frame[name].to_numpy(), [0.0]]) for name in frame.columns[1:]}
            used[policy] = binned_mean(times, columns["devices_used"], edges) / devices
            sharing[policy] = ratio(times, columns["sharers"], columns["compositions"], edges)
            lost = _stranded(run, kind, edges)
            if lost is not None:
                stranded[policy] = lost / devices
        for name, title, y, series in (
            ("used", f"{kind} devices in use over time", {"title": "share of devices", **SHARE}, used),
            ("sharers", f"Jobs per {kind} composition over time", {"title": "jobs per composition in use"}, sharing),
            ("stranded", f"{kind} devices stranded over time", {"title": "share of devices", **SHARE}, stranded),
        ):  # fmt: skip
            if name == "sharers" and all(np.nanmax(own, initial=0.0) <= 1 + 1e-9 for own in series.values()):
                continue  # one job a composition, always
            if series:
                charts.append({**time_chart(f"{name} {kind}", title, y, series, edges, policies), "group": "time"})
        charts += _fragmentation(runs, kind, edges, policies)
    return charts


def _fragmentation(runs: Mapping[str, PoolRun], kind: str, edges: Floats, policies: Sequence[str]) -> list[Chart]:
    charts = []
    demands = dict.fromkeys(name for run in runs.values() for name in run.demands if name.startswith(f"{kind}."))
    for demand in demands:
        series = {}
        for policy, run in runs.items():
            own = run.shares.filter(pl.col("kind") == kind)
            if own.is_empty() or demand not in run.demands:
                continue
            number = run.devices.kinds.index(kind)
            row = run.devices.quantities[number].index(demand.partition(".")[2])
            capacity = np.where(run.devices.kind == number, run.devices.capacity[row], 0)
            asked = own.join(run.run.frame("jobs", ("job", demand)), on="job", how="left", maintain_order="left")
            steps = held_steps(own, asked[demand].fill_null(0).to_numpy(), capacity)
            times = _bracketed(steps["time_s"].to_numpy(), edges)
            columns = [np.concatenate([[0.0], steps[name].to_numpy(), [0.0]]) for name in ("held", "installed")]
            series[policy] = 1 - ratio(times, columns[0], columns[1], edges)
        if series:
            words = quantity_words(demand)
            title = f"Fragmentation of {words} over time"
            y = {"title": "unasked part of what is in use", "axis": {"format": ".0%"}, "tip": ".1%"}
            name = f"fragmentation {demand.replace('.', ' ')}"
            charts.append({**time_chart(name, title, y, series, edges, policies), "group": "time"})
    return charts


def _bracketed(times: Floats, edges: Floats) -> Floats:
    """The times with the ends of the axis around them, before and after which nothing is held."""
    return np.concatenate([[min(edges[0], times[0])], times, [max(edges[-1], times[-1])]])


def _stranded(run: PoolRun, kind: str, edges: Floats) -> Floats | None:
    """Stranded devices of a kind in each bin; ``None`` where no job asks for one."""
    if kind not in run.least:
        return None
    reach = run.devices.reach
    reached = [(pool.first, pool.count, reach[i]) for i, pool in enumerate(run.devices.pools) if pool.kind == kind]
    frame = stranded_steps(run.shares, run.placements, reached, run.run.hardware.cores, run.least[kind])
    values = frame["stranded"].to_numpy()
    times = _bracketed(frame["time_s"].to_numpy(), edges)
    return binned_mean(times, np.concatenate([[0.0], values, values[-1:]]).astype(np.float64), edges)


def quantity_words(name: str) -> str:
    """A quantity of a kind, ``"nvme.bandwidth_mb_s"`` for example, without its unit."""
    return name.replace(".", " ").removesuffix("_mb_s").removesuffix("_mb").replace("_", " ")
