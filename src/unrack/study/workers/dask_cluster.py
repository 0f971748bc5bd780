"""Workers of a Dask cluster: one that runs already, or one that is started on this machine."""

from __future__ import annotations

import logging
import signal
import tempfile
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing import resource_tracker
from typing import Any

from unrack.errors import InputError
from unrack.study.workers.cluster import (
    PATIENCE_S,
    OnCluster,
    answered_there,
    of_scheduler_file,
    reached,
    stamp,
    stamp_there,
)
from unrack.study.workers.here import CancelledError
from unrack.study.workers.shared import COMPILES, Packed

OWN = {
    "distributed.scheduler.allowed-failures": 0,  # lost tasks come back here, where we give out their items one by one
    "distributed.scheduler.worker-ttl": None,  # a kernel at work may keep a worker from answering
    "distributed.scheduler.work-stealing": False,
    "distributed.comm.timeouts.connect": "60s",
    "distributed.admin.tick.limit": "1h",
    "distributed.worker.profile.enabled": False,  # a hundred looks a second at code that was not asked about
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 65536,
}
"""Settings of a cluster that is started here."""


class DaskWorkers(OnCluster):
    """Workers of a Dask cluster; the address is that of its scheduler, or the file in which it wrote that."""

    kind, library = "dask", "distributed"

    def _connect(self, address: str, count: int) -> None:
        self._topic = f"unrack-{uuid.uuid4().hex}"
        self._stack = ExitStack()
        self._there: list[str] = []
        self._own: Any = None  # the cluster that was started here
        self._wanted = count
        where, wanted = f"--on {self.name}", "the address of a Dask scheduler, tcp://HOST:PORT"
        if address:
            address = of_scheduler_file(where, address) if address.endswith(".json") else address
            reached(where, address, f"{wanted}, or its file")
        else:
            self._own = self._started(count)
        client = self._library.Client
        try:
            self._client: Any = client(self._own or address, set_as_default=False, timeout="10s", name="unrack")
        except (TimeoutError, OSError, ValueError, TypeError) as error:
            raise InputError(where, str(error) or type(error).__name__, wanted) from None
        self._stack.callback(self._client.close, timeout=5)
        try:
            self._client.wait_for_workers(1, timeout=PATIENCE_S)
        except TimeoutError:
            raise InputError(where, "a scheduler without workers", "one worker or more") from None
        self._client.subscribe_topic(self._topic, lambda event: self._hear(*event[1]))

    def _started(self, count: int) -> Any:
        import dask

        folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="unrack-dask-"))
        with dask.config.set(OWN), _deaf_to_ctrl_c():
            cluster = self._library.LocalCluster(
                n_workers=count,
                threads_per_worker=1,
                host="127.0.0.1",
                dashboard_address=None,
                local_directory=folder,
                silence_logs=logging.CRITICAL,
            )
        self._stack.callback(cluster.close, timeout=10)
        return cluster

    def _stamps(self) -> Iterator[tuple[str, str | None]]:
        for worker, found in self._client.run(stamp_there, on_error="return").items():
            yield f"worker {worker}", found if isinstance(found, str) else None

    def _members(self) -> list[tuple[int, int]]:
        workers = self._client.scheduler_info(n_workers=-1)["workers"]
        self._there = list(workers)
        return [(1, int(worker["memory_limit"])) for worker in workers.values()]

    def _look(self) -> None:
        """See which workers are there, and let our own workers, and what waits for those that are gone, go on."""
        super()._look()
        if self._own is not None and len(self._there) < self._wanted:
            # a worker that is killed again while it is replaced is given up after 15 s, and no other is asked for
            self._own.scale(self._wanted)
        if not self._there or all(worker in self._there for _, worker, *_ in list(self._tasks.values()) if worker):
            return
        # A task that became ready while there was no worker at all is given to none of those that come later, though it
        # may run anywhere: the scheduler looks only at the worker that it was meant for.
        waiting = set(self._client.run_on_scheduler(_waiting))
        for number, (task, _, packed, inputs) in list(self._tasks.items()):
            if task.key in waiting:
                self._give(number, "", packed, inputs)
                self._client.cancel([task], force=True)

    def _share(self, contents: dict[str, bytes]) -> dict[str, Any]:
        named = {f"{self._topic}-{key}": content for key, content in contents.items()}
        shared = self._client.scatter(named, broadcast=True, hash=False)
        return {name.rpartition("-")[2]: future for name, future in shared.items()}

    def _hand(self, number: int, packed: Packed, inputs: dict[str, Any]) -> None:
        """Hand a task to the scheduler, for the worker with fewest: by itself it gives all to one for long."""
        load = Counter(worker for _, worker, *_ in list(self._tasks.values()))
        self._give(number, min(self._there, key=load.__getitem__, default=""), packed, inputs)

    def _give(self, number: int, worker: str, packed: Packed, inputs: dict[str, Any]) -> None:
        """Hand a task to the scheduler, for a worker if it is there then; none: for any."""
        task = self._client.submit(
            _on_worker, packed, stamp(), number, self._topic, inputs,
            key=f"{self._topic}-task-{number}-{uuid.uuid4().hex[:8]}", pure=False,
            workers=[worker] if worker else None, allow_other_workers=bool(worker),
        )  # fmt: skip
        self._tasks[number] = task, worker, packed, inputs
        task.add_done_callback(lambda ended: self._client.loop.add_callback(self._ended, number, ended))

    async def _ended(self, number: int, task: Any) -> None:
        """Take the answers of a task that has ended, unless it was handed over again."""
        if number not in self._tasks or self._tasks[number][0].key != task.key:
            return
        found = await self._client.gather({0: task}, errors="skip", asynchronous=True)
        error = await task.exception() if task.status == "error" else None
        self._tasks.pop(number, None)
        self._settle(number, found.get(0), None if isinstance(error, self._library.KilledWorker) else error)

    def _drop(self, tasks: list[Any]) -> None:
        """One that is worked on ends when it next tells how far it is."""
        self._client.cancel([task for task, *_ in tasks], force=True)

    def _leave(self) -> None:
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


# --- in the worker ----------------------------------------------------------------------------------------------------


def _waiting(dask_scheduler: Any) -> list[str]:
    """Tasks that no worker may run."""
    return [str(task.key) for task in dask_scheduler.unrunnable]


def _on_worker(packed: Packed, wanted: str, number: int, topic: str, inputs: dict[str, bytes]) -> bytes:
    from distributed import get_worker

    worker: Any = get_worker()
    key = worker.get_current_task()

    def tell(place: int, told: int) -> None:
        known = worker.state.tasks.get(key)
        if place != COMPILES and (known is None or known.state == "cancelled"):
            raise CancelledError
        worker.log_event(topic, (number, place, told))

    where = f"--on dask, worker {worker.address}"
    return answered_there(where, packed, wanted, inputs.__getitem__, tell)
