"""Which rows the counts by row go to: the second level of the exact search (``torus_exact``)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unrack.jit import melted
from unrack.solver.torus.grid import Grid, arranged, ones, put, within
from unrack.solver.torus.state import BEST, CHILDREN, LAST, NEXT, PLACED, SIZE, SUM, TILES, Search, add_child

Ints = NDArray[np.int64]


@melted
def grow_rows(g: Grid, s: Search, parts: Ints, level: int) -> None:
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
def place_row(g: Grid, s: Search, parts: Ints, level: int, i: int) -> None:
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
