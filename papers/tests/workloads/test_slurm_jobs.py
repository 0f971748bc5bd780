from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from unrack import Workload, read_trace
from unrack.errors import InputError, TraceError
from unrack.workload.formats import Source
from unrack_papers.workloads.slurm_jobs import read_slurm_jobs

SLURM = "job_id,submit,duration,wclimit,tasks,cpus_per_task,min_nodes,min_cpus,mem_mb,mem_is_per_cpu,sim_executable\n"


def slurm(*rows: str, **options: Any) -> Workload:
    return read_slurm_jobs(Source("jobs.csv", (SLURM + "\n".join(rows)).encode()), **options)


def test_sizes_of_the_slurm_simulator_come_from_nodes_then_cores_then_tasks() -> None:
    made = slurm("2,0,5,9,0,-2,-2,64,10,1,3", "3,0,5,9,0,-2,-2,33,10,1,3", "4,0,5,9,8,8,-2,0,10,0,-2",
                 "5,0,5,9,8,8,7,64,0,1,3", "6,0,5,9,0,-2,-2,0,10,1,3")  # fmt: skip
    jobs = made.jobs
    assert jobs.ids.to_list() == [2, 3, 4, 5]
    assert jobs.tasks.tolist() == [2, 2, 2, 7]
    assert set(jobs.cores.tolist()) == {32}
    assert jobs.memory_mb.tolist() == [320, 320, 10, 0]
    assert [jobs.app_names[code] if code >= 0 else None for code in jobs.app] == ["3", "3", None, "3"]
    assert made.intake.changed["size in whole nodes"] == 1
    assert made.intake.dropped == {"size missing": 1}
    assert slurm("2,0,5,9,0,-2,-2,64,10,1,3", cores_per_node=16).jobs.tasks.tolist() == [4]


def test_a_job_of_no_duration_is_kept_and_asks_for_its_limit() -> None:
    jobs = slurm("2,7,0,9,0,-2,-2,64,10,1,3").jobs
    assert (jobs.work_us.tolist(), jobs.request_us.tolist()) == ([0], [9_000_000])


@pytest.mark.parametrize(
    ("row", "field"),
    [("2,0,5,9,0,-2,-2,-7,10,1,3", "min_cpus"), ("2,0,x,9,0,-2,-2,64,10,1,3", "duration"),
     ("2,0,5,9,0,-2,-2,64.5,10,1,3", "min_cpus"), ("2,0,5,9,0,-2,-2,64,9e99,1,3", "mem_mb")],
)  # fmt: skip
def test_a_value_that_cannot_be_is_refused_with_line_and_field(row: str, field: str) -> None:
    with pytest.raises(TraceError) as caught:
        slurm("1,0,5,9,0,-2,-2,64,10,1,3", row)
    assert (caught.value.line, caught.value.field) == (3, field)


def test_the_option_of_the_system_is_checked() -> None:
    with pytest.raises(InputError, match="cores_per_node"):
        slurm("2,0,5,9,0,-2,-2,64,10,1,3", cores_per_node=0)


def test_the_published_file_is_known_by_its_first_line(data: Path) -> None:
    made = read_trace(data / "memory" / "anl-1024n-1838-jobmix50.csv")
    assert (made.intake.format, len(made), made.jobs.memory_mb.max()) == ("slurm", 1838, 51_040)
