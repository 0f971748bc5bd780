"""Everything that the page shows of lent memory; nothing where no policy of the study lends."""

from __future__ import annotations

from collections.abc import Sequence

from unrack.plots.series import bin_edges
from unrack.report.charts.chart import Chart, noted
from unrack.report.charts.node_map import COLUMNS
from unrack.report.directory import RunFiles
from unrack.report.memory.chart import memory_charts, run_charts
from unrack.report.memory.run import contention_note, lends, read_memory_run
from unrack.report.memory.study import study_charts
from unrack.report.section import MOST_RUNS, Part, Section, first_runs
from unrack.report.setting import Setting

MOST_NOTES = 6


def memory_section(settings: Sequence[Setting], shown: Sequence[Setting], policies: Sequence[str]) -> Section | None:
    """Read and count what the section shows; ``None``: no policy lends.

    Parameters
    ----------
    settings
        All settings of the study.
    shown
        Those that the page shows one by one; the ones in which no policy lends are passed over.
    policies
        All policies of the study: they fix the colours.
    """
    runs = [run for setting in settings for own in setting.runs.values() for run in own]
    if not any(map(lends, runs)):
        return None
    notes = dict.fromkeys((run.workload, note) for run in runs if (note := contention_note(run)))
    several = len({note for _, note in notes}) > 1
    said = list(dict.fromkeys(f"{workload}: {note}" if several else note for workload, note in notes))
    lending = [setting for setting in shown if any(lends(run) for own in setting.runs.values() for run in own)]
    chosen = first_runs(lending, len(shown), lends)
    return Section(
        tuple(Part(setting.title, noted(memory_charts(setting, policies), setting)) for setting in lending),
        tuple(Part(title, _run_charts(run, setting)) for run, title, setting in chosen[:MOST_RUNS]),
        max(len(chosen) - MOST_RUNS, 0),
        study=study_charts(settings, policies),
        notes=tuple(said[:MOST_NOTES]),
    )


def _run_charts(run: RunFiles, setting: Setting) -> list[Chart]:
    every = [own[0].frame("usage", ("time_s",))["time_s"] for own in setting.runs.values() if lends(own[0])]
    ends = [(float(times[0]), float(times[-1])) for times in every if len(times)]
    return run_charts(read_memory_run(run), bin_edges(ends or [(0.0, 1.0)], COLUMNS))
