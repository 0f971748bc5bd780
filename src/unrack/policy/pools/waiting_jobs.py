"""The waiting jobs of a pooled policy, by what they ask: which is tried next, and which need not be tried."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappush

import numpy as np

from unrack.ledger.devices.columns import DeviceColumns
from unrack.policy.orders import Noted, in_order, slo_key
from unrack.policy.pools.place_kernel import LATE, NO_DEVICES, RANDOM_FIT, PoolAnswer
from unrack.units import NEVER_US
from unrack.view import View
from unrack.workload.job import CORES, ESTIMATE, TASKS

JOB_BITS = 40
"""Of a rank: the lowest bits are the job, so that ranks are unique and ties go by submission."""


def _cores(view: View, job: int) -> int:
    return int(view.asks[TASKS, job] * view.asks[CORES, job])


def _due(view: View, job: int) -> int:
    deadline = int(view.deadline_us[job])
    return NEVER_US if deadline < 0 else deadline


KEYS: dict[str, Callable[[View, int], int]] = {
    "fcfs": lambda view, job: 0,
    "sjf": lambda view, job: int(view.asks[ESTIMATE, job]),
    "ljf": lambda view, job: -int(view.asks[ESTIMATE, job]),
    "smallest": _cores,
    "largest": lambda view, job: -_cores(view, job),
    "smallest-area": lambda view, job: int(float(_cores(view, job)) * int(view.asks[ESTIMATE, job])),
    "priority": lambda view, job: -int(view.priority[job]),
    "edf": _due,
    "priority-edf": lambda view, job: (-int(view.priority[job]) << 64) + _due(view, job),
    "slo-ratio": lambda view, job: int(slo_key(view, job)),
}
"""Orders that nothing changes, as a key of each job alone; the others are sorted anew every round."""


@dataclass(slots=True)
class Queue:
    """The waiting jobs by shape (what they ask), each shape in the order of the queue; and where a pass is.

    It grows with the jobs: of those that are not submitted yet nothing is known, and nothing depends on them.
    """

    order: str  # a name in `ORDERS`
    answer: PoolAnswer
    draws: np.random.Generator
    plain: DeviceColumns  # columns without devices, for a cluster without pools
    loads: dict[str, tuple[int, int, int]]  # of the disaggregation-aware rule: quantity → kind, row, amount installed
    authors: bool  # as in `place`
    # job → which other jobs ask the same; of the jobs that have waited so far
    shape_of: dict[int, int] = field(default_factory=dict)
    shapes: dict[bytes, int] = field(default_factory=dict)  # what is asked → that number
    # shape → ranks and jobs, ascending. A rank is the place of a job in the order.
    waiting: list[list[tuple[int, int]]] = field(default_factory=list)
    # per shape: whether all jobs of it so far run equally long and come by their deadlines
    like_time: list[bool] = field(default_factory=list)
    estimates: list[int] = field(default_factory=list)  # per shape: the run time of its first job
    cores: list[int] = field(default_factory=list)  # per shape: cores of a task
    # how many jobs wait as far as known here, and the last one submitted
    known: int = 0
    last_job: int = -1
    # the pass: (rank, shape, place in its list) of the next job of every shape that is still tried
    heads: list[tuple[int, int, int]] = field(default_factory=list)
    # shape → (reason, estimate, earliest end) of the last job that found no place in this pass
    failed: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    # shapes of which the last pass refused a job because of deadlines alone, its own or those of others
    closed: set[int] = field(default_factory=set)
    # for which state of affairs and which jobs it is known when, by time alone, the first has a place: `opens`
    looked: tuple[int, int, int] | None = None
    seen_to: set[int] = field(default_factory=set)
    opens: int = NEVER_US
    # of a pass that is under way: the time, and `view.version` once the start just decided is done
    going: tuple[int, int] | None = None
    # of the last pass: its rule, and `view.releases` then
    rule: int = 0
    releases: int = -1
    patient: int = -1  # a job with an own deadline that does not count just now; -1: none
    started_us: int = -1  # when a job was last started; -1: none was
    noted: Noted = field(default_factory=dict)

    def read(self, view: View, now: int) -> None:
        """Bring the lists up to date with the queue."""
        waiting, fixed = view.waiting, self.order in KEYS
        last = view.last_waiting if waiting else -1
        if fixed and waiting == self.known and last <= self.last_job:
            return
        queue = view.queue
        new = int(queue.size - queue.searchsorted(self.last_job, "right")) if last > self.last_job else 0
        if not fixed or self.known + new != queue.size:
            for listed in self.waiting:
                listed.clear()
            new = queue.size
        if fixed:
            for job in queue[queue.size - new :].tolist():
                self.enter(view, job)
        else:
            for rank, job in enumerate(in_order(self.order, view, now, self.noted).tolist()):
                self.waiting[self.shape(view, job)].append((rank, job))
        self.known, self.last_job = queue.size, max(self.last_job, last)

    def enter(self, view: View, job: int) -> None:
        """Put a job into the list of its shape."""
        insort(self.waiting[self.shape(view, job)], ((KEYS[self.order](view, job) << JOB_BITS) + job, job))

    def shape(self, view: View, job: int) -> int:
        """The shape of a job: known, or noted now."""
        found = self.shape_of.get(job)
        if found is not None:
            return found
        state = view.columns
        asked = state.asks[:ESTIMATE, job].tobytes()
        if state.devices is not None:
            c = state.devices.columns
            asked += c.wants[:, :, job].tobytes() + c.model[:, job].tobytes()
        if state.claimed is not None:
            asked += state.claimed.asked(job).tobytes()
        estimate = int(state.asks[ESTIMATE, job])
        if view.cluster.places.windows:  # how long a job runs decides where it may
            asked += state.asks[ESTIMATE, job].tobytes()
        found = self.shapes.get(asked)
        if found is None:
            found = self.shapes[asked] = len(self.waiting)
            self.new_shape(estimate, int(state.asks[CORES, job]))
        elif self.estimates[found] != estimate:
            self.like_time[found] = False
        self.shape_of[job] = found
        return found

    def new_shape(self, estimate: int, cores: int) -> None:
        """A list for jobs unlike all others so far."""
        self.waiting.append([])
        self.like_time.append(self.order == "edf")
        self.estimates.append(estimate)
        self.cores.append(cores)

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

    def freest(self, view: View, shape: int) -> list[int]:
        """Of jobs that ask the same, those that time alone helps first: the first and the last by deadline, or all.

        Of gangs all: their tasks stand in each other's way.
        """
        listed = self.waiting[shape]
        if self.like_time[shape] and view.asks[TASKS, listed[0][1]] == 1:
            return [listed[0][1], listed[-1][1]]
        return [job for _, job in listed]

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
        elif self.failed and not 0 <= self.rule <= RANDOM_FIT:
            self.failed = {shape: why for shape, why in self.failed.items() if why[0] >= NO_DEVICES}
