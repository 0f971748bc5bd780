"""Fresh processes of this machine, which end with the one that started them. One that is killed is replaced."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any

from unrack.study.workers.contract import Compiling, Done, Lost, Report, Running, Task
from unrack.study.workers.here import memory_mb
from unrack.study.workers.shared import Packer
from unrack.study.workers.work import answered

CONTEXT: SpawnContext = multiprocessing.get_context("spawn")
READY, HEARD, COMPILING, DONE = range(4)
"""Kinds of messages of a process."""


class Processes:
    """Up to so many processes, each started when there is a task for it.

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
        self._packer = Packer()
        self._idle: deque[_Process] = deque()
        self._busy: list[_Process] = []

    def room(self) -> int:
        """As many as there are processes without work."""
        return self.count - len(self._busy)

    def submit(self, task: Task) -> None:
        """Give a task to an idle process, or to a new one."""
        packed = self._packer.pack(task)
        process = self._idle.pop() if self._idle else _Process()
        process.number = task.number
        self._busy.append(process)
        inputs = {key: self._packer.contents[key] for key in packed.keys if key not in process.has}
        self.sent += len(inputs)
        dropped = [key for key in process.has if key not in self._packer.contents]
        process.give(pickle.dumps((packed, inputs, dropped), protocol=5), inputs, dropped)

    def listen(self, timeout_s: float, hear: Callable[[Report], None]) -> None:
        """Hear every process that has something to say."""
        speaking = wait([process.connection for process in self._busy], timeout_s)
        for process in [process for process in self._busy if process.connection in speaking]:
            try:
                kind, *rest = process.connection.recv()
            except (EOFError, OSError):
                self._busy.remove(process)
                process.end()
                hear(Lost(process.number))
                continue
            if kind == READY:
                process.ready()
            elif kind == HEARD:
                hear(Running(process.number, *rest))
            elif kind == COMPILING:
                hear(Compiling(*rest))
            else:
                self._busy.remove(process)
                self._idle.append(process)
                hear(Done(process.number, pickle.loads(rest[0])))

    def cancel(self) -> None:
        """End the processes that work."""
        for process in self._busy:
            process.end()
        self._busy.clear()

    def close(self) -> None:
        """End all processes."""
        self.cancel()
        for process in self._idle:
            process.end()
        self._idle.clear()


class _Process:
    """The parent's side of a worker process: what it was given, and which inputs it has."""

    def __init__(self) -> None:
        self.number = -1
        self.has: set[str] = set()
        self._waiting: list[bytes] | None = []  # until it has begun, a large message would hold up the parent
        self.connection, other = CONTEXT.Pipe()
        self._process: SpawnProcess = CONTEXT.Process(target=_serve, args=(other,), daemon=True)
        self._process.start()
        other.close()

    def give(self, message: bytes, inputs: Iterable[str], dropped: Iterable[str]) -> None:
        """Send a task with the inputs that the process lacks; it forgets those that were dropped."""
        self.has = self.has.difference(dropped).union(inputs)
        if self._waiting is not None:
            self._waiting.append(message)
            return
        with suppress(OSError):  # it is gone, which is heard next
            self.connection.send_bytes(message)

    def ready(self) -> None:
        """Send what has waited for the process to begin."""
        waiting, self._waiting = self._waiting or [], None
        for message in waiting:
            with suppress(OSError):
                self.connection.send_bytes(message)

    def end(self) -> None:
        """End the process at once, whatever it does."""
        self._process.kill()
        self._process.join()
        self._process.close()
        self.connection.close()


# --- in the worker ----------------------------------------------------------------------------------------------------


def _serve(connection: Connection) -> None:
    """Work until the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    threading.Thread(target=_end_with_parent, daemon=True).start()
    from unrack.jit import on_compile

    on_compile(lambda change: connection.send((COMPILING, change)))
    inputs: dict[str, Any] = {}
    connection.send((READY,))
    while True:
        packed, new, dropped = pickle.loads(connection.recv_bytes())
        for key in dropped:
            inputs.pop(key, None)
        inputs.update((key, pickle.loads(content)) for key, content in new.items())
        answers = answered(packed, inputs.__getitem__, lambda place, done: connection.send((HEARD, place, done)))
        connection.send((DONE, answers))


def _end_with_parent() -> None:
    """End this worker when the process that started it is gone, however it went."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
