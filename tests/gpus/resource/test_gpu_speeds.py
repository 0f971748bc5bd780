"""Speeds by hand: across sockets, beside a neighbour, and at full speed again when it ends."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from plain_gpus import cluster_of, gpu_jobs, run

from unrack.jit import plain
from unrack.resources.gpus.choice import Neighbours, next_neighbour

FACTORS = "kind,application,other,factor\napart,a,,1.5\nbeside,a,b,2\nbeside,b,a,1.25\nbeside,a,c,4\n"


SPREAD = "fcfs(gpus=spread)"


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
    assert ends(run(minsky, gpu_jobs({"app": "a", "count": 2}), SPREAD)) == [15]
    assert ends(run(minsky, gpu_jobs({"app": "b", "count": 2}), SPREAD)) == [10], "b is not slow across sockets"


ODD = {"gpus": 5, "per_socket": 3}


@pytest.mark.parametrize(
    ("machine", "at_one"), [("minsky", 2), ("pcie-4", 2), ({"gpus": 4}, 4), ({"gpus": 3, "per_socket": 1}, 1), (ODD, 3)]
)
def test_a_job_alone_runs_its_time_wherever_it_must_be_apart(machine: Any, at_one: int, tmp_path: Path) -> None:
    (tmp_path / "factors.csv").write_text(FACTORS)
    cluster = cluster_of({"machine": machine, "profiles": str(tmp_path / "factors.csv")})
    size = int(cluster.places.installed["gpus"].gpus.size[0])
    for count in range(1, size + 1):
        needless = 1 < count <= at_one < size
        assert ends(run(cluster, gpu_jobs({"app": "a", "count": count}), SPREAD)) == [15 if needless else 10], count


def test_a_job_too_large_for_one_machine_runs_its_time_on_two(tmp_path: Path) -> None:
    (tmp_path / "factors.csv").write_text(FACTORS)
    two = cluster_of({"machine": "minsky", "profiles": str(tmp_path / "factors.csv")}, nodes=2)
    assert ends(run(two, gpu_jobs({"app": "a", "count": 4, "tasks": 2}), "fcfs")) == [10]


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
    """a has GPUs 0 and 2, beside b and c: 4 times 1.5, until c ends after 10 s; 10 / 6 of 10 s are done then."""
    jobs = gpu_jobs({"app": "a", "count": 2}, {"app": "c", "count": 1}, {"app": "b", "count": 1, "work": 1})
    found = ends(run(minsky, jobs, SPREAD))
    assert found == pytest.approx([10 + (10 - 10 / 6) * 1.5, 10, 1.25], abs=1e-5)


def test_jobs_on_parts_and_on_slices_neither_suffer_nor_do_harm(minsky: Any, tmp_path: Path) -> None:
    jobs = gpu_jobs({"app": "a", "milli": 500}, {"app": "c", "milli": 500}, {"app": "a", "count": 1})
    assert ends(run(minsky, jobs, "fcfs(gpus=first-fit)")) == [10, 10, 10]
    other = run(minsky, gpu_jobs({"app": "a", "count": 1}, {"app": "c", "milli": 500}), "fcfs(gpus=first-fit)")
    assert ends(other) == [10, 10], "nor does a part of a GPU that nobody else uses"
    assert other.metrics["gpu_interference_mean"] == 1
    sliced = cluster_of({"machine": {"gpus": 1, "slices": 8}, "profiles": str(tmp_path / "factors.csv")})
    assert ends(run(sliced, gpu_jobs({"app": "a", "slices": 2}, {"app": "c", "slices": 2}), "fcfs")) == [10, 10]


def test_tasks_on_parts_that_fill_a_gpu_together_are_on_parts(minsky: Any) -> None:
    """They neither suffer beside another job nor do harm, wherever they are, as tasks that leave a rest do."""
    for milli, tasks in ((500, 2), (500, 3), (250, 8), (400, 2)):
        whole = {"app": "c", "count": 1}, {"app": "a", "count": 1}
        jobs = gpu_jobs({"app": "a", "milli": milli, "tasks": tasks}, *whole)
        for rule in ("first-fit", "spread", "topology"):
            result = run(minsky, jobs, f"fcfs(gpus={rule})")
            assert ends(result)[:2] == [10, 10], (milli, tasks, rule)
            assert result.metrics["gpu_cost_mean"] is None, "there is no start on several whole GPUs"


def test_two_machines_are_apart(minsky: Any, tmp_path: Path) -> None:
    two = cluster_of({"machine": "minsky", "profiles": str(tmp_path / "factors.csv")}, nodes=2)
    assert ends(run(two, gpu_jobs({"app": "a", "count": 1, "tasks": 2, "apart": 1}), "fcfs")) == [15]


def test_an_application_without_a_profile_runs_its_time(minsky: Any) -> None:
    jobs = gpu_jobs({"app": "x", "count": 3}, {"app": "a", "count": 1})
    assert ends(run(minsky, jobs, "fcfs(gpus=first-fit)")) == [10, 10]


TIMES = """kind,application,batch_size,gpus,other_application,other_batch_size,other_gpus,placement,time_s
solo,x,1,1,,,,intra,8
solo,x,1,2,,,,intra,10
solo,x,1,2,,,,inter,15
solo,x,1,3,,,,intra,12
solo,y,1,2,,,,inter,10
collocation,x,1,2,x,1,2,,18
collocation,y,1,2,x,1,2,,11
"""


@pytest.fixture
def measured(tmp_path: Path) -> Any:
    """Machines with the measured times of x (two ways on 2 GPUs) and y (across sockets only)."""
    (tmp_path / "times.csv").write_text(TIMES)
    return lambda machine: cluster_of({"machine": machine, "profiles": str(tmp_path / "times.csv")})


def test_a_job_across_sockets_takes_what_was_measured_there_on_any_machine(measured: Any) -> None:
    two = gpu_jobs({"app": "x/1", "count": 2})
    assert ends(run(measured("minsky"), two, SPREAD)) == [15]
    assert ends(run(measured({"gpus": 2, "per_socket": 1}), two, "fcfs")) == [15], "two at one socket took 10 s"
    three = gpu_jobs({"app": "x/1", "count": 3, "work": 12})
    assert ends(run(measured("minsky"), three, "fcfs")) == [12], "three of a Minsky were across sockets when measured"
    assert ends(run(measured("dgx-1"), three, SPREAD)) == [18], "on machines that hold three at a socket, the middle"
    assert ends(run(measured("minsky"), gpu_jobs({"app": "x/1", "count": 4, "work": 12}), "fcfs")) == [12]


def test_a_time_that_was_measured_across_sockets_alone_is_not_made_longer_there(measured: Any) -> None:
    assert ends(run(measured("minsky"), gpu_jobs({"app": "y/1", "count": 2}), SPREAD)) == [10]
    assert ends(run(measured("minsky"), gpu_jobs({"app": "y/1", "count": 2}), "fcfs")) == [10]


def test_a_pair_that_was_measured_across_sockets_takes_what_was_measured(measured: Any) -> None:
    """Two jobs with a GPU at each socket took 18 s where each alone took 15: 1.2 times, of which 1.5 is no part."""
    jobs = gpu_jobs({"app": "x/1", "count": 2}, {"app": "x/1", "count": 2})
    assert ends(run(measured("minsky"), jobs, SPREAD)) == pytest.approx([18, 18], abs=1e-5)
    other = gpu_jobs({"app": "y/1", "count": 2}, {"app": "x/1", "count": 2, "work": 100})
    assert ends(run(measured("minsky"), other, SPREAD))[0] == pytest.approx(11, abs=1e-5)


def test_every_job_of_the_measured_file_alone_takes_what_was_measured(data: Path) -> None:
    path = data / "gpu" / "minsky-caffe-times.csv"
    solo = [row.split(",") for row in path.read_text().splitlines() if row.startswith("solo")]
    cluster = cluster_of({"machine": "minsky", "profiles": str(path)})
    best: dict[tuple[str, int], float] = {}
    for _, app, size, gpus, *_, time in solo:
        key = f"{app.removeprefix('bvlc_')}/{size}", int(gpus)
        best[key] = min(float(time), best.get(key, float(time)))
    for _, app, size, gpus, *_, placement, time in solo:
        key = f"{app.removeprefix('bvlc_')}/{size}", int(gpus)
        took = ends(run(cluster, gpu_jobs({"app": key[0], "count": key[1], "work": 1000}), SPREAD))
        if placement == "inter" or key[1] != 2:
            assert took == pytest.approx([1000 * float(time) / best[key]], rel=1e-6), key


def test_a_part_of_a_gpu_hides_no_neighbour_that_has_another_wholly() -> None:
    machine = SimpleNamespace(kind=[0], first=[0], size=[2])
    profile, beside = np.zeros(9, np.int64), np.ones((1, 1))
    whole = np.array([1, 1, 1, 1, 1, 1, 0, 1, 1])
    for holders, found in (([6, 7], 1), ([7, 7], 0), ([6, 6], 2)):
        peers = Neighbours(np.array([[1, 1], holders]), whole, profile, beside)
        assert plain(next_neighbour)(cast(Any, machine), peers, 0, 0b11, 3, 0) == found
