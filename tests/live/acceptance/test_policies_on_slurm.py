from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from driven_bed import POOL, Driven, audit
from fake_slurm import PREEMPTS
from slurm_bed import Bed

from unrack.live.driver.history.order import compare
from unrack.live.driver.history.past import past_of

pytestmark = pytest.mark.live
LENT = 'lending = "all"'


def jobs_of(count: int, seed: int, comment: Callable[[int, Any], str] = lambda i, random: "") -> list[dict[str, Any]]:
    """Jobs of a few seconds, of one to four nodes."""
    random = np.random.default_rng(seed)
    found = []
    for i in range(count):
        said = comment(i, random)
        found.append({
            "script": f"sleep {random.integers(1, 4)}", "nodes": 1 if said else int(random.choice([1, 1, 1, 2, 4])),
            "cpus_per_task": int(random.choice([1, 2, 4, 8])), "mem": int(random.choice([100, 4000, 16_000])),
            **({"comment": said} if said else {}),
        })  # fmt: skip
    return found


def drives(i: int, random: Any) -> str:
    return f"unrack: nvme.capacity={random.integers(50, 500)}GB nvme.bandwidth={random.integers(200, 1500)}MB/s" * (
        i % 3 == 0
    )


def more_memory(i: int, random: Any) -> str:
    return f"unrack: memory={random.integers(20, 50)}GB" * (i % 4 == 0)


@pytest.fixture
def driven(new_bed: Callable[..., Bed], tmp_path: Path) -> Iterator[Callable[..., Driven]]:
    made: list[Driven] = []

    def make(policy: str, nodes: int = 16, bed_options: dict[str, Any] | None = None, **more: str) -> Driven:
        bed = new_bed(nodes=nodes, scheduler="backfill", remember_s=3000, **(bed_options or {}))
        made.append(Driven(bed, tmp_path, policy, **more))
        made[-1].start()
        return made[-1]

    yield make
    for one in made:
        if one.process is not None and one.process.poll() is None:
            one.stop(signal.SIGKILL)


@pytest.mark.parametrize(
    ("policy", "cluster", "comment"),
    [
        ("easy", "", None),
        ("conservative", "", None),
        ("disaggregation-aware", POOL, drives),
        ("disaggregated", LENT, more_memory),
    ],
    ids=["easy", "conservative", "drives", "lent-memory"],
)
def test_three_hundred_jobs_run_where_they_are_planned(
    driven: Callable[..., Driven], policy: str, cluster: str, comment: Any
) -> None:
    one = driven(policy, cluster=cluster)
    asked = jobs_of(300, 1) if comment is None else jobs_of(300, 1, comment)
    jobs = one.run_all(asked, 400)
    one.wait_until(lambda: "no jobs" in one.command("slurm", "status", "--state", str(one.state)))
    assert one.stop() == 0
    audit(one, jobs)
    order = compare(past_of(one.state))
    assert order.jobs == 300
    assert "not explained" not in order.causes, order.causes


@pytest.mark.parametrize("policy", ["flow(interval=2 s)", "slurm(interval=2 s)"])
def test_a_policy_that_decides_at_intervals_is_asked_at_them(driven: Callable[..., Driven], policy: str) -> None:
    one = driven(policy)
    jobs = one.run_all(jobs_of(60, 4), 200)
    one.wait_until(lambda: "no jobs" in one.command("slurm", "status", "--state", str(one.state)))
    assert one.stop() == 0
    audit(one, jobs)
    order = compare(past_of(one.state))
    assert (order.jobs, order.differing, order.elsewhere) == (60, 0, 0)
    assert order.shift_s < 0.001


@pytest.mark.live_quick
def test_a_few_jobs_with_drives_are_scheduled_and_told_of(driven: Callable[..., Driven]) -> None:
    one = driven("easy", nodes=4, cluster=POOL, fabric='kind = "files"\nfolder = "FABRIC"')
    jobs = one.run_all(jobs_of(12, 2, drives), 90)
    assert "not to be started" in one.command("slurm", "run", "--config", str(one.site), "--dry-run")
    assert "running: process" in one.command("slurm", "status", "--config", str(one.site))
    assert "COMPLETED" in one.command("explain", "--live", str(jobs[0]), "--state", str(one.state))
    assert one.stop() == 0
    assert "all the same" in one.command("slurm", "replay", str(one.state))
    assert "same order" in one.command("slurm", "compare", str(one.state))
    page = one.command("slurm", "report", str(one.state), "--out", str(one.folder / "page"), "--policy", "fcfs")
    assert Path(page.strip()).stat().st_size > 10_000
    audit(one, jobs)


