"""Everything that the page shows of lent memory; nothing where no policy of the study lends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from unrack.plots.series import bin_edges
from unrack.report.charts.node_map import COLUMNS
from unrack.report.directory import RunFiles
from unrack.report.memory.chart import memory_charts, run_charts
from unrack.report.memory.run import contention_note, lends
from unrack.report.memory.study import study_charts
from unrack.report.section import Section, Shown, section_of
from unrack.report.setting import Setting

MOST_NOTES = 6


def memory_section(settings: Sequence[Setting], shown: Sequence[Setting], policies: Sequence[str]) -> Section | None:
    """Read and count what the section shows; ``None``: no policy lends. Settings in which none does are not shown."""
    runs = [run for setting in settings for own in setting.runs.values() for run in own]
    if not any(map(lends, runs)):
        return None
    notes = dict.fromkeys((run.workload, note) for run in runs if (note := contention_note(run)))
    several = len({note for _, note in notes}) > 1
    said = list(dict.fromkeys(f"{workload}: {note}" if several else note for workload, note in notes))
    found = section_of(shown, lends, lambda own: (memory_charts(own, policies), {}), _of_run)
    study, some = study_charts(settings, policies), tuple(said[:MOST_NOTES])
    return replace(found or Section(()), study=study, notes=some)


def _of_run(run: RunFiles, setting: Setting) -> Shown:
    spans = [own[0].span for own in setting.runs.values() if lends(own[0])]
    return run_charts(run, bin_edges([span for span in spans if span] or [(0.0, 1.0)], COLUMNS)), {}
