"""The process that hands out the work as its only worker."""

from __future__ import annotations

import os
import pickle
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from unrack.errors import RunError
from unrack.jit import telling_of_each
from unrack.sim.world import Interrupts, said, with_tracebacks
from unrack.study.workers.shared import COMPILES, Answer, Packed, Shelf, Task, Tell, Work, unpacked

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
