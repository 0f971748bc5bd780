"""The charts of the memory section: of a setting, and of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from unrack.cluster.spec import UNCOUNTED_MB, Cluster
from unrack.kernels.arrays import Floats
from unrack.plots.series import binned_mean, rising, rounded
from unrack.report.charts.chart import MOST_POLICIES, SHARE, Chart, span_axis
from unrack.report.charts.node_map import (
    LENT,
    SIDE,
    bands_of,
    held_map,
    lent_between,
    matrix_spec,
    node_bounds,
    pack_map,
)
from unrack.report.charts.spec import Spec, coloured_parts, framed, line_spec, number, stacked, told
from unrack.report.directory import RunFiles
from unrack.report.section import stack_chart
from unrack.report.setting import Setting, estimate

PARTS = {"local": "#4477AA", "remote": "#EE8866", "not held": "#B8C0C8"}


# --- of a setting -------------------------------------------------------------------------------------------------


def memory_charts(setting: Setting, policies: Sequence[str]) -> list[Chart]:
    """Local and remote memory, and by how much jobs were stretched, under each policy (the first ``MOST_POLICIES``)."""
    chosen = dict(list(setting.runs.items())[:MOST_POLICIES])
    return [*_shares(chosen), *_stretch(chosen, policies)]


def _shares(chosen: Mapping[str, Sequence[RunFiles]]) -> list[Chart]:
    rows: dict[str, tuple[float, float]] = {}
    for policy, runs in chosen.items():
        held = [(run.metrics.get("utilisation_memory"), run.metrics.get("remote_share") or 0.0) for run in runs]
        local, remote = (
            estimate(None if all_ is None else all_ * (share if far else 1 - share) for all_, share in held)
            for far in (False, True)
        )
        if local is not None and remote is not None:
            rows[policy] = local.mean, remote.mean
    if not rows:
        return []
    stack = {}
    for policy, (near, far) in rows.items():
        amounts = dict(zip(PARTS, (near, far, max(1 - near - far, 0.0)), strict=True))
        words = f"{100 * far / (near + far):.3g} % of what jobs hold is remote" if near + far > 0 else "nothing is held"
        stack[policy] = [(part, share, words) for part, share in amounts.items() if share > 0]
    note = "Of the installed memory: what jobs held on their own nodes, what they held on others, the rest."
    title = "Local and remote memory"
    return [stack_chart("memory shares", title, note, stack, PARTS, "share of the memory installed")]


def _stretch(chosen: Mapping[str, Sequence[RunFiles]], policies: Sequence[str]) -> list[Chart]:
    found: dict[str, tuple[Floats, Floats]] = {}
    for policy, runs in chosen.items():
        jobs = runs[0].frame("jobs", ("run_s", "work_s", "state"))
        if "work_s" in jobs.columns:
            done = jobs.filter((pl.col("state") == "finished") & (pl.col("work_s") > 0))
            found[policy] = rising((done["run_s"] / done["work_s"]).cast(pl.Float64).to_numpy())
    found = {policy: own for policy, own in found.items() if len(own[0])}
    most = max((float(x[-1]) for x, _ in found.values()), default=1.0)
    if most <= 1 + 1e-9:
        return []
    series = [
        {"policy": policy, "x": rounded(np.append(x, most), 6), "y": rounded(np.append(share, 1.0))}
        for policy, (x, share) in found.items()
    ]  # fmt: skip
    x = number("x", "run time, undisturbed = 1", scale={"zero": False, "nice": False}, tip=".4~g")
    y = number("y", "share of jobs", **SHARE)
    return [{"id": "stretch", "title": "By how much jobs are stretched", "series": series,
             "note": "Share of finished jobs that ran at most so many times as long as undisturbed; left is better.",
             "spec": line_spec(policies, x, y, "step-after")}]  # fmt: skip


# --- of a run -----------------------------------------------------------------------------------------------------


def run_charts(run: RunFiles, edges: Floats) -> list[Chart]:
    """Who lent how much when, who lent to whom, and local against remote memory over time.

    Those of cells have ``map`` (of :func:`unrack.report.charts.node_map.pack_map`) in place of rows, and ``shares``:
    whether memory is counted. ``edges``: float64[columns + 1], spans of time of equal length, s.
    """
    loans = run.loans()
    return [*(_maps(loans, run.hardware, edges) if len(loans) else []), *_parts_over_time(run, edges)]


def _maps(loans: pl.DataFrame, cluster: Cluster, edges: Floats) -> list[Chart]:
    installed = np.where(cluster.memory_mb == UNCOUNTED_MB, 0, cluster.memory_mb)
    nodes, bands = len(cluster), bands_of(cluster.node_class, cluster.class_names)
    sides = node_bounds(nodes, SIDE, bands)
    whom = lent_between(loans, sides, float(edges[0]), float(edges[-1]))
    sided = f" A cell is up to {np.diff(sides).max():,} nodes each way." if nodes > SIDE else ""
    dashed = " Dashed: classes of nodes." if bands else ""
    note = f"Averages over {len(edges) - 1} equal spans of time; empty: nothing is lent."
    when = held_map(
        loans, installed, bands, edges, LENT, note, id="lent over time", title="Who lends how much, and when",
        shares=bool((installed > 0).all()),
    )  # fmt: skip
    return [
        when,
        {"id": "lent between", "title": "Who lends to whom", "shares": False, "series": [],
         "note": f"Averages over the run.{sided}{dashed}", "map": pack_map(whom, sides, installed, bands),
         "spec": matrix_spec(nodes, bands)},
    ]  # fmt: skip


def _parts_over_time(run: RunFiles, edges: Floats) -> list[Chart]:
    usage = run.frame("usage", ("time_s", "memory_mb_held", "memory_mb_lent"))
    if len(usage) < 2:
        return []
    lent = usage["memory_mb_lent"] if "memory_mb_lent" in usage.columns else pl.zeros(len(usage), eager=True)
    times, held, far = (own.cast(pl.Float64).to_numpy() for own in (usage["time_s"], usage["memory_mb_held"], lent))
    x, size = span_axis(edges)
    total = run.total_mb
    unit = float(total) if total else 1024.0
    starts = rounded(edges[:-1] / size, 5)
    amounts = [np.nan_to_num(binned_mean(times, values, edges)) / unit for values in (held - far, far)]
    series = {"policy": "", "x": [*starts, *starts], "y": rounded(np.concatenate(amounts)),
              "part": ["local"] * len(starts) + ["remote"] * len(starts)}  # fmt: skip
    parts = {name: PARTS[name] for name in ("local", "remote")}
    note = f"What running jobs hold on their own nodes and on others; means over {len(edges) - 1} equal spans of time."
    title = "share of the memory installed" if total else "GB held"
    return [{"id": "memory parts", "title": "Local and remote memory over time", "series": [series],
             "note": note, "spec": area_spec(x, parts, title, total is not None)}]  # fmt: skip


def area_spec(x: Spec, parts: Mapping[str, str], y_title: str, share: bool) -> Spec:
    """Amounts over time stacked on each other (fields ``x``, ``y``, ``part``); a ``share`` is out of 1."""
    scale = {"scale": {"domain": [0, 1]}} if share else {}
    y = number("y", y_title, stack="zero", axis={"format": ".0%" if share else "~s"}, **scale)
    rows = told(("part", "memory"), ("x", x["title"], ",.4~g"), ("y", y_title, ".1%" if share else ",.4~g"))
    return framed(stacked({
        "mark": {"type": "area", "interpolate": "step-after", "line": False},
        "encoding": {"x": x, "y": y, "color": coloured_parts(parts, 4), "tooltip": rows},
    }, parts))  # fmt: skip
