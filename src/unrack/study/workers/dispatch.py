"""Hand items to workers, written once for all kinds: small ones together, those of a lost worker again."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from itertools import count, islice
from queue import Empty, SimpleQueue
from typing import Any

from unrack.errors import RunError
from unrack.study.workers.shared import COMPILES, Answer, GoneError, Task, Work, Workers

TASK_S = 0.25
"""How long the items of a task should take together: handing over a task costs some milliseconds."""
MOST_ITEMS = 256
"""In a task, however short they are."""
GROWTH = 4
"""A task has at most so many times the items of those before it: the first items may tell little."""
TRIES = 3
"""How often an item is given to a worker: a worker that is lost may not be the item's fault, three hardly are not."""
LISTEN_S = 0.25


class LostError(RunError):
    """An item took its worker with it, each time."""

    def __init__(self) -> None:
        super().__init__(f"its worker process was killed each of {TRIES} times (out of memory?), or a policy ended it")

    def __reduce__(self) -> tuple[type[LostError], tuple[()]]:
        return LostError, ()


class _Pace:
    """How many items make a task."""

    def __init__(self, workers: Workers, most: int) -> None:
        self.workers = workers
        self.most = most
        self.size = 1
        self.item_s = 0.0

    def next(self, left: int | None) -> int:
        """Items of the next task, of so many that are left; ``None``: not known."""
        share = self.most if left is None else -(-left // (2 * self.workers.count))
        return max(1, min(self.size, share))

    def took(self, seconds: float, items: int) -> None:
        """A task has ended."""
        mean = seconds / items
        self.item_s = mean if self.item_s == 0.0 else (self.item_s + mean) / 2
        wanted = int(TASK_S / max(self.item_s, 1e-9))
        self.size = max(1, min(wanted, GROWTH * self.size, self.most))


def answers(
    workers: Workers,
    work: Work,
    items: Iterable[Any],
    *,
    left: int | None = None,
    most: int = MOST_ITEMS,
    held: Callable[[], int] | None = None,
    running: Callable[[int, int], None] | None = None,
    compiling: Callable[[int], None] | None = None,
) -> Generator[tuple[int, Answer]]:
    """The answer to each item, after its number, as they come in.

    The item of a lost worker is given to another, alone; after the third time its answer is :class:`LostError`.
    If the generator is closed before its end, or anything is raised, what is open is given up.

    Parameters
    ----------
    left, most
        How many items there are, where that is known, and how many a task may have.
    held
        How many items may be taken more at this moment; ``None``: any number.
    running
        Told, of an item by number, how far it is.
    compiling
        Called when a worker begins to compile a kernel, with 1, and when that is done, with -1.
    """
    source = enumerate(items)
    again: deque[tuple[int, Any]] = deque()
    tries: dict[int, int] = {}
    open_tasks: dict[int, list[tuple[int, Any]]] = {}
    found: deque[tuple[int, Answer]] = deque()
    heard: SimpleQueue[tuple[int, Any]] = SimpleQueue()
    pace, numbers, taken, me = _Pace(workers, most), count(), 0, threading.get_ident()

    def tell(number: int, *news: int) -> None:
        if threading.get_ident() == me:  # this very thread is at work, and will look at what it heard only then
            hear(number, news)
        else:
            heard.put((number, news))

    def hear(number: int, news: Any) -> None:
        if isinstance(news, Future):
            ended(open_tasks.pop(number), news)
            return
        place, told = news
        if place == COMPILES:
            if compiling is not None:
                compiling(told)
        elif running is not None and number in open_tasks:
            running(open_tasks[number][place][0], told)

    def ended(task: list[tuple[int, Any]], future: Future[tuple[Answer, ...]]) -> None:
        try:
            those = future.result()
        except GoneError:
            for place, item in task:
                tries[place] = tries.get(place, 0) + 1
                if tries[place] < TRIES:
                    again.append((place, item))
                else:
                    found.append((place, Answer(None, LostError(), 0.0)))
        else:
            pace.took(sum(answer.took_s for answer in those), len(task))
            found.extend((place, answer) for (place, _), answer in zip(task, those, strict=True))

    try:
        while True:
            while len(open_tasks) < workers.capacity():
                if again:
                    chunk = [again.popleft()]
                else:
                    allowed = most if held is None else held()
                    chunk = list(islice(source, min(allowed, pace.next(None if left is None else left - taken))))
                    taken += len(chunk)
                if not chunk:
                    break
                number = next(numbers)
                open_tasks[number] = chunk
                future = workers.submit(Task(work, tuple(item for _, item in chunk)), partial(tell, number))
                future.add_done_callback(lambda future, number=number: heard.put((number, future)))  # type: ignore[misc]
            if not open_tasks:
                return
            with suppress(Empty):
                hear(*heard.get(timeout=LISTEN_S))
                while True:
                    hear(*heard.get_nowait())
            while found:
                yield found.popleft()
    finally:
        if open_tasks:
            workers.cancel()
