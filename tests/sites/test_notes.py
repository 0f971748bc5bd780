"""What a run says of a site: nothing of what is honoured, once what is not; and limits of counters count jobs once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import unrack
from unrack.cli.main import app
from unrack.cluster.spec import Cluster
from unrack.workload.formats.rules import Intake
from unrack.workload.job import Workload, job_table

SITE: dict[str, Any] = {
    "partitions": [{"name": "batch"}, {"name": "debug", "nodes": ["0"]}],
    "qos": [{"name": "high", "priority": 5}],
    "features": {"ib": ["0"]},
}
JOBS = (
    "id,submit,run,request,cores,partition,qos,constraint\n"
    "1,0,60,60,1,batch,high,ib\n2,0,60,60,1,debug,low,\n3,5,60,60,1,batch,,\n"
)


def cluster(site: dict[str, Any] | None, **more: Any) -> Cluster:
    return Cluster.from_dict({"nodes": [{"count": 2, "cores": 4}], **({"site": site} if site else {}), **more})


def notes(folder: Path, site: dict[str, Any] | None, jobs: str = JOBS) -> tuple[str, ...]:
    (folder / "jobs.csv").write_text(jobs)
    return unrack.simulate(cluster(site), unrack.read_trace(str(folder / "jobs.csv")), "fcfs").notes


def test_what_a_site_honours_is_no_note(tmp_path: Path) -> None:
    assert notes(tmp_path, SITE) == ()


def test_without_a_site_each_ask_is_told_once(tmp_path: Path) -> None:
    found = notes(tmp_path, None)
    rules = [note.removeprefix("jobs: ").partition(",")[0] for note in found]
    assert sorted(rules) == ["place asked for", "quality of service asked for", "queue asked for"]


def test_a_site_without_qualities_of_service_does_not_honour_them(tmp_path: Path) -> None:
    (note,) = notes(tmp_path, {**SITE, "qos": []})
    assert "quality of service asked for" in note


@pytest.mark.parametrize(
    ("site", "idle"),
    [
        ({"partitions": [{"name": "batch"}]}, True),
        ({"partitions": [{"name": "batch", "default": True}]}, False),
        ({"limits": [{"amounts": {"jobs": 1}}]}, False),
        ({"priority": {"job_size": 9}}, False),
        ({"accounts": [{"name": "physics"}]}, True),
    ],
)
def test_a_site_has_no_effect_where_no_job_says_anything(site: dict[str, Any], idle: bool, tmp_path: Path) -> None:
    found = notes(tmp_path, site, "id,submit,run,cores\n1,0,60,1\n")
    assert any("no effect of the site" in note for note in found) == idle


def test_a_study_with_a_site_tells_no_more_than_a_run(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(JOBS)
    (tmp_path / "study.toml").write_text(
        "policies = ['fcfs', 'easy']\n[[clusters]]\nnodes = [{count = 2, cores = 4}]\n"
        "[[clusters.site.partitions]]\nname = 'batch'\n[[clusters.site.partitions]]\nname = 'debug'\n"
        "[[clusters.site.qos]]\nname = 'high'\n[clusters.site.features]\nib = ['0']\n"
        "[[workloads]]\ntrace = 'jobs.csv'\n"
    )
    done = CliRunner().invoke(app, ["run", str(tmp_path / "study.toml"), "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert "note:" not in done.output
    assert "not honoured" not in (tmp_path / "out" / "report.html").read_text().partition("<script")[0]


@pytest.mark.parametrize(("counter", "together"), [({}, True), ({"asked_by": "task"}, False)])
def test_a_limit_of_a_counter_counts_what_the_counter_counts(
    counter: dict[str, str], together: bool, tmp_path: Path
) -> None:
    limit = [{"amounts": {"counted.lic": 4}}]
    own = cluster({"limits": limit}, counted=[{"name": "lic", "amount": 8, **counter}])
    (tmp_path / "jobs.csv").write_text("id,submit,run,tasks,cores,lic\n1,0,60,2,1,2\n2,0,60,2,1,2\n")
    jobs = unrack.read_trace(str(tmp_path / "jobs.csv"), columns={"counted.lic": "lic"})
    starts = unrack.simulate(own, jobs, "fcfs").jobs["start_s"].to_list()
    assert starts == ([0.0, 0.0] if together else [0.0, 60.0])


def test_reservations_of_the_site_are_honoured(tmp_path: Path) -> None:
    site = {"reservations": [{"name": "course", "nodes": ["0"], "start": 0, "duration": 600, "users": ["ann"]}]}
    jobs = "id,submit,run,request,cores,user,reservation\n1,0,60,60,1,ann,course\n"
    assert notes(tmp_path, site, jobs) == ()
    assert ["reservation ignored" in note for note in notes(tmp_path, None, jobs)] == [True]


def test_who_is_stopped_by_what_the_site_does_not_have_is_told(tmp_path: Path) -> None:
    for by, rank in (("partition", "partitions"), ("qos", "qos"), ("quota", "queues")):
        site = {"features": {"ib": ["0"]}, "preempt": {"by": by}}
        assert any(f"which jobs are stopped by {by}" in note for note in notes(tmp_path, site)), rank


@pytest.mark.parametrize("column", ["nice", "begin_s", "array_limit"])
def test_words_in_a_column_of_numbers_are_refused_with_their_job(column: str) -> None:
    extra = pl.DataFrame({"partition": ["batch", ""], "array": ["x", "x"], column: ["2", "soon"]})
    table = job_table(submit_us=np.zeros(2), work_us=np.full(2, 10**6), tasks=np.ones(2), extra=extra)
    with pytest.raises(unrack.InputError, match=rf"job 2, {column}: got 'soon', wanted a number"):
        unrack.simulate(cluster(SITE), Workload("words", table, Intake("", "", 0, 0)), "fcfs")


@pytest.mark.parametrize("site", [{}, SITE])
def test_a_limit_below_0_of_an_array_is_refused(site: dict[str, Any]) -> None:
    extra = pl.DataFrame({"partition": ["batch", ""], "array": ["x", "x"], "array_limit": [1, -2]})
    table = job_table(submit_us=np.zeros(2), work_us=np.full(2, 10**6), tasks=np.ones(2), extra=extra)
    workload = Workload("negative", table, Intake("", "", 0, 0))
    with pytest.raises(unrack.InputError, match=r"job 2, array_limit: got -2, wanted a whole number, 0 or more"):
        unrack.simulate(
            cluster(site) if site else Cluster.from_dict({"nodes": [{"count": 1, "cores": 2}]}), workload, "fcfs"
        )


@pytest.mark.parametrize(("start", "told"), [(0, True), (10, False), (-30, True), (3_600, False)])
def test_a_reservation_that_is_over_before_the_first_job_comes_is_told(start: int, told: bool, tmp_path: Path) -> None:
    one = {"name": "past", "nodes": ["0"], "start": start, "duration": 20}
    rows = JOBS.replace(",0,60", ",25,60").replace(",5,60", ",27,60")
    found = notes(tmp_path, {**SITE, "reservations": [one]}, rows)
    words = "no effect of the reservation past of the site of the cluster: it is over before the first job comes"
    assert found == ((words,) if told else ())
