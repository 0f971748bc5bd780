"""The small interface that every kind of workers has, in the shape of ``concurrent.futures``: tasks in, futures out."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, NamedTuple, Protocol, TypeAlias

from unrack.errors import RunError

Heard: TypeAlias = Callable[[int], None]
"""Told by work how far it is, in a unit of its own, such as jobs done."""
Work: TypeAlias = Callable[[Any, Heard], Any]
"""A function of a module, or a partial of one: given an item and a function to tell, it returns an answer."""


class Task(NamedTuple):
    """Items that go to a worker together."""

    work: Work
    items: tuple[Any, ...]


class Answer(NamedTuple):
    """What became of an item: a value or an error; ``took_s``: seconds on the worker's wall clock."""

    value: Any
    error: BaseException | None
    took_s: float


Tell: TypeAlias = Callable[[int, int], None]
"""Told, by any thread, while a task is worked on: the place of an item in it, and how far that is; or COMPILES and 1 or
-1: the worker begins or ends to compile a kernel."""
COMPILES = -1


class GoneError(RunError):
    """What the future of a task raises if its worker is gone: the task has no answers."""


class Workers(Protocol):
    """Workers that stay until they are closed; used by one thread."""

    @property
    def name(self) -> str:
        """What messages call them."""

    @property
    def count(self) -> int:
        """How many tasks they work on at once."""

    @property
    def remote(self) -> bool:
        """Whether what they write is not written here: answers have to bring everything."""

    @property
    def memory_mb(self) -> int | None:
        """What the smallest of them may use; ``None``: that is not known, or there is no limit."""

    def capacity(self) -> int:
        """How many tasks may be open now; asked several times a second, so that they can look which workers are there.

        Raises
        ------
        RunError
            No worker has been there for a minute.
        """

    def submit(self, task: Task, tell: Tell) -> Future[tuple[Answer, ...]]:
        """Hand over a task; what it shares with earlier ones is not sent to the same worker again.

        Its future has an answer an item, or raises :class:`GoneError`, or another error that ends all work.
        """

    def cancel(self) -> None:
        """Give up all tasks that are open, also those being worked on; further ones may be submitted."""

    def close(self) -> None:
        """End the workers, or leave them to their owner; nothing is left to do for this program."""
