"""Work over fresh processes, which end with the one that started them."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.context import SpawnContext
from typing import Any, TypeVar

from unrack.errors import RunError

T = TypeVar("T")
R = TypeVar("R")
CONTEXT: SpawnContext = multiprocessing.get_context("spawn")
AHEAD = 8
"""How many items a process are taken before the answer to the first of them is there."""


@contextmanager
def processes(count: int, begin: Callable[..., None] | None = None, *given: Any) -> Iterator[ProcessPoolExecutor]:
    """Up to so many processes; they are ended at once if anything is raised while they are in use.

    Parameters
    ----------
    count
        How many at most.
    begin
        Called in each of them first, with ``given``.
    """
    pool = ProcessPoolExecutor(count, CONTEXT, _begin, (begin, given))
    try:
        yield pool
    except BaseException:
        for process in list((pool._processes or {}).values()):
            process.terminate()
        pool.shutdown(wait=True, cancel_futures=True)
        raise
    pool.shutdown()


def spread(work: Callable[[T], R], items: Iterable[T], jobs: int) -> Generator[R]:
    """The answers of a function of a module, in the order of the items.

    With one job all is done here. Otherwise few items are held at once: the next is taken when an answer is given.
    Close the iterator to end the processes before its end.

    Raises
    ------
    RunError
        A process was killed.

    Examples
    --------
    >>> list(spread(abs, [3, -4], 1))
    [3, 4]
    """
    if jobs <= 1:
        yield from map(work, items)
        return
    try:
        with processes(jobs) as pool:
            waiting: deque[Future[R]] = deque()
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) == AHEAD * jobs:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
    except BrokenProcessPool as error:
        raise RunError("a worker process was killed (out of memory?)") from error


def _begin(begin: Callable[..., None] | None, given: tuple[Any, ...]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if begin is not None:
        begin(*given)


def _end_with_parent() -> None:
    """End this worker when the process that started it is gone, however it went."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
