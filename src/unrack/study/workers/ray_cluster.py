"""Workers of a Ray cluster: one that runs already, or one that is started on this machine."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from unrack.study.workers.cluster import PATIENCE_S, OnCluster, Sent, answered_there, reached, stamp

QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DISABLE_IMPORT_WARNING": "1",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
}
"""Nothing is told to anybody but us."""


class RayWorkers(OnCluster):
    """Cores of a Ray cluster, each with a process that Ray keeps; the address is as ``ray.init`` takes it."""

    kind = library = "ray"
    wanted = "the address of a Ray cluster: auto, HOST:PORT or ray://HOST:PORT"
    ahead = 2

    def __init__(self, address: str, count: int) -> None:
        os.environ.update({**QUIET, **os.environ})
        super().__init__(address, count)

    def _connect(self, address: str, count: int) -> None:
        if address not in ("", "auto"):
            reached(address)
        logging.getLogger("ray._private.authentication").setLevel(logging.ERROR)  # it says that a token is made
        own = {} if address else {"num_cpus": count, "include_dashboard": False}
        quiet = {"log_to_driver": False, "logging_level": "CRITICAL", "configure_logging": False}
        self._stack.callback(self._library.shutdown)
        self._library.init(address=address or "local", **quiet, **own)
        from ray.util.queue import Queue

        self._board: Any = Queue(actor_options={"num_cpus": 0})  # of what workers tell
        self._work = self._library.remote(num_cpus=1, max_retries=0)(_on_worker)

    def _stamps(self) -> Iterator[tuple[str, str | None]]:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as Node

        ask = self._library.remote(num_cpus=0, max_retries=1)(lambda: stamp())
        for node in self._nodes():
            there, found = ask.options(scheduling_strategy=Node(node_id=node["NodeID"], soft=False)).remote(), None
            with suppress(self._library.exceptions.RayError):
                found = self._library.get(there, timeout=PATIENCE_S)
            yield f"node {node['NodeManagerHostname']}", found

    def _nodes(self) -> list[dict[str, Any]]:
        return [node for node in self._library.nodes() if node["Alive"]]

    def _members(self) -> list[tuple[int, int]]:
        there = [node["Resources"] for node in self._nodes() if node["Resources"].get("CPU")]
        return [(int(has["CPU"]), int(has.get("memory", 0) / has["CPU"])) for has in there]

    def _look(self) -> None:
        """Also pass on what workers told."""
        super()._look()
        for news in self._board.get_nowait_batch(self._board.qsize()):
            self._hear(*news)

    def _put(self, content: bytes) -> Any:
        """The store of objects has it, from where each node takes it once."""
        return self._library.put(content)

    def _hand(self, sent: Sent, inputs: dict[str, Any]) -> tuple[Any, Future[bytes]]:
        task = self._work.remote(sent, self._board, inputs)
        return task, task.future()

    def _is_lost(self, error: BaseException) -> bool:
        """True for all that Ray says but what the task itself raised: also a worker that was ended for its memory."""
        said = self._library.exceptions
        return isinstance(error, said.RayError) and not isinstance(error, said.RayTaskError)

    def _drop(self, tasks: list[Any]) -> None:
        """End the processes that work on them; Ray starts others."""
        for task in tasks:
            self._library.cancel(task, force=True)


# --- in the worker ----------------------------------------------------------------------------------------------------


def _on_worker(sent: Sent, board: Any, inputs: dict[str, Any]) -> bytes:
    import ray

    return answered_there(sent, lambda key: ray.get(inputs[key]), board.put_nowait)
