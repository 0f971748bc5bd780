"""The waiting jobs of a pooled policy, by what they ask: who is tried next, and who need not be tried."""

from __future__ import annotations

from bisect import bisect_right, insort
from dataclasses import dataclass, field
from heapq import heappush

import numpy as np
from numpy.typing import NDArray

from unrack.cluster.columns import Columns
from unrack.policy.orders import in_order, is_fixed
from unrack.policy.pooling import LATE, NO_DEVICES, RANDOM_FIT
from unrack.units import NEVER_US
from unrack.view import View
from unrack.workload.job import ESTIMATE

Ints = NDArray[np.int64]


@dataclass(slots=True)
class Queue:
    """The waiting jobs by shape (what they ask), each shape in the order of the queue; and where a pass is.

    Attributes
    ----------
    shape
        Per job: which other jobs ask the same.
    rank : int64[jobs]
        Per job: its place in the order among all jobs; of orders that age, only of those that wait.
    waiting
        Shape → ranks and jobs, ascending.
    plain
        Columns without devices, for a cluster without pools.
    loads
        Of the disaggregation-aware rule: quantity → kind, row, amount installed.
    cores
        Per shape: cores of a task.
    known, last_job
        How many jobs wait as far as known here, and the last one submitted.
    heads
        The pass: (rank, shape, place in its list) of the next job of every shape that is still tried.
    failed
        Shape → (reason, estimate, earliest end) of the last job that found no place in this pass.
    going
        Whether a pass is under way.
    rule, releases
        Of the last pass: its rule, and ``view.releases`` then.
    patient
        A job whose own deadline does not count just now; -1: none.
    """

    shape: Ints
    rank: Ints
    waiting: list[list[tuple[int, int]]]
    like_time: list[bool]
    at: Ints
    sizes: Ints
    answer: Ints
    earliest: Ints
    draws: np.random.Generator
    plain: Columns
    loads: dict[str, tuple[int, int, int]]
    cores: list[int]
    known: int = 0
    last_job: int = -1
    heads: list[tuple[int, int, int]] = field(default_factory=list)
    failed: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    going: bool = False
    rule: int = 0
    releases: int = -1
    patient: int = -1

    def read(self, view: View, order: str, now: int) -> None:
        """Bring the lists up to date with the queue."""
        queue = view.queue
        new = int(queue.size - np.searchsorted(queue, self.last_job, side="right"))
        if not is_fixed(order):
            self.rank[in_order(order, view, now)] = np.arange(queue.size)
        elif self.known + new == queue.size:
            for job in queue[queue.size - new :].tolist():
                insort(self.waiting[self.shape[job]], (int(self.rank[job]), job))
            self.known, self.last_job = queue.size, max(self.last_job, int(queue[-1]) if queue.size else -1)
            return
        for listed in self.waiting:
            listed.clear()
        for job in queue.tolist():
            self.waiting[self.shape[job]].append((int(self.rank[job]), job))
        for listed in self.waiting:
            listed.sort()
        self.known, self.last_job = queue.size, max(self.last_job, int(queue[-1]) if queue.size else -1)

    def may(self, view: View, shape: int, job: int) -> bool:
        """Whether a job may have a place though one that asks the same had none in this pass."""
        code, estimate, earliest = self.failed[shape]
        deadline = int(view.deadline_us[job])
        return code == LATE and (deadline < 0 or deadline >= earliest or int(view.asks[ESTIMATE, job]) < estimate)

    def after(self, view: View, shape: int, i: int) -> int:
        """The next job of a shape worth trying after one had no place; the end of the list: none."""
        listed = self.waiting[shape]
        code, _, earliest = self.failed[shape]
        if code != LATE:
            return len(listed)
        if not self.like_time[shape]:
            return i
        low, high = i, len(listed)  # by deadline: those without one come last
        while low < high:
            middle = (low + high) // 2
            if 0 <= view.deadline_us[listed[middle][1]] < earliest:
                low = middle + 1
            else:
                high = middle
        return low

    def try_again(self, rank: int) -> None:
        """After a new composition was made: those behind ``rank`` like one without a place may have one now."""
        tried = {shape for _, shape, _ in self.heads}
        for shape in self.failed:
            listed = self.waiting[shape]
            i = bisect_right(listed, (rank, NEVER_US))
            if shape not in tried and i < len(listed):
                heappush(self.heads, (listed[i][0], shape, i))
        self.failed.clear()

    def forget(self, view: View) -> None:
        """Drop what no longer stands of the last pass: time alone frees no cores and no devices."""
        if view.releases != self.releases:
            self.failed.clear()
            self.releases = view.releases
        elif not 0 <= self.rule <= RANDOM_FIT:
            self.failed = {shape: why for shape, why in self.failed.items() if why[0] >= NO_DEVICES}
