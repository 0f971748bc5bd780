"""Devices of jobs, attached and detached in the background: what is under way, what is done, what failed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

from unrack.live.driver.portable import Names
from unrack.live.driver.state.entry import Entry
from unrack.live.driver.state.stage import Decided
from unrack.live.fabric.contract import Attachment, Fabric, FabricError
from unrack.live.watch.meters import Operation

AT_ONCE = 8
"""How many jobs' devices are attached or detached at the same time."""
FIRST_RETRY_US, SLOWEST_RETRY_US = 200_000, 30_000_000


class AttachOutcome(NamedTuple):
    """What became of the devices of a job: which operation it was, how long it took, and why it failed or ``""``."""

    key: str
    operation: Operation
    seconds: float
    problem: str = ""


class Attachments:
    """Attaches and detaches the devices of jobs.

    What has to be attached is tried once; what has to be detached is tried until it is.

    Parameters
    ----------
    fabric
        The fabric manager.
    """

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric
        self._pool = ThreadPoolExecutor(AT_ONCE, "unrack-fabric")
        self._working: dict[str, Future[AttachOutcome]] = {}
        self._retry: dict[str, tuple[int, int]] = {}

    def attach(self, entry: Entry, wanted: list[Attachment]) -> None:
        """Begin to attach what a job holds, unless that is under way."""
        if entry.key not in self._working:
            self._begin(entry.key, Operation.ATTACH, [partial(self.fabric.attach, one) for one in wanted])

    def detach(self, entry: Entry, now: int) -> None:
        """Begin to detach what a job holds, unless something of it is under way or the next try is not due."""
        due, _ = self._retry.get(entry.key, (0, 0))
        if entry.key not in self._working and now >= due:
            self._begin(entry.key, Operation.DETACH, [partial(self.fabric.detach, one) for one in entry.operations])

    def _begin(self, key: str, operation: Operation, steps: Sequence[Callable[[], None]]) -> None:
        self._working[key] = self._pool.submit(_done, key, operation, steps)

    def done(self, now: int) -> list[AttachOutcome]:
        """What has come to an end since this was last asked, in order of the jobs' keys."""
        ended = sorted(key for key, future in self._working.items() if future.done())
        found = [self._working.pop(key).result() for key in ended]
        for outcome in found:
            if outcome.problem:
                _, before = self._retry.get(outcome.key, (0, 0))
                wait = min(max(2 * before, FIRST_RETRY_US), SLOWEST_RETRY_US)
                self._retry[outcome.key] = now + wait, wait
            else:
                self._retry.pop(outcome.key, None)
        return found

    @property
    def busy(self) -> bool:
        """True if something is under way or waits to be tried again."""
        return bool(self._working or self._retry)

    def close(self) -> None:
        """Wait for what is under way."""
        self._pool.shutdown(wait=True, cancel_futures=True)


def _done(key: str, operation: Operation, steps: Sequence[Callable[[], None]]) -> AttachOutcome:
    """Take the steps of an operation, up to the first that fails."""
    began = time.perf_counter()
    problem = ""
    try:
        for step in steps:
            step()
    except FabricError as error:
        problem = str(error)[:300] or "the fabric refused"
    return AttachOutcome(key, operation, time.perf_counter() - began, problem)


def attachments_of(entry: Entry, names: Names) -> list[Attachment]:
    """What has to be attached for a job, one operation a share of its lease.

    An operation is named after the job and the time of the decision, so that a later start is another operation.
    """
    assert isinstance(entry.stage, Decided)
    intent, devices = entry.stage.intent, names.cluster.devices
    found = []
    for number, (node, held, amounts, parts) in enumerate(intent.grant.lease.get("shares", ())):
        device = names.device_of[held[0]]
        pool, kind = devices.pools[devices.pool[device]], devices.kind[device]
        told = {} if pool.share == 1 else dict(zip(devices.quantities[kind], amounts, strict=True))
        if parts:
            told["parts"] = parts
        operation = f"{entry.key}.{intent.decided_us}.{number}"
        found.append(Attachment(operation, entry.key, node, tuple(held), told))
    return found
