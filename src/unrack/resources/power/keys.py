"""The keys of the table ``power`` of a cluster file."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PlainSerializer, model_validator

from unrack.resources.checked import Strict, validated
from unrack.resources.recurring import Recurring, Time
from unrack.units import amount_of, milliwatts


def _watts(mw: int | None) -> float | None:
    """As it is read again."""
    return None if mw is None else mw / 1000


WATTS = "watts, or text such as '350 W' or '20 kW'"
Watts = Annotated[int, BeforeValidator(amount_of(milliwatts, WATTS)), PlainSerializer(_watts)]
Cap = Annotated[
    int, BeforeValidator(amount_of(lambda value: milliwatts(value, "down"), WATTS, 1)), PlainSerializer(_watts)
]


class DrawFile(Strict):
    """What nodes draw, mW each in the model."""

    idle: Watts  # a node that is on, with no core in use
    core: Watts | None = None  # each core in use, beside that
    peak: Watts | None = None  # a node with all cores in use, in place of ``core``: what a core draws is the same
    off: Watts = 0  # a node that is switched off or down

    @model_validator(mode="after")
    def _one_of_two(self) -> DrawFile:
        if (self.core is None) == (self.peak is None):
            raise ValueError("one of core and peak")
        if self.peak is not None and self.peak < self.idle:
            raise ValueError("a peak of no less than idle")
        if self.off > self.idle:
            raise ValueError("an off of no more than idle")
        return self


class SomeNodesFile(DrawFile):
    """A ``[[power.nodes]]`` table: what some nodes draw."""

    nodes: list[str] = Field(min_length=1)  # as ``["0-15", "rack3"]``


class SwitchOffFile(Strict):
    """The table ``switch_off``: when idle nodes are switched off, and how long it takes."""

    after: Time  # how long a node is idle before it is switched off (Slurm: ``SuspendTime``)
    shutdown: Time = 0  # until it is off (``SuspendTimeout``)
    boot: Time = 0  # until it can be used again (``ResumeTimeout``)
    shutdown_watts: Watts | None = None  # what it draws meanwhile; default: as idle
    boot_watts: Watts | None = None
    keep_on: int = Field(default=0, ge=0, strict=True)  # so many idle nodes stay on (``SuspendExcNodes=…:n``)


class CapFile(Recurring):
    """A ``[[power.caps]]`` table: a cap for some time; nodes are kept without jobs then, from the last on."""

    cap: Cap


class PowerFile(DrawFile):
    """The table ``power``."""

    nodes: list[SomeNodesFile] = Field(default_factory=list)  # those that draw something else
    # KIND.QUANTITY, as jobs ask for it → what each unit that is in use draws beside what its node does: ``gpus.count``
    devices: dict[str, Watts] = Field(default_factory=dict)
    cap: Cap | None = None  # more than this is never drawn. Default: there is no cap
    caps: list[CapFile] = Field(default_factory=list)  # lower ones, at some times
    switch_off: SwitchOffFile | None = None  # default: all nodes stay on


def read_keys(table: Any, where: str) -> PowerFile:
    """The key ``power``. A ClusterError if a key or a value is wrong."""

    def known(path: tuple[int | str, ...]) -> Any:
        inner: dict[str, type[Strict]] = {"nodes": SomeNodesFile, "caps": CapFile, "switch_off": SwitchOffFile}
        return (inner.get(str(path[0]), PowerFile) if len(path) > 1 else PowerFile).model_fields

    return validated(PowerFile.model_validate, table, f"{where}.", known)
