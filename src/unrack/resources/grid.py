"""Very many places that are alike, named by a row and a column."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import overload

from unrack.resources.contract import Place

_BETWEEN = " on "


class Grid(Sequence[Place]):
    """A place for each pair of a row and a column, row by row, called "ROW on COLUMN".

    ``rows``, ``columns``: their names, each once; ``quantity``, ``amount``: of every place.

    Examples
    --------
    >>> grid = Grid(("group1", "group2"), ("node0", "node3"), "group", 12)
    >>> len(grid), grid[2], grid.number("group2 on node3"), grid.number("group3 on node0")
    (4, Place(name='group2 on node0', quantity='group', amount=12), 3, -1)
    """

    def __init__(self, rows: Sequence[str], columns: Sequence[str], quantity: str, amount: int) -> None:
        self.rows, self.columns = tuple(rows), tuple(columns)
        self.quantity, self.amount = quantity, amount

    def __len__(self) -> int:
        return len(self.rows) * len(self.columns)

    @overload
    def __getitem__(self, index: int) -> Place: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Place, ...]: ...

    def __getitem__(self, index: int | slice) -> Place | tuple[Place, ...]:
        """One place, or those of a slice."""
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(len(self))))
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        row, column = divmod(index % len(self), len(self.columns))
        return Place(f"{self.rows[row]}{_BETWEEN}{self.columns[column]}", self.quantity, self.amount)

    def number(self, name: str) -> int:
        """The number of the place of this name; -1: there is none."""
        row, between, column = name.partition(_BETWEEN)
        if not between or row not in self._row or column not in self._column:
            return -1
        return self._row[row] * len(self.columns) + self._column[column]

    @cached_property
    def _row(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.rows)}

    @cached_property
    def _column(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.columns)}
