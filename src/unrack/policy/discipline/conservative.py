"""Conservative backfill (Mu'alem and Feitelson 2001).

Every job gets a reservation when it arrives, the earliest that disturbs no other, and never a later one. When a job
ends early, reservations move forward one by one, in order; an end at its booked time was planned for, and moves none.
They do twice once a job did not start that was to, and finds reservations of those behind it in its way.
O(waiting x steps of the plan) a round.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

from unrack.ledger.promises import STIRRED, Promises
from unrack.policy.contract import Ability, Decision, Estimates
from unrack.policy.discipline.planning import Planning
from unrack.policy.discipline.skyline.columns import PlanRound
from unrack.policy.discipline.skyline.plan import Plan
from unrack.policy.gpus.rule import GpuRule
from unrack.policy.orders import Order, in_order
from unrack.policy.placement.contract import MemoryRule
from unrack.policy.placement.lent_memory import LocalMemory
from unrack.reasons import Code, Reason
from unrack.units import SECOND_US
from unrack.view import View

COMPRESS = ("early", "ends")
"""When reservations move forward."""


def freed(view: View, compress: str) -> int:
    """What grows whenever reservations may move forward: at early ends (and whatever else is unforeseen), or all."""
    return view.unforeseen if compress == "early" else view.releases


@dataclass(frozen=True)
class Conservative(Planning):
    """Backfill in which every job holds a reservation that only ever moves forward.

    Parameters
    ----------
    order
        In which order new jobs get reservations and later move forward: a name in ``ORDERS`` or a function.
    compress
        When reservations move forward: ``"early"``, when a job ends before its booked end, a node comes back, or
        something else is free that was not planned to be; ``"ends"``, whenever anything is given back.
    place, nodes, estimates, label
        As for :class:`unrack.policy.discipline.list_scheduler.ListScheduler`; ``place`` is a name here.
    memory
        As there.
    """

    order: str | Order = "fcfs"
    place: str = "first-fit"
    nodes: str = "shared"
    estimates: Estimates = Estimates.REQUESTED
    label: str = "conservative"
    memory: MemoryRule = field(default_factory=LocalMemory)
    gpus: GpuRule | None = None
    compress: str = "early"

    does: ClassVar[frozenset[Ability]] = frozenset({Ability.PROMISED})

    def begin(self, view: View) -> Plan:
        """The reservations that were promised before; none if the run begins."""
        promises = view.promises
        plan = Plan.resumed(view, *self.how(view))
        plan.freed = freed(view, self.compress) if promises.freed is None else promises.freed
        return plan

    def promised(self, view: View, memory: Plan) -> Promises:
        """The reservations of waiting jobs."""
        return memory.promised()

    def decide(self, view: View, memory: Plan, now: int) -> tuple[list[Decision], Plan]:
        """Reserve for new jobs, move reservations forward if jobs have ended, start those that are due."""
        mark = freed(view, self.compress)
        before, memory.freed = memory.freed, mark
        compress, stirred = mark != before, before == STIRRED
        if not view.waiting:
            return [], memory
        jobs = in_order(self.order, view, now, memory.noted).copy()
        if compress:
            memory.look_where(view, COMPRESS.index(self.compress), -1 if stirred else before)
        if self.outgrown(view, memory) or memory.lost:
            memory.make_room(view)
            jobs = memory.by_start(jobs)
            noted, memory = memory.noted, self.new_plan(view)
            memory.freed, memory.noted = mark, noted
        what = PlanRound(2 if stirred and not (memory.chosen or memory.lends) else int(compress), trust=True)
        choices = partial(self.choices, view, memory)
        starts = memory.completed(memory.round(view, jobs, now, what, choices), now, choices)
        return self.by_rule(view, memory, starts), memory

    def next_round(self, view: View, memory: Plan, now: int) -> int | None:
        """When the next reservation falls due: what it was planned to wait for may have moved forward since."""
        if not view.waiting:
            return None
        return memory.due_us(view, now)

    def why(self, view: View, memory: Plan, job: int, now: int) -> Reason:
        """It holds a reservation for later, or there is no room even then."""
        missing = self.missing(view, memory, job, now)
        if missing is not None:
            return missing
        if memory.reserved(job) >= 0:
            return Reason(Code.RESERVED, f"from {memory.reserved(job) / SECOND_US:.0f} s")
        return Reason(Code.NOT_YET)
