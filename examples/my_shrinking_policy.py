"""A policy of one's own whose leases shrink: half-way every job gives back part of its memory, remote memory first.

unrack run examples/my_shrinking_policy.toml
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import Any

import numpy as np

from unrack import Cluster
from unrack.policy import ESTIMATE, MEMORY, Decision, Policy, Reason, Resize, Traits, View, parse_policy, smaller
from unrack.workload import JobTable


@dataclass(frozen=True)
class GivesBack:
    """Starts jobs as another policy does, and takes part of their memory away after some time.

    Parameters
    ----------
    inner
        Who starts them: a policy that lends. Its memory is all that this policy remembers, too.
    after
        When they give back: a share of the time that they asked for.
    keep
        How much of the memory that they asked for they keep.
    """

    inner: Policy[Any]
    after: float = 0.5
    keep: float = 0.6

    @property
    def name(self) -> str:
        """What reports call it."""
        return f"{self.inner.name}, gives back"

    @property
    def traits(self) -> Traits:
        """As the other policy; but it is asked again after it has taken memory back: then others may start on it."""
        return replace(self.inner.traits, stepwise=True)

    def possible(self, cluster: Cluster, jobs: JobTable) -> np.ndarray:
        """What the other policy could start on the empty cluster."""
        return np.asarray(self.inner.possible(cluster, jobs))  # type: ignore[attr-defined]  # of policies that lend

    def begin(self, view: View) -> Any:
        """The other policy's memory."""
        return self.inner.begin(view)

    def decide(self, view: View, memory: Any, now: int) -> tuple[list[Decision], Any]:
        """Take back what is due; if nothing is, start whoever fits."""
        back: list[Decision] = [self.less(view, job) for job, due in self.holding_all(view) if due <= now]
        return (back, memory) if back else self.inner.decide(view, memory, now)

    def next_round(self, view: View, memory: Any, now: int) -> int | None:
        """When the next job gives memory back, unless the other policy wants to be asked before."""
        times = [self.inner.next_round(view, memory, now), *(due for _, due in self.holding_all(view))]
        return min((time for time in times if time is not None and time > now), default=None)

    def why(self, view: View, memory: Any, job: int, now: int) -> Reason:
        """As the other policy says."""
        return self.inner.why(view, memory, job, now)

    def holding_all(self, view: View) -> list[tuple[int, int]]:
        """The running jobs that have given nothing back yet, and when each will (µs): read from what they hold."""
        ends, jobs = view.running[:, : view.running_count]
        due = ends - ((1 - self.after) * view.asks[ESTIMATE, jobs]).astype(np.int64)
        found = []
        for job, when in zip(jobs.tolist(), due.tolist(), strict=True):
            lease = view.lease(job)
            held = int((lease.rows[:, 1] * lease.rows[:, 4]).sum() + lease.borrowed[:, 2].sum())
            if held > 0 and held >= view.asks[0, job] * view.asks[MEMORY, job]:
                found.append((job, when))
        return found

    def less(self, view: View, job: int) -> Resize:
        """The same lease with less memory on every node."""
        lease, mb = view.lease(job), int(view.asks[MEMORY, job])
        tasks = np.repeat(lease.rows[:, 2], lease.rows[:, 1]).tolist()
        kept = {node: ceil(self.keep * count * mb) for node, count in zip(lease.nodes.tolist(), tasks, strict=True)}
        return Resize(smaller(lease, kept), below=True)


GIVES_BACK = GivesBack(parse_policy("disaggregated(scheduler=easy)"))
