"""The comparison table: a row a policy, a column a metric, the best of each column marked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from unrack.report.column import SHORT, Column, column_of
from unrack.report.setting import Setting, best_of

MOST_ROWS_IN_FULL = 400
"""Above so many rows a table shows its short columns only; ``summary.csv`` has them all."""


@dataclass(frozen=True)
class Cell:
    """One number of the table.

    Attributes
    ----------
    text
        The mean over the seeds, with ± half its 95 % interval where there are several.
    sort
        What sorts the column: the mean, ``""`` where there is none.
    best
        It is the best of its setting.
    """

    text: str
    sort: str
    best: bool


@dataclass(frozen=True)
class Row:
    """One policy in one setting: its name, the number of seeds, one cell a column."""

    policy: str
    full: str
    seeds: int
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Comparison:
    """The whole table.

    Attributes
    ----------
    columns
        Shared by all settings.
    short
        Column → it is shown at first.
    groups
        (title of the setting, its rows).
    left_out
        How many metrics are not in the table, because it is too long.
    """

    columns: tuple[Column, ...]
    short: tuple[bool, ...]
    groups: tuple[tuple[str, tuple[Row, ...]], ...]
    left_out: int


def comparison(settings: Sequence[Setting]) -> Comparison:
    """Build the table of every setting of a study."""
    names = list(
        dict.fromkeys(name for s in settings for own in s.runs.values() for run in own for name in run.metrics)
    )
    lost = any((run.metrics.get("jobs_rejected") or 0) > 0 for s in settings for own in s.runs.values() for run in own)
    short = [name for name in (*SHORT, *(("jobs_rejected",) if lost else ())) if name in names]
    names = [*short, *(name for name in names if name not in short)]
    kept = names if sum(len(setting.runs) for setting in settings) <= MOST_ROWS_IN_FULL else short or names[:8]
    columns = [
        column_of(name, (run.metrics.get(name) for s in settings for own in s.runs.values() for run in own))
        for name in kept
    ]
    groups = tuple((setting.title, _rows(setting, columns)) for setting in settings)
    shown = tuple(column.name in short or not short for column in columns)
    return Comparison(tuple(columns), shown, groups, len(names) - len(kept))


def _rows(setting: Setting, columns: Sequence[Column]) -> tuple[Row, ...]:
    cells: dict[str, list[Cell]] = {policy: [] for policy in setting.runs}
    for column in columns:
        values = setting.values(column.name)
        best = best_of(values, column.better)
        for policy, own in cells.items():
            value = values.get(policy)
            if value is None:
                own.append(Cell("–", "", False))
                continue
            text = column.text(value.mean)
            if value.count > 1:
                text += f" ± {column.text(value.half)}"
            own.append(Cell(text, repr(value.mean), policy in best))
    return tuple(Row(policy, own[0].policy, len(own), tuple(cells[policy])) for policy, own in setting.runs.items())
