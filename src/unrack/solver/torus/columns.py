"""Which columns the tiles of given rows go to: the third level of the exact search (``torus_exact``)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unrack.jit import melted
from unrack.solver.torus.grid import Grid, arranged, ones, put
from unrack.solver.torus.state import (
    BEST,
    CHILDREN,
    INSIDE,
    LAST,
    LEFT,
    NEXT,
    PLACED,
    SUM,
    TILES,
    Search,
    add_child,
)  # fmt: skip

Ints = NDArray[np.int64]


@melted
def begin_columns(s: Search, level: int) -> None:
    """All parts are placed: no column is chosen."""
    s.at[level, INSIDE] = 0
    s.at[level, LEFT] = s.scalar[TILES]
    s.at[level, LAST] = -1
    s.column_pull[level] = 0
    s.filled[level] = 0
    s.counts[level] = 0


@melted
def place_column(g: Grid, s: Search, level: int, j: int) -> None:
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
def half_pulls(s: Search, level: int, near: Ints) -> int:
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
def take_all(g: Grid, s: Search, level: int) -> None:
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
def grow_columns(g: Grid, s: Search, level: int) -> None:
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
        bound = max(bound, s.at[level, SUM] + half_pulls(s, level, near))
    if bound >= s.scalar[BEST]:
        return
    last = s.at[level, LAST]
    for j in range(columns):
        takes = s.open_to[level, j]
        apart = last >= 0 and takes == s.open_to[level - 1, j]
        if takes > 0 and not (apart and j < last):
            add_child(s, level, j, bound)
