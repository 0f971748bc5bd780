"""Oracles in plain Python that share nothing with the package: pairs added up, all sets tried, all orders tried."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations, permutations

import numpy as np
from numpy.typing import NDArray


def apart(rows: int, columns: int, one: int, other: int) -> int:
    """Torus distance of two tiles, eq. 10."""
    x, y = abs(one % columns - other % columns), abs(one // columns - other // columns)
    return min(columns - x, x) + min(rows - y, y)


def added_up(rows: int, columns: int, tiles: Iterable[int]) -> int:
    """The sum of distances, eq. 11, pair by pair."""
    return sum(apart(rows, columns, one, other) for one, other in combinations(tiles, 2))


def every_set(rows: int, columns: int, k: int, taken: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Every set of k free tiles, int64[sets, k], and its sum of distances, int64[sets]."""
    free = np.array([tile for tile in range(rows * columns) if tile not in taken])
    gap = np.array([[apart(rows, columns, one, other) for other in free.tolist()] for one in free.tolist()])
    sets = np.array(list(combinations(range(len(free)), k)))
    sums = sum((gap[sets[:, x], sets[:, y]] for x, y in combinations(range(k), 2)), np.zeros(len(sets), np.int64))
    return free[sets], sums


def least_of_all(rows: int, columns: int, k: int, taken: Sequence[int]) -> int:
    """The least sum of distances: every set of k free tiles."""
    return int(every_set(rows, columns, k, taken)[1].min())


def least_by_counts(rows: int, columns: int, k: int, taken: Sequence[int]) -> dict[tuple[int, ...], int]:
    """For counts by row, descending, the least sum of distances of the sets that have them."""
    least: dict[tuple[int, ...], int] = {}
    for tiles, total in zip(*every_set(rows, columns, k, taken), strict=True):
        counts = tuple(sorted(np.bincount(tiles // columns, minlength=rows).tolist(), reverse=True))
        least[counts] = min(int(total), least.get(counts, int(total)))
    return least


def on_cycle(counts: Sequence[int]) -> int:
    """The sum of distances, along one cycle, of tiles with these counts by line."""
    lines = len(counts)
    return sum(counts[i] * counts[j] * min(j - i, lines - (j - i)) for i in range(lines) for j in range(i + 1, lines))


def best_order(counts: Sequence[int]) -> int:
    """The least of :func:`on_cycle` over all orders."""
    return min(on_cycle(order) for order in permutations(counts))


def all_partitions(tiles: int, lines: int, most: int) -> list[tuple[int, ...]]:
    """Descending counts of at most ``most`` each on so many lines."""
    if lines == 0:
        return [()] if tiles == 0 else []
    return [
        (first, *rest)
        for first in range(min(most, tiles), -1, -1)
        for rest in all_partitions(tiles - first, lines - 1, first)
    ]
