"""What schedulers with a plan share: what it asks for choices, and why a job waits."""

from __future__ import annotations

from unrack.policy.discipline.list_scheduler import short_of
from unrack.policy.discipline.skyline.choosing import Choices
from unrack.policy.discipline.skyline.plan import Plan
from unrack.policy.placement.any_resource import AnyResource
from unrack.reasons import Reason
from unrack.view import View


class Planning(AnyResource):
    """A scheduler with a plan over whatever jobs ask for."""

    def new_plan(self, view: View) -> Plan:
        """A plan in which nothing is reserved."""
        return Plan.begin(view, *self.how(view))

    def choices(self, view: View, memory: Plan, now: int, trust: bool) -> Choices:
        """The choices of a round; see :class:`Choices`."""
        return Choices(self.mixed, self.notes(view, memory), view, now, trust, memory)

    def missing(self, view: View, memory: Plan, job: int, now: int) -> Reason | None:
        """What there is too little of now for a job to start; ``None`` if it fits."""
        if not self.beyond_nodes(view):
            return short_of(view, job, self.nodes == "whole")
        return self.mixed.why(view, self.notes(view, memory), job, now)