def test_a_job_that_the_policy_stops_gives_its_drive_to_another_and_runs_again(
    driven: Callable[..., Driven], tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(PREEMPTS)
    one_drive = POOL.replace("count = 6", "count = 1")
    files = 'kind = "files"\nfolder = "FABRIC"'
    one = driven(f"{tmp_path / 'mine.py'}:Preempts", nodes=2, cluster=one_drive, fabric=files)
    asked = {"hold": True, "partition": "main", "time": "1", "comment": "unrack: nvme.capacity=400GB"}
    first = one.bed.submit("sleep 8", **asked)
    one.bed.wait_for([first], "RUNNING")
    second = one.bed.submit("sleep 1", **asked)
    one.wait_until(lambda: one.all_over([first, second]), 90)
    one.wait_until(lambda: "no jobs" in one.command("slurm", "status", "--state", str(one.state)))
    assert one.stop() == 0
    known = {int(job["JobId"]): job for job in one.bed.jobs()}
    assert (int(known[first]["Restarts"]), int(known[second]["Restarts"])) == (1, 0)
    assert known[second]["StartTime"] < known[first]["StartTime"]
    audit(one, [first, second])
    assert "stopped by the policy" in one.command("explain", "--live", str(first), "--state", str(one.state))


def test_an_idle_system_starts_a_job_within_a_second_at_the_median(driven: Callable[..., Driven]) -> None:
    one = driven("easy", nodes=4)
    took = []
    for pause_s in np.random.default_rng(3).uniform(0.8, 2.2, 20):  # at any moment of the second at which Slurm looks
        job = one.bed.submit("sleep 0.1", hold=True, partition="main", time="1")
        began = time.time()
        one.wait_until(lambda job=job: one.bed.state(job) in ("RUNNING", "COMPLETING", "COMPLETED"), 20)  # type: ignore[misc]
        took.append(time.time() - began)
        time.sleep(pause_s)
    assert float(np.median(took)) < 1, took


HOSTILE = [
    "x; touch {mark}",
    "$(touch {mark})",
    "`touch {mark}`",
    "a\nJobId=1 Priority=5",
    '"}}],"jobs":[',
    "'; DROP",
    "%s%n%x",
    "\\",
    "-rf",
    "ünï",
    "\x1b[31m",
    "JobId=99",
    "unrack: nvme.capacity=1GB; memory",
    "x" * 900,
    "unrack: no=such",
]


def test_hostile_words_do_no_harm_and_other_partitions_are_not_touched(
    driven: Callable[..., Driven], tmp_path: Path
) -> None:
    one = driven("easy", nodes=4, bed_options={"partitions": {"main": "", "other": ""}})
    mark = tmp_path / "harm"
    held = one.bed.submit("sleep 1", hold=True, partition="other", time="1")
    runs = one.bed.submit("sleep 20", partition="other", time="1", cpus_per_task=3)
    jobs = []
    for words in HOSTILE:
        said = words.format(mark=mark) if "{mark}" in words else words
        jobs.append(one.bed.submit("sleep 1", hold=True, partition="main", time="1", job_name=said, comment=said))
    good = one.bed.submit("sleep 1", hold=True, partition="main", time="1")
    one.wait_until(lambda: one.all_over([good]), 60)
    wrong = {jobs[-1], jobs[HOSTILE.index("unrack: nvme.capacity=1GB; memory")]}
    one.wait_until(lambda: one.all_over([job for job in jobs if job not in wrong]), 60)
    assert not mark.exists()
    for job in wrong:
        assert one.bed.state(job) == "PENDING"
        assert "aside" in one.command("slurm", "status", "--state", str(one.state))
    assert one.bed.state(held) == "PENDING"
    assert one.bed.job(held)["ReqNodeList"] == "(null)"
    assert one.bed.job(runs)["Restarts"] == "0"
    one.bed.cancel(held, runs, *wrong)


def test_a_second_driver_is_refused(driven: Callable[..., Driven]) -> None:
    one = driven("easy", nodes=1)
    first = one.process
    one.start(wait_s=15, check=False)
    assert one.process is not None
    assert one.process.wait(15) == 2
    one.process = first
    assert "process" in (one.folder / "driver.log").read_text()
