"""An order and a placement of one's own, devices included: the shortest way to a policy for pools."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import ClassVar

from unrack.ledger.candidate import Candidate
from unrack.ledger.lease import Lease
from unrack.policy.around import said_by_members
from unrack.policy.contract import Decision, Estimates, Start, Traits
from unrack.policy.orders import Noted, Order, in_order
from unrack.policy.own.answers import checked_lease
from unrack.policy.placement.any_resource import why_not_on
from unrack.policy.placement.mixed import Mixed
from unrack.reasons import Code, Reason
from unrack.view import View
from unrack.workload.seen_job import SeenJob

Place = Callable[[View, SeenJob, int], Lease | Candidate | Iterable[Candidate] | None]
"""``place(view, job, now)``: where a waiting job goes on what is free now, or ``None``: not now.

A lease, or candidates of ``view.candidates(job)`` in the order in which its tasks fill them.
"""


REST = Mixed()
"""Chooses what a job asks for beside the nodes."""


@dataclass(slots=True)
class Pass:
    """The jobs still to be tried in this round, ``None`` between rounds; and what orders remember."""

    left: list[int] | None = field(default=None)
    noted: Noted = field(default_factory=dict)


@dataclass(frozen=True)
class Placed:
    """Goes through the queue once a round in an order and starts every job that ``place`` finds a place for.

    Parameters
    ----------
    place
        ``place(view, job, now)``: a lease, candidates of ``view.candidates(job)``, or ``None``; it sees what the jobs
        before it have taken. Devices and claims that the answer lacks are chosen on its nodes; where they are not free
        there, the job waits.
    order
        A name in ``ORDERS`` or a function ``order(view, queue, now) -> jobs``.
    label
        What reports call it.
    """

    place: Place
    order: str | Order = "edf"
    label: str = "placed"
    estimates: Estimates = Estimates.REQUESTED

    devices: ClassVar[bool] = True
    claims: ClassVar[bool] = True
    stepwise: ClassVar[bool] = True

    @property
    def traits(self) -> Traits:
        """What the members say, also those of subclasses."""
        return said_by_members(self)

    @property
    def name(self) -> str:
        """The label."""
        return self.label

    def begin(self, view: View) -> Pass:
        """Nothing to remember yet."""
        return Pass()

    def decide(self, view: View, memory: Pass, now: int) -> tuple[list[Decision], Pass]:
        """Start the next job that has a place; asked again until there is none."""
        left = in_order(self.order, view, now, memory.noted).tolist() if memory.left is None else memory.left
        for i, job in enumerate(left):
            chosen = checked_lease(self.place, self.place(view, view.job(job), now), job, view, now)
            lease = None if chosen is None else REST.on(view, None, job, now, chosen)
            if lease is not None:
                return [Start(lease, self.label)], Pass(left[i + 1 :], memory.noted)
        return [], Pass(None, memory.noted)

    def next_round(self, view: View, memory: Pass, now: int) -> int | None:
        """Only events matter."""
        return None

    def why(self, view: View, memory: Pass, job: int, now: int) -> Reason:
        """Its placement found none, or what the job asks for beside the nodes is not free there."""
        chosen = checked_lease(self.place, self.place(view, view.job(job), now), job, view, now)
        reason = None if chosen is None else why_not_on(REST, view, None, job, now, chosen)
        return reason or Reason(Code.NO_ROOM, f"no place by {self.label}")
