"""What rounds remember from one to the next."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from unrack.kernels.arrays import Ints
from unrack.ledger.lease import Lease
from unrack.policy.flow.attempt import Attempt, Beyond
from unrack.policy.flow.hosts import Hosts
from unrack.policy.flow.left import Left, Sorts
from unrack.policy.flow.network_load import NetworkLoad
from unrack.policy.placement.mixed import Mixed
from unrack.policy.rounds import RoundCount
from unrack.units import NEVER_US
from unrack.view import Draft, View


class Promise(NamedTuple):
    """The job that is to start next, and when it can at the latest (µs), if nobody runs for longer than booked."""

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


class Fate(IntEnum):
    """What became of a job in a round."""

    NOT_SEEN = 0
    TOO_MUCH = 1  # all that it asks together was not left
    WAITS = 2  # a network left one of its sub-tasks waiting
    APART = 3  # its parts had hosts, but could not be held together
    BEHIND = 4  # it would keep what a job is promised that many have passed
    NO_PLACE = 5  # no node has room for one of its tasks


@dataclass(slots=True)
class Notes:
    """What rounds remember."""

    sorts: Sorts  # jobs that are alike, and how often each was left waiting
    hosts: dict[int, Hosts]  # kind to the hosts of its devices
    network: NetworkLoad  # what is known of the network
    beyond: Beyond  # places jobs that ask for more than nodes and whole devices
    version: int = -1  # of the ledger after the last round
    # when a round may bring something though nothing has happened, µs; a time after everything: never
    again_us: int = NEVER_US
    moved_us: int = -1  # when the last migration round was, µs
    idle: int = 0  # how many rounds in a row brought nothing, while nothing happened
    rounds: int = 0
    promise: Promise | None = None  # when a job that many have passed will have its place; ``None``: there is none
    # int64[jobs]: the jobs that waited when the last round began, in their order
    waited: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    # attempts, fate, started: of the last round: its networks, what became of every job (int64[room], as
    # :class:`Fate`), and leases
    attempts: list[Attempt] = field(default_factory=list)
    fate: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    started: list[Lease] = field(default_factory=list)
    noted: dict[str, Any] = field(default_factory=dict)  # of orders: a :data:`unrack.policy.orders.Noted`
    # numbers of every round, one round after the other: see :class:`unrack.policy.rounds.RoundCount`
    counts: array[int] = field(default_factory=lambda: array("q"))

    @property
    def last(self) -> RoundCount | None:
        """Of the last round; ``None``: there was none."""
        return RoundCount(*self.counts[-len(RoundCount._fields) :]) if self.counts else None
