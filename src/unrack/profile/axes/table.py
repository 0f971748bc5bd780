"""All kinds of axes; and which of their actuators can be used here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from unrack.errors import InputError, RunError, nearest
from unrack.profile.axes import command, cpu, drives, far_memory, gpus, memory_bandwidth, memory_throttle, network
from unrack.profile.axes.axis import Actuator, AxisFile, AxisKind
from unrack.profile.machine.journal import Journal
from unrack.profile.machine.machine import Machine
from unrack.resources.checked import validated

KINDS: Mapping[str, AxisKind] = {
    kind.name: kind
    for kind in (
        cpu.CPU, drives.DRIVES, network.NETWORK, memory_bandwidth.MEMORY_BANDWIDTH, memory_throttle.MEMORY_THROTTLE,
        far_memory.FAR_MEMORY, gpus.KIND, command.COMMAND,
    )
}  # fmt: skip
"""Name → kind."""


class Finding(NamedTuple):
    """What can be measured here, or why not."""

    axis: str
    actuator: str
    lacks: str  # why it cannot be used; empty: it can


def axis_of(content: Any, where: str) -> AxisFile:
    """The keys of an ``[[axes]]`` table.

    Raises
    ------
    InputError
        There is no such kind, or a key or value is wrong.
    """
    kind = content.get("kind") if isinstance(content, dict) else None
    if not isinstance(kind, str) or kind not in KINDS:
        raise InputError(f"{where}kind", repr(kind), nearest(str(kind), KINDS))
    keys = KINDS[kind].keys
    axis = validated(keys.model_validate, content, where, keys.model_fields, InputError)
    names = [one.name for one in KINDS[kind].actuators]
    if axis.by and axis.by not in names:
        raise InputError(f"{where}by", repr(axis.by), nearest(axis.by, names))
    if not axis.points:
        raise InputError(f"{where}levels", "only the level of the controls", "another one")
    return axis


def probe(machine: Machine, journal: Journal) -> list[Finding]:
    """Every actuator of every axis, tried."""
    return [
        Finding(kind.name, one.name, one.lacks(machine, journal)) for kind in KINDS.values() for one in kind.actuators
    ]


def actuator_of(axis: AxisFile, machine: Machine, journal: Journal) -> Actuator:
    """The best actuator that can be used here, or the one that the axis names.

    Raises
    ------
    RunError
        There is none.
    """
    lacking = []
    for one in KINDS[axis.kind].actuators:
        if axis.by in ("", one.name):
            if not (lacks := one.lacks(machine, journal)):
                return one
            lacking.append(f"{one.name}: {lacks}")
    raise RunError(f"axis {axis.label} cannot be measured here: {'; '.join(lacking)}")
