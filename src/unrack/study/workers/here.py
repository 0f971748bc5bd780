"""Workers of this machine: the process that hands out the work, or fresh ones.

Fresh processes end with the one that started them. One that is killed is replaced.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnContext, SpawnProcess
from pathlib import Path
from typing import Any

from unrack.errors import RunError
from unrack.jit import telling_of_each
from unrack.sim.world import Interrupts, said, with_tracebacks
from unrack.study.workers.shared import COMPILES, Answer, GoneError, Packed, Packer, Shelf, Task, Tell, Work, unpacked

TELL_EVERY_S = 0.25
_inputs: Shelf[Any] = Shelf()
_alone = threading.Lock()


class CancelledError(BaseException):
    """Raised by the function that work tells its progress: its answer is no longer wanted."""


def answered(packed: Packed, fetch: Callable[[str], bytes], tell: Tell) -> bytes:
    """The answers to a task that came as bytes, as bytes; tasks of one process are worked on one after another.

    ``fetch`` gives an input by its key, as bytes; it is not asked for one that this process has.
    """

    def found(key: str) -> Any:
        if key not in _inputs:
            content = fetch(key)
            _inputs.add(key, pickle.loads(content), len(content))
        return _inputs[key]

    with _alone, telling_of_each(partial(tell, COMPILES)):
        try:
            work, items = unpacked(packed, found)
        except Exception as raised:  # the code that the task names is not here, or fails when it is loaded
            return refused(packed, RunError(f"a worker cannot load its task ({said(raised)})"))
        finally:
            _inputs.trim(packed.keys)
        return _as_bytes(worked(work, items, tell, _tried_once))


def refused(packed: Packed, error: Exception) -> bytes:
    """The same answer to every item of a task, as bytes."""
    return pickle.dumps((Answer(None, error, 0.0),) * packed.size, protocol=5)


def worked(
    work: Work,
    items: Sequence[Any],
    tell: Tell,
    tried: Callable[[Callable[[], Any]], tuple[Any, BaseException | None]],
    tell_every_s: float = TELL_EVERY_S,
) -> tuple[Answer, ...]:
    """An answer an item; ``tell`` is told how far each is, no more often than so, ``tried`` calls a function."""
    last = time.monotonic()
    answers = []
    for place, item in enumerate(items):

        def heard(done: int, place: int = place) -> None:
            nonlocal last
            if (now := time.monotonic()) - last >= tell_every_s:
                last = now
                tell(place, done)

        began = time.perf_counter()
        value, error = tried(lambda item=item, heard=heard: work(item, heard))  # type: ignore[misc]
        answers.append(Answer(value, error, time.perf_counter() - began))
    return tuple(answers)


def _tried_once(work: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    try:
        return work(), None
    except CancelledError:
        raise
    except BaseException as raised:  # Ctrl-C is the business of the process that handed out the task
        return None, _sendable(raised)


def _sendable(error: BaseException) -> BaseException:
    """The error itself if another process can surely read it, else one that says the same."""
    ours = type(error).__module__.partition(".")[0] in ("builtins", "unrack")
    if ours and not with_tracebacks():  # these do not travel, but as text
        with suppress(Exception):  # what it holds may be a user's
            if type(pickle.loads(pickle.dumps(error))) is type(error):
                return error.with_traceback(None)
    return RunError(said(error))


def _as_bytes(answers: Sequence[Answer]) -> bytes:
    """Answers as they go to another process; those that cannot be sent become an error that says so."""
    try:
        return pickle.dumps(answers, protocol=5)
    except Exception as raised:  # what an answer holds is a user's
        error = RunError(f"an answer that cannot be sent to another process ({said(raised)})")
        return pickle.dumps(tuple(Answer(None, one.error or error, one.took_s) for one in answers), protocol=5)


LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Where a container's or a batch job's limit stands, bytes."""


def memory_mb() -> int:
    """The memory of this machine, or the part of it that this program is held to, MB (of 2²⁰ bytes)."""
    found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for limit in LIMITS:
        with suppress(OSError, ValueError):  # not there, or "max"
            found = min(found, int(Path(limit).read_text()))
    return found // 2**20


