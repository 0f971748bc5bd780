"""Any policy, with jobs that are stopped for others as the table ``site.preempt`` of the cluster says.

After the decisions of the policy inside, jobs that still wait and may preempt others are looked at, those first that
may preempt most, then in the policy's order. One without a place is given one by the policy itself, on a draft in which
some are stopped that it may preempt, and nobody else waits but those before it that may preempt as many: so it neither
passes these nor waits for others. The fewest are stopped, in the order of the rule, and it starts in the same moment.
A job that has a place already, and is held back by those before it, waits for its turn.

O(running) a look; a look is spared while nothing has changed, and who had no place is not tried again until something
is given back. Two drafts and decisions for all who may preempt the same, and O(log running) for each who has a place.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import Any, cast

import numpy as np

from unrack.cluster.spec import Cluster
from unrack.kernels.arrays import Bools, Ints
from unrack.ledger.promises import Promises
from unrack.policy.contract import Decision, Policy, Reject, Requeue, Start, Traits, Used
from unrack.policy.members import seeded, traits_of
from unrack.policy.orders import ORDERS, in_order
from unrack.policy.preemption.look import Look, Notes, classes_of
from unrack.policy.preemption.victims import fits
from unrack.policy.provisioning.dynamic import Dynamic
from unrack.policy.rounds import Rounds
from unrack.reasons import Reason
from unrack.resources.site.installed import Site
from unrack.resources.site.ranks import Ranks
from unrack.units import NEVER_US
from unrack.view import Draft, View
from unrack.workload.job import JobTable


def site_of(cluster: Cluster) -> Site | None:
    """The site of a cluster; ``None``: it has none."""
    found = cluster.places.installed.get("site")
    return found if isinstance(found, Site) else None


def preempts(cluster: Cluster) -> bool:
    """Whether jobs of a cluster are stopped for others: it has a table ``site.preempt``."""
    site = site_of(cluster)
    return site is not None and site.file.preempt is not None


def as_site_says(policy: Policy[Any], cluster: Cluster) -> Policy[Any]:
    """The policy with preemption where the cluster has that and the policy does not say no, and elsewhere without."""
    there = preempts(cluster)
    if isinstance(policy, Preempting):
        return policy if there and policy.on else policy.inner
    return Preempting(policy) if there else policy


@dataclass(frozen=True)
class Preempting:
    """Preemption around a policy."""

    inner: Policy[Any]  # who starts jobs
    on: bool = True  # False: nobody is preempted

    @property
    def name(self) -> str:
        """That of the policy inside."""
        return self.inner.name

    @cached_property
    def traits(self) -> Traits:
        """Those of the policy inside; it is asked again once jobs were stopped."""
        return replace(traits_of(self.inner), stepwise=True)

    @cached_property
    def _stepwise(self) -> bool:
        return traits_of(self.inner).stepwise

    def seeded(self, seed: int) -> Preempting:
        """A copy whose policy inside draws from a seed."""
        return replace(self, inner=seeded(self.inner, seed))

    def begin(self, view: View) -> Notes:
        """Who runs is taken to have started when its booked end says."""
        site = site_of(view.cluster) if self.on else None
        jobs, ends = view.running_jobs, view.running_end_us
        started = np.clip(ends - view.estimate_us[jobs], view.submit_us[jobs], max(view.now, 0))
        return Notes(
            self.inner.begin(view), None if site is None else site.ranks,
            dict(zip(jobs.tolist(), started.tolist(), strict=True)),
        )  # fmt: skip

    def promised(self, view: View, memory: Notes) -> Promises:
        """As the policy inside says; it has promised nothing to who was just stopped."""
        found: Promises = cast(Any, self.inner).promised(view, memory.inner)
        if not memory.stopped:
            return found
        return found._replace(made={job: one for job, one in found.by_job().items() if job not in memory.stopped})

    def expected_end_us(self, view: View, memory: Notes, job: int, now: int) -> int:
        """As the policy inside says."""
        return int(cast(Any, self.inner).expected_end_us(view, memory.inner, job, now))

    def reserves_mb(self, view: View, memory: Notes, job: int, asked_mb: int) -> int:
        """As the policy inside says."""
        return int(cast(Any, self.inner).reserves_mb(view, memory.inner, job, asked_mb))

    def adjust(self, view: View, memory: Notes, used: Used, now: int) -> tuple[list[Decision], Notes]:
        """As the policy inside says."""
        decisions, memory.inner = cast(Any, self.inner).adjust(view, memory.inner, used, now)
        return decisions, memory

    def possible(self, cluster: Cluster, jobs: JobTable) -> Bools:
        """As the policy inside says."""
        found: Bools = cast(Any, self.inner).possible(cluster, jobs)
        return found

    def holds(self, view: View, job: int) -> bool:
        """As the policy inside says."""
        return bool(cast(Any, self.inner).holds(view, job))

    def terms(self, cluster: Cluster) -> Any:
        """As the policy inside says."""
        return cast(Any, self.inner).terms(cluster)

    def why(self, view: View, memory: Notes, job: int, now: int) -> Reason:
        """As the policy inside says."""
        return self.inner.why(view, memory.inner, job, now)

    def next_round(self, view: View, memory: Notes, now: int) -> int | None:
        """When the policy inside wants it, or somebody has run for long enough to be preempted."""
        wanted = self.inner.next_round(view, memory.inner, now)
        memory.wanted_us = NEVER_US if wanted is None else wanted
        first = min(memory.wanted_us, memory.exempt_us if view.waiting and memory.exempt_us > now else NEVER_US)
        return None if first == NEVER_US else first

    def decide(self, view: View, memory: Notes, now: int) -> tuple[list[Decision], Notes]:
        """As the policy inside decides; then some are stopped for others."""
        if memory.over:
            memory.over = False
            return [], memory
        if memory.stopped:
            memory.inner, memory.stopped = _anew(self.inner, memory.inner, view), ()
        decisions, memory.inner = self.inner.decide(view, memory.inner, now)
        plan = decisions
        if memory.ranks is not None:
            plan = self._preempted(view, memory, memory.ranks, decisions, now)
        for decision in plan:
            if isinstance(decision, Start):
                memory.started[decision.lease.job] = now
        if len(memory.started) > 2 * view.running_count + 256:
            running = view.running_jobs.tolist()
            memory.started = {job: at for job, at in memory.started.items() if at == now or job in running}
        memory.over = bool(plan) and not self._stepwise and not memory.stopped
        return plan, memory

    def _preempted(
        self, view: View, memory: Notes, ranks: Ranks, decisions: list[Decision], now: int
    ) -> list[Decision]:  # fmt: skip
        """The decisions, and those by which some are stopped for others; what these make impossible is left out."""
        mark = view.releases, view.unforeseen, view.capacity_version
        if mark != memory.mark or now >= min(memory.wanted_us, memory.exempt_us):
            memory.failed.clear()
            memory.held.clear()
            memory.mark, memory.exempt_us, memory.version = mark, NEVER_US, -1
        unchanged, memory.version = memory.version == view.version, view.version + len(decisions)
        if (unchanged and not decisions) or not all(isinstance(decision, Start | Reject) for decision in decisions):
            return decisions
        starts = {decision.lease.job: decision for decision in decisions if isinstance(decision, Start)}
        if not ranks.height[classes_of(view, ranks, view.queue)].any():
            return decisions
        if starts:
            memory.held.clear()
        memory.gone = {one for one in memory.gone if one[0] == now}
        new = classes_of(view, ranks, np.array(list(starts), np.int64))
        if ranks.height[new].any() or (ranks.by_quota and ranks.may[:, new].any()):
            memory.failed.clear()
        jobs = _in_order(self.inner, memory.inner, view, now)
        classes = classes_of(view, ranks, jobs)
        turn = np.argsort(-ranks.height[classes], kind="stable")[: int((ranks.height[classes] > 0).sum())]
        look = Look(self.inner, view, memory, ranks, starts, now)
        may, order = ranks.may, zip(jobs[turn].tolist(), classes[turn].tolist(), strict=True)
        for _, group in groupby(order, lambda one: one[0] if ranks.by_quota else may[one[1]].tobytes()):
            some = list(group)
            look.give_places([job for job, _ in some if job not in starts], may[some[0][1]])
        if not look.stops:
            return decisions
        placed = {start.lease.job for _, start in look.stops}
        plan: list[Decision] = []
        for decision in decisions:
            own = decision.lease.job if isinstance(decision, Start) else decision.job  # type: ignore[union-attr]
            if own not in look.dropped and own not in placed:
                plan.append(decision)
        for victims, start in look.stops:
            plan += [*victims, start]
        if look.dropped and not _possible(view, plan, now):
            return decisions
        memory.version = -1
        memory.stopped = tuple(one.job for victims, _ in look.stops for one in victims if isinstance(one, Requeue))
        memory.stopped = memory.stopped or (-1,)  # somebody was left out, and what is remembered is wrong
        return plan


def _in_order(policy: Any, memory: Any, view: View, now: int) -> Ints:
    """int64[waiting]: those who wait in the order of the policy, or as they came."""
    while isinstance(policy, Dynamic):
        policy, memory = policy.inner, memory.inner
    order, noted = getattr(policy, "order", None), getattr(memory, "noted", None)
    known = callable(order) or order in ORDERS
    return in_order(order, view, now, {} if noted is None else noted) if order is not None and known else view.queue


def _possible(view: View, plan: list[Decision], now: int) -> bool:
    """Whether a plan can be carried out in its order."""
    draft = Draft(view, now)
    for decision in plan:
        if isinstance(decision, Requeue):
            draft.stop(decision.job)
        elif isinstance(decision, Start) and not fits(draft, decision.lease):
            return False
    return True


def _anew(policy: Any, memory: Any, view: View) -> Any:
    """What a policy remembers once jobs were stopped and started without it.

    Policies in rounds read the queue in each, and what was learnt of the use of memory stays true.
    """
    if isinstance(policy, Dynamic):
        memory.inner = _anew(policy.inner, memory.inner, view)
        memory.settled.clear()
        return memory
    return memory if isinstance(policy, Rounds) else policy.begin(view)
