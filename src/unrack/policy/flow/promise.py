"""When a job that many have passed will have its place, as running jobs end: until then others must be done.

O(running jobs) drafts, each O(nodes + jobs + devices), when the job is first promised a time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from unrack.ledger.lease import Lease
from unrack.policy.placement.mixed import Mixed
from unrack.units import NEVER_US
from unrack.view import Draft, View


class Promise(NamedTuple):
    """The job that is to start next, and when it can at the latest (µs), if nobody runs for longer than booked."""

    job: int
    start_us: int


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
