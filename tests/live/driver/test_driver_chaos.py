"""Kills at any moment, and others who do as they please: nothing starts twice, nothing is lost, no device leaks."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_fabric import FakeFabric
from fake_slurm import PREEMPTS, FakeJob, FakeSlurm, HandClock, Killed, PlainTerms
from memory_journal import MemoryJournal
from strict_slurm import StrictSlurm

from unrack.errors import UnrackError
from unrack.live.driver.driver import Driver
from unrack.live.driver.seen import UnreachableError
from unrack.live.driver.state.kept import kept_of
from unrack.live.driver.state.replay import replay
from unrack.live.slurm.adapter.adapter import SlurmAdapter
from unrack.live.slurm.constraints import Partition
from unrack.live.slurm.orders import HoldBack, Order

NEVER_US = 10**15
POOL = [{"kind": "nvme", "count": 3, "quantities": {"capacity_mb": 300}}]


class Dangerous(FakeSlurm):
    """A Slurm whose driver may be killed before and after every order, and which checks what it starts."""

    danger: Any = None
    fabric: Any = None
    faults: list[str]
    forgets: Any = None

    def _obey(self, order: Order) -> str:
        self.danger("before an order")
        if isinstance(order, HoldBack):
            self.forgets()
        answer = super()._obey(order)
        self.danger("after an order")
        return answer

    def schedule(self) -> None:
        before = {number: len(job.starts) for number, job in self.jobs.items()}
        super().schedule()
        for number, job in self.jobs.items():
            if len(job.starts) > before[number] and job.comment.startswith("nvme="):
                has = {one.node for one in self.fabric.state() if one.job == str(number)}
                if has != set(job.held_on):
                    self.faults.append(f"job {number} started on {job.held_on} with devices on {has}")


class Strictly(Dangerous, StrictSlurm):
    """The same, with limits."""


class Story:
    """A fake Slurm, a driver that is killed now and then, and others."""

    made: type[Dangerous] = Dangerous

    def __init__(self, seed: int, policy: str, deadly: float, meddling: float, failing: float) -> None:
        self.random = np.random.default_rng(seed)
        self.deadly, self.meddling, self.failing = deadly, meddling, failing
        self.clock = HandClock()
        self.fabric = FakeFabric(self._fails)
        self.slurm = self.made(self.clock, nodes=4)
        self.slurm.danger, self.slurm.fabric, self.slurm.faults = self._danger, self.fabric, []
        self.slurm.forgets = self._forgets
        self.journal = MemoryJournal(self._danger)
        self.terms = PlainTerms(policy, POOL, start_timeout_s=3)
        self.kills = 0
        self.cancelled: set[int] = set()
        self.driver: Driver | None = None
        self.calm = False
        self.steps_since_crash, self.crashed_us = 9, 0
        self.crashes = False

    def _danger(self, where: str) -> None:
        if not self.calm and self.random.random() < self.deadly:
            raise Killed(where)

    def _fails(self, where: str) -> bool:
        return not self.calm and self.random.random() < self.failing

    def _forgets(self) -> None:
        """The last that the controller writes down may be what was before an order."""
        if not self.calm and self.random.random() < 0.5:
            self.slurm.save()
            self.crashes = True

    def crash(self) -> None:
        """The controller is killed, and starts nothing until the driver has looked, and acted."""
        self.crashes, self.steps_since_crash, self.crashed_us = False, 0, self.clock.at_us
        self.slurm.crash(NEVER_US)

    def step(self) -> None:
        try:
            if self.driver is None:
                kept = kept_of(self.journal.records())
                slurm = SlurmAdapter(self.slurm, self.terms)
                self.driver = Driver(slurm, self.fabric, self.journal, kept=kept, clock=self.clock)
            self.driver.step()
            self.steps_since_crash += 1
            if self.steps_since_crash >= 3 and self.clock.at_us > self.crashed_us + 1_500_000:
                self.slurm.comes_back_us = 0
            while not all(future.done() for future in self.driver.acting.attachments._working.values()):
                time.sleep(0.0002)
        except UnreachableError:
            pass
        except Killed:
            self.kills += 1
            assert self.driver is not None
            self.driver.acting.close()
            self.driver = None
        self.slurm.tick(int(self.random.integers(50_000, 700_000)))

    def meddle(self) -> None:
        """Somebody does something, as an operator, a user or a broken node would."""
        if self.crashes and self.random.random() < 0.3:
            self.crash()
        if self.random.random() < 0.3 and not self.crashes:
            self.slurm.save()
        if self.random.random() >= self.meddling:
            return
        live = [n for n, job in self.slurm.jobs.items() if job.state in ("PENDING", "RUNNING")]
        what = int(self.random.integers(12))
        self.slurm.stuck.clear()
        name = f"n{self.random.integers(1, 5)}"
        if what == 0:
            self.slurm.mark(name, "IDLE", "DRAIN")
        elif what == 1:
            self.slurm.mark(name, "IDLE")
        elif what == 2:
            self.slurm.mark(name, "DOWN")
            for number in [n for n, job in self.slurm.jobs.items() if name in job.held_on]:
                self.slurm.requeue(number, held=bool(self.random.integers(2)))
        elif what == 3:
            self.slurm.unreachable = int(self.random.integers(1, 4))
        elif what == 10:
            self.crash()
        elif what == 11:
            self.slurm.stuck = {job for job in live if job % 2}  # Slurm takes its time
        elif what == 4:
            other = self.slurm.submit(cores=2, run_s=3, partition="other", priority=5)
            self.slurm.jobs[other].reason = "None"
        elif live:
            number = live[int(self.random.integers(len(live)))]
            if what == 5 and self.random.random() < 0.3:
                self.slurm.end(number, "CANCELLED")
                self.cancelled |= {part.id for part in self.slurm.together(number)}
            elif what == 6:
                self.slurm.requeue(number, held=bool(self.random.integers(2)))
            elif what == 7 and self.slurm.jobs[number].partition == "ours":
                self.slurm.refuse[number] = 1
            elif what == 9 and self.random.random() < 0.5:
                self.replace(number)
            elif what == 8:
                self.slurm.jobs[number].limit_s = int(self.random.integers(5, 30))
                self.slurm.dirty = True

    def replace(self, number: int) -> None:
        """The controller is killed, has lost a job, and gives its number to the next."""
        lost, now_s = self.slurm.jobs[number], int(self.clock.wall_s)
        if lost.partition == "ours" and number not in self.cancelled and now_s > lost.submit_s:
            comment = f"nvme={int(self.random.integers(50, 300))}" * bool(self.random.integers(2))
            nodes = 1 if comment else int(self.random.integers(1, 4))
            self.slurm.jobs[number] = FakeJob(number, nodes, 2, 3.0, 10, comment=comment, submit_s=now_s)
            self.slurm.dirty = True

    def calm_down(self) -> None:
        """From now on nothing goes wrong, and what was wrong is mended."""
        self.calm, self.slurm.refuse, self.slurm.unreachable = True, {}, 0
        self.slurm.stuck.clear()
        for name in list(self.slurm.nodes):
            self.slurm.mark(name, "IDLE")

    def is_over(self) -> bool:
        """Whether nobody waits or runs, and nothing is attached."""
        waits = any(job.state in ("PENDING", "RUNNING") for job in self.slurm.jobs.values())
        return not waits and not self.fabric.attached


class StrictStory(Story):
    """A Slurm with arrays, limits that change, and reservations."""

    made = Strictly
    slurm: Strictly

    def meddle(self) -> None:
        super().meddle()
        what = int(self.random.integers(40))
        if what == 0:
            self.slurm.reserve(float(self.random.integers(-5, 10)), 15.0, f"n{self.random.integers(1, 5)}")
        elif what == 1:
            self.slurm.reservations, self.slurm.dirty = (), True
        elif what == 2:
            most = int(self.random.integers(1, 4))
            self.slurm.partitions["ours"] = Partition("ours", limit_s=10, nodes_max=most, said=str(most))
            self.slurm.dirty = True
        elif what == 3:
            self.slurm.throttles[max(self.slurm.throttles)], self.slurm.dirty = int(self.random.integers(4)), True
        elif what == 4:
            fault = str(self.random.choice(["QOSMaxJobsPerUserLimit", "Licenses", "BadConstraints"]))
            self.slurm.limit = lambda job: fault if job.id % 3 == 0 else ""
        elif what == 5:
            self.slurm.limit = lambda job: ""
        elif what in (6, 7):  # a job is changed before it starts, or gives a node back
            state = "PENDING" if what == 6 else "RUNNING"
            found = [job for job in self.slurm.jobs.values() if job.state == state and not job.het]
            for job in found[:: max(len(found) // 2, 1)]:
                if what == 6:
                    job.cores = int(self.random.integers(1, 5))
                elif len(job.held_on) > 1 and not job.comment:
                    job.held_on = job.held_on[:-1]
            self.slurm.dirty = True

    def replace(self, number: int) -> None:
        if number not in self.slurm.arrays and not self.slurm.jobs[number].het:
            super().replace(number)

    def calm_down(self) -> None:
        super().calm_down()
        self.slurm.reservations, self.slurm.dirty = (), True
        self.slurm.partitions["ours"], self.slurm.limit = Partition("ours", said="calm"), lambda job: ""


def audit(story: Story) -> None:
    """Look at what Slurm, the fabric and the journal say, and at nothing of the driver's own state."""
    assert story.slurm.faults == []
    for number, job in story.slurm.jobs.items():
        assert len(job.starts) <= 1 + job.restarts, f"job {number} started twice"
        if job.partition == "ours":
            assert job.state == "COMPLETED" or number in story.cancelled, f"job {number} is lost: {job}"
    assert story.fabric.attached == {}, "devices leak"
    assert max(story.fabric.peak_mb.values(), default=0) <= 300, "a device was held twice"
    records = story.journal.records()
    places: dict[str, list[list[str]]] = {}
    for record in records:
        for key, entry in (record.get("entries") or {}).items():
            if entry and entry.get("lease") and entry.get("ours"):
                places.setdefault(key, []).append(sorted({row[0] for row in entry["lease"]["rows"]}))
                for component, part in enumerate(entry["lease"].get("parts", ())):
                    places.setdefault(f"{key}+{component}", []).append(sorted({row[0] for row in part["rows"]}))
    for number, job in story.slurm.jobs.items():
        if job.partition == "ours":
            for _, nodes in job.starts:
                key = story.slurm.key(number) if isinstance(story.slurm, StrictSlurm) else str(number)
                key = f"{job.het}+{job.component}" if job.het else key
                assert sorted(nodes) in places.get(key, []), f"job {number} started where nobody decided"
    again = replay(records)
    assert again.differences == []


