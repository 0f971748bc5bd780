from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from tries import draws
from typer.testing import CliRunner

from unrack.cli.main import app
from unrack.errors import InputError, TraceError
from unrack.workload.formats.readers import read_trace
from unrack.workload.formats.rules import Intake
from unrack.workload.formats.source import Source
from unrack.workload.formats.writers import write_swf, write_trace
from unrack.workload.generate.generator import generate
from unrack.workload.job import JobTable, Workload, job_table

MICRO = st.integers(0, 2 * 10**15)  # times in s with 6 decimals are exact in float64 up to 2**31 s


@st.composite
def tables(draw: st.DrawFn, *, named: bool) -> JobTable:
    size = draw(st.integers(1, 12))

    def column(values: st.SearchStrategy[int]) -> np.ndarray:
        return np.array(draw(st.lists(values, min_size=size, max_size=size)), np.int64)

    work = column(MICRO)
    names = st.text("abc XYZ,;'\"é", min_size=1, max_size=5).map(str.strip).filter(bool)
    who = st.sampled_from(["ann", *draw(st.lists(names, max_size=3))]) if named else st.integers(0, 999)
    return job_table(
        submit_us=column(MICRO),
        work_us=work,
        request_us=np.maximum(work + column(st.integers(0, 10**9)), 1),
        tasks=column(st.integers(1, 10**6)),
        cores=column(st.integers(1, 10**6)) if named else None,
        memory_mb=column(st.integers(0, 10**6)),
        ids=pl.Series(column(st.integers(0, 2**53))),
        user=pl.Series(draw(st.lists(st.none() | who, min_size=size, max_size=size)), strict=False),
        app=pl.Series(draw(st.lists(who, min_size=size, max_size=size))),
        priority=column(st.integers(-9, 9)) if named else None,
        deadline_us=column(st.integers(-1, 10**15)) if named else None,
        devices={("gpu", "milli"): column(st.integers(0, 1000))} if named else None,
        extra=None
        if named
        else pl.DataFrame({"group": column(st.integers(0, 9)), "status": column(st.integers(0, 1))}),
    )


def workload(jobs: JobTable) -> Workload:
    return Workload("made", jobs, Intake("test", "generated", len(jobs), len(jobs)))


@draws(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tables(named=False))
def test_what_is_written_as_swf_is_read_back_the_same(tmp_path: Path, jobs: JobTable) -> None:
    write_trace(tmp_path / "t.swf.gz", workload(jobs))
    assert read_trace(tmp_path / "t.swf.gz", memory="requested").jobs.digest() == jobs.digest()


@draws(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(["t.csv", "t.csv.gz", "t.parquet"]), tables(named=True))
def test_what_is_written_as_a_table_is_read_back_the_same(tmp_path: Path, name: str, jobs: JobTable) -> None:
    write_trace(tmp_path / name, workload(jobs))
    assert read_trace(tmp_path / name).jobs.digest() == jobs.digest()


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
@pytest.mark.parametrize("scenario", ["nvme-s1", "vgpu-s3"])
def test_a_scenario_is_read_back_with_its_devices_priorities_deadlines_and_classes(
    tmp_path: Path, name: str, scenario: str
) -> None:
    made = generate({"scenario": scenario, "load": 0.7}, seed=4)
    write_trace(tmp_path / name, made)
    back = read_trace(tmp_path / name)
    assert back.jobs.digest() == made.jobs.digest()
    assert not back.intake.changed
    assert "Columns" not in back.intake.header
    write_trace(tmp_path / f"again-{name}", back)
    assert (tmp_path / f"again-{name}").read_bytes() == (tmp_path / name).read_bytes()


def test_names_are_numbered_in_swf_and_named_in_its_header_and_read_from_there(tmp_path: Path) -> None:
    jobs = job_table(
        submit_us=np.zeros(2, np.int64), work_us=np.ones(2, np.int64), tasks=np.ones(2, np.int64),
        user=pl.Series(["zoe", "al; bo"]),
    )  # fmt: skip
    write_trace(tmp_path / "t.swf", workload(jobs))
    back = read_trace(tmp_path / "t.swf")
    assert back.jobs.user_names == ("al;", "zoe")  # the first word
    assert back.intake.header["User"] == "1 al; bo\n2 zoe"


def test_waiting_times_given_become_those_of_the_log(tmp_path: Path) -> None:
    jobs = job_table(
        submit_us=np.zeros(2, np.int64), work_us=np.ones(2, np.int64), tasks=np.ones(2, np.int64),
        extra=pl.DataFrame({"log_wait_s": [2.5, None]}),
    )  # fmt: skip
    write_swf(tmp_path / "t.swf", workload(jobs))
    assert read_trace(tmp_path / "t.swf").jobs.extra["log_wait_s"].to_list() == [2.5, None]


