"""Any policy, around which running jobs that have used up their limits are given more time (``extension``).

The walltime extension of OAR (``oarwalltime``: WALLTIME_INCREMENT, WALLTIME_MAX_INCREASE), for which no user has to
ask: when a job would be stopped at its limit, it may run on for a step, up to a most, if that delays no job that was
promised anything. The discipline says which was, on drafts with the longer job: of a plan all that have reservations,
of Slurm's those for which it would plan now, under lists and EASY the heads, by what is booked. Where anybody may pass
a head, and under other policies, a job runs on only if no job would start if it ended. No job runs into a window, or
beyond the end of its own.

Two drafts, a decision or plan on each, and one at every end within the step for each head.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from unrack.errors import PolicyError
from unrack.policy.around.around import AroundAnother, innermost, queue_of
from unrack.policy.contract import Ability, Decision, Estimates, Extend, Policy, Start, Traits
from unrack.policy.discipline.conservative import Conservative
from unrack.policy.discipline.list_scheduler import ListScheduler
from unrack.policy.discipline.skyline.columns import met
from unrack.policy.discipline.slurm_like import SlurmLike
from unrack.policy.members import traits_of
from unrack.policy.prediction.easy_plus_plus import EasyPlusPlus
from unrack.policy.provisioning.dynamic import Dynamic
from unrack.policy.rounds import Rounds
from unrack.policy.sizing.sizing import Sizing
from unrack.reasons import Code
from unrack.view import Draft, View
from unrack.view.windows import may_go_on

STEPS = 4
"""So many steps are given at most, where nothing else is said."""


@dataclass(slots=True)
class Notes:
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

    def begin(self, view: View) -> Notes:
        """As the policy inside begins."""
        return Notes(self.inner.begin(view))

    def decide(self, view: View, memory: Notes, now: int) -> tuple[list[Decision], Notes]:
        """As the policy inside decides."""
        decisions, memory.inner = self.inner.decide(view, memory.inner, now)
        return decisions, memory

    def extends(self, view: View, memory: Notes, job: int, now: int) -> Extend | None:
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
    """Jobs that a policy would start on a draft."""
    decisions, _ = policy.decide(draft.view, policy.begin(draft.view), draft.now)
    return {one.lease.job: one for one in decisions if isinstance(one, Start)}


def _heads(policy: Policy[Any], view: View, now: int) -> list[int]:
    """Jobs that wait and hold up others: each the first on its nodes, and not for room in a limit."""
    meets, of, found, memory = met(view.columns.open_to), view.columns.set_of, list[int](), policy.begin(view)
    for job in queue_of(policy, memory, view, now).tolist():
        if any(meets[of[job], of[head]] for head in found):
            continue
        if policy.why(view, memory, job, now).code != Code.LIMIT:
            found.append(job)
    return found


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
