"""Fewest hops among k tiles of a torus, proven: branch and bound over counts by row, then over columns.

The sum of distances is f(r) + g(c) with r, c the counts by row and column; see ``grid.py``. Three levels:

1. *Which counts.* Every partition of k over the rows with a lower bound below the best known sum (``grid.py``),
   least bound first: the bound of the partition in hand is one for all that is left, at any time.
2. *Which rows.* The parts, largest first, go to rows that have room. The bound: f of those placed; the parts left, the
   largest to the rows that are nearest; the parts left among each other, best arranged; and g of the columns as far as
   the free tiles of the placed rows, and any tiles of the others, allow.
3. *Which columns.* With all rows placed, the c that can be had are c(T) <= h(T) = sum over rows of
   min(r_i, free tiles of row i in T), with equality for all columns. h is submodular and g is concave, so the best c is
   a vertex: columns in some order, each given the most that it can still take (Edmonds 1970). Branch over the order;
   of two that follow each other and do not compete for a row one order is enough. The bound, with g of the columns
   chosen, is the greater of two: the tiles left in the nearest columns, plus them among each other, best arranged; or
   each tile left where its distances to those chosen, and half of those to the others if all were near it, are least.

So no state of the search ever asks for a flow: tiles are matched to the counts of the answer once, at the end. The
search keeps its whole state in arrays and stops after any number of nodes, to go on later.

References
----------
Edmonds, J. (1970). Submodular functions, matroids, and certain polyhedra.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unrack.jit import Ints, compiled, melted
from unrack_papers.torus.grid import Grid, arranged, conjugate, ones, put, within

TILES, BEST, NODES, PART, LEVEL, SIZE = range(6)
PLACED, INSIDE, LEFT, SUM, NEXT, CHILDREN, LAST = range(7)


class TorusSearch(NamedTuple):
    """The state of a search: levels 0 .. parts - 1 place parts in rows, the further ones choose columns."""

    scalar: Ints
    """int64[6]: tiles to choose, best sum, nodes so far, partition in hand (-1 before the first), level, its parts."""
    at: Ints
    """int64[levels, 7]: of each level: rows used and columns used (bits), tiles left, the sum of distances of all that
    is decided, the next child, how many there are, and what was chosen last."""
    row_pull: Ints  # int64[levels, rows]: the distances from each row to the placed tiles, summed
    column_pull: Ints  # int64[levels, columns]: the same of columns and tiles of chosen columns
    open_to: Ints  # int64[levels, columns]: in rows that are placed, the tiles that a column can take
    filled: Ints  # int64[levels, rows]: tiles that are already in chosen columns
    counts: Ints  # int64[levels, columns]: tiles of chosen columns
    child: Ints  # int64[levels, lines]: rows or columns to try
    child_bound: Ints  # int64[levels, lines]: their lower bounds, ascending
    row_counts: Ints  # int64[rows]: tiles of placed rows
    across: Ints  # int64[columns]: the conjugate of the partition in hand
    tail: Ints  # int64[rows + 1]: of each part on, the parts' least sum of distances among themselves
    scratch: Ints  # int64[6, lines]
    best_rows: Ints  # int64[rows]: counts of the best answer that this search found
    best_columns: Ints  # int64[columns]: the same by column


def new_search(rows: int, columns: int, tiles: int, best: int) -> TorusSearch:
    """A search for a sum of distances below ``best``."""
    levels, lines = rows + columns + 1, max(rows, columns)
    scalar = np.array([tiles, best, 0, -1, -1, 0], dtype=np.int64)

    def table(*shape: int) -> Ints:
        return np.zeros(shape, dtype=np.int64)

    return TorusSearch(
        scalar, table(levels, 7), table(levels, rows), table(levels, columns), table(levels, columns),
        table(levels, rows), table(levels, columns), table(levels, lines), table(levels, lines),
        table(rows), table(columns), table(rows + 1), table(6, lines), table(rows), table(columns),
    )  # fmt: skip


@melted
def add_child(s: TorusSearch, level: int, line: int, bound: int) -> None:
    """Put a child among the others of its level, least bound first, then least line."""
    x = s.at[level, CHILDREN]
    s.at[level, CHILDREN] = x + 1
    while x > 0 and s.child_bound[level, x - 1] > bound:
        s.child[level, x], s.child_bound[level, x] = s.child[level, x - 1], s.child_bound[level, x - 1]
        x -= 1
    s.child[level, x], s.child_bound[level, x] = line, bound


@melted
def grow_rows(g: Grid, s: TorusSearch, parts: Ints, level: int) -> None:
    """The rows that part ``level`` may go to."""
    rows, columns = len(g.row_free), len(g.column_free)
    part, size = parts[level], s.scalar[SIZE]
    after = size - level - 1
    used = s.at[level, PLACED]
    near, caps, steps = s.scratch[0], s.scratch[1], s.scratch[2]
    first = s.at[level, LAST] + 1 if level > 0 and parts[level - 1] == part else 0
    s.at[level, NEXT] = s.at[level, CHILDREN] = 0
    for i in range(first, rows):
        if used >> i & 1 or ones(g.row_free[i]) < part:
            continue
        bound = s.at[level, SUM] + part * s.row_pull[level, i] + s.tail[level + 1]
        if after > 0:
            others = 0
            for j in range(rows):  # descending in -pull: the nearest first
                if j != i and not used >> j & 1:
                    put(near, others, -(s.row_pull[level, j] + part * g.row_gap[i, j]))
                    others += 1
            for t in range(after):
                bound -= parts[level + 1 + t] * near[t]
        if bound >= s.scalar[BEST]:
            continue
        unused = ((1 << rows) - 1) & ~(used | 1 << i)
        for j in range(columns):
            there = s.open_to[level, j] + (g.row_free[i] >> j & 1)
            put(caps, j, there + min(after, ones(g.column_free[j] & unused)))
        if not within(caps[:columns], s.across, s.scalar[TILES], steps):
            continue
        bound += arranged(steps, columns, g.column_rank)
        if bound < s.scalar[BEST]:
            add_child(s, level, i, bound)


@melted
def place_row(g: Grid, s: TorusSearch, parts: Ints, level: int, i: int) -> None:
    """Part ``level`` goes to row i: write the level after."""
    part = parts[level]
    s.row_counts[i] = part
    s.at[level + 1, PLACED] = s.at[level, PLACED] | 1 << i
    s.at[level + 1, SUM] = s.at[level, SUM] + part * s.row_pull[level, i]
    s.at[level + 1, LAST] = i
    for j in range(len(g.row_free)):
        s.row_pull[level + 1, j] = s.row_pull[level, j] + part * g.row_gap[i, j]
    for j in range(len(g.column_free)):
        s.open_to[level + 1, j] = s.open_to[level, j] + (g.row_free[i] >> j & 1)


@melted
def begin_columns(s: TorusSearch, level: int) -> None:
    """All parts are placed: no column is chosen."""
    s.at[level, INSIDE] = 0
    s.at[level, LEFT] = s.scalar[TILES]
    s.at[level, LAST] = -1
    s.column_pull[level] = 0
    s.filled[level] = 0
    s.counts[level] = 0


@melted
def place_column(g: Grid, s: TorusSearch, level: int, j: int) -> None:
    """Column j takes what it can: write the level after."""
    below = level + 1
    takes = s.open_to[level, j]
    s.at[below, PLACED] = s.at[level, PLACED]
    s.at[below, INSIDE] = s.at[level, INSIDE] | 1 << j
    s.at[below, LEFT] = s.at[level, LEFT] - takes
    s.at[below, SUM] = s.at[level, SUM] + takes * s.column_pull[level, j]
    s.at[below, LAST] = j
    s.counts[below] = s.counts[level]
    s.counts[below, j] = takes
    rows = s.at[level, PLACED]
    has_room = 0
    for i in range(len(g.row_free)):
        if rows >> i & 1:
            s.filled[below, i] = s.filled[level, i]
            if g.column_free[j] >> i & 1 and s.filled[level, i] < s.row_counts[i]:
                s.filled[below, i] += 1
            if s.filled[below, i] < s.row_counts[i]:
                has_room |= 1 << i
    for x in range(len(g.column_free)):
        s.column_pull[below, x] = s.column_pull[level, x] + takes * g.column_gap[j, x]
        s.open_to[below, x] = 0 if s.at[below, INSIDE] >> x & 1 else ones(g.column_free[x] & has_room)


@melted
def _half_pulls(s: TorusSearch, level: int, near: Ints) -> int:
    """The least that the tiles left add: each the pull of those chosen, and half that of the others, as near as can be.

    A bound of Gilmore and Lawler's kind: the others of a tile fill its own column, then those at distance 1, 2, ...
    """
    columns, left = len(s.column_pull[level]), s.at[level, LEFT]
    size = 0
    for j in range(columns):
        takes = s.open_to[level, j]
        if takes == 0:
            continue
        rest, pull, gap = left - takes, 2 * s.column_pull[level, j], 1
        while rest > 0 and 2 * gap < columns:
            here = s.open_to[level, (j + gap) % columns] + s.open_to[level, (j - gap) % columns]
            pull += gap * min(here, rest)
            rest -= here
            gap += 1
        if rest > 0:
            pull += gap * rest
        put(near, size, -(pull << 8 | (255 - takes)))
        size += 1
    twice, rest = 0, left
    for x in range(size):
        key = -near[x]
        takes = min(255 - (key & 255), rest)
        twice += takes * (key >> 8)
        rest -= takes
    return (twice + 1) // 2


@melted
def take_all(g: Grid, s: TorusSearch, level: int) -> None:
    """Every column left takes all that it can: an answer, kept if it is better than the best."""
    total = s.at[level, SUM]
    for i in range(len(g.column_free)):
        takes = s.open_to[level, i]
        if takes > 0:
            total += takes * s.column_pull[level, i]
            for j in range(i):
                total += takes * s.open_to[level, j] * g.column_gap[i, j]
    if total < s.scalar[BEST]:
        s.scalar[BEST] = total
        s.best_columns[:] = s.counts[level] + s.open_to[level]
        for i in range(len(g.row_free)):
            s.best_rows[i] = s.row_counts[i] if s.at[level, PLACED] >> i & 1 else 0


@melted
def grow_columns(g: Grid, s: TorusSearch, level: int) -> None:
    """The columns that may come next; where each of those left can take only one number of tiles, the answer itself."""
    columns, left = len(g.column_free), s.at[level, LEFT]
    s.at[level, NEXT] = s.at[level, CHILDREN] = 0
    near, caps = s.scratch[0], s.scratch[1]
    open_columns, room = 0, 0
    for j in range(columns):
        takes = s.open_to[level, j]
        if takes > 0:
            put(near, open_columns, -(s.column_pull[level, j] << 8 | (255 - takes)))
            put(caps, open_columns, takes)
            open_columns += 1
            room += takes
    if room == left:
        take_all(g, s, level)
        return
    bound = s.at[level, SUM]
    rest = left
    for x in range(open_columns):
        key = -near[x]
        takes = min(255 - (key & 255), rest)
        bound += takes * (key >> 8)
        rest -= takes
    rest = left
    for x in range(open_columns):
        caps[x] = min(caps[x], rest)
        rest -= caps[x]
    bound += arranged(caps, open_columns, g.column_rank)
    if bound < s.scalar[BEST]:
        bound = max(bound, s.at[level, SUM] + _half_pulls(s, level, near))
    if bound >= s.scalar[BEST]:
        return
    last = s.at[level, LAST]
    for j in range(columns):
        takes = s.open_to[level, j]
        apart = last >= 0 and takes == s.open_to[level - 1, j]
        if takes > 0 and not (apart and j < last):
            add_child(s, level, j, bound)


@compiled
def advance(g: Grid, s: TorusSearch, partitions: Ints, bounds: Ints, nodes: int) -> bool:
    """Search on for at most so many nodes.

    Returns whether nothing is left to search among these partitions.

    Parameters
    ----------
    g
        The torus.
    s
        Written: the state.
    partitions : int64[partitions, rows]
        Counts by row, descending.
    bounds : int64[partitions]
        Their lower bounds, ascending.
    nodes
        Rows and columns to place before the search stops for now.
    """
    stop = s.scalar[NODES] + nodes
    while s.scalar[NODES] < stop:
        level = s.scalar[LEVEL]
        if level < 0:
            s.scalar[PART] += 1
            which = s.scalar[PART]
            if which >= len(bounds) or bounds[which] >= s.scalar[BEST]:
                return True
            parts = partitions[which]
            size = 0
            while size < len(parts) and parts[size] > 0:
                size += 1
            s.scalar[SIZE], s.scalar[LEVEL] = size, 0
            conjugate(parts, size, s.across)
            for t in range(size + 1):
                s.tail[t] = arranged(parts[t:], size - t, g.row_rank)
            s.at[0] = 0
            s.row_pull[0] = 0
            s.open_to[0] = 0
            grow_rows(g, s, parts, 0)
            continue
        x = s.at[level, NEXT]
        if x >= s.at[level, CHILDREN] or s.child_bound[level, x] >= s.scalar[BEST]:
            s.scalar[LEVEL] = level - 1
            continue
        s.at[level, NEXT] = x + 1
        s.scalar[NODES] += 1
        s.scalar[LEVEL] = level + 1
        parts = partitions[s.scalar[PART]]
        if level >= s.scalar[SIZE]:
            place_column(g, s, level, s.child[level, x])
            grow_columns(g, s, level + 1)
        else:
            place_row(g, s, parts, level, s.child[level, x])
            if level + 1 < s.scalar[SIZE]:
                grow_rows(g, s, parts, level + 1)
            else:
                begin_columns(s, level + 1)
                grow_columns(g, s, level + 1)
    return False
