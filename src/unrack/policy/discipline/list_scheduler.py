"""List schedulers: an order, a placement and a rule for who may pass the head of the queue.

With a built-in placement on nodes, a pass over the queue runs compiled (``queue_kernel.py``). With a function of the
user's own it runs in Python (``python_pass.py``). Both make the same decisions, which the tests hold them to. While a
job in the system asks for more than nodes, passes are those of ``list_pass.py``, which tries things on drafts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from unrack.errors import PolicyError
from unrack.ledger.lease import Lease
from unrack.policy.columns import LedgerColumns, columns_of
from unrack.policy.contract import Decision, Estimates, Reject, Start
from unrack.policy.discipline.list_pass import ListPass, Pass
from unrack.policy.discipline.python_pass import Placement, plain_pass
from unrack.policy.discipline.queue_kernel import Backfill, PassRule, nothing_new, pass_over
from unrack.policy.gpus.rule import GpuRule
from unrack.policy.orders import Order, in_order, is_fixed
from unrack.policy.placement.any_resource import AnyResource
from unrack.policy.placement.contract import MemoryRule
from unrack.policy.placement.local_memory import FITS, LocalMemory
from unrack.policy.placement.node_kernel import room_for
from unrack.reasons import Code, Reason
from unrack.view import View
from unrack.workload.job import CORES, MEMORY, TASKS

Ints = NDArray[np.int64]
UNLIMITED = 2**40


@dataclass(slots=True)
class Buffers:
    """Room for one pass's answer, and what the last pass had seen."""

    # the answer; what is in them between passes means nothing
    started: Ints = field(default_factory=lambda: np.empty((3, 64), np.int64))
    rows: Ints = field(default_factory=lambda: np.empty((256, 5), np.int64))
    # `view.releases` at the last pass, and the last job that was submitted by then
    releases: int = -1
    last_job: int = -1
    complete: bool = False  # whether the last pass left nothing that could start in a second pass at once
    alike: bool = False  # whether every task so far asks one core and no memory, on shared nodes
    beyond: Pass | None = None  # of the last pass, where that was one over nodes with devices

    def grow(self, needed: int) -> None:
        """Make room for ``needed`` jobs and rows."""
        self.started = np.empty((3, 2 * needed), np.int64)
        self.rows = np.empty((2 * needed, 5), np.int64)

    def leases(self, count: int) -> list[Decision]:
        """The first ``count`` answers as decisions."""
        if count == 0:
            return []
        if count == 1:
            job, _, end = self.started[:, 0].tolist()
            return [Start(Lease(job, self.rows[:end].copy()))]
        jobs, first, end = self.started[:, :count].tolist()
        return [Start(Lease(jobs[i], self.rows[first[i] : end[i]].copy())) for i in range(count)]


@dataclass(slots=True)
class Blocked:
    """The head that blocked the queue in the last pass, and what had been given back by then (``view.releases``).

    Without backfill nobody starts until it does.
    """

    head: int = -1
    releases: int = -1

    def still(self, view: View, jobs: Ints) -> bool:
        """Whether the first of ``jobs`` still has no place: nothing was given back since it had none."""
        return int(jobs[0]) == self.head and view.releases == self.releases

    def note(self, view: View, jobs: Ints, started: int) -> None:
        """A pass without backfill started the first ``started`` of ``jobs``."""
        self.head = int(jobs[started]) if started < len(jobs) else -1
        self.releases = view.releases


