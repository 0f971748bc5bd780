"""Workers of a Dask cluster: one that runs already, or one that is started on this machine."""

from __future__ import annotations

import logging
import pickle
import queue
import signal
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing import resource_tracker
from typing import Any

from unrack.errors import InputError, RunError
from unrack.study.workers.address import Stamp, check_stamp, of_scheduler_file, reached, stamp
from unrack.study.workers.contract import Compiling, Done, Lost, Report, Running, Task
from unrack.study.workers.shared import Packed, Packer
from unrack.study.workers.work import CancelledError, answered_here

PATIENCE_S = 60.0
"""How long a cluster may be without any worker."""
OWN = {
    "distributed.scheduler.allowed-failures": 0,  # lost tasks come back to us, who give out their items one by one
    "distributed.scheduler.worker-ttl": None,  # a kernel at work may keep a worker from answering
    "distributed.scheduler.work-stealing": False,
    "distributed.comm.timeouts.connect": "60s",
    "distributed.admin.tick.limit": "1h",
    "distributed.worker.profile.enabled": False,  # a hundred looks a second at code that nobody asked about
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 65536,
}
"""Settings of a cluster that is started here."""
DONE, HEARD, COMPILING = "done", "heard", "compiling"


class DaskWorkers:
    """Workers of a Dask cluster.

    Parameters
    ----------
    address
        Of the scheduler, such as ``tcp://node:8786``, or the file in which it wrote that; none: a cluster of processes
        is started on this machine.
    count
        How many processes are started.

    Attributes
    ----------
    sent
        How many inputs were handed to the cluster, which brings each to every worker.

    Raises
    ------
    InputError
        Dask is not installed, nobody answers at the address, or a worker has another version.
    """

    remote = True

    def __init__(self, address: str, count: int) -> None:
        try:
            import distributed
        except ImportError:
            raise InputError("--on dask", "no package 'distributed'", "pip install 'unrack[dask]'") from None
        self.name = f"dask {address}" if address else "dask"
        self.sent = 0
        self._messages: queue.SimpleQueue[tuple[Any, ...]] = queue.SimpleQueue()
        self._open: dict[int, Any] = {}
        self._inputs: dict[str, Any] = {}
        self._packer = Packer()
        self._topic = f"unrack-{uuid.uuid4().hex}"
        self._stack = ExitStack()
        self._load: dict[str, int] = {}  # worker → our tasks that are open
        self._given: dict[int, str] = {}
        self._packed: dict[int, Packed] = {}
        self._own: Any = None  # the cluster that was started here
        self._wanted = count
        self._looked = 0.0
        self._seen = time.monotonic()
        try:
            self._client: Any = self._connected(distributed, address, count)
            self._client.subscribe_topic(self._topic, self._event)
            self._check_workers()
        except BaseException:
            self.close()
            raise

    def _connected(self, distributed: Any, address: str, count: int) -> Any:
        import dask

        if not address:
            folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="unrack-dask-"))
            with dask.config.set(OWN), _deaf_to_ctrl_c():
                cluster = distributed.LocalCluster(
                    n_workers=count,
                    threads_per_worker=1,
                    host="127.0.0.1",
                    dashboard_address=None,
                    local_directory=folder,
                    silence_logs=logging.CRITICAL,
                )
                self._stack.callback(_quietly, cluster.close, timeout=10)
            self._own = cluster
            address = cluster
        else:
            where, wanted = f"--on {self.name}", "the address of a Dask scheduler, tcp://HOST:PORT, or its file"
            address = of_scheduler_file(where, address) if address.endswith(".json") else address
            reached(where, address, wanted)
        try:
            client = distributed.Client(address, set_as_default=False, timeout="10s", name="unrack")
        except (TimeoutError, OSError, ValueError, TypeError) as error:
            said = str(error) or type(error).__name__
            raise InputError(f"--on {self.name}", said, "the address of a Dask scheduler, tcp://HOST:PORT") from None
        self._stack.callback(_quietly, client.close, timeout=5)
        try:
            client.wait_for_workers(1, timeout=PATIENCE_S)
        except TimeoutError:
            raise InputError(f"--on {self.name}", "a scheduler without workers", "one worker or more") from None
        return client

    def _check_workers(self) -> None:
        """Refuse workers of another version, in their own process."""
        wanted = stamp()
        found = self._client.run(_stamp_there, on_error="return")
        for worker, there in found.items():
            check_stamp(f"--on {self.name}, worker {worker}", there if isinstance(there, Stamp) else None, wanted)
        self._look()

    def _look(self) -> None:
        workers = self._client.scheduler_info(n_workers=-1)["workers"]
        limits = [int(worker["memory_limit"]) for worker in workers.values()]
        self._load = {worker: self._load.get(worker, 0) for worker in workers}
        self.count = max(1, len(limits))
        self.memory_mb = min(limits) // 2**20 if limits and all(limits) else None
        self._looked = now = time.monotonic()
        if self._own is not None and len(limits) < self._wanted:
            # a worker that is killed again while it is replaced is given up after 15 s, and nobody asks for another
            self._own.scale(self._wanted)
        if limits:
            self._seen = now
        elif now - self._seen > PATIENCE_S:
            raise RunError(f"{self.name}: no worker is left, for {PATIENCE_S:.0f} s; finished runs are kept")

    def room(self) -> int:
        """As many as there are idle workers: what waits behind a task that kills its worker is lost with it."""
        return self.count - len(self._open)

    def submit(self, task: Task) -> None:
        """Hand a task to the scheduler; inputs that it does not have yet go to all workers first."""
        packed = self._packer.pack(task)
        for key in [key for key in self._inputs if key not in self._packer.contents]:
            del self._inputs[key]
        new = {f"{self._topic}-{key}": self._packer.contents[key] for key in packed.keys if key not in self._inputs}
        if new:
            self.sent += len(new)
            for name, future in self._client.scatter(new, broadcast=True, hash=False).items():
                self._inputs[name.rpartition("-")[2]] = future
        self._packed[task.number] = packed
        self._hand(task.number, min(self._load, key=lambda one: self._load[one], default=""))

    def _hand(self, number: int, worker: str) -> None:
        """Hand a task to the scheduler, for a worker if it is there then; none: for any."""
        packed = self._packed[number]
        inputs = {key: self._inputs[key] for key in packed.keys}
        future = self._client.submit(
            _on_worker, packed, stamp(), number, self._topic, inputs,
            key=f"{self._topic}-task-{number}-{uuid.uuid4().hex[:8]}", pure=False,
            workers=[worker] if worker else None, allow_other_workers=bool(worker),  # else all go to one for long
        )  # fmt: skip
        self._open[number] = future
        self._given[number] = worker
        if worker:
            self._load[worker] = self._load.get(worker, 0) + 1
        future.add_done_callback(lambda ended: self._messages.put((DONE, number, ended.key)))

    def _hand_again(self) -> None:
        """Hand over again what waits for a worker that is gone.

        A task that became ready while there was no worker at all is given to none of those that come later, though it
        may run anywhere: the scheduler looks only at the worker that it was meant for.
        """
        if not self._load or all(worker in self._load for worker in self._given.values() if worker):
            return
        waiting = set(self._client.run_on_scheduler(_waiting))
        for number in [number for number, future in self._open.items() if future.key in waiting]:
            self._client.cancel([self._open.pop(number)], force=True)
            self._hand(number, "")

    def _event(self, event: tuple[float, tuple[Any, ...]]) -> None:
        self._messages.put(event[1])

    def listen(self, timeout_s: float, hear: Callable[[Report], None]) -> None:
        """Pass on what the workers and the scheduler said."""
        if time.monotonic() - self._looked > 2.0:
            self._look()
            self._hand_again()
        messages = []
        with suppress(queue.Empty):
            messages.append(self._messages.get(timeout=timeout_s) if timeout_s else self._messages.get_nowait())
            while True:
                messages.append(self._messages.get_nowait())
        ended = {message[1]: self._open.pop(message[1]) for message in messages if self._is_end(message)}
        whole = {number: future for number, future in ended.items() if future.status == "finished"}
        answers = self._client.gather(whole, errors="skip")
        for kind, *rest in messages:
            if kind == HEARD and rest[0] in self._open:
                hear(Running(*rest))
            elif kind == COMPILING:
                hear(Compiling())
        for number, future in ended.items():
            self._packed.pop(number)
            if (worker := self._given.pop(number)) in self._load:
                self._load[worker] -= 1
            if number in answers:
                hear(Done(number, pickle.loads(answers[number])))
            elif future.status == "error" and not _lost_worker(future):
                raise RunError(f"{self.name}: {future.exception()}") from None
            else:
                hear(Lost(number))

    def _is_end(self, message: tuple[Any, ...]) -> bool:
        return message[0] == DONE and message[1] in self._open and self._open[message[1]].key == message[2]

    def cancel(self) -> None:
        """Cancel our tasks; one that is worked on ends when it next tells how far it is."""
        if self._open:
            self._client.cancel(list(self._open.values()), force=True)
        self._open.clear()
        self._given.clear()
        self._packed.clear()
        self._load = dict.fromkeys(self._load, 0)

    def close(self) -> None:
        """Cancel our tasks and give our inputs back; end the cluster if it was started here."""
        with suppress(Exception):  # the scheduler may be gone
            self.cancel()
        self._inputs.clear()
        self._stack.close()


