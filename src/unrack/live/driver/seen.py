"""What there is at one moment, as an orchestrator's adapter shows it to the driver: nodes and jobs."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import Any, NamedTuple

from unrack.errors import RunError
from unrack.live.driver.used import Used


class UnreachableError(RunError):
    """The orchestrator did not answer, or not in time: nothing is known of what was asked; ask again later."""


class Shown(Enum):
    """How a job stands."""

    RUNS = auto()  # it holds nodes
    HELD = auto()  # it waits, and is not started before it is let go
    FREE = auto()  # it waits, and may be started at any time
    OVER = auto()  # it has ended, or was cancelled


class SeenNode(NamedTuple):
    """A node: its name, and whether jobs may be started on it."""

    name: str
    usable: bool


class SeenJob(NamedTuple):
    """A job, or what is started as one: a gang, a member of a series.

    One with the key of another that was never started again, and that was submitted later, is another job.
    """

    key: str  # what it is called, as the journal and the fabric have it: letters, digits and any of _ . -
    shown: Shown  # how it stands
    rank: tuple[int, ...]  # ascending in the order in which jobs came
    own: Any = None  # what its adapter knows of it beyond that; only the adapter looks at it
    # ours, left: whether the driver may hold and start it; whether one that is not known yet is to be left alone
    ours: bool = True
    left: bool = False
    # submit_s, start_s, end_s: the orchestrator's own times, s since 1970; 0: not known
    submit_s: int = 0
    start_s: int = 0
    end_s: int = 0
    restarts: int = 0  # how often it was queued again
    limit_s: int | None = None  # how long it may run; ``None``: as long as it likes
    # state, reason: the orchestrator's words for how it stands, and why it waits
    state: str = ""
    reason: str = ""
    refused: bool = False  # for that reason it does not start where it was let go
    told: tuple[str, ...] = ()  # on which nodes it starts if it is let go, or has been; empty: not known
    # nodes, completing: where it runs; whether it has ended, and gives them back one by one
    nodes: frozenset[str] = frozenset()
    completing: bool = False
    ran: bool = False  # of a job that is over: whether it ran
    # in_parts, broken: whether it has parts, each of which may end by itself; why it cannot start with all of them
    in_parts: bool = False
    broken: str = ""
    parts: int = 0  # how many of them hold something, where its nodes do not say; 0: they do

    def is_another(self, submit_s: int) -> bool:
        """True if it only has the key of one that was submitted at ``submit_s``, s since 1970."""
        return not self.restarts and 0 < submit_s < self.submit_s


class Seen(NamedTuple):
    """All that there is at one moment."""

    at_s: float  # when, by the clock of this machine, s since 1970
    nodes: tuple[SeenNode, ...]  # the same object as in the reading before only if nothing of them has changed
    jobs: Mapping[str, SeenJob]  # by key; those that are over as long as they are remembered
    own: Any = None  # what the adapter has it from; only the adapter looks at it
    unreadable: tuple[str, ...] = ()  # what could not be understood, a sentence for each
    used: Used | None = None  # what accounts and users have used; ``None``: not known, or nobody goes by it
    # keys of the jobs that came, went, or may be seen or ask otherwise than in the reading before; ``None``: all may
    changed: frozenset[str] | None = None
