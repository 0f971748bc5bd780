"""Near-fewest hops among k tiles of a torus, in a fraction of a millisecond, and a lower bound to judge them by.

The sum of distances is concave in the tiles, so that choosing the k tiles nearest to those chosen now (by the sum of
distances) never makes it worse: a step moves many tiles at once. From the k tiles around each tile of the torus, such
steps lead to a few good sets; the best of them then exchange one tile at a time for the exchange that saves most. The
bound is the greater of two: that of counts by line (``grid.py``), and half the sum, over the k tiles that are best
at it, of the distances to their k - 1 nearest.
"""

from __future__ import annotations

import numpy as np

from unrack.jit import Ints, compiled, inlined
from unrack.solver import order_of
from unrack_papers.torus.grid import Grid


@inlined
def pulls(grid: Grid, chosen: Ints, row_pull: Ints, column_pull: Ints) -> int:
    """Into the pulls: distances from each line to all chosen tiles, summed; returns the sum over pairs of tiles."""
    rows, columns = len(row_pull), len(column_pull)
    row_pull[:] = 0
    column_pull[:] = 0
    twice = 0
    for tile in chosen:
        row, column = tile // columns, tile % columns
        for i in range(rows):
            row_pull[i] += grid.row_gap[row, i]
        for j in range(columns):
            column_pull[j] += grid.column_gap[column, j]
    for tile in chosen:
        twice += row_pull[tile // columns] + column_pull[tile % columns]
    return twice // 2


@inlined
def nearest(free: Ints, row_pull: Ints, column_pull: Ints, counts: Ints, chosen: Ints) -> None:
    """Into ``chosen``: the free tiles of least pull, ascending; of equal ones those of least id."""
    columns = len(column_pull)
    top = np.max(row_pull) + np.max(column_pull)
    counts[: top + 1] = 0
    for tile in free:
        counts[row_pull[tile // columns] + column_pull[tile % columns]] += 1
    limit, below = 0, 0
    while below + counts[limit] < len(chosen):
        below += counts[limit]
        limit += 1
    equal = len(chosen) - below
    x = 0
    for tile in free:
        pull = row_pull[tile // columns] + column_pull[tile % columns]
        if pull < limit or (pull == limit and equal > 0):
            equal -= pull == limit
            chosen[x] = tile
            x += 1


@inlined
def exchange(grid: Grid, free: Ints, taken: Ints, chosen: Ints, row_pull: Ints, column_pull: Ints, total: int) -> int:
    """Exchange chosen for other free tiles, each time where it saves most (then least id), until none saves."""
    rows, columns = len(row_pull), len(column_pull)
    while True:
        best, place, new = 0, -1, -1
        for tile in free:
            if taken[tile]:
                continue
            row, column = tile // columns, tile % columns
            pull = row_pull[row] + column_pull[column]
            for x in range(len(chosen)):
                at_row, at_column = chosen[x] // columns, chosen[x] % columns
                change = pull - row_pull[at_row] - column_pull[at_column]
                change -= grid.row_gap[row, at_row] + grid.column_gap[column, at_column]
                if change < best:
                    best, place, new = change, x, tile
        if place < 0:
            return total
        old = chosen[place]
        for i in range(rows):
            row_pull[i] += grid.row_gap[new // columns, i] - grid.row_gap[old // columns, i]
        for j in range(columns):
            column_pull[j] += grid.column_gap[new % columns, j] - grid.column_gap[old % columns, j]
        taken[old], taken[new] = 0, 1
        chosen[place] = new
        total += best


@compiled
def near_best(grid: Grid, free: Ints, tiles: int, descents: int, enough: int) -> tuple[int, Ints]:
    """The best of the sets found around every tile of the torus.

    Parameters
    ----------
    grid
        The torus.
    free : int64[free]
        Ids of free tiles, ascending.
    tiles
        How many to choose.
    descents
        How many of the sets also exchange single tiles.
    enough
        A sum of distances that ends the work as soon as it is met: a lower bound.

    Returns
    -------
    int
        Their sum of distances.
    int64[tiles]
        The tiles, in no order.
    """
    rows, columns = len(grid.row_free), len(grid.column_free)
    row_pull, column_pull = np.zeros(rows, np.int64), np.zeros(columns, np.int64)
    counts = np.zeros(tiles * (rows // 2 + columns // 2) + rows + columns, np.int64)
    starts = rows * columns
    sets = np.zeros((starts, tiles), np.int64)
    sums = np.zeros(starts, np.int64)
    again = np.zeros(tiles, np.int64)
    for start in range(starts):
        row_pull[:] = grid.row_gap[start // columns]
        column_pull[:] = grid.column_gap[start % columns]
        nearest(free, row_pull, column_pull, counts, sets[start])
        sums[start] = pulls(grid, sets[start], row_pull, column_pull)
        while True:
            nearest(free, row_pull, column_pull, counts, again)
            total = pulls(grid, again, row_pull, column_pull)
            if total >= sums[start]:
                break
            sums[start] = total
            sets[start] = again
        if sums[start] <= enough:
            return sums[start], sets[start]
    order = order_of(sums)
    taken = np.zeros(rows * columns, np.int64)
    best, which = sums[order[0]], order[0]
    done, before = 0, -1
    for start in order:
        if done == descents or best <= enough:
            break
        if before >= 0 and np.array_equal(sets[start], sets[before]):
            continue
        before = start
        again[:] = sets[start]
        taken[:] = 0
        for tile in again:
            taken[tile] = 1
        total = pulls(grid, again, row_pull, column_pull)
        total = exchange(grid, free, taken, again, row_pull, column_pull, total)
        if total < best:
            best, which = total, start
            sets[start] = again
            before = -1
        done += 1
    return best, sets[which]


@compiled
def nearest_bound(grid: Grid, free: Ints, tiles: int) -> int:
    """A lower bound: the sum of the distances of each tile is no less than that to the free tiles nearest to it.

    O(free^2).
    """
    columns = len(grid.column_free)
    ranges = len(grid.row_free) // 2 + columns // 2 + 1
    counts = np.zeros(ranges, np.int64)
    to_others = np.zeros(len(free), np.int64)
    for x in range(len(free)):
        counts[:] = 0
        for tile in free:
            gap = grid.row_gap[free[x] // columns, tile // columns] + grid.column_gap[free[x] % columns, tile % columns]
            counts[gap] += 1
        left = tiles - 1
        for gap in range(1, ranges):
            here = min(left, counts[gap])
            to_others[x] += gap * here
            left -= here
    to_others.sort()
    return (int(np.sum(to_others[:tiles])) + 1) // 2
