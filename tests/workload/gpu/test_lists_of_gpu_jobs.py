from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import gpu_lists as lists
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unrack.errors import InputError, TraceError
from unrack.study.input.document import Document
from unrack.study.input.file import WorkloadTable
from unrack.study.input.inputs import make_workload
from unrack.workload.formats.gpu.times import read_times
from unrack.workload.formats.readers import read_trace
from unrack.workload.formats.source import Source
from unrack.workload.formats.writers import write_trace
from unrack.workload.job import Workload

S = 1_000_000


def read(text: str, **options: Any) -> Workload:
    return read_trace(Source("list.csv", text.encode()), **options)


@pytest.fixture
def times(tmp_path: Path) -> str:
    path = tmp_path / "times.csv"
    path.write_text(lists.TIMES)
    return str(path)


def apps(made: Workload) -> list[str]:
    return [made.jobs.app_names[code] for code in made.jobs.app]


def asked(made: Workload, quantity: str) -> list[int]:
    return made.jobs.devices["gpus", quantity].tolist()


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


def test_pods_run_from_their_start_to_their_deletion() -> None:
    made = read(lists.TIMED)
    assert made.intake.format == "openb"
    assert made.jobs.ids.to_list() == ["b", "c", "a"]
    assert made.jobs.submit_us.tolist() == [20 * S, 30 * S, 100 * S]
    assert made.jobs.work_us.tolist() == [30 * S, 20 * S, 60 * S]
    assert asked(made, "count") == [2, 1, 1]
    assert asked(made, "milli") == [500, 500, 0]
    assert made.jobs.extra["gpu_models"].to_list() == [None, "T4", "V100M16|V100M32"]
    assert made.jobs.extra["qos"].to_list() == ["BE", "BE", "LS"]
    assert made.intake.ignored["model asked for"] == 2
    assert read(lists.TIMED, run="2 min").jobs.work_us.tolist() == [120 * S] * 3


def test_pods_without_times_come_one_a_second_and_need_a_run_time() -> None:
    with pytest.raises(InputError, match="option run = '1 h'"):
        read(lists.PODS)
    made = read(lists.PODS, run=90)
    assert made.jobs.submit_us.tolist() == [0, S, 2 * S, 3 * S]
    assert made.jobs.work_us.tolist() == [90 * S] * 4
    assert made.jobs.cores.tolist() == [12, 7, 1, 96]
    assert made.jobs.memory_mb.tolist() == [16384, 12288, 0, 393216]
    assert asked(made, "count") == [1, 1, 0, 8]
    assert asked(made, "milli") == [0, 460, 0, 0]
    assert "gpu_models" not in made.jobs.extra.columns
    assert read(lists.PODS, run=90, cpu="milli").jobs.cores.tolist() == [12000, 6001, 500, 96000]


@pytest.mark.parametrize(
    ("row", "field"),
    [("x,-1,0,1,1000", "cpu_milli"), ("x,many,0,1,1000", "cpu_milli"), ("x,1,-5,1,1000", "memory_mib"),
     ("x,1,0,1.5,1000", "num_gpu"), ("x,1,0,-1,1000", "num_gpu"), ("x,1,0,1,1001", "gpu_milli"),
     ("x,1,0,1,0", "gpu_milli"), ("x,1,0,0,500", "gpu_milli"), (",1,0,0,0", "name"), ("x,1,,0,0", "memory_mib")],
)  # fmt: skip
def test_a_pod_that_cannot_be_is_refused_with_line_and_column(row: str, field: str) -> None:
    with pytest.raises(TraceError) as caught:
        read(lists.PODS + row + "\n", run=1, strict=True)
    assert (caught.value.line, caught.value.field) == (6, field)


@pytest.mark.parametrize(
    ("row", "field"),
    [("x,1,0,0,0,,,,10,9,", "deletion_time"), ("x,1,0,0,0,,,,10,20,21", "deletion_time"),
     ("x,1,0,0,0,,,,,20,", "creation_time"), ("x,1,0,0,0,,,,-3,20,", "creation_time")],
)  # fmt: skip
def test_a_pod_that_ends_before_it_starts_is_refused(row: str, field: str) -> None:
    with pytest.raises(TraceError) as caught:
        read(lists.TIMED + row + "\n", strict=True)
    assert (caught.value.line, caught.value.field) == (5, field)


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


@pytest.mark.parametrize(
    ("text", "lacking"),
    [(lists.MINSKY, "memory_gb"), (lists.PODS, "gpu_milli"), (lists.PODS, "memory_mib"), (lists.PHILLY, "duration")],
)
def test_a_list_that_lacks_a_column_is_refused_by_its_name(text: str, lacking: str, times: str) -> None:
    options = {"profiles": times} if text is lists.MINSKY else {}
    with pytest.raises(TraceError, match=f"column {lacking}: got no such column"):
        read(text.replace(lacking, "other", 1), **options)


@pytest.mark.parametrize(
    ("text", "options"),
    [(lists.PODS, {"cpu": "half", "run": 1}), (lists.PODS, {"run": "soon"}), (lists.PODS, {"run": True}),
     (lists.PHILLY, {"gpus_per_node": 0}), (lists.PHILLY, {"cores_per_gpu": -1}), (lists.MINSKY, {"profiles": 3})],
)  # fmt: skip
def test_options_are_checked(text: str, options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="option " + next(iter(options))):
        read(text, **options)


def test_lists_may_be_packed_and_written_as_any_table(tmp_path: Path) -> None:
    (tmp_path / "pods.csv.gz").write_bytes(gzip.compress(lists.TIMED.encode()))
    made = read_trace(tmp_path / "pods.csv.gz")
    write_trace(tmp_path / "written.csv", made)
    again = read_trace(tmp_path / "written.csv")
    for key, amounts in made.jobs.devices.items():
        assert np.array_equal(again.jobs.devices[key], amounts), key
    assert again.jobs.extra["gpu_models"].to_list() == made.jobs.extra["gpu_models"].to_list()


@settings(max_examples=60)
@given(st.sampled_from([lists.MINSKY, lists.PODS, lists.TIMED, lists.PHILLY]), st.data())
def test_a_mutated_list_is_read_or_refused_in_words(text: str, data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        end = min(len(text), start + data.draw(st.integers(0, 5)))
        odd = st.sampled_from([",", "\n", "-", ".", "e", "nan", "9" * 25, '"', "", "é"])
        text = text[:start] + data.draw(odd) + text[end:]
    try:
        made = read(text) if text.strip() else None
    except InputError:
        return
    assert made is None or len(made) == made.intake.kept
