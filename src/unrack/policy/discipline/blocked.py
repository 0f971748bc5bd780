"""The head of the queue that did not fit: without backfill nobody starts until it does."""

from __future__ import annotations

from dataclasses import dataclass

from numpy import int64
from numpy.typing import NDArray

from unrack.view import View

Ints = NDArray[int64]


@dataclass(slots=True)
class Blocked:
    """Who blocked the queue in the last pass, and what had been given back by then (``view.releases``)."""

    head: int = -1
    releases: int = -1

    def still(self, view: View, jobs: Ints) -> bool:
        """Whether the first of ``jobs`` still has no place: nothing was given back since it had none."""
        return int(jobs[0]) == self.head and view.releases == self.releases

    def note(self, view: View, jobs: Ints, started: int) -> None:
        """A pass without backfill started the first ``started`` of ``jobs``."""
        self.head = int(jobs[started]) if started < len(jobs) else -1
        self.releases = view.releases
