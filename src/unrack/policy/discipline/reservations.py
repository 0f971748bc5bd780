"""Disciplines with reservations: conservative backfill, and a Slurm-like scheduler.

*Conservative backfill* (Mu'alem and Feitelson 2001): every job gets a reservation when it arrives, the earliest that
disturbs no other, and never a later one. When a job ends early, reservations move forward one by one, in order; an end
at its booked time was planned for, and moves none. They do twice once a job did not start that was to, and finds
reservations of those behind it in its way. One that waits for a job that was to end now is made again 1 µs later, if
that has not ended. O(waiting x steps of the plan) a round.

*Slurm-like*: a main loop, and backfill at intervals. The main loop runs at every event and starts jobs in order until
one does not fit. Every ``interval`` seconds, backfill plans from scratch for the first ``depth`` jobs, in order, and
starts those that are due now.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from unrack.kernels.arrays import Bools, Ints
from unrack.ledger.jobs import STIRRED, Promises
from unrack.policy.contract import Ability, Decision, Start
from unrack.policy.discipline.heads_kernel import PassRule
from unrack.policy.discipline.list_scheduler import short_of
from unrack.policy.discipline.queue_kernel import Backfill
from unrack.policy.discipline.queue_pass import NO_SECOND
from unrack.policy.discipline.skyline.choosing import Choices
from unrack.policy.discipline.skyline.columns import COARSE, SEARCHES, PlanRound
from unrack.policy.discipline.skyline.plan import Plan
from unrack.policy.discipline.slurm_search import WHOLE
from unrack.policy.orders import changes_us, in_order, is_fixed
from unrack.policy.placement.any_resource import AnyResource
from unrack.reasons import Code, Reason
from unrack.resources.site.installed import Site
from unrack.units import SECOND_US
from unrack.view import View


class Planning(AnyResource):
    """A scheduler with a plan over whatever jobs ask for."""

    def new_plan(self, view: View) -> Plan:
        """A plan in which nothing is reserved."""
        return Plan.begin(view, *self.how(view))

    def choices(self, view: View, memory: Plan, now: int, trust: bool) -> Choices:
        """The choices of a round; see :class:`Choices`."""
        return Choices(self.mixed, self.notes(view, memory), view, now, trust, memory)

    def missing(self, view: View, memory: Plan, job: int, now: int) -> Reason | None:
        """What there is too little of now for a job to start; ``None`` if it fits."""
        if not self.beyond_nodes(view):
            return short_of(view, job, self.nodes == "whole")
        return self.mixed.why(view, self.notes(view, memory), job, now)


COMPRESS = ("early", "ends")
"""When reservations move forward."""


def freed(view: View, compress: str) -> int:
    """What grows whenever reservations may move forward: at early ends (and whatever else is unforeseen), or all."""
    return view.unforeseen if compress == "early" else view.releases


@dataclass(frozen=True, kw_only=True)
class Conservative(Planning):
    """Backfill in which every job holds a reservation that only ever moves forward.

    New jobs get reservations, and these move forward, in the order of the queue; ``place`` is a name.

    Parameters
    ----------
    compress
        When reservations move forward: ``"early"``, when a job ends before its booked end, a node comes back, or
        something else is free that was not planned to be; ``"ends"``, whenever anything is given back.
    **others
        Those of :class:`unrack.policy.placement.any_resource.AnyResource`.
    """

    label: str = "conservative"
    compress: str = "early"

    does: ClassVar[frozenset[Ability]] = frozenset({Ability.PROMISED})

    def begin(self, view: View) -> Plan:
        """The reservations that were promised before; none if the run begins."""
        promises = view.promises
        plan = Plan.resumed(view, *self.how(view))
        plan.freed = freed(view, self.compress) if promises.freed is None else promises.freed
        return plan

    def promised(self, view: View, memory: Plan) -> Promises:
        """The reservations of waiting jobs."""
        return memory.promised()

    def decide(self, view: View, memory: Plan, now: int) -> tuple[list[Decision], Plan]:
        """Reserve for new jobs, move reservations forward if jobs have ended, start those that are due."""
        mark = freed(view, self.compress)
        before, memory.freed = memory.freed, mark
        compress, stirred = mark != before, before == STIRRED
        if not view.waiting:
            return [], memory
        jobs = in_order(self.order, view, now, memory.noted).copy()
        if compress:
            memory.look_where(view, COMPRESS.index(self.compress), -1 if stirred else before)
        if memory.outgrown(view, self) or memory.lost:
            memory.make_room(view)
            jobs = memory.by_start(jobs)
            noted, memory = memory.noted, self.new_plan(view)
            memory.freed, memory.noted = mark, noted
        what = PlanRound(2 if stirred and not (memory.chosen or memory.lends) else int(compress), trust=True)
        choices = partial(self.choices, view, memory)
        starts = memory.completed(memory.round(view, jobs, now, what, choices), now, choices)
        return memory.by_rule(view, self, starts), memory

    def next_round(self, view: View, memory: Plan, now: int) -> int | None:
        """When the next reservation falls due: what it was planned to wait for may have moved forward since."""
        if not view.waiting:
            return None
        return memory.due_us(view, now)

    def why(self, view: View, memory: Plan, job: int, now: int) -> Reason:
        """It holds a reservation for later, or there is no room even then."""
        missing = self.missing(view, memory, job, now)
        if missing is not None:
            return missing
        if memory.reserved(job) >= 0:
            return Reason(Code.RESERVED, f"from {memory.reserved(job) / SECOND_US:.0f} s")
        return Reason(Code.NOT_YET)


MAINS = ("events", "interval")
"""When the main loop of a Slurm-like scheduler runs."""
RESERVES = ("cores", "nodes", "slurm")
"""What is kept for a job that is to start later."""


def given_whole(view: View) -> Bools:
    """bool[nodes]: which are in a partition that gives jobs whole nodes."""
    site, found = view.cluster.places.installed.get("site"), np.zeros(view.total.shape[1], np.bool_)
    if isinstance(site, Site):
        for name, partition in site.partitions.items():
            found |= site.nodes_of[name] & partition.whole_nodes
    return found


@dataclass(frozen=True, kw_only=True)
class SlurmLike(Planning):
    """A main loop at every event, and backfill that plans for part of the queue at intervals.

    Parameters
    ----------
    interval_us
        Time between two backfills. They happen at whole multiples of it, while jobs wait.
    depth
        How many jobs, from the first, a backfill plans for.
    queue
        How many jobs, from the first, are looked at by either loop.
    main
        ``"events"``: the main loop runs at every event; ``"interval"``: it too runs only at multiples of the interval.
    reserve
        What a plan keeps for a job that is to start later: ``"cores"``, those that it asks for; ``"nodes"``: its nodes
        whole, and for a job for which a limit has no room now nothing; ``"slurm"``: so, by the search of Slurm's own
        backfill where nodes and limits alone decide.
    **others
        Those of :class:`unrack.policy.placement.any_resource.AnyResource`.
    """

    interval_us: int = 30 * SECOND_US
    depth: int = 100
    queue: int = 100
    main: str = "events"
    reserve: str = "cores"
    label: str = "slurm"

    def begin(self, view: View) -> Plan:
        """Nothing planned yet."""
        plan = self.new_plan(view)
        plan.columns.cursor[COARSE] = 0 if self.reserve == "cores" else view.total[0].max()
        if self.reserve == "slurm":
            plan.columns.cursor[SEARCHES] = 1
            plan.known_groups.clear()
            plan.group(view, self.place)
            plan.replace(named=np.where(given_whole(view), WHOLE, 1))
        return plan

    def _jobs(self, view: View, memory: Plan, now: int) -> Ints:
        return in_order(self.order, view, now, memory.noted)[: self.queue].copy()

    def decide(self, view: View, memory: Plan, now: int) -> tuple[list[Decision], Plan]:
        """Run the main loop; at a multiple of the interval, plan and backfill as well."""
        if not view.waiting:
            return [], memory
        if self.main == "interval" and now % self.interval_us:
            return [], memory
        if memory.outgrown(view, self):
            memory = self.begin(view)
        if now % self.interval_us or (memory.planned_at == now and memory.planned_version == view.version):
            return self._in_order(view, memory, now), memory
        starts = self._plan(view, memory, now, brief=True)
        decisions = memory.by_rule(view, self, starts)
        memory.planned_at, memory.planned_version = now, -1 if decisions else view.version
        return decisions, memory

    def _plan(self, view: View, memory: Plan, now: int, brief: bool) -> list[Start]:
        """Plan anew; ``brief``: only as far as there are jobs that may start now."""
        jobs = self._jobs(view, memory, now)[: self.depth]
        memory.make_room(view)
        memory.forget(jobs)
        return memory.completed(self.plan(view, memory, jobs, now, brief), now, partial(self.choices, view, memory))

    def plan(self, view: View, memory: Plan, jobs: Ints, now: int, brief: bool) -> list[Start]:
        """Plan for these jobs, for which nothing is reserved."""
        what = PlanRound(compress=0, trust=False, brief=brief)
        return memory.round(view, jobs, now, what, partial(self.choices, view, memory))

    def starts_us(self, view: View, now: int) -> dict[int, int]:
        """When those would start, µs, for which a backfill now would plan."""
        whole = self.begin(view)
        starts = {start.lease.job: now for start in self._plan(view, whole, now, brief=False)}
        jobs = self._jobs(view, whole, now)[: self.depth].tolist()
        return {job: at for job in jobs if (at := starts.get(job, whole.reserved(job))) >= 0}

    def _in_order(self, view: View, memory: Plan, now: int) -> list[Decision]:
        """The main loop."""
        jobs = self._jobs(view, memory, now)
        apart = memory.columns.aside.any() or len(memory.columns.windows) > 0
        one_queue = len(view.columns.open_to) == 1 and not apart  # behind one head wait all
        if one_queue and memory.blocked.still(view, jobs) and self.mixed.timeless:
            return []
        rule = PassRule(int(Backfill.NONE), 0, self.nodes == "whole", memory.rule.fit)
        choices = partial(self.choices, view, memory)
        starts = memory.pass_over(view, jobs, NO_SECOND, now, rule, choices)
        memory.blocked.note(view, jobs, len(starts))
        starts = memory.completed(starts, now, choices)
        return memory.by_rule(view, self, starts)

    def next_round(self, view: View, memory: Plan, now: int) -> int | None:
        """The next multiple of the interval, if jobs wait and a plan then may differ from the last.

        It may where something has changed, where the order ages, or where a running job will be past its booked end.
        Else what is free at which time stays as it is, windows included; so no job has a place before its reserved
        time, and reservations stay where they are. They begin as jobs end or as windows begin or close, which is told.
        """
        if not view.waiting:
            return None
        following = (now // self.interval_us + 1) * self.interval_us
        if memory.planned_version != view.version or view.first_end_us <= following:
            return following
        again = changes_us(memory.noted, now)
        if again is not None:
            return max(following, -(-min(again, view.first_end_us) // self.interval_us) * self.interval_us)
        return None if is_fixed(self.order) else following

    def why(self, view: View, memory: Plan, job: int, now: int) -> Reason:
        """No room, too deep in the queue, a reservation for later, or waiting for the next backfill."""
        missing = self.missing(view, memory, job, now)
        if missing is not None:
            return missing
        place = np.flatnonzero(self._jobs(view, memory, now) == job)
        if len(place) == 0 or place[0] >= self.depth:
            return Reason(Code.TOO_DEEP, "jobs looked at", len(view.queue), min(self.queue, self.depth))
        reserved = memory.reserved(job)
        if reserved < 0:  # behind the last that might have started
            reserved = self.starts_us(view, now).get(job, -1)
        if reserved > now:
            return Reason(Code.RESERVED, f"from {reserved / SECOND_US:.0f} s")
        return Reason(Code.NOT_YET)
