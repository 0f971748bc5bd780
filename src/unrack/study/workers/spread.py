"""A function over items, its answers in their order, few items held at once."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from functools import partial
from typing import TypeVar

from unrack.study.workers.contract import Answer, Heard, Workers
from unrack.study.workers.dispatch import answers
from unrack.study.workers.table import On, open_workers

T = TypeVar("T")
R = TypeVar("R")
AHEAD = 8
"""How many items a worker are taken before the answer to the first of them is there."""
MOST_ITEMS = AHEAD // 2
"""Of a task: the items that are held go to every worker."""


def spread(work: Callable[[T], R], items: Iterable[T], workers: int | Workers | On, count: int = 1) -> Generator[R]:
    """The answers of a function of a module, in the order of the items.

    The next item is taken when an answer is given. Close the iterator to end the work before its end.

    Parameters
    ----------
    workers
        Those that work, or where they are opened for it, or how many processes are; 1: all is done in this process.
    count
        How many are started, if they are opened for it.

    Raises
    ------
    RunError
        A worker was killed, and so were those that took its items over.

    Examples
    --------
    >>> list(spread(abs, [3, -4], 1))
    [3, 4]
    """
    with open_workers(workers, count) as those:
        yield from spread_over(those, partial(_unheard, work), items)


def spread_over(workers: Workers, work: Callable[[T, Heard], R], items: Iterable[T]) -> Generator[R]:
    """As :func:`spread`, for work that tells how far it is."""
    given = taken = 0

    def counted() -> Iterator[T]:
        nonlocal taken
        for item in items:
            taken += 1
            yield item

    def held() -> int:
        return AHEAD * workers.count - (taken - given)

    waiting: dict[int, Answer] = {}
    with closing(answers(workers, work, counted(), most=MOST_ITEMS, held=held)) as found:
        for number, answer in found:
            waiting[number] = answer
            while given in waiting:
                next_one = waiting.pop(given)
                given += 1
                if next_one.error is not None:
                    raise next_one.error
                yield next_one.value


def _unheard(work: Callable[[T], R], item: T, heard: Heard) -> R:
    return work(item)
