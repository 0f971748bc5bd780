"""What a policy that decides in rounds may tell of them: numbers of every round, and the whole of the last one.

A round places many jobs together by networks: classes of equal sub-tasks on one side, groups of equal hosts on the
other, and arcs with costs between them. Nothing here says how a policy comes by its networks.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, TypeVar, runtime_checkable

from unrack.kernels.arrays import Ints
from unrack.view import View

Memory = TypeVar("Memory", contravariant=True)
UNIT = 10_000
"""Costs in networks, and in :class:`RoundCount`, are whole numbers of 1/UNIT."""


class RoundCount(NamedTuple):
    """One round in numbers."""

    at_us: int  # when it was
    # jobs, tried, placed: how many jobs waited when it began, took part in a network, and started
    jobs: int
    tried: int
    placed: int
    networks: int  # how many networks were solved
    cost_placed: int  # what the places of the jobs that started cost, in 1/UNIT
    # What it cost in the last network of each of the others that took part, in 1/UNIT: the sub-tasks left waiting,
    # and the places that came to nothing as the job did not get all. 0 where waiting had no price.
    cost_waiting: int


class SubtaskClass(NamedTuple):
    """Sub-tasks that are alike, one node of a network."""

    name: str  # of the node: ``c0``, ``c1``, …
    subtasks: int  # how many
    what: str  # the application, or else what each asks
    asks: str  # what each asks
    waited: int  # in how many rounds they were left waiting before
    home: str  # the host at which an earlier network put their task, which they prefer if it has room; empty: none
    jobs: tuple[str, ...]  # the jobs of these tasks


class HostGroup(NamedTuple):
    """Hosts that are alike, one node of a network."""

    name: str  # of the node: ``h0``, ``h1``, …
    what: str  # which hosts
    hosts: int  # how many
    room: int  # how many sub-tasks they could take in all


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
    """One network and its optimum."""

    resource: str  # what it places: ``nodes``, or a kind of devices
    attempt: int  # the attempt that it is of: networks of an attempt are about the same jobs
    forced: bool  # whether to wait cost more than any place
    classes: tuple[SubtaskClass, ...]
    sorts: tuple[str, ...]  # what each aggregator stands for
    groups: tuple[HostGroup, ...]
    arcs: tuple[Arc, ...]
    hosts: int  # how many hosts there are, before equal ones were put together
    cost: float  # of all that flows, as far as waiting has a price
    # placed, waiting: how many sub-tasks have a host, and how many are left waiting
    placed: int
    waiting: int


class JobStory(NamedTuple):
    """What became of a job."""

    job: str
    asks: str  # what it asks
    networks: tuple[int, ...]  # the networks in which it took part, by number, from 1
    # of its places, or of what it was given and left waiting for in the last of its attempts; ``None``: it took part
    # in no network, or waiting had no price there
    cost: float | None
    place: str  # where it started; empty: it did not
    reason: str  # why it waits; empty: it started


class PromiseStory(NamedTuple):
    """A job that is to start next: when at the latest (µs; ``None``: not known), and which jobs that keeps waiting."""

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

    def rounds(self, memory: Memory) -> Ints:
        """int64[rounds, 7]: all rounds so far; the columns are those of :class:`RoundCount`."""

    def round_story(self, view: View, memory: Memory) -> RoundStory | None:
        """The last round, told before anything else happens; ``None``: there was none."""
