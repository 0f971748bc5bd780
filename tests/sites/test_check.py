"""A history held against its site: what agrees, and a planted cause for everything that does not."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from twins import random_graph, random_site
from typer.testing import CliRunner

import unrack
from unrack.cli.main import app
from unrack.cluster.spec import Cluster
from unrack.errors import InputError
from unrack.study.history.cause import Cause
from unrack.study.history.check import Check, check_history

HEAD = "id,submit,run,request,tasks,cores,user,partition,dependency,log_wait_s\n"
LIMITED = {"partitions": [{"name": "p", "limits": [{"per": "user", "amounts": {"jobs": 1}}]}]}


def checked(folder: Path, rows: str, cores: int, policy: str = "fcfs", site: dict[str, Any] | None = None) -> Check:
    (folder / "jobs.csv").write_text(HEAD + rows)
    content = {"nodes": [{"count": 1, "cores": cores}], **({"site": site} if site else {})}
    return check_history(Cluster.from_dict(content), unrack.read_trace(str(folder / "jobs.csv")), policy)


PLANTED = {
    "held although the nodes are idle": ("1,0,100,100,1,1,a,,,500\n", 2, "fcfs", None, {"1": Cause.HELD}),
    "no backfill": (
        "1,0,100,100,1,1,a,,,0\n2,1,100,100,1,2,a,,,99\n3,2,50,50,1,1,a,,,198\n", 2, "easy", None,
        {"3": Cause.KEPT_REALLY}),
    "no backfill, but for another": (
        "1,0,100,100,1,1,a,,,0\n2,1,90,90,1,3,a,,,99\n3,2,50,50,1,1,a,,,188\n4,3,50,50,1,1,b,,,0\n", 3, "easy", None,
        {"3": Cause.HELD}),
    "room at first": (
        "1,0,100,100,1,1,a,,,0\n2,1,300,300,1,2,a,,,99\n3,2,50,50,1,1,a,,,398\n", 2, "easy", None,
        {"3": Cause.KEPT_REALLY}),
    "a later job first": (
        "1,0,100,100,1,1,a,,,0\n2,1,100,100,1,1,a,,,199\n3,2,100,100,1,1,b,,,98\n", 1, "fcfs", None,
        {"2": Cause.LATER_FIRST, "3": Cause.WENT_FIRST}),
    "what it waits for came later": (
        "1,0,100,100,1,1,a,,,500\n2,0,100,100,1,1,a,,afterok:1,600\n", 2, "fcfs", None,
        {"1": Cause.HELD, "2": Cause.OWN_WORD}),
    "other jobs were there": (
        "1,0,100,100,1,1,a,,,90\n2,10,100,100,1,1,a,,,180\n", 1, "fcfs", None,
        {"1": Cause.HELD, "2": Cause.NO_ROOM_REALLY}),
    "a limit that reality does not have": (
        "1,0,100,100,1,1,a,p,,0\n2,0,100,100,1,1,a,p,,0\n", 2, "fcfs", LIMITED, {"2": Cause.LIMIT}),
    "a reservation that reality does not have": (
        "1,0,100,100,1,1,a,,,0\n2,0,10,10,1,1,a,,,0\n", 2, "fcfs",
        {"reservations": [{"name": "gone", "nodes": ["0"], "start": 95, "duration": 10, "maintenance": True}]},
        {"1": Cause.RESERVED, "2": Cause.KEPT_BACK}),
    "a reservation that neither would have met": (
        "1,0,100,100,1,1,a,,,0\n2,1,10,10,1,1,a,,,0\n", 1, "fcfs",
        {"reservations": [{"name": "far", "nodes": ["0"], "start": 500, "duration": 100, "maintenance": True}]},
        {"2": Cause.TOO_MUCH}),
    "more cores than there are": (
        "1,0,100,100,1,1,a,,,0\n2,0,100,100,1,1,a,,,0\n", 1, "fcfs", None, {"2": Cause.TOO_MUCH}),
    "backfill that delays the head": (
        "1,0,100,100,1,1,a,,,0\n2,1,50,50,1,2,b,,,201\n3,2,200,200,1,1,c,,,0\n", 2, "easy", None,
        {"2": Cause.LATER_FIRST, "3": Cause.KEPT_BACK}),
    "a job that only the simulation has there": (
        "1,0,100,100,1,1,a,,,\n2,1,100,100,1,1,b,,,0\n", 1, "fcfs", None, {"2": Cause.NO_ROOM_HERE}),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_cause_is_found(name: str, tmp_path: Path) -> None:
    rows, cores, policy, site, causes = PLANTED[name]
    found = checked(tmp_path, rows, cores, policy, site)
    assert {one.job: one.cause for one in found.different} == causes


def test_a_limit_is_named_and_hours_are_counted(tmp_path: Path) -> None:
    found = checked(tmp_path, PLANTED["a limit that reality does not have"][0], 2, site=LIMITED)
    assert found.different[0].words == "jobs of user a, partition p"
    assert found.causes == {Cause.LIMIT: (1, pytest.approx(100 / 3600))}
    assert (found.waits.real_mean_s, found.waits.simulated_mean_s) == (0.0, 50.0)
    assert (found.waits.agree, found.partitions["p"].jobs, found.users["a"].agree) == (0.5, 2, 0.5)
    assert (found.used_real, found.used_simulated) == (pytest.approx(1.0), pytest.approx(0.5))


def test_jobs_that_may_run_beside_a_partition_are_not_counted_in_it(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(HEAD + "1,0,100,100,2,1,a,right,,0\n2,0,100,100,4,1,b,left,,0\n")
    site = {"partitions": [{"name": "left", "nodes": ["0-1"]}, {"name": "right", "nodes": ["1-2"]}]}
    cluster = Cluster.from_dict({"nodes": [{"count": 3, "cores": 2}], "site": site})
    found = check_history(cluster, unrack.read_trace(str(tmp_path / "jobs.csv")), "fcfs")
    (one,) = found.different  # job 1 was really on the last node, and is on the middle one here
    assert (one.job, one.cause, one.words) == ("2", Cause.NO_ROOM_PERHAPS, "2 to 4 cores free, 4 asked")


@pytest.mark.parametrize("seed", range(12))
def test_a_history_made_by_the_same_rules_agrees(seed: int) -> None:
    made = random_graph(seed, 60) if seed % 2 else random_site(seed, 60)
    past = unrack.simulate(made.cluster, made.workload, "easy").jobs
    waits = past["start_s"] - past["submit_s"]
    workload = made.workload
    jobs = replace(workload.jobs, extra=workload.jobs.extra.with_columns(log_wait_s=waits))
    found = check_history(made.cluster, replace(workload, jobs=jobs), "easy")
    assert found.waits.agree == 1.0
    assert found.waits.jobs == int((past["state"] == "finished").sum())
    assert (found.swapped, found.different, found.not_started) == (0, [], {})
    assert found.used_real == pytest.approx(found.used_simulated)


def test_rows_of_a_log_that_cannot_be_compared_are_counted(tmp_path: Path) -> None:
    rows = "JobID|State|Submit|Start|End|Timelimit|AllocCPUS\n"
    for job, state, start, end in [
        (1, "COMPLETED", "00:00:10", "01:00:00"),
        (2, "CANCELLED by 0", "Unknown", "00:20:00"),
        (3, "COMPLETED", "00:09:00", "00:50:00"),  # before it came: a clock that was set
        (4, "RUNNING", "00:40:00", "Unknown"),
    ]:
        times = "|".join(time if time == "Unknown" else f"2024-01-01T{time}" for time in (start, end))
        rows += f"{job}|{state}|2024-01-01T00:{'10' if job == 3 else '00'}:00|{times}|02:00:00|4\n"
    (tmp_path / "jobs.txt").write_text(rows)
    (tmp_path / "cluster.toml").write_text("nodes = [{count = 4, cores = 8}]\n")
    asked = ["site", "check", str(tmp_path / "jobs.txt"), "--cluster", str(tmp_path / "cluster.toml")]
    told = CliRunner().invoke(app, asked, env={"COLUMNS": "220"}).output
    assert "2 rows of the log not read as jobs" in told
    assert "1 row of the log without a known real start, or with one before their submission" in told


def test_a_trace_without_waits_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no job whose wait is known"):
        checked(tmp_path, "1,0,100,100,1,1,a,,,\n", 1)


def test_the_command_tells_and_prints_json(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(HEAD + PLANTED["a limit that reality does not have"][0])
    (tmp_path / "cluster.toml").write_text(
        "nodes = [{count = 1, cores = 2}]\n[[site.partitions]]\nname = 'p'\n"
        "limits = [{per = 'user', amounts = {jobs = 1}}]\n"
    )
    asked = [
        "site",
        "check",
        str(tmp_path / "jobs.csv"),
        "--cluster",
        str(tmp_path / "cluster.toml"),
        "--policy",
        "fcfs",
    ]
    told = CliRunner().invoke(app, asked, env={"COLUMNS": "220"})
    assert told.exit_code == 0, told.output
    assert "starts agree within 1 min: 50.0%" in told.output
    assert "a limit of the file was full in the simulation" in told.output
    found = json.loads(CliRunner().invoke(app, [*asked, "--json"]).output)
    assert found["waits"]["agree"] == 0.5
    assert found["different"][0]["words"] == "jobs of user a, partition p"
    loose = CliRunner().invoke(app, [*asked, "--json", "--tolerance", "2 min"])
    assert json.loads(loose.output)["causes"] == {}


def test_the_published_schedule_of_easy_agrees(data: Path) -> None:
    file = data / "swf" / "KTH-SP2.easy-reference.swf.gz"
    if not file.exists():
        pytest.skip("the log is not here")
    found = check_history(Cluster.homogeneous(nodes=100, cores=1), unrack.read_trace(str(file)), "easy")
    assert found.waits.jobs == 28_481
    assert found.waits.agree > 0.98
    assert found.correlation is not None
    assert found.correlation > 0.99


def test_the_real_kth_log_differs_from_easy(data: Path) -> None:
    file = data / "swf" / "KTH-SP2-1996-2.1-cln.swf.gz"
    if not file.exists():
        pytest.skip("the log is not here")
    found = check_history(Cluster.homogeneous(nodes=100, cores=1), unrack.read_trace(str(file)), "easy")
    waits = unrack.read_trace(str(file)).jobs.extra["log_wait_s"].cast(pl.Float64)
    assert found.waits.real_mean_s == pytest.approx(waits.mean())
    assert found.waits.real_mean_s > 2 * found.waits.simulated_mean_s
    assert sum(jobs for jobs, _ in found.causes.values()) == found.looked_at == 1_000
