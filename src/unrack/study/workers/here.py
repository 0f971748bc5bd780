"""The process that hands out the work as its only worker."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from unrack.jit import telling_of_each
from unrack.sim.guard import Interrupts
from unrack.study.workers.contract import Answer, Compiling, Done, Report, Running, Task

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
    """Works while it is listened to; nothing is sent, and an error is the one that was raised."""

    name = "this process"
    count = 1
    remote = False

    def __init__(self) -> None:
        self.memory_mb = memory_mb()
        self._task: Task | None = None

    def room(self) -> int:
        """One, or none."""
        return int(self._task is None)

    def submit(self, task: Task) -> None:
        """Take a task, to be worked on in :meth:`listen`."""
        self._task = task

    def listen(self, timeout_s: float, hear: Callable[[Report], None]) -> None:
        """Work on the task, if there is one, to its end.

        Raises
        ------
        KeyboardInterrupt
            The user wants to stop, and not only the item's code.
        """
        task, self._task = self._task, None
        if task is None:
            return
        answers = []
        with telling_of_each(lambda change: hear(Compiling(change))):
            for place, item in enumerate(task.items):

                def heard(done: int, place: int = place) -> None:
                    hear(Running(task.number, place, done))

                began = time.perf_counter()
                value, error = _tried(lambda item=item, heard=heard: task.work(item, heard))  # type: ignore[misc]
                answers.append(Answer(value, error, time.perf_counter() - began))
        hear(Done(task.number, tuple(answers)))

    def cancel(self) -> None:
        """Forget the task."""
        self._task = None

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