@dataclass(frozen=True)
class ListScheduler(AnyResource):
    """Considers the queue in an order and starts what fits.

    Parameters
    ----------
    order
        A name in ``ORDERS`` or a function ``order(view, queue, now) -> jobs``.
    place
        ``"first-fit"``, ``"best-fit"``, ``"worst-fit"``, a rule for pools of devices (a name in
        :data:`unrack.policy.placement.mixed.PLACES`), or a function ``place(free, total, job) -> Lease | None``.
    backfill
        ``"none"``: nobody passes the head. ``"any"``: whoever fits now. ``"easy"``: whoever does not delay the head.
    nodes
        ``"shared"``: several jobs may hold cores of one node. ``"whole"``: a node serves one job at a time.
    estimates
        ``"requested"`` or ``"exact"`` run times.
    depth
        How many jobs behind the head are considered.
    label
        What reports call it.
    backfill_order
        In which order jobs behind the head are tried: a name in ``ORDERS`` or a function; ``None``: as ``order``. With
        EASY backfill and ``"sjf"`` this is EASY-SJBF: the head by arrival, whoever may pass it by shortest first.
    memory
        Where the memory of tasks comes from; default: the node that they run on.
    gpus
        The rule for GPUs; ``None``: those that are nearest to each other, wherever the node is.
    wait
        Whether jobs wait; False: who has no place when he comes is turned away, as services are.

    Raises
    ------
    PolicyError
        There is an order of those who pass, and nobody may.
    """

    order: str | Order = "fcfs"
    place: str | Placement = "first-fit"
    backfill: str = "none"
    nodes: str = "shared"
    estimates: Estimates = Estimates.REQUESTED
    depth: int = UNLIMITED
    label: str = "list"
    backfill_order: str | Order | None = None
    memory: MemoryRule = field(default_factory=LocalMemory)
    gpus: GpuRule | None = None
    wait: bool = True

    def __post_init__(self) -> None:
        if self.backfill_order is not None and self.backfill == "none":
            raise PolicyError(
                f"policy {self.label}", "backfill_order, and nobody may pass", "backfill any or easy beside it"
            )

    def begin(self, view: View) -> Buffers:
        """Make room for answers."""
        return Buffers()

    def decide(self, view: View, memory: Buffers, now: int) -> tuple[list[Decision], Buffers]:
        """Start what may start now; turn away the rest if nobody waits."""
        decisions, memory = self._starts(view, memory, now)
        if not self.wait and view.waiting > len(decisions):
            started = {decision.lease.job for decision in decisions if isinstance(decision, Start)}
            reason = Reason(Code.NO_ROOM, "a place when it came")
            turned_away = [Reject(job, reason) for job in view.queue.tolist() if job not in started]
            decisions = [*decisions, *turned_away]
        return decisions, memory

    def _starts(self, view: View, memory: Buffers, now: int) -> tuple[list[Decision], Buffers]:
        if not view.waiting:
            return [], memory
        if self.beyond_nodes(view):
            if memory.beyond is None:
                memory.beyond = self._beyond.begin(view)
            return self._beyond.decide(view, memory.beyond, now), memory
        memory.beyond = None
        if not isinstance(self.place, str):
            jobs = in_order(self.order, view, now)
            behind = None if self.backfill_order is None else in_order(self.backfill_order, view, now)
            return plain_pass(view, jobs, self.place, BACKFILL[self.backfill], self.depth, now, behind), memory
        if self.nothing_new(view, memory, now):
            return [], memory
        memory.alike = self.nodes == "shared" and view.equal_cores()
        memory.complete = self.settles and (self.backfill != "easy" or (self.order == "fcfs" and memory.alike))
        jobs = in_order(self.order, view, now)
        second = NO_SECOND if self.backfill_order is None else places_in(jobs, in_order(self.backfill_order, view, now))
        rule = PassRule(BACKFILL[self.backfill], self.depth, self.nodes == "whole", FITS[self.place])
        return choose(rule, columns_of(view), jobs, memory, now, second), memory

    @cached_property
    def _beyond(self) -> ListPass:
        return ListPass(self.placement, self.order, Backfill(BACKFILL[self.backfill]), self.depth, self.backfill_order)

    @cached_property
    def settles(self) -> bool:
        """Whether time alone cannot change who is looked at: not with a depth, as others are when a job has started."""
        bounded = self.backfill != "none" and self.depth < UNLIMITED
        return is_fixed(self.order) and is_fixed(self.backfill_order or self.order) and not bounded

    def nothing_new(self, view: View, memory: Buffers, now: int) -> bool:
        """Whether a pass can be spared, as the function of that name of the kernel says; notes what was seen."""
        releases, last_job = memory.releases, memory.last_job
        memory.releases = view.releases
        newest = view.last_waiting
        memory.last_job = max(last_job, newest)
        if not memory.complete or releases != memory.releases:
            return False
        easy = self.backfill == "easy"
        return nothing_new(
            easy=easy,
            complete=True,
            released=False,
            newest=newest,
            last_job=last_job,
            fits=view.cores_asked(newest) <= view.free_cores,
            unlike=memory.alike > view.equal_cores(),
            overdue=easy and view.first_end_us <= now,
        )

    def next_round(self, view: View, memory: Buffers, now: int) -> int | None:
        """Only events matter, unless the order ages or deadlines count; even then most fit at events alone."""
        return None if memory.beyond is None else self._beyond.next_round(view, memory.beyond, now)

    def why(self, view: View, memory: Buffers, job: int, now: int) -> Reason:
        """No room, behind the head, or it would delay the head."""
        if memory.beyond is not None:
            return self._beyond.why(view, memory.beyond, job, now)
        jobs = in_order(self.order, view, now)
        missing = short_of(view, job, self.nodes == "whole")
        if missing is not None:
            return missing
        head = int(jobs[0])
        if head == job:
            return Reason(Code.NOT_YET)
        if self.backfill == "none":
            return Reason(Code.BEHIND, f"job {view.job(head).id}")
        behind = jobs if self.backfill_order is None else in_order(self.backfill_order, view, now)
        place = 1 + int(np.flatnonzero(behind[behind != head] == job)[0])
        if place > self.depth:
            return Reason(Code.TOO_DEEP, "jobs considered behind the head", place, self.depth)
        return Reason(Code.WOULD_DELAY, f"job {view.job(head).id}")


