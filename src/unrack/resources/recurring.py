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


def _moment(value: object) -> object:
    """As a time; a number below 0 is before the workload begins."""
    if isinstance(value, int | float) and not isinstance(value, bool) and value < 0:
        return round(value * SECOND_US)
    return _time(value)


def _seconds(us: int | None) -> float | None:
    """As it is read again."""
    return None if us is None else us / SECOND_US


Time = Annotated[int | None, BeforeValidator(_time), Field(ge=0), PlainSerializer(_seconds)]
Moment = Annotated[int, BeforeValidator(_moment), PlainSerializer(_seconds)]


class Recurring(Strict):
    """When something begins, how long it lasts, and after how long it comes again."""

    start: Moment  # on the clock of the workload: ``"36 h"``, or seconds; below 0: it has begun before
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
        every, until = self.every or 1, self.start + 1 if self.until is None else max(self.until, self.start + 1)
        found = [(at, at + self.duration) for at in range(self.start, until, every)]
        return [window for window in found if window[1] > 0] or found[-1:]
