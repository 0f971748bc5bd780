"""What operators see of a driver at work: every meter that is documented counts; every wake file is looked at."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from fake_fabric import FakeFabric
from fake_slurm import FakeSlurm, HandClock, PlainTerms
from memory_journal import MemoryJournal

from unrack.live.driver.driver import Driver
from unrack.live.driver.service.service import Stop, waited
from unrack.live.slurm.adapter.adapter import SlurmAdapter
from unrack.live.wake import Wake
from unrack.live.watch.meters import Meters

pytest.importorskip("prometheus_client")
POOL = [{"kind": "nvme", "count": 2, "quantities": {"capacity_mb": 300}}]


class SlowFabric(FakeFabric):
    """One that takes its time."""

    def attach(self, wanted: Any) -> None:
        time.sleep(0.02)
        super().attach(wanted)

    def detach(self, operation: str) -> None:
        time.sleep(0.02)
        super().detach(operation)


def told(meters: Meters) -> dict[str, float]:
    """Name and labels of a number → the number."""
    lines = [line.rsplit(" ", 1) for line in meters.text().decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in lines}


def watched(policy: str, comments: list[str]) -> dict[str, float]:
    """What the meters say when jobs with these comments have had their time."""
    clock, meters = HandClock(), Meters(policy)
    slurm = FakeSlurm(clock)
    adapter = SlurmAdapter(slurm, PlainTerms(policy, POOL))
    driver = Driver(adapter, SlowFabric(), MemoryJournal(), meters=meters, clock=clock)
    driver.acting.settle()
    for comment in comments:
        slurm.submit(comment=comment, run_s=1)
    for _ in range(60):
        driver.step()
        while not all(future.done() for future in driver.acting.attachments._working.values()):
            time.sleep(0.001)
        slurm.tick(200_000)
    driver.acting.close()
    return told(meters)


def test_operations_of_the_fabric_are_counted_with_the_time_they_took() -> None:
    numbers = watched("easy", ["nvme=100", "nvme=100", ""])
    for operation in ("attach", "detach"):
        label = f'{{operation="{operation}"}}'
        assert numbers[f"unrack_fabric_seconds_count{label}"] == 2
        assert 0.04 <= numbers[f"unrack_fabric_seconds_sum{label}"] < 10
        assert numbers[f"unrack_fabric_failures_total{label}"] == 0
    assert numbers['unrack_fabric_seconds_count{operation="state"}'] == 1


def test_comments_that_cannot_be_understood_are_counted_once_each_and_other_problems_are_not() -> None:
    numbers = watched("easy", ["misread", "misread", "problem", ""])
    assert numbers["unrack_rejected_asks_total"] == 2


def test_a_fault_of_the_policy_is_counted(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "class Faulty:\n    def decide(self, view, memory, now):\n        raise ValueError('no')\n"
    )
    assert watched(f"{tmp_path / 'mine.py'}:Faulty", [""])["unrack_policy_faults_total"] == 1


@pytest.mark.parametrize("touched", [0, 1])
def test_a_touch_of_any_wake_file_ends_the_wait(tmp_path: Path, touched: int) -> None:
    paths = [tmp_path / "site", tmp_path / "fabric"]
    wakes = [Wake(path) for path in paths]
    threading.Timer(0.1, paths[touched].write_text, ("x",)).start()
    began = time.monotonic()
    assert waited(20, wakes, Stop())
    assert time.monotonic() - began < 10
    assert not waited(0.05, wakes, Stop())
