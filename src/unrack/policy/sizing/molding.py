"""Which size a moldable job is to have.

``earliest-end``: that with which it is expected to end first, of equal ones the fewest tasks. Where the policy promises
starts, it is asked for its promise to each size, once, when the job comes: the adaptive requests of Cirne and Berman
2002. Elsewhere the start is that at which enough is free if only those that run now are counted, and the choice is made
again until the job starts: the schedule-time choice of Srinivasan et al. 2002.

``working-set``: the most tasks, up to an equal share of the cluster among all jobs that wait or run, and up to the knee
of its speed-up S, where S²/n is largest: the processor working set of Ghosal, Serazzi and Tripathi 1991.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from unrack.ledger.sizes.sizes import Sizes
from unrack.policy.contract import Policy, Start
from unrack.policy.sizing.openings import Openings
from unrack.view import Draft, View

EARLIEST, WORKING_SET = RULES = ("earliest-end", "working-set")


def knee(sizes: Sizes) -> int:
    """The processor working set: the size with the largest speed-up² per task; of equal ones the smallest.

    Examples
    --------
    >>> knee(Sizes((1, 2, 4, 8), (1.0, 1.9, 3.2, 4.0)))
    4
    """
    return max(sizes.tasks, key=lambda n: (sizes.speed_at(n) ** 2 / n, -n))


def working_set(sizes: Sizes, share: int) -> int:
    """The largest size up to the knee and an equal share; the smallest if that is more."""
    most = min(knee(sizes), share)
    return max((n for n in sizes.tasks if n <= most), default=sizes.tasks[0])


def first_to_end(openings: Openings, sizes: Sizes, job: int, own_us: int) -> int | None:
    """The size with which a job ends first by cores and memory; ``None``: none will ever fit."""
    starts = openings.starts_us(openings.shape(job), np.array(sizes.tasks, np.int64)).tolist()
    return earliest({n: start for n, start in zip(sizes.tasks, starts, strict=True) if start >= 0}, sizes, own_us)


def earliest(starts: dict[int, int], sizes: Sizes, own_us: int) -> int | None:
    """The size with the earliest end, from when a job would start with each."""
    return min(starts, key=lambda n: (starts[n] + sizes.time_us(own_us, n), n), default=None)


def first_promised(policy: Policy[Any], view: View, sizes: Sizes, job: int, own_us: int, now: int) -> int | None:
    """The size with which a job ends first by what the policy would promise; ``None``: it promises nothing."""
    starts = {}
    for tasks in sizes.tasks:
        draft = Draft(view, now)
        draft.reshape(job, tasks)
        memory = policy.begin(draft.view)
        decisions, memory = policy.decide(draft.view, memory, now)
        if any(isinstance(one, Start) and one.lease.job == job for one in decisions):
            starts[tasks] = now
        elif (start := cast(Any, policy).promised(draft.view, memory).start_us(job)) >= 0:
            starts[tasks] = start
    return earliest(starts, sizes, own_us)
