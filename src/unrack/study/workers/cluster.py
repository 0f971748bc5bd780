"""What clusters have in common: workers that are there and what they must be, what was sent, tasks that are open."""

from __future__ import annotations

import hashlib
import itertools
import json
import pickle
import platform
import re
import socket
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

from unrack.errors import InputError, RunError
from unrack.study.workers.here import answered, refused
from unrack.study.workers.shared import Answer, GoneError, Packed, Packer, Task, Tell

ADDRESS = re.compile(r"(?:[a-z]+://)?(?:\[(?P<v6>[0-9a-fA-F:]+)\]|(?P<host>[^\s:/\[\]]+)):(?P<port>\d{1,5})")
CONNECT_S = 10.0
PATIENCE_S = 60.0
"""How long a cluster may be without any core."""
LOOK_EVERY_S = 2.0


class OnCluster:
    """Tasks on a cluster: one that runs already at an address, or one of ``count`` processes, started on this machine.

    Particular to it are ``_connect``, ``_stamps``, ``_members``, ``_share``, ``_hand``, ``_drop`` and ``_leave``. An
    InputError says that its library is not installed, nothing answers at the address, or a worker has another version.

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
    ahead = 1
    """Tasks a core that are open at once."""

    def __init__(self, address: str, count: int) -> None:
        try:
            self._library: Any = import_module(self.library)
        except ImportError:
            want = f"pip install 'unrack[{self.kind}]'"
            raise InputError(f"--on {self.kind}", f"no package '{self.library}'", want) from None
        self.name = f"{self.kind} {address}" if address else self.kind
        self.count, self.sent = 1, 0
        self.memory_mb: int | None = None
        self._packer = Packer()
        self._inputs: dict[str, Any] = {}
        self._open: dict[int, tuple[Future[tuple[Answer, ...]], Tell]] = {}
        self._tasks: dict[int, Any] = {}
        self._numbers = itertools.count()
        self._looked, self._seen = 0.0, time.monotonic()
        try:
            self._connect(address, count)
            for where, found in self._stamps():
                check_stamp(f"--on {self.name}, {where}", found, stamp())
            self._look()
        except BaseException:
            self.close()
            raise

    def capacity(self) -> int:
        """As many as there are cores, or more, so that the next is there when one ends."""
        if time.monotonic() - self._looked > LOOK_EVERY_S:
            self._look()
        return self.ahead * self.count

    def submit(self, task: Task, tell: Tell) -> Future[tuple[Answer, ...]]:
        """Hand over a task, after inputs that the cluster does not have yet."""
        packed, contents = self._packer.pack(task), self._packer.contents
        self._inputs = {key: shared for key, shared in self._inputs.items() if key in contents}
        if new := {key: contents[key] for key in packed.keys if key not in self._inputs}:
            self.sent += len(new)
            self._inputs.update(self._share(new))
        number, future = next(self._numbers), Future[tuple[Answer, ...]]()
        self._open[number] = future, tell
        self._hand(number, packed, {key: self._inputs[key] for key in packed.keys})
        return future

    def cancel(self) -> None:
        """Give up our tasks."""
        self._open.clear()
        tasks = list(self._tasks.values())
        self._tasks.clear()
        if tasks:
            self._drop(tasks)

    def close(self) -> None:
        """Cancel our tasks and leave; end the cluster if it was started here."""
        for end in (self.cancel, self._inputs.clear, self._leave):
            with suppress(Exception):  # the cluster may be gone
                end()

    def _connect(self, address: str, count: int) -> None:
        raise NotImplementedError

    def _stamps(self) -> Iterable[tuple[str, str | None]]:
        """What each worker is called, and the stamp that it gives in a process of its own; ``None``: it has none."""
        raise NotImplementedError

    def _drop(self, tasks: list[Any]) -> None:
        """Have no worker work on these, what :meth:`_hand` kept in ``_tasks``, any more."""
        raise NotImplementedError

    def _leave(self) -> None:
        raise NotImplementedError

    def _members(self) -> Iterable[tuple[int, int]]:
        """Cores of each machine or worker that is there, and bytes that each core may use; 0: that is not known."""
        raise NotImplementedError

    def _share(self, contents: dict[str, bytes]) -> dict[str, Any]:
        """Make inputs known to the cluster: key to what stands for each."""
        raise NotImplementedError

    def _hand(self, number: int, packed: Packed, inputs: dict[str, Any]) -> None:
        """Hand over a task, which is to be settled by number."""
        raise NotImplementedError

    def _look(self) -> None:
        members = [(cores, share) for cores, share in self._members() if cores]
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
        if number in self._open:
            self._open[number][1](*news)

    def _settle(self, number: int, answers: bytes | None, error: BaseException | None = None) -> None:
        """A task has ended; without answers and without an error its worker is gone."""
        if number not in self._open:
            return
        future, _ = self._open.pop(number)
        if answers is not None:
            future.set_result(pickle.loads(answers))
        else:
            gone = GoneError(f"{self.name}: a worker is gone")
            future.set_exception(gone if error is None else RunError(f"{self.name}: {error}"))


def reached(where: str, address: str, wanted: str) -> None:
    """Make sure that a process listens at ``HOST:PORT``, perhaps after ``tcp://`` or the like; else an InputError."""
    found = ADDRESS.fullmatch(address)
    if found is None or int(found["port"]) > 65535:
        raise InputError(where, repr(address), wanted)
    try:
        socket.create_connection((found["v6"] or found["host"], int(found["port"])), CONNECT_S).close()
    except OSError as error:
        raise InputError(where, f"{address}, where nothing answers ({error.strerror or error})", wanted) from None


def of_scheduler_file(where: str, path: str) -> str:
    """The address in a file that ``dask scheduler --scheduler-file`` wrote; an InputError if there is none."""
    try:
        return str(json.loads(Path(path).read_text("utf-8"))["address"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        got = f"{path}, which has no address ({getattr(error, 'strerror', None) or type(error).__name__})"
        raise InputError(where, got, "what 'dask scheduler --scheduler-file' wrote") from None


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


def stamp_there() -> str:
    """That of the worker that calls this."""
    return stamp()


def check_stamp(where: str, found: str | None, wanted: str) -> None:
    """Refuse, by an InputError, a worker that would not give the same bytes; ``None``: this package is not there."""
    if found != wanted:
        raise InputError(where, found or "no unrack", f"{wanted}, as here: install the same on every worker")


def answered_there(where: str, packed: Packed, wanted: str, fetch: Callable[[str], bytes], tell: Tell) -> bytes:
    """The answers of a worker of a cluster to a task, unless its stamp is another; ``where``: what messages call it."""
    try:
        check_stamp(where, stamp(), wanted)
    except InputError as error:
        return refused(packed, error)
    return answered(packed, fetch, tell)
