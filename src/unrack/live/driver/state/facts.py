"""Stages as plain values: the names that the journal has for what they hold, and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Literal

from unrack.live.driver.state.stage import (
    Attached,
    Decided,
    Detaching,
    Foreign,
    Grant,
    Idle,
    Intent,
    MoreTime,
    Over,
    Phase,
    Recalling,
    Released,
    Running,
    Stage,
    Stopped,
    Undone,
)  # fmt: skip

FACTS = frozenset(
    {"lease", "short", "operations", "leaving", "decided_us", "released_us", "started_us", "ended_us", "free",
     "asked_s", "given_s", "more_us", "excused"}
)  # fmt: skip
"""What a stage may have, by the names that its classes and the journal have for it."""


def facts_of(stage: Stage) -> dict[str, Any]:
    """What a stage has, and the stages within it; what it has not is left out."""
    found = {name: value for name, value in _fields(stage) if name in FACTS}
    return {name: value for name, value in found.items() if value is not None and value is not False and value != ()}


def _fields(part: Any) -> Iterator[tuple[str, Any]]:
    for name in _names(part.__class__):
        value = getattr(part, name)
        if is_dataclass(value):
            yield from _fields(value)
        else:
            yield name, value


@cache
def _names(of: type[Any]) -> tuple[str, ...]:
    return tuple(one.name for one in fields(of))


def stage_of_record(record: Mapping[str, Any]) -> Stage:
    """The stage that :func:`facts_of` wrote; facts of earlier starts, which old journals have besides, are passed over.

    Raises
    ------
    KeyError
        A fact is missing.
    """
    phase, why = Phase(record["phase"]), record.get("why", "")
    operations = tuple(record.get("operations", ()))
    match phase:
        case Phase.WAITING | Phase.ASIDE:
            return Idle(phase, why)
        case Phase.ATTACHING | Phase.ORDERING:
            return Decided(phase, _intent(record), operations)
        case Phase.RELEASED:
            return Released(_intent(record), operations, record["released_us"])
        case Phase.RUNNING:
            return _running(record, operations)
        case Phase.FOREIGN:
            return _foreign(record)
        case Phase.RECALLING:
            return Recalling(_before(record), why, record.get("excused", False))
        case Phase.STOPPING | Phase.HOLDING:
            return _stopped(phase, record)
    before = _stopped(Phase.STOPPING, record) if record.get("leaving") else _before(record)
    assert before is not None
    word, _, rest = why.partition(": ")
    undone = word in ("failed", "stopped")
    then = Undone(rest, word == "failed") if undone else Over(record.get("ended_us", 0), word == "ended")
    return Detaching(before, then, record.get("free", False))


def _before(record: Mapping[str, Any]) -> Decided | Released | Running | Foreign | None:
    """How far a job had come that is recalled, or of which the devices are detached."""
    operations = tuple(record.get("operations", ()))
    if "lease" not in record or "decided_us" not in record:
        return _foreign(record) if operations or "lease" in record else None
    if "started_us" in record:
        return _running(record, operations)
    if "released_us" in record:
        return Released(_intent(record), operations, record["released_us"])
    return Decided(Phase.ORDERING, _intent(record), operations)


def _running(record: Mapping[str, Any], operations: tuple[str, ...]) -> Running:
    more = MoreTime(record.get("asked_s"), record.get("given_s"), record.get("more_us"))
    return Running(_intent(record), operations, record.get("released_us"), record["started_us"], more)


def _intent(record: Mapping[str, Any]) -> Intent:
    return Intent(Grant(record["lease"], record.get("short", False)), record["decided_us"])


def _foreign(record: Mapping[str, Any]) -> Foreign:
    grant = Grant(record["lease"], record.get("short", False)) if "lease" in record else None
    operations, decided_us = tuple(record.get("operations", ())), record.get("decided_us")
    return Foreign(grant, record.get("started_us", 0), operations, decided_us, record.get("released_us"))


def _stopped(phase: Literal[Phase.STOPPING, Phase.HOLDING], record: Mapping[str, Any]) -> Stopped:
    operations = tuple(record.get("operations", ()))
    attached = Attached(tuple(record.get("leaving", ())), operations) if operations else None
    intent = _intent(record) if "lease" in record and "decided_us" in record else None
    return Stopped(phase, record.get("why", ""), attached, intent)
