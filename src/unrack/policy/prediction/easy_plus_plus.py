"""EASY++: EASY backfill on predicted run times, shortest predicted first (Tsafrir, Etsion and Feitelson 2007).

"Backfilling using system-generated predictions rather than user runtime estimates", IEEE TPDS 18(6). The run time of a
job is predicted as the average of its user's last two that ended; a prediction that a job outlives is corrected step by
step; the head of the queue is the job that came first, and jobs that may pass it are tried in order of predicted run
time. The request still is the upper limit of every prediction, as it is when the job would be killed.

What the paper leaves open, or other simulators do otherwise, are parameters: how predictions are corrected, whether a
correction gives the queue a pass of its own, and whether predictions of waiting jobs follow their user's history. Where
nothing is said, all three are as in the program that the published schedules come from.

O(waiting x nodes) a pass at worst, as EASY, after O(waiting log waiting + running) for the predictions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np

from unrack.kernels.arrays import Ints
from unrack.policy.contract import Ability, Decision, Need, Traits
from unrack.policy.discipline.heads_kernel import PassRule
from unrack.policy.discipline.list_scheduler import UNLIMITED, ListNotes, places_in, short_of
from unrack.policy.discipline.queue_kernel import Backfill
from unrack.policy.discipline.queue_pass import NO_SECOND
from unrack.policy.discipline.skyline.choosing import Choices, Chosen
from unrack.policy.orders import Order, in_order, is_fixed, reads_of
from unrack.policy.own.answers import checked_lease
from unrack.policy.placement.any_resource import NodePlacement, OnNodes
from unrack.policy.placement.lent_memory import FITS, LocalMemory
from unrack.policy.placement.mixed import Mixed
from unrack.policy.prediction.forecast import Correction, Forecast, begun, expected_end_us, update
from unrack.reasons import Code, Reason
from unrack.sealed import sealed
from unrack.units import NEVER_US
from unrack.view import AssumedRun, Expecting, View
from unrack.workload.job import ESTIMATE

CORRECTIONS = {rule.name.lower().replace("_", "-"): rule for rule in Correction}
TIMES = ("submission", "pass")
"""When a waiting job's run time is predicted."""
ROUNDS = ("events", "corrections")
"""Whether a corrected prediction gives the queue a pass of its own."""


@dataclass(slots=True)
class PlusPlusNotes(ListNotes):
    """What is remembered between rounds."""

    in_pass: ClassVar[bool] = False  # of running jobs a kernel knows the predicted end alone, not the booked one

    forecast: Forecast = field(default_factory=Forecast.empty)  # predicted run times and ends
    # after the last pass: the first predicted end of a running job, and the first that will be corrected if the job
    # does not end, µs; a time after everything: none
    first_us: int = NEVER_US
    corrected_us: int = NEVER_US
    taken: tuple[Ints, Ints] | None = None  # the forecast's columns that were taken over last

    def look(self, view: View) -> None:
        """Take over columns of the ledger, with predicted run times and ends in place of those asked for."""
        seen, forecast = view.columns, self.forecast
        asks, running = forecast.asks, forecast.running
        taken = self.taken is not None and self.taken[0] is asks and self.taken[1] is running
        mark = self.mark(view)
        if taken and self.replaced == mark and self.columns.free is seen.free:
            return
        self.replaced, self.taken = mark, (asks, running)
        self.take_over(view, asks=sealed(asks), running=sealed(running))


