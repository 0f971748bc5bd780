"""Any policy, with jobs that are stopped for others as the table ``site.preempt`` of the cluster says.

After the decisions of the policy inside, jobs that still wait and may preempt others are looked at, those first that
may preempt most, then in the policy's order. One without a place is given one by the policy itself, on a draft in which
some are stopped that it may preempt, and no other waits but those before it that may preempt as many: so it neither
passes these nor waits for others. The fewest are stopped, in the order of the rule, and it starts in the same moment.
A job that has a place already, and is held back by those before it, waits for its turn.

O(running) a look; a look is spared while nothing has changed, and a job that had no place is not tried again until
something is given back. Two drafts and decisions for all that may preempt the same, and O(log running) for each that
has a place.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np

from unrack.cluster.spec import Cluster
from unrack.errors import InputError, PolicyError
from unrack.ledger.jobs import Promises
from unrack.policy.around import AroundAnother, Rounds, anew, decided, innermost, queue_of, traits_of, without
from unrack.policy.contract import Decision, Policy, Reject, Requeue, Resume, Start
from unrack.policy.preemption.look import SUSPEND, Look, PreemptionNotes, carried_out, going_on, kept_for
from unrack.policy.preemption.victims import classes_of, with_components
from unrack.policy.provisioning.dynamic import Dynamic
from unrack.policy.sizing.sizing import Sizing
from unrack.reasons import Reason
from unrack.resources.site.installed import Site
from unrack.resources.site.ranks import Ranks
from unrack.units import NEVER_US
from unrack.view import View
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
    if isinstance(policy, AroundAnother) and not isinstance(policy, Preempting | Dynamic):
        return replace(policy, inner=as_site_says(policy.inner, cluster))
    if isinstance(policy, Preempting):
        return policy if there and policy.on else policy.inner
    return Preempting(policy) if there else policy


@dataclass(frozen=True)
class Preempting(AroundAnother):
    """Preemption around a policy."""

    on: bool = True  # False: no job is preempted

    def begin(self, view: View) -> PreemptionNotes:
        """A running job is taken to have started when its booked end says."""
        site = site_of(view.cluster) if self.on else None
        ranks = None if site is None or site.ranks is None else with_components(view, site.ranks)
        return PreemptionNotes(self.inner.begin(view), ranks, _started(view), ranked=len(view.components.of))

    def promised(self, view: View, memory: PreemptionNotes) -> Promises:
        """As the policy inside says; it has promised nothing to jobs that were just stopped."""
        found = super().promised(view, memory)
        return without(found, memory.stopped).stirred() if memory.stopped else found

    def anew(self, memory: PreemptionNotes, view: View) -> PreemptionNotes:
        """As of any; and the policy inside has been asked about something else."""
        memory.over = False
        found: PreemptionNotes = super().anew(memory, view)
        return found

    def next_round(self, view: View, memory: PreemptionNotes, now: int) -> int | None:
        """When the policy inside wants it, or a job has run for long enough to be preempted."""
        wanted = self.inner.next_round(self._seen(view, memory, now), memory.inner, now)
        memory.wanted_us = NEVER_US if wanted is None else wanted
        first = min(memory.wanted_us, memory.exempt_us if view.waiting and memory.exempt_us > now else NEVER_US)
        return None if first == NEVER_US else first

    def why(self, view: View, memory: PreemptionNotes, job: int, now: int) -> Reason:
        """As the policy inside says."""
        return self.inner.why(self._seen(view, memory, now), memory.inner, job, now)

    def _seen(self, view: View, memory: PreemptionNotes, now: int) -> View:
        """What the policy inside is shown."""
        return view if memory.ranks is None else kept_for(view, memory.ranks, memory.started, now)

    def decide(self, view: View, memory: PreemptionNotes, now: int) -> tuple[list[Decision], PreemptionNotes]:
        """As the policy inside decides; then some are stopped for others."""
        if memory.over:
            memory.over = False
            return [], memory
        seen = self._seen(view, memory, now)
        if memory.stopped or memory.kept or seen is not view:
            memory.inner, memory.stopped, memory.kept = anew(self.inner, memory.inner, seen), (), seen is not view
        decisions, memory.inner = decided(self.inner, seen, memory.inner, now)
        plan = decisions
        if memory.ranks is not None and (site := site_of(view.cluster)) is not None:
            together = len(view.components.of)
            if together != memory.ranked or (site.ranks is not None and site.ranks.of is not memory.ranks.of):
                # a job that came alone may be of a class that there was not
                memory.ranks, memory.ranked = with_components(view, site.ranks or memory.ranks), together
            plan = self._preempted(view, memory, memory.ranks, decisions, now)
            if view.columns.suspended:
                plan = [*plan, *going_on(view, memory.ranks, memory.started, plan, now)]
        for decision in plan:
            if isinstance(decision, Start):
                memory.started[decision.lease.job] = now
            elif isinstance(decision, Resume):  # it runs for as much longer
                memory.started[decision.job] += now - view.columns.suspended[decision.job].since_us
        if len(memory.started) > 2 * view.running_count + 256:
            running = view.running_jobs.tolist()
            memory.started = {job: at for job, at in memory.started.items() if at == now or job in running}
        memory.over = bool(plan) and not memory.stopped
        return plan, memory

    def _preempted(
        self, view: View, memory: PreemptionNotes, ranks: Ranks, decisions: list[Decision], now: int
    ) -> list[Decision]:  # fmt: skip
        """The decisions, and those by which some are stopped for others; what these make impossible is left out."""
        mark = view.releases, view.unforeseen, view.capacity_version
        if mark != memory.mark or now >= min(memory.wanted_us, memory.exempt_us):
            if now >= memory.exempt_us:  # the policy inside sees nothing of that, and might plan no more
                memory.inner = anew(self.inner, memory.inner, view)
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
        jobs = queue_of(self.inner, memory.inner, view, now)
        classes = classes_of(view, ranks, jobs)
        turn = np.argsort(-ranks.height[classes], kind="stable")[: int((ranks.height[classes] > 0).sum())]
        if not memory.started.keys() >= set(view.running_jobs.tolist()):  # jobs were started by another policy
            memory.started = _started(view) | memory.started
        look = Look(self.inner, view, memory, ranks, starts, now)
        may, order = ranks.may, zip(jobs[turn].tolist(), classes[turn].tolist(), strict=True)
        for _, group in groupby(order, lambda one: one[0] if ranks.by_quota else may[one[1]].tobytes()):
            some = list(group)
            look.give_places([job for job, _ in some if job not in starts], may[some[0][1]])
        if not look.stops:
            return decisions
        if ranks.by_quota:  # those that were just started may be stopped in their turn
            memory.failed.clear()
        placed = {start.lease.job for _, start in look.stops}
        plan: list[Decision] = []
        for decision in decisions:
            own = decision.lease.job if isinstance(decision, Start) else decision.job  # type: ignore[union-attr]
            if own not in look.dropped and own not in placed:
                plan.append(decision)
        for victims, start in look.stops:
            plan += [*victims, start]
        if look.dropped and carried_out(view, plan, now) is None:
            return decisions
        memory.version = -1
        memory.stopped = tuple(one.job for victims, _ in look.stops for one in victims if isinstance(one, Requeue))
        memory.stopped = memory.stopped or (-1,)  # a job was left out, and what is remembered is wrong
        return plan


def _started(view: View) -> dict[int, int]:
    """Running job → when it started, µs, as its booked end says."""
    jobs, ends = view.running_jobs, view.running_end_us
    started = np.clip(ends - view.estimate_us[jobs], view.submit_us[jobs], max(view.now, 0))
    return dict(zip(jobs.tolist(), started.tolist(), strict=True))


def suspends(policy: Policy[Any], cluster: Cluster) -> bool:
    """Whether jobs may be suspended: a policy preempts, and some of the jobs of a bound site are to be by that mode."""
    while isinstance(policy, AroundAnother) and not isinstance(policy, Preempting | Dynamic):
        policy = policy.inner
    site = site_of(cluster)
    if not isinstance(policy, Preempting) or site is None or site.ranks is None:
        return False
    there = np.unique(site.ranks.of)
    return any(site.ranks.mode[one] == SUSPEND for one in there[site.ranks.may[np.ix_(there, there)].any(axis=0)])


def check_suspending(policy: Policy[Any], jobs: JobTable, modelled: bool) -> None:
    """Refuse what suspended jobs do not go with.

    ``modelled``: whether models say how fast jobs run on devices. A PolicyError or InputError names the first.
    """
    inner, traits = innermost(policy), traits_of(policy)
    for why, wrong in (
        ("is asked in rounds of its own", isinstance(inner, Rounds)),
        ("changes the memory of running jobs", traits.monitor_us > 0),
        ("places servers in tiers of memory", traits.tiers),
        ("changes the sizes of running jobs", isinstance(policy, Sizing) and policy.resizing is not None),
    ):
        if wrong:
            want = "a list, EASY, conservative or Slurm-like one, preempt=no, or another mode"
            raise PolicyError("site.preempt, mode suspend", f"a policy that {why}", want)
    for got, wrong in (
        ("jobs of known use of memory", jobs.usage is not None),
        ("models of devices, which know no jobs that stand", modelled),
    ):
        if wrong:
            raise InputError("site.preempt, mode suspend", got, "none of these, or another mode")
