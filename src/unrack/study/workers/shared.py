"""What all kinds of workers share: their interface, tasks as bytes, and how items are handed to them.

The interface has the shape of ``concurrent.futures``: tasks in, futures out. Large inputs are left out of tasks: each
is known by a hash of its content, and goes to a worker once. A pickle refers to such an input as to a persistent
object, wherever in an item it stands. Small items are handed over together, those of a lost worker again.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from itertools import count, islice
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from unrack.cluster.spec import Cluster
from unrack.errors import RunError
from unrack.plugins.code import PluginFile, carried
from unrack.slowdown.memory.settings import MemoryContention
from unrack.workload.job import JobTable

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


SHARED: tuple[type, ...] = (JobTable, Cluster, MemoryContention, PluginFile)
"""What is sent once a worker."""
KEPT_BYTES = 256 * 2**20
"""Inputs that are kept at most, on either side; the oldest are dropped, and sent again."""
V = TypeVar("V")


class Shelf(dict[str, V]):
    """Values by key; the oldest fall off when the sum of their sizes is above ``KEPT_BYTES``."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: dict[str, int] = {}

    def add(self, key: str, value: V, size: int) -> None:
        """Put a value last."""
        self[key], self.sizes[key] = value, size

    def trim(self, needed: tuple[str, ...]) -> bool:
        """Drop the oldest beyond the limit, but nothing that is needed; whether any were dropped."""
        count, total = len(self), sum(self.sizes.values())
        for key in [key for key in self if key not in needed] if total > KEPT_BYTES else ():
            if total <= KEPT_BYTES:
                break
            total -= self.sizes.pop(key)
            del self[key]
        return len(self) < count


class Packed(NamedTuple):
    """A task as bytes, how many items it has, and the keys of the inputs that it refers to."""

    payload: bytes
    size: int
    keys: tuple[str, ...]


class Packer:
    """Turns tasks into bytes on the side that hands them out.

    Attributes
    ----------
    contents
        The inputs as bytes; those of the task that was packed last are among them.
    """

    def __init__(self) -> None:
        self.contents: Shelf[bytes] = Shelf()
        self._known: dict[int, tuple[object, str]] = {}  # the object is held: its id is not given to another

    def pack(self, task: Task) -> Packed:
        """The work and items of a task."""
        keys: dict[str, None] = {}

        def key_of(thing: object) -> str:
            key = self._key_of(thing)
            keys[key] = None
            return key

        packed = Packed(_pickled((task.work, task.items), key_of), len(task.items), tuple(keys))
        if self.contents.trim(packed.keys):
            self._known = {number: known for number, known in self._known.items() if known[1] in self.contents}
        return packed

    def _key_of(self, thing: object) -> str:
        if id(thing) not in self._known:
            content = _pickled(thing)
            key = hashlib.sha256(content).hexdigest()
            self.contents.add(key, content, len(content))
            self._known[id(thing)] = (thing, key)
        return self._known[id(thing)][1]


class _Pickler(pickle.Pickler):
    """Pickles what is of classes of plug-in files with these, and inputs as their keys."""

    def __init__(self, stream: io.BytesIO, key_of: Callable[[object], str] | None) -> None:
        super().__init__(stream, protocol=5)
        self._key_of = key_of

    def reducer_override(self, obj: object) -> Any:
        return carried(obj)

    def persistent_id(self, obj: object) -> str | None:
        return self._key_of(obj) if self._key_of is not None and isinstance(obj, SHARED) else None


class _Unpickler(pickle.Unpickler):
    def __init__(self, payload: bytes, found: Callable[[str], Any]) -> None:
        super().__init__(io.BytesIO(payload))
        self._found = found

    def persistent_load(self, key: str) -> Any:
        return self._found(key)


def _pickled(thing: object, key_of: Callable[[object], str] | None = None) -> bytes:
    stream = io.BytesIO()
    _Pickler(stream, key_of).dump(thing)
    return stream.getvalue()


def unpacked(packed: Packed, found: Callable[[str], Any]) -> tuple[Any, tuple[Any, ...]]:
    """The work and items of a task, on the side that works; ``found`` gives an input by its key."""
    work, items = _Unpickler(packed.payload, found).load()
    return work, items


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
