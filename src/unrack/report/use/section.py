"""Everything that the page shows of memory in use; nothing where no workload of the study says what jobs use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from unrack.plots.series import bin_edges
from unrack.report.charts.chart import noted
from unrack.report.directory import RunFiles
from unrack.report.section import MOST_RUNS, Part, PlainTable, Section, first_runs
from unrack.report.setting import Setting
from unrack.report.table import share_text
from unrack.report.use.over_time import SPANS, use_over_time
from unrack.report.use.run import knows_use, read_use_run, span_of
from unrack.report.use.shares import share_charts
from unrack.report.use.table import changed_jobs, stopped_jobs, throughput_by_memory, use_table

MOST_ROWS = 60


@dataclass(frozen=True)
class UseSection(Section):
    """The section; a run's tables are of the jobs whose memory ``changed`` most, and that were ``stopped``.

    Attributes
    ----------
    less
        Title of a setting → policy → what it served, where that is less than others.
    by_memory
        Throughput per TB, of the first ``MOST_ROWS`` settings; ``None``: memory is not counted.
    """

    less: Mapping[str, dict[str, str]] = field(default_factory=dict)
    by_memory: PlainTable | None = None


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
    chosen = first_runs(known, len(shown), knows_use)
    tables = [(setting.title, use_table(setting)) for setting in known]
    charts = [Part(setting.title, noted(share_charts(setting), setting)) for setting in known]
    return UseSection(
        tuple(part for part in charts if part.charts),
        tuple(_of_run(run, title, setting) for run, title, setting in chosen[:MOST_RUNS]),
        max(len(chosen) - MOST_RUNS, 0),
        tables=tuple((title, table) for title, table in tables if table is not None),
        less={own.title: {name: share_text(share) for name, share in own.served_less.items()} for own in known},
        by_memory=throughput_by_memory(every[:MOST_ROWS]),
    )


def _knows(setting: Setting) -> bool:
    return any(knows_use(run) for own in setting.runs.values() for run in own)


def _of_run(run: RunFiles, title: str, setting: Setting) -> Part:
    spans = [span for own in setting.runs.values() if (span := span_of(own[0])) is not None]
    own = read_use_run(run)
    charts = use_over_time(own, bin_edges(spans or [(0.0, 1.0)], SPANS))
    tables = {"changed": changed_jobs(own), "stopped": stopped_jobs(own)}
    return Part(title, charts, {name: table for name, table in tables.items() if table is not None})
