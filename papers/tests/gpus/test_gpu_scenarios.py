"""Training jobs on several machines: what is drawn, counted and timed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from gpu_pretend import tiny

from unrack.policy.table import parse_policy
from unrack.sim.simulate import simulate
from unrack_papers.amaral.machines import NAMES, POSTPONING, RUNNING, STEPS, WAITING, minsky
from unrack_papers.amaral.scenarios import (
    BELOW,
    FIRST,
    FIRST_X,
    PLACEMENTS,
    REPRODUCTION,
    SCENARIO_2,
    SLOWDOWN,
    SLOWED,
    Timed,
    drawn,
    jobs_of,
    machines_of,
)
from unrack_papers.pages.page import as_page, judged


def test_slowdowns_are_ranked_and_waiting_never_makes_them_smaller() -> None:
    found = tiny("gpu-scenario1")
    for name in NAMES:
        own, all_in = ([found.at((kind, step, name), SLOWDOWN.label) for step in STEPS] for kind in (RUNNING, WAITING))
        ranked = [one.mean for one in own if one is not None]
        assert len(ranked) == len(STEPS)
        assert ranked == sorted(ranked, reverse=True)
        assert ranked[-1] >= 1
        assert all(a is not None and b is not None and a.mean <= b.mean + 1e-9
                   for a, b in zip(own, all_in, strict=True))  # fmt: skip


@pytest.mark.long
def test_waiting_without_a_limit_starts_no_job_below_its_least_utility() -> None:
    found = tiny("gpu-scenario1", 2, 30)
    below = found.at((FIRST, FIRST_X, POSTPONING.name), BELOW.label)
    assert below is not None
    assert below.mean == 0


def test_there_is_a_machine_for_every_ten_jobs_and_the_load_stays() -> None:
    assert machines_of({"jobs": 10_000}) == 1000
    assert machines_of({"jobs": 12}) == 1
    assert machines_of({"jobs": 12, "machines": 5}) == 5
    few, many = (jobs_of({"jobs": n, "scaled": True}, 0).jobs.submit_us for n in (200, 2000))
    gap = [float(np.diff(times).mean()) for times in (few, many)]
    assert gap[0] == pytest.approx(10 * gap[1], rel=0.2)


def test_the_stopwatch_changes_no_schedule_and_counts_every_decision() -> None:
    ticks = iter(range(10**9))
    cluster, jobs = minsky(2, "deep-learning"), jobs_of({"jobs": 20}, 3)
    timed = Timed(parse_policy("topo-aware"), lambda: float(next(ticks)))
    own, plain = simulate(cluster, jobs, timed), simulate(cluster, jobs, "topo-aware")
    assert own.jobs.equals(plain.jobs)
    assert timed.took_s == timed.asked >= 20


def test_seconds_are_printed_and_not_written() -> None:
    found = tiny("gpu-scenario2")
    assert SCENARIO_2.aside is not None
    lines = SCENARIO_2.aside(found)
    assert "FCFS: " in lines[2]
    assert "1.0 times FCFS; the paper 0.45 s" in lines[2]
    assert " ms" not in as_page(found, judged(found))


def test_the_loads_of_the_comparison_with_backfill_are_offered() -> None:
    jobs = drawn({"jobs": 2000, "machines": 10, "load": 0.8}, 0).jobs
    asked = float((jobs.work_us * jobs.devices["gpus", "count"]).sum())
    span = float(jobs.submit_us[-1] - jobs.submit_us[0])
    assert asked / span / 40 == pytest.approx(0.8, rel=0.1)


@pytest.mark.long
def test_backfill_is_compared_with_every_placement_on_the_same_jobs() -> None:
    found = tiny("gpu-backfill", 2, 40)
    assert len(found.values) == sum(len(point.rows) for point in REPRODUCTION.points) == 36
    for words in PLACEMENTS.values():
        assert found.at((words, 5, "EASY"), SLOWED.label) is not None


def test_a_list_of_jobs_is_taken_as_it_is_and_then_moved(data: Path) -> None:
    folder = data / "gpu"
    keys = {"trace": str(folder / "minsky-100-jobs.csv"), "times": str(folder / "minsky-caffe-times.csv")}
    first, second = (jobs_of(keys, seed).jobs for seed in (0, 1))
    assert len(first) == len(second) == 100
    assert first.submit_us[0] == 7_000_000
    assert first.submit_us.tolist() != second.submit_us.tolist()
