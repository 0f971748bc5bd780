"""Operations of a fabric in threads: what is under way, what is done, what failed and when it is tried again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from unrack.errors import InputError
from unrack.live.fabric.contract import Attachment, Fabric, FabricError
from unrack.live.kubernetes.client.backoff import Backoff
from unrack.live.kubernetes.composer.wanted import WantedDevice
from unrack.live.watch.log import Events
from unrack.live.watch.meters import Meters, Operation

T = TypeVar("T")
THREADS = 64
"""Operations that are under way at most, whatever the switches allow."""


class Hands:
    """Attaches and detaches; used in one event loop.

    Parameters
    ----------
    fabric
        The fabric.
    meters, log
        What counts and says what is done.

    Attributes
    ----------
    attached
        Operations of ours that the fabric lists, wholly or in part done; ``None``: it has not answered yet.
    whole
        Those that were attached wholly since this process began.
    busy
        Those that are under way → their switch.
    why
        Why the last try of an operation failed.
    """

    def __init__(self, fabric: Fabric, meters: Meters, log: Events) -> None:
        self.fabric, self.meters, self.log = fabric, meters, log
        self.attached: dict[str, Attachment] | None = None
        self.whole, self.busy, self.why = set[str](), dict[str, str](), dict[str, str]()
        self._resting: dict[str, tuple[float, Backoff]] = {}
        self._touched = set[str]()
        self._threads = ThreadPoolExecutor(THREADS, "unrack-fabric")

    def resting(self, now_s: float) -> set[str]:
        """What failed, and is not to be tried again yet."""
        return {operation for operation, (until_s, _) in self._resting.items() if until_s > now_s}

    async def look(self, owner: str) -> bool:
        """Ask the fabric what it has of ours; False: it has not answered.

        Of operations that begin or end meanwhile its answer says nothing.
        """
        self._touched = set(self.busy)
        try:
            found = await self._in_thread(self.fabric.state)
        except (FabricError, InputError) as error:
            self.log.error("the fabric does not answer", why=str(error))
            return False
        there = {one.operation: one for one in found if one.operation.startswith(owner)}
        for operation in self._touched:
            there.pop(operation, None)
            if self.attached and operation in self.attached:
                there[operation] = self.attached[operation]
        self.attached = there
        self.whole &= there.keys()
        return True

    def forget(self, operations: set[str]) -> None:
        """Forget what failed, but of these operations."""
        for kept in (self.why, self._resting):
            for operation in [operation for operation in kept if operation not in operations]:
                del kept[operation]

    async def attach(self, one: WantedDevice) -> None:
        """Attach a device; :meth:`take` it first."""
        assert one.attachment is not None
        assert self.attached is not None
        self.attached[one.operation] = one.attachment  # in part maybe, whatever comes
        if await self._do(Operation.ATTACH, one.operation, partial(self.fabric.attach, one.attachment)):
            self.whole.add(one.operation)

    async def detach(self, operation: str) -> None:
        """Detach what an operation attached, wholly or in part; :meth:`take` it first."""
        assert self.attached is not None
        if await self._do(Operation.DETACH, operation, partial(self.fabric.detach, operation)):
            self.attached.pop(operation, None)

    def take(self, operation: str, switch: str) -> None:
        """From now on something is under way with an operation."""
        self.busy[operation] = switch
        self.whole.discard(operation)
        self._touched.add(operation)

    def close(self) -> None:
        """Wait for what is under way."""
        self._threads.shutdown()

    async def _do(self, what: Operation, operation: str, call: Callable[[], None]) -> bool:
        """Whether it was done."""
        began, problem = time.perf_counter(), ""
        try:
            await self._in_thread(call)
        except (FabricError, InputError) as error:
            problem = str(error) or "the fabric refused"
        finally:
            del self.busy[operation]
            self._touched.add(operation)
        seconds = time.perf_counter() - began
        self.meters.fabric(what, seconds, bool(problem))
        if not problem:
            self._resting.pop(operation, None)
            self.why.pop(operation, None)
            self.log.info(f"{what}ed", operation=operation, seconds=round(seconds, 3))
            return True
        loop = asyncio.get_running_loop()
        _, backoff = self._resting.get(operation, (0.0, Backoff()))
        wait_s = backoff.next_s()
        self._resting[operation], self.why[operation] = (loop.time() + wait_s, backoff), problem
        self.log.warning(f"{what} failed", operation=operation, why=problem, again_s=round(wait_s, 1))
        return False

    async def _in_thread(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)
