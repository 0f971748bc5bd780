"""A fabric in memory: what is attached, whether anything was attached twice; it may fail, and may kill."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

from unrack.live.fabric.contract import Attachment, FabricError


class FakeFabric:
    """What is attached, by operation."""

    def __init__(self, fails: Callable[[str], bool] = lambda _: False) -> None:
        self.attached: dict[str, Attachment] = {}
        self.fails = fails
        self.lock = Lock()
        self.peak_mb: dict[str, int] = {}

    def attach(self, wanted: Attachment) -> None:
        with self.lock:
            if self.fails("before"):
                raise FabricError("no link")
            known = self.attached.get(wanted.operation)
            assert known is None or known == wanted, "the same operation attaches something else"
            self.attached[wanted.operation] = wanted
            for device in wanted.devices:
                on_it = [one for one in self.attached.values() if device in one.devices]
                held = sum(one.amounts.get("capacity_mb", 0) // len(one.devices) for one in on_it)
                self.peak_mb[device] = max(self.peak_mb.get(device, 0), held)
            if self.fails("after"):
                raise FabricError("half attached")

    def detach(self, operation: str) -> None:
        with self.lock:
            if self.fails("detach"):
                raise FabricError("cannot detach")
            self.attached.pop(operation, None)

    def state(self) -> list[Attachment]:
        with self.lock:
            return [self.attached[key] for key in sorted(self.attached)]
