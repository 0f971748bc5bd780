"""What a policy that decides in rounds may tell of them: numbers of every round, and the whole of the last one.

A round places many jobs together by networks: classes of equal sub-tasks on one side, groups of equal hosts on the
other, and arcs with costs between them. Nothing here says how a policy comes by its networks.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from unrack.view import View

Memory = TypeVar("Memory", contravariant=True)
UNIT = 10_000
"""Costs in networks, and in :class:`RoundCount`, are whole numbers of 1/UNIT."""


class RoundCount(NamedTuple):
    """One round in numbers.

    Attributes
    ----------
    at_us
        When it was.
    jobs, tried, placed
        How many jobs waited when it began, took part in a network, and started.
    networks
        How many networks were solved.
    cost_placed
        What the places of the jobs that started cost, in 1/UNIT.
    cost_waiting
        What it cost in the last network of each of the others that took part, in 1/UNIT: the sub-tasks left
        waiting, and the places that came to nothing as the job did not get all. 0 where waiting had no price.
    """

    at_us: int
    jobs: int
    tried: int
    placed: int
    networks: int
    cost_placed: int
    cost_waiting: int


class SubtaskClass(NamedTuple):
    """Sub-tasks that are alike, one node of a network.

    Attributes
    ----------
    name
        Of the node: ``c0``, ``c1``, …
    subtasks
        How many.
    what
        The application, or else what each asks.
    asks
        What each asks.
    waited
        In how many rounds they were left waiting before.
    home
        The host at which an earlier network put their task, which they prefer if it has room; empty: none.
    jobs
        Whose they are.
    """

    name: str
    subtasks: int
    what: str
    asks: str
    waited: int
    home: str
    jobs: tuple[str, ...]


class HostGroup(NamedTuple):
    """Hosts that are alike, one node of a network.

    Attributes
    ----------
    name
        Of the node: ``h0``, ``h1``, …
    what
        Which hosts.
    hosts
        How many.
    room
        How many sub-tasks they could take in all.
    """

    name: str
    what: str
    hosts: int
    room: int


class Arc(NamedTuple):
    """An arc between nodes of a network, by name.

    The other nodes are the aggregators of the sorts of sub-tasks (``x0``, ``x1``, …), waiting (``u``) and the sink
    (``t``). A preferred arc goes from a class right to a host. Costs are of each sub-task.
    """

    tail: str
    head: str
    cost: float
    flow: int
    capacity: int
    preferred: bool = False


class NetworkStory(NamedTuple):
    """One network and its optimum.

    Attributes
    ----------
    resource
        What it places: ``nodes``, or a kind of devices.
    attempt
        The attempt that it is of: networks of an attempt are about the same jobs.
    forced
        Whether to wait cost more than any place.
    sorts
        What each aggregator stands for.
    hosts
        How many hosts there are, before equal ones were put together.
    cost
        Of all that flows, as far as waiting has a price.
    placed, waiting
        How many sub-tasks have a host, and how many are left waiting.
    """

    resource: str
    attempt: int
    forced: bool
    classes: tuple[SubtaskClass, ...]
    sorts: tuple[str, ...]
    groups: tuple[HostGroup, ...]
    arcs: tuple[Arc, ...]
    hosts: int
    cost: float
    placed: int
    waiting: int


class JobStory(NamedTuple):
    """What became of a job.

    Attributes
    ----------
    asks
        What it asks.
    networks
        The networks in which it took part, by number, from 1.
    cost
        Of its places, or of what it was given and left waiting for in the last of its attempts; ``None``: it took part
        in no network, or waiting had no price there.
    place
        Where it started; empty: it did not.
    reason
        Why it waits; empty: it started.
    """

    job: str
    asks: str
    networks: tuple[int, ...]
    cost: float | None
    place: str
    reason: str


class PromiseStory(NamedTuple):
    """A job that is to start next: when at the latest (µs; ``None``: not known), and whom that keeps waiting."""

    job: str
    start_us: int | None
    held_back: tuple[str, ...]


class RoundStory(NamedTuple):
    """One round: its number (from 1), its numbers, its networks, and what became of every job that waited."""

    number: int
    numbers: RoundCount
    networks: tuple[NetworkStory, ...]
    jobs: tuple[JobStory, ...]
    promise: PromiseStory | None


@runtime_checkable
class Rounds(Protocol[Memory]):
    """What a policy has beside :class:`unrack.policy.contract.Policy` if it can tell its rounds."""

    def rounds(self, memory: Memory) -> NDArray[np.int64]:
        """int64[rounds, 7]: all rounds so far; the columns are those of :class:`RoundCount`."""
        ...

    def round_story(self, view: View, memory: Memory) -> RoundStory | None:
        """The last round, told before anything else happens; ``None``: there was none."""
        ...
