"""The choices that a pass over the queue asks for: places now, and whether the head has one later."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unrack.jit import plain
from unrack.kernels.arrays import Ints
from unrack.ledger.columns import grown_rows
from unrack.ledger.devices.columns import FREE, GROUP
from unrack.ledger.lease import Share, as_rows, from_rows
from unrack.policy.contract import Start
from unrack.policy.discipline.heads_kernel import PassRule, refuse
from unrack.policy.discipline.queue_kernel import Backfill
from unrack.policy.discipline.skyline.choosing import Choices, Chosen
from unrack.policy.discipline.skyline.columns import (
    CHOICE,
    CLAIMED,
    ELSEWHERE,
    JOB,
    SLOTS,
    UNTIL,
    PlanColumns,
    room_for_reserved,
)
from unrack.policy.discipline.skyline.shifts import change
from unrack.policy.discipline.skyline.steps import RowSpan, Slots, claims_fit
from unrack.policy.discipline.walk import (
    ANSWER,
    ASIDE,
    ASKING,
    CLAIMS,
    CLAIMS_FOUND,
    COUNT,
    FOUND,
    HEADS,
    HELD_US,
    JUDGING,
    LIMITED,
    LOOKED_AT,
    MOVES,
    OPENS,
    PLACED,
    ROOM,
    ROWS,
    SEEK,
    SHADOW,
    SOUGHT,
    STAGE,
    TAKER,
    TIME,
)
from unrack.policy.placement.node_kernel import room_for
from unrack.view import AssumedRun
from unrack.workload.job import ESTIMATE

if TYPE_CHECKING:
    from unrack.policy.discipline.queue_pass import Passes

REFUSE, CLAIMS_FIT = plain(refuse), plain(claims_fit)


class PassChoices:
    """The choices of one pass.

    Parameters
    ----------
    passes
        The policy with the columns that the pass works on.
    made
        What chooses.
    rule
        How the pass goes.
    step
        Whether all that was chosen before is done already, and nothing is asked about times to come.
    """

    def __init__(self, passes: Passes, made: Choices, rule: PassRule, step: bool) -> None:
        self.passes, self.made, self.rule, self._step = passes, made, rule, step
        self._starts: dict[int, Start] = {}  # what was chosen, by job
        self._beside: dict[int, AssumedRun] = {}  # those that start in this pass
        # the last for which a place was chosen, if it is open whether it starts
        self._open: tuple[int, Chosen] | None = None
        made.slow = passes.modelled and not step
        # whether they stay held for a while after their job
        self._detaches = made.view.cluster.devices.detach_us > 0 and not step
        if self._detaches:
            passes.note_moments(made.now, made.moments())

    def answer(self) -> None:
        """Write down the answer to what the pass asks."""
        walk = self._columns.walk
        stage, job = int(walk[STAGE]), int(walk[ASKING])
        self._follow()
        known = self._open is not None and self._open[0] != walk[LOOKED_AT]  # whether that one starts
        if known:
            self._settle()
        if stage == PLACED:
            self._place(job)
        elif stage == SOUGHT and known:
            walk[STAGE] = SEEK  # anew, beside that one
        elif stage == SOUGHT:
            h, c = int(walk[JUDGING]), self._columns
            walk[ANSWER] = self._has_place(job, int(walk[TIME]), c.then[h], c.left[1 + h, 0])
        else:
            walk[ANSWER] = self._leaves_place(job)

    def end(self) -> dict[int, Start]:
        """The starts on places that were chosen, by job."""
        if not self._step:
            self._follow()
            self._settle()
            self.passes.note_moments(self.made.now)
        return self._starts

    @property
    def _columns(self) -> PlanColumns:
        return self.passes.columns

    def _place(self, job: int) -> None:
        made, walk = self.made, self._columns.walk
        walk[FOUND] = -1
        kind = self.passes.kind_of(job, made)
        c = self._columns
        if self.passes.has_none(job, made.now):
            walk[FOUND] = ASIDE if c.refused[kind] == LIMITED else -1
            return
        closed = self.rule.backfill == Backfill.NONE and walk[HEADS] > 0
        if self._beside or closed:
            self.passes.made = None  # it knows what runs in this round
            places = c.place_of[: c.cursor[SLOTS]]
            chosen = made.find(job, made.now, c.now, places, c.left[0, 0, : len(places)], self._runs(made.now))
        elif self._step:
            found = made.placement.find(made.view, made.notes, job, made.now)
            chosen = None if found is None else Chosen(found, max(1, int(c.asks[ESTIMATE, job])), {})
        else:
            chosen = made.find_now(job)
        if chosen is None:
            limited = c.aside[1] > 0 and made.limited(job)  # of places the last are limits, if any are
            walk[FOUND] = ASIDE if limited else -1
            if not closed:
                why = (LIMITED, 0) if limited else made.placement.refusal(made.notes, job)
                REFUSE(job, kind, *why, c)
            return
        self._starts[job] = Start(chosen.lease)
        self._open, walk[TAKER] = None if self._step else (job, chosen), job
        rows, claims = as_rows(chosen.lease, self.passes.places)
        at, claim = int(walk[ROWS]), int(walk[CLAIMS])
        end, claim_end = at + len(rows), claim + len(claims)
        if end > len(c.out) or claim_end > len(c.new_claims):
            self.passes.replace(out=grown_rows(c.out, end), **room_for_reserved(c, CLAIMED, claim_end))
        self._columns.out[at:end], self._columns.new_claims[claim:claim_end] = rows, claims
        walk[FOUND], walk[CLAIMS_FOUND], walk[HELD_US] = end, claim_end, chosen.length_us
        walk[OPENS] = self._opens(chosen.lease.shares)
        if self.rule.backfill == Backfill.EASY and walk[HEADS] > 0:  # it is settled later whether it starts
            walk[MOVES] = len(chosen.moved) > 0 or (walk[OPENS] and self._detaches)
        else:
            walk[MOVES] = 0
            self._believe(chosen)

    def _opens(self, shares: tuple[Share, ...]) -> bool:
        """Whether devices are taken, of one that starts at once any that were free: others may join these then."""
        devices = self.made.view.columns.devices
        if not self._step or devices is None:
            return len(shares) > 0
        return any(devices.columns.device[GROUP, share.devices[0]] == FREE for share in shares)

    def _has_place(
        self, job: int, time: int, free: Ints, left: Ints, more: dict[int, AssumedRun] | None = None
    ) -> bool:
        c = self._columns
        places = c.place_of[: c.cursor[SLOTS]]
        beside = {one: runs for one, runs in (self._runs(time) | (more or {})).items() if runs.end_us > time}
        return self.made.has_place(job, time, free, places, left[: len(places)], beside)

    def _leaves_place(self, head: int) -> bool:
        """Whether the head still has a place when it is to start, if the one chosen last starts; it is then taken."""
        c, walk, made = self._columns, self._columns.walk, self.made
        h = int(walk[JUDGING])
        job, time = int(walk[LOOKED_AT]), int(c.heads[h, SHADOW])
        chosen = self._open[1] if self._open is not None and self._open[0] == job else self._counted()
        if time < 0:
            self._believe(chosen)
            return True
        then, left, end_us = c.then[h].copy(), c.left[1 + h, 0].copy(), made.now + chosen.length_us
        if end_us > time:
            change(then, left, c.slot, *as_rows(chosen.lease, self.passes.places), -1)
        for other, (before, after) in chosen.moved.items():
            if (before > time) != (after > time):
                lease = self._beside[other].lease if other in self._beside else made.view.lease(other)
                change(then, left, c.slot, *as_rows(lease, self.passes.places), 1 if before > time else -1)
        tasks, cores, mb = c.asks[:ESTIMATE, head].tolist()
        wants = int(c.wants[head])
        room = int(room_for(then, c.installed[c.set_of[head]], cores, 0 if wants >= ELSEWHERE else mb, self.rule.whole))
        if wants >= CHOICE:
            with made.trying(job, chosen.lease):
                fits = self._has_place(head, time, then, left, {job: AssumedRun(end_us, chosen.lease)})
        else:
            claims = RowSpan(c.out, 0, 0, c.fixed, *c.fixed_at[:, head].tolist())
            slots = Slots(c.slot, c.place_of, c.free_places, 0)
            fits = room >= tasks and CLAIMS_FIT(left[None, None], 0, slots, claims)
        if fits:
            c.then[h], c.left[1 + h, 0], c.heads[h, ROOM] = then, left, room
            self._believe(chosen)
        return fits

    def _counted(self) -> Chosen:
        """The place of the job that is looked at, where it was not chosen here."""
        c, walk = self._columns, self._columns.walk
        rows, claims = c.out[walk[ROWS] : walk[FOUND]], c.new_claims[walk[CLAIMS] : walk[CLAIMS_FOUND]]
        lease = from_rows(int(walk[LOOKED_AT]), rows, claims, self.passes.places)
        return Chosen(lease, int(walk[HELD_US]), {})

    def _believe(self, chosen: Chosen) -> None:
        """Others that share with the one chosen last end as it makes them end."""
        if not chosen.moved:
            return
        self.made.believe()
        started = self._columns.started[:, : self._columns.walk[COUNT]]
        for job, (_, after) in chosen.moved.items():
            started[UNTIL, started[JOB] == job] = after
            if job in self._beside:
                self._beside[job] = self._beside[job]._replace(end_us=after)
        self.passes.expect(self.made.running())

    def _follow(self) -> None:
        """Take notice of those that have started since."""
        for s in range(len(self._beside), int(self._columns.walk[COUNT])):
            job = int(self._columns.started[JOB, s])
            lease = self._starts[job].lease if job in self._starts else self.passes.lease(s)
            self._beside[job] = AssumedRun(int(self._columns.started[UNTIL, s]), lease)

    def _settle(self) -> None:
        """Whether the one for which a place was chosen last has started is known now."""
        if self._open is None:
            return
        (job, chosen), self._open = self._open, None
        if job not in self._beside:
            self.made.refuse()
        self.made.settle(self.made.now)
        if job in self._beside and chosen.lease.shares and self._detaches:
            self.passes.note_moments(self.made.now, self.made.moments())

    def _runs(self, time: int) -> dict[int, AssumedRun]:
        """Those that start in this pass and run at a time, µs; all of them now."""
        if time == self.made.now:
            return self._beside
        return {job: runs for job, runs in self._beside.items() if runs.end_us > time}
