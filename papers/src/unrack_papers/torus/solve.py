"""The k free tiles of a torus with the least sum of distances, proven; near-best at once; and the first that are free.

Tile ``row * columns + column`` is at (row, column). Two tiles are as far apart as their columns on the cycle of columns
plus their rows on the cycle of rows: d = min(|x - x'|, columns - |x - x'|) + min(|y - y'|, rows - |y - y'|). Wanted are
k of the free tiles with the least sum of distances over all (unordered) pairs.

The free tiles alone decide the answer: no chance is in it, and no clock unless a time limit is given. A heuristic
(``heuristic.py``) and a bound by counts (``grid.py``) often meet, on an empty torus always so far; else counts are
searched (``exact.py``), and at the end tiles are matched to the counts.

References
----------
Farshin, A., Roozbeh, A., Schulte, C., Maguire Jr., G. Q., Kostić, D. Scheduling - a secret sauce for resource
disaggregation. Technical report, KTH Royal Institute of Technology. Section 6, eq. 7-11. Its constraint programme takes
39 299 s for 8 tiles of an empty 7 x 7.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from unrack.errors import InputError
from unrack.jit import Bools, Ints
from unrack_papers.clock import Clock, timed
from unrack_papers.torus.exact import BEST, LEVEL, NODES, PART, TorusSearch, advance, new_search
from unrack_papers.torus.grid import Grid, gaps, grid_of, match, partitions
from unrack_papers.torus.heuristic import near_best, nearest_bound

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


__all__ = ["TorusPlacement", "best_tiles", "first_fit_tiles", "quick_tiles", "tile_distance"]


SLICE = 20_000
"""Nodes of the search between two looks at the clock, about 10 ms."""
QUICK, THOROUGH = 12, 64
"""How many of the heuristic's sets exchange single tiles: alone, and before a search."""
QUICK_VISITS, VISITS, VISITS_A_SECOND = 50_000, 500_000, 2_000_000
"""Beginnings of counts by row looked at for the bound alone, before a search, and in a second of a time limit."""
UNLIMITED = 2**62


def first_fit_tiles(rows: int, columns: int, k: int, taken: Sequence[int] | Ints = ()) -> TorusPlacement:
    """The first k free tiles, row by row from the top left.

    Six of a torus of 4 rows x 5 columns are a whole row and one tile: 26. (Taken column by column, as of 5 rows x 4
    columns, they are 25, the optimum.)

    Parameters
    ----------
    rows, columns, k, taken
        As of :func:`best_tiles`, with the same errors. The bound is that of :func:`quick_tiles`.

    Examples
    --------
    >>> first_fit_tiles(4, 5, 6).distance
    26
    """
    free = free_tiles(rows, columns, k, taken)
    tiles = np.flatnonzero(free)[:k].astype(np.int64)
    distance = tile_distance(rows, columns, tiles)
    grid = grid_of(free)
    bound = _bound(grid, np.flatnonzero(free), k, QUICK_VISITS)
    return TorusPlacement(tiles, distance, bound, distance == bound, 0)


def quick_tiles(rows: int, columns: int, k: int, taken: Sequence[int] | Ints = ()) -> TorusPlacement:
    """Tiles of a sum of distances that is seldom above the least, and a lower bound; no search.

    Parameters
    ----------
    rows, columns, k, taken
        As of :func:`best_tiles`, with the same errors.

    Examples
    --------
    >>> quick_tiles(4, 5, 6).tiles.tolist()
    [0, 1, 2, 5, 6, 7]
    """
    free = free_tiles(rows, columns, k, taken)
    grid = grid_of(free)
    distance, tiles, bound = _start(grid, free, k, QUICK, QUICK_VISITS)
    return TorusPlacement(_least_ids(grid, tiles), distance, bound, distance == bound, 0)


def best_tiles(
    rows: int,
    columns: int,
    k: int,
    taken: Sequence[int] | Ints = (),
    *,
    limit_s: float | None = None,
    most_nodes: int | None = None,
) -> TorusPlacement:
    """The k free tiles with the least sum of distances, proven; with a limit, the best found and a bound.

    Of several best answers, that of the heuristic if it is one, else the first of the search. Of the sets with the same
    counts by row and by column it is the one with the least ids (compared as ascending lists); on an empty torus, the
    counts are, of their rotations and reflections, the lexicographically largest of those that end first: a block at
    the top left.

    Parameters
    ----------
    rows, columns
        From 1 to 32 each.
    k
        Tiles to choose: from 1 to the number of free ones.
    taken
        Ids of tiles that are not free, in any order, each once.
    limit_s
        Time that the search may compute, s; it is looked at every few ms. Default: none, and the same answer on any
        machine.
    most_nodes
        Nodes of the search (a core of today visits about two million a second), after which it ends at its next look.
        Unlike a time limit, it stops at the same answer on any machine.

    Raises
    ------
    InputError
        For a torus that is none or too large, more tiles than are free, taken tiles outside or named twice, and a limit
        below 0.

    Examples
    --------
    >>> best = best_tiles(4, 5, 6)
    >>> best.distance, best.optimal, best.tiles.tolist()
    (25, True, [0, 1, 2, 5, 6, 7])
    """
    check_limit(limit_s)
    check_limit(most_nodes, "most_nodes", "")
    free = free_tiles(rows, columns, k, taken)
    with timed(limit_s) as clock:
        return _best(free, k, clock, most_nodes)


