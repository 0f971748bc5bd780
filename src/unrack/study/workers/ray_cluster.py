"""Workers of a Ray cluster: one that runs already, or one that is started on this machine."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from unrack.errors import InputError
from unrack.study.workers.cluster import PATIENCE_S, OnCluster, answered_there, reached, stamp, stamp_there
from unrack.study.workers.shared import Packed

ASK_EVERY_S = 0.25
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DISABLE_IMPORT_WARNING": "1",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
}
"""Nothing is told to anybody but us."""


class RayWorkers(OnCluster):
    """Cores of a Ray cluster, each with a process that Ray keeps.

    The address is as ``ray.init`` takes it: ``auto``, ``HOST:PORT`` or ``ray://HOST:PORT``.
    """

    kind = library = "ray"
    ahead = 2

    def __init__(self, address: str, count: int) -> None:
        for key, value in QUIET.items():
            os.environ.setdefault(key, value)
        self._asked = 0.0
        super().__init__(address, count)

    def _connect(self, address: str, count: int) -> None:
        ray, quiet = self._library, {"log_to_driver": False, "logging_level": "CRITICAL", "configure_logging": False}
        wanted = "the address of a Ray cluster: auto, HOST:PORT or ray://HOST:PORT"
        if address not in ("", "auto"):
            reached(f"--on {self.name}", address, wanted)
        try:
            if address:
                ray.init(address=address, **quiet)
            else:  # the logger says that a token is made
                logging.getLogger("ray._private.authentication").setLevel(logging.ERROR)
                ray.init(address="local", num_cpus=count, include_dashboard=False, **quiet)
        except (ConnectionError, ValueError, RuntimeError, ImportError) as error:
            said = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise InputError(f"--on {self.name}", said, wanted) from None
        from ray.util.queue import Queue

        self._board: Any = Queue(actor_options={"num_cpus": 0})  # of what workers tell
        self._work = ray.remote(num_cpus=1, max_retries=0)(_on_worker)

    def _stamps(self) -> Iterator[tuple[str, str | None]]:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as Node

        ask = self._library.remote(num_cpus=0, max_retries=1)(stamp_there)
        for node in self._nodes():
            there = ask.options(scheduling_strategy=Node(node_id=node["NodeID"], soft=False)).remote()
            found: str | None = None
            with suppress(self._library.exceptions.RayError):
                found = self._library.get(there, timeout=PATIENCE_S)
            yield f"node {node['NodeManagerHostname']}", found

    def _nodes(self) -> list[dict[str, Any]]:
        return [node for node in self._library.nodes() if node["Alive"]]

    def _members(self) -> Iterator[tuple[int, int]]:
        for node in self._nodes():
            cores = int(node["Resources"].get("CPU", 0))
            yield cores, int(node["Resources"].get("memory", 0) / max(cores, 1))

    def capacity(self) -> int:
        """Two tasks a core; now and then what workers told is passed on."""
        if time.monotonic() - self._asked >= ASK_EVERY_S:
            self._asked = time.monotonic()
            for news in self._board.get_nowait_batch(self._board.qsize()):
                self._hear(*news)
        return super().capacity()

    def _share(self, contents: dict[str, bytes]) -> dict[str, Any]:
        """Put inputs into the store of objects, from where each node takes them once."""
        return {key: self._library.put(content) for key, content in contents.items()}

    def _hand(self, number: int, packed: Packed, inputs: dict[str, Any]) -> None:
        self._tasks[number] = task = self._work.remote(packed, stamp(), number, self._board, inputs)
        task.future().add_done_callback(partial(self._ended, number))

    def _ended(self, number: int, future: Any) -> None:
        self._tasks.pop(number, None)
        error = future.exception()
        if isinstance(error, self._library.exceptions.RayTaskError):
            self._settle(number, None, error.cause or error)
        else:  # another error: the worker or node is gone, or was ended for its memory
            self._settle(number, future.result() if error is None else None)

    def _drop(self, tasks: list[Any]) -> None:
        """End the processes that work on them; Ray starts others."""
        for task in tasks:
            self._library.cancel(task, force=True)

    def _leave(self) -> None:
        self._library.shutdown()


# --- in the worker ----------------------------------------------------------------------------------------------------


def _on_worker(packed: Packed, wanted: str, number: int, board: Any, inputs: dict[str, Any]) -> bytes:
    import ray

    where = f"--on ray, node {ray.util.get_node_ip_address()}"
    return answered_there(
        where, packed, wanted, lambda key: ray.get(inputs[key]), lambda *news: board.put_nowait((number, *news))
    )
