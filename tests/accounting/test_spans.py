"""A lease that changes has one row a span in every table, and the tables say what was held when and where."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from scripted import Scripted
from small_worlds import J, S, lease_on, start_on, work

from unrack.cluster.spec import Cluster
from unrack.ledger.lease import Lease, Loan
from unrack.metric.table import integrals, per_group
from unrack.policy.contract import Requeue, Resize, Start
from unrack.reasons import Code, Reason
from unrack.sim.explained.job import explain
from unrack.sim.result import Result
from unrack.sim.simulate import simulate

TWO = Cluster.from_dict({"nodes": [{"count": 2, "cores": 4, "memory": 100}]})


def held_core_s(result: Result) -> float:
    """Core-seconds, from the placements alone."""
    rows = result.placements
    return float(((rows["end_s"] - rows["start_s"]) * rows["nodes"] * rows["cores_per_node"]).sum())


def moved() -> Result:
    """4 cores of node 0 for 8 s, then 1 core of node 1 for 2 s."""
    plan = {0: [start_on(0, 0, cores=4)], 8: [Resize(lease_on(0, 1, cores=1))]}
    return simulate(TWO, work(J(0, 10)), Scripted(plan))


def test_a_job_that_moved_held_34_core_seconds_where_it_was() -> None:
    result = moved()
    columns = ["attempt", "span", "start_s", "end_s", "first_node", "nodes", "tasks_per_node", "cores_per_node"]
    assert result.placements.select(columns).rows() == [(1, 1, 0, 8, 0, 1, 1, 4), (1, 2, 8, 10, 1, 1, 1, 1)]
    assert result.placements["outcome"].to_list() == ["finished"] * 2
    assert held_core_s(result) == 34
    assert integrals(result.usage, 0, 10)["cores_held"] == 34
    job = result.jobs.row(0, named=True)
    assert (job["nodes"], job["cores"], job["core_s"], job["run_s"], job["restarts"]) == (1, 4, 34, 10, 0)


def test_metrics_count_what_was_held() -> None:
    result = moved()
    assert result.measured["utilisation_cores"] == pytest.approx(34 / 80)
    assert per_group(result.jobs, "state")["core_hours"].to_list() == [34 / 3600]


def test_the_job_leaves_the_queue_once() -> None:
    usage = moved().usage
    assert usage["queued_jobs"].to_list() == [0] * len(usage)
    assert usage["queued_cores"].to_list() == [0] * len(usage)
    assert usage["running_jobs"].to_list() == [1, 1, 0]


def test_changes_before_a_stop_belong_to_the_attempt_that_was_stopped() -> None:
    plan = {
        0: [start_on(0, 0, cores=4)],
        2: [Resize(lease_on(0, 1, cores=2))],
        3: [Resize(lease_on(0, 0, cores=3))],
        4: [Requeue(0, Reason(Code.PREEMPTED, "by a test"))],
        5: [start_on(0, 1)],
    }
    result = simulate(TWO, work(J(0, 10)), Scripted(plan))
    rows = result.placements.select("attempt", "span", "start_s", "end_s", "first_node", "cores_per_node", "outcome")
    assert rows.rows() == [
        (1, 1, 0, 2, 0, 4, "preempted"),
        (1, 2, 2, 3, 1, 2, "preempted"),
        (1, 3, 3, 4, 0, 3, "preempted"),
        (2, 1, 5, 15, 1, 1, "finished"),
    ]
    assert result.jobs["core_s"].to_list() == [10]
    assert result.jobs["restarts"].to_list() == [1]


def test_a_lease_that_is_exchanged_twice_at_one_time_has_no_span_without_length() -> None:
    plan = {0: [start_on(0, 0, cores=4), Resize(lease_on(0, 1)), Resize(lease_on(0, 1, cores=2))]}
    result = simulate(TWO, work(J(0, 10)), Scripted(plan))
    assert result.placements.select("span", "start_s", "end_s", "first_node", "cores_per_node").rows() == [
        (1, 0, 10, 1, 2)
    ]


def borrowing(rows: list[tuple[int, int]], loans: list[Loan]) -> Lease:
    """A lease of job 0: (node, MB) with one task and one core each."""
    nodes = [node for node, _ in rows]
    return Lease.on(0, nodes, [1] * len(nodes), [1] * len(nodes), [mb for _, mb in rows], loans)


def test_loans_and_placements_of_a_changed_lease_say_which_memory_was_held_when() -> None:
    plan = {
        0: [Start(borrowing([(0, 60)], [Loan(0, 1, 40)]))],
        4: [Resize(borrowing([(0, 90)], [Loan(0, 1, 10)]))],
        7: [Resize(borrowing([(0, 100)], []))],
    }
    result = simulate(TWO, work(J(0, 10, mb=100)), Scripted(plan, lends=True))
    assert result.placements.select("span", "start_s", "end_s", "memory_mb_per_node").rows() == [
        (1, 0, 4, 60), (2, 4, 7, 90), (3, 7, 10, 100),
    ]  # fmt: skip
    assert result.table("loans").rows() == [(1, 1, 1, 0, 4, 0, 1, 40), (1, 1, 2, 4, 7, 0, 1, 10)]
    areas = integrals(result.usage, 0, 10)
    assert (areas["memory_mb_held"], areas["memory_mb_lent"], areas["nodes_lending"]) == (1000, 190, 7)
    job = result.jobs.row(0, named=True)
    assert (job["remote_mb"], job["remote_share"], job["lenders"]) == (40, 0.19, 1)


def test_explain_tells_every_change() -> None:
    plan = {0: [start_on(0, 0, cores=4)], 8: [Resize(lease_on(0, 1, cores=1))]}
    story = explain(TWO, work(J(0, 10)).jobs, Scripted(plan), 0)
    (attempt,) = story.attempts
    assert attempt.nodes == ((0, 0),)
    assert [(change.at_us, change.cores, change.nodes) for change in attempt.changes] == [(8 * S, 1, ((1, 1),))]


def test_a_run_whose_leases_do_not_change_has_one_span_an_attempt(tmp_path: Path) -> None:
    result = simulate(TWO, work(*(J(i, 5, cores=1 + i % 4) for i in range(20))), "easy")
    assert result.placements["span"].to_list() == [1] * 20
    job = result.jobs
    assert (job["core_s"] == job["cores"] * job["run_s"]).all()
    result.placements.write_parquet(tmp_path / "p.parquet")
    assert pl.read_parquet(tmp_path / "p.parquet").equals(result.placements)
