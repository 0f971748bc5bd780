"""Fresh processes of this machine, which end with the one that started them. One that is killed is replaced."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
from concurrent.futures import Future, ThreadPoolExecutor, wait
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnContext, SpawnProcess

from unrack.study.workers.here import answered, memory_mb
from unrack.study.workers.shared import Answer, GoneError, Packed, Packer, Task, Tell

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
