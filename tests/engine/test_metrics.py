"""Metrics, frames and breakdowns against values worked out by hand."""

from __future__ import annotations

import polars as pl
import pytest
from small_worlds import J, S, table, work, workload_of

from unrack.cluster.spec import Cluster
from unrack.errors import InputError
from unrack.metric.kinds.jobs import served
from unrack.metric.table import METRICS, integrals, measure, per_group
from unrack.sim.faults import Fault
from unrack.sim.simulate import simulate
from unrack.sim.world import World
from unrack.workload.job import job_table

FOUR = Cluster.homogeneous(nodes=4, cores=1)
JOBS = work(J(0, 10, 4), J(0, 20, 2), J(10, 0, 1), J(20, 40, 3), J(30, 5, 9))
"""fcfs: 0-10 on 4; 10-30 on 2; 10-10 on 1; 30-70 on 3; the last is too big."""


def test_every_metric_of_a_small_run_has_the_value_worked_out_by_hand() -> None:
    result = simulate(FOUR, JOBS, "fcfs")
    waits, responses = [0, 10, 0, 10], [10, 30, 0, 50]
    assert result.jobs["wait_s"].to_list() == [*waits, None]
    assert result.metrics == {
        "jobs_finished": 4, "jobs_rejected": 1, "jobs_queued": 0, "served": pytest.approx(200 / 245),
        "wait_s_mean": 5, "wait_s_median": 5, "wait_s_p95": 10, "wait_s_max": 10,
        "response_s_mean": sum(responses) / 4, "response_s_median": 20,
        "response_s_p95": pytest.approx(30 + 0.85 * 20), "response_s_max": 50,
        "slowdown_mean": pytest.approx((1 + 1.5 + 1.25) / 3), "slowdown_median": 1.25,
        "slowdown_p95": pytest.approx(1.25 + 0.9 * 0.25), "slowdown_max": 1.5,
        "bounded_slowdown_mean": pytest.approx((1 + 1.5 + 1 + 1.25) / 4), "bounded_slowdown_median": 1.125,
        "bounded_slowdown_p95": pytest.approx(1.25 + 0.85 * 0.25), "bounded_slowdown_max": 1.5,
        "throughput_jobs_per_h": pytest.approx(4 * 3600 / 70), "makespan_s": 70,
        "utilisation_cores": pytest.approx((40 + 40 + 120) / 280),
        "utilisation_cores_asked": pytest.approx((40 + 40 + 120) / 280), "utilisation_memory": None,
        "queue_length_mean": pytest.approx((10 + 10) / 70), "queue_length_max": 1, "restarts": 0,
        "missed_deadlines": None, "missed_deadlines_high": None, "bound_missed_deadlines": None,
        "window_start_s": 0, "window_end_s": 70,
    }  # fmt: skip
    assert list(result.metrics) == list(METRICS)


def test_usage_is_a_step_function_of_what_was_held_and_who_waited() -> None:
    usage = simulate(FOUR, JOBS, "fcfs").usage
    columns = ["time_s", "cores_held", "running_jobs", "queued_jobs", "queued_cores", "cores_online"]
    assert usage.select(columns).rows() == [
        (0, 4, 1, 1, 2, 4), (10, 2, 1, 0, 0, 4), (20, 2, 1, 1, 3, 4), (30, 3, 1, 0, 0, 4), (70, 0, 0, 0, 0, 4)
    ]  # fmt: skip


def test_bounded_slowdown_is_bounded_at_ten_seconds() -> None:
    jobs = simulate(Cluster.homogeneous(1, 1), work(J(0, 30), J(0, 2), J(0, 10)), "fcfs").jobs
    assert jobs["bounded_slowdown"].to_list() == [1, 3.2, 4.2]
    assert jobs["slowdown"].to_list() == [1, 16, 4.2]