class OnForecast(Choices):
    """Where a function of the user's own places jobs, with the run times that are predicted."""

    def __init__(self, place: NodePlacement, view: Expecting, now: int) -> None:
        self.place, self.slow, self.timeline = place, False, None
        self.placement, self.notes = OnNodes(own=place), None
        self.view, self.now = view, now

    timeless = False  # what the function looks at is not known
    detaches = False

    def rule(self) -> str:
        """Of no interest."""
        return ""

    def find(
        self, job: int, start_us: int, free: Ints, places: Ints, left: Ints, beside: Mapping[int, AssumedRun],
        lendable: Ints | None = None,
    ) -> Chosen | None:  # fmt: skip
        """As the function says."""
        answer = self.place(free.copy(), self.view.total, self.view.job(job))
        lease = checked_lease(self.place, answer, job, self.view, self.now)
        return None if lease is None else Chosen(lease, max(1, int(self.view.asks[ESTIMATE, job])), {})

    def find_now(self, job: int) -> Chosen | None:
        """As the function says."""
        none = np.empty(0, np.int64)
        return self.find(job, self.now, self.view.free, none, none, {})

    def has_place(
        self, job: int, time: int, free: Ints, places: Ints, left: Ints, beside: Mapping[int, AssumedRun]
    ) -> bool:
        """Whether the function finds nodes."""
        return self.find(job, time, free, places, left, beside) is not None

    def settle(self, start_us: int) -> None:
        """Nothing is kept."""

    def refuse(self) -> None:
        """Nothing is kept."""


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
    place: str | NodePlacement = "first-fit"
    nodes: str = "shared"
    label: str = "easy++"

    order: ClassVar[str] = "fcfs"

    @cached_property
    def traits(self) -> Traits:
        """It looks at the user of a job, and at how long that user's last two ran."""
        whole = self.nodes == "whole"
        return Traits(
            needs=frozenset({Need.USERS}),
            places=frozenset({Need.COUNTED}) if isinstance(self.place, str) else frozenset(),
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

    @cached_property
    def _mixed(self) -> Mixed:
        assert isinstance(self.place, str)
        return Mixed(self.place, LocalMemory(self.place), self.nodes == "whole")

    @cached_property
    def _passes(self) -> PassRule:
        fit = FITS[self.place] if isinstance(self.place, str) else 0
        return PassRule(int(Backfill.EASY), UNLIMITED, self.nodes == "whole", fit)

    def begin(self, view: View) -> PlusPlusNotes:
        """Learn from the jobs that have ended so far."""
        notes = PlusPlusNotes.begin(view, self.nodes == "whole", self.place, not isinstance(self.place, str))
        notes.forecast = begun(view, self._once)
        return notes

    def decide(self, view: View, memory: PlusPlusNotes, now: int) -> tuple[list[Decision], PlusPlusNotes]:
        """Start what may start now."""
        if not view.waiting or self._nothing_new(view, memory, now):
            return [], memory
        forecast = memory.forecast
        update(view, forecast, now, self._once, self._rule)
        memory.note_jobs(view)
        jobs, seen = view.queue.copy(), expecting(view, forecast)
        if self.backfill_order == "sjf" and not memory.chosen:
            second = forecast.asks[ESTIMATE].take(jobs).argsort(kind="stable") if len(jobs) > 2 else NO_SECOND
        elif self.backfill_order == "fcfs":
            second = NO_SECOND
        else:
            second = places_in(jobs, in_order(self.backfill_order, seen, now, memory.noted))

        def choices(now: int, trust: bool) -> Choices:
            if isinstance(self.place, str):
                memory.notes = self._mixed.begin(seen) if memory.notes is None else memory.notes
                return Choices(self._mixed, memory.notes, seen, now, trust, memory)
            return OnForecast(self.place, seen, now)

        starts = memory.pass_over(seen, jobs, second, now, self._passes, choices)
        memory.complete = memory.alike and is_fixed(self.backfill_order)
        memory.first_us = int(forecast.running[0, 0]) if forecast.count else NEVER_US
        memory.corrected_us = forecast.next_us
        for start in starts:
            job = start.lease.job
            run = int(forecast.asks[ESTIMATE, job])
            memory.first_us = min(memory.first_us, now + run)
            if run < view.asks[ESTIMATE, job]:
                memory.corrected_us = min(memory.corrected_us, now + run)
        return [*starts], memory

    def _nothing_new(self, view: View, memory: PlusPlusNotes, now: int) -> bool:
        """Whether a pass can be spared, as of EASY: and no run time was learned since the last one, or outlived."""
        same = memory.complete and memory.releases == view.openings and memory.forecast.ended == view.ended
        last, newest = memory.last_job, view.last_waiting
        memory.releases, memory.last_job = view.openings, max(last, newest)
        if not same or newest > last + 1 or memory.first_us <= now:
            return False
        fits = newest > last and view.cores_asked(newest) <= view.free_cores
        return not fits and not (newest > last and self._once)

    def expected_end_us(self, view: View, memory: PlusPlusNotes, job: int, now: int) -> int:
        """When a running job is expected to end if it has not before ``now``, µs."""
        runs, asks = view.runs, memory.forecast.asks
        assert runs is not None
        start, run, request = runs.started_us[job], asks[ESTIMATE, job], view.asks[ESTIMATE, job]
        return expected_end_us(start, run, request, now - 1, self._rule)

    def next_round(self, view: View, memory: PlusPlusNotes, now: int) -> int | None:
        """When a prediction will be corrected if its job has not ended: the head's reservation moves then."""
        if self.rounds == "events" or not view.waiting or memory.corrected_us == NEVER_US:
            return None
        return memory.corrected_us

    def why(self, view: View, memory: PlusPlusNotes, job: int, now: int) -> Reason:
        """No room, or it would delay the head."""
        missing = short_of(view, job, self.nodes == "whole")
        if missing is not None:
            return missing
        head = int(view.queue[0])
        return Reason(Code.NOT_YET) if head == job else Reason(Code.WOULD_DELAY, f"job {view.job(head).id}")


def expecting(view: View, forecast: Forecast) -> Expecting:
    """The view as the forecast has it."""
    return Expecting(view, forecast.asks, forecast.running, forecast.count)
