"""Why a job waits, was rejected or was killed: a code for programs, words for people."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Code(StrEnum):
    """The kinds of reason."""

    TOO_BIG = "too-big"  # the whole cluster, empty, could not hold it
    NO_ROOM = "no-room"  # not enough free now
    LIMIT = "limit"  # a limit of its user, account, partition or quality of service is reached
    DEPENDENCY = "dependency"  # what it waits for has not come, or never will
    BEHIND = "behind"  # the discipline does not let it pass the job at the head
    WOULD_DELAY = "would-delay"  # it fits now but would delay a reservation
    RESERVED = "reserved"  # it holds a reservation in the future
    TOO_DEEP = "too-deep"  # beyond the part of the queue that is looked at
    DEARER = "dearer"  # to wait costs less than any place that it could have
    NOT_YET = "not-yet"  # the scheduler has not looked since it arrived
    NODE_FAILED = "node-failed"  # killed: a node under it failed
    PREEMPTED = "preempted"  # stopped by the policy
    OUT_OF_MEMORY = "out-of-memory"  # stopped: it, or another, needed memory that was not there
    WITHDRAWN = "withdrawn"  # it was taken away, or it does not want to start now
    START_FAILED = "start-failed"  # its start was decided and could not be carried out
    NEVER_STARTED = "never-started"  # the run ended and it was still queued


class Reason(NamedTuple):
    """Why not.

    Attributes
    ----------
    code
        The kind of reason.
    what
        What is short, or which job is in the way: ``"cores"``, ``"job 17"``.
    asked, free
        How much was asked and how much there was, in the unit of ``what``; 0 where neither applies.
    """

    code: Code
    what: str = ""
    asked: int = 0
    free: int = 0

    def __str__(self) -> str:
        words = self.code.value
        if self.what:
            words += f": {self.what}"
        if self.asked or self.free:
            words += f" (asked {self.asked}, free {self.free})"
        return words
