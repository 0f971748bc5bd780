from __future__ import annotations

import sys
from pathlib import Path

import job_lists as lists
import pytest
from job_lists import asked, read

from unrack.cli import main as command
from unrack.errors import InputError, TraceError
from unrack.study.input.file import WorkloadTable
from unrack.study.input.inputs import Document, make_workload
from unrack.workload.job import Workload
from unrack_papers.workloads.measured_times import read_times

S = 1_000_000


@pytest.fixture
def times(tmp_path: Path) -> str:
    path = tmp_path / "times.csv"
    path.write_text(lists.TIMES)
    return str(path)


def apps(made: Workload) -> list[str]:
    return [made.jobs.app_names[code] for code in made.jobs.app]


def test_training_jobs_run_for_their_best_time_alone(times: str) -> None:
    made = read(lists.MINSKY, profiles=times)
    assert made.intake.format == "minsky"
    assert made.jobs.submit_us.tolist() == [7 * S, 17_500_000, 20 * S, 21 * S]
    assert made.jobs.work_us.tolist() == [125_500_000, 110 * S, 125_500_000, 110 * S]
    assert made.intake.changed["time of the nearest size"] == 2
    assert apps(made) == ["alexnet/1", "alexnet/4", "alexnet/1", "alexnet/4"]
    assert asked(made, "count") == [2, 1, 3, 2]
    assert asked(made, "together") == [1, 1, 1, 1]
    assert asked(made, "min_utility") == [4001, 5000, 0, 10_000]
    assert made.jobs.memory_mb.tolist() == [1024, 2048, 1024, 1024]


def test_a_time_of_a_pair_of_jobs_is_no_time_alone(times: str) -> None:
    measured = read_times(times)
    assert measured.best("alexnet/1", 1) == (70.0, 1)
    assert measured.best("alexnet/1", 3) == (125.5, 2)
    assert measured.best("alexnet/4", 3) == (90.0, 4)
    assert measured.best("alexnet/4", 2) == (110.0, 1)
    assert measured.best("googlenet/1", 1) is None


def test_training_jobs_without_measured_times_are_refused_with_what_to_give() -> None:
    with pytest.raises(InputError, match=r"run times: got none.*profiles = 'FILE'") as caught:
        read(lists.MINSKY)
    assert caught.value.exit_code == 2


def test_a_study_finds_measured_times_beside_itself(times: str) -> None:
    folder = Path(times).parent
    (folder / "jobs.csv").write_text(lists.MINSKY)
    (folder / "study.toml").write_text('[[workloads]]\ntrace = "jobs.csv"\noptions = { profiles = "times.csv" }\n')
    table = WorkloadTable(trace="jobs.csv", options={"profiles": "times.csv"})
    made = make_workload(table, Document.read(str(folder / "study.toml")), 0, 1)
    assert made.jobs.work_us[0] == 125_500_000


@pytest.mark.parametrize(
    ("row", "field"),
    [("9,-1,bvlc_alexnet,1,2,1,1,0.4", "arrival_s"), ("9,x,bvlc_alexnet,1,2,1,1,0.4", "arrival_s"),
     ("9,1,bvlc_alexnet,1,0,1,1,0.4", "gpus"), ("9,1,bvlc_alexnet,1.5,2,1,1,0.4", "batch_size"),
     ("9,1,bvlc_alexnet,1,2,0,1,0.4", "tasks"), ("9,1,bvlc_alexnet,1,2,1,-1,0.4", "memory_gb"),
     ("9,1,bvlc_alexnet,1,2,1,1,1.4", "minimal_utility"), ("9,1,bvlc_alexnet,1,2,1,1,", "minimal_utility"),
     ("9,1,vgg,1,2,1,1,0.4", "application"), ("9,1,bvlc_alexnet,64,2,1,1,0.4", "application")],
)  # fmt: skip
def test_a_training_job_that_cannot_be_is_refused_with_line_and_column(row: str, field: str, times: str) -> None:
    with pytest.raises(TraceError) as caught:
        read(lists.MINSKY_HEADER + "8,0,bvlc_alexnet,1,2,1,1,0.4\n" + row + "\n", profiles=times, strict=True)
    assert (caught.value.line, caught.value.field, caught.value.exit_code) == (3, field, 2)


