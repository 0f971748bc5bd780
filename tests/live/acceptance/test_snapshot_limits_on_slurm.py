"""A snapshot of a real Slurm with accounting: limits of accounts and QOS, and heterogeneous jobs, are in the study."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from accounting import accounted_bed
from test_together_on_slurm import submit

from unrack.live.slurm.commands.client import CommandClient
from unrack.live.slurm.snapshot.scheduler import read_scheduler
from unrack.live.slurm.snapshot.snapshot import Snapshot, snapshot_of
from unrack.sim.simulate import simulate
from unrack.study.grid import load_study
from unrack.study.runner import simulated

pytestmark = pytest.mark.live
Taken = tuple[Snapshot, dict[str, int]]


@pytest.fixture(scope="module")
def taken() -> Iterator[Taken]:
    """A snapshot while jobs of one user run up to a limit of their QOS, and others wait for it."""
    with accounted_bed("unrack-limits-", nodes=8) as bed:
        for words in (
            ("add", "qos", "tight", "MaxTRESPU=cpu=8"), ("add", "account", "phys", "GrpTRES=cpu=24"),
            ("add", "user", "games", "account=phys", "qos=normal,tight", "defaultqos=normal"),
            ("add", "user", "daemon", "account=phys", "qos=normal,tight", "defaultqos=normal"),
        ):  # fmt: skip
            bed.call("sacctmgr", "-i", *words)
        time.sleep(2)
        mine = {"script": "sleep 50", "user": "games", "account": "phys", "qos": "tight", "mem": 100, "time": "1"}
        jobs = [bed.submit(cpus_per_task=4, **mine) for _ in range(4)]
        bed.wait_for(jobs[:2], "RUNNING")
        bed.wait_until(lambda: "MaxCpu" in bed.job(jobs[2])["Reason"], 20, "the limit holds it")
        both = submit(bed, "sleep 1", "-N1 -c2 -A phys --qos=normal", "-N2 -c1 -A phys --qos=normal", user="games")
        scheduler = read_scheduler(environment=bed.env)
        bed.scontrol("update", f"JobId={both[0]}", "StartTime=now+40")
        bed.scontrol("release", str(both[0]))
        reading = CommandClient(environment=bed.env).read()
        yield (snapshot_of(reading, scheduler), {"first": jobs[0], "third": jobs[2], "fourth": jobs[3], "het": both[0]})


def test_who_waits_for_a_limit_starts_when_those_before_end(taken: Taken) -> None:
    found, numbers = taken
    result = simulate(found.cluster, found.workload, "easy")
    starts = dict(zip(map(str, result.jobs["job"]), result.jobs["start_s"], strict=True))
    ends = dict(zip(map(str, result.jobs["job"]), result.jobs["end_s"], strict=True))
    over = sorted([ends[str(numbers["first"])], ends[str(numbers["first"] + 1)]])
    assert [starts[str(numbers["third"])], starts[str(numbers["fourth"])]] == pytest.approx(over)
    assert starts[str(numbers["het"])] == starts[str(numbers["het"] + 1)]
    assert not any("No limit of accounts" in note for note in found.notes)


def test_the_study_that_is_written_says_the_same(taken: Taken, tmp_path: Path) -> None:
    found, numbers = taken
    found.write(tmp_path / "now.toml")
    (run,) = load_study(tmp_path / "now.toml").runs
    result, starts = simulated(run), dict[str, float]()
    starts = dict(zip(map(str, result.jobs["job"]), result.jobs["start_s"], strict=True))
    assert starts[str(numbers["third"])] > 20
    assert starts[str(numbers["het"])] == starts[str(numbers["het"] + 1)]
    assert {"tight", "phys"} <= {*found.table["qos"], *found.table["account"]}
