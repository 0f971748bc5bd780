"""Policies of one's own, in one file: an order, a placement, a whole discipline.

unrack run examples/my_policy.toml
unrack run examples/demo.toml --policy examples/my_policy.py:SHORT_AND_OLD
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from unrack.policy import Candidate, Decision, ListScheduler, Placed, SeenJob, Start, View, by_formula


# 1. An order of one's own, with EASY backfill around it.
def short_and_old(job: SeenJob) -> float:
    """Least expected run time first, but every hour of waiting counts as ten minutes less."""
    return job.estimate_us - job.wait_us / 6


SHORT_AND_OLD = ListScheduler(order=by_formula(short_and_old), backfill="easy", label="short and old")


# 2. A placement of one's own: the nodes that are least in use.
def least_loaded(view: View, job: SeenJob, now: int) -> Iterable[Candidate]:
    """Nodes with room for tasks of the job, in the order in which its tasks fill them."""
    return sorted(view.candidates(job), key=lambda node: node.load)


LEAST_LOADED = Placed(least_loaded, order="fcfs", label="least loaded")


# 3. A whole discipline: whose user has fewest jobs running goes first, and never more than `limit` jobs at a time.
@dataclass(frozen=True)
class FewAtATime:
    """Fewest running jobs of the user first, and never more than ``limit`` jobs at a time."""

    limit: int = 8
    name: str = "few at a time"
    stepwise: bool = True  # asked again after each start: view then has what it took

    def decide(self, view: View, memory: None, now: int) -> tuple[list[Decision], None]:
        """Start the next job, if there is one with room."""
        if view.running_count >= self.limit:
            return [], memory
        running = Counter(view.job(job).user for job in view.running_jobs.tolist())
        for job in sorted(view.waiting_jobs(), key=lambda job: (running[job.user], job.index)):
            start = Start.on(view.candidates(job))
            if start is not None:
                return [start], memory
        return [], memory


FEW = FewAtATime()
