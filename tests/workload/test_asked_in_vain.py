"""What jobs ask for and nothing honours is counted with an example, whichever format says it, and told first."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from typer.testing import CliRunner

import unrack
from unrack.cli.main import app
from unrack.workload.formats.readers import read_trace
from unrack.workload.formats.rules import intake_notes
from unrack.workload.formats.source import Source
from unrack.workload.job import Workload

JOBS = "id,submit,run,request,cores,{}\n1,0,10,20,1,{}\n2,0,10,20,1,{}\n"


def read(text: str, **options: object) -> Workload:
    return read_trace(Source("jobs.txt", text.encode()), **options)


@pytest.mark.parametrize(
    ("column", "first", "second", "rule", "count"),
    [
        ("dependency", "", "expand:1", "dependency ignored", 1),
        ("dependency", "", "afterok:", "dependency ignored", 1),
        ("dependency", "-1", "0", "dependency ignored", 0),
        ("gpu_spec", "", "V100M16|V100M32", "model asked for", 1),
        ("queue", "long", "short", "queue asked for", 2),
        ("queue", "long", "long", "queue asked for", 0),
        ("qos", "low", "", "quality of service asked for", 0),
        ("constraint", "", "ib&gpu", "place asked for", 1),
        ("exclusive", "0", "1", "whole nodes ignored", 1),
        ("exclusive", "no", "false", "whole nodes ignored", 0),
        ("hostlist", "", "n[1-2]", "place ignored", 1),
        ("begin", "0", "0", "begin ignored", 0),
        ("begin", "", "60", "begin ignored", 1),
        ("nice", "0", "10", "rank ignored", 1),
        ("reservation", "(null)", "maintenance", "reservation ignored", 1),
        ("colour", "red", "blue", "dependency ignored", 0),
    ],
)
def test_columns_of_a_table_that_ask_in_vain_are_counted(
    column: str, first: str, second: str, rule: str, count: int
) -> None:
    intake = read(JOBS.format(column, first, second)).intake
    assert dict(intake.ignored) == ({rule: count} if count else {})
    if count == 1:
        assert intake.examples[rule] == f"job 2: {column} {second}"


def test_a_column_that_is_mapped_is_read_and_asks_nothing_in_vain() -> None:
    assert not read(JOBS.format("queue", "a", "b"), columns={"app": "queue"}).intake.ignored


def test_jobs_that_are_dropped_ask_for_nothing() -> None:
    assert not read("id,submit,run,after\n1,0,10,\n2,0,,1\n").intake.ignored


def test_swf_tells_queues_and_partitions() -> None:
    lines = [
        "1 0 0 10 1 -1 -1 1 20 -1 1 1 1 1 1 1 -1 -1",
        "2 5 0 10 1 -1 -1 1 20 -1 1 1 1 1 2 1 1 30",
        "3 6 0 10 1 -1 -1 1 20 -1 1 1 1 1 1 1 0 0",
    ]
    intake = read("\n".join(lines)).intake
    assert dict(intake.ignored) == {"queue asked for": 3}


def test_slurm_tells_what_it_was_asked_beside_resources() -> None:
    head = "JobID|Submit|ElapsedRaw|TimelimitRaw|State|AllocCPUS|Partition|QOS|Reservation|Constraints|ReqTRES\n"
    row = "{}|2026-01-02T03:04:0{}|60|5|COMPLETED|1|{}|normal|{}|{}|{}\n"
    intake = read(
        head
        + row.format(7, 1, "long", "", "", "cpu=1,gres/gpu:a100=1")
        + row.format("8+0", 2, "short", "maint", "ib", "cpu=1,gres/nvme=2")
    ).intake
    assert dict(intake.ignored) == {
        "place asked for": 1, "model asked for": 1, "queue asked for": 2, "reservation ignored": 1,
        "components missing": 1, "other devices": 1,
    }  # fmt: skip
    assert intake.examples["other devices"] == "job 8+0: nvme 2"


def test_pbs_tells_places_and_resources_of_the_site() -> None:
    record = (
        "01/02/2026 03:04:05;E;{}.s;user=ann queue={} ctime=1767323000 qtime=1767323000 etime=1767323000 "
        "start=1767323001 end=1767323061 Resource_List.ncpus=1 Resource_List.walltime=00:10:00{}\n"
    )
    intake = read(
        record.format(1, "q", " depend=afterok:9 Resource_List.place=scatter:excl Resource_List.matlab=2")
        + record.format(2, "q", " Resource_List.select=1:ncpus=1:arch=linux Resource_List.place=free")
    ).intake
    assert dict(intake.ignored) == {
        "place ignored": 1, "whole nodes ignored": 1, "other devices": 1,
    }  # fmt: skip
    assert intake.examples["place ignored"].endswith("1:ncpus=1:arch=linux")


def test_pods_tell_where_they_want_to_be_and_gated_pods_stay_out() -> None:
    def pod(name: str, **spec: object) -> dict[str, object]:
        return {"kind": "Pod", "metadata": {"name": name}, "status": {"phase": "Pending"}, "spec": spec}

    limits = {"resources": {"limits": {"cpu": "1", "example.com/fpga": "1"}}}
    items = [
        pod("a", nodeSelector={"gpu": "a100"}, priorityClassName="high", containers=[limits]),
        pod("b", topologySpreadConstraints=[{"maxSkew": 1}], priorityClassName="high", priority=10),
        pod("c", schedulingGates=[{"name": "wait"}]),
    ]
    intake = read(json.dumps({"apiVersion": "v1", "kind": "PodList", "items": items}), run="1 h").intake
    assert dict(intake.ignored) == {"place ignored": 2, "rank ignored": 1, "other devices": 1}
    assert intake.examples["other devices"] == "job a: other devices example.com/fpga"
    assert dict(intake.dropped) == {"held back": 1}


def test_a_study_tells_it_in_the_terminal_in_its_json_and_in_the_report(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text("id,submit,run,cores,reservation\n1,0,10,1,\n2,0,10,1,x\n")
    study = tmp_path / "study.toml"
    study.write_text(
        'name = "s"\npolicies = ["fcfs", "easy"]\nclusters = [{ nodes = [{ count = 1, cores = 2 }] }]\n'
        'workloads = [{ trace = "jobs.csv" }]\n'
    )
    out = tmp_path / "out"
    shown = CliRunner().invoke(app, ["run", str(study), "--out", str(out), "-j", "1"])
    assert shown.exit_code == 0, shown.output
    told = "jobs: reservation ignored, 1 job, such as job 2: reservation x. "
    assert shown.output.count(f"note: {told}") == 1
    assert "note: jobs: request from run, 2 jobs" in shown.output
    assert told in (out / "report.html").read_text()
    again = CliRunner().invoke(app, ["run", str(study), "--out", str(out), "--json"])
    assert any(note.startswith(told) for note in json.loads(again.stdout)["notes"])
    listed = CliRunner().invoke(app, ["trace", "info", str(tmp_path / "jobs.csv"), "--json"])
    assert json.loads(listed.stdout)["ignored"][0]["example"] == "job 2: reservation x"


def test_simulate_tells_it_too() -> None:
    made = read(JOBS.format("reservation", "", "x"))
    (note,) = intake_notes(made.name, asdict(made.intake))
    assert note in unrack.simulate(unrack.Cluster.homogeneous(1, 2), made, "fcfs").notes
