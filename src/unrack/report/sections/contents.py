"""What a report has to draw: the charts of a finished study, section by section, for the page and for figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from unrack.report.charts.chart import MOST_SETTINGS, Chart, Sweep, mean_charts, setting_charts, sweeps
from unrack.report.resource_section import ResourceSection, live_section, resource_sections
from unrack.report.sections.failures import FAILURES
from unrack.report.sections.memory import MEMORY
from unrack.report.sections.pools import POOLS
from unrack.report.sections.rounds import ROUNDS
from unrack.report.sections.section import Section, section_of
from unrack.report.sections.tiers import TIERS
from unrack.report.sections.use import USE
from unrack.report.setting import FinishedStudy, Setting, policies_of, settings_of

SECTIONS = {"pools": POOLS, "tiers": TIERS, "memory": MEMORY, "use": USE, "rounds": ROUNDS}
"""In the order of the page; resources have sections of their own."""


@dataclass(frozen=True)
class Contents:
    """The charts of a study."""

    # settings, shown: all of them, and those drawn one by one
    settings: tuple[Setting, ...]
    shown: tuple[Setting, ...]
    policies: tuple[str, ...]  # all of them, in order: they fix the colours
    charts: tuple[list[Chart], ...]  # of each setting shown
    swept: list[Sweep]  # metrics over swept parameters
    sections: dict[str, Section]  # name → the sections on pools, memory, rounds and so on that the study has
    failures: Section | None
    resources: tuple[ResourceSection, ...]  # sections of tables

    def parts(self) -> dict[str, Any]:
        """The charts as the page's script takes them, without those over swept parameters."""
        return {
            "settings": [
                {"title": setting.title, "charts": own} for setting, own in zip(self.shown, self.charts, strict=True)
            ],
            **{name: section.charts() for name, section in self.sections.items()},
        }


def contents_of(study: FinishedStudy, bootstrap: float | None = None) -> Contents:
    """Read and count everything that is drawn of a study; ``bootstrap``: see :func:`settings_of`."""
    settings = settings_of(study.runs, study.table, bootstrap)
    policies, shown = policies_of(settings), settings[:MOST_SETTINGS]
    swept = sweeps(settings, policies)
    charts = ([*([] if swept else mean_charts(own, policies)), *setting_charts(own, policies)] for own in shown)
    made = {name: section_of(kind, settings, shown, policies) for name, kind in SECTIONS.items()}
    sections = {name: section for name, section in made.items() if section is not None}
    failures = section_of(FAILURES, settings, shown, policies)
    tables = (*filter(None, [live_section(shown)]), *resource_sections(shown))
    return Contents(settings, shown, policies, tuple(charts), swept, sections, failures, tables)
