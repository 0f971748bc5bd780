"""The comparison that ``unrack run`` prints: a row a policy, in the units of the report, as wide as the terminal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, NamedTuple

import typer

from unrack.cli.options import print_lines, width_or
from unrack.facts import counted

if TYPE_CHECKING:
    from rich.table import Table


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


OF_SOME = (
    "missed_deadlines", "bound_missed_deadlines", "core_distance_over_least", "core_pairs_apart", "slo_broken_local",
    "slo_broken_remote", "clusters_used_mean", "price_over_bound", "utility_mean", "used_gpus", "energy_kwh",
)  # fmt: skip
"""After those of plug-ins. The first that runs have leads, the others follow the mean wait."""
SHOWN = ("wait_s_mean", "wait_s_p95", "bounded_slowdown_mean", "utilisation_cores", "jobs_finished", "jobs_rejected")
"""Metrics of the table at the end."""
MOST_ROWS = 40
"""Longer tables are left to the report."""
SAID = ("s", "min", "h", "d", "%", "kWh")
"""Units that headings name; the others are plain from the words."""
WIDTH_OF_A_PIPE = 160
"""A pipe has no width."""


def show(directory: Path, elsewhere: str, bootstrap: float | None = None) -> None:
    """Compare the policies, the best of each column in bold, in a pipe with a star; long ones are left to the report.

    ``directory``: of the finished study; ``elsewhere``: where to find what there is no room for; ``bootstrap``: as of
    :func:`unrack.report.setting.settings_of`.
    """
    from rich.console import Console
    from rich.markup import escape

    from unrack.metric.table import EVERY_METRIC
    from unrack.report.setting import read_finished, settings_of
    from unrack.report.table import cells_of, columns_of
    from unrack.study.notes import swept_labels

    study = read_finished(directory)
    settings = settings_of(study.runs, study.table, bootstrap)
    if sum(len(setting.runs) for setting in settings) > MOST_ROWS:
        typer.echo(f"{counted(len(study.runs), 'run')}: see {elsewhere}")
        return
    rows = [run.metrics for run in study.runs]
    known = [name for name in (*EVERY_METRIC.taking_part(), *OF_SOME) if any(row.get(name) is not None for row in rows)]
    unserved = ["served"] * any((row.get("served") or 0) < 1 for row in rows)
    names = [*unserved, *known[:1], SHOWN[0], *known[1:], *SHOWN[1:]]
    columns = list(columns_of({name: [row.get(name) for row in rows] for name in names}).values())
    terminal, width = Console().is_terminal, width_or(WIDTH_OF_A_PIPE)
    marks = {"best": "[bold green]{}[/]" if terminal else "{} *", "among": "{} ≈", "": "{}"}
    places = [key for key in ("cluster", "workload") if len({getattr(setting, key) for setting in settings}) > 1]
    swept = list(settings[0].parameters)
    most = max(setting.seeds for setting in settings)
    table: list[tuple[list[str], list[str]]] = []
    for setting in settings:
        where = [getattr(setting, key) for key in places] + [setting.parameters[key] for key in swept]
        for policy, cells in cells_of(setting, columns, setting.runs).items():
            seeds = len(setting.runs[policy])
            some = f" ({seeds} of {counted(most, 'seed')})" if seeds < most else ""
            told = [escape(str(name)) for name in (*where, policy)]
            table.append(([*told[:-1], told[-1] + some], [marks[cell.mark].format(cell.text) for cell in cells]))
    metrics = [Heading(own.label, own.unit if own.unit in SAID else "") for own in columns]
    labels = swept_labels(swept, study.table)
    found, left_out = drawn([*places, *(escape(labels[key]) for key in swept), "policy"], metrics, table, width)
    found.title = escape(str(study.table.get("question") or study.table.get("name") or ""))
    Console(width=width).print(found)
    sign = "bold" if terminal else "*"
    words = "; ".join(dict.fromkeys(setting.intervals for setting in settings if setting.intervals))
    sure = ", its difference to the others is more than noise; ≈: not told apart from the best"
    sure = sure if words else " for these jobs (one seed)"
    below = [f"{sign}: best{sure}" + ("; rows that served less are not compared" if unserved else "")]
    if bootstrap is not None:
        below.append(f"±: {words}, the same draws for every policy")
        below.append(f"what is no average over jobs has no interval: there {sign} is best for these jobs")
    elif words:
        below.append(f"±: half the {words}")
    else:
        below.append("no intervals with one seed; --bootstrap auto makes them by a block bootstrap over time")
    if left_out:
        below.append(f"{counted(len(left_out), 'column')} more in {elsewhere}: {', '.join(left_out)}")
    print_lines(below)
