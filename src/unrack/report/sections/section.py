"""A section of the page on a resource: tables, charts of the study, and of the settings and runs to choose from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from unrack.metric.estimate import Mark
from unrack.plots.series import six_digits
from unrack.report.charts.chart import MOST_POLICIES, Chart, noted
from unrack.report.charts.spec import series_of, stack_spec
from unrack.report.setting import RunFiles, Setting
from unrack.report.table import cells_of, columns_of, share_text

MOST_RUNS = 16
"""Runs of a section that can be chosen."""


Row = tuple[str, tuple[tuple[str, Mark], ...]]
"""A name, and (text, its mark, as in the comparison) of each cell."""


class PlainTable(NamedTuple):
    """A table to print as it is."""

    heads: tuple[tuple[str, str], ...]  # (words, what they mean) of each column after the first
    rows: tuple[Row, ...]  # as of :data:`Row`


class SectionPart(NamedTuple):
    """A setting or a run: its name, its charts, its tables by name, and the policies that served less than others."""

    title: str
    charts: list[Chart]
    tables: Mapping[str, PlainTable] = {}
    less: Mapping[str, str] = {}  # policy → the share that it served, in words


@dataclass(frozen=True)
class Section:
    """What a section shows, whatever it is about."""

    # settings, runs: those that can be chosen
    settings: tuple[SectionPart, ...]
    runs: tuple[SectionPart, ...] = ()
    more_runs: int = 0  # how many further runs there are
    study: list[Chart] = field(default_factory=list)  # charts of the whole study
    table: PlainTable | None = None  # a table of the whole study
    notes: tuple[str, ...] = ()  # sentences
    seeds: int = 1  # how many seeds its countings are over, at most
    packed: list[dict[str, Any]] = field(default_factory=list)  # data of a picture that the page draws by itself

    def has(self, name: str) -> bool:
        """Whether any setting has charts of that group, or a table of that name."""
        return any(chart.get("group") == name for part in self.settings for chart in part.charts) or any(
            name in part.tables for part in self.settings
        )

    def charts(self) -> dict[str, Any]:
        """Its charts, as the page's script takes them."""

        def listed(parts: Iterable[SectionPart]) -> list[dict[str, Any]]:
            return [{"title": part.title, "charts": part.charts} for part in parts]

        return {"study": self.study, "settings": listed(self.settings), "runs": listed(self.runs)}


Shown = tuple[list[Chart], Mapping[str, PlainTable | None]]
"""What is shown of a setting or a run: charts, and tables by name; those that are ``None`` are left out."""


class SectionKind(NamedTuple):
    """A kind of section: on something that only some runs have, and what is shown of it."""

    has: Callable[[RunFiles], bool]  # whether a run has it
    of_setting: Callable[[Setting, Sequence[str]], Shown]  # given all policies of the study
    of_run: Callable[[RunFiles, Setting], Shown] | None = None  # of the first seed of each policy
    # other fields of the section, given all settings, those that are shown one by one, and all policies
    of_study: Callable[[Sequence[Setting], Sequence[Setting], Sequence[str]], dict[str, Any]] = lambda *of: {}

    def is_in(self, setting: Setting) -> bool:
        """Whether any run of a setting has it."""
        return any(self.has(run) for runs in setting.runs.values() for run in runs)


def section_of(
    kind: SectionKind, settings: Sequence[Setting], shown: Sequence[Setting], policies: Sequence[str]
) -> Section | None:
    """The section of a kind; ``None``: no setting shown has any of it, and no chart of the study is about it.

    ``settings``: all of them; ``shown``: those that are shown one by one.
    """
    if not any(map(kind.is_in, settings)):
        return None
    known, more = list(filter(kind.is_in, shown)), kind.of_study(settings, shown, policies)
    if not known and not more.get("study"):
        return None

    def part(title: str, setting: Setting, found: Shown) -> SectionPart:
        less = {policy: share_text(share) for policy, share in setting.served_less.items()}
        return SectionPart(
            title, found[0], {name: table for name, table in found[1].items() if table is not None}, less
        )

    parts = [part(own.title, own, kind.of_setting(own, policies)) for own in known]
    chosen = first_runs(shown, kind.has) if kind.of_run else []
    return Section(
        tuple(one._replace(charts=noted(one.charts, own)) for one, own in zip(parts, known, strict=True)),
        tuple(part(title, own, kind.of_run(run, own)) for run, title, own in chosen[:MOST_RUNS] if kind.of_run),
        max(len(chosen) - MOST_RUNS, 0),
        **more,
    )


def first_runs(
    settings: Sequence[Setting], has: Callable[[RunFiles], bool] = lambda run: True
) -> list[tuple[RunFiles, str, Setting]]:
    """The first seed of each policy (the first ``MOST_POLICIES``) of each setting: run, title and setting.

    Where there are several settings, the title says which.
    """
    return [
        (own[0], f"{policy} · {setting.title}" if len(settings) > 1 else policy, setting)
        for setting in settings
        for policy, own in list(setting.runs.items())[:MOST_POLICIES]
        if has(own[0])
    ]


Stack = Mapping[str, Sequence[tuple[str, float, str]]]
"""Policy → (part, share, amount in words)."""


def stack_chart(
    name: str, title: str, note: str, stack: Stack, colours: Mapping[str, str], axis: str, **more: Any
) -> Chart:
    """Parts of a whole, a bar a policy; parts that no policy has are left out.

    ``more``: further keys of the chart, and ``bound``, a share that is marked with a line.
    """
    present = {part for own in stack.values() for part, _, _ in own}
    series = [
        series_of(policy, "x part count", [(six_digits(share), part, words) for part, share, words in own])
        for policy, own in stack.items()
    ]
    parts = {part: colour for part, colour in colours.items() if part in present}
    spec = stack_spec(list(stack), parts, axis, more.pop("bound", None))
    return {"id": name, "title": title, "note": note, "series": series, "spec": spec, **more}


def plain(*texts: str) -> tuple[tuple[str, Mark], ...]:
    """Cells without marks."""
    return tuple((text, "") for text in texts)


def metric_table(setting: Setting, names: Iterable[str], policies: Iterable[str]) -> PlainTable | None:
    """A row a policy, a column a metric; metrics that no policy has are left out. ``None``: that is all of them."""
    policies = tuple(policies)
    found = {
        name: [value.mean for own in policies if (value := setting.value(own, name)) is not None] for name in names
    }
    columns = tuple(columns_of({name: means for name, means in found.items() if means}).values())
    cells = cells_of(setting, columns, policies)
    heads = tuple((column.heading, column.meaning) for column in columns)
    rows = tuple((policy, tuple((cell.text, cell.mark) for cell in own)) for policy, own in cells.items())
    return PlainTable(heads, rows) if heads else None
