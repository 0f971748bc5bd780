"""Everything that the page shows of tiers of memory; nothing where no cluster of the study has tiers."""

from __future__ import annotations

from collections.abc import Sequence

from unrack.plots.series import bin_edges
from unrack.report.charts.node_map import COLUMNS
from unrack.report.directory import RunFiles
from unrack.report.memory.run import has_tiers
from unrack.report.section import PlainTable, Section, Shown, metric_table, section_of
from unrack.report.setting import Setting
from unrack.report.tiers.chart import tier_charts
from unrack.report.tiers.fill import run_charts
from unrack.report.tiers.run import TierRun


def tier_section(settings: Sequence[Setting], policies: Sequence[str]) -> Section | None:
    """Read and count what the section shows of these settings, but for those without tiers; ``None``: none has any."""
    return section_of(settings, has_tiers, lambda own: (tier_charts(own, policies), {"": _table(own)}), _of_run)


def _of_run(run: RunFiles, setting: Setting) -> Shown:
    own = TierRun(run)
    span = [own.window() if len(own.steps) else (0.0, 1.0)]
    return run_charts(own, bin_edges(span, COLUMNS), bin_edges(span)), {}


def _table(setting: Setting) -> PlainTable | None:
    tiers = next(iter(setting.runs.values()))[0].record["cluster"]["tiers"]["names"]
    names = [
        "slo_broken_local", "slo_broken_remote", "servers_rejected", "clusters_used_mean", "clusters_used_max",
        "price_per_server_h", "price_over_bound", *(f"used_memory_{name}" for name in tiers),
        *(f"stranded_memory_{name}" for name in tiers), "stranded_memory",
    ]  # fmt: skip
    return metric_table(setting, names, setting.runs)
