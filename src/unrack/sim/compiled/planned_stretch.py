"""Stretches of a run under a policy with a plan."""

from __future__ import annotations

from typing import Any, ClassVar

from unrack.kernels.arrays import Ints
from unrack.ledger.columns import grown
from unrack.policy.discipline.skyline.columns import Grain
from unrack.policy.discipline.skyline.plan import Plan
from unrack.policy.discipline.skyline.reserved import BY_JOB
from unrack.policy.orders import Order
from unrack.sim.compiled.columns import FREED, PlanTerms
from unrack.sim.compiled.planned import run_planned
from unrack.sim.compiled.stretch import Stretch


class PlannedStretch(Stretch):
    """As :class:`Stretch`, where every job holds a reservation.

    It begins once the plan's groups are those for all jobs of the run.
    """

    rounds: ClassVar[Any] = staticmethod(run_planned)

    @staticmethod
    def serves(policy: Any) -> bool:
        """Whether the loop can do what a policy of its kind asks: anything."""
        return True

    def orders(self) -> tuple[str | Order | None, str | Order | None]:
        """The order of the queue; ``None``: that in which jobs came."""
        order = self.policy.order
        return (None if order == "fcfs" else order), None

    def terms_of(self, ties: str) -> Any:
        """What does not change but for the plan's groups."""
        early, rule = self.policy.compress == "early", self.kernel.core.memory.rule
        return PlanTerms(rule, early, ties == "together", ties == "submit-first")

    def ready(self) -> bool:
        """Whether no job will come for which the plan's groups are too coarse."""
        state, memory = self.kernel.core.state, self.kernel.core.memory
        counts = memory.grain == Grain.CORES
        return not memory.lost and not memory.chosen and not (counts and state.first_unequal < len(self.kernel.jobs))

    def take_notes(self, mark: Ints, memory: Plan) -> None:
        """Let the marks say what the plan has noted, and the plan have room for all jobs."""
        room = len(self.kernel.jobs)
        memory.replace(**{name: grown(getattr(memory.columns, name), room, fill) for name, fill in BY_JOB.items()})
        memory.look(self.kernel.core.view)
        mark[FREED] = memory.freed
        self.terms = self.terms_of(str(self.kernel.ties))

    def give_notes(self, mark: Ints, memory: Plan) -> None:
        """Let the plan have noted what the marks say, and the ledger what is promised."""
        core = self.kernel.core
        memory.freed = int(mark[FREED])
        core.state.promises = self.policy.promised(core.view, memory)
