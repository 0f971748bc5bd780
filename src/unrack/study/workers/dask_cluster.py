"""Workers of a Dask cluster: one that runs already, or one that is started on this machine."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import tempfile
import uuid
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

from unrack.study.workers.cluster import PATIENCE_S, OnCluster, Sent, answered_there, reached, stamp
from unrack.study.workers.here import CancelledError
from unrack.study.workers.shared import COMPILES

OWN = {
    "distributed.scheduler.allowed-failures": 0,  # lost tasks come back here, where we give out their items one by one
    "distributed.scheduler.worker-ttl": None,  # a kernel at work may keep a worker from answering
    "distributed.deploy.lost-worker-timeout": "1h",  # one that is killed again while it is replaced is not given up
    "distributed.comm.timeouts.connect": "60s",
    "distributed.admin.tick.limit": "1h",
    "distributed.worker.profile.enabled": False,  # a hundred looks a second at code that was not asked about
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 65536,
}
"""Settings of a cluster that is started here."""


class DaskWorkers(OnCluster):
    """Workers of a Dask cluster; the address is that of its scheduler, or the file in which it wrote that."""

    kind, library = "dask", "distributed"
    wanted = "the address of a Dask scheduler, tcp://HOST:PORT, or the file in which it wrote that, with a worker"

    def _connect(self, address: str, count: int) -> None:
        import dask

        self._topic = f"unrack-{uuid.uuid4().hex}"
        if address.endswith(".json"):
            address = str(json.loads(Path(address).read_text("utf-8"))["address"])
        own: dict[str, Any] = {}
        if address:
            reached(address)
        else:
            self._stack.enter_context(dask.config.set(OWN))
            folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="unrack-dask-"))
            own = {"n_workers": count, "threads_per_worker": 1, "host": "127.0.0.1", "dashboard_address": None}
            own |= {"local_directory": folder, "silence_logs": logging.CRITICAL}
        with _deaf_to_ctrl_c():
            self._client: Any = self._library.Client(address or None, set_as_default=False, timeout="10s", **own)
        self._stack.callback(self._client.close, timeout=10)
        self._client.wait_for_workers(1, timeout=PATIENCE_S)
        self._client.subscribe_topic(self._topic, lambda event: self._hear(*event[1]))

    def _stamps(self) -> Iterator[tuple[str, str | None]]:
        for worker, found in self._client.run(stamp, on_error="return").items():
            yield f"worker {worker}", found if isinstance(found, str) else None

    def _members(self) -> list[tuple[int, int]]:
        workers = self._client.scheduler_info(n_workers=-1)["workers"].values()
        return [(1, int(worker["memory_limit"])) for worker in workers]

    def _put(self, content: bytes) -> Any:
        return self._client.scatter(content, broadcast=True, hash=False)

    def _hand(self, sent: Sent, inputs: dict[str, Any]) -> tuple[Any, Future[bytes]]:
        task = self._client.submit(_on_worker, sent, self._topic, inputs, pure=False)
        answers = self._client.gather(task, asynchronous=True)
        return task, asyncio.run_coroutine_threadsafe(answers, self._client.loop.asyncio_loop)

    def _is_lost(self, error: BaseException) -> bool:
        return isinstance(error, self._library.KilledWorker | self._library.CancelledError)

    def _drop(self, tasks: list[Any]) -> None:
        """One that is worked on ends when it next tells how far it is."""
        self._client.cancel(tasks)


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


def _on_worker(sent: Sent, topic: str, inputs: dict[str, bytes]) -> bytes:
    from distributed import get_worker

    worker: Any = get_worker()
    key = worker.get_current_task()

    def put(news: tuple[int, ...]) -> None:
        known = worker.state.tasks.get(key)
        if news[1] != COMPILES and (known is None or known.state == "cancelled"):
            raise CancelledError
        worker.log_event(topic, news)

    return answered_there(sent, inputs.__getitem__, put)
