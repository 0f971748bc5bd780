"""When a job that many have passed will have its place as running jobs end, and what others may hold until then.

As in EASY backfill (Lifka 1995) others may start if they are done by then, or on what will be left beside it.
O(running jobs) drafts, each O(nodes + jobs + devices), when the job is first promised a time, and one a round.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from unrack.ledger.lease import Lease
from unrack.policy.flow.left import Left
from unrack.policy.placement.mixed import Mixed
from unrack.units import NEVER_US
from unrack.view import Draft, View


class Promise(NamedTuple):
    """The job that is to start next, and when it can at the latest (µs), if no job runs for longer than booked."""

    job: int
    start_us: int


def left_beside(left: Left, view: View, mixed: Mixed, notes: Any, promise: Promise, leases: list[Lease]) -> Left:
    """What is left now and will still be left when a job starts as promised; nothing, if it then has no place."""
    draft = Draft(view, left.now)
    for lease in leases:
        draft.start(lease)
    draft.move_on(promise.start_us)
    found = mixed.find(draft.view, notes, promise.job, promise.start_us)
    then = Left.of(draft.view, left.hosts, left.whole, left.cores >= 0, promise.start_us)
    if found is None:
        then.cores[:] = -1
    else:
        then.take(found)
    return left.meet(then)


def promised(view: View, mixed: Mixed, notes: Any, job: int, leases: list[Lease], now: int) -> Promise:
    """When a job has a place if these leases start now and nothing else does; a time after everything: never."""
    draft = Draft(view, now)
    for lease in leases:
        draft.start(lease)
    while (end := draft.next_end_us()) is not None:
        draft.move_on(end)
        if mixed.find(draft.view, notes, job, end) is not None:
            return Promise(job, end)
    return Promise(job, NEVER_US)
