from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tries import draws

from unrack.errors import InputError, TraceError
from unrack.workload.formats.readers import read_trace
from unrack.workload.formats.source import Source
from unrack.workload.job import Workload

SAMPLES = Path(__file__).parent / "samples"
SCONTROL = (SAMPLES / "scontrol-job.txt").read_text()


def read(text: str, **options: object) -> Workload:
    return read_trace(Source("now.txt", text.encode()), **options)


def sample(name: str, **options: object) -> Workload:
    return read((SAMPLES / name).read_text(), **options)


@pytest.mark.parametrize("name", ["scontrol-job.txt", "scontrol-o-job.txt", "squeue.json", "squeue-o.txt"])
def test_jobs_that_run_come_first_with_the_time_they_have_left(name: str) -> None:
    made = sample(name)
    assert made.intake.format == "slurm-queue"
    assert made.jobs.ids.to_list()[:4] == ["1", "2", "3_0", "3_1"]
    assert made.jobs.submit_us[:4].tolist() == [0, 0, 0, 0]
    assert (made.jobs.submit_us[4:] > 0).all()
    assert made.jobs.under_way is not None
    left_s = (made.jobs.work_us - made.jobs.under_way.ran_us)[:4] / 1e6
    assert (left_s <= [600, 93600, 1800, 1800]).all()
    assert (left_s >= [590, 93590, 1790, 1790]).all()
    assert len(made) == 14
    assert made.jobs.devices["gpus", "count"].tolist() == [0, 1] + [0] * 12
    assert dict(made.intake.dropped) == {"held back": 1}
    assert made.intake.changed["holds from the start"] == 4
    assert made.intake.changed["member of an array"] == 8
    assert made.intake.read == 15


def test_sizes_are_those_that_scontrol_shows() -> None:
    made = sample("scontrol-job.txt")
    assert made.jobs.tasks[:3].tolist() == [1, 2, 1]
    assert made.jobs.cores[:3].tolist() == [4, 4, 8]
    assert made.jobs.memory_mb[:3].tolist() == [4096, 8192, 8192]
    assert made.jobs.devices["counted", "matlab"].tolist()[:3] == [0, 2, 0]
    assert made.jobs.priority[0] == 4294901759


def test_columns_of_fixed_width_and_all_columns_are_read() -> None:
    assert len(sample("squeue-F.txt")) == 8
    assert sample("squeue-o-all.txt").jobs.cores[:3].tolist() == [4, 4, 8]


def test_held_jobs_may_stay_and_jobs_without_a_limit_run_as_long_as_is_said() -> None:
    made = sample("scontrol-job.txt", held="keep", unlimited="1 d")
    assert len(made) == 15
    assert made.intake.changed["limit not known"] == 2
    assert made.jobs.work_us.max() == 93_600_000_000
    assert made.jobs.work_us[made.jobs.ids.to_list().index("5")] == 86_400_000_000


def test_a_job_past_its_limit_has_a_second_left() -> None:
    made = read(SCONTROL.replace("RunTime=00:00:02 TimeLimit=00:10:00", "RunTime=00:20:02 TimeLimit=00:10:00"))
    assert made.jobs.under_way is not None
    assert made.jobs.work_us[0] - made.jobs.under_way.ran_us[0] == 1_000_000
    assert made.intake.changed["past its limit"] == 1


def test_the_time_of_the_snapshot_can_be_said() -> None:
    made = sample("squeue.json", now="2026-11-23T06:12:44")
    assert made.jobs.under_way is not None
    assert made.jobs.work_us[0] - made.jobs.under_way.ran_us[0] == 300_000_000
    assert sample("squeue.json", now="2026-11-23T06:12:44", running="anew").jobs.work_us[0] == 300_000_000
    with pytest.raises(InputError, match="option now"):
        sample("squeue.json", now="soon")


def test_a_list_without_cores_is_refused_with_the_command_that_helps() -> None:
    with pytest.raises(TraceError, match="scontrol show job"):
        sample("squeue.txt")


@pytest.mark.parametrize("options", [{"memory": "used"}, {"held": 1}, {"unlimited": "0 s"}, {"unlimited": "x"}])
def test_an_option_that_cannot_be_is_refused_here_too(options: dict[str, object]) -> None:
    with pytest.raises(InputError, match="option"):
        read_trace(Source("x", SCONTROL.encode()), "slurm-queue", **options)


ODD = ["|", "", "\n", "0", "-1", "9" * 30, "Unknown", "[", "]", "=", "_", "null", "%", ",", '"', "{", "é", "1e9", ":"]


@draws(150)
@given(st.sampled_from(["scontrol-job.txt", "squeue.json", "squeue-o.txt", "squeue-F.txt"]), st.data())
def test_a_mutated_snapshot_is_read_or_refused_in_words(name: str, data: st.DataObject) -> None:
    text = (SAMPLES / name).read_text()
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = min(len(text), start + data.draw(st.integers(0, 6)))
        text = text[:start] + data.draw(st.sampled_from(ODD)) + text[end:]
    try:
        made = read_trace(Source("fuzz", text.encode()), "slurm-queue")
    except InputError:
        return
    assert len(made) == made.intake.kept <= made.intake.read
    assert (made.jobs.submit_us >= 0).all()
    assert (made.jobs.work_us > 0).all()
