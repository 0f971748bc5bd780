"""Jobs that are suspended for others: in which order they go on, and when; and what others are shown meanwhile.

Suspended jobs go on in the order of those that may preempt most, then of those that started first. One goes on as soon
as its cores are free on all of its nodes and those before it leave them to it. Until then what is free of its cores is
kept for it from all that may not preempt it, and policies that plan expect it to go on when enough of the others are
booked to end: see :func:`unrack.ledger.suspended.changes.keep_cores`. So no job waits behind later ones of its own
rank.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from unrack.kernels.arrays import Ints
from unrack.ledger.lease import CORES, FIRST, by_node
from unrack.policy.contract import Decision, Requeue, Resume, Start, Suspend
from unrack.policy.preemption.victims import classes_of
from unrack.resources.site.ranks import Ranks
from unrack.view import Draft, View

SUSPEND = "suspend"
"""The ``Mode`` of those that are suspended."""


def in_turn_to_go_on(view: View, ranks: Ranks, started: Mapping[int, int]) -> list[int]:
    """The suspended jobs, in the order in which they go on; ``started``: job → when it started, µs."""
    jobs = sorted(view.columns.suspended)
    height = dict(zip(jobs, ranks.height[classes_of(view, ranks, np.array(jobs, np.int64))].tolist(), strict=True))
    return sorted(jobs, key=lambda job: (-height[job], started.get(job, view.columns.suspended[job].since_us), job))


def kept_for(view: View, ranks: Ranks, started: Mapping[int, int], now: int) -> View:
    """The view in which suspended jobs hold the cores that they go on with; the same if no job is suspended."""
    if not view.columns.suspended:
        return view
    draft = Draft(view, now)
    draft.keep_cores(in_turn_to_go_on(view, ranks, started))
    return draft.view


def going_on(
    view: View, ranks: Ranks, started: Mapping[int, int], plan: Sequence[Decision], now: int
) -> list[Decision]:
    """Which suspended jobs go on beside what a plan does."""
    draft, found = Draft(view, now), list[Decision]()
    for decision in plan:
        if isinstance(decision, Requeue):
            draft.stop(decision.job)
        elif isinstance(decision, Suspend):
            draft.suspend(decision.job)
        elif isinstance(decision, Start):
            draft.start(decision.lease)
    after = draft.view
    free = after.free[0].copy()
    for job in in_turn_to_go_on(after, ranks, started):
        stood = after.columns.suspended[job]
        need = by_node(stood.rows)
        nodes, cores = need[:, FIRST], need[:, CORES]
        fits = bool((free[nodes] >= cores).all())
        if fits and _kept_for_nobody(view, job, need[:, FIRST], now, now + stood.lead_us + stood.left_us):
            found.append(Resume(job))
        free[nodes] -= np.minimum(cores, free[nodes])
    return found


def _kept_for_nobody(view: View, job: int, nodes: Ints, now: int, until: int) -> bool:
    """Whether no window keeps these nodes for others before a job that goes on now is expected to end."""
    mine = abs(int(view.columns.set_owner[view.columns.set_of[job]]))
    return not any(
        window.owner != mine and now < window.end_us and window.start_us < until and window.nodes[nodes].any()
        for window in view.cluster.places.windows
    )
