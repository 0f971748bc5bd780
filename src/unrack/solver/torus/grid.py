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

References
----------
Pruss, A. R. (1998). Discrete convolution-rearrangement inequalities and the Faber-Krahn inequality on regular trees.
Duke Mathematical Journal 91, 463-514.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unrack.jit import inlined
from unrack.kernels.arrays import Bools, Ints


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
