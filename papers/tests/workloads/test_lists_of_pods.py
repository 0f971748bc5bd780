from __future__ import annotations

import gzip
from pathlib import Path

import job_lists as lists
import numpy as np
import pytest
from job_lists import asked, read

from unrack.errors import InputError, TraceError
from unrack.workload.formats.readers import read_trace
from unrack.workload.formats.writers import write_trace

S = 1_000_000


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


def test_lists_may_be_packed_and_written_as_any_table(tmp_path: Path) -> None:
    (tmp_path / "pods.csv.gz").write_bytes(gzip.compress(lists.TIMED.encode()))
    made = read_trace(tmp_path / "pods.csv.gz")
    write_trace(tmp_path / "written.csv", made)
    again = read_trace(tmp_path / "written.csv")
    for key, amounts in made.jobs.devices.items():
        assert np.array_equal(again.jobs.devices[key], amounts), key
    assert again.jobs.extra["gpu_models"].to_list() == made.jobs.extra["gpu_models"].to_list()
