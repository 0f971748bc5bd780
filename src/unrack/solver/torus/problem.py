"""Tiles of a torus that are near each other: the problem, its answer, and what is refused.

Tile ``row * columns + column`` is at (row, column). Two tiles are as far apart as their columns on the cycle of columns
plus their rows on the cycle of rows: d = min(|x - x'|, columns - |x - x'|) + min(|y - y'|, rows - |y - y'|). Wanted are
k of the free tiles with the least sum of distances over all (unordered) pairs.

References
----------
Farshin, A., Roozbeh, A., Schulte, C., Maguire Jr., G. Q., Kostić, D. Scheduling - a secret sauce for resource
disaggregation. Technical report, KTH Royal Institute of Technology. Section 6, eq. 7-11.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unrack.errors import InputError
from unrack.kernels.arrays import Bools, Ints
from unrack.solver.torus.grid import gaps

LONGEST = 32
"""The most rows, and the most columns: a line's free tiles are bits."""


@dataclass(frozen=True, eq=False)
class TorusPlacement:
    """Tiles, and how good they are.

    Parameters
    ----------
    tiles : int64[k]
        Ascending ids.
    distance
        The sum of distances over all pairs of them.
    bound
        No k free tiles have a smaller sum.
    optimal
        Whether none has: ``distance == bound``.
    nodes
        Rows and columns that the search placed; 0 if the first bound was met at once.
    cut
        Whether a time limit ended the search: another run may have another answer.
    """

    tiles: Ints
    distance: int
    bound: int
    optimal: bool
    nodes: int
    cut: bool = False


def tile_distance(rows: int, columns: int, tiles: Sequence[int] | Ints) -> int:
    """The sum of the torus distances over all pairs of tiles.

    O(tiles + rows^2 + columns^2).

    Parameters
    ----------
    rows, columns
        Of the torus.
    tiles
        Different ids, in any order.

    Raises
    ------
    InputError
        For a torus that is none or too large, and for tiles outside of it or named twice.

    Examples
    --------
    >>> tile_distance(4, 5, [0, 1, 2, 3, 4, 5])
    26
    >>> tile_distance(4, 5, [0, 1, 2, 5, 6, 7])
    25
    """
    ids = tile_ids(rows, columns, tiles, "tiles")
    by_row = np.bincount(ids // columns, minlength=rows)
    by_column = np.bincount(ids % columns, minlength=columns)
    return int(by_row @ gaps(rows) @ by_row + by_column @ gaps(columns) @ by_column) // 2


def free_tiles(rows: int, columns: int, k: int, taken: Sequence[int] | Ints) -> Bools:
    """bool[rows, columns]: which tiles are free; an ``InputError`` if fewer than k are, or as of :func:`tile_ids`."""
    ids = tile_ids(rows, columns, taken, "taken")
    free = np.ones(rows * columns, dtype=np.bool_)
    free[ids] = False
    left = int(free.sum())
    if not isinstance(k, int | np.integer) or not 1 <= k <= left:
        raise InputError("k", repr(k), f"a whole number from 1 to {left}, the free tiles of {rows * columns}")
    return free.reshape(rows, columns)


def tile_ids(rows: int, columns: int, tiles: Sequence[int] | Ints, where: str) -> Ints:
    """int64[tiles]: ids as given, checked; ``where`` names them in errors."""
    for name, size in (("rows", rows), ("columns", columns)):
        if not isinstance(size, int | np.integer) or not 1 <= size <= LONGEST:
            raise InputError(name, repr(size), f"a whole number from 1 to {LONGEST}")
    ids = np.asarray(tiles)
    if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
        got = f"an array of {ids.dtype} of shape {ids.shape}"
        raise InputError(where, got, "a list of tile ids, row * columns + column")
    ids = ids.astype(np.int64)
    outside = ids[(ids < 0) | (ids >= rows * columns)]
    if outside.size:
        raise InputError(where, f"tile {outside[0]}", f"tiles from 0 to {rows * columns - 1}, row * columns + column")
    unique, times = np.unique(ids, return_counts=True)
    if len(unique) < len(ids):
        raise InputError(where, f"tile {unique[np.argmax(times > 1)]} more than once", "each tile once")
    return ids


def check_limit(limit: float | None, name: str = "limit_s", unit: str = "s ") -> None:
    """Raise an ``InputError`` for a limit that is none."""
    if limit is not None and not limit >= 0:
        raise InputError(name, repr(limit), f"0 {unit}or more, or None")
