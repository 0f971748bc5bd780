"""A plain twin of the search of Slurm's backfill: a table of times, each with the nodes that no job for later keeps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

NEAR_S = 30


class Asked(NamedTuple):
    """A job: what it asks, which nodes it may use, and whether these are given whole."""

    id: int
    nodes: int
    cores: int
    limit_s: int
    may: frozenset[int]
    whole: bool = False


class Runs(NamedTuple):
    """A job that runs."""

    end_s: int
    id: int
    on: frozenset[int]
    cores: int


Place = Callable[[dict[int, int], Asked], frozenset[int] | None]
"""Where a job goes if so many cores are free of each node; ``None``: nowhere."""


class Table:
    """From when until when which nodes are kept."""

    def __init__(self, now: int) -> None:
        self.rows: list[tuple[int, float, frozenset[int]]] = [(now, float("inf"), frozenset())]

    def keep(self, begin: int, end: int, nodes: frozenset[int]) -> None:
        """Keep nodes for a job; rows that are alike are one."""
        cut: list[tuple[int, float, frozenset[int]]] = []
        for first, last, kept in self.rows:
            edges = sorted({first, last, *(time for time in (begin, end) if first < time < last)})
            for one, other in zip(edges, edges[1:], strict=False):
                inside = begin <= one and other <= end
                cut.append((int(one), other, kept | nodes if inside else kept))
        self.rows = cut[:1]
        for row in cut[1:]:
            if row[2] == self.rows[-1][2]:
                self.rows[-1] = (self.rows[-1][0], row[1], row[2])
            else:
                self.rows.append(row)

    def open_to(self, job: Asked, begin: int) -> tuple[frozenset[int], float]:
        """Nodes that nobody has before the job's end, if it begins then; when more of its nodes come free."""
        left, more = job.may, float("inf")
        for place, (first, last, kept) in enumerate(self.rows):
            if last <= begin:
                continue
            if more == float("inf") and place + 1 < len(self.rows) and not (
                job.may - self.rows[place + 1][2] <= left - kept
            ):  # fmt: skip
                more = last
            if first <= begin + job.limit_s:
                left -= kept
            elif more < float("inf"):
                break
            else:
                left_before = left
                left, left_before = left - kept, left  # rows behind count for what comes free alone
                return self._rest(job, place, left, left_before)
        return left, more

    def _rest(self, job: Asked, place: int, left: frozenset[int], found: frozenset[int]) -> tuple[frozenset[int], float]:
        for one in range(place, len(self.rows) - 1):
            left -= self.rows[one][2]
            if not job.may - self.rows[one + 1][2] <= left:
                return found, self.rows[one][1]
        return found, float("inf")

    def taken(self, nodes: frozenset[int], begin: int, end: int) -> bool:
        """True if another job has one of the nodes meanwhile."""
        return any(first < end and last > begin and kept & nodes for first, last, kept in self.rows)
