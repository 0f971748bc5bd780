"""The contract of a policy: what it is told, what it may decide.

A policy is frozen parameters, explicit memory and ``decide``. It never changes the state: it returns decisions, which
the core checks and applies in order.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, Protocol, TypeVar, runtime_checkable

from unrack.ledger.lease import Lease
from unrack.reasons import Reason
from unrack.view import View


class Start(NamedTuple):
    """Start a queued job on what the lease names.

    Attributes
    ----------
    rule
        Which of its rules the policy placed the job by, where it has several; reports count them.
    """

    lease: Lease
    rule: str = ""


class Resize(NamedTuple):
    """Exchange what a running job holds for what the lease names; the devices that it holds stay.

    Attributes
    ----------
    below
        True: the lease may hold fewer cores and less memory than the job asks, as long as it holds all its tasks, with
        a core on each of their nodes where they ask for cores. How fast the job runs on that is the world's to say:
        without a model of it, as fast as before. A later ``Resize`` may give more again. False: at least what is asked.
    """

    lease: Lease
    below: bool = False


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


Decision = Start | Resize | Requeue | Reject


class Need(StrEnum):
    """What a policy may need of the workload or the cluster."""

    REQUESTS = "requested run times"
    DEADLINES = "deadlines"
    PRIORITIES = "priorities"
    USERS = "users"


class Estimates(StrEnum):
    """Which run time a policy is told to expect."""

    REQUESTED = "requested"  # what the job asked for
    EXACT = "exact"  # how long it really runs when nothing slows it down


Memory = TypeVar("Memory")


@runtime_checkable
class Policy(Protocol[Memory]):
    """A scheduling policy.

    Attributes
    ----------
    name
        What reports call it, with its parameters.
    needs
        What it needs of the input; an input that lacks it is refused.
    estimates
        Which run times it is told to expect.

    Four more members are read where they are there: ``stepwise`` (default False), whether it is asked again in the
    same round after what it decided was done, until it decides nothing; ``devices`` (default False), whether it places
    pooled devices, and ``claims`` (default False), whether its leases claim what jobs ask of resources such as
    licences: without them jobs that ask for that are refused; and ``learns`` (default False), whether it looks at
    ``view.runs``, which is kept only then. A policy that learns run times may have
    ``expected_end_us(view, memory, job, now)``: when it expects a running job to end, ``now`` or later (µs); default:
    when that is booked. How fast jobs run is no policy's business: performance models and contention are the world's.
    """

    @property
    def name(self) -> str:
        """What reports call it."""
        ...

    @property
    def needs(self) -> frozenset[Need]:
        """What it needs of the input."""
        ...

    @property
    def estimates(self) -> Estimates:
        """Which run times it is told to expect."""
        ...

    def begin(self, view: View) -> Memory:
        """Make the memory for a run that starts with this view."""
        ...

    def decide(self, view: View, memory: Memory, now: int) -> tuple[list[Decision], Memory]:
        """What to do now (µs). Must not change anything but the memory it returns."""
        ...

    def next_round(self, view: View, memory: Memory, now: int) -> int | None:
        """When it wants to be asked next (µs, after ``now``) even if nothing happens; ``None``: only on events."""
        ...

    def why(self, view: View, memory: Memory, job: int, now: int) -> Reason:
        """Why a queued job was not started by the ``decide`` just made."""
        ...