def test_a_window_takes_jobs_by_submission_and_averages_over_its_length() -> None:
    metrics = simulate(FOUR, JOBS, "fcfs", window_us=(10 * S, 50 * S)).metrics
    assert metrics["jobs_finished"] == 2  # submitted at 10 and 20
    assert metrics["jobs_rejected"] == 1
    assert metrics["wait_s_mean"] == 5
    assert metrics["utilisation_cores"] == pytest.approx((2 * 20 + 3 * 20) / (4 * 40))
    assert metrics["queue_length_mean"] == pytest.approx(10 / 40)
    assert metrics["throughput_jobs_per_h"] == pytest.approx(3 * 3600 / 40)  # ended at 10, 10 and 30
    assert (metrics["window_start_s"], metrics["window_end_s"]) == (10, 50)


def test_what_was_served_is_core_time_asked_for_of_jobs_that_ended_over_that_of_all() -> None:
    jobs = work(J(0, 10, 2), J(0, 40, 1), J(0, 0, 4), J(0, 50, 9))
    assert simulate(FOUR, jobs, "fcfs").metrics["served"] == pytest.approx((20 + 40) / (20 + 40 + 450))
    twice = simulate(
        FOUR, jobs, "fcfs", world=World(faults=[Fault("node0", 5 * S, S)])
    )  # an attempt that was lost asks for nothing
    assert twice.metrics["restarts"] == 1
    assert twice.metrics["served"] == pytest.approx((20 + 40) / (20 + 40 + 450))
    queued = {"tasks": [2, 3], "cores_per_task": [1, 1], "work_s": [10.0, 40.0], "state": ["finished", "queued"]}
    assert served(pl.DataFrame(queued)) == pytest.approx(20 / 140)


def test_what_was_served_counts_jobs_where_nothing_asks_for_core_time() -> None:
    assert simulate(FOUR, work(J(0, 0, 2), J(0, 0, 9)), "fcfs").metrics["served"] == 0.5


def test_what_was_served_is_of_the_jobs_submitted_in_the_window_whenever_they_end() -> None:
    metrics = simulate(FOUR, JOBS, "fcfs", window_us=(15 * S, 35 * S)).metrics
    assert metrics["served"] == pytest.approx(120 / (120 + 45))  # submitted at 20, ends at 70; the one too big
    assert simulate(FOUR, JOBS, "fcfs", window_us=(22 * S, 28 * S)).metrics["served"] is None


def test_a_window_between_two_changes_knows_what_held_before_it() -> None:
    metrics = simulate(FOUR, JOBS, "fcfs", window_us=(22 * S, 28 * S)).metrics
    assert metrics["queue_length_max"] == 1
    assert metrics["queue_length_mean"] == 1
    assert metrics["utilisation_cores"] == pytest.approx(0.5)
    assert metrics["wait_s_mean"] is None
    assert metrics["makespan_s"] is None


def test_a_window_outside_the_run_is_idle() -> None:
    metrics = simulate(FOUR, JOBS, "fcfs", window_us=(100 * S, 200 * S)).metrics
    assert metrics["utilisation_cores"] == 0
    assert metrics["queue_length_max"] == 0
    assert metrics["throughput_jobs_per_h"] == 0


@pytest.mark.parametrize("window", [(5, 5), (6, 5), (-1, 5)])
def test_a_window_that_is_no_stretch_of_time_is_refused(window: tuple[int, int]) -> None:
    with pytest.raises(InputError, match="window"):
        simulate(FOUR, JOBS, "fcfs", window_us=window)


def test_an_unknown_tie_rule_is_refused() -> None:
    with pytest.raises(InputError, match="submit-first"):
        simulate(FOUR, JOBS, "fcfs", world=World(ties="start-first"))


def test_memory_is_measured_only_where_all_of_it_is_counted() -> None:
    counted = Cluster.homogeneous(nodes=2, cores=2, memory=10)
    metrics = simulate(counted, work(J(0, 10, 2, mb=3), J(0, 20, 1, mb=4)), "fcfs").metrics
    assert metrics["utilisation_memory"] == pytest.approx((60 + 80) / (20 * 20))
    partly = Cluster.from_dict({"nodes": [{"count": 1, "cores": 2, "memory": 10}, {"count": 1, "cores": 2}]})
    assert simulate(partly, work(J(0, 10, mb=3)), "fcfs").metrics["utilisation_memory"] is None


