"""Tables of a reproduction, as cells of text: the terminal and the page print the same ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from unrack import Estimate
from unrack_papers.measured import BOUND, Compared, Measured
from unrack_papers.reproduction import Place, Quantity, Row, X
from unrack_papers.verdict import SIGNS, Verdict
from unrack_papers.within import sign_of

OURS_ONLY = "*"
"""After the name of a row that is not in the paper."""
TRUE = "true "
"""Begins the label of a quantity that stands below another one."""
TONES = {Verdict.AGREES: "good", Verdict.OPEN: "near", Verdict.DIFFERS: "bad"}


class Cell(NamedTuple):
    """A cell: its lines of text, and its tone (``"good"``, ``"near"``, ``"bad"`` or ``""``)."""

    lines: tuple[str, ...]
    tone: str = ""


@dataclass(frozen=True)
class Sheet:
    """A table.

    Attributes
    ----------
    title
        Words above it.
    heads
        Of the columns, lines broken; the first ``names`` of them name the line.
    lines
        Its lines, a cell a column.
    names
        How many columns name the line.
    """

    title: str
    heads: tuple[str, ...]
    lines: tuple[tuple[Cell, ...], ...]
    names: int


def line(*parts: str | Cell) -> tuple[Cell, ...]:
    """A line of a table; a text becomes a cell."""
    return tuple(part if isinstance(part, Cell) else Cell((part,)) for part in parts)


def texts(measured: Measured, place: Place, quantities: Iterable[Quantity], decimals: int | None = None) -> list[str]:
    """Numbers of one place, each with the decimals of its quantity or as many as said."""
    return [number(measured.at(place, one.label), one.decimals if decimals is None else decimals) for one in quantities]


def sheets_of(measured: Measured) -> tuple[Sheet, ...]:
    """The tables: the reproduction's own, else like the paper's where it prints numbers, else a line a point."""
    if measured.reproduction.tables is not None:
        return measured.reproduction.tables(measured)
    return (_like_the_paper(measured),) if measured.reproduction.printed else (_by_point(measured),)


def _like_the_paper(measured: Measured) -> Sheet:
    """A line a row of the paper's table: ours, the paper's and the difference in each cell; then the bound.

    A quantity called "true X" stands below X: what the paper measured X instead of.
    """
    every = measured.reproduction.quantities
    true = {one.label.removeprefix(TRUE): one for one in every if one.label.startswith(TRUE)}
    quantities = [one for one in every if not one.label.startswith(TRUE)]
    lines = []
    for point in measured.reproduction.points:
        for row in point.rows:
            place = (point.group, point.x, row.name)
            cells = [_three_lines(measured.compared(place, quantity.label)) for quantity in quantities]
            for i, quantity in enumerate(quantities):
                if quantity.label in true:
                    value = measured.at(place, true[quantity.label].label)
                    words = "–" if value is None else f"{value.mean:.{quantity.decimals}f}"
                    cells[i] = cells[i]._replace(lines=(*cells[i].lines, TRUE + words))
            bound = texts(measured, place, [BOUND], 1) if measured.bounded else []
            lines.append(line(str(point.x), named(row), *cells, *bound))
    axis = measured.reproduction.x_title
    heads = (
        "load" if "load" in axis else axis,
        "row",
        *(one.label for one in quantities),
        *["bound"] * measured.bounded,
    )
    words = " / in truth" if true else ""
    return Sheet(f"ours ± 95 % / the paper's / difference{words}", heads, tuple(lines), 2)


def _three_lines(found: Compared) -> Cell:
    decimals = min(found.quantity.decimals, 1) if found.quantity.unit == "%" else found.quantity.decimals
    ours = number(found.ours, decimals)
    if found.paper is None:
        return Cell((ours,))
    paper = judged_value(found)
    difference = "–" if found.difference is None else signed(found.difference, decimals)
    return Cell((ours, paper, difference), TONES[found.verdict] if found.verdict is not None else "")


def judged_value(found: Compared) -> str:
    """The paper's value with the sign of its verdict behind it; a dash where there is none."""
    if found.paper is None:
        return "–"
    sign = "" if found.verdict is None else f" {SIGNS[found.verdict]}"
    return f"{found.paper:.{found.quantity.decimals}f}{sign}"


