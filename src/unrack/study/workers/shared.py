"""Tasks as bytes. Large inputs are left out of them: each is known by a hash of its content, and goes to a worker once.

A pickle refers to such an input as to a persistent object, wherever in an item it stands.
"""

from __future__ import annotations

import hashlib
import io
import pickle
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from unrack.cluster.spec import Cluster
from unrack.plugins.file import PluginFile, carried
from unrack.slowdown.memory.settings import MemoryContention
from unrack.study.workers.contract import Task
from unrack.workload.job import JobTable

SHARED: tuple[type, ...] = (JobTable, Cluster, MemoryContention, PluginFile)
"""What is sent once a worker."""
KEPT_BYTES = 256 * 2**20
"""Inputs that are kept at most, on either side; those that were not used for longest are dropped, and sent again."""
V = TypeVar("V")


class Shelf(OrderedDict[str, V]):
    """Values by key, the latest used last; the oldest fall off when the sum of their sizes is above a limit."""

    def __init__(self, limit: int = KEPT_BYTES) -> None:
        super().__init__()
        self.limit = limit
        self.sizes: dict[str, int] = {}

    def add(self, key: str, value: V, size: int) -> None:
        """Put a value last."""
        self[key] = value
        self.sizes[key] = size
        self.move_to_end(key)

    def trimmed(self, needed: tuple[str, ...] = ()) -> list[str]:
        """Drop the oldest beyond the limit, but nothing that is needed; returns their keys."""
        dropped: list[str] = []
        total = sum(self.sizes[key] for key in self)
        for key in [key for key in self if key not in needed]:
            if total <= self.limit:
                break
            total -= self.sizes.pop(key)
            del self[key]
            dropped.append(key)
        return dropped


@dataclass(frozen=True)
class Packed:
    """A task as bytes, how many items it has, and the keys of the inputs that it refers to."""

    payload: bytes
    count: int
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

        stream = io.BytesIO()
        _ByReference(stream, key_of).dump((task.work, task.items))
        packed = Packed(stream.getvalue(), len(task.items), tuple(keys))
        if dropped := set(self.contents.trimmed(packed.keys)):
            self._known = {number: known for number, known in self._known.items() if known[1] not in dropped}
        return packed

    def _key_of(self, thing: object) -> str:
        if id(thing) in self._known:
            key = self._known[id(thing)][1]
            self.contents.move_to_end(key)
            return key
        stream = io.BytesIO()
        _Carrying(stream, protocol=5).dump(thing)
        content = stream.getvalue()
        key = hashlib.sha256(content).hexdigest()
        self.contents.add(key, content, len(content))
        self._known[id(thing)] = (thing, key)
        return key


class _Carrying(pickle.Pickler):
    """Pickles what is of classes of plug-in files, with these."""

    def reducer_override(self, obj: object) -> Any:
        return carried(obj)


class _ByReference(_Carrying):
    def __init__(self, stream: io.BytesIO, key_of: Callable[[object], str]) -> None:
        super().__init__(stream, protocol=5)
        self._key_of = key_of

    def persistent_id(self, obj: object) -> str | None:
        return self._key_of(obj) if isinstance(obj, SHARED) else None


def unpacked(packed: Packed, found: Callable[[str], Any]) -> tuple[Any, tuple[Any, ...]]:
    """The work and items of a task, on the side that works; ``found`` gives an input by its key."""
    work, items = _Referring(packed.payload, found).load()
    return work, items


class _Referring(pickle.Unpickler):
    def __init__(self, payload: bytes, found: Callable[[str], Any]) -> None:
        super().__init__(io.BytesIO(payload))
        self._found = found

    def persistent_load(self, pid: Any) -> Any:
        return self._found(pid)
