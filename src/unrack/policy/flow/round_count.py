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
    """The last round. O(sub-tasks of its networks)."""
    costs = costs_of_jobs(notes)
    started = {lease.job for lease in notes.started}
    placed = sum(cost for job, cost in costs.items() if job in started)
    waiting = sum(cost for job, cost in costs.items() if job not in started)
    networks = sum(len(attempt.phases) for attempt in notes.attempts)
    return RoundCount(now, len(notes.waited), len(costs), len(started), networks, placed, waiting)


def costs_of_jobs(notes: Notes) -> dict[int, int]:
    """Job to what it cost in the last attempt in which it took part, millionths."""
    found: dict[int, int] = {}
    for attempt in notes.attempts:
        found.update(zip(attempt.jobs.tolist(), attempt_costs(attempt).tolist(), strict=True))
    return found


def attempt_costs(attempt: Attempt) -> Ints:
    """int64[jobs]: what each job of an attempt costs in all its networks, millionths."""
    found = np.zeros(len(attempt.jobs), np.int64)
    for solved, members in zip(attempt.phases, attempt.members, strict=True):
        np.add.at(found, members.job, subtask_costs(solved, members, attempt.force))
    return found


def subtask_costs(solved: Solved, members: Members, force: bool) -> Ints:
    """int64[sub-tasks]: what the place of each costs, or waiting; that costs nothing where it had no price."""
    sides, host, of = solved.sides, members.host, members.of
    row = sides.sort[of]
    preferred = np.full(len(sides.supply), -1, np.int64)
    liked, home, price = sides.preferred.T
    own = np.zeros(len(sides.supply), np.int64)
    preferred[liked], own[liked] = home, price
    waiting = np.zeros(len(of), np.int64) if force else sides.waiting[of]
    place = np.where(host == preferred[of], own[of], sides.cost[row, np.maximum(host, 0)])
    found: Ints = np.where(host >= 0, place, waiting)
    return found
