"""What clusters have in common: workers that are there and what they must be, what was sent, tasks that are open."""

from __future__ import annotations

import hashlib
import itertools
import pickle
import platform
import socket
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from functools import cache, partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from unrack.errors import InputError, RunError
from unrack.extras import needed_for
from unrack.plugins.code import in_words
from unrack.study.workers.here import answered, refused
from unrack.study.workers.shared import Answer, GoneError, Packed, Packer, Task, Tell

PATIENCE_S = 60.0
"""How long a cluster may be without any core."""
LOOK_EVERY_S = 0.5
Sent = tuple[str, str, int, Packed]
"""What messages call the cluster, the stamp that a worker must have, the number of a task, and the task."""


class OnCluster:
    """Tasks on a cluster: one that runs already at an address, or one of ``count`` processes, started on this machine.

    Particular to it are what raises NotImplementedError here. An InputError says that its library is not installed,
    nothing answers at the address, or a worker has another version.

    Attributes
    ----------
    name
        What messages call it.
    count, memory_mb
        Of its cores, and what the smallest of them may use.
    sent
        How many inputs were handed to the cluster, which brings them to its workers.
    """

    remote = True
    kind: str
    library: str
    wanted: str
    """What an address should have been."""
    ahead = 1
    """Tasks a core that are open at once: with more, the next is there when one ends."""

    def __init__(self, address: str, count: int) -> None:
        with needed_for(f"--on {self.kind}"):
            self._library: Any = import_module(self.library)
        self.name = f"{self.kind} {address}".strip()
        self.count, self.sent = 1, 0
        self.memory_mb: int | None = None
        self._packer = Packer()
        self._inputs: dict[str, Any] = {}
        self._open: dict[int, tuple[Tell, Any]] = {}
        self._numbers = itertools.count()
        self._seen = time.monotonic()
        self._stack = ExitStack()
        """What ends with us."""
        try:
            self._connect(address, count)
            for where, found in self._stamps():
                check_stamp(f"--on {self.name}, {where}", found, stamp())
            self._look()
        except BaseException as error:
            self.close()
            if isinstance(error, OSError | ValueError | TypeError | LookupError | RuntimeError | ImportError):
                wanted = self.wanted if address else f"{count} workers that can be started here"
                raise InputError(f"--on {self.name}", in_words(error).splitlines()[0], wanted) from None
            raise

    def capacity(self) -> int:
        """As many as there are cores, or more."""
        if time.monotonic() - self._looked > LOOK_EVERY_S:
            self._look()
        return self.ahead * self.count

    def submit(self, task: Task, tell: Tell) -> Future[tuple[Answer, ...]]:
        """Hand over a task, after inputs that the cluster does not have yet."""
        packed, contents = self._packer.pack(task), self._packer.contents
        self._inputs = {key: shared for key, shared in self._inputs.items() if key in contents}
        for key in packed.keys:
            if key not in self._inputs:
                self._inputs[key] = self._put(contents[key])
                self.sent += 1
        number, future = next(self._numbers), Future[tuple[Answer, ...]]()
        kept, there = self._hand((self.name, stamp(), number, packed), {key: self._inputs[key] for key in packed.keys})
        self._open[number] = tell, kept
        there.add_done_callback(partial(self._settle, number, future))
        return future

    def cancel(self) -> None:
        """Give up our tasks."""
        given_up, self._open = self._open, {}
        self._drop([task for _, task in given_up.values()])

    def close(self) -> None:
        """Cancel our tasks and leave; end the cluster if it was started here."""
        for end in (self.cancel, self._inputs.clear, self._stack.close):
            with suppress(Exception):  # the cluster may be gone
                end()

    def _connect(self, address: str, count: int) -> None:
        raise NotImplementedError

    def _stamps(self) -> Iterable[tuple[str, str | None]]:
        """What each worker is called, and the stamp that it gives in a process of its own; ``None``: it has none."""
        raise NotImplementedError

    def _members(self) -> list[tuple[int, int]]:
        """Cores of each machine or worker that has any, and bytes that each core may use; 0: that is not known."""
        raise NotImplementedError

    def _put(self, content: bytes) -> Any:
        """Make an input known to the cluster; the answer stands for it."""
        raise NotImplementedError

    def _hand(self, sent: Sent, inputs: dict[str, Any]) -> tuple[Any, Future[bytes]]:
        """Hand over a task: what :meth:`_drop` takes, and the future of what :func:`answered_there` answers."""
        raise NotImplementedError

    def _is_lost(self, error: BaseException) -> bool:
        """True if a task ended by this because its worker is gone."""
        raise NotImplementedError

    def _drop(self, tasks: list[Any]) -> None:
        """Have no worker work on these any more."""
        raise NotImplementedError

    def _look(self) -> None:
        members = self._members()
        shares = [share for _, share in members]
        self.count = max(1, sum(cores for cores, _ in members))
        self.memory_mb = min(shares) // 2**20 if shares and all(shares) else None
        self._looked = now = time.monotonic()
        if members:
            self._seen = now
        elif now - self._seen > PATIENCE_S:
            raise RunError(f"{self.name}: no worker is left, for {PATIENCE_S:.0f} s; finished runs are kept")

    def _hear(self, number: int, *news: int) -> None:
        """Pass on what a worker told of a task."""
        if (found := self._open.get(number)) is not None:
            found[0](*news)

    def _settle(self, number: int, future: Future[tuple[Answer, ...]], there: Future[bytes]) -> None:
        """A task has ended, unless it was given up."""
        if self._open.pop(number, None) is None:
            return
        try:
            future.set_result(pickle.loads(there.result()))
        except Exception as error:
            gone = self._is_lost(error)
            future.set_exception(
                GoneError(f"{self.name}: a worker is gone") if gone else RunError(f"{self.name}: {in_words(error)}")
            )


def reached(address: str) -> None:
    """Raise an OSError or a ValueError unless a process listens at ``HOST:PORT``, perhaps after ``tcp://``."""
    found = urlsplit(address if "//" in address else f"//{address}")
    socket.create_connection((found.hostname, found.port), 10.0).close()


@cache
def stamp() -> str:
    """Versions of all that can change a byte of a kept run, with a hash of this package's source; in this process."""
    total = hashlib.sha256()
    root = Path(__file__).parents[2]
    for path in sorted(root.rglob("*.py")):
        total.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    code, python = total.hexdigest()[:8], ".".join(platform.python_version_tuple()[:2])
    libraries = f"Python {python}, NumPy {version('numpy')}, Polars {version('polars')}"
    return f"unrack {version('unrack')} (code {code}) with {libraries}"


def check_stamp(where: str, found: str | None, wanted: str) -> None:
    """Refuse, by an InputError, a worker that would not give the same bytes; ``None``: this package is not there."""
    if found != wanted:
        raise InputError(where, found or "no unrack", f"{wanted}, as here: install the same on every worker")


def answered_there(sent: Sent, fetch: Callable[[str], bytes], put: Callable[[tuple[int, ...]], None]) -> bytes:
    """The answers of a worker of a cluster to a task, unless its stamp is another; ``put`` takes its news."""
    name, wanted, number, packed = sent
    try:
        check_stamp(f"--on {name}, a worker on {platform.node()}", stamp(), wanted)
    except InputError as error:
        return refused(packed, error)
    return answered(packed, fetch, lambda *news: put((number, *news)))
