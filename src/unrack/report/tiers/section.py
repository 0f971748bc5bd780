"""Everything that the page shows of tiers of memory; nothing where no cluster of the study has tiers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from unrack.plots.series import bin_edges
from unrack.report.charts.chart import MOST_POLICIES, Chart, noted
from unrack.report.memory.map import COLUMNS
from unrack.report.memory.run import has_tiers
from unrack.report.pools.table import PlainTable, metric_table
from unrack.report.setting import Setting
from unrack.report.tiers.chart import tier_charts, window_of
from unrack.report.tiers.fill import run_charts
from unrack.report.tiers.run import read_tier_run

MOST_RUNS = 16


@dataclass(frozen=True)
class TierSection:
    """The section.

    Attributes
    ----------
    tables
        (title, table) of each setting.
    settings, runs
        (title, charts) of each that can be chosen.
    more_runs
        How many further runs there are.
    """

    tables: tuple[tuple[str, PlainTable], ...]
    settings: tuple[tuple[str, list[Chart]], ...]
    runs: tuple[tuple[str, list[Chart]], ...]
    more_runs: int

    def charts(self) -> dict[str, Any]:
        """For the page."""
        return {name: [{"title": title, "charts": own} for title, own in chosen]
                for name, chosen in (("settings", self.settings), ("runs", self.runs))}  # fmt: skip


def tier_section(settings: Sequence[Setting], policies: Sequence[str]) -> TierSection | None:
    """Read and count what the section shows; ``None``: no cluster has tiers.

    Parameters
    ----------
    settings
        Those that the page shows one by one; the ones without tiers are passed over.
    policies
        All policies of the study: they fix the colours.
    """
    tiered = [setting for setting in settings if has_tiers(next(iter(setting.runs.values()))[0])]
    if not tiered:
        return None
    chosen = [
        (own[0], f"{policy} · {setting.title}" if len(settings) > 1 else policy)
        for setting in tiered
        for policy, own in list(setting.runs.items())[:MOST_POLICIES]
    ]
    runs = []
    for run, title in chosen[:MOST_RUNS]:
        own = read_tier_run(run)
        span = [window_of(run, own.steps)] if len(own.steps) else [(0.0, 1.0)]
        runs.append((title, run_charts(own, bin_edges(span, COLUMNS), bin_edges(span))))
    tables = [(setting.title, _table(setting)) for setting in tiered]
    return TierSection(
        tuple((title, table) for title, table in tables if table is not None),
        tuple((setting.title, noted(tier_charts(setting, policies), setting)) for setting in tiered),
        tuple(runs),
        max(len(chosen) - MOST_RUNS, 0),
    )


def _table(setting: Setting) -> PlainTable | None:
    run = next(iter(setting.runs.values()))[0]
    tiers = run.record["cluster"]["tiers"]["names"]
    names = [
        "slo_broken_local", "slo_broken_remote", "servers_rejected", "clusters_used_mean", "clusters_used_max",
        "price_per_server_h", "price_over_bound", *(f"used_memory_{name}" for name in tiers),
        *(f"stranded_memory_{name}" for name in tiers), "stranded_memory",
    ]  # fmt: skip
    return metric_table(setting, names, tuple(setting.runs))
