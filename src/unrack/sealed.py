"""Read-only arrays over the ledger's memory: what a policy sees follows the ledger and cannot be written.

A plain view of an array can be written through its ``base``; these arrays are made from read-only buffers, so that
neither they nor any array they come from can be made writable again.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Scalar = TypeVar("Scalar", bound=np.generic)
Columns = TypeVar("Columns", bound=tuple[Any, ...])


def sealed(array: NDArray[Scalar]) -> NDArray[Scalar]:
    """The memory of an array in C order as one that cannot be written.

    Examples
    --------
    >>> held = np.zeros((2, 3), np.int64)
    >>> seen = sealed(held)
    >>> held[1, 2] = 7
    >>> int(seen[1, 2]), seen.flags.writeable, seen.base.flags.writeable
    (7, False, False)
    """
    if array.size == 0:
        empty = array.copy()
        empty.flags.writeable = False
        return empty
    seen: NDArray[Any] = np.frombuffer(array.data.cast("B").toreadonly(), array.dtype)
    return seen.reshape(array.shape)


def shown(array: NDArray[Scalar]) -> NDArray[Scalar]:
    """The same memory as an array that is not written by mistake: for private copies, where that is enough."""
    seen = array.view()
    seen.flags.writeable = False
    return seen


def sealed_columns(columns: Columns) -> Columns:
    """A NamedTuple of arrays, each :func:`sealed`."""
    made: Any = type(columns)
    whole: Columns = made(*map(sealed, columns))
    return whole


class Sealed:
    """A frozen dataclass of which no array can be written, in this process and in those that get a copy."""

    def __post_init__(self) -> None:
        self._seal()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._seal()

    def _seal(self) -> None:
        for each in fields(self):  # type: ignore[arg-type]  # classes that inherit this are dataclasses
            value = getattr(self, each.name)
            if isinstance(value, np.ndarray):
                object.__setattr__(self, each.name, sealed(np.ascontiguousarray(value)))
