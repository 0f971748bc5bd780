"""Fewest hops among k tiles of a torus, proven: branch and bound over counts by row, then over columns.

The sum of distances is f(r) + g(c) with r, c the counts by row and column; see ``torus_grid``. Three levels:

1. *Which counts.* Every partition of k over the rows with a lower bound below the best known sum (``torus_counts``),
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

import numpy as np
from numpy.typing import NDArray

from unrack.jit import compiled
from unrack.solver.torus.columns import begin_columns, grow_columns, place_column
from unrack.solver.torus.grid import Grid, arranged, conjugate
from unrack.solver.torus.rows import grow_rows, place_row
from unrack.solver.torus.state import BEST, CHILDREN, LEVEL, NEXT, NODES, PART, SIZE, Search

Ints = NDArray[np.int64]


@compiled
def advance(g: Grid, s: Search, partitions: Ints, bounds: Ints, nodes: int) -> bool:
    """Search on for at most so many nodes.

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

    Returns
    -------
    bool
        Whether nothing is left to search among these partitions.
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
