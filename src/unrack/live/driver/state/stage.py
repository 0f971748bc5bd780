"""How far a job has come: one class for each set of things that it may hold, and what each of them has."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Literal

from unrack.live.driver.portable import Portable


class Phase(StrEnum):
    """How far a job has come."""

    WAITING = "waiting"  # in the queue of the core
    ATTACHING = "attaching"  # its start is decided, devices are being attached
    ORDERING = "ordering"  # the orchestrator is to be told
    RELEASED = "released"  # it was told, and the start has not been seen
    RECALLING = "recalling"  # it did not start in time, or must not: it is to be held again
    RUNNING = "running"  # its start was seen, where it was decided
    STOPPING = "stopping"  # the policy stopped it; it waits in the core, and has not been seen held
    HOLDING = "holding"  # it waits in the core, and is to be held again, as it is held no more
    DETACHING = "detaching"  # it has ended, devices are being detached
    FOREIGN = "foreign"  # it runs, and we did not start it
    ASIDE = "aside"  # it waits, and is not to be started now, for the reason in ``why``


INTENDED = frozenset({Phase.ATTACHING, Phase.ORDERING, Phase.RELEASED, Phase.RECALLING})
"""Its start is decided and not acknowledged."""
HOLDS = INTENDED | {Phase.RUNNING, Phase.DETACHING, Phase.FOREIGN}
"""It holds a lease."""
NOT_HELD = frozenset({Phase.STOPPING, Phase.HOLDING})
"""It waits in the core, which may have decided its next start, and has not been seen held."""


@dataclass(frozen=True, slots=True)
class Grant:
    """What a job holds, by names; ``short``: less than is seen that it holds, because more was not free."""

    lease: Portable
    short: bool = False


@dataclass(frozen=True, slots=True)
class Intent:
    """A start that the policy decided, and when, µs."""

    grant: Grant
    decided_us: int


@dataclass(frozen=True, slots=True)
class Idle:
    """It holds nothing; ``why``: why it is aside, or waits again."""

    phase: Literal[Phase.WAITING, Phase.ASIDE]
    why: str = ""


@dataclass(frozen=True, slots=True)
class Decided:
    """Its start is decided, and not told yet; ``operations``: the attachments of its devices, by id."""

    phase: Literal[Phase.ATTACHING, Phase.ORDERING]
    intent: Intent
    operations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Released:
    """The orchestrator was told to start it, and when, µs."""

    phase: ClassVar[Literal[Phase.RELEASED]] = Phase.RELEASED
    intent: Intent
    operations: tuple[str, ...]
    released_us: int


@dataclass(frozen=True, slots=True)
class MoreTime:
    """What the policy said of more time for a job.

    ``asked_s``: the limit, s, at which it was asked last; ``given_s``: the last limit that it has given; ``more_us``:
    how much more than its first that is; ``None``: none.
    """

    asked_s: int | None = None
    given_s: int | None = None
    more_us: int | None = None


@dataclass(frozen=True, slots=True)
class Running:
    """It runs where that was decided, since ``started_us``; ``released_us``: ``None`` if not told yet."""

    phase: ClassVar[Literal[Phase.RUNNING]] = Phase.RUNNING
    intent: Intent
    operations: tuple[str, ...]
    released_us: int | None
    started_us: int
    more: MoreTime = MoreTime()


@dataclass(frozen=True, slots=True)
class Foreign:
    """It runs, elsewhere than was decided or without any decision; what had been decided and told is kept.

    ``grant``: ``None``: the core could not be told what it holds, or the job does not run any more.
    """

    phase: ClassVar[Literal[Phase.FOREIGN]] = Phase.FOREIGN
    grant: Grant | None
    started_us: int
    operations: tuple[str, ...] = ()
    decided_us: int | None = None
    released_us: int | None = None


@dataclass(frozen=True, slots=True)
class Recalling:
    """It is to be held again, for the reason ``why``; ``was``: what it holds, and how far it had come.

    ``excused``: its start has not failed: it was forgotten, or undone by others.
    """

    phase: ClassVar[Literal[Phase.RECALLING]] = Phase.RECALLING
    was: Decided | Released | Running | Foreign | None
    why: str
    excused: bool = False


@dataclass(frozen=True, slots=True)
class Attached:
    """Devices that a job had when the policy stopped it, and their attachments: the core has given them away."""

    leaving: tuple[str, ...]
    operations: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Stopped:
    """It waits in the core, and has not been seen held; ``next``: the start that was decided meanwhile."""

    phase: Literal[Phase.STOPPING, Phase.HOLDING]
    why: str
    attached: Attached | None = None
    next: Intent | None = None


@dataclass(frozen=True, slots=True)
class Over:
    """It is over since ``ended_us``; ``ran``: it ran until then where that was decided."""

    ended_us: int
    ran: bool


@dataclass(frozen=True, slots=True)
class Undone:
    """Its start did not come about, or was undone: it waits again."""

    why: str
    failed: bool


@dataclass(frozen=True, slots=True)
class Detaching:
    """Its devices are being detached; ``was``: how far it had come, ``then``: what it will be.

    ``free``: it may start though its devices are being detached, because no job holds it any more.
    """

    phase: ClassVar[Literal[Phase.DETACHING]] = Phase.DETACHING
    was: Decided | Released | Running | Foreign | Stopped
    then: Over | Undone
    free: bool = False

    @property
    def why(self) -> str:
        """What the journal says of it."""
        if isinstance(self.then, Over):
            return "ended" if self.then.ran else "withdrawn"
        return f"{'failed' if self.then.failed else 'stopped'}: {self.then.why}"


Stage = Idle | Decided | Released | Running | Foreign | Recalling | Stopped | Detaching
WAITING, ASIDE = Idle(Phase.WAITING), Idle(Phase.ASIDE)

# --- what a stage has -------------------------------------------------------------------------------------------------


def grant_of(stage: Stage | None) -> Grant | None:
    """What a job holds in the core, or will when it starts."""
    match stage:
        case Decided() | Released() | Running():
            return stage.intent.grant
        case Foreign():
            return stage.grant
        case Stopped():
            return None if stage.next is None else stage.next.grant
        case Recalling() | Detaching():
            return grant_of(stage.was)
        case _:
            return None


def is_settled(stage: Stage) -> bool:
    """True if a job stays as it is until something else is seen of it, or asked by it: it waits, or just runs."""
    match stage:
        case Idle():
            return True
        case Running():
            return not stage.intent.grant.short and stage.more.given_s is None
        case Foreign():
            return not is_short(stage)
        case _:
            return False


def is_short(stage: Stage) -> bool:
    """True if it holds less in the core than is seen, because more was not free."""
    grant = grant_of(stage)
    return grant is not None and grant.short


def operations_of(stage: Stage | None) -> tuple[str, ...]:
    """The attachments of its devices, by id."""
    match stage:
        case Decided() | Released() | Running() | Foreign():
            return stage.operations
        case Stopped():
            return () if stage.attached is None else stage.attached.operations
        case Recalling() | Detaching():
            return operations_of(stage.was)
        case _:
            return ()


def attached_of(stage: Stage) -> Attached | None:
    """The devices of a job that the policy stopped, as long as they are attached."""
    if isinstance(stage, Detaching):
        return attached_of(stage.was)
    return stage.attached if isinstance(stage, Stopped) else None


def started_us_of(stage: Stage | None) -> int | None:
    """When its present run began; ``None``: it does not run."""
    if isinstance(stage, Recalling | Detaching):
        return started_us_of(stage.was)
    return stage.started_us if isinstance(stage, Running | Foreign) else None
