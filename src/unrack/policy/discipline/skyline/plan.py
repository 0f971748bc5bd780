"""What schedulers that plan ahead remember: reservations, and the rounds in which they are made, kept and met."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from unrack.kernels.arrays import Ints
from unrack.ledger.columns import grown, grown_rows
from unrack.ledger.lease import CORES, LENDER, NODES, Lease, as_rows, from_rows
from unrack.policy.contract import Start
from unrack.policy.discipline.queue_pass import Chooser
from unrack.policy.discipline.skyline.choosing import Choices, Chosen
from unrack.policy.discipline.skyline.columns import (
    AT,
    BEGIN,
    BOOKED,
    BRIEF,
    CHOOSE,
    CHOSEN,
    CLAIMED,
    CLAIMS,
    CLAIMS_CHOSEN,
    END_CLAIM,
    END_ROW,
    FIRST_CLAIM,
    FIRST_ROW,
    FROM,
    FURTHER,
    GRAIN,
    JOB,
    KEPT,
    LEASES,
    LENGTH,
    LENGTH_CHOSEN,
    REACH,
    ROWS,
    ROWS_CHOSEN,
    SHARERS,
    SHORT,
    SLOTS,
    STAGE,
    START,
    STEP,
    STEPS,
    Grain,
    PlanRound,
    more_room,
    room_for_reserved,
    steps_to_look_at,
)
from unrack.policy.discipline.skyline.grouping import Grouped
from unrack.policy.discipline.skyline.kept import carry_levels, keep_levels
from unrack.policy.discipline.skyline.shifts import Shifted
from unrack.policy.discipline.skyline.starting import leaves_open, lendable
from unrack.policy.placement.alone import Alone
from unrack.resources.places import NO_CLAIMS, PLACE
from unrack.units import NEVER_US
from unrack.view import AssumedRun, DeviceLine, Draft, View
from unrack.workload.job import ESTIMATE

NODES_ALONE = Alone(None, None, None, -1, 0)  # nothing else is chosen in kernels
FEW_ROUNDS = 1000
"""So many are done before the kernel that keeps levels would be compiled."""


@dataclass(slots=True)
class Plan(Grouped):
    """Reservations, and rounds of a plan."""

    completes: bool = True  # what is ample is chosen when a job starts

    def round(self, view: View, jobs: Ints, now: int, what: PlanRound, choices: Chooser) -> list[Start]:
        """Plan for ``jobs`` in order; start those with a reservation for now."""
        self.look(view)
        if self.rule.grain != Grain.NODES:
            jobs = self.regroup(view, jobs)
        return self._round(view, jobs, now, view.running_count, what, choices)

    def completed(self, starts: list[Start], now: int, choices: Chooser) -> list[Start]:
        """The starts with what is ample on their nodes; a job that finds too little after all is looked at again."""
        if len(self.columns.kept_at):
            starts = [one._replace(lease=self._with_cores(one.lease)) for one in starts]
        if not (self.ample and any(start.lease.job in self.ample for start in starts)):
            return starts
        made, found = choices(now, False), list[Start]()
        draft, placement = Draft(made.view, now), cast(Any, made.placement)
        for start in starts:
            lease, rule = start.lease, start.rule
            if lease.job in self.ample:
                own = placement.on(draft.view, made.notes, lease.job, now, lease._replace(claims=NO_CLAIMS))
                if own is None:
                    continue
                lease, rule = lease._replace(shares=own.shares, claims=own.claims), made.rule()
            draft.start(lease)
            found.append(start._replace(lease=lease, rule=rule))
        return found

    def _with_cores(self, lease: Lease) -> Lease:
        """With the cores that a job claims of its nodes, which a reservation that counts says nothing of; in order.

        A job that was reserved for in the kernel may have a choice by now, as another has one.
        """
        c, nodes = self.columns, lease.nodes
        cores = np.repeat(lease.rows[:, CORES], lease.rows[:, NODES])
        places = [c.kept_at[row, nodes] for row in range(len(c.kept_at)) if c.kept_of[lease.job] >> row & 1]
        claims = np.concatenate([lease.claims, *(np.stack([own, cores], axis=1)[own >= 0] for own in places)])
        return lease._replace(claims=claims[np.unique(claims[:, PLACE], return_index=True)[1]])

    def _round(self, view: View, jobs: Ints, now: int, running: int, what: PlanRound, choices: Chooser) -> list[Start]:
        cursor = self.columns.cursor
        cursor[STAGE] = BEGIN
        self.rounds += 1
        keeps = self.keeps and not what.brief and view.grows is None
        cursor[GRAIN : BRIEF + 1] = *self.rule, *what
        made, line, alone = self._begun(jobs, now, what, choices), None, NODES_ALONE
        if cursor[KEPT] and not keeps:  # a job asks for a choice now
            cursor[KEPT] = cursor[FROM] = 0
            self.columns.grown[:] = NEVER_US
        in_kernel = self.chosen_in_kernel(jobs)
        while True:
            if keeps:
                carry_levels(jobs, now, running, self.columns.kernel)
            if in_kernel or (self.lends and self.only_lent and len(self.columns.may_lend)):
                made = made or choices(now, what.trust)
                line = made.timeline if in_kernel else None
                alone = made.alone if self.lends else made.alone.without_loans
            booked = None if line is None else line.columns.kernel
            count = alone.plan_round(booked, jobs, now, running, self.columns.kernel)
            if count >= 0:
                break
            if count == CHOOSE:
                made = made or choices(now, what.trust)
                self._choose(made, int(cursor[AT]), jobs)
                self.asked += 1
                continue
            if line is not None and cursor[SHORT] in (BOOKED, SHARERS):
                line.more(bool(cursor[SHORT] == SHARERS))
            elif cursor[SHORT] == FURTHER:
                jobs = self.regroup(view, jobs, int(cursor[REACH]))
                cursor[GRAIN] = self.rule.grain
            else:
                self.replace(**more_room(self.columns, len(jobs), running))
            cursor[STAGE], cursor[KEPT] = BEGIN, 0
            made = self._begun(jobs, now, what, choices)
        if keeps and not keep_levels(jobs, now, running, count, self.columns.kernel):
            self.replace(**more_room(self.columns, len(jobs), running))
        if line is not None:
            self._reserved_in_kernel(line, self.columns.started[JOB, :count] if what.brief else jobs)
        elif made is not None:
            self._settle(made)
            self.leases.update(made.made)
        return self._starts(count, now, made) if count else []

    @property
    def keeps(self) -> bool:
        """Whether levels stay from one round to the next; what is chosen outside of the kernel is not in them."""
        return self.rounds > FEW_ROUNDS and not (self.chosen or self.lends)

    def _reserved_in_kernel(self, line: DeviceLine, jobs: Ints) -> None:
        """Note the leases of these jobs that a kernel has reserved."""
        c = self.columns
        for job, shares in line.made(jobs).items():
            row, end, claim, last = c.where[:4, job].tolist()
            lease = from_rows(job, c.rows[row:end], c.claims[claim:last], self.places)
            self.leases[job] = lease._replace(shares=shares)

    def _begun(self, jobs: Ints, now: int, what: PlanRound, choices: Chooser) -> Choices | None:
        """The choices of a round, where reservations hold devices; jobs that cannot start as reserved have none."""
        self.choosing = -1
        if not (self.leases or self.modelled):
            return None
        made, start = choices(now, what.trust), self.columns.start
        made.slow = self.modelled
        waiting = set(jobs.tolist())
        self.leases = {job: lease for job, lease in sorted(self.leases.items()) if job in waiting}
        begins = zip(start[[*self.leases]].tolist(), self.leases, self.leases.values(), strict=True)
        reserved, lengths = made.expect(one for one in begins if one[0] >= now)
        self.columns.where[LENGTH - 1, reserved] = lengths
        start[reserved[lengths < 0]] = -1
        if self.modelled:
            self.expect(made.running())
        return made

    def _choose(self, choices: Choices, at: int, order: Ints) -> None:
        c, cursor, job = self.columns, self.columns.cursor, int(order[at])
        choices.booked = True
        if self.choosing != at:
            self._settle(choices)
            self.choosing = at
        places, groups = c.place_of[: cursor[SLOTS]], c.total.shape[2]
        left = c.low[0, 0, groups : groups + len(places)]
        start_us = int(c.times[cursor[STEP]])
        beside = self._beside(choices, order, start_us) if self.lends and choices.view.slo is not None else {}
        length = max(1, int(c.asks[ESTIMATE, job]))
        limits = lendable(len(order), length, c.kernel) if len(c.may_lend) else None
        chosen = choices.find(job, start_us, c.low[0, :, :groups], places, left, beside, limits)
        cursor[STAGE], cursor[ROWS_CHOSEN] = CHOSEN, -1
        if chosen is None:
            return
        slows = choices.slow and len(chosen.lease.shares) > 0
        longer = limits is not None and len(chosen.lease.borrowed) > 0 and chosen.length_us > length
        if (longer and not leaves_open(len(order), chosen.length_us, chosen.lease.borrowed, c.kernel)) or (
            slows and not self._moves(choices, chosen, start_us)
        ):
            choices.refuse()
            return
        rows, claims = int(cursor[ROWS]), int(cursor[CLAIMS])
        own = as_rows(chosen.lease, self.places)
        self._hold(LEASES, rows + len(own[0]))
        self._hold(CLAIMED, claims + len(own[1]))
        self.columns.new_rows[rows : rows + len(own[0])] = own[0]
        self.columns.new_claims[claims : claims + len(own[1])] = own[1]
        cursor[ROWS_CHOSEN], cursor[CLAIMS_CHOSEN] = map(len, own)
        cursor[LENGTH_CHOSEN] = chosen.length_us

    def _beside(self, choices: Choices, order: Ints, start_us: int) -> dict[int, AssumedRun]:
        """Jobs that run as reserved, at this time or later."""
        turn = self.columns.turn[:, : len(order)]
        end = turn[START] + turn[LENGTH]
        there = (turn[START] >= 0) & (end > start_us)
        places = zip(np.flatnonzero(there).tolist(), end[there].tolist(), strict=True)
        return {int(order[q]): AssumedRun(at, self._held_by(choices, int(order[q]), q)) for q, at in places}

    def _held_by(self, choices: Choices, job: int, q: int) -> Lease:
        """The lease of a reservation: of the job at place ``q`` in the order."""
        c, lease = self.columns, choices.made.get(job) or self.leases.get(job)
        row, end, claim, last = c.turn[[FIRST_ROW, END_ROW, FIRST_CLAIM, END_CLAIM], q].tolist()
        return lease or from_rows(job, c.new_rows[row:end], c.new_claims[claim:last], self.places)

    def _moves(self, choices: Choices, chosen: Chosen, start_us: int) -> bool:
        """Let jobs that share with another end at other times; False: that would disturb others, and nothing moves."""
        c, cursor = self.columns, self.columns.cursor
        more = 2 * len(chosen.moved) + 8
        if cursor[STEPS] + more > len(c.times):
            room = len(c.times) + 2 * more
            level, looked = grown_rows(c.level, room), steps_to_look_at(room)
            self.replace(times=grown(c.times, room), at=grown(c.at, room), looked=looked, level=level)
        shifted = Shifted(self.columns, int(cursor[STEPS]))
        for job, (before, after) in chosen.moved.items():
            lease = choices.made.get(job) or self.leases.get(job) or choices.view.lease(job)
            rows, claims = as_rows(lease, self.places)
            shifted.add(min(before, after), max(before, after), rows, claims, 1 if after < before else -1)
        fits = shifted.fits(start_us, start_us + chosen.length_us, *as_rows(chosen.lease, self.places))
        if fits:
            choices.believe()
        else:
            shifted.undo()
        cursor[STEPS] = shifted.steps
        return fits

    def _settle(self, choices: Choices) -> None:
        if self.choosing >= 0:
            choices.settle(int(self.columns.turn[START, self.choosing]))
        self.choosing = -1

    def _starts(self, count: int, now: int, choices: Choices | None) -> list[Start]:
        c = self.columns
        if not self.leases and not self.lends:
            return self.counted(count)
        decisions: list[Start] = []
        later = np.zeros(len(c.of), np.bool_)  # nodes of those that cannot start yet
        for s, job in enumerate(c.started[JOB, :count].tolist()):
            lease = self.leases.get(job) or self.lease(s)
            ready = choices is None or choices.may_start(lease)
            if not ready or later[lease.borrowed[:, LENDER]].any():
                c.start[job] = now  # what it waits for ends now, and has not been seen to
                later[lease.nodes] = True
                continue
            self.leases.pop(job, None)
            decisions.append(Start(lease))
        return decisions

    def _hold(self, what: int, count: int) -> None:
        """Room for so many rows or claims of reservations."""
        if found := room_for_reserved(self.columns, what, count):
            self.replace(**found)
