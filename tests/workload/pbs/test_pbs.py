from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tries import draws

from unrack.errors import InputError, TraceError
from unrack.workload.formats.pbs import job_name, memory_mb, request, span_s
from unrack.workload.formats.readers import read_trace
from unrack.workload.formats.source import Source
from unrack.workload.job import Workload

SAMPLES = Path(__file__).parent / "samples"
OPENPBS = (SAMPLES / "openpbs").read_text()
TORQUE = (SAMPLES / "torque").read_text()


def read(text: str, **options: object) -> Workload:
    return read_trace(Source("20260131", text.encode()), **options)


def test_a_log_of_openpbs_gives_a_job_for_each_record_of_an_end() -> None:
    made = read(OPENPBS)
    assert made.intake.format == "pbs"
    assert made.jobs.ids.to_list() == ["1001", "1002[3]", "1005"]
    assert made.jobs.submit_us.tolist() == [0, 60_000_000, 600_000_000]
    assert made.jobs.tasks.tolist() == [2, 1, 2]
    assert made.jobs.cores.tolist() == [8, 1, 16]
    assert made.jobs.memory_mb.tolist() == [4096, 0, 65536]
    assert made.jobs.devices["gpus", "count"].tolist() == [1, 0, 0]
    assert made.jobs.request_us.tolist() == [7_200_000_000, 600_000_000, 7 * 86_400_000_000]
    assert made.jobs.extra["array"].to_list() == [None, 1002, None]
    assert made.jobs.extra["account"].to_list() == [None, "chem lab", None]


def test_all_other_records_are_counted() -> None:
    intake = read(OPENPBS).intake
    assert dict(intake.dropped) == {"no job of its own": 6}
    assert intake.read == intake.kept + 6 == 9
    assert intake.changed["parts not equal"] == 1
    assert intake.ignored["place asked for"] == 1
    assert intake.changed["run cut at request"] == 1


def test_a_log_of_torque_has_tasks_from_nodes_and_ppn() -> None:
    made = read(TORQUE)
    assert made.jobs.ids.to_list() == [500, 501]
    assert made.jobs.tasks.tolist() == [2, 1]
    assert made.jobs.cores.tolist() == [4, 2]
    assert made.jobs.memory_mb.tolist() == [8192, 524_288]
    assert made.jobs.devices["gpus", "count"].tolist() == [1, 0]
    assert made.jobs.work_us.tolist() == [3_600_000_000, 1_000_000_000]
    assert dict(made.intake.dropped) == {"run before a requeue": 1, "no job of its own": 2}


def test_memory_that_was_used_can_be_taken() -> None:
    assert read(TORQUE, memory="used").jobs.memory_mb.tolist() == [4096, 1]
    assert read(TORQUE, memory="ignore").jobs.memory_mb.tolist() == [0, 0]
    assert read(OPENPBS, memory="max", gpus="ignore", arrival="eligible").jobs.memory_mb.tolist() == [4096, 10, 65536]


def test_logs_of_several_days_may_be_put_together() -> None:
    assert len(read(OPENPBS + OPENPBS)) == 3


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (OPENPBS.replace("select=2:ncpus=8:mpiprocs=8:mem=4gb", "select=2:ncpus=x"), "line 4, Resource_List: got 'x'"),
        (OPENPBS.replace("end=1769850030", "end=soon"), "line 4, end: got 'soon', wanted a number of seconds"),
        (OPENPBS.replace("walltime=02:00:00", "walltime=2days"), "line 4, Resource_List.walltime: got '2days'"),
        (OPENPBS.replace("01/31/2026 09:12:00;D", "2026-01-31;D"), "line 7: got '2026-01-31;D"),
        (OPENPBS.replace("E;1005.pbs01", "E;x.pbs01"), "line 9, job: got 'x.pbs01', wanted the name of a job"),
    ],
)
def test_a_broken_line_is_refused_with_its_number(text: str, words: str) -> None:
    with pytest.raises(TraceError) as caught:
        read(text, strict=True)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("asked", "size"),
    [
        ({"procs": "6"}, (6, 1, 0)),
        ({"ncpus": "9", "nodect": "2"}, (2, 5, 0)),
        ({"nodes": "n01:ppn=4+n02:ppn=4"}, (2, 4, 0)),
        ({"nodes": "n01"}, (1, 1, 0)),
        ({"select": "ncpus=4:ngpus=2"}, (1, 4, 2)),
        ({"ncpus": "4", "ngpus": "2"}, (1, 4, 2)),
        ({}, (0, 1, 0)),
    ],
)
def test_requests_of_any_kind_are_tasks_of_cores_and_gpus(asked: dict[str, str], size: tuple[int, int, int]) -> None:
    found = request({f"Resource_List.{key}": value for key, value in asked.items()})
    assert (found.tasks, found.cores, found.gpus) == size


@given(st.integers(0, 2**30), st.sampled_from(["kb", "mb", "gb"]))
def test_memory_is_rounded_up_to_mb(number: int, unit: str) -> None:
    assert memory_mb(f"{number}{unit}") == -(-number * {"kb": 1, "mb": 1024, "gb": 2**20}[unit] // 1024)


@given(st.integers(0, 10**7))
def test_spans_have_as_many_hours_as_it_takes(seconds: int) -> None:
    assert span_s(f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}") == seconds == span_s(str(seconds))


ODD = [";", "", "\n", "=", "-1", "9" * 30, "[", "]", "+", ":", "\0", "gb", '"', " ", "é", "1e9", "."]


@draws(150)
@given(st.sampled_from([OPENPBS, TORQUE]), st.data())
def test_a_mutated_log_is_read_or_refused_in_words(text: str, data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = min(len(text), start + data.draw(st.integers(0, 6)))
        text = text[:start] + data.draw(st.sampled_from(ODD)) + text[end:]
    try:
        made = read_trace(Source("fuzz", text.encode()), "pbs", memory=data.draw(st.sampled_from(["requested", "max"])))
    except InputError:
        return
    assert len(made) == made.intake.kept <= made.intake.read
    assert (made.jobs.submit_us >= 0).all()
    assert (made.jobs.tasks >= 1).all()


def test_amounts_of_memory_are_read_in_every_unit() -> None:
    assert [memory_mb(text) for text in ("4gb", "1048577kb", "1mw", "5")] == [4096, 1025, 8, 1]


def test_times_are_read_from_seconds_to_days() -> None:
    assert [span_s(text) for text in ("168:00:00", "30:00", "90", "1:00:00:00")] == [604800, 1800, 90, 86400]


def test_names_tell_jobs_members_of_arrays_and_arrays_apart() -> None:
    names = [job_name(text) for text in ("123.server", "123[4].server", "123[].server")]
    assert [(name.number, name.member) for name in names] == [(123, None), (123, 4), (123, -1)]