def test_nothing_is_divided_by_where_no_time_passes() -> None:
    metrics = simulate(FOUR, work(J(3, 0)), "fcfs").metrics
    assert metrics["jobs_finished"] == 1
    assert metrics["slowdown_mean"] is None
    assert metrics["bounded_slowdown_mean"] == 1
    assert metrics["utilisation_cores"] is metrics["throughput_jobs_per_h"] is None
    assert metrics["makespan_s"] == 0


def test_a_run_of_rejected_jobs_only_has_counts_and_nulls() -> None:
    metrics = simulate(FOUR, work(J(3, 5, 9)), "fcfs").metrics
    assert (metrics["jobs_finished"], metrics["jobs_rejected"]) == (0, 1)
    assert metrics["wait_s_mean"] is metrics["makespan_s"] is None


def test_cores_that_are_down_are_not_counted_as_idle() -> None:
    faults = [Fault("node3", 0, 5 * S), Fault("node2", 2 * S, 100 * S)]
    metrics = simulate(FOUR, work(J(0, 10)), "fcfs", world=World(faults=faults)).metrics
    assert metrics["utilisation_cores"] == pytest.approx(10 / (3 * 2 + 2 * 3 + 3 * 5))


def test_integrals_hold_every_row_until_the_next_and_the_last_for_ever() -> None:
    usage = pl.DataFrame({"time_s": [2.0, 5.0, 6.0], "cores_held": [1, 3, 2], "cores_online": [4, 4, 2]})
    assert integrals(usage, 0, 10) == {"cores_held": 3 + 3 + 8, "cores_online": 8 + 12 + 4 + 8}
    assert integrals(usage, 3, 5.5) == {"cores_held": 2 + 1.5, "cores_online": 10}
    assert integrals(usage, 0, 1) == {"cores_held": 0, "cores_online": 4}
    assert integrals(usage, 8, 9) == {"cores_held": 2, "cores_online": 2}
    assert integrals(usage, 5, 5) == {"cores_held": 0, "cores_online": 0}
    assert integrals(usage.head(0), 0, 5) == {"cores_held": 0, "cores_online": 0}


def test_a_breakdown_by_user_has_core_hours_and_the_statistics_of_each() -> None:
    base = table([J(0, 10, 4), J(0, 20, 2), J(20, 40, 3), J(30, 5, 9)])
    jobs = job_table(
        submit_us=base.submit_us, work_us=base.work_us, tasks=base.tasks, user=pl.Series(["bo", "al", "bo", "al"]),
        extra=pl.DataFrame({"queue": [1, 2, 2, 2]}),
    )  # fmt: skip
    result = simulate(FOUR, workload_of(jobs), "fcfs")
    groups = per_group(result.jobs, "user")
    assert groups["user"].to_list() == ["bo", "al"]
    assert groups["jobs"].to_list() == [2, 1]
    assert groups["core_hours"].to_list() == pytest.approx([160 / 3600, 40 / 3600])
    assert groups["wait_s_mean"].to_list() == [5, 10]
    assert groups["wait_s_p95"].to_list() == pytest.approx([9.5, 10])
    assert groups["response_s_max"].to_list() == [50, 30]
    assert per_group(result.jobs, "queue")["jobs"].sum() == 3


def test_every_metric_says_what_it_is() -> None:
    for name, metric in METRICS.items():
        assert metric.name == name
        assert metric.summary
        assert metric.better in ("low", "high", "")
    assert set(measure(simulate(FOUR, JOBS, "fcfs").tables, FOUR)) == set(METRICS)


def test_columns_of_the_trace_are_carried_into_the_jobs_and_never_replace_ours() -> None:
    base = table([J(0, 10)])
    jobs = job_table(
        submit_us=base.submit_us, work_us=base.work_us, tasks=base.tasks, ids=pl.Series(["a-1"]),
        extra=pl.DataFrame({"queue": [3], "wait_s": [99.0]}),
    )  # fmt: skip
    frame = simulate(FOUR, workload_of(jobs), "fcfs").jobs
    assert frame["job"].to_list() == ["a-1"]
    assert frame["queue"].to_list() == [3]
    assert frame["wait_s"].to_list() == [0]
