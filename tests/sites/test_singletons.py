"""Jobs that are singletons wait for all jobs of their name and user before them, whichever of these are singletons."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import unrack


def starts(rows: list[str], tmp_path: Path, cores: int = 8) -> list[float | None]:
    """When jobs start, as a table says them: id, submit, run, tasks, job_name, dependency."""
    (tmp_path / "jobs.csv").write_text("\n".join(["id,submit,run,tasks,user,job_name,dependency", *rows]) + "\n")
    jobs = unrack.read_trace(tmp_path / "jobs.csv")
    return unrack.simulate(unrack.Cluster.homogeneous(cores, 1), jobs, "fcfs").jobs["start_s"].to_list()


def test_a_singleton_waits_for_all_before_it(tmp_path: Path) -> None:
    rows = ["1,0,100,1,u,n,", "2,0,10,1,u,n,", "3,1,5,1,u,n,singleton"]
    assert starts(rows, tmp_path) == [0, 0, 100]


def test_one_that_is_turned_away_lets_the_next_wait_for_those_before(tmp_path: Path) -> None:
    rows = ["1,0,100,1,u,n,", "2,0,10,9,u,n,singleton", "3,1,5,1,u,n,singleton", "4,2,5,1,u,n,singleton"]
    assert starts(rows, tmp_path) == [0, None, 100, 105]


def test_it_is_one_of_several_ways(tmp_path: Path) -> None:
    rows = ["1,0,100,1,u,n,", "2,0,50,1,u,n,", "7,0,500,1,v,n,", "8,1,5,1,u,n,afterok:7?singleton"]
    assert starts(rows, tmp_path) == [0, 0, 0, 100]


def test_of_several_ways_the_first_that_comes_is_enough_where_another_is_known_to_come_later(tmp_path: Path) -> None:
    """It waited for the minute after the start, as that was known from the start on, though the job ends before."""
    rows = ["1,0,20,1,u,n,", "2,0,90,1,u,n,", "3,5,5,1,u,m,after:1+1?afterany:1", "4,5,5,1,u,m,after:2+1?afterany:2"]
    assert starts(rows, tmp_path) == [0, 0, 20, 60]


@pytest.mark.parametrize("seed", range(20))
def test_random_names_against_a_plain_twin(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    rows, jobs = list[str](), list[tuple[int, int, int, str, str]]()
    for number in range(1, 40):
        job = number * 3, draw.randint(1, 60), draw.choice([1, 1, 1, 99]), draw.choice("uv"), draw.choice("nm")
        word = draw.choice(["", "singleton"])
        rows.append(f"{number},{','.join(map(str, job))},{word}")
        jobs.append(job)
    found = starts(rows, tmp_path, 50)
    for at, (row, start) in enumerate(zip(rows, found, strict=True)):
        submit, _, tasks, *session = jobs[at]
        others = [other for other in range(at) if list(jobs[other][3:]) == session] if "singleton" in row else []
        ends = [begun + jobs[other][1] for other in others if (begun := found[other]) is not None]
        assert start == (max([submit, *ends]) if tasks == 1 else None)


def test_a_time_after_a_start_at_0_counts_from_0(tmp_path: Path) -> None:
    """The log begins at 0: a job that has started then has started."""
    assert starts(["1,0,100,1,u,n,", "2,150,5,1,u,m,after:1+5"], tmp_path) == [0, 300]


def test_without_names_of_jobs_it_is_told_and_not_honoured(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text("id,submit,run,user,dependency\n1,0,100,u,\n2,1,5,u,singleton\n")
    jobs = unrack.read_trace(tmp_path / "jobs.csv")
    assert jobs.intake.ignored == {"dependency ignored": 1}
    assert unrack.simulate(unrack.Cluster.homogeneous(2, 1), jobs, "fcfs").jobs["start_s"].to_list() == [0, 1]
