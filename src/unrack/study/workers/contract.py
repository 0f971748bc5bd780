"""The small interface that every kind of workers has: tasks in, reports out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeAlias

Heard: TypeAlias = Callable[[int], None]
"""Told by work how far it is, in a unit of its own, such as jobs done."""
Work: TypeAlias = Callable[[Any, Heard], Any]
"""A function of a module, or a partial of one: given an item and whom to tell, it returns an answer."""


class Task(NamedTuple):
    """Items that go to a worker together; ``number`` tells it from the others that are open."""

    number: int
    work: Work
    items: tuple[Any, ...]


class Answer(NamedTuple):
    """What became of an item: a value or an error; ``took_s``: seconds on the worker's wall clock."""

    value: Any
    error: BaseException | None
    took_s: float


class Done(NamedTuple):
    """A task has ended, with an answer an item."""

    number: int
    answers: tuple[Answer, ...]


class Lost(NamedTuple):
    """A task has no answers: its worker is gone."""

    number: int


class Running(NamedTuple):
    """How far the item at ``place`` of a task is."""

    number: int
    place: int
    done: int


class Compiling(NamedTuple):
    """A worker compiles kernels; ``change``: it begins (1) or ends (-1) one, or does not say."""

    change: int = 0


Report: TypeAlias = Done | Lost | Running | Compiling


class Workers(Protocol):
    """Workers that stay until they are closed; used by one thread."""

    @property
    def name(self) -> str:
        """What messages call them."""
        ...

    @property
    def count(self) -> int:
        """How many tasks they work on at once."""
        ...

    @property
    def remote(self) -> bool:
        """Whether what they write is not written here: answers have to bring everything."""
        ...

    @property
    def memory_mb(self) -> int | None:
        """What the smallest of them may use; ``None``: that is not known, or there is no limit."""
        ...

    def room(self) -> int:
        """How many tasks more they take now."""
        ...

    def submit(self, task: Task) -> None:
        """Hand over a task; what it shares with earlier ones is not sent to the same worker again."""
        ...

    def listen(self, timeout_s: float, hear: Callable[[Report], None]) -> None:
        """Pass on what has come in, in order; wait so long for the first, and no longer."""
        ...

    def cancel(self) -> None:
        """Give up all tasks that are open, also those being worked on; further ones may be submitted."""
        ...

    def close(self) -> None:
        """End the workers, or leave them to their owner; nothing is left to do for this program."""
        ...
