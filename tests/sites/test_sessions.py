"""Jobs that come after the end of another: closed loops."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import unrack
from unrack.errors import InputError
from unrack.policy.table import parse_policy
from unrack.sim.explained.job import explain
from unrack.workload.formats.rules import Intake
from unrack.workload.job import Workload, job_table

S = 10**6


def log(**columns: list[float | int | str | None]) -> Workload:
    """Three jobs of ann, a minute of thought between them, and one of bob."""
    jobs = job_table(
        submit_us=np.array([0, 50, 160, 400]) * S, work_us=np.array([100, 300, 40, 10]) * S,
        tasks=np.array([1, 1, 1, 1]), user=pl.Series(["ann", "bob", "ann", "ann"]), extra=pl.DataFrame(columns),
    )  # fmt: skip
    return Workload("log", jobs, Intake("", "", 0, 0))


def test_a_users_next_job_comes_as_long_after_the_last_as_in_the_log() -> None:
    """On one core ann's second job waits for bob's; her third comes a minute and more after the end of the second."""
    followed = unrack.filtered(log(start_s=[0, 50, 160, 400]), {"sessions": {"by": "users", "think": "5 min"}})
    jobs = unrack.simulate(unrack.Cluster.homogeneous(1, 1), followed, "fcfs").jobs.sort("job")
    assert jobs["start_s"].to_list() == [0, 100, 400, 640]
    assert jobs["eligible_s"].to_list() == [0, 50, 160, 640]  # 200 s after the end of the second, as in the log
    assert jobs["wait_s"].to_list() == [0, 50, 240, 0]


@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative", "slurm(interval=10 s)", "flow", "list(order=wfp3)"])
def test_who_comes_when_his_last_job_is_done_stands_behind_those_that_came_before(policy: str) -> None:
    """On one core ann's second job comes at 210; bob's two and cat's wait then, of which cat's came last, at 205."""
    jobs = job_table(
        submit_us=np.array([0, 50, 60, 160, 205]) * S, work_us=np.array([150, 100, 100, 100, 100]) * S,
        tasks=np.ones(5, np.int64), user=pl.Series(["ann", "bob", "bob", "ann", "cat"]),
        extra=pl.DataFrame({"preceding": [None, None, None, 1, None], "think_s": [None, None, None, 60.0, None]}),
    )  # fmt: skip
    followed = unrack.filtered(Workload("log", jobs, Intake("", "", 0, 0)), {"sessions": "log"})
    jobs_of = unrack.simulate(unrack.Cluster.homogeneous(1, 1), followed, policy).jobs.sort("job")
    assert jobs_of["start_s"].to_list() == [0, 150, 250, 450, 350]
    assert jobs_of["submit_s"].to_list() == [0, 50, 60, 0, 205]
    assert jobs_of["eligible_s"].to_list() == [0, 50, 60, 210, 205]
    cluster, place = unrack.Cluster.homogeneous(1, 1), followed.jobs.ids.to_list().index
    ann, cat = (explain(cluster, followed.jobs, parse_policy(policy), place(job)) for job in (4, 5))
    assert (ann.came_us, ann.ahead, ann.before, ann.passed) == (210 * S, 2, 2, ())
    assert (cat.came_us, cat.ahead, cat.before, cat.passed) == (205 * S, 1, 1, ())


def test_a_job_is_in_the_queue_from_when_it_comes_or_never() -> None:
    """By Little's law the mean number of jobs in the queue is the sum of waits over the time."""
    after = log(dependency=["", "afterok:1", "afternotok:1", "afterany:2"], begin_s=[None, None, None, 500.0])
    result = unrack.simulate(unrack.Cluster.homogeneous(1, 1), after, "fcfs")
    jobs, metrics = result.jobs.sort("job"), result.metrics
    assert jobs["start_s"].to_list() == [0, 100, None, 500]
    assert metrics["queue_length_mean"] == jobs["wait_s"].sum() == 0
    assert metrics["queue_length_max"] == 0
    followed = unrack.filtered(log(start_s=[0, 50, 160, 400]), {"sessions": {"by": "users", "think": "5 min"}})
    result = unrack.simulate(unrack.Cluster.homogeneous(1, 1), followed, "fcfs")
    assert result.metrics["queue_length_mean"] == pytest.approx((50 + 240) / 650)


@pytest.mark.parametrize(
    ("state", "well"),
    [("COMPLETED", True), ("finished", True), ("done", True), ("CD", True), ("COMPLETING", True), (None, True),
     ("CANCELLED by 7", False), ("TO", False), ("OUT_OF_ME+", False), ("failed", False), ("Error", False)],
)  # fmt: skip
def test_a_job_ended_well_unless_its_state_says_otherwise(state: str | None, well: bool, tmp_path: Path) -> None:
    after = log(dependency=["", "afterok:1", "", ""], state=[state, "finished", None, None])
    result = unrack.simulate(unrack.Cluster.homogeneous(1, 1), after, "fcfs")
    ends = result.jobs.sort("job")["start_s"].is_not_null().to_list()
    assert ends == [True, well, True, True]
    for _ in range(2):  # read back it is the same, and once more
        result.jobs.write_parquet(tmp_path / "jobs.parquet")
        again = unrack.read_trace(tmp_path / "jobs.parquet")
        result = unrack.simulate(unrack.Cluster.homogeneous(1, 1), again, "fcfs")
        assert result.jobs.sort("job")["start_s"].is_not_null().to_list() == ends


def test_with_more_room_users_come_earlier() -> None:
    slow = log(start_s=[0, 50, 250, 700])  # in the log the second job waited 90 s, and the third came before it ended
    slow = unrack.filtered(slow, {"sessions": "users"})
    jobs = unrack.simulate(unrack.Cluster.homogeneous(4, 1), slow, "fcfs").jobs.sort("job")
    assert jobs["eligible_s"].to_list() == [0, 50, 160, 310]  # 110 s after 290 s in the log, now after 200 s


def test_what_the_log_says_is_followed() -> None:
    said = log(preceding=[None, None, 1, None], think_s=[None, None, 60.0, None])
    followed = unrack.filtered(said, {"sessions": "log"})
    jobs = unrack.simulate(unrack.Cluster.homogeneous(4, 1), followed, "easy").jobs.sort("job")
    assert jobs["eligible_s"].to_list() == [0, 50, 160, 400]


def test_a_log_that_does_not_say_it_is_refused() -> None:
    with pytest.raises(InputError, match="which job precedes another"):
        unrack.filtered(log(), {"sessions": "log"})
    with pytest.raises(InputError, match="when jobs started"):
        unrack.filtered(log(), {"sessions": "users"})
    with pytest.raises(InputError, match="sessions, by"):
        unrack.filtered(log(), {"sessions": "always"})
