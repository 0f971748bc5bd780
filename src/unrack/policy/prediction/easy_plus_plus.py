"""EASY++: EASY backfill on predicted run times, shortest predicted first (Tsafrir, Etsion and Feitelson 2007).

"Backfilling using system-generated predictions rather than user runtime estimates", IEEE TPDS 18(6). The run time of a
job is predicted as the average of its user's last two that ended; a prediction that a job outlives is corrected step by
step; the head of the queue is the job that came first, and whoever may pass it is tried in order of predicted run time.
The request still is the upper limit of every prediction, as it is when the job would be killed.

What the paper leaves open, or other simulators do otherwise, are parameters: how predictions are corrected, whether a
correction gives the queue a pass of its own, and whether predictions of waiting jobs follow their user's history. Where
nothing is said, all three are as in the program that the published schedules come from.

O(waiting x nodes) a pass at worst, as EASY, after O(waiting log waiting + running) for the predictions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

from unrack.policy.columns import columns_of
from unrack.policy.contract import Ability, Decision, Need, Start, Traits
from unrack.policy.discipline.list_scheduler import NO_SECOND, UNLIMITED, Buffers, choose, places_in, short_of
from unrack.policy.discipline.python_pass import Placement, plain_pass
from unrack.policy.discipline.queue_kernel import Backfill, PassRule
from unrack.policy.orders import Order, in_order, is_fixed, reads_of
from unrack.policy.placement.local_memory import FITS
from unrack.policy.prediction.correction import Correction, expected_end_us
from unrack.policy.prediction.forecast import Forecast, begun, update
from unrack.reasons import Code, Reason
from unrack.units import NEVER_US
from unrack.view import Expecting, View
from unrack.workload.job import ESTIMATE

CORRECTIONS = {rule.name.lower().replace("_", "-"): rule for rule in Correction}
TIMES = ("submission", "pass")
"""When a waiting job's run time is predicted."""
ROUNDS = ("events", "corrections")
"""Whether a corrected prediction gives the queue a pass of its own."""


@dataclass(slots=True)
class Notes:
    """What is remembered between rounds."""

    forecast: Forecast  # predicted run times and ends
    buffers: Buffers = field(default_factory=Buffers)  # room for a pass's answer, and what the last pass had seen
    # after the last pass: the first predicted end of a running job, and the first that will be corrected if the job
    # does not end, µs; a time after everything: none
    first_us: int = NEVER_US
    corrected_us: int = NEVER_US


