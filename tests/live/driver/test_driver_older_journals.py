"""Journals of drivers whose jobs had thirty fields each are read, played again and gone on from.

Each file has how a fake Slurm stood at the end, and then the records of a driver that had been killed, on Slurm and a
fabric that failed now and then, up to that moment.
"""

from __future__ import annotations

import gzip
import json
import time
from pathlib import Path
from typing import Any

import pytest
from fake_fabric import FakeFabric
from fake_slurm import PREEMPTS, FakeJob, FakeSlurm, HandClock, PlainTerms
from memory_journal import MemoryJournal

from unrack.live.driver.driver import Driver
from unrack.live.driver.state.entry import Entry
from unrack.live.driver.state.kept import kept_of
from unrack.live.driver.state.replay import replay
from unrack.live.driver.state.stage import Phase
from unrack.live.fabric.contract import Attachment
from unrack.live.slurm.adapter.adapter import SlurmAdapter
from unrack.live.slurm.adapter.asked import placing_of

JOURNALS = sorted((Path(__file__).parent / "journals").glob("*.jsonl.gz"))
LEFT_OVER = {"decided_us", "released_us", "started_us", "ended_us", "freed_us", "short", "why"}
"""What older records kept of a start that had not come about, or of one that was over."""
POOL = [{"kind": "nvme", "count": 3, "quantities": {"capacity_mb": 300}}]


@pytest.fixture(params=JOURNALS, ids=lambda path: path.name.partition(".")[0])
def story(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """How Slurm stood, and the records; the policy of the journal is a file of the present folder."""
    (tmp_path / "mine.py").write_text(PREEMPTS)
    monkeypatch.chdir(tmp_path)
    return [json.loads(line) for line in gzip.decompress(request.param.read_bytes()).splitlines()]


def test_it_gives_the_same_decisions(story: list[dict[str, Any]]) -> None:
    again = replay(story[1:])
    assert again.differences == []
    assert again.decisions > 5


def test_each_job_in_it_is_read_as_it_was_but_for_what_was_left_over(story: list[dict[str, Any]]) -> None:
    for record in story[1:]:
        for was in filter(None, record["entries"].values()):
            entry = Entry.of_record(was, placing_of)
            found = json.loads(json.dumps(entry.record()))
            assert found.items() <= was.items()
            assert was.keys() - found.keys() <= LEFT_OVER
            assert Entry.of_record(found, placing_of) == entry


def test_a_driver_goes_on_from_it_until_every_job_has_run_once(story: list[dict[str, Any]]) -> None:
    stood, clock = story[0], HandClock()
    clock.at_us = stood["at_us"]
    slurm, fabric, journal = FakeSlurm(clock), FakeFabric(), MemoryJournal()
    for job in stood["jobs"]:
        of_tuples = {name: tuple(job[name]) for name in ("required", "held_on")}
        slurm.jobs[job["id"]] = FakeJob(**{**job, **of_tuples})
    for one in stood["attached"]:
        fabric.attached[one["operation"]] = Attachment(**{**one, "devices": tuple(one["devices"])})
    adapter = SlurmAdapter(slurm, PlainTerms("easy", POOL, 3))
    driver = Driver(adapter, fabric, journal, kept=kept_of(story[1:]), clock=clock)
    for _ in range(600):
        driver.step()
        while not all(future.done() for future in driver.acting.attachments._working.values()):
            time.sleep(0.0002)
        slurm.tick(300_000)
        if not fabric.attached and all(job.state not in ("PENDING", "RUNNING") for job in slurm.jobs.values()):
            break
    assert fabric.attached == {}
    for number, job in slurm.jobs.items():
        assert len(job.starts) <= 1 + job.restarts
        assert job.partition != "ours" or job.state == "COMPLETED" or number in stood["cancelled"], job
    assert replay(journal.records()).differences == []


def test_together_they_have_jobs_in_every_phase() -> None:
    found = set()
    for path in JOURNALS:
        for line in gzip.decompress(path.read_bytes()).splitlines()[1:]:
            found |= {entry["phase"] for entry in json.loads(line)["entries"].values() if entry}
    assert found == set(Phase)
