"""Which kinds of workers there are, and how a user names them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from typing import NamedTuple, TypeVar

from unrack.errors import InputError
from unrack.study.workers.shared import Answer, Heard, Workers, answers

KINDS = ("processes", "dask", "ray")
WANTED = "processes, dask or ray, the last two perhaps with an address: 'dask tcp://node1:8786'"


class On(NamedTuple):
    """A kind of workers, and the address of a cluster that runs already; none: one is started here."""

    kind: str = "processes"
    address: str = ""


def parse_on(text: str) -> On:
    """What ``--on`` says: a kind, perhaps followed by an address.

    Raises
    ------
    InputError
        There is no such kind, or it takes no address.

    Examples
    --------
    >>> parse_on("processes")
    On(kind='processes', address='')
    >>> parse_on("dask tcp://node1:8786")
    On(kind='dask', address='tcp://node1:8786')
    """
    kind, _, address = text.strip().partition(" ")
    if kind not in KINDS:
        raise InputError("--on", repr(text), WANTED)
    if kind == "processes" and address:
        raise InputError("--on", repr(text), "processes alone: they are of this machine")
    return On(kind, address.strip())


@contextmanager
def open_workers(on: int | Workers | On, count: int = 1) -> Iterator[Workers]:
    """Workers of a kind, to be used for one batch after another; at the end nothing of them is left.

    Parameters
    ----------
    on
        From :func:`parse_on`; or how many processes; or workers that are open already, and stay so.
    count
        How many are started; a cluster that runs already has its own.
    """
    if not isinstance(on, int | On):
        yield on
        return
    workers = _opened(On(), on) if isinstance(on, int) else _opened(on, count)
    try:
        yield workers
    finally:
        workers.close()


def _opened(on: On, count: int) -> Workers:
    if on.kind == "dask":
        from unrack.study.workers.dask_cluster import DaskWorkers

        return DaskWorkers(on.address, count)
    if on.kind == "ray":
        from unrack.study.workers.ray_cluster import RayWorkers

        return RayWorkers(on.address, count)
    if count <= 1:
        from unrack.study.workers.here import Here

        return Here()
    from unrack.study.workers.here import Processes

    return Processes(count)


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
