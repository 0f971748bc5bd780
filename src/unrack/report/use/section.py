"""Everything that the page shows of memory in use; nothing where no workload of the study says what jobs use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from unrack.plots.series import bin_edges
from unrack.report.charts.chart import MOST_POLICIES, Chart, noted
from unrack.report.directory import RunFiles
from unrack.report.pools.table import PlainTable
from unrack.report.setting import Setting
from unrack.report.table import share_text
from unrack.report.use.over_time import SPANS, use_over_time
from unrack.report.use.run import knows_use, read_use_run, span_of
from unrack.report.use.shares import share_charts
from unrack.report.use.table import changed_jobs, stopped_jobs, throughput_by_memory, use_table

MOST_RUNS = 16
MOST_ROWS = 60


@dataclass(frozen=True)
class UseOfRun:
    """One run: its picture, and the jobs whose memory changed most and that lost most; ``None``: there are none."""

    title: str
    charts: list[Chart]
    changed: PlainTable | None
    stopped: PlainTable | None


@dataclass(frozen=True)
class UseSection:
    """The section.

    Attributes
    ----------
    tables
        Of each setting: its title, the table, and policy → what it served, where that is less than others.
    by_memory
        Throughput per TB, of the first ``MOST_ROWS`` settings; ``None``: memory is not counted.
    settings
        (title, charts) of each that can be chosen.
    runs
        Those that can be chosen.
    more_runs
        How many further runs there are.
    """

    tables: tuple[tuple[str, PlainTable, dict[str, str]], ...]
    by_memory: PlainTable | None
    settings: tuple[tuple[str, list[Chart]], ...]
    runs: tuple[UseOfRun, ...]
    more_runs: int

    def charts(self) -> dict[str, Any]:
        """For the page."""
        return {
            "settings": [{"title": title, "charts": own} for title, own in self.settings],
            "runs": [{"title": own.title, "charts": own.charts} for own in self.runs],
        }


def use_section(settings: Sequence[Setting], shown: Sequence[Setting]) -> UseSection | None:
    """Read and count what the section shows; ``None``: no workload says what jobs use.

    Parameters
    ----------
    settings
        All settings of the study.
    shown
        Those that the page shows one by one; the ones that do not know use are passed over.
    """
    every, known = ([setting for setting in some if _knows(setting)] for some in (settings, shown))
    if not every:
        return None
    chosen = [
        (own[0], f"{policy} · {setting.title}" if len(shown) > 1 else policy, setting)
        for setting in known
        for policy, own in list(setting.runs.items())[:MOST_POLICIES]
        if knows_use(own[0])
    ]
    tables = [(setting.title, use_table(setting), _less(setting)) for setting in known]
    charts = [(setting.title, noted(share_charts(setting), setting)) for setting in known]
    return UseSection(
        tuple((title, table, less) for title, table, less in tables if table is not None),
        throughput_by_memory(every[:MOST_ROWS]),
        tuple((title, own) for title, own in charts if own),
        tuple(_of_run(run, title, setting) for run, title, setting in chosen[:MOST_RUNS]),
        max(len(chosen) - MOST_RUNS, 0),
    )


def _knows(setting: Setting) -> bool:
    return any(knows_use(run) for own in setting.runs.values() for run in own)


def _less(setting: Setting) -> dict[str, str]:
    """Policy → the share that it served, of those that served less than others."""
    return {policy: share_text(share) for policy, share in setting.served_less.items()}


def _of_run(run: RunFiles, title: str, setting: Setting) -> UseOfRun:
    """A run, drawn over the time of all runs of its setting."""
    spans = [span for own in setting.runs.values() if (span := span_of(own[0])) is not None]
    own = read_use_run(run)
    charts = use_over_time(own, bin_edges(spans or [(0.0, 1.0)], SPANS))
    return UseOfRun(title, charts, changed_jobs(own), stopped_jobs(own))
