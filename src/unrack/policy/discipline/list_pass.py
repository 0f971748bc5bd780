"""List scheduling over any resources: one pass over the queue, with or without backfill, on whatever jobs ask for.

A placement says where a job would go now. Nothing else is known of it here: what would happen later is found out by
carrying it out on drafts of the ledger, in which running jobs end as booked. So the promise of EASY holds for all that
jobs hold: whoever passes the head leaves it a place at the time at which it was to start.

O(waiting) placements a round; under EASY a draft (O(nodes + jobs + devices)) and the ends up to the head's start for
the head, and for everyone behind it that has a place.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from unrack.ledger.lease import Lease
from unrack.policy.contract import Decision, Start
from unrack.policy.discipline.queue_kernel import Backfill
from unrack.policy.orders import Order, in_order
from unrack.policy.placement.contract import Placement
from unrack.reasons import Code, Reason
from unrack.view import Draft, View


@dataclass(slots=True)
class Pass:
    """What passes over the queue found."""

    notes: Any  # of the placement
    head: int = -1  # who was first without a place in the last pass; -1: nobody
    waiting: list[int] = field(default_factory=list)  # jobs that were tried in it and had no place
    kinds: dict[int, object] = field(default_factory=dict)  # waiting job to its kind, as the placement has it
    refused: set[object] = field(default_factory=set)  # kinds that have no place on what is free
    # of the ledger after the last pass: as long as they stay, nothing was given back and nothing started
    releases: int = -1
    running: int = -1


@dataclass(frozen=True)
class ListPass:
    """A pass over the queue.

    Parameters
    ----------
    placement
        Where a job goes.
    order, backfill_order
        As of :class:`unrack.policy.discipline.list_scheduler.ListScheduler`.
    backfill
        Who may pass the head.
    depth
        How many jobs behind the head are tried.
    """

    placement: Placement
    order: str | Order
    backfill: Backfill
    depth: int
    backfill_order: str | Order | None = None

    def begin(self, view: View) -> Pass:
        """Nobody was tried yet."""
        return Pass(self.placement.begin(view))

    def decide(self, view: View, memory: Pass, now: int, most: int | None = None) -> list[Decision]:
        """Start everyone who has a place and keeps nobody waiting that must not wait for it.

        ``most``: how many jobs, from the first, are looked at.
        """
        memory.head, memory.waiting = -1, []
        same = view.releases == memory.releases and view.running_count == memory.running
        if not (same and self.placement.timeless):
            memory.refused.clear()
        step = Step(self.placement, memory, view, now)
        started = self._started(step, memory, view, now, most)
        for decision in started:
            memory.kinds.pop(decision.lease.job, None)
        memory.releases, memory.running = view.releases, view.running_count + len(started)
        return [*started]

    def _started(self, step: Step, memory: Pass, view: View, now: int, most: int | None) -> list[Start]:
        started = []
        ahead = iter(in_order(self.order, view, now)[:most].tolist())
        for job in ahead:
            lease = step.place(job)
            if lease is None:
                memory.head = job
                break
            started.append(step.start(lease))
        if memory.head < 0 or self.backfill == Backfill.NONE:
            return started
        behind = list(ahead)
        if self.backfill_order is not None:
            still = set(behind)
            behind = [job for job in in_order(self.backfill_order, view, now).tolist() if job in still]
        kinds, refused, waiting = memory.kinds, memory.refused, memory.waiting
        for job in behind[: self.depth]:
            if kinds.get(job, job) in refused:
                waiting.append(job)
                continue
            lease = step.place(job)
            if lease is not None and (self.backfill == Backfill.ANY or step.leaves_room(lease, memory.head)):
                started.append(step.start(lease))
        return started

    def next_round(self, view: View, memory: Pass, now: int) -> int | None:
        """When time alone gives one of those who were tried a place."""
        return self.placement.opens_us(view, memory.notes, memory.waiting, now) if memory.waiting else None

    def why(self, view: View, memory: Pass, job: int, now: int) -> Reason:
        """No place, behind the head, or it would delay the head."""
        missing = self.placement.why(view, memory.notes, job, now)
        if missing is not None:
            return missing
        jobs = in_order(self.order, view, now).tolist()
        head = memory.head if memory.head in jobs else jobs[0]
        if head == job or self.backfill == Backfill.ANY:
            return Reason(Code.NOT_YET)
        code = Code.BEHIND if self.backfill == Backfill.NONE else Code.WOULD_DELAY
        return Reason(code, f"job {view.job(head).id}")


class Step:
    """The ledger as it is after what was decided so far in this round."""

    def __init__(self, placement: Placement, memory: Pass, view: View, now: int) -> None:
        self.placement, self.memory, self.view, self.now = placement, memory, view, now
        self.draft: Draft | None = None
        self._head_us: int | None = None
        self._head_known = False

    def place(self, job: int) -> Lease | None:
        """A lease for a job; ``None``: it has no place, which is noted."""
        memory = self.memory
        kind = memory.kinds.get(job)
        if kind is None:
            kind = memory.kinds[job] = self.placement.kind(self.view, memory.notes, job)
        lease = None if kind in memory.refused else self.placement.find(self.view, memory.notes, job, self.now)
        if lease is None:
            memory.refused.add(kind)
            memory.waiting.append(job)
        return lease

    def start(self, lease: Lease) -> Start:
        """The decision; from now on the job holds what the lease says."""
        decision = Start(lease, self.placement.rule(self.memory.notes))
        if self.draft is None:
            self.draft = Draft(self.view, self.now)
        self.draft.start(lease)
        self.view = self.draft.view
        if lease.shares:
            self.memory.refused.clear()  # it may have made a composition that others join
        return decision

    def starts_us(self, job: int) -> int | None:
        """When a waiting job has a place as running jobs end, µs; ``None``: never."""
        draft = Draft(self.view, self.now)
        while (end := draft.next_end_us()) is not None:
            draft.move_on(end)
            if self.placement.find(draft.view, self.memory.notes, job, end) is not None:
                return end
        return None

    def leaves_room(self, lease: Lease, head: int) -> bool:
        """Whether the head still has a place when it is to start, if another job starts now.

        When it is to start is settled when the first would pass it; who passes does not change that.
        """
        if not self._head_known:
            self._head_us, self._head_known = self.starts_us(head), True
        if self._head_us is None:
            return True
        draft = Draft(self.view, self.now)
        if draft.start_by_itself(lease, self._head_us):
            return True
        draft.move_on(self._head_us)
        return self.placement.find(draft.view, self.memory.notes, head, self._head_us) is not None
