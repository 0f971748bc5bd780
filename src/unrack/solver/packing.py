"""Sizes as a bin sees them: what cannot be used beside an item is counted as used.

A function f on sizes is *superadditive* if f(x) + f(y) <= f(x + y). Whatever set of items fits a bin of size C then has
sum f(size) <= f(C), so f is as good a measure as size itself, and a sharper one where items leave gaps: of 25 cores,
tasks of 15 and of 6 can be had as {15, 6} or {6, 6, 6, 6}; counted in pieces of 6 they are 3/4 and 1/4 of a node.

References
----------
Carlier, J., Clautiaux, F., Moukrim, A. (2007). New reduction procedures and lower bounds for the two-dimensional bin
packing problem with fixed orientation. Computers & Operations Research 34, 2223-2250.
"""

from __future__ import annotations

import numpy as np

from unrack.kernels.arrays import Floats, Ints


def in_pieces(size: Ints, whole: int, piece: int) -> Ints:
    """Twice the number of pieces that a size takes of a whole: up to half, those it holds; beyond, all but those left.

    Returns int64[...]: superadditive and not decreasing in size; ``2 * (whole // piece)`` for the whole.

    Parameters
    ----------
    size : int64[...]
        From 0 to ``whole``.
    whole, piece
        1 <= piece <= whole / 2. With piece 1, size itself, twice.

    Examples
    --------
    >>> in_pieces(np.array([5, 6, 15, 19, 25]), whole=25, piece=6).tolist()
    [0, 2, 6, 6, 8]
    """
    half = np.where(2 * size == whole, whole // piece, 2 * (size // piece))
    return np.where(2 * size > whole, 2 * (whole // piece - (whole - size) // piece), half)


def telling_pieces(size: Ints, weight: Floats, whole: int, most: int) -> list[int]:
    """Pieces worth counting in, ascending: the sizes up to half, and what just does not fit beside a larger size.

    ``size``: int64[items], from 0 to ``whole``; ``weight``: float64[items], how much each matters: the pieces of the
    ``most`` heaviest sizes are returned.
    """
    sizes, place = np.unique(size, return_inverse=True)
    total = np.bincount(place, weights=weight, minlength=len(sizes))
    heaviest = sizes[np.lexsort((sizes, -total))][:most].tolist()
    pieces = {int(x) if 2 * x <= whole else int(whole - x + 1) for x in heaviest}
    return sorted(piece for piece in pieces if 1 < piece <= whole // 2)
