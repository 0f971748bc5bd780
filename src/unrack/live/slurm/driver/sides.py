"""Whom the driver tells what it does: a journal, and those who watch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from unrack.live.slurm.orders import Answer
from unrack.live.watch.meters import Operation


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


class Watch(Protocol):
    """Who is told what the driver does."""

    def turned(self, counts: Mapping[str, int], steps: Sequence[tuple[int, int, int, int]], round_s: float) -> None:
        """After every turn in which something was told: words → how often; :attr:`Notes.steps`; the policy's time."""
        ...

    def ordered(self, answers: Sequence[Answer]) -> None:
        """After orders were given."""
        ...

    def looked(self, changed: bool, read_s: float) -> None:
        """After Slurm was asked whether anything changed, and was read if so."""
        ...

    def fabric(self, operation: Operation, seconds: float, failed: bool) -> None:
        """After an operation of the fabric: how long it took, and whether it failed."""
        ...
