"""Tables of files, checked by models: keys that are not known, missing or wrong are refused, the first of them.

Two kinds of values that many tables have are read here: nodes by number, as a person writes them (``"0-15"``,
``"20"``), and spans of time, once or again and again, on the clock of the workload.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, Literal, NamedTuple, Self, TypeVar, get_args

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, ValidationError, model_validator

from unrack.errors import ClusterError, InputError, first_fault, got_and_want
from unrack.kernels.arrays import Bools, Ints
from unrack.steps import spells
from unrack.units import DAY_US, LONGEST_US, SECOND_US, amount_of, time_us

M = TypeVar("M")
Path = tuple[int | str, ...]
_OF_UNIONS = ("int", "float", "str")
"""In the path of a fault, which member of a union was tried; it is no key."""


def parted(value: object) -> object:
    """A list as it is; of a text the names between its commas, but for those in brackets."""
    parts = [part.strip() for part in re.split(r",(?![^\[]*\])", value)] if isinstance(value, str) else value
    if not isinstance(parts, list) or "" in parts:
        raise ValueError("names in a list, or between commas as in 'n[1-4,7],m2'")
    return parts


Names = Annotated[list[str], BeforeValidator(parted)]
"""Names in a list, or as ``slurm.conf`` has them: ``"n[1-4,7],m2"``."""


class Strict(BaseModel):
    """A model that refuses keys it does not know and does not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def read(cls, content: Any, where: str, whole: str = "the whole") -> Self:
        """The model of a table of keys, or what is one already.

        Parameters
        ----------
        content
            The table.
        where
            What errors begin with, before the key at fault: ``"generate, "``.
        whole
            What they name in place of a key where the table as a whole is at fault.

        Raises
        ------
        InputError
            A key is unknown, missing or has a value that cannot be; it names the first.
        """
        return validated(cls.model_validate, content, where, keys_of(cls), InputError, whole)


def keys_of(model: type[BaseModel]) -> Callable[[Path], Iterable[str]]:
    """Which keys there are beside one, by its path: those of the model, or of a table inside of it."""

    def known(path: Path) -> Iterable[str]:
        at = model
        for part in path[:-1]:
            field = at.model_fields.get(str(part))
            at = next(_models(field.annotation), at) if field is not None else at
        return at.model_fields

    return known


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models(part)


def validated(
    validate: Callable[[Any], M],
    content: Any,
    where: str,
    known: Iterable[str] | Callable[[Path], Iterable[str]] = (),
    error: type[InputError] = ClusterError,
    whole: str = "",
) -> M:
    """What a model makes of a table.

    ``where``: what errors begin with, and a ``", "`` or ``"."`` between it and the key at fault; ``known``: the keys
    that there are where one is unknown, or what tells them by its path; ``whole``: what errors name in place of a key
    where the table as a whole is at fault. An InputError if a key or a value is wrong, as an ``error``; it names the
    first.
    """
    try:
        return validate(content)
    except ValidationError as wrong:
        fault = first_fault(wrong.errors())
        path: Path = fault["loc"]
        if fault["type"] != "extra_forbidden":
            path = tuple(part for part in path if part not in _OF_UNIONS and "[" not in str(part))
        key = ".".join(map(str, path)) or whole
        keys = list(known(path) if callable(known) else known)
        raise error(where + key if key else where.rstrip(", ."), *got_and_want(fault, keys)) from None


class NodeSets(NamedTuple):
    """Sets of nodes, bool[sets, nodes], and which of them is each job's, int64[jobs].

    ``owner``: int64[sets]: which :class:`Window` jobs of a set run in, by its number from 1; 0: in none. Below 0: they
    may use what the windows of that number keep, and run outside of these as well, until the last is over.
    """

    masks: Bools
    of: Ints
    owner: Ints


NOBODY = 2**40
"""The owner of windows that are no job's."""


class Window(NamedTuple):
    """When some jobs run, or none, from ``start_us`` until ``end_us``, and nodes that are kept for them.

    ``owner``: a number from 1; windows with the same are for the same jobs. ``nodes``: bool[nodes]. ``place``: of which
    an amount is kept from all that claim it; -1: of none. The windows of a place are no job's, and apart in time.
    """

    start_us: int
    end_us: int
    owner: int
    nodes: Bools
    place: int = -1
    amount: int = 0


def ranges(nodes: Iterable[int]) -> list[str]:
    """Ascending node ids as a person writes them.

    Examples
    --------
    >>> ranges([0, 1, 2, 7])
    ['0-2', '7']
    """
    ids = np.array(list(nodes), np.int64)
    runs = np.split(ids, np.flatnonzero(np.diff(ids) != 1) + 1) if len(ids) else []
    return [f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs]


def node_ids(member: str, total: int, at: str) -> range:
    """Node ids from a text such as ``"0-15"`` or ``"20"``.

    A ClusterError if it is no such text, or there are not so many nodes.
    """
    match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", member)
    first = int(match[1]) if match else 0
    last = int(match[2] or match[1]) if match else -1
    if not first <= last < total:
        raise ClusterError(at, repr(member), f"node ids such as '3' or '0-15', below {total}")
    return range(first, last + 1)


MOST_WINDOWS = 1000
"""How often a span comes at most."""
Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
WEEK: tuple[Day, ...] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
"""The days of the week, from Monday on."""


def _seconds(us: int) -> float:
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


def stretches(times: Iterable[Recurring]) -> list[tuple[int, int]]:
    """When one of some is, µs, in order: what overlaps, or follows without a gap, is one stretch."""
    start, end = np.array([window for one in times for window in one.windows_us], np.int64).reshape(-1, 2).T
    _, when, turn = spells(np.zeros_like(start), start, end)
    return [*zip(when[turn > 0].tolist(), when[turn < 0].tolist(), strict=True)]
