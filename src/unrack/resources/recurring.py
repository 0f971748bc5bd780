"""Spans of time as files say them, once or again and again, on the clock of the workload."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field, PlainSerializer, model_validator

from unrack.resources.checked import Strict
from unrack.units import LONGEST_US, SECOND_US, amount_of, time_us

MOST_WINDOWS = 1000
"""How often a span comes at most."""


def _seconds(us: int) -> float:
    """As it is read again."""
    return us / SECOND_US


WANTED = "a time from 0 to 285 years, such as 90 (seconds) or '36 h'"
Time = Annotated[int, BeforeValidator(amount_of(time_us, WANTED)), PlainSerializer(_seconds)]
"""A time of 0 or more, µs in the model; read again as it is written."""


def _moment_us(value: float | str) -> int:
    if isinstance(value, int | float) and value < 0:
        return -time_us(-value)
    return time_us(value)


Moment = Annotated[int, BeforeValidator(amount_of(_moment_us, WANTED, -LONGEST_US)), PlainSerializer(_seconds)]
"""The same on the clock of the workload: a number below 0 is before it begins."""


class Recurring(Strict):
    """When something begins, how long it lasts, and after how long it comes again."""

    start: Moment  # on the clock of the workload: ``"36 h"``, or seconds; below 0: it has begun before
    duration: Annotated[Time, Field(gt=0)]
    every: Time | None = None  # again after so long, until ``until``
    until: Time | None = None

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
