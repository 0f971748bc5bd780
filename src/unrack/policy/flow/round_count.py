"""The numbers of a round: who took part, who started, and what that cost."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unrack.policy.flow.attempt import Attempt, Members
from unrack.policy.flow.notes import Notes
from unrack.policy.flow.places import Solved
from unrack.policy.rounds import RoundCount

Ints = NDArray[np.int64]


def counted(notes: Notes, now: int) -> RoundCount:
    """The last round. O(sub-tasks of its networks + jobs)."""
    cost, tried = costs_of_jobs(notes)
    started = np.array([lease.job for lease in notes.started], np.int64)
    placed = np.zeros(len(tried), np.bool_)
    placed[started] = tried[started]
    networks = sum(len(attempt.phases) for attempt in notes.attempts)
    left = int(cost[tried & ~placed].sum())
    return RoundCount(now, len(notes.waited), int(tried.sum()), len(started), networks, int(cost[placed].sum()), left)


def costs_of_jobs(notes: Notes) -> tuple[Ints, NDArray[np.bool_]]:
    """int64[room], what each job cost in the last attempt in which it took part, in 1/UNIT; bool[room]: who did."""
    cost, tried = np.zeros(len(notes.sorts.of), np.int64), np.zeros(len(notes.sorts.of), np.bool_)
    for attempt in notes.attempts:
        cost[attempt.jobs], tried[attempt.jobs] = attempt_costs(attempt), True
    return cost, tried


def attempt_costs(attempt: Attempt) -> Ints:
    """int64[jobs]: what each job of an attempt costs in all its networks, in 1/UNIT."""
    found = np.zeros(len(attempt.jobs), np.int64)
    for solved, members in zip(attempt.phases, attempt.members, strict=True):
        np.add.at(found, members.job, subtask_costs(solved, members, attempt.force))
    return found


def subtask_costs(solved: Solved, members: Members, force: bool) -> Ints:
    """int64[sub-tasks]: what the place of each costs, or waiting; that costs nothing where it had no price."""
    sides, host, of = solved.sides, members.host, members.of
    row = sides.sort[of]
    waiting = np.zeros(len(of), np.int64) if force else sides.waiting[of]
    place, hosts = sides.cost[row, np.maximum(host, 0)], len(sides.room)
    arcs = sides.preferred[np.lexsort((sides.preferred[:, 1], sides.preferred[:, 0]))]
    keys, wanted = arcs[:, 0] * hosts + arcs[:, 1], of * hosts + host
    at = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
    if len(keys):
        place = np.where(keys[at] == wanted, arcs[at, 2], place)
    found: Ints = np.where(host >= 0, place, waiting)
    return found
