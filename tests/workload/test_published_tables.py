from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from unrack.cli.trace.page import page
from unrack.errors import InputError
from unrack.workload.account import describe
from unrack.workload.formats.readers import read_trace
from unrack.workload.formats.source import Source
from unrack.workload.job import Workload

PERLMUTTER = "jobid,submit,start,end,nnodes,duration,memory\n7,100,103,113,2,10,96\n"
ALIBABA = "0,j_1,M1,268,50.0,0.3,9\n5,j_1,R2_1,0,150.0,1,2\n"


def test_options_of_these_formats_are_checked() -> None:
    for memory in ("much", "0 GB", "-3 GB"):
        with pytest.raises(InputError, match="machine_memory"):
            read_alibaba(memory)


def read_alibaba(memory: Any) -> Workload:
    from unrack.workload.formats.table.published import read_alibaba as reader

    return reader(Source("tasks.csv", ALIBABA.encode()), machine_memory=memory)


def test_perlmutter_times_are_tens_of_seconds_and_memory_is_of_a_node(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(PERLMUTTER)
    made = read_trace(tmp_path / "jobs.csv")
    assert made.intake.format == "perlmutter"
    assert made.jobs.submit_us.tolist() == [1_000_000_000]
    assert made.jobs.work_us.tolist() == [100_000_000]
    assert (made.jobs.tasks.tolist(), made.jobs.cores.tolist()) == ([2], [128])
    assert made.jobs.memory_mb.tolist() == [96 * 1024]
    assert read_trace(tmp_path / "jobs.csv", cores_per_node=64, time_unit=1).jobs.work_us.tolist() == [10_000_000]


def test_alibaba_lines_are_jobs_of_as_many_tasks_as_they_have_instances(tmp_path: Path) -> None:
    (tmp_path / "tasks.csv").write_text(ALIBABA)
    made = read_trace(tmp_path / "tasks.csv", machine_memory="100 GB")
    assert made.intake.format == "alibaba2018"
    assert made.jobs.ids.to_list() == ["j_1.M1", "j_1.R2_1"]
    assert (made.jobs.tasks.tolist(), made.jobs.cores.tolist()) == ([9, 2], [1, 2])
    assert made.jobs.memory_mb.tolist() == [308, 1024]
    assert made.jobs.extra["dependency"].to_list() == [None, "afterok:j_1.M1"]


def test_options_or_a_format_of_any_table_read_them_as_any_table(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(PERLMUTTER)
    made = read_trace(tmp_path / "jobs.csv", columns={"tasks": "nnodes", "id": "jobid"}, time_unit=10)
    assert made.intake.format == "csv"
    assert made.jobs.cores.tolist() == [1]
    assert read_trace(tmp_path / "jobs.csv", "csv").jobs.tasks.tolist() == [1]


@pytest.mark.long
@pytest.mark.parametrize(
    ("file", "form", "jobs", "memory_mb"),
    [("perlmutter-first-half.csv.gz", "perlmutter", 7055, 505 * 1024),
     ("alibaba2018-tasks.csv.gz", "alibaba2018", 67_634, 6777)],
)  # fmt: skip
def test_the_published_files_are_known_by_their_first_line(
    file: str, form: str, jobs: int, memory_mb: int, data: Path
) -> None:
    made = read_trace(data / "memory" / file)
    assert (made.intake.format, len(made), made.jobs.memory_mb.max()) == (form, jobs, memory_mb)


def test_memory_per_node_of_a_grid_log_is_read_in_bytes(data: Path) -> None:
    made = read_trace(data / "swf" / "wagap-2013-first-half.swf.gz", memory="requested", memory_unit="B",
                      memory_per="task", node_spec=True)  # fmt: skip
    bands = describe(made)["memory_bands"]
    assert sum(band["jobs"] for band in bands) == pytest.approx(1)
    assert sum(band["task_hours"] for band in bands) == pytest.approx(1)
    assert 100 < sorted(made.jobs.memory_mb.tolist())[len(made) // 2] < 64 * 1024


def test_the_account_of_a_log_shows_its_memory_by_bands(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(PERLMUTTER + "8,100,100,130,1,30,500\n")
    contents = describe(read_trace(tmp_path / "jobs.csv"))
    shown = [(band["from_gb"], band["to_gb"], band["jobs"], round(band["task_hours"], 3))
             for band in contents["memory_bands"] if band["jobs"]]  # fmt: skip
    assert shown == [(96, 128, 0.5, 0.4), (128, None, 0.5, 0.6)]
    console = Console(width=120, record=True, quiet=False, file=(tmp_path / "page").open("w"))
    for part in page(contents):
        console.print(part)
    assert "128 GB or more" in console.export_text()
    (tmp_path / "bare.csv").write_text("id,submit,run\n1,0,5\n")
    assert describe(read_trace(tmp_path / "bare.csv"))["memory_bands"] is None


@pytest.mark.parametrize(
    ("header", "row", "expected"),
    [
        ("job_id,submit,duration,wclimit,tasks,partition,account,cpus_per_task,tasks_per_node,mem_mb,mem_is_per_cpu,"
         "min_nodes,min_cpus,shared,sim_executable,dependency", "2,100,90,90,0,normal,1000,-2,0,1180,1,-2,512,-2,1,",
         "slurm"),
        ("jobid,submit,start,end,nnodes,duration,memory", "7,100,103,113,2,10,96", "perlmutter"),
        ("JobID,State,Submit,Start,End,Elapsed,NNodes,AllocCPUS",
         "7,COMPLETED,2026-01-01T00:00:00,2026-01-01T00:00:05,2026-01-01T00:01:05,00:01:00,1,4", "sacct"),
    ],
)  # fmt: skip
def test_a_published_layout_is_known_before_the_lists_that_slurm_prints(
    tmp_path: Path, header: str, row: str, expected: str
) -> None:
    (tmp_path / "jobs.csv").write_text(f"{header}\n{row}\n")
    made = read_trace(tmp_path / "jobs.csv")
    assert made.intake.format == expected
    assert len(made.jobs.ids) == 1
