"""Columns that grow as jobs arrive."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

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


def room_for(needed: int, room: int) -> int:
    """The room to grow to when ``needed`` are to fit: at least double, so that growing costs O(1) a job."""
    return room if needed <= room else max(2 * room, needed, 64)
