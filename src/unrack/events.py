"""What happens: the events that a world, simulated or live, tells the core, in one total order."""

from __future__ import annotations

from typing import NamedTuple

from unrack.ledger.jobs import Promise
from unrack.ledger.lease import Lease
from unrack.policy.contract import Used
from unrack.reasons import Reason
from unrack.workload.job import Job


class Submitted(NamedTuple):
    """A job has arrived."""

    # the job, which gets the next number; or, of a core that was made with a table of jobs, the number of its next row,
    # which has not been shown before
    job: Job | int
    # beside a job: how long it runs at speed 1, for policies with exact estimates; ``None``: not known
    work_us: int | None = None


class Held(NamedTuple):
    """A job has arrived, as of :class:`Submitted`; it is not to be started before it is submitted, by its number."""

    job: Job | int
    work_us: int | None = None


class Finished(NamedTuple):
    """A running job has ended by itself."""

    job: int


class Vacated(NamedTuple):
    """A running job has given back what it held; its :class:`Finished` follows, later at this time.

    For worlds in which others arrive in between: policies learn how long it ran only from the second event.
    """

    job: int


class Kept(NamedTuple):
    """How much work a job that was stopped with its work kept had done in that attempt, µs at speed 1.

    The world tells it where it knows better than the core, which counts the time that the job ran, or with models of
    devices the progress that these predict: jobs that contend for memory get less done. Counts if the job still waits.
    """

    job: int
    done_us: int


class Failed(NamedTuple):
    """Nodes have gone down together; the jobs that used them are stopped and queued again.

    ``domain`` is the name of what failed, if it has one.
    """

    nodes: tuple[int, ...]
    domain: str = ""


class Repaired(NamedTuple):
    """Nodes are back."""

    nodes: tuple[int, ...]


class Stuck(NamedTuple):
    """Jobs stand still for lack of memory, and no job goes on: the first of them is stopped."""

    jobs: tuple[int, ...]
    keep_work: bool = False  # whether it goes on later from its last checkpoint


class Detached(NamedTuple):
    """Devices that have been detached: they are free again."""

    devices: tuple[int, ...]


class Opened(NamedTuple):
    """Jobs may use other nodes than before: nodes begin, or cease, to be kept for some of them."""

    foreseen: bool = True  # whether it was planned with


class Expired(NamedTuple):
    """A running job has used up its limit, or soon will have; it is stopped then unless the policy gives it more."""

    job: int


class Round(NamedTuple):
    """Time for the policy to decide."""


class Adopted(NamedTuple):
    """A job that was started before, or without the policy, holds what the lease names."""

    job: Job | int  # as of :class:`Submitted`; it gets its number in the same way
    lease: Lease  # what it holds, which may be less than it asks; its ``job`` does not count
    # how much longer it is expected to run, µs; if it is queued again, it is expected to run as long as it asks
    left_us: int
    work_us: int | None = None  # as of :class:`Submitted`
    extended_us: int = 0  # how much of its time it was given beyond what it asked at first, µs


class Started(NamedTuple):
    """A job runs now, as was decided; a world that starts jobs at once need not tell."""

    job: int


class StartFailed(NamedTuple):
    """A decided start could not be carried out, or others stopped the job: it waits again at its old place."""

    job: int
    reason: Reason


class Withdrawn(NamedTuple):
    """A waiting job does not want to be started any more, or a running one was taken away before its end."""

    job: int
    reason: Reason


class Expected(NamedTuple):
    """A running job is expected to end at another time, µs: its limit was changed, or it runs beyond it."""

    job: int
    end_us: int


class Asked(NamedTuple):
    """A running job asks to have another of its sizes."""

    job: int
    tasks: int


class Promised(NamedTuple):
    """A waiting job was promised this before the core began; ``begin`` may keep it."""

    job: int
    promise: Promise


class Drained(NamedTuple):
    """Nothing may be started on these nodes until they are :class:`Repaired`; what runs on them goes on."""

    nodes: tuple[int, ...]


Event = (
    Submitted | Held | Adopted | Started | StartFailed | Finished | Vacated | Withdrawn | Expected | Kept | Used
    | Asked | Expired | Promised | Failed | Drained | Repaired | Detached | Opened | Stuck | Round
)  # fmt: skip

ROUND = Round()

BOOKED, FINISH, DETACH, FAIL, REPAIR, ACKNOWLEDGE, MONITOR, LACK, CLOSE, EXPIRE, RELEASE, SUBMIT, LATE_FINISH, ASK = (
    range(14)
)
"""Ranks: what comes first at one time. MONITOR, LACK: memory in use is looked at; a job needs more than it holds.
CLOSE: a window is over. EXPIRE: a limit is used up. RELEASE: what a job waited for by its own word has come. ASK: a
running job asks for another size."""
