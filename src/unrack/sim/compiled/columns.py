"""The columns of the compiled loop: arrays that its kernels read and write, and the numbers that go with them.

Planned ends are a heap in columns, in order of (time, rank, sequence).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unrack.jit import inlined
from unrack.kernels.arrays import Bools, Ints
from unrack.policy.discipline.heads_kernel import PassRule

AT, KEY, JOB, ABOUT = range(4)
"""Rows of :attr:`World.ends`: time, rank and sequence in one number, job, and one of the three below."""
VALID, ROUND_ONLY, STALE = 0, -1, -2
"""A job ends; it has given back what it held already, and only its round is left; it was stopped in the meantime."""
RANK_SHIFT = 50
"""A key is the rank, so many bits up, plus the sequence."""

(
    NOW, NEXT, STAGE, SOMETHING, SEQUENCE, ENDS, QUEUE_START, QUEUE_END, KNOWN, FREE_CORES, RUNNING_COUNT, POOL_USED,
    POOL_DEAD, VERSION, RELEASES, SEEN_RELEASES, LAST_JOB, COMPLETE, ENDED, ENDED_ROWS, NEEDED, CLAIMS_USED,
    ASKING, ENDED_CLAIMS, UNFORESEEN, WAKE, FREED, PLANNED,
) = range(28)  # fmt: skip
"""Places in :attr:`World.mark`.

NOW: the time. NEXT: the next job to be submitted. STAGE, SOMETHING: where the loop is in the events of one time, and
whether one of them needs a round. WAKE: when the policy wants to be asked at the latest. SEQUENCE: of the last event
planned. ENDS: how many columns of ``ends`` count. QUEUE_START to RELEASES, and UNFORESEEN: as in
:class:`unrack.ledger.state.ClusterState`. ENDED, ENDED_ROWS, ENDED_CLAIMS: how much of the log is used. NEEDED: the
room that a pass should have had. CLAIMS_USED, ASKING: as in :class:`unrack.ledger.claims.Claimed`.

SEEN_RELEASES, LAST_JOB, COMPLETE: as in :class:`unrack.policy.discipline.list_scheduler.ListNotes`. FREED: as in
a :class:`unrack.policy.discipline.skyline.plan.Plan`. PLANNED: how many jobs that a plan starts now have not been
started yet; -1: nothing has been planned."""
MARKS = 28

CHOOSE, EVENTS, ROUND = range(3)
"""Stages: choose the next time; let its events happen; ask for what starts."""
OVER, HELD, PAUSED, LOG_FULL, NO_ROOM, GO_ON = range(6)
"""Why the loop returns: nothing is left to happen; the next event is not its own; rounds enough; make room for what has
ended, or for what starts. GO_ON: a round is due."""


class Ledger(NamedTuple):
    """Columns of :class:`unrack.ledger.state.ClusterState`, and ``most``, the summary of ``free`` by blocks."""

    asks: Ints
    free: Ints
    total: Ints
    most: Ints
    status: NDArray[np.int8]
    queue: Ints
    running: Ints
    pool: Ints
    lease_at: Ints


class Claims(NamedTuple):
    """Columns of :class:`unrack.ledger.claims.Claimed`; all empty where there is nothing to claim."""

    free: Ints
    holders: Ints
    rows: Ints
    held_at: Ints
    asks: NDArray[np.uint8]


class World(NamedTuple):
    """What the loop works on.

    Attributes
    ----------
    ledger, claims
        The ledger.
    submit_us, work_us : int64[jobs]
        When jobs come, and how long they run.
    refused : bool[jobs]
        Which jobs the whole cluster, empty, could not hold.
    started_us : int64[jobs]
        When each running job started.
    ends : int64[4, room]
        A heap of the ends that are planned, smallest (time, key) first.
    ended : int64[3, room]
        Attempts that have ended: job, start, end.
    ended_rows, ended_claims : int64[room, 5], int64[room, 2]
        What they held, one after the other; ``ended_count`` says how many rows and claims each.
    ended_count : int64[2, room]
    rank : int64[jobs], int64[jobs]
        Where each job stands among all jobs, in the order of the queue and in that of those behind the head; empty
        where it is not needed.
    ranked : int64[jobs], int64[jobs]
        The waiting jobs in these two orders; empty as well.
    mark : int64[MARKS]
        Numbers that change.
    """

    ledger: Ledger
    claims: Claims
    submit_us: Ints
    work_us: Ints
    refused: Bools
    started_us: Ints
    ends: Ints
    ended: Ints
    ended_rows: Ints
    ended_claims: Ints
    ended_count: Ints
    rank: tuple[Ints, Ints]
    ranked: tuple[Ints, Ints]
    mark: Ints


class RunConstants(NamedTuple):
    """What does not change."""

    rule: PassRule  # of the passes
    settles: bool  # whether time alone cannot change which jobs are looked at
    together: bool  # whether all events of one time get one round
    submit_first: bool  # whether submissions come before ends that were not booked
    first_unequal: int  # the first job with tasks that ask for more or less than one core, or for memory
    by_arrival: bool  # whether the queue is considered in the order of arrival


class PlanTerms(NamedTuple):
    """As :class:`RunConstants`, of a plan."""

    early: bool  # whether reservations move forward at what is unforeseen alone
    together: bool
    submit_first: bool


@inlined
def is_before(ends: Ints, a: int, b: int) -> bool:
    """Whether column ``a`` comes before column ``b``."""
    return bool(ends[AT, a] < ends[AT, b] or (ends[AT, a] == ends[AT, b] and ends[KEY, a] < ends[KEY, b]))


@inlined
def swap(ends: Ints, a: int, b: int) -> None:
    """Exchange two columns."""
    for row in range(4):
        ends[row, a], ends[row, b] = ends[row, b], ends[row, a]


@inlined
def push(ends: Ints, count: int, time: int, key: int, job: int, about: int) -> None:
    """Add an end to a heap of ``count``; there is room."""
    i = count
    ends[AT, i], ends[KEY, i], ends[JOB, i], ends[ABOUT, i] = time, key, job, about
    while i > 0 and is_before(ends, i, (i - 1) // 2):
        swap(ends, i, (i - 1) // 2)
        i = (i - 1) // 2


@inlined
def drop_first(ends: Ints, count: int) -> None:
    """Take the first end from a heap of ``count``."""
    last = count - 1
    swap(ends, 0, last)
    i = 0
    while True:
        child = 2 * i + 1
        if child >= last:
            return
        if child + 1 < last and is_before(ends, child + 1, child):
            child += 1
        if not is_before(ends, child, i):
            return
        swap(ends, child, i)
        i = child