@pytest.mark.parametrize(
    ("old", "new", "line", "field"),
    [(",time_s\n", ",seconds\n", None, "column time_s"), (",70\n", ",fast\n", 2, "time_s"),
     (",70\n", ",-7\n", 2, "time_s"), ("collocation", "beside", 9, "kind"), ("solo", "collocation", None, "kind")],
)  # fmt: skip
def test_measured_times_that_cannot_be_are_refused(
    old: str, new: str, line: int | None, field: str, tmp_path: Path
) -> None:
    (tmp_path / "times.csv").write_text(lists.TIMES.replace(old, new))
    with pytest.raises(TraceError) as caught:
        read(lists.MINSKY, profiles=str(tmp_path / "times.csv"))
    assert (caught.value.line, caught.value.field) == (line, field)


def test_philly_jobs_are_sorted_from_zero_and_split_into_tasks_that_come_out_even() -> None:
    made = read(lists.PHILLY)
    assert made.intake.format == "philly"
    assert made.jobs.submit_us.tolist() == [0, 30 * S, 60 * S, 120 * S]
    assert made.jobs.work_us.tolist() == [20_500_000, 10 * S, 66 * S, 5 * S]
    assert made.jobs.tasks.tolist() == [2, 2, 1, 1]
    assert asked(made, "count") == [6, 8, 1, 8]
    assert made.jobs.cores.tolist() == [6, 8, 1, 8]
    four = read(lists.PHILLY, gpus_per_node=4, cores_per_gpu=3)
    assert four.jobs.tasks.tolist() == [3, 4, 1, 2]
    assert four.jobs.cores.tolist() == [12, 12, 3, 12]


def test_one_virtual_cluster_can_be_kept_and_the_rest_is_counted() -> None:
    made = read(lists.PHILLY, cluster="north")
    assert made.jobs.submit_us.tolist() == [0, 30 * S]
    assert made.intake.dropped == {"other clusters": 2}
    assert set(made.jobs.extra["cluster"]) == {"north"}
    with pytest.raises(InputError, match="one of north, south"):
        read(lists.PHILLY, cluster="east")


@pytest.mark.parametrize(
    ("row", "field"),
    [("9 Oct 2017,1,1,1,a", "timestamp"), ("2017-10-09 07:02:00,-1,1,1,a", "duration"),
     ("2017-10-09 07:02:00,1,0,1,a", "num_gpus"), ("2017-10-09 07:02:00,1,two,1,a", "num_gpus")],
)  # fmt: skip
def test_a_philly_job_that_cannot_be_is_refused_with_line_and_column(row: str, field: str) -> None:
    with pytest.raises(TraceError) as caught:
        read(lists.PHILLY + row + "\n", strict=True)
    assert (caught.value.line, caught.value.field) == (6, field)


def call(*words: str, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["unrack", *words])
    with pytest.raises(SystemExit) as caught:
        command.main()
    return int(caught.value.code or 0)


def test_a_list_that_needs_run_times_ends_with_exit_code_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "jobs.csv").write_text(lists.MINSKY)
    (tmp_path / "times.csv").write_text(lists.TIMES)
    jobs, times = str(tmp_path / "jobs.csv"), str(tmp_path / "times.csv")
    assert call("trace", "info", jobs, monkeypatch=monkeypatch) == 2
    assert "profiles = 'FILE'" in capsys.readouterr().err
    assert call("trace", "info", jobs, "-o", f"profiles={times}", monkeypatch=monkeypatch) == 0
