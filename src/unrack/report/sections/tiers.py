"""What the page shows of tiers of memory: of a setting, and of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from unrack.cluster.tiers import Tiers, installed_mb, names_of_clusters
from unrack.kernels.arrays import Floats
from unrack.plots.series import bin_edges, binned_mean, rounded, six_digits
from unrack.report.charts.chart import MOST_POLICIES, Chart, Lines, span_axis, time_charts
from unrack.report.charts.node_map import COLUMNS, IN_POOLS, bands_of, held_map
from unrack.report.charts.spec import (
    Spec,
    coloured_parts,
    fill_spec,
    framed,
    number,
    part_legend,
    series_of,
    share_spec,
    told,
    whiskered,
)
from unrack.report.sections.section import PlainTable, SectionKind, Shown, metric_table, stack_chart
from unrack.report.setting import RunFiles, Setting, interval
from unrack.units import clock_start, seconds_text


def has_tiers(run: RunFiles) -> bool:
    """Whether the run's cluster has tiers of memory."""
    return isinstance(run.record["cluster"].get("tiers"), dict)


def _table(setting: Setting) -> PlainTable | None:
    tiers = next(iter(setting.runs.values()))[0].record["cluster"]["tiers"]["names"]
    names = [
        "slo_broken_local", "slo_broken_remote", "servers_rejected", "clusters_used_mean", "clusters_used_max",
        "price_per_server_h", "price_over_bound", *(f"used_memory_{name}" for name in tiers),
        *(f"stranded_memory_{name}" for name in tiers), "stranded_memory",
    ]  # fmt: skip
    return metric_table(setting, names, setting.runs)


@dataclass(frozen=True)
class TierRun:
    """One run on tiers of memory."""

    run: RunFiles

    @cached_property
    def installed(self) -> dict[str, int]:
        """Tier → MB."""
        return installed_mb(self.run.hardware)

    @cached_property
    def steps(self) -> pl.DataFrame:
        """Its table of tiers."""
        return self.run.frame("tiers")

    @property
    def tiers(self) -> Tiers:
        """Those of its cluster."""
        tiers = self.run.hardware.tiers
        assert tiers is not None
        return tiers

    @property
    def clusters(self) -> dict[int, str]:
        """Compute pool → what its cluster is called (of several, the first), in order of the clusters."""
        tiers, names, found = self.tiers, names_of_clusters(self.run.hardware), dict[int, str]()
        for pool, name in zip(tiers.member[tiers.first[:-1]].tolist(), names, strict=True):
            found.setdefault(pool, str(name))
        return found

    def window(self) -> tuple[float, float]:
        """The window of measurement, as far as anything happened in it, s."""
        start, end = float(self.steps["time_s"][0]), float(self.steps["time_s"][-1])
        low, high = self.run.window
        inside = max(start, low), min(end, high)
        return inside if inside[1] > inside[0] else (start, end)

    def memory_use(self) -> pl.DataFrame:
        """Which server used how much of which pool, and when: one row a span and pool.

        Columns: start_s, end_s, node (where the server ran), lender (the pool), mb.
        """
        loans = self.run.loans()
        columns = ("start_s", "end_s", "first_node", "nodes", "memory_mb_per_node")
        nodes = pl.int_ranges("first_node", pl.col("first_node") + pl.col("nodes")).alias("node")
        own = self.run.frame("placements", columns).with_columns(pl.col("memory_mb_per_node").alias("mb"), nodes)
        own = own.explode("node").with_columns(pl.col("node").cast(pl.Int32))
        own = own.with_columns(pl.col("node").alias("lender")).select(loans.columns)
        return pl.concat([own, loans]).filter(pl.col("mb") > 0)


BECAME = {
    "met": ("both met", "#4477AA"),
    "local": ("too little local", "#EE8866"),
    "remote": ("too remote", "#EECC66"),
    "both": ("both broken", "#AA4466"),
    "rejected": ("refused", "#9AA3AD"),
    "queued": ("never placed", "#D5DADF"),
}
"""What became of servers → words and a colour."""


_NUMBER: dict[str, Any] = {"axis": {"format": "~s"}, "tip": ",.4~g"}
_OVER_TIME = (
    Lines("clusters", "Clusters in use over time", {"title": "clusters", **_NUMBER}, "clusters_used"),
    Lines("price", "Price of the memory in use over time", {"title": "price per hour", **_NUMBER}, "price_per_h"),
    Lines("stranded", "Stranded memory over time",
          {"title": "share of all memory", "axis": {"format": ".1~%"}, "tip": ".2%"},
          pl.sum_horizontal("^stranded_mb_.*$") / pl.col("all_mb")),
)  # fmt: skip


