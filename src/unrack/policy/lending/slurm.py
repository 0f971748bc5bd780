"""A Slurm-like scheduler on whole nodes that lend memory, with plans that count nodes and MB in place of naming them.

It is :class:`unrack.policy.discipline.reservations.SlurmLike` with a rule for lent memory, and another plan: while all
that wait may use all nodes, meet no time at which some are kept, and could have at once what else they ask for,
reservations are of numbers (``counted_round.py``), and only a job that starts now is given nodes and lenders. Else
plans name them, as those of any scheduler.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from unrack.kernels.arrays import Ints
from unrack.ledger.columns import ASKED_US, CPU
from unrack.ledger.lease import from_rows, ranges
from unrack.policy.contract import Start
from unrack.policy.discipline.reservations import SlurmLike
from unrack.policy.discipline.skyline.columns import CHOICE, LEDGER, LENT, PlanColumns, columns_for, more_room
from unrack.policy.discipline.skyline.plan import Plan
from unrack.policy.lending.counted_round import counted_round
from unrack.policy.orders import is_fixed
from unrack.policy.placement.alone import Alone
from unrack.resources.places import AMOUNT, PLACE
from unrack.units import NEVER_US
from unrack.view import View

SHARED = ("free_places", "installed", "start", "fixed", "fixed_at")
OWN = ("asks", "free", "running", "pool", "lease_at")
"""Columns of a plan that what is counted shares, and of the ledger, which may be others in any round."""


class Rest(NamedTuple):
    """How long rounds go as one in which no job starts, if nothing changes."""

    jobs: Ints  # for which it planned
    changes: int  # the ledger's version, less the jobs submitted by then
    until_us: int  # before which time such a round starts none either

    def goes_on(self, view: View) -> bool:
        """Whether nothing has changed but that jobs were submitted."""
        return self.changes == view.version - view.jobs


@dataclass(slots=True)
class CountedPlan(Plan):
    """A plan that counts while that does."""

    counts: PlanColumns | None = None  # of what is counted, once something was
    shares: Any = None  # the columns of the plan, and of the ledger, that were taken over last
    looked: int = 0  # at what so many jobs want
    beyond: bool = False  # whether of one of them something is chosen beside nodes and memory
    rest: Rest | None = None  # of the last round

    def counts_do(self, view: View) -> bool:
        """Whether memory may be lent, and all that wait may use all nodes and have at once what else they claim."""
        c, first, self.looked = self.columns, self.looked, self.known
        wants, jobs, seen = c.wants[first : self.known], view.queue, view.columns.claimed
        self.beyond = self.beyond or bool(len(wants) and ((wants >= CHOICE) & (wants != LENT)).any())
        if self.beyond or not self.lends or view.grows is not None or kept_us(view) <= view.now:
            return False
        if (own := view.columns.set_of[jobs]).any():  # the first set is of all nodes
            closed = ((view.columns.open_to[:, CPU] == 0) & (view.total[CPU] > 0)).any(axis=1)
            if closed[own].any():
                return False
        if seen is None or not self.fixed:
            return True
        claims, most = c.fixed[ranges(c.fixed_at[0, jobs], c.fixed_at[1, jobs] - c.fixed_at[0, jobs])], seen.free * 0
        np.add.at(most, claims[:, PLACE], claims[:, AMOUNT])
        _, _, place, amount = view.cluster.places.keeping[:, view.cluster.places.keeping[1] > view.now]
        np.add.at(most, place, np.where(most[place] > 0, amount, 0))
        return not bool((most > seen.free).any())

    def count(self, view: View, jobs: Ints, now: int, brief: bool, alone: Alone) -> list[Start]:
        """Plan in numbers for these jobs, for which nothing is reserved; those that start now."""
        counts, seen = self._kinds(view) if self.counts is None else self.counts, view.columns
        uses, shares = seen.memory, (self.columns, *(getattr(seen, name) for name in OWN))
        assert uses is not None
        if self.shares is None or any(one is not now for one, now in zip(self.shares, shares, strict=True)):
            own = {name: getattr(self.columns, name) for name in SHARED}
            counts = counts._replace(**own, **dict(zip(OWN, shares[1:], strict=True)))
        running, how = view.running_count, (brief, alone.terms, alone.aware, uses.kernel)
        while True:
            count, until_us = counted_round(jobs, now, running, *how, counts.kernel)
            if count >= 0:
                break
            counts = counts._replace(**more_room(counts, len(jobs), running))
        self.counts, self.shares, found = counts, shares, list[Start]()
        self.rest = Rest(jobs, view.version - view.jobs, until_us) if brief else None
        for job, row, end, claim, last in counts.started[:5, :count].T.tolist():
            found.append(Start(from_rows(job, counts.out[row:end], counts.new_claims[claim:last], self.places)))
        return found

    def meets(self, view: View, jobs: Ints, now: int) -> bool:
        """Whether what was just counted for these jobs reaches a time at which nodes are kept; a rest ends before."""
        kept = kept_us(view)
        begins, length = np.maximum(self.columns.start[jobs], now), np.maximum(1, view.asks[ASKED_US, jobs])
        reach = int((begins + length).max(initial=now))
        if self.rest is not None:
            self.rest = self.rest._replace(until_us=min(self.rest.until_us, now + kept - reach))
        return reach > kept

    def stands(self, view: View, jobs: Ints, now: int) -> bool:
        """Whether no job starts, as in the last round; jobs behind these may have been submitted since."""
        rest = self.rest
        return rest is not None and now < rest.until_us and rest.goes_on(view) and np.array_equal(jobs, rest.jobs)

    def _kinds(self, view: View) -> PlanColumns:
        """Columns in which nodes are counted that have as many cores and as much memory."""
        kinds, first, of = np.unique(view.total, axis=1, return_index=True, return_inverse=True)
        rank = np.argsort(first)
        counts = columns_for(tuple(getattr(self.columns, name) for name in LEDGER), len(view.cluster), 0)
        slot, left = np.zeros(1, np.int64), np.zeros((2, 1, 1), np.int64)
        total = np.ascontiguousarray(kinds)[np.newaxis]
        return counts._replace(of=of.ravel(), total=total, rank=rank, slot=slot, place_of=slot.copy(), left=left)


def kept_us(view: View) -> int:
    """Until when no nodes are kept for some of the jobs that wait, and all are within the hours of theirs, µs."""
    now, until, open_now = view.now, NEVER_US, set[int]()
    windows = view.cluster.places.windows
    owners = set(np.abs(view.columns.set_owner[view.columns.set_of[view.queue]]).tolist()) - {0} if windows else set()
    for window in windows:
        if window.place >= 0 or window.end_us <= now:
            continue
        if window.nodes.any():
            until = min(until, max(now, window.start_us))
        elif window.owner in owners and window.start_us <= now:
            until = min(until, window.end_us)
            open_now.add(window.owner)
    return until if open_now == owners else now


@dataclass(frozen=True, kw_only=True)
class LentSlurm(SlurmLike):
    """A Slurm-like scheduler with lent memory; parameters as of :class:`SlurmLike`."""

    def new_plan(self, view: View) -> CountedPlan:
        """A plan in which nothing is reserved."""
        return CountedPlan.begin(view, *self.how(view))

    def plan(self, view: View, memory: Plan, jobs: Ints, now: int, brief: bool) -> list[Start]:
        """Counted, while that does."""
        assert isinstance(memory, CountedPlan)
        if not memory.counts_do(view):
            memory.rest = None
            return super().plan(view, memory, jobs, now, brief)
        if brief and memory.stands(view, jobs, now):
            return []
        starts = memory.count(view, jobs, now, brief, self.mixed.alone(view, self.notes(view, memory)))
        if not (view.cluster.places.windows and memory.meets(view, jobs, now)):
            return starts
        memory.rest = None
        memory.forget(jobs)
        return super().plan(view, memory, jobs, now, brief)

    def rests_until(self, view: View, memory: Plan, now: int) -> int:
        """The first multiple of the interval at which a round may start a job, if nothing happens."""
        assert isinstance(memory, CountedPlan)
        rest, ages = memory.rest, bool(memory.noted) or not is_fixed(self.order)
        same = rest is not None and rest.goes_on(view) and memory.planned_version == view.version
        if rest is None or not same or ages or type(self) is not LentSlurm:  # or one that decides in another way
            return now
        memory.forget(view.queue)  # what is reserved moves with the clock: it is planned when it is asked for
        return min(-(-rest.until_us // self.interval_us) * self.interval_us, NEVER_US)
