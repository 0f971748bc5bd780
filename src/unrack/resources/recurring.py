"""Spans of time as files say them, once or again and again, on the clock of the workload."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, model_validator

from unrack.resources.checked import Strict, parted
from unrack.units import DAY_US, LONGEST_US, SECOND_US, amount_of, time_us

MOST_WINDOWS = 1000
"""How often a span comes at most."""
Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
WEEK: tuple[Day, ...] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
"""The days of the week, from Monday on."""


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
    """When something begins, how long it lasts, and after how long it comes again, on some days of the week or all."""

    start: Moment  # on the clock of the workload: ``"36 h"``, or seconds; below 0: it has begun before
    duration: Annotated[Time, Field(gt=0)]
    every: Time | None = None  # again after so long, until ``until``
    until: Time | None = None
    # only the times that begin on one of these days; default: on any
    days: Annotated[list[Day], BeforeValidator(parted), Field(min_length=1)] | None = None
    start_day: Day | None = None  # the day of the week that ``start`` is on, where days are said

    @model_validator(mode="after")
    def _times(self) -> Recurring:
        if (self.every is None) != (self.until is None):
            raise ValueError("every and until together")
        if self.until is not None and self.until <= self.start:
            raise ValueError("until after the start")
        if self.every is not None and self.every < self.duration:
            raise ValueError("every of at least the duration")
        if self.every is not None and (self.until or 0) > self.start + MOST_WINDOWS * self.every:
            raise ValueError(f"at most {MOST_WINDOWS} times until the end")
        if (self.days is None) != (self.start_day is None):
            raise ValueError("days and start_day together: of which days of the week they are, and start is")
        if self.days is not None and (self.every is None or self.every % DAY_US):
            raise ValueError("days beside an every of whole days, such as '1 d'")
        if self.days is not None and not self._times_us:
            raise ValueError("days on one of which it comes")
        return self

    @property
    def _times_us(self) -> list[int]:
        """When it begins, each time, µs."""
        every, until = self.every or 1, self.start + 1 if self.until is None else max(self.until, self.start + 1)
        found = list(range(self.start, until, every))
        if self.days is None or self.start_day is None:
            return found
        first, days = WEEK.index(self.start_day), set(self.days)
        return [at for at in found if WEEK[(first + (at - self.start) // DAY_US) % 7] in days]

    @property
    def windows_us(self) -> list[tuple[int, int]]:
        """When it begins and ends, each time, µs."""
        found = [(at, at + self.duration) for at in self._times_us]
        return [window for window in found if window[1] > 0] or found[-1:]
