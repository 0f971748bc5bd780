"""Worlds in memory with a driver: over a fake Slurm, and over a plain orchestrator."""

from __future__ import annotations

import time
from typing import Any

from fake_fabric import FakeFabric
from fake_slurm import FakeSlurm, HandClock, PlainTerms
from memory_journal import MemoryJournal
from plain import Cluster, Plain

from unrack.live.driver.contract import Orchestrator
from unrack.live.driver.driver import Driver
from unrack.live.driver.state.kept import kept_of
from unrack.live.driver.state.stage import Phase
from unrack.live.slurm.adapter.adapter import SlurmAdapter

POOL = [{"kind": "nvme", "count": 2, "quantities": {"capacity_mb": 300}}]


class Driven:
    """A driver, its journal and its fabric; ``them``: whom it drives."""

    them: Any

    def __init__(self, clock: HandClock) -> None:
        self.clock, self.fabric, self.journal = clock, FakeFabric(), MemoryJournal()
        self.driver = self.make()

    def adapter(self) -> Orchestrator:
        raise NotImplementedError

    def make(self, **more: Any) -> Driver:
        kept = kept_of(self.journal.records())
        return Driver(self.adapter(), self.fabric, self.journal, kept=kept, clock=self.clock, **more)

    def settle(self) -> None:
        """Wait for what the fabric has under way."""
        while not all(future.done() for future in self.driver.acting.attachments._working.values()):
            time.sleep(0.0005)

    def go(self, steps: int = 1, us: int = 200_000) -> None:
        for _ in range(steps):
            self.driver.step()
            self.settle()
            self.them.tick(us)

    def waits_or_runs(self) -> bool:
        return any(job.state in ("PENDING", "RUNNING", "waits", "runs") for job in self.them.jobs.values())

    def until_done(self, steps: int = 400, us: int = 200_000) -> None:
        for _ in range(steps):
            if not self.waits_or_runs():
                break
            self.go(us=us)
        self.go(5)

    def phase(self, key: object) -> Phase | None:
        entry = self.driver.table.get(str(key))
        return None if entry is None else entry.phase

    def states(self) -> set[str]:
        return {job.state for job in self.them.jobs.values()}

    def starts(self) -> dict[Any, list[tuple[int, tuple[str, ...]]]]:
        return {key: job.starts for key, job in self.them.jobs.items()}


class World(Driven):
    """A fake Slurm and a driver."""

    made = FakeSlurm

    def __init__(self, policy: Any = "easy", pools: list[dict[str, Any]] | None = None, **more: Any) -> None:
        clock = HandClock()
        self.slurm = self.them = self.made(clock, **more)
        self.terms = PlainTerms(policy, pools)
        super().__init__(clock)

    def adapter(self) -> Orchestrator:
        return SlurmAdapter(self.slurm, self.terms)


class PlainWorld(Driven):
    """A plain orchestrator and a driver."""

    def __init__(
        self, policy: Any = "easy", pools: list[dict[str, Any]] | None = None, timeout_s: int = 10, tells: bool = False,
        **more: Any,
    ) -> None:  # fmt: skip
        clock = HandClock()
        self.them = Cluster(clock, **more)
        self.options = policy, pools, timeout_s, tells
        super().__init__(clock)

    def adapter(self) -> Orchestrator:
        return Plain(self.them, *self.options)
