"""A policy that does what a list says, at the times that it says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from small_worlds import S

from unrack.policy.contract import Decision, Estimates, Need
from unrack.reasons import Code, Reason
from unrack.view import View


class Scripted:
    """Decides ``plan[t]`` in the round at ``t`` seconds; of several rounds at one time in the first."""

    name = "scripted"
    needs: frozenset[Need] = frozenset()
    estimates = Estimates.REQUESTED
    devices = True

    def __init__(self, plan: Mapping[int, Sequence[Decision]], lends: bool = False) -> None:
        self.plan = {time * S: list(decisions) for time, decisions in plan.items()}
        self.lends = lends

    def begin(self, view: View) -> int:
        """When it last decided something, µs."""
        return -1

    def decide(self, view: View, memory: int, now: int) -> tuple[list[Decision], int]:
        """The decisions of this time."""
        return ([], memory) if memory == now else (self.plan.get(now, []), now)

    def next_round(self, view: View, memory: int, now: int) -> int | None:
        """The next time of the plan."""
        return min((time for time in self.plan if time > now), default=None)

    def why(self, view: View, memory: int, job: int, now: int) -> Reason:
        """Nobody is told why."""
        return Reason(Code.NO_ROOM)
