"""A driver that lives through jobs of its own and through what others do; and the past that its journal tells."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
from fake_fabric import FakeFabric
from fake_slurm import FakeSlurm, HandClock, PlainTerms
from strict_slurm import StrictSlurm

from unrack.live.driver.driver import Driver
from unrack.live.driver.history.past import Past, past_of
from unrack.live.driver.state.kept import kept_of
from unrack.live.journal.journal import Journal
from unrack.live.journal.reading import read_journal
from unrack.live.slurm.adapter.adapter import SlurmAdapter

MEDDLING = ("foreign", "cancel", "drain", "stuck", "requeue", "limit", "restart")


class Eventful:
    """A Slurm in memory, a driver whose journal is on disk, and somebody who meddles."""

    def __init__(self, state: Path, policy: Any = "easy", nodes: int = 4, slurm: type[FakeSlurm] = FakeSlurm) -> None:
        (state / "journal").mkdir(parents=True)
        self.state, self.clock = state, HandClock()
        self.slurm, self.fabric, self.terms = slurm(self.clock, nodes=nodes), FakeFabric(), PlainTerms(policy)
        self.driver = self.begin()

    def begin(self) -> Driver:
        self.journal = Journal.open(self.state / "journal", keep=1000)
        began = self.journal.next_number > 1
        kept = kept_of([record.value for record in read_journal(self.state / "journal")]) if began else None
        return Driver(SlurmAdapter(self.slurm, self.terms), self.fabric, self.journal, kept=kept, clock=self.clock)

    def stop(self) -> None:
        self.driver.acting.close()
        self.journal.close()

    def go(self, steps: int = 1) -> None:
        for _ in range(steps):
            self.driver.step()
            self.slurm.tick(200_000)

    def restart(self, away_s: float) -> None:
        """The driver is away for a time."""
        self.stop()
        for _ in range(round(away_s / 0.2)):
            self.slurm.tick(200_000)
        self.driver = self.begin()

    def until_done(self, steps: int = 1500) -> Past:
        for _ in range(steps):
            if not any(job.state in ("PENDING", "RUNNING") for job in self.slurm.jobs.values()):
                break
            self.go()
        self.go(5)
        self.stop()
        return past_of(self.state)


def reserved(state: Path, policy: str = "easy") -> Eventful:
    """A world of jobs of two seconds, of which two are of a reservation of two of the four nodes for eight seconds."""
    world = Eventful(state, policy, slurm=StrictSlurm)
    slurm = world.slurm
    assert isinstance(slurm, StrictSlurm)
    slurm.reserve(3, 8, "n1", "n2", Users="ann", Flags="SPEC_NODES")
    draw = np.random.default_rng(7)
    for i in range(24):
        own = {"reservation": "r0", "user": "ann"} if i in (2, 3) else {}
        slurm.submit(1, int(draw.integers(1, 5)), int(draw.integers(1, 4)), 4, **own)
        world.go(int(draw.integers(0, 4)))
    return world


def meddled(state: Path, policy: str, seed: int, kinds: Collection[str], jobs: int = 25) -> Past:
    """Jobs come one after the other while somebody does things of these kinds, at times drawn by the seed."""
    random = np.random.default_rng(seed)
    world = Eventful(state, policy)
    slurm = world.slurm
    out: list[str] = []
    for i in range(jobs):
        slurm.submit(int(random.integers(1, 4)), int(random.integers(1, 5)), int(random.integers(1, 6)), 9)
        world.go(int(random.integers(0, 4)))
        kind = str(random.choice(sorted(kinds))) if kinds and i % 3 == 2 else ""
        running = [job.id for job in slurm.jobs.values() if job.state == "RUNNING" and job.partition == "ours"]
        waiting = [job.id for job in slurm.jobs.values() if job.state == "PENDING" and not job.priority]
        if kind == "foreign":
            slurm.submit(1, int(random.integers(1, 4)), 4, 9, partition="other", priority=5)
            slurm.schedule()
        elif kind == "cancel" and waiting:
            slurm.end(int(random.choice(waiting)), "CANCELLED")
        elif kind == "drain":
            for name in out:
                slurm.mark(name, "IDLE")
            out = [] if out else [str(random.choice(sorted(slurm.nodes)))]
            for name in out:
                slurm.mark(name, "IDLE", "DRAIN")
        elif kind == "stuck" and waiting:
            slurm.refuse[int(random.choice(waiting))] = 1
        elif kind == "requeue" and running:
            slurm.requeue(int(random.choice(running)), held=True)
        elif kind == "limit" and running:
            slurm.jobs[int(random.choice(running))].limit_s = 30
            slurm.dirty = True
        elif kind == "restart":
            world.restart(1.4)
    for name in out:
        slurm.mark(name, "IDLE")
    return world.until_done()
