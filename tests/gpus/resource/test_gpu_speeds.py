"""Speeds by hand: across sockets, beside a neighbour, and at full speed again when it ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from plain_gpus import cluster_of, gpu_jobs, run

FACTORS = "kind,application,other,factor\napart,a,,1.5\nbeside,a,b,2\nbeside,b,a,1.25\nbeside,a,c,4\n"


@pytest.fixture
def minsky(tmp_path: Path) -> Any:
    """A Minsky with factors: ``a`` is slow across sockets, and slower beside ``b`` and ``c``; ``b`` is beside ``a``."""
    (tmp_path / "factors.csv").write_text(FACTORS)
    return cluster_of({"machine": "minsky", "profiles": str(tmp_path / "factors.csv")})


def ends(result: Any) -> list[float]:
    """When each job ended."""
    return result.jobs["end_s"].to_list()  # type: ignore[no-any-return]


def test_alone_within_a_socket_a_job_runs_its_time_and_across_sockets_it_takes_longer(minsky: Any) -> None:
    assert ends(run(minsky, gpu_jobs({"app": "a", "count": 2}), "fcfs")) == [10]
    assert ends(run(minsky, gpu_jobs({"app": "a", "count": 3}), "fcfs")) == [15]
    assert ends(run(minsky, gpu_jobs({"app": "b", "count": 3}), "fcfs")) == [10], "b is not slow across sockets"


def test_neighbours_slow_each_other_down_until_one_ends(minsky: Any) -> None:
    """b ends at 12.5; a has then done 6.25 of its 10 s, and does the rest at full speed."""
    jobs = gpu_jobs({"app": "a", "count": 1}, {"app": "b", "count": 1})
    assert ends(run(minsky, jobs, "fcfs(gpus=first-fit)")) == [16.25, 12.5]
    assert ends(run(minsky, jobs, "fcfs(gpus=topology)")) == [10, 10], "at two sockets they do not meet"


def test_a_neighbour_that_comes_later_counts_from_then_on(minsky: Any) -> None:
    """a has done 4 s when b comes: 4 + 6 x 2 = 16; b meets it from 4 to 14 or longer."""
    jobs = gpu_jobs({"app": "a", "count": 1}, {"app": "b", "count": 1, "submit": 4})
    assert ends(run(minsky, jobs, "fcfs(gpus=first-fit)")) == [16, 4 + 12 - 12 / 5 + 2.4 + 0.4]


def test_of_several_neighbours_the_worst_counts_and_across_sockets_is_besides(minsky: Any) -> None:
    """a has GPUs 0, 1 and 2, beside c: 4 times 1.5, until c ends after 10 s; 10 / 6 of 10 s are done then."""
    jobs = gpu_jobs({"app": "a", "count": 3}, {"app": "c", "count": 1})
    assert ends(run(minsky, jobs, "fcfs(gpus=first-fit)")) == pytest.approx([10 + (10 - 10 / 6) * 1.5, 10], abs=1e-5)


def test_jobs_on_parts_and_on_slices_neither_suffer_nor_do_harm(minsky: Any, tmp_path: Path) -> None:
    jobs = gpu_jobs({"app": "a", "milli": 500}, {"app": "c", "milli": 500}, {"app": "a", "count": 1})
    assert ends(run(minsky, jobs, "fcfs(gpus=first-fit)")) == [10, 10, 10]
    sliced = cluster_of({"machine": {"gpus": 1, "slices": 8}, "profiles": str(tmp_path / "factors.csv")})
    assert ends(run(sliced, gpu_jobs({"app": "a", "slices": 2}, {"app": "c", "slices": 2}), "fcfs")) == [10, 10]


def test_two_machines_are_apart(minsky: Any, tmp_path: Path) -> None:
    two = cluster_of({"machine": "minsky", "profiles": str(tmp_path / "factors.csv")}, nodes=2)
    assert ends(run(two, gpu_jobs({"app": "a", "count": 1, "tasks": 2, "apart": 1}), "fcfs")) == [15]


def test_an_application_without_a_profile_runs_its_time(minsky: Any) -> None:
    jobs = gpu_jobs({"app": "x", "count": 3}, {"app": "a", "count": 1})
    assert ends(run(minsky, jobs, "fcfs(gpus=first-fit)")) == [10, 10]
