"""Tables that fit a terminal: columns go before words are broken."""

from __future__ import annotations

import re
from collections.abc import Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, NamedTuple

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
