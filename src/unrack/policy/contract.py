"""The contract of a policy: what it is told, what it may decide.

A policy is frozen parameters, explicit memory and ``decide``. It never changes the state: it returns decisions, which
the core checks and applies in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np

from unrack.kernels.arrays import Ints
from unrack.ledger.candidate import Candidate, lease_on
from unrack.ledger.lease import Lease
from unrack.reasons import Reason
from unrack.view import View
from unrack.vocabulary import Need as Need


class Start(NamedTuple):
    """Start a queued job on what the lease names.

    Attributes
    ----------
    rule
        Which of its rules the policy placed the job by, where it has several; reports count them.
    limit_us
        After how long the job ends, µs, if that is less than it asks for; 0: as it asks.
    """

    lease: Lease
    rule: str = ""
    limit_us: int = 0

    @classmethod
    def on(cls, candidates: Candidate | Iterable[Candidate], rule: str = "") -> Start | None:
        """Start a job on candidates of ``view.candidates(job)``; ``None``: they have too little room for it.

        Its tasks fill one candidate after the other, in the order given.
        """
        lease = lease_on([candidates] if isinstance(candidates, Candidate) else candidates)
        return None if lease is None else cls(lease, rule)


class Reshape(NamedTuple):
    """Let a queued job have another of its sizes (``view.sizes``), which it keeps until this is said again."""

    job: int
    tasks: int


class Resize(NamedTuple):
    """Exchange what a running job holds for what the lease names; the devices that it holds stay.

    Attributes
    ----------
    lease
        Of a job that is malleable, it may be of another of its sizes.
    below
        True: the lease may hold fewer cores and less memory than the job asks, as long as it holds all its tasks, with
        a core on each of their nodes where they ask for cores. How fast the job runs on that is the world's to say:
        without a model of it, as fast as before. A later ``Resize`` may give more again. False: at least what is asked.
    """

    lease: Lease
    below: bool = False


class Used(NamedTuple):
    """What the tasks of running jobs are seen to use of memory: told to :meth:`Provisioning.adjust`."""

    jobs: Ints  # int64[k]: which jobs, in ascending order
    # int64[k + 1]: the entries of ``mb`` of job ``jobs[i]`` are ``mb[first[i]:first[i + 1]]``: one for all its tasks,
    # or one a task, in the order of the nodes of its lease
    first: Ints
    mb: Ints  # int64[entries]: what a task uses now
    # True: each of these jobs needs more on some node than it holds there, and cannot go on without it: what is not
    # given is an end of the job for lack of memory. False: they were looked at, at a time that the policy asked for.
    lacking: bool = False

    def of(self, which: Sequence[int]) -> Used:
        """The same of some of the jobs, by their places in ``jobs``."""
        own = [self.mb[self.first[i] : self.first[i + 1]] for i in which]
        counts = np.array([len(one) for one in own], np.int64)
        mb = np.concatenate(own) if own else self.mb[:0]
        return Used(self.jobs[list(which)], np.append(0, np.cumsum(counts)), mb, self.lacking)


class Requeue(NamedTuple):
    """Stop a running job and queue it again, at its old place.

    Attributes
    ----------
    keep_work
        True: it goes on later from where it was (a checkpoint), and until it has ended its estimate is what is left of
        it. False: it starts again from nothing.
    """

    job: int
    reason: Reason
    keep_work: bool = False


class Reject(NamedTuple):
    """Drop a queued job for good."""

    job: int
    reason: Reason


class Hold(NamedTuple):
    """Let a running job that lacks memory stand still, with all that it holds, until there is enough for it.

    It is asked for it again whenever memory comes back. Jobs that stand still may wait for each other: once none goes
    on, the youngest of them is stopped, with ``keep_work`` as of :class:`Requeue`.
    """

    job: int
    reason: Reason
    keep_work: bool = False


class Suspend(NamedTuple):
    """Let a running job stand still without cores, and hold all else that it did."""

    job: int
    reason: Reason


class Resume(NamedTuple):
    """Let a suspended job go on, with its cores, where it stood."""

    job: int


class Extend(NamedTuple):
    """Let a running job that has reached its limit run until a later time, µs; it is booked to end then."""

    job: int
    until_us: int


Decision = Start | Reshape | Resize | Requeue | Reject | Hold | Suspend | Resume | Extend


class Estimates(StrEnum):
    """Which run time a policy is told to expect."""

    REQUESTED = "requested"  # what the job asked for
    EXACT = "exact"  # how long it really runs when nothing slows it down


class Ability(StrEnum):
    """A method that a policy has beyond those of :class:`Policy`; the value is the method's name."""

    SEEDED = "seeded"  # (seed): a copy that draws random numbers from a seed
    POSSIBLE = "possible"  # (cluster, jobs): bool[jobs], which jobs have a place on the empty cluster
    PROMISED = "promised"  # (view, memory): the Promises of waiting jobs, which the next begin finds in view.promises
    EXPECTED_END_US = "expected_end_us"  # (view, memory, job, now): when a running job will end, now or later, µs
    ADJUST = "adjust"  # of Provisioning
    RESERVES_MB = "reserves_mb"  # of Provisioning
    TERMS = "terms"  # (cluster): the Terms on which it lends memory
    EXTENDS = "extends"  # (view, memory, job, now): more time for a job at its limit, an Extend or None
    HOLDS = "holds"  # (view, job): whether all components of a heterogeneous job have a place on what is free


