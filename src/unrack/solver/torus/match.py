"""Tiles for counts by row and column: a bipartite graph with given degrees, by augmenting paths."""

from __future__ import annotations

import numpy as np

from unrack.jit import compiled, inlined
from unrack.kernels.arrays import Ints
from unrack.solver.torus.grid import Grid


@inlined
def reroute(grid: Grid, chosen: Ints, fixed: int, column: int, row: int, wants: Ints) -> bool:
    """Move tiles so that ``column`` and ``row`` have one fewer; with ``row`` -1, that one which ``wants`` has one more.

    Only tiles above ``fixed`` move, along a path: in each row on it one is given up and one is taken instead. O(tiles).
    """
    rows, columns = len(grid.row_free), len(grid.column_free)
    from_column, from_row = np.full(rows, -1), np.full(columns, -1)  # by which line each was reached
    queue = np.empty(columns, np.int64)
    queue[0], head, size = column, 0, 1
    from_row[column] = rows
    while head < size:
        j = queue[head]
        head += 1
        for i in range(rows):
            if from_column[i] >= 0 or chosen[i, j] == 0 or i * columns + j <= fixed:
                continue
            from_column[i] = j
            if i == row:
                trace(chosen, i, column, from_column, from_row)
                return True
            for x in range(columns):
                if from_row[x] >= 0 or chosen[i, x] or not grid.row_free[i] >> x & 1 or i * columns + x <= fixed:
                    continue
                from_row[x] = i
                if row < 0 and wants[x] > 0:
                    chosen[i, x] = 1
                    trace(chosen, i, column, from_column, from_row)
                    wants[x] -= 1
                    return True
                queue[size] = x
                size += 1
    return False


@inlined
def trace(chosen: Ints, row: int, column: int, from_column: Ints, from_row: Ints) -> None:
    """Give up and take tiles back along the path from a row to the column where it began."""
    while True:
        j = from_column[row]
        chosen[row, j] = 0
        if j == column:
            return
        row = from_row[j]
        chosen[row, j] = 1


@compiled
def match(grid: Grid, row_counts: Ints, column_counts: Ints) -> Ints:
    """The least tiles with these counts, compared as ascending lists of ids.

    O(tiles of the torus, squared).

    Parameters
    ----------
    grid
        The torus.
    row_counts : int64[rows]
    column_counts : int64[columns]
        Of the same sum.

    Returns
    -------
    int64[tiles]
        Ascending ids; empty if the free tiles do not allow these counts.
    """
    rows, columns = len(grid.row_free), len(grid.column_free)
    chosen = np.zeros((rows, columns), np.int64)
    wants = column_counts.copy()
    for i in range(rows):
        needs = row_counts[i]
        for attempt in range(2):  # columns that want a tile, then those that can pass one on
            for j in range(columns):
                if needs == 0 or chosen[i, j] or not grid.row_free[i] >> j & 1:
                    continue
                if wants[j] > 0:
                    wants[j] -= 1
                elif attempt == 0 or not reroute(grid, chosen, -1, j, -1, wants):
                    continue
                chosen[i, j] = 1
                needs -= 1
        if needs > 0:
            return np.empty(0, np.int64)
    for i in range(rows):
        for j in range(columns):
            if chosen[i, j] == 0 and grid.row_free[i] >> j & 1 and reroute(grid, chosen, i * columns + j, j, i, wants):
                chosen[i, j] = 1
    return np.flatnonzero(chosen)