def of_setting(setting: Setting, policies: Sequence[str]) -> Shown:
    """What became of the SLOs; clusters in use, prices and stranded memory over time; and each tier's use."""
    chosen = {policy: runs for policy, runs in list(setting.runs.items())[:MOST_POLICIES] if has_tiers(runs[0])}
    firsts = {policy: TierRun(runs[0]) for policy, runs in chosen.items()}
    steps = {
        policy: own.steps.with_columns(all_mb=pl.lit(float(sum(own.installed.values())) or 1.0))
        for policy, own in firsts.items()
    }
    spans = [firsts[policy].window() for policy, own in steps.items() if len(own) > 1]
    priced = any((own["price_per_h"] > 0).any() for own in steps.values())
    lines = [line for line in _OVER_TIME if priced or line.name != "price"]
    charts = time_charts(steps, lines, policies, edges=bin_edges(spans)) if spans else []
    return [*_slos(chosen), *charts, *_shares(setting, firsts, policies)], {"": _table(setting)}


def became(runs: Sequence[RunFiles]) -> dict[str, int]:
    """What became of the servers submitted in the window, counted over the runs: keys of :data:`BECAME`."""
    counts = dict.fromkeys(BECAME, 0)
    unplaced = pl.when(pl.col("state") == "rejected").then(pl.lit("rejected")).otherwise(pl.lit("queued"))
    for run in runs:
        jobs = run.jobs(("state", "slo"))
        for word, count in jobs.group_by(pl.coalesce("slo", unplaced).alias("word")).len().iter_rows():
            counts[word] += count
    return counts


def _slos(chosen: Mapping[str, Sequence[RunFiles]]) -> list[Chart]:
    found = {policy: became(runs) for policy, runs in chosen.items()}
    found = {policy: counts for policy, counts in found.items() if sum(counts.values())}
    if not found:
        return []
    stack = {
        policy: [
            (BECAME[key][0], count / sum(counts.values()), f"{count:,} of {sum(counts.values()):,} servers")
            for key, count in counts.items()
            if count
        ]
        for policy, counts in found.items()
    }
    note = "Servers by their last placement: enough local memory, and not too much that is far away."
    return [stack_chart("slos", "Servers within the SLOs", note, stack, dict(BECAME.values()), "share of the servers")]


def _shares(setting: Setting, firsts: Mapping[str, TierRun], policies: Sequence[str]) -> list[Chart]:
    names = list(dict.fromkeys(name for own in firsts.values() for name in own.tiers.names))
    charts: list[Chart] = []
    for stem, title, note in (
        ("used", "Memory in use, by tier", "Averages over the window of measurement."),
        ("stranded", "Stranded memory, by tier", "Free, but every cluster that the pool is in is full otherwise."),
    ):
        series = []
        for policy in firsts:
            values = [(name, setting.value(policy, f"{stem}_memory_{name}")) for name in names]
            there = [(name, *interval(value, 0.0)) for name, value in values if value is not None]
            series.append(series_of(policy, "x y low high", there))
        if any(own["x"] for own in series):
            spec = share_spec(policies, names, "tier", "share of the tier's memory", ".1~%")
            if setting.seeds > 1:
                spec, note = whiskered(spec), f"{note} Lines: {setting.intervals}."
            charts.append({"id": f"{stem} by tier", "title": title, "note": note, "series": series, "spec": spec})
    return charts


COLOURS = ("#4477AA", "#66AA88", "#DDAA44", "#AA4466", "#7766AA", "#8F8F8F")
"""Of tiers, from the local one on; then they repeat."""
KINDS = ("used", "stranded")
"""Of lines over time: solid and dashed."""
MOST_BARS = 120
"""Clusters of a chart; where there are more, a bar is of several neighbours."""


def of_run(run: RunFiles, setting: Setting) -> Shown:
    """Tiers and pools over time, and the clusters at the busiest moment."""
    own = TierRun(run)
    span = [own.window() if len(own.steps) else (0.0, 1.0)]
    edges, bins, use = bin_edges(span, COLUMNS), bin_edges(span), own.memory_use()
    note = "The share of each pool's memory that servers hold; empty: nothing."
    installed, of = run.hardware.memory_mb, {"id": "pools over time", "title": "Every pool over time"}
    bands = bands_of(own.tiers.tier, own.tiers.names)
    pools = [held_map(use, installed, bands, edges, IN_POOLS, note, shares="always", **of)] if len(use) else []
    return [*_over_time(own, bins), *_fullest(own, use, float(edges[0]), float(edges[-1])), *pools], {}


def colours_of(tiers: Sequence[str]) -> dict[str, str]:
    """A colour for each tier."""
    return {name: COLOURS[index % len(COLOURS)] for index, name in enumerate(tiers)}


