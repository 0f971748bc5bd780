"""A pass over the queue in plain Python, for placements of the user's own.

The same rules as the compiled ``queue_kernel.py``, written for reading rather than speed. The tests hold the two
together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from unrack.ledger.candidate import Candidate, TaskAsk, candidates_on
from unrack.ledger.lease import LENDER, LOAN_MB, Lease
from unrack.policy.contract import Decision, Start
from unrack.policy.discipline.queue_kernel import Backfill
from unrack.policy.own.answers import checked_lease
from unrack.view import View
from unrack.workload.job import ESTIMATE
from unrack.workload.seen_job import SeenJob

Ints = NDArray[np.int64]
Placement = Callable[[Ints, Ints, SeenJob], Lease | Candidate | Iterable[Candidate] | None]
"""``place(free, total, job)``: a lease that fits in ``free`` (int64[2, nodes]: cores, MB), or ``None``: not now.

Candidates of :func:`candidates` make a lease too, in the order in which the tasks fill them.
"""
Checked = Callable[[Ints, Ints, SeenJob], Lease | None]


def candidates(free: Ints, total: Ints, job: SeenJob) -> Iterator[Candidate]:
    """The nodes with room for tasks of a job, in order of their number, for a placement under a list scheduler.

    Parameters
    ----------
    free, total : int64[2, nodes]
        What the placement is given: what is free now, or will be then.
    """
    return candidates_on(job.index, TaskAsk(job.tasks, job.cores, job.memory_mb), free, total)


def _change(free: Ints, lease: Lease, sign: int) -> None:
    for first, count, _, cores, mb in lease.rows.tolist():
        free[0, first : first + count] += sign * cores
        free[1, first : first + count] += sign * mb
    np.add.at(free[1], lease.borrowed[:, LENDER], sign * lease.borrowed[:, LOAN_MB])


def plain_pass(
    view: View, order: Ints, place: Placement, backfill: int, depth: int, now: int, behind: Ints | None = None
) -> list[Decision]:
    """Choose the jobs to start now; see ``queue_kernel.pass_over``.

    ``behind`` has all jobs in the order in which those behind the head are tried; ``None``: as ``order``.
    """
    free, total = view.free.copy(), view.total
    running = [
        (int(end), view.lease(int(job)))
        for end, job in zip(*view.running[:, : view.running_count].tolist(), strict=True)
    ]
    started: list[Decision] = []

    def checked(free: Ints, total: Ints, job: SeenJob) -> Lease | None:
        return checked_lease(place, place(free, total, job), job.index, view, now)

    def start(lease: Lease) -> None:
        _change(free, lease, -1)
        running.append((now + int(view.asks[ESTIMATE, lease.job]), lease))
        started.append(Start(lease))

    waiting = order.tolist()
    while waiting:
        lease = checked(free, total, view.job(waiting[0]))
        if lease is None:
            break
        start(lease)
        waiting.pop(0)
    if backfill == Backfill.NONE or not waiting:
        return started
    head = view.job(waiting[0])
    shadow: tuple[int, Ints] | None = None
    known = False
    candidates = waiting[1:]
    if behind is not None:
        still = set(candidates)
        candidates = [index for index in behind.tolist() if index in still]
    for index in candidates[:depth]:
        lease = checked(free, total, view.job(index))
        if lease is None:
            continue
        if backfill == Backfill.EASY:
            if not known:
                shadow, known = _shadow(free, total, checked, head, running, now), True
            if shadow is not None and now + int(view.asks[ESTIMATE, index]) > shadow[0]:
                _change(shadow[1], lease, -1)
                if checked(shadow[1], total, head) is None:
                    _change(shadow[1], lease, 1)
                    continue
        start(lease)
    return started


def _shadow(
    free: Ints, total: Ints, place: Checked, head: SeenJob, running: list[tuple[int, Lease]], now: int
) -> tuple[int, Ints] | None:
    """When the head can start by booked ends, and what is free then; ``None``: never."""
    then = free.copy()
    ends = sorted((max(end, now + 1), i) for i, (end, _) in enumerate(running))
    for k, (end, i) in enumerate(ends):
        _change(then, running[i][1], 1)
        last_at_this_time = k + 1 == len(ends) or ends[k + 1][0] > end
        if last_at_this_time and place(then, total, head) is not None:
            return end, then
    return None