def test_a_table_made_of_a_log_is_a_log_again(tmp_path: Path) -> None:
    rows = ["1 0 7.5 60 2 -1 -1 2 90 -1 1 3 4 -1 -1 -1 -1 -1", "2 5 0 10 1 -1 -1 1 20 -1 0 3 4 -1 -1 -1 1 2.5"]
    (tmp_path / "log.swf").write_text("\n".join(rows) + "\n")
    write_trace(tmp_path / "table.csv", read_trace(tmp_path / "log.swf"))
    write_trace(tmp_path / "again.swf", read_trace(tmp_path / "table.csv"))
    assert read_trace(tmp_path / "again.swf").jobs.digest() == read_trace(tmp_path / "log.swf").jobs.digest()


@pytest.mark.parametrize("log", ["slurm/samples/sacct.txt", "slurm/samples/squeue-o.txt", "pbs/samples/torque"])
def test_a_table_made_of_a_list_of_a_batch_system_is_found_to_be_a_table(tmp_path: Path, log: str) -> None:
    made = read_trace(Path(__file__).parent / log)
    write_trace(tmp_path / "table.csv", made)
    back = read_trace(tmp_path / "table.csv")
    assert (back.intake.format, back.jobs.work_us.tolist()) == ("csv", made.jobs.work_us.tolist())


def test_a_gzip_file_has_the_same_bytes_each_time(tmp_path: Path) -> None:
    made = generate({"jobs": 50, "arrivals": {"gap_s": 1}, "classes": [{"run_s": 5}]})
    write_trace(tmp_path / "a.swf.gz", made)
    write_trace(tmp_path / "b.swf.gz", made)
    assert (tmp_path / "a.swf.gz").read_bytes() == (tmp_path / "b.swf.gz").read_bytes()


def test_a_file_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    made = generate({"jobs": 1, "arrivals": {"gap_s": 1}, "classes": [{"run_s": 5}]})
    for name in ("a.xls", "a.parquet.gz", "swf"):
        with pytest.raises(InputError, match=r"\.swf"):
            write_trace(tmp_path / name, made)
    with pytest.raises(TraceError):
        write_trace(tmp_path / "no" / "a.swf", made)


def test_what_swf_has_no_field_for_is_told_when_it_is_left_out(tmp_path: Path) -> None:
    rows = "id,submit,run,tasks,cores,deadline,gpus,queue,constraint\n1,0,9,2,4,99,1,q,fast\n"
    (tmp_path / "jobs.csv").write_text(rows)
    told = {
        name: CliRunner().invoke(app, ["trace", "convert", str(tmp_path / "jobs.csv"), str(tmp_path / name)]).output
        for name in ("out.swf.gz", "out.csv", "out.parquet")
    }
    lost = "gpu.devices, tasks of several cores, deadline, constraint"
    assert told["out.swf.gz"].endswith(f"1 job, without {lost}: the format has no field for it\n")
    assert all(told[name].endswith("1 job\n") for name in ("out.csv", "out.parquet"))


def test_converting_tells_ids_that_are_lost_and_jobs_that_are_left_out(tmp_path: Path) -> None:
    rows = "id,submit,run,group,status,user\na,1,9,x y,DONE,a b\nb,-1,9,z,,\nc,2,x,z,,\nd,2,3,z,,\n"
    (tmp_path / "jobs.csv").write_text(rows)
    told = CliRunner().invoke(app, ["trace", "convert", str(tmp_path / "jobs.csv"), str(tmp_path / "out.swf")]).output
    assert "2 jobs, without ids that are no numbers, status: the format has no field for it\n" in told
    assert told.endswith("Left out of 4 that were read: submit missing 1, bad row 1\n")
    made = read_trace(tmp_path / "out.swf").jobs
    assert (made.extra["group"].to_list(), made.user_names) == (["x", "z"], ("a",))


def test_converting_does_not_write_over_the_log(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text("submit,run\n0,1\n1,x\n2,3\n")
    (tmp_path / "link.csv").symlink_to(tmp_path / "jobs.csv")
    for out in ("jobs.csv", "link.csv"):
        result = CliRunner().invoke(app, ["trace", "convert", str(tmp_path / "jobs.csv"), str(tmp_path / out)])
        assert "wanted another file" in str(result.exception)
    assert "1,x" in (tmp_path / "jobs.csv").read_text()


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, data: bytes) -> int:
        path.open("wb").write(data[:5])
        raise OSError(28, "No space left on device")

    (tmp_path / "out.csv").write_text("before")
    made = read_trace(Source("log.csv", b"submit,run\n0,1\n"))
    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(TraceError, match="No space left"):
        write_trace(tmp_path / "out.csv", made)
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]
    assert (tmp_path / "out.csv").read_text() == "before"


def test_what_is_no_file_is_written_to_as_it_is() -> None:
    """As ``/dev/stdout`` is, which leads to a pipe that has no name."""
    code = "from pathlib import Path; from unrack.workload.formats.writers import write_whole as write; "
    done = subprocess.run([sys.executable, "-c", code + "write(Path('/dev/stdout'), 'here')"], capture_output=True)
    assert (done.returncode, done.stdout) == (0, b"here")
