"""The process that hands out the work as its only worker."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from unrack.jit import telling_of_each
from unrack.sim.guard import Interrupts
from unrack.study.workers.contract import COMPILES, Answer, Task, Tell
from unrack.study.workers.work import worked

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
