"""Columns that grow as jobs arrive, and columns for loops in Python."""

from __future__ import annotations

from array import array
from collections.abc import MutableSequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from unrack.kernels.arrays import Ints

Scalar = TypeVar("Scalar", bound=np.generic)


def grown(column: NDArray[Scalar], room: int, fill: float = 0) -> NDArray[Scalar]:
    """A copy with so much room in its last dimension, the new part filled.

    Examples
    --------
    >>> grown(np.array([[1, 2]]), 4, -1).tolist()
    [[1, 2, -1, -1]]
    """
    larger = np.full((*column.shape[:-1], room), fill, column.dtype)
    larger[..., : column.shape[-1]] = column
    return larger


def grown_rows(rows: Ints, count: int) -> Ints:
    """The same rows, with room for so many; at least double, if there is too little."""
    if count <= len(rows):
        return rows
    larger = np.zeros((max(count, 2 * len(rows)), *rows.shape[1:]), np.int64)
    larger[: len(rows)] = rows
    return larger


def room_for(needed: int, room: int) -> int:
    """The room to grow to when ``needed`` are to fit: at least double, so that growing costs O(1) a job."""
    return room if needed <= room else max(2 * room, needed, 64)


def plain(column: Ints) -> MutableSequence[int]:
    """A column as plain integers, for loops in Python: a list, or an array where a list would take too much memory.

    Reading a list is the fastest (by 5 % of a whole run) but takes 40 bytes an entry, an array 8.
    """
    return column.tolist() if len(column) <= 300_000 else array("q", column.tobytes())
