"""Passes over the queue, and what a list scheduler remembers from one to the next."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from unrack.jit import plain
from unrack.kernels.arrays import Ints
from unrack.ledger.columns import grown
from unrack.ledger.jobs import QUEUED
from unrack.policy.contract import Start
from unrack.policy.discipline import walk
from unrack.policy.discipline.heads_kernel import PassRule, has_none
from unrack.policy.discipline.pass_choices import PassChoices
from unrack.policy.discipline.queue_kernel import Backfill, pass_over
from unrack.policy.discipline.skyline.choosing import Choices
from unrack.policy.discipline.skyline.columns import (
    BOOKED,
    CHOICE,
    CHOOSE,
    CLOSES_US,
    JOB,
    LENT,
    OPENS_US,
    SHARERS,
    SHORT,
    more_room,
)
from unrack.policy.discipline.skyline.reserved import Reserved
from unrack.view import DeviceLine, View

Chooser = Callable[[int, bool], Choices]
"""(now, trust) → choices of a round."""
NO_SECOND: Ints = np.empty(0, np.int64)
"""Those behind the head are tried in the order of the queue."""
HAS_NONE = plain(has_none)


@dataclass(slots=True)
class Blocked:
    """The head that blocked the queue in the last pass, and what had been given back by then (``view.releases``).

    Without backfill no job starts until it does.
    """

    head: int = -1
    releases: int = -1

    def still(self, view: View, jobs: Ints) -> bool:
        """Whether the first of ``jobs`` still has no place: nothing was given back since it had none."""
        return int(jobs[0]) == self.head and view.releases == self.releases

    def note(self, view: View, jobs: Ints, started: int) -> None:
        """A pass without backfill started the first ``started`` of ``jobs``."""
        self.head = int(jobs[started]) if started < len(jobs) else -1
        self.releases = view.releases


@dataclass(slots=True)
class Passes(Reserved):
    """What is known of jobs and of the ledger from one pass to the next."""

    kinds: dict[object, int] = field(default_factory=dict)  # to the number of a kind
    # of the ledger after the last pass: as long as they stay, nothing was given back and nothing started
    seen: tuple[int, int] = (-1, -1)
    alike: bool = False  # whether counting cores said all in the last pass
    stepwise: bool = False  # whether the policy is asked again once what it decided is done
    # (time, version of the ledger, jobs that wait) once what was decided last is done: the pass then goes on in the
    # order `turn`, or is over
    going: tuple[int, int, int] | None = None
    turn: tuple[Ints, Ints] | None = None
    made: Choices | None = None  # of passes that go in steps: kept from round to round
    kinds_of: int = 0  # of how many jobs the kinds are noted
    opening: list[int] = field(default_factory=list)  # jobs without a place that time alone may give one
    blocked: Blocked = field(default_factory=Blocked)  # of the main loop of a Slurm-like scheduler
    opens: tuple[Ints, Ints] = (NO_SECOND, NO_SECOND)  # windows, and when they open and close, µs: ascending

    def pass_over(
        self, view: View, order: Ints, second: Ints, now: int, rule: PassRule, choices: Chooser
    ) -> list[Start]:
        """Choose which jobs start now; parameters as of :func:`unrack.policy.discipline.queue_kernel.pass_over`."""
        running, free_cores, released, equal = view.running_count, view.free_cores, view.releases, view.equal_cores()
        self.look(view)
        far, step, begins = self.columns.walk, self.steps, self.turn is None
        made: Choices | None = None
        asked: PassChoices | None = None
        kernel: Callable[..., int] = pass_over
        far[walk.TAKER], far[walk.TAKES] = -1, step
        if begins:
            far[walk.STAGE], far[walk.FREE_CORES] = walk.BEGIN, free_cores
            self.note_moments(now)
            self._forget(self.seen == (released, running))
            # each task asks one core and no memory, on shared nodes, and nothing is chosen
            self.alike = equal and not (self.rule.whole or self.chosen or len(self.columns.windows))
        else:  # what was decided so far is done: on with the job that asked for a choice then
            far[walk.STAGE], far[walk.COUNT], far[walk.ROWS], far[walk.CLAIMS] = walk.LOOK, 0, 0, 0
        line: DeviceLine | None = None
        if self._in_line(view, order):
            made = choices(now, False)
            line = self._rested(made)
        if line is not None or (self.lends and self.only_lent):
            made = made or choices(now, False)
            kernel, wants = made.alone.pass_over, self.columns.wants[order]
            there = wants >= CHOICE if line is not None else wants == LENT
            for job in order[(self.columns.kind[order] < 0) & there].tolist():
                self.kind_of(job, made)
        elif view.columns.devices is not None and not self.lends:
            made = self.choices(view, now, choices)
            kernel = made.placement.pass_over(view, made.notes) or kernel
            if begins and self.chosen:
                self._note_kinds(view, made)
        if self.chosen and view.cluster.devices.detach_us and not step:
            asked = PassChoices(self, made or choices(now, False), rule, step)
        far[walk.ALIKE] = self.goes_by_kind(view)
        far[walk.BACKFILL : walk.EQUAL + 1] = *rule, self.alike
        while True:
            if line is not None and made is not None:
                alone = made.alone if self.lends else made.alone.without_loans
                kernel = partial(alone.pass_over, line=line.columns.kernel)
            count = kernel(order, second, now, running, self.columns.kernel)
            if count >= 0 or (count == CHOOSE and step and far[walk.COUNT] > 0):
                break
            if count == CHOOSE:
                asked = asked or PassChoices(self, made or self.choices(view, now, choices), rule, step)
                asked.answer()
                self.asked += 1
            elif line is not None and self.columns.cursor[SHORT] in (BOOKED, SHARERS):
                assert made is not None
                if line.rests:
                    line = made.timeline
                else:
                    line.more(bool(self.columns.cursor[SHORT] == SHARERS))
            else:
                self.replace(**more_room(self.columns, len(order), running))
        self.turn = (order, second) if count < 0 else None
        count = int(far[walk.COUNT])
        self.going = (now, view.version + count, view.waiting - count) if step and count > 0 else None
        if not self.chosen:
            return self.counted(count)
        chosen, taker = asked.end() if asked is not None else {}, int(far[walk.TAKER])
        if taker >= 0 and taker not in chosen:
            assert made is not None
            chosen[taker] = Start(made.placement.found(view, made.notes, taker, int(far[walk.ANSWER])))
        jobs = self.columns.started[JOB, :count]
        self.columns.kind[jobs] = -1
        self.seen = released, running + count
        if self.turn is None:
            self.opening = self._opening(order, second, rule) if far[walk.CLOSES] else []
        shares = line.made(jobs) if line is not None and not line.rests else {}
        for s, job in enumerate(jobs.tolist()):
            self.leases.pop(job, None)
            if job in shares:
                chosen[job] = Start(self.lease(s)._replace(shares=shares[job]))
        return [chosen.get(job) or Start(self.lease(s)) for s, job in enumerate(jobs.tolist())]

    def _in_line(self, view: View, order: Ints) -> bool:
        """Whether all is chosen in kernels, which know the devices over time."""
        apart = self.steps or len(self.columns.windows) or view.contention is not None or view.cluster.devices.detach_us
        return self.asked > 0 and not apart and self.chosen_in_kernel(order)

    def _rested(self, made: Choices) -> DeviceLine | None:
        """The devices over time, which are taken over once they are asked about; ``None``: no kernel knows the rule."""
        if made.alone.rule < 0 or not made.placement.timeless:
            return None
        if self.line is None:
            return made.timeline
        self.line.rest()
        return self.line

    def choices(self, view: View, now: int, anew: Chooser) -> Choices:
        """Those of the round; of passes that go in steps they are kept, as these ask of now alone."""
        if not self.steps:
            return anew(now, False)
        if self.made is None or self.made.view is not view:
            self.made = anew(now, False)
        self.made.now = now
        return self.made

    def _note_kinds(self, view: View, made: Choices) -> None:
        """Note the kinds of jobs that have come since."""
        first, self.kinds_of, status = self.kinds_of, view.jobs, view.status
        for job in range(first, self.kinds_of):
            if self.columns.wants[job] >= CHOICE and status[job] == QUEUED:
                self.kind_of(job, made)

    def in_vain(self, view: View, job: int, choices: Chooser, now: int) -> bool:
        """Whether a new job has no place, as one of its kind had none."""
        if self.columns.wants[job] < CHOICE:
            return False
        self.kind_of(job, self.choices(view, now, choices))
        return self.has_none(job, now)

    @property
    def steps(self) -> bool:
        """Whether a pass stops before each choice until what it has decided is done: no time to come is asked about."""
        return self.stepwise and not self.lends and not len(self.columns.windows)

    @property
    def in_steps(self) -> bool:
        """Whether the pass goes on once what it decided is done."""
        return self.turn is not None

    def _forget(self, same: bool) -> None:
        """Forget which kinds have no place; ``same``: nothing was given back since, so that time alone counts."""
        refused = self.columns.refused
        if not same:
            refused[:] = 0
        elif self.columns.walk[walk.CLOSES]:
            refused[refused >= walk.LATE] = 0
        if self.columns.walk[walk.CLOSES]:
            self.columns.walk[walk.CLOSES], self.columns.late[walk.IS_CLOSED] = 0, 0

    def goes_by_kind(self, view: View) -> bool:
        """Whether jobs of a kind go to the same places, however long they run; by contention lenders are ranked."""
        return self.in_kernel and not (self.modelled or (self.lends and view.contention is not None))

    def has_none(self, job: int, now: int) -> bool:
        """As of :func:`unrack.policy.discipline.heads_kernel.has_none`."""
        return HAS_NONE(job, now, self.columns)

    def note_moments(self, now: int, more: Ints = NO_SECOND) -> None:
        """When more is free though no job ends: windows open and close after ``now``; and others, µs."""
        windows = self.columns.windows
        if len(windows) or len(more) or len(self.columns.moments):
            if self.opens[0] is not windows:
                self.opens = windows, np.unique(windows[:, [OPENS_US, CLOSES_US]])
            times = self.opens[1]
            times = times[np.searchsorted(times, now, "right") :]
            self.replace(moments=np.unique(np.concatenate([times, more])) if len(more) else times)

    def kind_of(self, job: int, made: Choices) -> int:
        """The number of a job's kind, which is noted."""
        c = self.columns
        if c.kind[job] < 0:
            known = len(self.kinds)
            c.kind[job] = kind = self.kinds.setdefault(made.placement.kind(made.view, made.notes, job), known)
            c.due[:, job] = made.placement.due_us(made.view, made.notes, job)
            if kind == known:
                if kind >= len(c.refused):
                    self.replace(refused=grown(c.refused, 2 * kind), late=grown(c.late, 2 * kind))
                self.columns.late[walk.IN_KERNEL, kind] = made.placement.in_kernel(made.view, made.notes, job)
            return kind
        return int(c.kind[job])

    def _opening(self, order: Ints, second: Ints, rule: PassRule) -> list[int]:
        """Those that were tried and had no place."""
        c = self.columns
        if c.walk[walk.HEADS] == 0:
            return []
        head = int(c.heads[0, walk.PLACE])
        tried = order[head : head + 1]
        if rule.backfill != Backfill.NONE:
            behind = order[second[second > head]] if len(second) else order[head + 1 :]
            tried = np.concatenate([tried, behind[: min(len(behind), rule.depth)]])
        kinds = c.kind[tried]
        found: list[int] = tried[(kinds >= 0) & (c.late[walk.IS_CLOSED, kinds] > 0)].tolist()
        return found
