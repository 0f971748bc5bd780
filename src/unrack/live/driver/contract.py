"""The contract of an orchestrator's adapter: what is seen, what is held, and the few orders that it gives.

The driver knows phases, events, a plan and a journal, and no orchestrator. A job waits, held; the policy decides its
start; the adapter is told to start it on those nodes; the start counts once it is seen. Whatever an orchestrator does
beyond that (forget what it was told, count jobs in series, want its orders in two steps) stays in its adapter. See
``docs/decisions/0049-a-driver-that-knows-no-orchestrator.md``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from unrack.ledger.lease import Lease
from unrack.live.driver.portable import Names
from unrack.live.driver.seen import Seen, SeenJob
from unrack.live.driver.state.entry import Entry
from unrack.live.driver.state.epoch import Beginning
from unrack.live.driver.state.table import KnownJobs
from unrack.workload.job import Job


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a job is not to be started now."""

    why: str  # a sentence for people, of printable characters
    misread: bool = False  # true: what its user asks for cannot be understood
    again_us: int | None = None  # when it is looked at again though nothing is seen to change; ``None``: not
    since_us: int | None = None  # since when it could start but for this and what is free: its age; ``None``: as before


class AskedJob(NamedTuple):
    """What a job asks of the core."""

    job: Job  # which was submitted when it could start but for what is free: its age
    apart: bool = False  # whether each of its tasks wants a node of its own
    again_us: int | None = None  # as of :class:`Problem`, as it may ask for other nodes then


class Act(StrEnum):
    """What a job is to be told."""

    START = "start"  # that it starts, on exactly the nodes of its lease
    HOLD = "hold"  # that it waits, held; refused if it runs
    STOP = "stop"  # that it stops, and waits, held; one that does not run stays as it is
    MORE = "more"  # that it may run for :attr:`MoreTime.given_s` in all


class Order(NamedTuple):
    """What a job is to be told; it may be told twice."""

    act: Act
    entry: Entry


class Acknowledgement(NamedTuple):
    """What became of an order, or of a step of one: ``problem`` is ``""``, or why it was refused."""

    order: Order
    word: str  # what the adapter calls the step
    problem: str = ""
    done: bool = True  # without a problem: whether this was the last step
    own: Any = None  # what is kept with the job from now on, in :attr:`Entry.own`; ``None``: what was
    stays: bool = False  # with a problem: whether a job that was to be stopped runs on, and is not asked again
    excused: bool = False  # with a problem: whether only less is free than was counted, which is no fault of the job


class Orchestrator(Protocol):
    """An orchestrator, as its adapter makes it seem.

    What reaches out may raise :class:`unrack.live.driver.seen.UnreachableError`.
    """

    name: str  # what people call it
    cut_short: frozenset[str]  # states of jobs that are over and did not end by themselves
    # start_timeout_us, longest_us: how long a start may take, and how long a job without a limit is expected to run
    start_timeout_us: int
    longest_us: int

    # --- what there is --------------------------------------------------------------------------------------------

    def changed(self, now: int) -> bool:
        """Whether anything may have changed since the last :meth:`read`, or the adapter wants to look, at ``now``, µs.

        Cheap, and never False by mistake.
        """
        ...

    def read(self, table: KnownJobs) -> Seen:
        """All that there is now; of a long series of jobs at least those that are in the table."""
        ...

    def beginning(self, seen: Seen, origin_s: float) -> Beginning:
        """The cluster that is seen, and the policy; ``origin_s``: when the driver's clock begins, s since 1970.

        Raises
        ------
        InputError
            There are no nodes, or they make no cluster with what a site adds.
        """
        ...

    # --- what jobs ask, and what they hold ------------------------------------------------------------------------

    def turn(self, seen: Seen, table: KnownJobs, now: int) -> None:
        """A turn begins, at a time of the driver in µs: the questions that follow are about what is seen in it.

        What the adapter keeps with a job it may change here, and only here.
        """
        ...

    def asked(self, entry: Entry, job: SeenJob, names: Names) -> AskedJob | Problem:
        """What a held job asks that may be started now; or why it may not."""
        ...

    def takes(self, job: SeenJob, asked: Job) -> None:
        """A job is in the core's queue: others may have less room in this turn."""
        ...

    def wants_apart(self, job: SeenJob, names: Names) -> bool:
        """True if each task of a held job wants a node of its own, whether or not it may be started now."""
        ...

    def stands(self, job: SeenJob, names: Names) -> tuple[Job, Lease] | None:
        """A job that runs, started here or not: what it asks, and what it holds of these nodes; ``None``: nothing."""
        ...

    def asks_otherwise(self, entry: Entry, job: SeenJob, names: Names) -> bool:
        """True if a job that was let go asks for something else by now: it is held again, and decided anew.

        False for what is seen again after that was done: it is the orchestrator's own doing.
        """
        ...

    def holds_otherwise(self, entry: Entry, job: SeenJob, names: Names) -> tuple[Job, Lease] | None:
        """What a job that runs asks and holds, if that is not what the core was told; ``None``: it is.

        Claims of its lease are left out if they are to be made anew, those of each resource by themselves. Cheap for a
        job of which nothing has changed.
        """
        ...

    # --- what the adapter keeps with a job ------------------------------------------------------------------------

    def own_of(self, record: Mapping[str, Any]) -> Any:
        """A named tuple with defaults, from a record of the journal that has its fields beside those of an entry.

        ``None``: there is nothing to be kept.
        """
        ...

    def queued(self, entry: Entry, job: SeenJob) -> Any:
        """What is to be kept with a job that comes into the core's queue."""
        ...

    def placed(self, entry: Entry, lease: Lease | None, names: Names) -> Any:
        """The same once its start is decided; without a lease: it was found where it had been placed before."""
        ...

    # --- starts ---------------------------------------------------------------------------------------------------

    def carry_out(self, orders: Sequence[Order]) -> Iterator[Sequence[Acknowledgement]]:
        """Give orders, step by step, and tell after each step what became of it.

        One that is refused keeps no other back. An order without a visible effect is given again.
        """
        ...

    def forgotten(self, key: str) -> bool:
        """True if a job that waits, held, is not what it was when it was held last: it is told to be held again."""
        ...

    def refused(self, entry: Entry, job: SeenJob, now: int) -> None:
        """A job that was let go is not started, for the reason that is seen."""
        ...

    def refused_until_us(self, key: str, now: int) -> int:
        """When a job that was refused may be tried again, µs."""
        ...

    def started(self, key: str) -> None:
        """The start of a job was seen."""
        ...
