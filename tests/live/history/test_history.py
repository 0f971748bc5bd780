"""What really happened, from the journal of a driver over a Slurm in memory."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from fake_fabric import FakeFabric
from fake_slurm import FakeSlurm, HandClock, PlainTerms

from unrack.errors import InputError
from unrack.live.driver.driver import Driver
from unrack.live.driver.history.order import compare
from unrack.live.driver.history.past import past_of
from unrack.live.driver.history.study import keep_past
from unrack.live.driver.service.life import life_of
from unrack.live.driver.service.status import status_of
from unrack.live.journal.journal import Journal
from unrack.live.slurm.adapter.adapter import SlurmAdapter
from unrack.report.page import write_report

POOL = [{"kind": "nvme", "count": 2, "quantities": {"capacity_mb": 300}}]


class Kept:
    """A journal on disk, in the layout of a state folder."""

    def __init__(self, state: Path) -> None:
        (state / "journal").mkdir(parents=True)
        self.journal = Journal.open(state / "journal", keep=1000)

    segment_bytes = size_bytes = 0

    def append(self, records: Sequence[Mapping[str, Any]]) -> None:
        self.journal.append(records)

    def rotate(self, snapshot: Mapping[str, Any]) -> None:
        self.journal.rotate(snapshot)


def lived(state: Path, policy: str, jobs: int, meddle: bool = False) -> FakeSlurm:
    """A driver lives through some jobs."""
    clock = HandClock()
    slurm, journal = FakeSlurm(clock), Kept(state)
    driver = Driver(SlurmAdapter(slurm, PlainTerms(policy, POOL)), FakeFabric(), journal, clock=clock)
    for i in range(jobs):
        drive = "nvme=150" if i % 5 == 0 else ""
        slurm.submit(1 if drive else 1 + i % 3, 1 + i % 4, 1 + i % 5, 9, comment=drive)
    for step in range(600):
        driver.step()
        driver.acting.attachments._pool.submit(lambda: None).result()
        if meddle and step == 6:
            slurm.submit(cores=3, run_s=4, partition="other", priority=5)
        slurm.tick(200_000)
        if all(job.state == "COMPLETED" for job in slurm.jobs.values()) and not len(driver.table):
            break
    driver.acting.close()
    journal.journal.close()
    return slurm


@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative", "list(backfill=any)", "disaggregation-aware"])
def test_a_simulation_with_the_times_that_were_starts_the_jobs_in_the_same_order(tmp_path: Path, policy: str) -> None:
    lived(tmp_path, policy, 24)
    found = compare(past_of(tmp_path))
    assert found.jobs == 24
    assert found.pairs > 50
    assert found.different == [], found.different[:3]


@pytest.mark.long
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative"])
def test_a_site_is_simulated_with_what_its_jobs_said_of_their_nodes(tmp_path: Path, policy: str, seed: int) -> None:
    draw = random.Random(seed)
    clock = HandClock()
    slurm, journal, terms = FakeSlurm(clock), Kept(tmp_path), PlainTerms(policy)
    terms.partitions = frozenset({"ours", "left"})
    for name in ("n3", "n4"):
        both = frozenset({"ours", "left"})
        slurm.nodes[name] = replace(slurm.nodes[name], partitions=both, features=("ib",))
    driver = Driver(SlurmAdapter(slurm, terms), FakeFabric(), journal, clock=clock)
    for i in range(24):
        asked: dict[str, Any] = {"partition": draw.choice(["ours", "left", "ours,left"])}
        asked["features"] = "ib" if i % 5 == 2 else ""
        asked["excluded"] = (draw.choice(["n1", "n2"]),) if draw.random() < 0.3 else ()
        slurm.submit(draw.randint(1, 2), draw.randint(1, 4), draw.randint(1, 5), 9, **asked)
    for _ in range(600):
        driver.step()
        slurm.tick(200_000)
    driver.acting.close()
    journal.journal.close()
    assert {job.state for job in slurm.jobs.values()} == {"COMPLETED"}
    found = compare(past_of(tmp_path))
    assert (found.jobs, found.different) == (24, [])
    study = keep_past(past_of(tmp_path), tmp_path / "out", ["fcfs"])
    for run in study.runs[1:]:
        placed = pl.read_parquet(tmp_path / "out" / "runs" / run.id / "placements.parquet")
        ours = placed.filter(
            pl.col("job").cast(pl.Int64).is_in([job.id for job in slurm.jobs.values() if job.features])
        )
        assert ours.height > 0
        assert (ours["first_node"] >= 2).all()


def test_a_job_of_others_is_the_cause_of_another_order(tmp_path: Path) -> None:
    lived(tmp_path, "easy", 24, meddle=True)
    found = compare(past_of(tmp_path))
    assert set(found.causes) <= {"jobs of others held nodes meanwhile"}
    assert any("jobs of others" in note for note in found.notes)


def test_a_past_becomes_a_study_with_a_live_run_and_simulated_ones(tmp_path: Path) -> None:
    slurm = lived(tmp_path / "state", "easy", 15)
    study = keep_past(past_of(tmp_path / "state"), tmp_path / "out", ["fcfs"])
    assert [run.policy.label for run in study.runs] == ["live: easy", "simulated: easy", "simulated: fcfs"]
    live = pl.read_parquet(tmp_path / "out" / "runs" / study.runs[0].id / "jobs.parquet")
    assert live.height == 15
    shares = pl.read_parquet(tmp_path / "out" / "runs" / study.runs[0].id / "shares.parquet")
    assert shares["composition"].n_unique() == shares.height == 3  # of every fifth job a drive
    ran = dict(zip(live["job"].to_list(), live["run_s"].to_list(), strict=True))
    for number, job in slurm.jobs.items():
        assert job.run_s <= ran[str(number)] <= job.run_s + 1.5
    assert live["to_started_s"].min() >= 0
    page = write_report(tmp_path / "out").read_text()
    assert "live: easy" in page
    assert "released to seen to run" in page
    study = keep_past(past_of(tmp_path / "state"), tmp_path / "again")
    simulated = tmp_path / "again" / "runs" / study.runs[1].id / "jobs.parquet"
    assert pl.read_parquet(simulated).height == 15


def test_status_and_life_are_told_from_the_journal_alone(tmp_path: Path) -> None:
    lived(tmp_path, "easy", 6)
    status = status_of(tmp_path)
    assert (status.owner, status.policy, status.entries, status.decisions >= 5) == (None, "easy", [], True)
    life = life_of(tmp_path, "2")
    assert [one.phase for one in life.moments][-2:] == ["running", "over"]
    assert life.moments[-1].why == "COMPLETED"
    with pytest.raises(InputError, match="job"):
        life_of(tmp_path, "77")


def test_a_past_without_an_ended_job_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        past_of(tmp_path)
