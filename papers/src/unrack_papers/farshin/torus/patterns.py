"""Every set of taken tiles of a small torus: what first fit and the optimum come to on each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from unrack_papers.torus import tile_distance

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Patterns:
    """All sets of taken tiles that leave enough free ones; set s has tile i taken if bit i of s is set.

    Attributes
    ----------
    sets : int64[sets]
        Ascending.
    taken : int64[sets]
        How many tiles are taken.
    optimum, first_fit : int64[sets]
        Sums of distances of the tiles chosen.
    """

    sets: Ints
    taken: Ints
    optimum: Ints
    first_fit: Ints

    def example(self, optimum: int, first_fit: int) -> list[int] | None:
        """Of the sets with these two sums, one of fewest tiles; then that of least ids. ``None``: there are none."""
        found = np.flatnonzero((self.optimum == optimum) & (self.first_fit == first_fit))
        if not len(found):
            return None
        fewest = found[self.taken[found] == self.taken[found].min()]
        return min([i for i in range(int(one).bit_length()) if one >> i & 1] for one in self.sets[fewest].tolist())


@lru_cache(maxsize=1)
def patterns(rows: int, columns: int, k: int) -> Patterns:
    """All sets of taken tiles of a torus, O(2^tiles x tiles).

    The least sum of distances of any k tiles of a set of free ones is the least over its subsets.

    Parameters
    ----------
    rows, columns
        Of the torus; at most 20 tiles.
    k
        Tiles to choose.
    """
    tiles = rows * columns
    assert tiles <= 20
    least = np.full(1 << tiles, np.iinfo(np.int16).max, np.int16)
    for chosen in combinations(range(tiles), k):
        least[sum(1 << i for i in chosen)] = tile_distance(rows, columns, chosen)
    own = least.copy()  # of the sets of k tiles alone
    for bit in range(tiles):
        halves = least.reshape(-1, 2, 1 << bit)
        np.minimum(halves[:, 1], halves[:, 0], out=halves[:, 1])
    every = np.arange(1 << tiles, dtype=np.int64)
    count = np.array([i.bit_count() for i in range(1 << tiles)], np.int64)
    free = every[count >= k]
    first, left = np.zeros_like(free), free.copy()
    for _ in range(k):
        lowest = left & -left
        first |= lowest
        left ^= lowest
    taken = every[-1] ^ free
    order = np.argsort(taken)
    return Patterns(
        taken[order],
        tiles - count[free][order],
        least[free][order].astype(np.int64),
        own[first][order].astype(np.int64),
    )