BACKFILL = {"none": int(Backfill.NONE), "any": int(Backfill.ANY), "easy": int(Backfill.EASY)}


NO_SECOND: Ints = np.empty(0, np.int64)
"""Those behind the head are tried in the order of the queue."""


def places_in(jobs: Ints, behind: Ints) -> Ints:
    """int64[waiting]: where in ``jobs`` those of ``behind`` are, in the order of ``behind``."""
    by_number = np.argsort(jobs)
    places: Ints = by_number[np.searchsorted(jobs, behind, sorter=by_number)]
    return places


def choose(
    rule: PassRule, seen: LedgerColumns, jobs: Ints, room: Buffers, now: int, second: Ints = NO_SECOND
) -> list[Decision]:
    """The decisions of one compiled pass; ``second``: as of the kernel."""
    if not jobs.flags.writeable:
        jobs = jobs.copy()
    while True:
        count = pass_over(rule, jobs, second, now, seen, room.alike, room.started, room.rows)
        if count >= 0:
            return room.leases(count)
        room.grow(-count)


def short_of(view: View, job: int, whole: bool) -> Reason | None:
    """What there is too little of now for a job to start; ``None`` if it fits."""
    tasks, cores, mb = (int(view.asks[row, job]) for row in (TASKS, CORES, MEMORY))
    free, total = view.columns.free, view.columns.total
    if tasks * cores > view.free_cores:
        return Reason(Code.NO_ROOM, "cores", tasks * cores, view.free_cores)
    room = room_for(free, total, cores, mb, whole)
    if room >= tasks:
        return None
    if mb and room_for(free, total, cores, 0, whole) >= tasks:
        return Reason(Code.NO_ROOM, f"places for tasks of {mb} MB", tasks, room)
    return Reason(
        Code.NO_ROOM, "places on whole idle nodes" if whole else f"places for tasks of {cores} cores", tasks, room
    )