FEW, MANY = range(4), range(4, 70)


@pytest.mark.parametrize("policy", ["easy", "conservative", "disaggregation-aware", "preempts"])
@pytest.mark.parametrize("seed", [*FEW, *(pytest.param(seed, marks=pytest.mark.slow) for seed in MANY)])
def test_whatever_happens_every_job_runs_once_and_no_device_leaks(tmp_path: Path, seed: int, policy: str) -> None:
    if policy == "preempts":
        (tmp_path / "mine.py").write_text(PREEMPTS)
        policy = f"{tmp_path / 'mine.py'}:Preempts"
    story = Story(seed, policy, deadly=0.04, meddling=0.15, failing=0.15)
    for i in range(24):
        comment = f"nvme={int(story.random.integers(50, 300))}" if i % 3 == 0 else ""
        nodes = 1 if comment else int(story.random.integers(1, 4))
        story.slurm.submit(
            nodes, int(story.random.integers(1, 4)), float(story.random.integers(1, 6)), 10, comment=comment
        )
        if i % 4 == 3:
            for _ in range(4):
                story.step()
                story.meddle()
    for _ in range(60):
        story.step()
        story.meddle()
    story.calm_down()
    for _ in range(900):
        story.step()
        if story.is_over():
            break
    story.step()
    audit(story)
    assert story.kills > 0 or seed % 7


