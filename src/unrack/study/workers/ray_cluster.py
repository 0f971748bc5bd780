"""Workers of a Ray cluster: one that runs already, or one that is started on this machine."""

from __future__ import annotations

import logging
import os
import pickle
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from unrack.errors import InputError, RunError
from unrack.study.workers.address import Stamp, check_stamp, reached, stamp
from unrack.study.workers.contract import Compiling, Done, Lost, Report, Running, Task
from unrack.study.workers.shared import Packed, Packer
from unrack.study.workers.work import answered_here

AHEAD = 2
"""Tasks a core that are open at once: the next is there when one ends."""
PATIENCE_S = 60.0
"""How long a cluster may be without any core."""
ASK_EVERY_S = 0.25
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DISABLE_IMPORT_WARNING": "1",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
}
"""Nothing is told to anybody but us."""


class RayWorkers:
    """Cores of a Ray cluster, each with a process that Ray keeps.

    Parameters
    ----------
    address
        As ``ray.init`` takes it: ``auto``, ``HOST:PORT`` or ``ray://HOST:PORT``; none: a cluster is started here.
    count
        Of how many processes.

    Attributes
    ----------
    sent
        How many inputs were put into the store of objects, from where each node takes them once.

    Raises
    ------
    InputError
        Ray is not installed, nobody answers at the address, or a node has another version.
    """

    remote = True

    def __init__(self, address: str, count: int) -> None:
        for key, value in QUIET.items():
            os.environ.setdefault(key, value)
        try:
            import ray
        except ImportError:
            raise InputError("--on ray", "no package 'ray'", "pip install 'unrack[ray]'") from None
        self.name = f"ray {address}" if address else "ray"
        self.sent = 0
        self._ray: Any = ray
        self._open: dict[Any, int] = {}
        self._inputs: dict[str, Any] = {}
        self._packer = Packer()
        self._looked = self._asked = 0.0
        self._seen = time.monotonic()
        self._news: Any = None
        try:
            self._connect(address, count)
            self._check_nodes()
            self._board: Any = ray.remote(num_cpus=0)(_Board).remote()
            self._work = ray.remote(num_cpus=1, max_retries=0)(_on_worker)
        except BaseException:
            self.close()
            raise

    def _connect(self, address: str, count: int) -> None:
        quiet = {"log_to_driver": False, "logging_level": "CRITICAL", "configure_logging": False}
        wanted = "the address of a Ray cluster: auto, HOST:PORT or ray://HOST:PORT"
        if address not in ("", "auto"):
            reached(f"--on {self.name}", address, wanted)
        try:
            if address:
                self._ray.init(address=address, **quiet)
            else:
                logging.getLogger("ray._private.authentication").setLevel(
                    logging.ERROR
                )  # it says that it makes a token
                self._ray.init(address="local", num_cpus=count, include_dashboard=False, **quiet)
        except (ConnectionError, ValueError, RuntimeError, ImportError) as error:
            said = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise InputError(f"--on {self.name}", said, wanted) from None

    def _check_nodes(self) -> None:
        """Refuse nodes of another version, in a process of their own."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as Node

        wanted, ask = stamp(), self._ray.remote(num_cpus=0, max_retries=1)(_stamp_there)
        for node in self._nodes():
            there = ask.options(scheduling_strategy=Node(node_id=node["NodeID"], soft=False)).remote()
            found: Stamp | None
            try:
                found = self._ray.get(there, timeout=PATIENCE_S)
            except self._ray.exceptions.RayError:
                found = None
            check_stamp(f"--on {self.name}, node {node['NodeManagerHostname']}", found, wanted)
        self._look()

    def _nodes(self) -> list[dict[str, Any]]:
        return [node for node in self._ray.nodes() if node["Alive"]]

    def _look(self) -> None:
        found = [node["Resources"] for node in self._nodes()]
        cores = [int(resources.get("CPU", 0)) for resources in found]
        shares = [resources.get("memory", 0) / own for resources, own in zip(found, cores, strict=True) if own]
        self.count = max(1, sum(cores))
        self.memory_mb = int(min(shares)) // 2**20 if shares and all(shares) else None
        self._looked = now = time.monotonic()
        if any(cores):
            self._seen = now
        elif now - self._seen > PATIENCE_S:
            raise RunError(f"{self.name}: no core is left, for {PATIENCE_S:.0f} s; finished runs are kept")

    def room(self) -> int:
        """Two tasks a core, less those that are open."""
        return AHEAD * self.count - len(self._open)

    def submit(self, task: Task) -> None:
        """Hand a task to Ray; inputs that its store does not have yet are put there."""
        packed = self._packer.pack(task)
        for key in [key for key in self._inputs if key not in self._packer.contents]:
            del self._inputs[key]
        for key in packed.keys:
            if key not in self._inputs:
                self._inputs[key] = self._ray.put(self._packer.contents[key])
                self.sent += 1
        inputs = {key: self._inputs[key] for key in packed.keys}
        self._open[self._work.remote(packed, stamp(), task.number, self._board, inputs)] = task.number

    def listen(self, timeout_s: float, hear: Callable[[Report], None]) -> None:
        """Pass on what the workers said, and what has ended."""
        now = time.monotonic()
        if now - self._looked > 2.0:
            self._look()
        ended, _ = self._ray.wait(list(self._open), num_returns=1, timeout=timeout_s, fetch_local=False)
        if ended and len(self._open) > 1:
            ended, _ = self._ray.wait(list(self._open), num_returns=len(self._open), timeout=0, fetch_local=False)
        self._hear_news(hear)
        for future in ended:
            number = self._open.pop(future)
            try:
                answers = self._ray.get(future)
            except self._ray.exceptions.RayTaskError as error:
                raise RunError(f"{self.name}: {error.cause or error}") from None
            except self._ray.exceptions.RayError:  # its worker or node is gone, or was ended for its memory
                hear(Lost(number))
            else:
                hear(Done(number, pickle.loads(answers)))

    def _hear_news(self, hear: Callable[[Report], None]) -> None:
        """Ask for news now and then; they are passed on when they are here."""
        if self._news is not None and self._ray.wait([self._news], timeout=0)[0]:
            for number, *rest in self._ray.get(self._news):
                hear(Running(number, *rest) if rest else Compiling())
            self._news = None
        if self._news is None and time.monotonic() - self._asked >= ASK_EVERY_S:
            self._asked = time.monotonic()
            self._news = self._board.taken.remote()

    def cancel(self) -> None:
        """End the processes that work on our tasks; Ray starts others."""
        for future in self._open:
            self._ray.cancel(future, force=True)
        self._open.clear()

    def close(self) -> None:
        """Cancel our tasks and leave; end the cluster if it was started here."""
        with suppress(Exception):  # the cluster may be gone
            self.cancel()
        self._inputs.clear()
        with suppress(Exception):
            self._ray.shutdown()


class _Board:
    """An actor that keeps what workers tell until it is asked for."""

    def __init__(self) -> None:
        self._news: list[tuple[int, ...]] = []

    def tell(self, *news: int) -> None:
        self._news.append(news)

    def taken(self) -> list[tuple[int, ...]]:
        news, self._news = self._news, []
        return news


# --- in the worker ----------------------------------------------------------------------------------------------------


def _stamp_there() -> Stamp:
    return stamp()


def _on_worker(packed: Packed, wanted: Stamp, number: int, board: Any, inputs: dict[str, Any]) -> bytes:
    import ray

    where = f"--on ray, node {ray.util.get_node_ip_address()}"

    def fetch(key: str) -> bytes:
        content: bytes = ray.get(inputs[key])
        return content

    def tell(place: int, done: int) -> None:
        board.tell.remote(number, place, done)

    return answered_here(where, packed, wanted, fetch, tell, lambda: board.tell.remote(number))