@dataclass(frozen=True)
class Traits:
    """What a policy needs, looks at and places, and how it wants to be asked: its one declaration.

    Attributes
    ----------
    needs
        What the jobs must say: a workload without it is refused before anything runs.
    places
        What it gives to jobs besides cores and memory of their own nodes, of ``Need.LOANS``, ``DEVICES``, ``TIERS`` and
        ``COUNTED``. Jobs that ask for devices, or for what is counted, are refused where it does not place them.
    reads
        What else it looks at, of ``Need.PRIORITIES``, ``ACCOUNTS`` and ``RACKS``: where no policy does, that is said of
        a study's keys.
    estimates
        Which run times it is told to expect.
    whole_nodes
        Whether a node serves one job at a time; for reasons given to people, what it does is in its leases.
    by_models
        Whether it lets a device have less than jobs ask of it where a model says how they run there.
    stepwise
        Whether it is asked again in the same round after what it decided was done, until it decides nothing.
    learns
        Whether it looks at ``view.runs``, which is kept only then.
    monitor_us
        How often it is told what running jobs use of their memory, µs; 0: never. See :class:`Provisioning`.
    does
        Which methods it has beyond those of :class:`Policy`; no others are called.
    """

    needs: frozenset[Need] = frozenset()
    places: frozenset[Need] = frozenset()
    reads: frozenset[Need] = frozenset()
    estimates: Estimates = Estimates.REQUESTED
    whole_nodes: bool = False
    by_models: bool = True
    stepwise: bool = False
    learns: bool = False
    monitor_us: int = 0
    does: frozenset[Ability] = frozenset()

    @property
    def lends(self) -> bool:
        """Whether leases may have memory of other nodes."""
        return Need.LOANS in self.places

    @property
    def tiers(self) -> bool:
        """Whether it is for clusters with tiers of memory, and no others."""
        return Need.TIERS in self.places

    @property
    def elsewhere(self) -> bool:
        """Whether memory may be that of other nodes or of pools."""
        return self.lends or self.tiers


EVERYTHING = frozenset({Need.DEVICES, Need.COUNTED})
"""What every built-in rule places beside nodes and memory."""

Memory = TypeVar("Memory")


@runtime_checkable
class Policy(Protocol[Memory]):
    """A scheduling policy.

    More methods are called where its traits declare them: see :class:`Ability`. One that can tell its rounds is a
    :class:`unrack.policy.around.Rounds` as well. How fast jobs run is no policy's business: performance models and
    contention are the world's.

    Attributes
    ----------
    name
        What reports call it, with its parameters.
    traits
        What it needs and places; they do not change while it runs.
    """

    @property
    def name(self) -> str:
        """What reports call it."""

    @property
    def traits(self) -> Traits:
        """What it needs and places."""

    def begin(self, view: View) -> Memory:
        """Make the memory for a run that starts, or goes on, with this view."""

    def decide(self, view: View, memory: Memory, now: int) -> tuple[list[Decision], Memory]:
        """What to do now (µs). Must not change anything but the memory it returns."""

    def next_round(self, view: View, memory: Memory, now: int) -> int | None:
        """When it wants to be asked next (µs, after ``now``) even if nothing happens; ``None``: only on events."""

    def why(self, view: View, memory: Memory, job: int, now: int) -> Reason:
        """Why a queued job was not started by the ``decide`` just made."""


@runtime_checkable
class Resting(Protocol):
    """What a policy has beside :class:`Policy` if it can tell how long it will not do anything.

    One around another does not pass this on: it may do something meanwhile.
    """

    def rests_until(self, view: View, memory: Any, now: int) -> int:
        """Before which time (µs) no round decides anything unless something happens; asked after :meth:`next_round`."""


@runtime_checkable
class InSteps(Protocol):
    """What the memory of a stepwise policy tells if the policy decides in one go on some clusters."""

    @property
    def in_steps(self) -> bool:
        """Whether it is asked again, in the round, once what it decided is done."""


@runtime_checkable
class Provisioning(Protocol[Memory]):
    """What a policy has beside :class:`Policy` if it changes the memory of jobs as these use more and less of it."""

    def adjust(self, view: View, memory: Memory, used: Used, now: int) -> tuple[list[Decision], Memory]:
        """What to change now that so much is seen to be used: ``Resize``, or ``Requeue`` of jobs that it stops.

        Asked again while jobs still lack memory and something was decided; then they are stopped.
        """

    def reserves_mb(self, view: View, memory: Memory, job: int, asked_mb: int) -> int:
        """What each task of a job that has come into the queue is to be given when it starts, MB.

        ``asked_mb``: what the job asks for. From then on ``view.asks`` says what was answered.
        """
