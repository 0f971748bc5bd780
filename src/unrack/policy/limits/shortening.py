"""Any policy that backfills, around which jobs with a least time start with shorter limits (Slurm: ``--time-min``).

Slurm lets backfill, and nothing else, lower a job's limit, to no less than its least time, if it can then begin earlier
than it otherwise would; once it runs its limit stays. So here: when the policy inside starts no more jobs, it is asked,
on a draft, about each job with a least time in its order, whether it would start the job now if it asked for no more
than that. If so the job starts, with the longest limit in whole seconds above its least time for which the policy says
yes. Jobs that the policy starts itself have what they ask for. Under ``slurm`` only rounds of backfill are looked at.

O(log of the seconds between) drafts and decisions for a job that starts, and one for each that does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from unrack.ledger.promises import Promises
from unrack.policy.around.around import AroundAnother, anew, innermost, queue_of
from unrack.policy.contract import Decision, Start
from unrack.policy.discipline.slurm_like import SlurmLike
from unrack.units import SECOND_US
from unrack.view import Draft, View
from unrack.workload.job import ESTIMATE

DEPTH = 100
"""So many of those that wait are looked at in a round."""


@dataclass(slots=True)
class Notes:
    """What is remembered."""

    inner: Any  # of the policy inside
    asked: bool = False  # whether the policy inside has been asked in this round, and has nothing to add
    started: bool = False  # whether a job was started without it: what it remembers is to be made anew
    version: int = -1  # of the ledger when no job could be started


@dataclass(frozen=True)
class Shortening(AroundAnother):
    """Shorter limits around a policy."""

    def begin(self, view: View) -> Notes:
        """Nothing was looked at yet."""
        return Notes(self.inner.begin(view))

    def promised(self, view: View, memory: Notes) -> Promises:
        """As the policy inside says, which did not plan for jobs that were just started."""
        found = super().promised(view, memory)
        return found.stirred() if memory.started else found

    def decide(self, view: View, memory: Notes, now: int) -> tuple[list[Decision], Notes]:
        """As the policy inside decides; then one job is started with a shorter limit."""
        if memory.started:
            memory.inner, memory.started = anew(self.inner, memory.inner, view), False
        plan: list[Decision] = []
        if not memory.asked:
            plan, memory.inner = self.inner.decide(view, memory.inner, now)
            memory.asked = bool(plan) and not self.stepwise_inside
        if not plan:
            memory.asked = False
            start = self._shortened(view, memory, now)
            plan, memory.started = ([], False) if start is None else ([start], True)
        return plan, memory

    def _shortened(self, view: View, memory: Notes, now: int) -> Start | None:
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
        decisions, _ = self.inner.decide(draft.view, self.inner.begin(draft.view), now)
        starts = [decision for decision in decisions if isinstance(decision, Start)]
        found = next((start for start in starts if start.lease.job == job), None)
        return found if len(starts) == len(decisions) else None
