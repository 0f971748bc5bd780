"""How a job comes from one stage to the next: functions of stages, which change nothing."""

from __future__ import annotations

from dataclasses import replace

from unrack.live.driver.portable import devices_in
from unrack.live.driver.state.stage import (
    Attached,
    Decided,
    Detaching,
    Foreign,
    Grant,
    Idle,
    Intent,
    Over,
    Phase,
    Recalling,
    Released,
    Running,
    Stage,
    Stopped,
    Undone,
    attached_of,
    grant_of,
    operations_of,
)  # fmt: skip


def begun(intent: Intent) -> Decided:
    """The first stage of a start that was decided."""
    return Decided(Phase.ATTACHING if devices_in(intent.grant.lease) else Phase.ORDERING, intent)


def decided(stage: Stage, intent: Intent) -> Stage:
    """The policy decided a start: one that is not held yet starts once it is held and its devices are detached."""
    if isinstance(stage, Stopped):
        return replace(stage, next=intent)
    if isinstance(stage, Detaching) and isinstance(stage.was, Stopped):
        return replace(stage, was=replace(stage.was, next=intent))
    return begun(intent)


def stopped(stage: Stage, why: str) -> Stopped:
    """The policy stopped it."""
    attached, operations, grant = attached_of(stage), operations_of(stage), grant_of(stage)
    if attached is None and operations:
        attached = Attached(() if grant is None else tuple(devices_in(grant.lease)), operations)
    return Stopped(Phase.STOPPING, why, attached)


def recalled(stage: Stage, why: str, excused: bool = False) -> Recalling:
    """It is to be held again."""
    if isinstance(stage, Recalling):
        return Recalling(stage.was, why, excused)
    return Recalling(stage if isinstance(stage, Decided | Released | Running | Foreign) else None, why, excused)


def acknowledged(stage: Stage, now: int) -> Running:
    """Its start is seen."""
    was = stage.was if isinstance(stage, Recalling) else stage
    assert isinstance(was, Decided | Released | Running), was
    if isinstance(was, Running):
        return replace(was, started_us=now)
    return Running(was.intent, was.operations, None if isinstance(was, Decided) else was.released_us, now)


def elsewhere(stage: Stage, started_us: int) -> Foreign:
    """It runs, elsewhere than was decided or by no decision; what it had before is its own until the core is told."""
    was = stage.was if isinstance(stage, Recalling | Detaching) else stage
    if isinstance(was, Foreign):
        return replace(was, started_us=started_us)
    decided_us = released_us = None
    if isinstance(was, Decided | Released | Running):
        decided_us = was.intent.decided_us
    elif isinstance(was, Stopped) and was.next is not None:
        decided_us = was.next.decided_us
    if isinstance(was, Released | Running):
        released_us = was.released_us
    return Foreign(grant_of(was), started_us, operations_of(was), decided_us, released_us)


def detaching(stage: Stage, then: Over | Undone) -> Detaching:
    """Its devices are to be detached."""
    was = stage.was if isinstance(stage, Recalling | Detaching) else stage
    assert was is not None
    assert not isinstance(was, Idle)
    return Detaching(was, then)


def granted(stage: Stage, grant: Grant | None) -> Stage:
    """The same stage with another lease; ``None`` is for jobs that others started."""
    match stage:
        case Decided() | Released() | Running():
            assert grant is not None
            return replace(stage, intent=replace(stage.intent, grant=grant))
        case Foreign():
            return replace(stage, grant=grant)
        case Stopped(next=Intent() as intent):
            assert grant is not None
            return replace(stage, next=replace(intent, grant=grant))
        case Recalling(was=was) | Detaching(was=was) if was is not None:
            return replace(stage, was=granted(was, grant))  # type: ignore[arg-type]  # it is of the same kind
        case _:
            raise AssertionError(f"a job that is {stage.phase} holds nothing")
