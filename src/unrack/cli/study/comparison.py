"""The comparison that ``unrack run`` prints: a row a policy, in the units of the report, as wide as the terminal."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import wrap
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from unrack.cli.options import width_or
from unrack.facts import counted

if TYPE_CHECKING:
    from rich.table import Table

    from unrack.metric.bootstrap import Resampled
    from unrack.metric.estimate import Estimate
    from unrack.report.table import Column
    from unrack.study.grid import Study


BORDER = 3
"""Characters between two columns."""
NARROW = 6
FEWEST = 2
"""Metrics that are shown even if names have to be broken for them."""
_PART = re.compile(r"[^-,(=_/: ]*[-,(=_/: ]?")


class Heading(NamedTuple):
    """Words over a column of numbers, and their unit."""

    words: str
    unit: str

    @property
    def text(self) -> str:
        """Both."""
        return f"{self.words}, {self.unit}" if self.unit else self.words

    def width(self, lines: int = 99) -> int:
        """The least width in which it takes no more lines than that, words whole."""
        words = self.text.split()
        width = max(map(len, words))
        while len(wrap(self.text, width)) > lines:
            width += 1
        return width


def drawn(
    names: Sequence[str], metrics: Sequence[Heading], rows: Sequence[tuple[Sequence[str], Sequence[str]]], width: int
) -> tuple[Table, list[str]]:
    """A table no wider than that, if it can be, and the headings of the columns that it has no room for.

    Columns of numbers are left out from the right; then names are broken, behind the signs in them; then they are cut.
    ``rows``: names and numbers of each row, as rich's markup; ``width``: in characters.
    """
    from rich.table import Table
    from rich.text import Text

    labels = [[Text.from_markup(row[0][k]).plain for row in rows] for k in range(len(names))]
    texts = [[name, *own] for name, own in zip(names, labels, strict=True)]
    natural = [max(map(len, own)) for own in texts]
    parts = [max(len(part.rstrip()) for text in own for part in _PART.findall(text)) for own in texts]
    numbers = [
        max(heading.width(), *(Text.from_markup(row[1][k]).cell_len for row in rows))
        for k, heading in enumerate(metrics)
    ]
    count, least = len(metrics), min(FEWEST, len(metrics))
    while count > least and _taken(natural, numbers[:count]) > width:
        count -= 1
    while count > 1 and _taken(parts, numbers[:count]) > width:
        count -= 1
    room = width - _taken(numbers[:count])
    widths = _narrowed(_narrowed(natural, parts, room), [NARROW] * len(names), room)
    for lines in range(1, 4):
        wider = [max(size, heading.width(lines)) for size, heading in zip(numbers, metrics[:count], strict=False)]
        if _taken(widths, wider) <= width:
            numbers = wider
            break
    table = Table(title_justify="left")
    for name, size in zip(names, widths, strict=True):
        table.add_column(name, width=size, overflow="ellipsis")
    for heading, size in zip(metrics[:count], numbers, strict=False):
        table.add_column(heading.text, justify="right", width=size)
    for k, (_, cells) in enumerate(rows):
        table.add_row(*(Text(broken(own[k], size)) for own, size in zip(labels, widths, strict=True)), *cells[:count])
    return table, [heading.words for heading in metrics[count:]]


def _taken(*columns: Sequence[int]) -> int:
    return 1 + sum(BORDER + size for part in columns for size in part)


def _narrowed(natural: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Widths that leave the room, those narrowed first that have most to spare; none falls below its least."""
    widths = list(natural)
    for _ in range(sum(BORDER + size for size in natural) - room):
        spare = [size - low for size, low in zip(widths, least, strict=True)]
        if max(spare) <= 0:
            break
        widths[spare.index(max(spare))] -= 1
    return widths


