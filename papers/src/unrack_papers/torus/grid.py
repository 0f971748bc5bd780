"""A torus as kernels see it, and what can be said of counts by line (row or column) before tiles are looked at.

The sum of the distances of a set of tiles is f(r) + g(c), with r and c the numbers of its tiles by row and by column,
f(r) = sum over pairs of rows of r_i r_j d(i, j), d the distance on the cycle of rows, and g likewise. Two facts carry
the exact search and the heuristic's bound:

1. *Arrangement.* Of all orders of given counts around a cycle, the sum is least with the largest count anywhere, the
   next ones in turn to its right and left (a rearrangement inequality on the cycle; Pruss 1998, Theorem 1).
2. *Concavity.* The distance on a cycle is a sum over its cuts in halves, so that f is a sum of multiples of S (k - S)
   with S the tiles on one side: concave in the counts. Over a polytope it is least at a vertex.
   Where counts may be any with sum(counts of any t lines) <= phi(t), phi concave, the vertices are the orders of the
   steps of phi: the least sum is that of the arrangement of those steps.

Which counts by row, order aside, can lead to a sum of distances below a limit: the first level of the exact search.

And tiles for counts by row and column: a bipartite graph with given degrees, by augmenting paths.

Counts of k tiles by row, descending, are a partition of k. Rows with counts a let t columns hold at most the sum of
the first t entries of its conjugate; with the fact of arrangement in ``grid.py`` this gives each partition a lower
bound, which is exact on an empty torus: there the least bound of all is the answer.

References
----------
Pruss, A. R. (1998). Discrete convolution-rearrangement inequalities and the Faber-Krahn inequality on regular trees.
Duke Mathematical Journal 91, 463-514.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unrack.jit import Bools, Ints, compiled, inlined


class Grid(NamedTuple):
    """A torus of ``rows`` x ``columns`` tiles, some of them free."""

    row_free: Ints  # int64[rows]: bit j is set where the tile in column j is free
    column_free: Ints  # int64[columns]: bit i is set where the tile in row i is free
    row_gap: Ints  # int64[rows, rows]: distances between rows
    column_gap: Ints  # int64[columns, columns]: distances between columns
    row_rank: Ints
    """int64[rows, rows]: distances between the lines of the s-th and the t-th largest counts, best arranged."""
    column_rank: Ints  # int64[columns, columns]: the same of columns


def gaps(lines: int) -> Ints:
    """int64[lines, lines]: distances on a cycle.

    Examples
    --------
    >>> gaps(5)[0].tolist()
    [0, 1, 2, 2, 1]
    """
    apart = np.abs(np.subtract.outer(np.arange(lines), np.arange(lines)))
    least: Ints = np.minimum(apart, lines - apart).astype(np.int64)
    return least


def rank_gaps(lines: int) -> Ints:
    """int64[lines, lines]: distances on a cycle between the places 0, 1, -1, 2, -2, ... of the largest counts.

    Examples
    --------
    >>> rank_gaps(5)[0].tolist()
    [0, 1, 1, 2, 2]
    """
    rank = np.arange(lines)
    place = np.where(rank % 2 == 1, (rank + 1) // 2, -(rank // 2)) % lines
    return np.ascontiguousarray(gaps(lines)[np.ix_(place, place)])


def grid_of(free: Bools) -> Grid:
    """The grid of bool[rows, columns] free tiles; at most 32 rows and columns."""
    rows, columns = free.shape
    by_row = free.astype(np.int64) @ (1 << np.arange(columns, dtype=np.int64))
    by_column = free.T.astype(np.int64) @ (1 << np.arange(rows, dtype=np.int64))
    return Grid(by_row, by_column, gaps(rows), gaps(columns), rank_gaps(rows), rank_gaps(columns))


@inlined
def ones(bits: int) -> int:
    """How many of the lowest 32 bits are set; no others may be."""
    bits = bits - ((bits >> 1) & 0x55555555)
    bits = (bits & 0x33333333) + ((bits >> 2) & 0x33333333)
    bits = (bits + (bits >> 4)) & 0x0F0F0F0F
    return ((bits * 0x01010101) >> 24) & 0xFF


@inlined
def put(sorted_to: Ints, filled: int, value: int) -> None:
    """Put a value among ``filled`` descending ones."""
    while filled > 0 and sorted_to[filled - 1] < value:
        sorted_to[filled] = sorted_to[filled - 1]
        filled -= 1
    sorted_to[filled] = value


@inlined
def arranged(counts: Ints, size: int, rank_gap: Ints) -> int:
    """The least sum of distances of tiles with the descending counts by line, in any order around the cycle.

    O(size^2).
    """
    total = 0
    for s in range(1, size):
        if counts[s] == 0:
            break
        weighted = 0
        for t in range(s):
            weighted += counts[t] * rank_gap[s, t]
        total += counts[s] * weighted
    return total


@inlined
def conjugate(parts: Ints, size: int, across: Ints) -> None:
    """Into ``across``: how many of the first ``size`` parts are above j, for every j."""
    across[:] = 0
    for i in range(size):
        for j in range(parts[i]):
            across[j] += 1


@inlined
def within(caps: Ints, across: Ints, tiles: int, steps: Ints) -> bool:
    """Into ``steps``: those of the largest phi that caps and rows allow; False if fewer than ``tiles`` fit.

    phi(t) = min over s <= t of the sum of the s smallest of the t largest caps and of the t - s largest of ``across``.

    Parameters
    ----------
    caps : int64[columns]
        The most tiles of any column, descending.
    across : int64[columns]
        The conjugate of the counts of the rows: t columns hold at most the sum of its first t entries.
    tiles
        All tiles.
    steps : int64[columns]
        Written: descending.
    """
    allowed = 0
    taken = 0
    for t in range(len(across)):
        allowed += across[t]
        steps[t] = min(caps[t], allowed - taken, tiles - taken)
        taken += steps[t]
    return taken == tiles


@inlined
def spread(parts: Ints, placed: int, left: int, size: int) -> bool:
    """After ``placed`` parts: the rest as even as can be; False if a part would be larger than the one before."""
    rows = size - placed
    if rows == 0:
        return left == 0
    if placed > 0 and left > rows * parts[placed - 1]:
        return False
    low, more = left // rows, left % rows
    for i in range(rows):
        parts[placed + i] = low + 1 if i < more else low
    return True


@inlined
def heap_up(parts: Ints, placed: int, left: int, caps: Ints) -> bool:
    """After ``placed`` parts: the rest as uneven as can be; False if it does not fit."""
    most = parts[placed - 1] if placed > 0 else left
    for i in range(placed, len(parts)):
        parts[i] = min(most, caps[i], left)
        left -= parts[i]
    return left == 0


@inlined
def descending(free: Ints, caps: Ints) -> None:
    """Into ``caps``: the numbers of free tiles of all lines, descending."""
    for i in range(len(free)):
        put(caps, i, ones(free[i]))


@compiled
def partitions(
    grid: Grid, tiles: int, low: int, high: int, only_least: bool, visits: int, parts: Ints, bounds: Ints
) -> int:
    """Every partition of the tiles over the rows with a lower bound of at least ``low`` and below ``high``.

    Returns how many there are, room or not, or -1 if the visits did not do; with ``only_least`` a lower bound of all
    the bounds, or ``high`` if there is none below: the least of them, if the visits did.

    Parameters
    ----------
    grid
        The torus.
    tiles
        How many tiles to choose.
    low, high
        Of the lower bound of the sum of distances.
    only_least
        Look for the least bound alone: ``high`` falls with each that is found.
    visits
        Of beginnings of partitions, at most: after so many, with ``only_least`` the bounds of beginnings count as those
        of all that begin so, else the work is given up. 0.2 µs each on 8 x 8 tiles.
    parts : int64[room, rows]
        Written, as far as there is room: the counts, descending.
    bounds : int64[room]
        Written: the lower bounds.
    """
    rows, columns = len(grid.row_free), len(grid.column_free)
    row_caps, column_caps = np.empty(rows, np.int64), np.empty(columns, np.int64)
    descending(grid.row_free, row_caps)
    descending(grid.column_free, column_caps)
    chosen, filled = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
    left = np.zeros(rows + 1, np.int64)
    across, steps = np.zeros(columns, np.int64), np.zeros(columns, np.int64)
    found = 0
    left[0] = tiles
    chosen[0] = min(row_caps[0], tiles) + 1
    level = 0
    while level >= 0:
        visits -= 1
        if visits < 0 and not only_least:
            return -1
        chosen[level] -= 1
        if chosen[level] < 1 or chosen[level] * (rows - level) < left[level]:  # descending: the rest would not fit
            level -= 1
            continue
        left[level + 1] = left[level] - chosen[level]
        filled[: level + 1] = chosen[: level + 1]
        if not spread(filled, level + 1, left[level + 1], rows):
            continue
        conjugate(filled, rows, across)
        if not within(column_caps, across, tiles, steps):
            continue
        bound = arranged(steps, columns, grid.column_rank)
        if not heap_up(filled, level + 1, left[level + 1], row_caps):
            continue
        bound += arranged(filled, rows, grid.row_rank)
        if bound >= high:
            continue
        if left[level + 1] > 0 and visits >= 0:
            level += 1
            chosen[level] = min(chosen[level - 1], row_caps[level], left[level]) + 1
        elif only_least:
            high = bound
        elif bound >= low:
            if found < len(bounds):
                parts[found], bounds[found] = filled, bound
            found += 1
    return high if only_least else found


@inlined
def _reroute(grid: Grid, chosen: Ints, fixed: int, column: int, row: int, wants: Ints) -> bool:
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

    O(tiles of the torus, squared). Returns int64[tiles]: ascending ids; empty if the free tiles do not allow these
    counts.

    Parameters
    ----------
    grid
        The torus.
    row_counts : int64[rows]
    column_counts : int64[columns]
        Of the same sum.
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
                elif attempt == 0 or not _reroute(grid, chosen, -1, j, -1, wants):
                    continue
                chosen[i, j] = 1
                needs -= 1
        if needs > 0:
            return np.empty(0, np.int64)
    for i in range(rows):
        for j in range(columns):
            if chosen[i, j] == 0 and grid.row_free[i] >> j & 1 and _reroute(grid, chosen, i * columns + j, j, i, wants):
                chosen[i, j] = 1
    return np.flatnonzero(chosen)