class Here:
    """Works while a task is submitted; nothing is sent, and an error is the one that was raised."""

    name = "this process"
    count = 1
    remote = False

    def __init__(self) -> None:
        self.memory_mb = memory_mb()

    def capacity(self) -> int:
        """One."""
        return 1

    def submit(self, task: Task, tell: Tell) -> Future[tuple[Answer, ...]]:
        """Work on the task to its end. A KeyboardInterrupt if the user wants to stop, and not only the item's code."""
        future: Future[tuple[Answer, ...]] = Future()
        with telling_of_each(partial(tell, COMPILES)):
            future.set_result(worked(task.work, task.items, tell, _tried, tell_every_s=0.0))
        return future

    def cancel(self) -> None:
        """Nothing is open."""

    def close(self) -> None:
        """Nothing is left to end."""


def _tried(work: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    """What was returned, or raised: a user's policy may raise anything."""
    with Interrupts() as interrupts:
        try:
            found = work()
        except BaseException as error:
            if interrupts.meant(error):
                raise KeyboardInterrupt from None
            return None, error
        if interrupts.meant():
            raise KeyboardInterrupt
    return found, None


CONTEXT: SpawnContext = multiprocessing.get_context("spawn")


class Processes:
    """Up to so many processes, each started when there is a task for it, and a thread that talks with each.

    Attributes
    ----------
    sent
        How many inputs went to how many processes, all in all.
    """

    remote = False

    def __init__(self, count: int) -> None:
        self.count = count
        self.name = f"{count} processes"
        self.memory_mb = memory_mb() // count
        self.sent = 0
        self._counting = threading.Lock()
        self._packer = Packer()
        self._threads = ThreadPoolExecutor(count)
        self._idle: list[_Process] = []
        self._open: dict[Future[tuple[Answer, ...]], _Process] = {}

    def capacity(self) -> int:
        """As many as there are processes."""
        return self.count

    def submit(self, task: Task, tell: Tell) -> Future[tuple[Answer, ...]]:
        """Give a task to an idle process, or to a new one."""
        packed = self._packer.pack(task)
        inputs = {key: self._packer.contents[key] for key in packed.keys}
        process = self._idle.pop() if self._idle else _Process()
        future = self._threads.submit(self._talk, process, packed, inputs, tell)
        self._open[future] = process
        future.add_done_callback(self._open.pop)
        return future

    def _talk(self, process: _Process, packed: Packed, inputs: dict[str, bytes], tell: Tell) -> tuple[Answer, ...]:
        """Send a task and what the process lacks for it, and pass on what it tells until it answers."""
        connection = process.connection
        try:
            connection.send(packed)
            while not isinstance(said := connection.recv(), bytes):
                if isinstance(said, str):
                    connection.send_bytes(inputs[said])
                    with self._counting:
                        self.sent += 1
                else:
                    tell(*said)
        except (EOFError, OSError):
            process.end()
            raise GoneError("a worker process is gone") from None
        self._idle.append(process)
        answers: tuple[Answer, ...] = pickle.loads(said)
        return answers

    def cancel(self) -> None:
        """End the processes that work."""
        busy = dict(self._open)
        for process in busy.values():
            process.kill()
        wait(busy)
        self._idle = [process for process in self._idle if process not in busy.values()]
        for process in busy.values():
            process.end()

    def close(self) -> None:
        """End all processes."""
        self.cancel()
        for process in self._idle:
            process.end()
        self._idle.clear()
        self._threads.shutdown()


class _Process:
    """The parent's side of a worker process."""

    def __init__(self) -> None:
        self.connection, other = CONTEXT.Pipe()
        self._process: SpawnProcess = CONTEXT.Process(target=_serve, args=(other,), daemon=True)
        self._process.start()
        other.close()

    def kill(self) -> None:
        """End the process at once, whatever it does."""
        self._process.kill()

    def end(self) -> None:
        """The same, and let go of it."""
        self._process.kill()
        self._process.join()
        self.connection.close()


# --- in the worker ----------------------------------------------------------------------------------------------------


def _serve(connection: Connection) -> None:
    """Work until the parent is gone. What is said: an answer (bytes), an input that is lacking (str), or news."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    threading.Thread(target=_end_with_parent, daemon=True).start()

    def fetch(key: str) -> bytes:
        connection.send(key)
        return connection.recv_bytes()

    while True:
        connection.send(answered(connection.recv(), fetch, lambda *news: connection.send(news)))


def _end_with_parent() -> None:
    """End this worker when the process that started it is gone, however it went."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
