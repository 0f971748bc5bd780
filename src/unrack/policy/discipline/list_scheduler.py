"""List schedulers: an order, a placement and a rule for which jobs may pass the head of the queue.

A pass over the queue runs compiled (``queue_kernel.py``). Where a place is a choice, by a rule for what a job asks for
or by a function of the user's own, the pass stops and asks (``queue_pass.py``).
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property

import numpy as np

from unrack.errors import PolicyError
from unrack.kernels.arrays import Ints
from unrack.policy.contract import Ability, Decision, Reject, Start, Traits
from unrack.policy.discipline.heads_kernel import PassRule
from unrack.policy.discipline.queue_kernel import Backfill, nothing_new
from unrack.policy.discipline.queue_pass import NO_SECOND, Chooser, Passes
from unrack.policy.discipline.skyline.choosing import Choices
from unrack.policy.discipline.skyline.columns import limits_of, met
from unrack.policy.orders import Order, changes_us, in_order, is_fixed
from unrack.policy.placement.any_resource import AnyResource
from unrack.policy.placement.lent_memory import FITS
from unrack.policy.placement.node_kernel import room_for
from unrack.policy.pools.pool_placement import next_second
from unrack.policy.pools.pool_policy import Pooled
from unrack.reasons import Code, Reason
from unrack.units import NEVER_US
from unrack.view import Draft, View
from unrack.workload.job import CORES, MEMORY, TASKS

UNLIMITED = 2**40


@dataclass(slots=True)
class ListNotes(Passes):
    """What a list scheduler remembers: what the last pass had seen."""

    # `view.openings` at the last pass, and the last job that was submitted by then
    releases: int = -1
    last_job: int = -1
    complete: bool = False  # whether the last pass left nothing that could start in a second pass at once
    # as long as what was looked at stays, when the first of the jobs that were seen to has a place by time alone, µs
    looked: tuple[int, int, str] = (-1, -1, "")
    seen_to: set[int] = field(default_factory=set)
    opens_us: int = NEVER_US
    started_us: int = -1  # when a job was last started; -1: none was


@dataclass(frozen=True)
class ListScheduler(AnyResource):
    """Considers the queue in an order and starts what fits.

    Parameters
    ----------
    backfill
        ``"none"``: no job passes the head. ``"any"``: any that fits now. ``"easy"``: any that does not delay the head.
    depth
        How many jobs behind the head are considered.
    backfill_order
        In which order jobs behind the head are tried: a name in ``ORDERS`` or a function; ``None``: as ``order``. With
        EASY backfill and ``"sjf"`` this is EASY-SJBF: the head by arrival, jobs that may pass it by shortest first.
    wait
        Whether jobs wait; False: a job without a place when it comes is turned away, as services are.
    pools
        The rule for pools of devices with its parameters; ``None``: that of ``place``, as it is.
    **others
        Those of :class:`unrack.policy.placement.any_resource.AnyResource`; ``place`` may also be a function
        ``place(free, total, job) -> Lease | None``.

    Raises
    ------
    PolicyError
        There is an order of those that pass, and none may.
    """

    backfill: str = "none"
    _: KW_ONLY
    depth: int = UNLIMITED
    label: str = "list"
    backfill_order: str | Order | None = None
    wait: bool = True
    pools: Pooled | None = None

    def __post_init__(self) -> None:
        if self.backfill_order is not None and self.backfill == "none":
            raise PolicyError(
                f"policy {self.label}", "backfill_order, and no job may pass", "backfill any or easy beside it"
            )

    @cached_property
    def traits(self) -> Traits:
        """Those of any scheduler; where no time to come is asked about, it decides a step at a time."""
        does = {Ability.SEEDED} if self.place == "random-fit" else set()
        found = super().traits
        return replace(found, stepwise=self.backfill != "easy", does=found.does | does)

    def seeded(self, seed: int) -> ListScheduler:
        """The same with the seed of the run; asked of random fit, which draws."""
        return replace(self, pools=replace(self.mixed.pooled, seed=seed))

    def begin(self, view: View) -> ListNotes:
        """Nothing was seen yet."""
        notes = ListNotes.begin(view, *self.how(view))
        bounded = self.backfill == "any" and self.depth < UNLIMITED  # a pass made anew would look at more jobs
        notes.stepwise = self.traits.stepwise and not bounded
        if self.place == "random-fit":  # draws from when it begins on
            notes.notes = self.placement.begin(view)
        notes.later = not notes.stepwise or bool(view.cluster.places.windows)
        return notes

    def decide(self, view: View, memory: ListNotes, now: int) -> tuple[list[Decision], ListNotes]:
        """Start what may start now; turn away the rest if none waits."""
        waiting = view.waiting
        if memory.going != (now, view.version, waiting):
            memory.turn = None
            if waiting and memory.outgrown(view, self):
                memory = self.begin(view)
        starts = self._starts(view, memory, now) if waiting else []
        memory.started_us = now if starts else memory.started_us
        decisions: list[Decision] = memory.by_rule(view, self, starts)
        if not self.wait and waiting > len(starts) and memory.turn is None:
            started = {start.lease.job for start in starts}
            away = [job for job in view.queue.tolist() if job not in started]
            draft = Draft(view, now)
            for start in starts:
                draft.start(start.lease)
            notes = self.notes(view, memory) if self.lends else None  # of memory that may be elsewhere in detail
            lacks = [None if notes is None else self.placement.why(draft.view, notes, job, now) for job in away]
            none = Reason(Code.NO_ROOM, "a place when it came")
            decisions += [Reject(job, lack or none) for job, lack in zip(away, lacks, strict=True)]
        return decisions, memory

    def _starts(self, view: View, memory: ListNotes, now: int) -> list[Start]:
        def choices(now: int, trust: bool) -> Choices:
            return Choices(self.placement, self.notes(view, memory), view, now, trust, memory)

        if memory.turn is not None:
            return memory.pass_over(view, *memory.turn, now, self.pass_rule, choices)
        if self.nothing_new(view, memory, now, choices):
            return []
        jobs, second = in_order(self.order, view, now, memory.noted), NO_SECOND
        if self.backfill_order is not None:
            second = places_in(jobs, in_order(self.backfill_order, view, now, memory.noted))
        if not jobs.flags.writeable:  # a kernel is compiled for either kind
            jobs = jobs.copy()
        starts = memory.pass_over(view, jobs, second, now, self.pass_rule, choices)
        settles = self.settles and not len(memory.columns.windows) and not memory.chosen
        memory.complete = settles and (self.backfill != "easy" or (self.order == "fcfs" and memory.alike))
        if memory.chosen and memory.steps and self.backfill == "any" and self.depth == UNLIMITED:
            memory.complete = not starts and not memory.opening  # in whatever order
        return starts

    @cached_property
    def pass_rule(self) -> PassRule:
        """How passes go."""
        fit = FITS.get(self.place, 0) if isinstance(self.place, str) else 0
        return PassRule(BACKFILL[self.backfill], self.depth, self.nodes == "whole", fit)

    @cached_property
    def settles(self) -> bool:
        """Whether time alone changes no job that is looked at: not with a depth, as others are once one has started."""
        bounded = self.backfill != "none" and self.depth < UNLIMITED
        return is_fixed(self.order) and is_fixed(self.backfill_order or self.order) and not bounded

    def nothing_new(self, view: View, memory: ListNotes, now: int, choices: Chooser) -> bool:
        """Whether a pass can be spared, as the function of that name of the kernel says; notes what was seen."""
        releases, last_job = memory.releases, memory.last_job
        memory.releases = view.openings
        newest = view.last_waiting
        memory.last_job = max(last_job, newest)
        if not memory.complete or releases != memory.releases:
            return False
        easy = self.backfill == "easy"
        in_vain = memory.chosen and memory.in_vain(view, newest, choices, now)
        fits = not in_vain and view.cores_asked(newest) <= view.free_cores
        return nothing_new(
            easy=easy, complete=True, released=False, newest=newest, last_job=last_job, fits=fits,
            overdue=easy and view.first_end_us <= now,
        )  # fmt: skip

    def next_round(self, view: View, memory: ListNotes, now: int) -> int | None:
        """When time alone gives one that was tried a place, or puts another first that may have one.

        Most fit at events alone, in whatever order.
        """
        opens = self._opens_us(view, memory, now)
        if self.mixed.pooled.authors and memory.started_us == now and view.waiting:
            opens = next_second(now) if opens is None else min(opens, next_second(now))
        every = self.backfill == "any" and self.depth == UNLIMITED
        again = changes_us(memory.noted, now) if memory.noted and view.waiting > 1 and not every else None
        return again if opens is None else opens if again is None else min(opens, again)

    def _opens_us(self, view: View, memory: ListNotes, now: int) -> int | None:
        """When time alone gives one of those that a deadline has kept from a place one; ``None``: never."""
        if not memory.opening:
            return None
        # while they stay, no answer changes
        state = view.releases, view.running_count, self.placement.rule(memory.notes)
        if memory.looked != state or memory.opens_us <= now:
            memory.looked, memory.opens_us = state, NEVER_US
            memory.seen_to.clear()
        new = [job for job in memory.opening if job not in memory.seen_to]
        memory.seen_to.update(new)
        opens = self.placement.opens_us(view, memory.notes, new, now) if new else None
        memory.opens_us = memory.opens_us if opens is None else min(memory.opens_us, opens)
        return memory.opens_us if memory.opens_us < NEVER_US else None

    def why(self, view: View, memory: ListNotes, job: int, now: int) -> Reason:
        """No room, behind the head, or it would delay the head."""
        notes = self.notes(view, memory)
        missing = (
            short_of(view, job, self.nodes == "whole") if notes is None else self.placement.why(view, notes, job, now)
        )
        if missing is not None:
            return missing
        jobs = in_order(self.order, view, now, memory.noted)
        head = self._in_the_way(view, notes, jobs, job, now)
        if head < 0:
            return Reason(Code.NOT_YET)
        if self.backfill == "none":
            return Reason(Code.BEHIND, f"job {view.job(head).id}")
        behind = jobs if self.backfill_order is None else in_order(self.backfill_order, view, now, memory.noted)
        place = 1 + int(np.flatnonzero(behind[behind != head] == job)[0])
        if place > self.depth:
            return Reason(Code.TOO_DEEP, "jobs considered behind the head", place, self.depth)
        if self.backfill == "any" and notes is not None:
            return Reason(Code.NOT_YET)
        return Reason(Code.WOULD_DELAY, f"job {view.job(head).id}")

    def _in_the_way(self, view: View, notes: object, jobs: Ints, job: int, now: int) -> int:
        """The head that a job is behind; -1: none. One that lacks nothing but room in a limit is none."""
        meets, of = met(view.columns.open_to), view.columns.set_of
        alike, heads = len(meets) == 1 and not limits_of(view).any(), list[int]()
        for other in jobs[: int(np.flatnonzero(jobs == job)[0])].tolist():
            if alike:
                return int(other)
            missing = None if notes is None else self.placement.why(view, notes, other, now)
            passed = self.backfill != "none" and any(meets[of[other], of[head]] for head in heads)
            if passed or (missing is not None and missing.code == Code.LIMIT):
                continue
            if meets[of[other], of[job]]:
                return int(other)
            heads.append(other)
        return heads[0] if heads else -1


BACKFILL = {"none": int(Backfill.NONE), "any": int(Backfill.ANY), "easy": int(Backfill.EASY)}


def places_in(jobs: Ints, behind: Ints) -> Ints:
    """int64[waiting]: where in ``jobs`` those of ``behind`` are, in the order of ``behind``."""
    by_number = np.argsort(jobs)
    places: Ints = by_number[np.searchsorted(jobs, behind, sorter=by_number)]
    return places


def short_of(view: View, job: int, whole: bool) -> Reason | None:
    """What there is too little of now for a job to start; ``None`` if it fits."""
    tasks, cores, mb = (int(view.asks[row, job]) for row in (TASKS, CORES, MEMORY))
    free, total = view.columns.free, view.columns.open_to[view.columns.set_of[job]]
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