def _by_point(measured: Measured) -> Sheet:
    """A line a point; a column a row and quantity; then the bound on each cluster."""
    reproduction = measured.reproduction
    rows = {row.name: row for group in measured.groups for row in measured.rows(group)}
    columns = [(quantity, name) for quantity in reproduction.quantities for name in rows]
    bounded = reproduction.bounded
    lines = []
    for group in measured.groups:
        own = {row.name for row in measured.rows(group)}
        for x in measured.xs(group):
            cells = []
            for quantity, name in columns:
                value = measured.at((group, x, name), quantity.label) if name in own else None
                cells.append(number(value, min(quantity.decimals, 1 if quantity.unit == "%" else 2)))
            lines.append(line(group, str(x), *cells, *([_bounds(measured, group, x)] if bounded else [])))
    plain = len(rows) == 1
    heads = [
        quantity.label if plain else f"{named(rows[name]).replace(' · ', chr(10))}\n{quantity.label}"
        for quantity, name in columns
    ]
    return Sheet(
        f"{next(iter(rows.values())).shown}: ours ± 95 %" if plain else "ours ± 95 %",
        (reproduction.group_title, reproduction.x_title, *heads, *([BOUND.label] if bounded else [])),
        tuple(lines),
        2,
    )


def _bounds(measured: Measured, group: str, x: X) -> str:
    """The least bound of the rows on each cluster of a point, in order of rows."""
    least: dict[str, float] = {}
    for point in measured.reproduction.points:
        for row in point.rows if (point.group, point.x) == (group, x) else ():
            found = measured.at((group, x, row.name), BOUND.label)
            if found is not None:
                least[str(row.cluster)] = min(found.mean, least.get(str(row.cluster), found.mean))
    return " / ".join(f"{bound:.1f}" for bound in least.values()) or "–"


def grid(measured: Measured, label: str, title: str, rows: Sequence[str] | None = None) -> Sheet:
    """A line a panel and row, a column a place on the axis.

    Parameters
    ----------
    measured
        What was measured.
    label
        The quantity.
    title
        Words above the table.
    rows
        Names of the rows to show, in order; ``None``: all.
    """
    quantity = [measured.quantity(label)]
    xs = list(dict.fromkeys(x for group in measured.groups for x in measured.xs(group)))
    lines = []
    for group in measured.groups:
        own = {row.name: row for row in measured.rows(group)}
        for row in own.values() if rows is None else [own[name] for name in rows if name in own]:
            cells = [cell for x in xs for cell in texts(measured, (group, x, row.name), quantity)]
            lines.append(line(group, named(row), *cells))
    one = measured.reproduction
    return Sheet(f"{title}: ours ± 95 %, by {one.x_title}", (one.group_title, "", *map(str, xs)), tuple(lines), 2)


def columns(measured: Measured, label: str, title: str, rows: Sequence[str]) -> Sheet:
    """A line a panel and place on the axis, a column a row; parameters as of :func:`grid`."""
    quantity = [measured.quantity(label)]
    lines = []
    for group in measured.groups:
        for x in measured.xs(group):
            cells = [cell for name in rows for cell in texts(measured, (group, x, name), quantity)]
            lines.append(line(group, str(x), *cells))
    known = {row.name: row for group in measured.groups for row in measured.rows(group)}
    one = measured.reproduction
    heads = (
        one.group_title,
        one.x_title.replace(" / ", " /\n"),
        *(named(known[name]).replace("-", "-\n") for name in rows),
    )
    return Sheet(f"{title}: ours ± 95 %", heads, tuple(lines), 2)


def named(row: Row) -> str:
    """The row's name and world, marked if the paper has it not."""
    return row.shown if row.printed else f"{row.shown} {OURS_ONLY}"


def number(value: Estimate | None, decimals: int) -> str:
    """A mean with half its interval: ``12.3±0.4``; without it where there is one seed; a dash where there is none.

    Before it stands ``≥`` or ``≤`` where values are known only to be at least, or at most, so much.

    Examples
    --------
    >>> number(Estimate(0.8444, 0.012, 20), 2), number(Estimate(7.0, 0.0, 1), 1), number(None, 1)
    ('0.84±0.01', '7.0', '–')
    """
    if value is None:
        return "–"
    mean = f"{sign_of(value)}{value.mean:.{decimals}f}"
    return mean if value.count < 2 else f"{mean}±{value.half:.{decimals}f}"


def signed(value: float, decimals: int) -> str:
    """A difference with its sign.

    Examples
    --------
    >>> signed(-1.25, 1), signed(0.5, 1), signed(-0.001, 1)
    ('−1.2', '+0.5', '0.0')
    """
    text = f"{value:+.{decimals}f}"
    return text[1:] if float(text) == 0 else text.replace("-", "−")


def as_markdown(sheet: Sheet) -> str:
    """The table in Markdown; lines of a cell are broken with ``<br>``."""
    marks = "|".join([" --- "] * sheet.names + [" ---: "] * (len(sheet.heads) - sheet.names))
    rows = [f"| {' | '.join(head.replace(chr(10), '<br>') for head in sheet.heads)} |", f"|{marks}|"]
    before: Sequence[Cell] = ()
    for line in sheet.lines:
        first = line[0] if not before or line[0] != before[0] else Cell(("",))
        rows.append("| " + " | ".join("<br>".join(cell.lines) for cell in (first, *line[1:])) + " |")
        before = line
    return "\n".join(rows)