@pytest.mark.long
@pytest.mark.parametrize("policy", ["easy", "conservative"])
@pytest.mark.parametrize("seed", [*FEW, *(pytest.param(seed, marks=pytest.mark.slow) for seed in MANY)])
def test_whatever_slurm_forbids_meanwhile_every_job_runs_once_in_the_end(seed: int, policy: str) -> None:
    story = StrictStory(seed, policy, deadly=0.03, meddling=0.1, failing=0.1)
    for i in range(12):
        comment = f"nvme={int(story.random.integers(50, 300))}" * (i % 4 == 0)
        nodes = 1 if comment else int(story.random.integers(1, 4))
        story.slurm.submit(nodes, int(story.random.integers(1, 4)), float(story.random.integers(1, 6)), comment=comment)
        if i % 6 == 0:
            story.slurm.submit_array(8, i // 6 * 2, cores=2, run_s=2)
        story.step()
        story.meddle()
    for _ in range(120):
        story.step()
        story.meddle()
    story.calm_down()
    for _ in range(2500):
        story.step()
        if story.is_over():
            break
    story.step()
    audit(story)
    told = {entry.get("why", "") for one in story.journal.records() for entry in one["entries"].values() if entry}
    assert any("array may run" in why or "Slurm refuses" in why for why in told)


@pytest.mark.parametrize("broken", ["no recall", "no detach", "no memory"])
def test_the_auditor_finds_a_driver_that_is_broken(
    tmp_path: Path, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from unrack.live.driver.turns.ending import Ending

    if broken == "no recall":
        monkeypatch.setattr("test_driver_chaos.kept_of", lambda records: None)
    elif broken == "no detach":
        monkeypatch.setattr(Ending, "over", lambda self, entry, job: self.close(entry))
    else:
        monkeypatch.setattr(FakeFabric, "detach", lambda self, operation: None)

    def whatever_happens() -> None:
        for seed in FEW:
            test_whatever_happens_every_job_runs_once_and_no_device_leaks(tmp_path, seed, "easy")

    with pytest.raises((AssertionError, UnrackError)):
        whatever_happens()


@pytest.mark.long
@pytest.mark.parametrize("policy", ["easy", "conservative", "slurm"])
@pytest.mark.parametrize("seed", [*FEW, *(pytest.param(seed, marks=pytest.mark.slow) for seed in MANY)])
def test_whatever_happens_components_start_together(seed: int, policy: str) -> None:
    story = StrictStory(seed, policy, deadly=0.03, meddling=0.12, failing=0.1)
    firsts = []
    for i in range(12):
        comment = f"nvme={int(story.random.integers(50, 300))}" * (i % 4 == 0)
        parts = [
            {"nodes": int(story.random.integers(1, 3)), "cores": int(story.random.integers(1, 5))}
            for _ in range(story.random.integers(2, 4))
        ]
        if sum(part["nodes"] for part in parts) <= 4:
            parts[0] |= {"comment": comment, **({"nodes": 1} if comment else {})}
            firsts.append(story.slurm.submit_together(*parts, run_s=float(story.random.integers(1, 6))))
        story.slurm.submit(int(story.random.integers(1, 4)), int(story.random.integers(1, 4)), 2.0)
        if i % 6 == 0:
            story.slurm.submit_array(6, i // 6 * 2, cores=2, run_s=2)
        story.step()
        story.meddle()
    for _ in range(120):
        story.step()
        story.meddle()
    story.calm_down()
    for _ in range(2500):
        story.step()
        for first in firsts:  # what an operator is told to do of those of which a component is over
            states = {part.state: part.id for part in story.slurm.together(first)}
            if "PENDING" in states and len(states) > 1 and first in story.cancelled:
                story.slurm.end(states["PENDING"], "CANCELLED")
        if story.is_over():
            break
    story.step()
    audit(story)
    assert firsts
    for first in firsts:
        times = {tuple(at for at, _ in part.starts) for part in story.slurm.together(first)}
        assert len(times) == 1 or first in story.cancelled, f"job {first} started in parts"