@dataclass(frozen=True)
class EasyPlusPlus:
    """EASY backfill that plans on predicted run times."""

    # what becomes of a prediction that is outlived: ``"steps"``, ``"request"``, ``"double"`` or ``"added-steps"``
    correction: str = "steps"
    # ``"submission"``: the run time of a job is predicted once; ``"pass"``: the prediction of a waiting job follows
    # its user's history until it starts
    predict_at: str = "submission"
    # ``"events"``: what a corrected prediction changes is seen at the next event; ``"corrections"``: it gives the
    # queue a pass of its own
    rounds: str = "events"
    # In which order jobs behind the head are tried: a name in ``ORDERS`` or a function. With ``"fcfs"`` this is the
    # paper's EASY+.
    backfill_order: str | Order = "sjf"
    # place, nodes, label: as for :class:`unrack.policy.discipline.list_scheduler.ListScheduler`; ``place`` is one for
    # nodes, or a function
    place: str | Placement = "first-fit"
    nodes: str = "shared"
    label: str = "easy++"

    order: ClassVar[str] = "fcfs"

    @cached_property
    def traits(self) -> Traits:
        """It looks at who submitted a job, and at how long that user's last two ran."""
        whole = self.nodes == "whole"
        return Traits(
            needs=frozenset({Need.USERS}),
            reads=reads_of(self.backfill_order),
            whole_nodes=whole,
            learns=True,
            does=frozenset({Ability.EXPECTED_END_US}),
        )

    @property
    def name(self) -> str:
        """The label."""
        return self.label

    @cached_property
    def _once(self) -> bool:
        return self.predict_at == "submission"

    @cached_property
    def _rule(self) -> int:
        return int(CORRECTIONS[self.correction])

    def begin(self, view: View) -> Notes:
        """Learn from the jobs that have ended so far."""
        return Notes(begun(view, self._once))

    def decide(self, view: View, memory: Notes, now: int) -> tuple[list[Decision], Notes]:
        """Start what may start now."""
        if not view.waiting or self._nothing_new(view, memory, now):
            return [], memory
        forecast = memory.forecast
        update(view, forecast, now, self._once, self._rule)
        if isinstance(self.place, str):
            decisions = self._compiled_pass(view, memory, self.place, now)
        else:
            seen = expecting(view, forecast)
            behind = in_order(self.backfill_order, seen, now)
            decisions = plain_pass(seen, view.queue, self.place, Backfill.EASY, UNLIMITED, now, behind)
        memory.first_us = int(forecast.running[0, 0]) if forecast.count else NEVER_US
        memory.corrected_us = forecast.next_us
        for start in decisions:
            assert isinstance(start, Start)
            job = start.lease.job
            run = int(forecast.asks[ESTIMATE, job])
            memory.first_us = min(memory.first_us, now + run)
            if run < view.asks[ESTIMATE, job]:
                memory.corrected_us = min(memory.corrected_us, now + run)
        return decisions, memory

    def _compiled_pass(self, view: View, memory: Notes, place: str, now: int) -> list[Decision]:
        room, forecast = memory.buffers, memory.forecast
        room.alike = self.nodes == "shared" and view.equal_cores()
        room.complete = room.alike and is_fixed(self.backfill_order)
        jobs = view.queue.copy()
        if self.backfill_order == "sjf":
            second = forecast.asks[ESTIMATE].take(jobs).argsort(kind="stable") if len(jobs) > 2 else NO_SECOND
        elif self.backfill_order == "fcfs":
            second = NO_SECOND
        else:
            second = places_in(jobs, in_order(self.backfill_order, expecting(view, forecast), now))
        asks, running = forecast.asks.view(), forecast.running.view()
        asks.flags.writeable = running.flags.writeable = False  # as the ledger's: a kernel is compiled for either kind
        seen = columns_of(view)._replace(asks=asks, running=running, running_count=forecast.count)
        rule = PassRule(int(Backfill.EASY), UNLIMITED, self.nodes == "whole", FITS[place])
        return choose(rule, seen, jobs, room, now, second)

    def _nothing_new(self, view: View, memory: Notes, now: int) -> bool:
        """Whether a pass can be spared, as of EASY: and no run time was learned since the last one, or outlived."""
        room = memory.buffers
        same = room.complete and room.releases == view.releases and memory.forecast.ended == view.ended
        last, newest = room.last_job, view.last_waiting
        room.releases, room.last_job = view.releases, max(last, newest)
        if not same or newest > last + 1 or memory.first_us <= now:
            return False
        fits = newest > last and (view.cores_asked(newest) <= view.free_cores or not view.equal_cores())
        return not fits and not (newest > last and self._once)

    def expected_end_us(self, view: View, memory: Notes, job: int, now: int) -> int:
        """When a running job is expected to end if it has not before ``now``, µs."""
        runs, asks = view.runs, memory.forecast.asks
        assert runs is not None
        start, run, request = runs.started_us[job], asks[ESTIMATE, job], view.asks[ESTIMATE, job]
        return expected_end_us(start, run, request, now - 1, self._rule)

    def next_round(self, view: View, memory: Notes, now: int) -> int | None:
        """When a prediction will be corrected if its job has not ended: the head's reservation moves then."""
        if self.rounds == "events" or not view.waiting or memory.corrected_us == NEVER_US:
            return None
        return memory.corrected_us

    def why(self, view: View, memory: Notes, job: int, now: int) -> Reason:
        """No room, or it would delay the head."""
        missing = short_of(view, job, self.nodes == "whole")
        if missing is not None:
            return missing
        head = int(view.queue[0])
        return Reason(Code.NOT_YET) if head == job else Reason(Code.WOULD_DELAY, f"job {view.job(head).id}")


def expecting(view: View, forecast: Forecast) -> Expecting:
    """The view as the forecast has it."""
    return Expecting(view, forecast.asks, forecast.running, forecast.count)