def _best(free: Bools, k: int, clock: Clock, most_nodes: int | None) -> TorusPlacement:
    grid = grid_of(free)
    distance, tiles, bound = _start(grid, free, k, THOROUGH, VISITS)
    if distance == bound:
        return TorusPlacement(_least_ids(grid, tiles), distance, bound, True, 0)
    search = new_search(free.shape[0], free.shape[1], k, distance)
    bound = max(bound, search_all(grid, search, k, clock, most_nodes))
    best = int(search.scalar[BEST])
    if best < distance:
        tiles = match(grid, search.best_rows, search.best_columns)
    nodes = int(search.scalar[NODES])
    cut = bound < best and clock.limit_s < inf and (most_nodes is None or nodes < most_nodes)
    return TorusPlacement(_least_ids(grid, tiles), best, min(best, bound), bound >= best, nodes, cut)


def _start(grid: Grid, free: Bools, k: int, descents: int, visits: int) -> tuple[int, Ints, int]:
    """The heuristic's sum of distances and tiles, and a lower bound."""
    ids = np.flatnonzero(free)
    bound = _bound(grid, ids, k, visits)
    distance, tiles = near_best(grid, ids, k, descents, bound)
    return int(distance), tiles, bound


def _bound(grid: Grid, free: Ints, k: int, visits: int) -> int:
    """No k of the free tiles have a sum of distances below this."""
    none = np.empty((0, len(grid.row_free)), np.int64), np.empty(0, np.int64)
    return int(max(nearest_bound(grid, free, k), partitions(grid, k, 0, UNLIMITED, True, visits, *none)))


def search_all(grid: Grid, search: TorusSearch, k: int, clock: Clock, most_nodes: int | None = None) -> int:
    """Search counts by row in bands of their bounds, least first.

    Returns a lower bound: the best sum, if all was searched.

    Parameters
    ----------
    grid
        The torus.
    search
        Written: a new search, which looks for a sum of distances below its best.
    k
        Tiles to choose.
    clock
        When to stop before all is searched.
    most_nodes
        Of the search; ``None``: any number.
    """
    none = np.empty((0, len(grid.row_free)), np.int64), np.empty(0, np.int64)
    low = int(partitions(grid, k, 0, int(search.scalar[BEST]), True, VISITS, *none))
    step, room = 1, 1024
    while low < search.scalar[BEST]:
        high = min(low + step, int(search.scalar[BEST]))
        parts, bounds = np.empty((room, len(grid.row_free)), np.int64), np.empty(room, np.int64)
        visits = UNLIMITED if clock.limit_s == inf else int(VISITS_A_SECOND * clock.left_s())
        if most_nodes is not None:
            visits = min(visits, max(most_nodes - int(search.scalar[NODES]), 0))
        found = partitions(grid, k, low, high, False, visits, parts, bounds)
        if found < 0:
            return low
        if found > room:
            room = found
            continue
        order = np.argsort(bounds[:found], kind="stable")
        parts, bounds = parts[order], bounds[order]
        search.scalar[PART], search.scalar[LEVEL] = -1, -1
        while not advance(grid, search, parts, bounds, SLICE):
            if clock.over() or (most_nodes is not None and search.scalar[NODES] >= most_nodes):
                return int(bounds[search.scalar[PART]])
        low, step = high, 2 * step
    return int(search.scalar[BEST])


def _least_ids(grid: Grid, tiles: Ints) -> Ints:
    """Of all sets with the same counts by line, the one of least ids; on an empty torus at the top left."""
    rows, columns = len(grid.row_free), len(grid.column_free)
    by_row = np.bincount(tiles // columns, minlength=rows)
    by_column = np.bincount(tiles % columns, minlength=columns)
    if (grid.row_free == (1 << columns) - 1).all():
        by_row, by_column = _turned(by_row), _turned(by_column)
    return match(grid, by_row, by_column)


def _turned(counts: Ints) -> Ints:
    """Of all rotations and reflections those with the longest run of zeros at the end, and of these the largest."""
    line = counts.tolist()
    turns = [way[i:] + way[:i] for way in (line, line[::-1]) for i in range(len(line))]
    return np.array(max(turns, key=lambda turn: (-max(i for i, n in enumerate(turn) if n), turn)), dtype=np.int64)
