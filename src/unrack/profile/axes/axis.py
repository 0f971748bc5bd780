"""The contract of an axis, and of the actuators that hold its levels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar, NamedTuple, Protocol

from pydantic import AfterValidator, Field, FiniteFloat, field_validator

from unrack.profile.machine.journal import Journal
from unrack.profile.machine.machine import Machine
from unrack.resources.checked import Strict
from unrack.units import bandwidth_mb_s

Level = float | str | tuple[int, int]
"""A point of an axis: a number, a word, or (devices, sharers)."""
Number = Annotated[FiniteFloat, Field(ge=0, le=1e12)]


def _bandwidth(value: str | float) -> str | float:
    if bandwidth_mb_s(value) < 1:
        raise ValueError("a bandwidth of 1 MB/s or more")
    return value


Bandwidth = Annotated[str | int | float, AfterValidator(_bandwidth)]
TOLERANCE = 0.05
"""By how much of itself a level may be missed."""


class Usage(NamedTuple):
    """What the copies of an application did while a level was held."""

    wall_s: float  # from the first start to the last end
    cpu_s: float  # of all of them


class Reached(NamedTuple):
    """The level that was reached."""

    value: float | None  # in the unit of ``wanted``; ``None``: nothing tells
    wanted: float
    # held: whether that is the level that was wanted; source: what measured it: "counter", "own bytes", …
    held: bool
    source: str


UNKNOWN = Reached(None, 0.0, True, "not measured")


def at_most(value: float, wanted: float, source: str) -> Reached:
    """A cap: it holds if no more got through."""
    return Reached(value, wanted, value <= wanted * (1 + TOLERANCE), source)


def about(value: float, wanted: float, source: str) -> Reached:
    """A rate: it holds if it is within the tolerance of what was wanted."""
    return Reached(value, wanted, abs(value - wanted) <= TOLERANCE * wanted, source)


@dataclass(frozen=True)
class LevelNeeds:
    """What a process needs so that the level holds for it."""

    doors: tuple[str, ...] = ()  # files into which it writes 0 to join a group
    prefix: tuple[str, ...] = ()  # what stands before its command
    env: Mapping[str, str] = field(default_factory=dict)  # variables
    words: Mapping[str, str] = field(default_factory=dict)  # what stands for ``{name}`` in its command
    copies: int = 1  # how many of it run at once
    reached: Callable[[Usage], Reached] = lambda _: UNKNOWN  # called when the last copy has ended

    def beside(self, other: LevelNeeds) -> LevelNeeds:
        """Both at once: what tells the level is this one's, unless the other is missed; of groups the inner ones."""

        def reached(usage: Usage) -> Reached:
            mine, others = self.reached(usage), other.reached(usage)
            return mine if others.held or not mine.held else others

        doors = dict.fromkeys((*self.doors, *other.doors))
        outer = {str(above / Path(door).name) for door in doors for above in Path(door).parent.parents}
        return LevelNeeds(
            tuple(door for door in doors if door not in outer), (*self.prefix, *other.prefix),
            {**other.env, **self.env}, {**other.words, **self.words}, max(self.copies, other.copies), reached,
        )  # fmt: skip


@dataclass(frozen=True)
class Rig:
    """What actuators work with."""

    machine: Machine
    journal: Journal
    scratch: Path  # a folder for large files
    cores: int  # CPUs that the application has: the first of those that may be used
    memory_mb: int  # memory that it needs; 0: not said
    inputs: tuple[Path, ...] = ()  # files that it reads

    @property
    def token(self) -> str:
        """The word in the names of all that is made."""
        return self.journal.token


Stand = Callable[[Level, LevelNeeds], AbstractContextManager[LevelNeeds]]
"""Holds a level for one run, for processes for which something else may be held already."""


class AxisFile(Strict):
    """Keys that every ``[[axes]]`` table may have."""

    kind: str
    name: str = Field("", pattern=r"^[\w.+-]*$")  # default: the kind
    by: str = ""  # which actuator; default: the first that can be used here
    levels: tuple[Number, ...] = Field(min_length=1, max_length=64)  # what is measured, beside the control
    # Measure levels between these until each is predicted by the others to within this share of the speed
    error: Annotated[FiniteFloat, Field(gt=0, lt=1)] | None = None
    most_levels: int = Field(12, ge=1, le=64, strict=True)  # with ``error``: at most so many

    base: ClassVar[Level | None] = None  # the level of controls; None: the application alone, nothing held
    falls: ClassVar[bool] = True  # whether speed falls as the level grows
    unit: ClassVar[str] = ""  # of levels
    # True: its controls run on something that is made for them, and so do runs along the other axes
    surrounds: ClassVar[bool] = False

    @field_validator("levels")
    @classmethod
    def _once(cls, levels: tuple[Level, ...]) -> tuple[Level, ...]:
        if len(set(levels)) < len(levels):
            raise ValueError("each level once")
        return levels

    @property
    def label(self) -> str:
        """What it is called."""
        return self.name or self.kind

    @property
    def falling(self) -> bool:
        """Whether speed falls as the level grows."""
        return self.falls

    @property
    def origin(self) -> float | None:
        """The number of the controls' level; ``None``: it has none."""
        if self.base is None:
            return 0.0 if self.falling else None
        return None if isinstance(self.base, str | tuple) else float(self.base)

    @property
    def points(self) -> tuple[Level, ...]:
        """The levels to measure, without that of the controls."""
        return tuple(level for level in self.levels if level != self.base)


class Actuator(Protocol):
    """A way to hold the levels of an axis."""

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    def lacks(self, machine: Machine, journal: Journal) -> str:
        """Why it cannot be used here; empty: it can."""
        ...

    def stand(self, axis: AxisFile, rig: Rig) -> AbstractContextManager[Stand]:
        """Make what all levels need; it is gone at the end."""
        ...


@dataclass(frozen=True)
class AxisKind:
    """A kind of axis."""

    name: str
    summary: str
    keys: type[AxisFile]
    actuators: Sequence[Actuator]  # the best first


def label_of(level: Level | None) -> str:
    """A level for people: ``"2 × 4"`` is two devices and four sharers."""
    if isinstance(level, tuple):
        return f"{level[0]} × {level[1]}"
    return "alone" if level is None else f"{level:g}" if isinstance(level, float | int) else level


def number(level: Level) -> float:
    """A level that is a number."""
    assert not isinstance(level, str | tuple)
    return float(level)
