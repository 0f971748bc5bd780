"""A job's stays in the queue of the core, and its starts within each; what else the core was told meanwhile."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from unrack.live.driver.portable import Portable

NOT_YET = -1


class Became(StrEnum):
    """How an attempt, or a stay without one, ended."""

    ENDED = "ended"  # it ran to its end, whatever that is called
    FAILED = "not started"  # its start was decided and did not come about
    AGAIN = "queued again"  # it ran, and waits again
    LEFT = "left"  # it left the queue without having been started
    REJECTED = "rejected"  # by the policy
    OPEN = "open"  # the journal ends before


@dataclass(slots=True)
class Attempt:
    """One start of a job, µs by the driver's clock; -1: not, or not known."""

    lease: Portable  # what it held, by names, as of its last change
    planned: tuple[str, ...]  # the nodes that were decided
    ran_on: tuple[str, ...]  # the nodes that were seen; the same, unless it was made to run elsewhere
    # decided_us, released_us, started_us, ended_us, freed_us: when it was decided, ordered, seen to run,
    # seen to be over; and when the core had its place back
    decided_us: int
    released_us: int = NOT_YET
    started_us: int = NOT_YET
    ended_us: int = NOT_YET
    freed_us: int = NOT_YET
    # start_s, end_s: the orchestrator's own times, s since 1970; 0: not known
    start_s: int = 0
    end_s: int = 0
    # became, why: how it ended; in words of the driver, or the orchestrator's
    became: Became = Became.OPEN
    why: str = ""


@dataclass(slots=True)
class Stay:
    """A job from when the core was told of it until it had nothing more to do with it."""

    key: str  # which job
    ours: bool  # whether it was the driver's to start
    adopted: bool  # it ran already when the core was told of it: its one attempt was not decided
    job: dict[str, Any]  # what it asked, as of :func:`unrack.live.records.job_record`
    # came_us, left_us: when the core was told of it, and when it was done with it
    came_us: int
    left_us: int = NOT_YET
    submit_s: int = 0  # when it was submitted, s since 1970
    restarts: int = 0  # as they were counted last
    expected_us: int = 0  # of a job that was adopted: how much longer it was expected to run then
    rest: bool = False  # of such a job: it is what runs on of one of ours of which a part has ended
    short: bool = False  # of such a job: the core had less free than it was seen to hold
    became: Became = Became.OPEN
    why: str = ""
    attempts: list[Attempt] = field(default_factory=list)

    @property
    def last(self) -> Attempt | None:
        """Its last start, if there was any."""
        return self.attempts[-1] if self.attempts else None

    @property
    def ran(self) -> bool:
        """Whether its last start was reported, and it ran to an end that is known."""
        last = self.last
        return last is not None and last.became == Became.ENDED and last.started_us >= 0 and last.ended_us >= 0
