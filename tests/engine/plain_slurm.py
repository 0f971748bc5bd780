"""A plain twin of the search of Slurm's backfill: a table of times, each with the nodes that jobs for later keep."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

NEAR_S, NEVER = 30, 10**9


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
"""Where a job goes if so many cores are free of each node that it may use; ``None``: nowhere."""


class Table:
    """From when until when which nodes are kept."""

    def __init__(self, now: int) -> None:
        self.rows: list[tuple[int, int, frozenset[int]]] = [(now, NEVER, frozenset())]

    def keep(self, begin: int, end: int, nodes: frozenset[int]) -> None:
        """Keep nodes for a job; neighbours that are alike are one row."""
        cut = []
        for first, last, kept in self.rows:
            edges = sorted({first, last, *(time for time in (begin, end) if first < time < last)})
            cut += [(one, other, kept | nodes if begin <= one < end else kept) for one, other in pairwise(edges)]
        self.rows = cut[:1]
        for first, last, kept in cut[1:]:
            begun, _, same = self.rows[-1]
            self.rows[-1:] = [(begun, last, kept)] if kept == same else [self.rows[-1], (first, last, kept)]

    def open_to(self, job: Asked, begin: int) -> tuple[frozenset[int], int]:
        """Nodes that none has before the job's end, if it begins then; when more of its nodes come free."""
        left, more = job.may, NEVER
        for (first, last, kept), following in zip(self.rows, [*self.rows[1:], None], strict=True):
            if last > begin and following is not None and more == NEVER and job.may - following[2] - (left - kept):
                more = last
            if first > begin + job.limit_s:
                break
            left = left - kept if last > begin else left
        return left, more

    def taken(self, nodes: frozenset[int], begin: int, end: int) -> bool:
        """True if another job has one of the nodes meanwhile."""
        return any(first < end and last > begin and kept & nodes for first, last, kept in self.rows)


def once_ended(job: Asked, on: frozenset[int], free: dict[int, int], running: Sequence[Runs], now: int,
               place: Place) -> tuple[int, frozenset[int]] | None:  # fmt: skip
    """When, and where of these nodes, a job has a place as others end."""
    free = {node: free[node] for node in on}
    if (found := place(free, job)) is not None:
        return now, found
    left, near, bound = sorted(running), NEAR_S, None
    while left:
        last = None
        while left:
            one = left.pop(0)
            if one.on & on:
                last = one.end_s
                bound = last + NEAR_S - last % NEAR_S if bound is None else bound
                for node in one.on & on:
                    free[node] += one.cores
                if left and left[0].end_s > bound + near:
                    break
        if last is None or bound is None:
            return None
        near *= 2
        while left and left[0].end_s > bound + near:
            near *= 2
        if (found := place(free, job)) is not None:
            return max(last, now + 1), found
    return None


def look(now: int, queue: Sequence[Asked], running: Sequence[Runs], cores: int, nodes: int,
         place: Place) -> dict[int, tuple[int, frozenset[int]]]:  # fmt: skip
    """When and where each job of the queue starts, or will."""
    table, found, running = Table(now), dict[int, tuple[int, frozenset[int]]](), list(running)
    for job in queue:
        free = {node: cores - sum(one.cores for one in running if node in one.on) for node in range(nodes)}
        begin = now
        while begin < NEVER:
            on, more = table.open_to(job, begin)
            ended = once_ended(job, on, free, running, now, place)
            if ended is None or max(ended[0], begin) > more:
                begin = more
                continue
            start, where = max(ended[0], begin), ended[1]
            if start > now and table.taken(where, start, start + job.limit_s):
                begin = start
                continue
            found[job.id] = start, where
            if start == now:
                running.append(Runs(now + job.limit_s, job.id, where, job.cores))
            if start > now or job.whole:
                table.keep(start, start + job.limit_s, where)
            break
    return found
