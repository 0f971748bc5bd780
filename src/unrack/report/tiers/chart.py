"""The charts of the section on tiers of memory: of a setting, under its policies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from unrack.plots.series import bin_edges
from unrack.report.charts.bars import share_spec, whiskered
from unrack.report.charts.chart import MOST_POLICIES, Chart, Lines, time_charts
from unrack.report.charts.spec import series_of
from unrack.report.directory import RunFiles
from unrack.report.memory.run import has_tiers
from unrack.report.section import stack_chart
from unrack.report.setting import Setting, interval
from unrack.report.tiers.run import TierRun

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


def tier_charts(setting: Setting, policies: Sequence[str]) -> list[Chart]:
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
    return [*_slos(chosen), *charts, *_shares(setting, firsts, policies)]


def became(runs: Sequence[RunFiles]) -> dict[str, int]:
    """What became of the servers submitted in the window, counted over the runs: keys of :data:`BECAME`."""
    counts = dict.fromkeys(BECAME, 0)
    for run in runs:
        jobs = run.frame("jobs", ("submit_s", "state", "slo")).filter(pl.col("submit_s").is_between(*run.window))
        words = jobs.select(
            pl.when(pl.col("slo").is_not_null())
            .then("slo")
            .when(pl.col("state") == "rejected")
            .then(pl.lit("rejected"))
            .otherwise(pl.lit("queued"))
            .alias("word")
        )
        for word, count in words.group_by("word").len().iter_rows():
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
    return [stack_chart("slos", "Who is within the SLOs", note, stack, dict(BECAME.values()), "share of the servers")]


def _shares(setting: Setting, firsts: Mapping[str, TierRun], policies: Sequence[str]) -> list[Chart]:
    names = list(dict.fromkeys(name for own in firsts.values() for name in own.names))
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
