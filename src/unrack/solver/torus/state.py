"""The state of the exact search for tiles of a torus (``torus_exact``): arrays, so that it can stop and go on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unrack.jit import melted

Ints = NDArray[np.int64]

TILES, BEST, NODES, PART, LEVEL, SIZE = range(6)
PLACED, INSIDE, LEFT, SUM, NEXT, CHILDREN, LAST = range(7)


class Search(NamedTuple):
    """The state of a search: levels 0 .. parts - 1 place parts in rows, the further ones choose columns."""

    scalar: Ints
    """int64[6]: tiles to choose, best sum, nodes so far, partition in hand (-1 before the first), level, its parts."""
    at: Ints
    """int64[levels, 7]: of each level: rows used and columns used (bits), tiles left, the sum of distances of all that
    is decided, the next child, how many there are, and what was chosen last."""
    row_pull: Ints
    """int64[levels, rows]: the distances from each row to the placed tiles, summed."""
    column_pull: Ints
    """int64[levels, columns]: the same of columns and tiles of chosen columns."""
    open_to: Ints
    """int64[levels, columns]: in rows that are placed, the tiles that a column can take."""
    filled: Ints
    """int64[levels, rows]: tiles that are already in chosen columns."""
    counts: Ints
    """int64[levels, columns]: tiles of chosen columns."""
    child: Ints
    """int64[levels, lines]: rows or columns to try."""
    child_bound: Ints
    """int64[levels, lines]: their lower bounds, ascending."""
    row_counts: Ints
    """int64[rows]: tiles of placed rows."""
    across: Ints
    """int64[columns]: the conjugate of the partition in hand."""
    tail: Ints
    """int64[rows + 1]: of each part on, the parts' least sum of distances among themselves."""
    scratch: Ints
    """int64[6, lines]."""
    best_rows: Ints
    """int64[rows]: counts of the best answer that this search found."""
    best_columns: Ints
    """int64[columns]: the same by column."""


def new_search(rows: int, columns: int, tiles: int, best: int) -> Search:
    """A search for a sum of distances below ``best``."""
    levels, lines = rows + columns + 1, max(rows, columns)
    scalar = np.array([tiles, best, 0, -1, -1, 0], dtype=np.int64)

    def table(*shape: int) -> Ints:
        return np.zeros(shape, dtype=np.int64)

    return Search(
        scalar, table(levels, 7), table(levels, rows), table(levels, columns), table(levels, columns),
        table(levels, rows), table(levels, columns), table(levels, lines), table(levels, lines),
        table(rows), table(columns), table(rows + 1), table(6, lines), table(rows), table(columns),
    )  # fmt: skip


@melted
def add_child(s: Search, level: int, line: int, bound: int) -> None:
    """Put a child among the others of its level, least bound first, then least line."""
    x = s.at[level, CHILDREN]
    s.at[level, CHILDREN] = x + 1
    while x > 0 and s.child_bound[level, x - 1] > bound:
        s.child[level, x], s.child_bound[level, x] = s.child[level, x - 1], s.child_bound[level, x - 1]
        x -= 1
    s.child[level, x], s.child_bound[level, x] = line, bound
