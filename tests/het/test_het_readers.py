"""Heterogeneous jobs as readers find them: columns of tables, and accounts of Slurm."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from unrack.workload.formats.readers import read_trace
from unrack.workload.job import Workload
from unrack.workload.site.sessions import components_of

HEAD = "JobID|Submit|ElapsedRaw|TimelimitRaw|State|AllocCPUS|NNodes|Partition|User\n"


def read(tmp_path: Path, text: str, name: str = "log.txt", **options: Any) -> Workload:
    path = tmp_path / name
    path.write_text(text)
    return read_trace(path, **options)


def line(job: str, minute: int = 1, cores: int = 4, user: str = "ann") -> str:
    return f"{job}|2026-01-02T03:{minute:02}:00|60|5|COMPLETED|{cores}|1|cpu|{user}\n"


def names(workload: Workload) -> list[list[str]]:
    """The heterogeneous jobs by the ids of their components."""
    ids = workload.jobs.ids.to_list()
    return [[str(ids[row]) for row in rows] for rows in components_of(workload.jobs).values()]


def test_sacct_gives_components(tmp_path: Path) -> None:
    found = read(tmp_path, HEAD + line("7") + line("8+0", 2) + line("8+1", 2, 8) + line("9_1", 3) + line("9_2", 3))
    assert names(found) == [["8+0", "8+1"]]
    assert "components missing" not in found.intake.ignored


def test_sacct_tells_once_where_components_are_missing(tmp_path: Path) -> None:
    rows = line("7+1", 1) + line("8+0", 2) + line("8+2", 2) + line("9+0", 3) + line("9+1", 4) + line("10", 5)
    found = read(tmp_path, HEAD + rows)
    assert names(found) == [["8+0", "8+2"]]  # those of 9 were submitted at two times
    assert found.intake.ignored["components missing"] == 5
    assert found.intake.examples["components missing"] == "job 7+1: het 7"


def test_sacct_in_json_gives_components(tmp_path: Path) -> None:
    def job(number: int, het: int, offset: int) -> dict[str, Any]:
        times = {
            "submission": 1767323000,
            "elapsed": 60,
            "start": 1767323001,
            "end": 1767323061,
            "limit": {"number": 5},
        }
        resources = {"allocated": [{"type": "cpu", "count": 4}], "requested": [{"type": "cpu", "count": 4}]}
        part = {"job_id": het, "job_offset": {"set": het > 0, "number": offset}}
        return {"job_id": number, "time": times, "tres": resources, "het": part, "state": {"current": ["COMPLETED"]},
                "allocation_nodes": 1, "user": "ann", "partition": "cpu"}  # fmt: skip

    jobs = [job(7, 0, 0), job(8, 8, 0), job(9, 8, 1)]
    found = read(tmp_path, json.dumps({"jobs": jobs, "meta": {"slurm": {}}}), "jobs.json", format="sacct")
    assert len(found.jobs) == 3
    assert [len(some) for some in names(found)] == [2]


@pytest.mark.parametrize("column", ["het", "het_job_id"])
def test_tables_say_it_in_a_column(tmp_path: Path, column: str) -> None:
    text = f"id,submit,run,cores,{column}\n1,0,10,1,\n2,5,10,1,x\n3,5,20,2,x\n4,5,10,1,y\n"
    found = read(tmp_path, text, "log.csv")
    assert names(found) == [["2", "3"]]
    assert found.intake.ignored == {"components missing": 1}
