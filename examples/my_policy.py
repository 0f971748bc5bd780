"""Two policies of one's own, in one file.

unrack run examples/my_policy.toml
unrack run examples/demo.toml --policy examples/my_policy.py:SHORT_AND_OLD
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unrack.policy import ESTIMATE, Decision, Lease, ListScheduler, Start, View, by_key


# 1. An order of one's own, with EASY backfill around it.
def short_and_old(view: View, queue: np.ndarray, now: int) -> np.ndarray:
    """Least expected run time first, but every hour of waiting counts as ten minutes less."""
    waited = now - view.submit_us[queue]
    return by_key(queue, view.asks[ESTIMATE][queue] - waited // 6)


SHORT_AND_OLD = ListScheduler(order=short_and_old, backfill="easy", label="short and old")


# 2. A policy from nothing: at most `limit` jobs at a time, oldest first, each on nodes that are wholly idle.
@dataclass(frozen=True)
class FewAtATime:
    """Oldest first on idle nodes, and never more than ``limit`` jobs at a time."""

    limit: int = 8
    name: str = "few at a time"

    def decide(self, view: View, memory: None, now: int) -> tuple[list[Decision], None]:
        """Start what may start now."""
        decisions: list[Decision] = []
        idle = [int(node) for node in np.flatnonzero(view.online & (view.free[0] == view.total[0]))]
        for job in view.queue[: max(0, self.limit - view.running_count)].tolist():
            tasks, cores, mb, _ = view.asks[:, job].tolist()
            nodes, counts = [], []
            for node in idle:
                fits = int(view.total[0, node]) // cores
                if mb:
                    fits = min(fits, int(view.free[1, node]) // mb)
                if fits and tasks:
                    nodes.append(node)
                    counts.append(min(fits, tasks))
                    tasks -= counts[-1]
            if tasks:
                break  # the oldest job waits, and so do those behind it
            idle = [node for node in idle if node not in nodes]
            decisions.append(Start(Lease.on(job, nodes, counts, [n * cores for n in counts], [n * mb for n in counts])))
        return decisions, memory


FEW = FewAtATime()