def _over_time(own: TierRun, edges: Floats) -> list[Chart]:
    if len(own.steps) < 2:
        return []
    x, at = span_axis(edges)
    starts, series = at(edges[:-1]), []
    times = own.steps["time_s"].to_numpy()
    for name, installed in own.installed.items():
        for kind in KINDS if installed else ():
            values = own.steps[f"{kind}_mb_{name}"].cast(pl.Float64).to_numpy() / installed
            series.append({"policy": "", "x": starts, "y": rounded(binned_mean(times, values, edges)),
                           "part": [name] * len(starts), "kind": [kind] * len(starts)})  # fmt: skip
    note = f"What servers hold of each tier, and what is free but out of reach; means over {len(starts)} equal spans."
    return [{"id": "tiers over time", "title": "Memory of each tier over time", "series": series, "note": note,
             "spec": tier_lines(x, colours_of(own.tiers.names))}]  # fmt: skip


def tier_lines(x: Spec, tiers: Mapping[str, str]) -> Spec:
    """Shares of each tier over time, used solid and stranded dashed (fields ``x``, ``y``, ``part``, ``kind``)."""
    rows = told(("part", "tier"), ("kind", "memory"), ("x", x["title"], ",.4~g"), ("y", "share of the tier", ".1%"))
    return framed({
        "mark": {"type": "line", "interpolate": "step-after", "strokeWidth": 1.5, "clip": True},
        "encoding": {
            "x": x,
            "y": number("y", "share of the tier's memory", scale={"domain": [0, 1]}, axis={"format": ".0%"}),
            "color": coloured_parts(tiers, 6),
            "strokeDash": {"field": "kind", "type": "nominal",
                           "scale": {"domain": list(KINDS), "range": [[1, 0], [4, 3]]},
                           "legend": {**part_legend(2), "symbolType": "stroke"}},
            "tooltip": rows,
        },
    })  # fmt: skip


def busiest(steps: pl.DataFrame, tiers: Sequence[str], start_s: float, end_s: float) -> float | None:
    """When most memory is in use, s, in a span of time: the first such moment; ``None``: it never is."""
    first = max(steps["time_s"].search_sorted(start_s, side="right") - 1, 0)
    inside = steps[first:].filter(pl.col("time_s") <= end_s)
    used = inside.select(pl.sum_horizontal(f"used_mb_{name}" for name in tiers).alias("used"))["used"]
    at = used.arg_max()
    return None if at is None or used[at] == 0 else max(float(inside["time_s"][at]), start_s)


def _fullest(own: TierRun, use: pl.DataFrame, start_s: float, end_s: float) -> list[Chart]:
    at = busiest(own.steps, own.tiers.names, start_s, end_s)
    if at is None:
        return []
    lasts = (pl.col("start_s") <= at) & (pl.col("end_s").fill_null(np.inf) > at)
    held, running = (
        rows.filter(lasts) for rows in (use, own.run.frame("placements", ("start_s", "end_s", "first_node")))
    )
    nodes = list(own.clusters)
    bound = np.append(np.arange(0, len(nodes), -(-len(nodes) // MOST_BARS)), len(nodes))
    each, groups = np.diff(bound), len(bound) - 1
    place = np.full(len(own.tiers.tier), groups, np.int64)  # the last: of no cluster
    place[nodes] = np.repeat(np.arange(groups), each)
    gb, servers = np.zeros((len(own.tiers.names), groups + 1)), np.zeros(groups + 1)
    node, lender = held["node"].to_numpy(), held["lender"].to_numpy()
    np.add.at(gb, (own.tiers.tier[lender], place[node]), held["mb"].to_numpy() / 1024)
    np.add.at(servers, place[running["first_node"].to_numpy()], 1)
    gb, servers = gb[:, :-1] / each, servers[:-1] / each
    called = list(own.clusters.values())
    names = [called[first] if count == 1 else f"{called[first]}–{called[first + count - 1]}"
             for first, count in zip(bound[:-1].tolist(), each.tolist(), strict=True)]  # fmt: skip
    series = [
        {"policy": "", "x": names, "y": [six_digits(amount) for amount in gb[tier].tolist()],
         "part": [name] * groups, "servers": [six_digits(count) for count in servers.tolist()]}
        for tier, name in enumerate(own.tiers.names)
    ]  # fmt: skip
    many = " Each bar is the average of neighbouring clusters." if len(nodes) > groups else ""
    free = len(nodes) - len(set(node.tolist()) & set(nodes))
    empty = f" {free:,} of {len(nodes):,} {'is' if free == 1 else 'are'} empty." if free else ""
    note = f"What the servers of each cluster hold {seconds_text(at - clock_start(start_s))} into the log.{empty}{many}"
    return [{"id": "busiest", "title": "Clusters at the busiest moment", "note": note,
             "series": series, "spec": fill_spec(names, colours_of(own.tiers.names), "cluster")}]  # fmt: skip


TIERS = SectionKind(has_tiers, of_setting, of_run)