def broken(text: str, width: int) -> str:
    """The text in lines of that width, each begun behind a sign such as a comma, a dash or a blank.

    Examples
    --------
    >>> broken("disaggregation-aware, world=base", 16).splitlines()
    ['disaggregation-', 'aware, world=', 'base']
    """
    lines = [""]
    for part in _PART.findall(text):
        if lines[-1] and len(lines[-1]) + len(part.rstrip()) > width:
            lines.append("")
        lines[-1] += part
    return "\n".join(line.rstrip() for line in lines)


OF_SOME = {
    "missed_deadlines": "missed deadlines",
    "bound_missed_deadlines": "bound",
    "core_distance_over_least": "core hops ÷ least",
    "core_pairs_apart": "pairs apart",
    "slo_broken_local": "too little local",
    "slo_broken_remote": "too remote",
    "clusters_used_mean": "clusters in use",
    "price_over_bound": "price ÷ bound",
    "utility_mean": "GPU utility",
    "used_gpus": "GPUs in use",
}
"""Shown first where runs have them: of jobs with deadlines or chosen cores, of tiers of memory, of GPUs."""
SHOWN = {
    "wait_s_mean": "mean wait",
    "wait_s_p95": "p95 wait",
    "bounded_slowdown_mean": "bounded slowdown",
    "utilisation_cores": "cores in use",
    "jobs_finished": "finished",
    "jobs_rejected": "rejected",
}
"""Metrics of the table at the end, and their headings, without units."""
MOST_ROWS = 40
"""Longer tables are left to the report."""
SAID = ("s", "min", "h", "d", "%")
"""Units that headings name; the others are plain from the words."""
TIMES = ("s", "min", "h", "d")
WIDTH_OF_A_PIPE = 160
"""A pipe has no width."""


def show(
    study: Study, rows: list[dict[str, Any]], elsewhere: str, directory: Path, bootstrap: float | None = None
) -> None:
    """Compare the policies, the best of each column in bold, in a pipe with a star; long ones are left to the report.

    ``rows`` are those of ``summary.csv``; ``elsewhere``: where to find what there is no room for; ``directory``: where
    the runs are kept; ``bootstrap``: as of :func:`unrack.report.setting.settings_of`.
    """
    swept = list(study.runs[0].parameters)
    groups: dict[tuple[Any, ...], dict[str, list[dict[str, Any]]]] = {}
    for row in rows:
        key = tuple(str(row[part]) for part in ("cluster", "workload", *swept))
        groups.setdefault(key, {}).setdefault(f"{row['policy']}{row.get('world') or ''}", []).append(row)
    if sum(map(len, groups.values())) > MOST_ROWS:
        typer.echo(f"{counted(len(rows), 'run')}: see {elsewhere}")
        return
    from rich.console import Console
    from rich.markup import escape

    from unrack.metric.table import EVERY_METRIC
    from unrack.report.setting import interval_words
    from unrack.report.table import columns_of
    from unrack.study.swept import swept_labels

    heads = [key for key in ("cluster", "workload", "world") if len({str(row.get(key)) for row in rows}) > 1]
    heads += [*swept, "policy"]
    terminal, width = Console().is_terminal, width_or(WIDTH_OF_A_PIPE)
    known = {name: words for name, words in OF_SOME.items() if any(row.get(name) is not None for row in rows)}
    unserved = {"served": "served"} if any((row.get("served") or 0) < 1 for row in rows) else {}
    titles = {**unserved, **known, **SHOWN}
    columns = columns_of({name: [row.get(name) for row in rows] for name in titles})
    table: list[tuple[list[str], list[str]]] = []
    most = max(len(own) for group in groups.values() for own in group.values())
    intervals: dict[str, None] = {}
    for group in groups.values():
        resampled = {} if bootstrap is None else _resampled(group, directory, bootstrap)
        intervals[interval_words(map(len, group.values()), resampled)] = None
        better: dict[str, str] = {name: EVERY_METRIC[name].better for name in titles}
        cells = _cells(group, better, columns, "[bold green]{}[/]" if terminal else "{} *", resampled)
        for policy, own in group.items():
            own_names = [escape("" if own[0].get(head) is None else str(own[0][head])) for head in heads]
            own_names[-1] += f" ({len(own)} of {counted(most, 'seed')})" if len(own) < most else ""
            table.append((own_names, cells[policy]))
    metrics = [
        Heading(title, columns[name].unit if columns[name].unit in SAID else "") for name, title in titles.items()
    ]
    labels = swept_labels(swept, study.resolved)
    names = [escape(labels.get(head, head)) for head in heads]
    found, left_out = drawn(names, metrics, table, width)
    found.title = escape(study.question or study.name)
    Console(width=width).print(found)
    sign = "bold" if terminal else "*"
    words = "; ".join(filter(None, intervals))
    sure = " for these jobs (one seed)"
    if words:
        sure = ", its difference to the others is more than noise; ≈: not told apart from the best"
    typer.echo(f"{sign}: best{sure}" + ("; rows that served less are not compared" if unserved else ""))
    if bootstrap is not None:
        typer.echo(f"±: {words}, the same draws for every policy")
        typer.echo(f"what is no average over jobs has no interval: there {sign} is best for these jobs")
    elif words:
        typer.echo(f"±: half the {words}")
    else:
        typer.echo("no intervals with one seed; --bootstrap auto makes them by a block bootstrap over time")
    if left_out:
        plural = "s" if len(left_out) > 1 else ""
        typer.echo(f"{len(left_out)} column{plural} more in {elsewhere}: {', '.join(left_out)}")


