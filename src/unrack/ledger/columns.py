"""The ledger's columns: what kernels call their rows (of leases see :mod:`unrack.ledger.lease`); growing them."""

from __future__ import annotations

from array import array
from collections.abc import MutableSequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from unrack.kernels.arrays import Ints

CPU, MEM = range(2)
"""Rows of ``free`` and ``total``, and of the steps of plans: cores, and MB, of each node or group of nodes."""
ASKED_TASKS, ASKED_CORES, ASKED_MB, ASKED_US = range(4)
"""Rows of ``asks``: tasks, and of each task its cores and memory; the expected run time."""
ENDS_US, OF_JOB = range(2)
"""Rows of ``running``: when a job is booked to end, and which job it is; in this order."""
FIRST_ROW, ROW_COUNT = range(2)
"""Rows of ``lease_at``: where a job's rows are in ``pool``, and how many they are."""
JOB, ROW, ROW_END, LOAN, LOAN_END = range(5)
"""Rows of the answer of a pass: a job that starts; its rows and, where memory is lent, its loans: first and end."""


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
