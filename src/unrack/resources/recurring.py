"""Spans of time as files say them, once or again and again, on the clock of the workload."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field, PlainSerializer, model_validator

from unrack.resources.checked import Strict
from unrack.units import SECOND_US, time_us

MOST_WINDOWS = 1000
"""How often a span comes at most."""


def _time(value: object) -> object:
    if isinstance(value, int | float | str) and not isinstance(value, bool):
        return time_us(value)
    return value


def _seconds(us: int | None) -> float | None:
    """As it is read again."""
    return None if us is None else us / SECOND_US


Time = Annotated[int | None, BeforeValidator(_time), Field(ge=0), PlainSerializer(_seconds)]
Moment = Annotated[int, BeforeValidator(_time), Field(ge=0), PlainSerializer(_seconds)]


class Recurring(Strict):
    """When something begins, how long it lasts, and after how long it comes again."""

    start: Moment  # on the clock of the workload: ``"36 h"``, or seconds
    duration: Annotated[int, BeforeValidator(_time), Field(gt=0), PlainSerializer(_seconds)]
    every: Time = None  # again after so long, until ``until``
    until: Time = None

    @model_validator(mode="after")
    def _times(self) -> Recurring:
        if (self.every is None) != (self.until is None):
            raise ValueError("every and until together")
        if self.every is not None and self.every < self.duration:
            raise ValueError("every of at least the duration")
        if self.every is not None and (self.until or 0) > self.start + MOST_WINDOWS * self.every:
            raise ValueError(f"at most {MOST_WINDOWS} times until the end")
        return self

    @property
    def windows_us(self) -> list[tuple[int, int]]:
        """When it begins and ends, each time, µs."""
        if self.every is None or self.until is None:
            return [(self.start, self.start + self.duration)]
        return [(at, at + self.duration) for at in range(self.start, max(self.until, self.start + 1), self.every)]
