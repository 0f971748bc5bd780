"""Where the driver writes down what it does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol


class Written(Protocol):
    """What the driver needs of a journal: :class:`unrack.live.journal.journal.Journal`."""

    @property
    def segment_bytes(self) -> int:
        """Bytes since the last snapshot."""
        ...

    @property
    def size_bytes(self) -> int:
        """Bytes of all of it."""
        ...

    def append(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Write records; they are on disk when it returns."""
        ...

    def rotate(self, snapshot: Mapping[str, Any]) -> None:
        """Write a record from which a reader may begin."""
        ...