def _resampled(group: dict[str, list[dict[str, Any]]], directory: Path, bootstrap: float) -> dict[str, Resampled]:
    from unrack.report.setting import RunFiles, resampled_runs

    def files(row: dict[str, Any]) -> RunFiles:
        names = {key: {"name": row[key]} for key in ("cluster", "workload")}
        return RunFiles(directory / "runs" / row["run"], {**row, **names, "id": row["run"], "metrics": row})

    return resampled_runs({policy: list(map(files, own)) for policy, own in group.items()}, bootstrap)


def _cells(
    group: dict[str, list[dict[str, Any]]],
    better: dict[str, str],
    columns: Mapping[str, Column] = MappingProxyType({}),
    best: str = "[bold green]{}[/]",
    drawn: Mapping[str, Resampled] = MappingProxyType({}),
) -> dict[str, list[str]]:
    """Policy → a cell a metric: the mean over its seeds, marked as :mod:`unrack.metric.estimate` says.

    ``columns``: those of the report, for the units of times and how they are written; ``best``: how the best is marked;
    ``drawn``: what policies give where time is resampled.
    """
    from unrack.metric.estimate import ComparedRow, marks, served_less, world_of

    entries = {
        policy: ComparedRow({row["seed"]: row for row in own}, world_of(own[0]), drawn.get(policy))
        for policy, own in group.items()
    }
    less = served_less(entries)
    cells: dict[str, list[str]] = {policy: [] for policy in group}
    for name, way in better.items():
        marked = marks(entries, name, way, less)
        for policy, entry in entries.items():
            value = entry.estimate(name)
            column = columns.get(name)
            text = "–" if value is None else _text(value, column, name == "served")
            mark = marked.get(policy, "")
            cells[policy].append(best.format(text) if mark == "best" else f"{text} ≈" if mark else text)
    return cells


def _text(value: Estimate, column: Column | None, share: bool) -> str:
    several = value.count > 1
    if column is not None and column.unit in TIMES:
        return column.text(value.mean, value.half if several else None)
    factor = 1.0 if column is None else column.factor
    return _number(value.mean, factor, share) + (f" ± {_number(value.half, factor)}" if several else "")


def _number(value: float, factor: float = 1.0, share: bool = False) -> str:
    if share and value < 1:  # never rounded up to all
        return f"{factor * math.floor(value * 10_000) / 10_000:.4g}"
    value *= factor
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.3g}"
