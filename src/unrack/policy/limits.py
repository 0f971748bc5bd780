"""Limits of run time that policies choose: shorter ones at the start, more time at the end.

*Extension* is that of OAR (``oarwalltime``: WALLTIME_INCREMENT, WALLTIME_MAX_INCREASE), for which no user has to ask:
when a job would be stopped at its limit, it may run on for a step, up to a most, if that delays no job that was
promised anything. The discipline says which was, on drafts with the longer job: of a plan all that have reservations,
of Slurm's those for which it would plan now, under lists and EASY the heads, by what is booked. Where anybody may pass
a head, and under other policies, a job runs on only if no job would start if it ended. No job runs into a window, or
beyond the end of its own.

Two drafts, a decision or plan on each, and one at every end within the step for each head.

*Shorter limits*, for jobs with a least time under any policy that backfills (Slurm: ``--time-min``). Slurm lets
backfill, and nothing else, lower a job's limit, to no less than its least time, if it can then begin earlier than it
otherwise would; once it runs its limit stays. So here: when the policy inside starts no more jobs, it is asked, on a
draft, about each job with a least time in its order, whether it would start the job now if it asked for no more than
that. If so the job starts, with the longest limit in whole seconds above its least time for which the policy says yes.
Jobs that the policy starts itself have what they ask for. Under ``slurm`` only rounds of backfill are looked at.

O(log of the seconds between) drafts and decisions for a job that starts, and one for each that does not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from unrack.errors import InputError, PolicyError
from unrack.ledger.jobs import Promises
from unrack.policy.around import AroundAnother, Rounds, anew, decided, heads_of, innermost, queue_of, traits_of
from unrack.policy.contract import Ability, Decision, Estimates, Extend, Policy, Start, Traits
from unrack.policy.discipline.list_scheduler import ListScheduler
from unrack.policy.discipline.reservations import Conservative, SlurmLike
from unrack.policy.prediction.easy_plus_plus import EasyPlusPlus
from unrack.policy.provisioning.dynamic import Dynamic
from unrack.policy.sizing.sizing import Sizing
from unrack.reasons import Code
from unrack.resources.places import is_resource
from unrack.units import SECOND_US
from unrack.view import Draft, View
from unrack.view.windows import may_go_on
from unrack.workload.job import ESTIMATE, JobTable
from unrack.workload.site.sessions import components_of
from unrack.workload.sizing import COLUMN

STEPS = 4
"""So many steps are given at most, where nothing else is said."""


@dataclass(slots=True)
class LimitNotes:
    """What is remembered."""

    inner: Any  # of the policy inside
    version: int = -1


@dataclass(frozen=True)
class Extending(AroundAnother):
    """More time for running jobs around a policy.

    ``step_us``, ``most_us``: how much more time a job is given at once, and in all beyond the limit that it had at
    first.
    """

    step_us: int = 0
    most_us: int = 0

    @cached_property
    def traits(self) -> Traits:
        """Those of the policy inside, and that it gives more time."""
        inner = traits_of(self.inner)
        return replace(inner, does=inner.does | {Ability.EXTENDS})

    def begin(self, view: View) -> LimitNotes:
        """As the policy inside begins."""
        return LimitNotes(self.inner.begin(view))

    def decide(self, view: View, memory: LimitNotes, now: int) -> tuple[list[Decision], LimitNotes]:
        """As the policy inside decides."""
        decisions, memory.inner = self.inner.decide(view, memory.inner, now)
        return decisions, memory

    def extends(self, view: View, memory: LimitNotes, job: int, now: int) -> Extend | None:
        """A step more for a job that has used up its limit, if that delays no job."""
        more_us = min(self.step_us, self.most_us - view.columns.extended_us.get(job, 0))
        until_us = max(now, int(view.running_end_us[view.running_jobs == job][0])) + more_us  # it may be asked early
        if more_us <= 0 or view.columns.suspended or delays(innermost(self.inner), view, job, until_us, now):
            return None
        return Extend(job, until_us)


def delays(policy: Policy[Any], view: View, job: int, until: int, now: int) -> bool:
    """Whether a waiting job would be worse off, by what a discipline promises, if a job ran until a time, µs."""
    longer = Draft(view, now)
    longer.extend(job, until)
    if not may_go_on(longer.view, job):
        return True
    if not view.waiting:
        return False
    if isinstance(policy, Conservative):
        decisions, plan = policy.decide(longer.view, policy.begin(longer.view), now)
        start = {one.lease.job: now for one in decisions if isinstance(one, Start)}
        promised, found = view.promises.by_job(), plan.promised()
        waiting = ((other, promised[other].start_us) for other in view.queue.tolist() if other in promised)
        return any(not 0 <= start.get(other, found.start_us(other)) <= max(at, now) for other, at in waiting)
    ended = Draft(view, now)
    ended.stop(job)
    if isinstance(policy, SlurmLike):
        before, after = policy.starts_us(ended.view, now), policy.starts_us(longer.view, now)
        return any(not 0 <= after.get(other, -1) <= at for other, at in before.items())
    listed = policy if isinstance(policy, ListScheduler) else None
    promises = listed is not None and listed.backfill == "easy"
    if not promises and _starts(policy, ended).keys() - _starts(policy, longer).keys():
        return True
    first = None if listed is None else replace(listed, backfill="none", backfill_order=None)
    return first is not None and _delays_heads(first, ended, longer, until)


def _delays_heads(policy: ListScheduler, ended: Draft, longer: Draft, until: int) -> bool:
    """Whether one of those that hold up others could start earlier, by what is booked, if a job had ended now."""
    now = ended.now
    for start in _starts(policy, longer).values():  # jobs that are before the heads
        for draft in (ended, longer):
            draft.start(start.lease)
    for head in _heads(policy, longer.view, now):
        at = _first_us(policy, ended.view, head, now, until)
        if at is not None and _first_us(policy, longer.view, head, now, at + 1) is None:
            return True
    return False


def _starts(policy: Policy[Any], draft: Draft) -> dict[int, Start]:
    decisions, _ = decided(policy, draft.view, policy.begin(draft.view), draft.now)
    return {one.lease.job: one for one in decisions if isinstance(one, Start)}


def _heads(policy: Policy[Any], view: View, now: int) -> list[int]:
    """Jobs that wait and hold up others: each the first on its nodes, and not for room in a limit."""
    memory = policy.begin(view)
    queue = queue_of(policy, memory, view, now)
    return heads_of(view, queue, lambda job: policy.why(view, memory, job, now).code == Code.LIMIT)


def _first_us(policy: Policy[Any], view: View, job: int, now: int, before: int) -> int | None:
    """When a job would start at first before a time, µs, if no other waited; ``None``: not before it."""
    draft = Draft(view, now)
    draft.only([job])
    windows = [at for window in view.cluster.places.windows for at in (window.start_us, window.end_us)]
    while True:
        if _starts(policy, draft):
            return draft.now
        ends = draft.next_end_us()
        times = [at for at in (*windows, before if ends is None else ends) if draft.now < at < before]
        if not times:
            return None
        draft.move_on(min(times))


def extended(policy: Policy[Any], step_us: int, most_us: int | None, where: str) -> Extending:
    """A policy that gives running jobs more time. A PolicyError if that does not go with what the policy is."""
    traits, inner = traits_of(policy), innermost(policy)
    for why, wrong in (
        ("places servers of one task in tiers of memory", traits.tiers),
        ("learns run times from those of other jobs", isinstance(inner, EasyPlusPlus)),
        ("changes the memory of running jobs", isinstance(policy, Dynamic) or traits.monitor_us > 0),
        ("is asked in rounds of its own", isinstance(inner, Rounds)),
        ("chooses or changes sizes", isinstance(policy, Sizing)),
        ("knows how long jobs run, whatever they ask", traits.estimates == Estimates.EXACT),
    ):
        if wrong:
            raise PolicyError(f"{where}, extension", f"a policy that {why}", "another policy, or no extension")
    most_us = STEPS * step_us if most_us is None else most_us
    if most_us < step_us:
        raise PolicyError(f"{where}, extension_most", f"less than the extension at once: {most_us / 10**6:g} s", "more")
    return Extending(policy, step_us, most_us)


DEPTH = 100
"""So many of those that wait are looked at in a round."""


@dataclass(slots=True)
class Shortened:
    """What is remembered."""

    inner: Any  # of the policy inside
    asked: bool = False  # whether the policy inside has been asked in this round, and has nothing to add
    started: bool = False  # whether a job was started without it: what it remembers is to be made anew
    version: int = -1  # of the ledger when no job could be started


@dataclass(frozen=True)
class Shortening(AroundAnother):
    """Shorter limits around a policy."""

    def begin(self, view: View) -> Shortened:
        """Nothing was looked at yet."""
        return Shortened(self.inner.begin(view))

    def promised(self, view: View, memory: Shortened) -> Promises:
        """As the policy inside says, which did not plan for jobs that were just started."""
        found = super().promised(view, memory)
        return found.stirred() if memory.started else found

    def decide(self, view: View, memory: Shortened, now: int) -> tuple[list[Decision], Shortened]:
        """As the policy inside decides; then one job is started with a shorter limit."""
        if memory.started:
            memory.inner, memory.started = anew(self.inner, memory.inner, view), False
        plan: list[Decision] = []
        if not memory.asked:
            plan, memory.inner = self.inner.decide(view, memory.inner, now)
            memory.asked = bool(plan) and not self.stepwise_inside(memory)
        if not plan:
            memory.asked = False
            start = self._shortened(view, memory, now)
            plan, memory.started = ([], False) if start is None else ([start], True)
        return plan, memory

    def _shortened(self, view: View, memory: Shortened, now: int) -> Start | None:
        inner, least_us = innermost(self.inner), view.columns.least_us
        if not view.waiting or (isinstance(inner, SlurmLike) and now % inner.interval_us):
            return None
        if memory.version == view.version and not view.cluster.places.windows and view.first_end_us > now:
            return None
        for job in queue_of(self.inner, memory.inner, view, now)[:DEPTH].tolist():
            whole_us, least = int(view.asks[ESTIMATE, job]), least_us.get(job, 0)
            found = self._start(view, job, least, now) if 0 < least < whole_us else None
            if found is None:
                continue
            few, many = 0, (whole_us - least - 1) // SECOND_US + 1  # seconds more with which it starts, and may not
            while many - few > 1:
                middle = (few + many) // 2
                start = self._start(view, job, least + middle * SECOND_US, now)
                if start is None:
                    many = middle
                else:
                    found, few = start, middle
            return found._replace(limit_us=least + few * SECOND_US)
        memory.version = view.version
        return None

    def _start(self, view: View, job: int, time_us: int, now: int) -> Start | None:
        """How the policy inside would start a job that asked for so long, if it stopped no other for it."""
        draft = Draft(view, now)
        draft.expect(job, time_us)
        decisions, _ = decided(self.inner, draft.view, self.inner.begin(draft.view), now)
        starts = [decision for decision in decisions if isinstance(decision, Start)]
        found = next((start for start in starts if start.lease.job == job), None)
        return found if len(starts) == len(decisions) else None


def backfills(policy: Policy[Any]) -> bool:
    """Whether jobs may pass others under a policy."""
    return getattr(innermost(policy), "backfill", "easy") != "none"


def check_stopping(policy: Policy[Any], jobs: JobTable) -> None:
    """Refuse what does not go with jobs that are stopped at their limits.

    A PolicyError or InputError names the first.
    """
    where, inner = "jobs that are stopped at their limits (site.over_time, extension)", policy
    if isinstance(inner, Shortening):
        inner = inner.inner
    for why, wrong in (
        ("chooses or changes sizes", isinstance(inner, Sizing)),
        ("changes the memory of running jobs", traits_of(policy).monitor_us > 0),
        ("knows how long jobs run, whatever they ask", traits_of(policy).estimates == Estimates.EXACT),
    ):
        if wrong:
            raise PolicyError(where, f"{policy.name}, which {why}", "another policy, or neither")
    extends = isinstance(inner, Extending)
    for got, wrong in (
        ("jobs of known use of memory", jobs.usage is not None),
        ("extension, and jobs with pooled devices", extends and any(not is_resource(kind) for kind, _ in jobs.devices)),
    ):
        if wrong:
            raise InputError(where, got, "either, not both")


def shortening(policy: Policy[Any], jobs: JobTable) -> Policy[Any]:
    """The policy with shorter limits for some of these jobs; without where no job passes others.

    A PolicyError or InputError if it is none of those that limits are shortened under, or the jobs have what does not
    go with it.
    """
    for got, wrong in (
        ("heterogeneous jobs", bool(components_of(jobs))),
        ("jobs of known use of memory", jobs.usage is not None),
    ):
        if wrong:
            raise InputError(f"workload, {COLUMN}", got, "either, not both")
    inner = innermost(policy)
    if isinstance(policy, Sizing) or not isinstance(inner, ListScheduler | Conservative | SlurmLike):
        want = "a list, EASY, conservative or Slurm-like one, without molding or resizing"
        raise PolicyError(f"policy {policy.name}", f"a workload with {COLUMN}", want)
    if traits_of(policy).estimates == Estimates.EXACT:
        raise PolicyError(
            f"policy {policy.name}", f"{COLUMN}, and exact estimates", "requested ones, or no such column"
        )
    return Shortening(policy) if backfills(policy) else policy
