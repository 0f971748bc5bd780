"""Stretches of a run under a policy with a plan, compiled: as long as only arrivals, ends and nodes are involved."""

from __future__ import annotations

from typing import Any, ClassVar

from unrack.jit import compiled, inlined
from unrack.kernels.arrays import Ints
from unrack.ledger.columns import ENDS_US, ROW_END, grown
from unrack.ledger.nodes import take_rows
from unrack.policy.discipline.skyline.columns import BEGIN, BRIEF, CLAIM, CLAIM_END, COMPRESS, GRAIN, Grain, PlanRound
from unrack.policy.discipline.skyline.columns import STAGE as STAGE_OF_PLAN
from unrack.policy.discipline.skyline.kept import carry_on, keep_for_next
from unrack.policy.discipline.skyline.plan import Plan
from unrack.policy.discipline.skyline.plan_round import planned
from unrack.policy.discipline.skyline.reserved import BY_JOB
from unrack.policy.discipline.skyline.starting import due_after
from unrack.policy.orders import Order
from unrack.sim.compiled.columns import (
    CHOOSE,
    CLAIMS_USED,
    ENDS,
    EVENTS,
    FREED,
    GO_ON,
    LOG_FULL,
    NEEDED,
    NO_ROOM,
    NOW,
    PLANNED,
    POOL_USED,
    QUEUE_END,
    QUEUE_START,
    RELEASES,
    ROUND,
    RUNNING_COUNT,
    SOMETHING,
    STAGE,
    UNFORESEEN,
    WAKE,
    PlanTerms,
    World,
)
from unrack.sim.compiled.rounds import choose_time, let_happen, start_job
from unrack.sim.compiled.stretch import Stretch
from unrack.units import NEVER_US


@inlined
def start_planned(w: World, sky: Any, terms: PlanTerms) -> bool:
    """A round: plan, and start those that are due now; False: somewhere is no room, and it goes on from there."""
    ledger, at = w.ledger, w.mark
    waiting = at[QUEUE_END] - at[QUEUE_START]
    if at[PLANNED] < 0:
        mark = at[UNFORESEEN] if terms.early else at[RELEASES]
        before, at[FREED], at[WAKE] = at[FREED], mark, NEVER_US
        if waiting == 0:
            return True
        order = w.ranked[0][:waiting] if w.rank[0].shape[0] else ledger.queue[at[QUEUE_START] : at[QUEUE_END]]
        sky.cursor[STAGE_OF_PLAN], sky.cursor[COMPRESS] = BEGIN, mark != before
        carry_on(order, at[NOW], at[RUNNING_COUNT], sky)
        count = planned(order, at[NOW], at[RUNNING_COUNT], sky)
        if count < 0:
            at[FREED], at[NEEDED] = before, -1
            return False
        at[PLANNED] = count
        if not keep_for_next(order, at[NOW], at[RUNNING_COUNT], count, sky):
            at[NEEDED] = -1
            return False
    count, rows, claims = at[PLANNED], 0, 0
    for s in range(count):
        rows, claims = sky.started[ROW_END, s], claims + sky.started[CLAIM_END, s] - sky.started[CLAIM, s]
    if (
        at[RUNNING_COUNT] + count > ledger.running.shape[1]
        or at[ENDS] + count > w.ends.shape[1]
        or at[POOL_USED] + rows > ledger.pool.shape[0]
        or at[CLAIMS_USED] + claims > w.claims.rows.shape[0]
    ):
        at[NEEDED] = max(count, rows, claims)
        return False
    take_rows(ledger.free, ledger.most, sky.out, 0, rows)
    for s in range(count):
        start_job(w, sky, terms, s)
    at[PLANNED] = -1
    overdue = at[RUNNING_COUNT] > 0 and ledger.running[ENDS_US, 0] <= at[NOW]
    at[WAKE] = due_after(sky.start, ledger.queue[at[QUEUE_START] : at[QUEUE_END]], at[NOW], overdue)
    return True


@compiled
def run_planned(w: World, sky: Any, terms: PlanTerms, until_us: int, most: int) -> int:
    """As :func:`unrack.sim.compiled.rounds.run_rounds`, of a plan.

    After NO_ROOM with PLANNED at least 0 the round has been planned already, and goes on with its starts.
    """
    at = w.mark
    rounds: int = 0
    while True:
        if at[STAGE] == CHOOSE:
            why = choose_time(at, w.submit_us, w.ends, until_us, rounds == most)
            if why != GO_ON:
                return int(why)
        if at[STAGE] == EVENTS:
            if not let_happen(w, terms.together):
                return LOG_FULL
            at[STAGE] = ROUND if at[SOMETHING] or at[WAKE] <= at[NOW] else CHOOSE
        if at[STAGE] == ROUND:
            if not start_planned(w, sky, terms):
                return NO_ROOM
            rounds += 1
            at[STAGE] = CHOOSE


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
        """What does not change."""
        return PlanTerms(self.policy.compress == "early", ties == "together", ties == "submit-first")

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
        memory.columns.cursor[GRAIN : BRIEF + 1] = *memory.rule, *PlanRound(0, trust=True)

    def give_notes(self, mark: Ints, memory: Plan) -> None:
        """Let the plan have noted what the marks say, and the ledger what is promised."""
        core = self.kernel.core
        memory.freed = int(mark[FREED])
        core.state.promises = self.policy.promised(core.view, memory)
