"""Scheduling on pooled devices: an order of the queue, and a rule for where a job and its devices go.

The queue is gone through once a round in its order; a job that has a place starts, none holds others up. Jobs that ask
alike are tried together: where one has no place, those like it that wait behind it are not tried. O(kinds of demand x
(devices + nodes)) a round, plus as much for every start.

References
----------
Call et al. 2022 ("Workload-aware placement"), Algorithms 1 and 2, equations 1 to 4; Call 2022 (thesis), Algorithms 3
and 4, equation 5.1. What differs: a composition in use with bandwidth that a model governs may be oversubscribed in
MB/s (the model says what that costs); quantities that are used up count as 1 in equation 2; a job that is not to be
late is one with a predicted end of at most its deadline.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from heapq import heapify, heappop, heappush

import numpy as np

from unrack.ledger.lease import Lease
from unrack.policy.contract import EVERYTHING, Ability, Decision, Estimates, Start, Traits
from unrack.policy.orders import learns_of, reads_of
from unrack.policy.pools.place_kernel import (
    LATE,
    LEADER,
    NO_CORES,
)
from unrack.policy.pools.pool_placement import NAMES, TEXT, PoolPlacement, next_second
from unrack.policy.pools.waiting_jobs import Queue
from unrack.units import NEVER_US
from unrack.view import View
from unrack.workload.job import ESTIMATE, TASKS


@dataclass(frozen=True)
class Pooled(PoolPlacement):
    """Considers the queue in an order and starts every job that a rule finds a place for.

    Parameters
    ----------
    rule
        A name in ``RULES``, or ``"disaggregation-aware"``: max-composition or min-fragmentation, by load.
    order
        A name in ``ORDERS``.
    low, high
        Of the disaggregation-aware rule: max-composition where the loads of bandwidth and capacity are both at most
        ``low``, or bandwidth is at least ``high`` and capacity at most ``high`` (eq. 4).
    bandwidth, capacity
        Which quantities these are.
    estimates
        ``"requested"`` or ``"exact"`` run times.
    seed
        Of the random fit.
    label
        What reports call it.
    reading
        A name in ``READINGS``. ``"authors"``, for jobs of the class that a model is about beside others, differs from
        the text in this:

        * A job past its deadline has none: it may join others, which are protected as ever, and it gets as few devices
          as its demand needs.
        * The loads of eq. 4 are of running jobs, as they are when each job is tried; that of capacity has to be below
          ``high``.
        * A job that would join others is expected to run at the speed that they have without it, and under
          min-fragmentation for its base time.
        * Equation 2 divides whole numbers, where what is free of an oversubscribed composition is less than nothing;
          the cores count as 1.
        * Where a pool has fewer free devices than a composition should have, it composes none.
        * Time goes in whole seconds: it looks again at whole seconds, also at the next one after a start, and when a
          job is past its deadline. Run times are the model's (``whole_seconds``).
    """

    rule: str = "first-fit"
    order: str = "edf"
    low: float = 0.5
    high: float = 0.7
    bandwidth: str = "bandwidth_mb_s"
    capacity: str = "capacity_mb"
    estimates: Estimates = Estimates.REQUESTED
    seed: int = 0
    label: str = "pooled"
    reading: str = TEXT

    @cached_property
    def traits(self) -> Traits:
        """It places devices, one job a step."""
        does = frozenset({Ability.SEEDED} if self.rule == "random-fit" else ())
        return Traits(
            places=EVERYTHING, reads=reads_of(self.order), estimates=self.estimates, stepwise=True,
            learns=learns_of(self.order), does=does,
        )  # fmt: skip

    @property
    def name(self) -> str:
        """The label."""
        return self.label

    def seeded(self, seed: int) -> Pooled:
        """The same with the seed of the run; asked of random fit, which draws."""
        return replace(self, seed=seed)

    def begin(self, view: View) -> Queue:
        """Notes on a cluster as it is now; the jobs that wait are read in the first round."""
        return Queue(order=self.order, **self.scratch(view))

    def decide(self, view: View, memory: Queue, now: int) -> tuple[list[Decision], Queue]:
        """Start the next job that has a place; asked again until there is none."""
        under_way = memory.going is not None and memory.going == (now, view.version)  # nothing but the start happened
        memory.going = None
        if not under_way:
            if not view.waiting:
                memory.closed.clear()
                return [], memory
            memory.read(view, now)
            memory.rule = self.rule_now(view, memory)
            memory.forget(view)
            memory.closed.clear()
            failed = memory.failed
            memory.heads = [(at[0][0], s, 0) for s, at in enumerate(memory.waiting) if at and s not in failed]
            heapify(memory.heads)
        elif self.authors:
            memory.rule = self.rule_now(view, memory)  # every start changes it
        heads, failed, waiting = memory.heads, memory.failed, memory.waiting
        most_free = int(np.maximum.reduce(view.columns.free[0], initial=0)) if heads else 0
        while heads:
            rank, shape, i = heappop(heads)
            listed = waiting[shape]
            job = listed[i][1]
            if shape in failed and not memory.may(view, shape, job):
                i = memory.after(view, shape, i + 1)
                if i < len(listed):
                    heappush(heads, (listed[i][0], shape, i))
                continue
            found: Lease | int = NO_CORES
            if memory.cores[shape] <= most_free:
                found = self.find(view, memory, job, memory.rule, now)
            if isinstance(found, int):
                if found <= LATE:
                    memory.closed.add(shape)
                failed[shape] = (found, int(view.columns.asks[ESTIMATE, job]), int(memory.answer.earliest[0]))
                i = memory.after(view, shape, i + 1)
                if i < len(listed):
                    heappush(heads, (listed[i][0], shape, i))
                continue
            del listed[i]
            memory.known -= 1
            if i < len(listed):
                heappush(heads, (listed[i][0], shape, i))
            if failed and self._opens(view, memory, job):
                memory.try_again(rank)
            memory.going, memory.started_us = (now, view.version + 1), now
            return [Start(found, NAMES.get(memory.rule, self.rule))], memory
        return [], memory

    def next_round(self, view: View, memory: Queue, now: int) -> int | None:
        """The first moment at which a job that was refused because of deadlines has a place, if nothing happens.

        A job of several tasks is looked at again when a composition opens that was closed to some of them, if then
        there are places for all.
        """
        opens = self._opens_at(view, memory, now)
        if self.authors and memory.started_us == now and view.waiting:
            return min(opens, next_second(now))
        return opens if opens < NEVER_US else None

    def _opens_at(self, view: View, memory: Queue, now: int) -> int:
        if not memory.closed:
            return NEVER_US
        state = view.releases, view.running_count, memory.rule  # as long as they stay, no job's answer changes
        if memory.looked != state or memory.opens <= now:
            memory.looked, memory.opens = state, NEVER_US
            memory.seen_to.clear()
        alone: list[int] = []
        for shape in sorted(memory.closed):
            jobs = memory.freest(view, shape) if memory.waiting[shape] else []
            new = [job for job in jobs if job not in memory.seen_to]
            memory.seen_to.update(new)
            if new and view.asks[TASKS, new[0]] == 1:
                alone += new
            elif new:
                memory.opens = self.gangs_open_us(view, memory, new, now, memory.opens)
        if alone:
            first = self.soonest(view, memory, alone, memory.rule, now)
            memory.opens = min(memory.opens, first)
        return memory.opens

    def gangs_open_us(self, view: View, memory: Queue, jobs: list[int], now: int, before: int) -> int:
        """The first moment at which one of several gangs has a place; ``before`` if there is none before it."""
        tried = set()
        for job in jobs:
            like = int(view.deadline_us[job]), int(view.asks[ESTIMATE, job])
            if like in tried:
                continue
            tried.add(like)
            for moment in sorted(set(self.gang_moments(view, memory, job, now))):
                if now < moment < before and not isinstance(self.find(view, memory, job, memory.rule, moment), int):
                    before = moment
        return before

    def _opens(self, view: View, memory: Queue, job: int) -> bool:
        """Whether starting a job makes a composition that others may join."""
        devices = view.columns.devices
        return devices is not None and bool((memory.answer.rows[devices.columns.needs[:, job], LEADER] < 0).any())