@contextmanager
def _deaf_to_ctrl_c() -> Iterator[None]:
    """Processes that are started meanwhile, and threads, leave Ctrl-C to us."""
    resource_tracker.ensure_running()  # when it starts it lets the signal through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _quietly(close: Callable[..., Any], **more: Any) -> None:
    """Close what may be gone already."""
    with suppress(Exception):
        close(**more)


def _lost_worker(future: Any) -> bool:
    from distributed import KilledWorker

    return isinstance(future.exception(), KilledWorker)


# --- in the worker ----------------------------------------------------------------------------------------------------


def _stamp_there() -> Stamp:
    return stamp()


def _waiting(dask_scheduler: Any) -> list[str]:
    """Tasks that no worker may run."""
    return [str(task.key) for task in dask_scheduler.unrunnable]


def _on_worker(packed: Packed, wanted: Stamp, number: int, topic: str, inputs: dict[str, bytes]) -> bytes:
    from distributed import get_worker

    worker: Any = get_worker()
    key = worker.get_current_task()

    def tell(place: int, done: int) -> None:
        known = worker.state.tasks.get(key)
        if known is None or known.state == "cancelled":
            raise CancelledError
        worker.log_event(topic, (HEARD, number, place, done))

    where = f"--on dask, worker {worker.address}"
    compiling = lambda: worker.log_event(topic, (COMPILING,))  # noqa: E731 -- a name for the argument
    return answered_here(where, packed, wanted, inputs.__getitem__, tell, compiling)
