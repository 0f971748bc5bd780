"""Tables and metrics of lent memory: a small run worked out by hand, and what must hold in any run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_worlds import J, S, table, workload_of
from tries import draws

from unrack.cluster.spec import Cluster
from unrack.ledger.state import Status
from unrack.metric.kinds.memory import MEMORY_METRICS
from unrack.metric.table import METRICS
from unrack.sim.log import RunLog
from unrack.sim.recorder import Outcome, Recorder
from unrack.sim.result import Result
from unrack.sim.simulate import simulate
from unrack.study.grid import load_study
from unrack.study.runner import run_study

FOUR = Cluster.homogeneous(nodes=4, cores=2, memory=100)
JOBS = table([J(0, 10, 1, cores=2, mb=170), J(0, 20, 2, cores=2, mb=40), J(5, 0, 1), J(6, 5, 1)], ids=list("abcd"))
"""a: node 0, 0-10 it fails; again 20-35: 100 MB of its own, 50 of node 3, 20 of node 1.
b: nodes 1 and 2, 10-30: node 1 20 of its own and 20 of node 3; node 2 40 of its own. c: node 0, 10-10. d: never."""


def by_hand() -> Result:
    recorder = Recorder()

    def attempt(
        job: int, start: int, end: int, outcome: Outcome, rows: list[list[int]], loans: list[list[int]]
    ) -> None:
        lent = np.array(loans, np.int64).reshape(-1, 3)
        recorder.attempt(job, start * S, end * S, outcome, np.array(rows, np.int64), lent)

    attempt(0, 0, 10, Outcome.NODE_FAILED, [[0, 1, 1, 2, 100]], [[0, 3, 70]])
    attempt(2, 10, 10, Outcome.FINISHED, [[0, 1, 1, 1, 0]], [])
    attempt(1, 10, 30, Outcome.FINISHED, [[1, 1, 1, 2, 20], [2, 1, 1, 2, 40]], [[1, 3, 20]])
    attempt(0, 20, 35, Outcome.FINISHED, [[0, 1, 1, 2, 100]], [[0, 3, 50], [0, 1, 20]])
    state = np.array([Status.FINISHED, Status.FINISHED, Status.FINISHED, Status.QUEUED], np.int8)
    return Result(RunLog.of(recorder, FOUR, JOBS, state, {}, [], 35 * S), lends=True)


def test_what_was_lent_over_time_is_as_worked_out_by_hand() -> None:
    columns = ["time_s", "memory_mb_held", "memory_mb_lent", "nodes_lending", "nodes_only_lending"]
    assert by_hand().usage.select(columns).rows() == [
        (0, 170, 70, 1, 1), (5, 170, 70, 1, 1), (6, 170, 70, 1, 1), (10, 80, 20, 1, 1), (20, 250, 90, 2, 1),
        (30, 170, 70, 2, 2), (35, 0, 0, 0, 0),
    ]  # fmt: skip


def test_what_a_job_borrowed_is_of_the_attempt_that_finished() -> None:
    columns = ["job", "remote_mb", "remote_share", "lenders", "stretch"]
    assert by_hand().jobs.select(columns).rows() == [
        ("a", 70, pytest.approx(70 / 170), 2, 1.5), ("b", 20, 0.25, 1, 1.0), ("c", 0, None, 0, None),
        ("d", 0, None, 0, None),
    ]  # fmt: skip


def test_loans_come_by_start_and_job_and_then_as_the_policy_made_them() -> None:
    assert by_hand().table("loans").rows() == [
        ("a", 1, 1, 0, 10, 0, 3, 70), ("b", 1, 1, 10, 30, 1, 3, 20),
        ("a", 2, 1, 20, 35, 0, 3, 50), ("a", 2, 1, 20, 35, 0, 1, 20),
    ]  # fmt: skip


def test_every_metric_of_lent_memory_has_the_value_worked_out_by_hand() -> None:
    metrics = by_hand().measured
    found = {name: metrics[name] for name in MEMORY_METRICS}
    lent, held = 70 * 10 + 20 * 10 + 90 * 10 + 70 * 5, 170 * 10 + 80 * 10 + 250 * 10 + 170 * 5
    assert found == {
        "remote_share": pytest.approx(lent / held),
        "nodes_lending": pytest.approx((10 + 10 + 20 + 10) / (4 * 35)),
        "memory_only_nodes": pytest.approx((10 + 10 + 10 + 10) / (4 * 35)),
        "jobs_remote": pytest.approx(2 / 3),
        "stretch_mean": 1.25, "stretch_median": 1.25, "stretch_p95": pytest.approx(1.475), "stretch_max": 1.5,
    }  # fmt: skip
    assert metrics["utilisation_memory"] == pytest.approx(held / (400 * 35))
    assert list(metrics) == [*METRICS, *MEMORY_METRICS]


def test_the_tables_of_a_policy_that_does_not_lend_say_nothing_of_lending() -> None:
    result = simulate(FOUR, workload_of(table([J(0, 10, 2, cores=2, mb=50)])), "easy")
    assert not result.lends
    assert {"memory_mb_lent", "nodes_lending"}.isdisjoint(result.usage.columns)
    assert {"remote_mb", "stretch"}.isdisjoint(result.jobs.columns)
    assert list(result.metrics) == list(METRICS)
    assert len(result.table("loans")) == 0


def test_a_run_without_jobs_has_all_columns_and_no_numbers() -> None:
    result = simulate(FOUR, workload_of(table([])), "disaggregated(scheduler=easy)")
    assert len(result.table("loans")) == 0
    assert "nodes_only_lending" in result.usage.columns
    assert {result.metrics[name] for name in MEMORY_METRICS} == {None}


JOB = st.builds(
    J, submit=st.integers(0, 40), run=st.integers(0, 30), tasks=st.integers(1, 3), cores=st.just(2),
    mb=st.integers(0, 180), request=st.none(), priority=st.just(0),
)  # fmt: skip


@pytest.mark.long
@draws(60)
@given(
    st.lists(JOB, min_size=1, max_size=12),
    st.sampled_from(["disaggregated(scheduler=fcfs)", "strawman(scheduler=easy)", "local(scheduler=easy)"]),
)
def test_memory_held_and_lent_over_time_is_what_the_jobs_held_and_lent(jobs: list[J], policy: str) -> None:
    result = simulate(FOUR, workload_of(table(jobs)), policy)
    usage, own, loans = result.usage, result.jobs.filter(pl.col("state") == "finished"), result.table("loans")
    lengths = np.diff(usage["time_s"].to_numpy())
    held, lent = (float(lengths @ usage[name].to_numpy()[:-1]) for name in ("memory_mb_held", "memory_mb_lent"))
    assert held == pytest.approx((own["memory_mb"] * own["run_s"]).sum())
    assert lent == pytest.approx((own["remote_mb"] * own["run_s"]).sum())
    assert lent == pytest.approx((loans["mb"] * (loans["end_s"] - loans["start_s"])).sum())
    placed = result.placements
    for time, lending, only in usage.select("time_s", "nodes_lending", "nodes_only_lending").rows():
        now = (pl.col("start_s") <= time) & (pl.col("end_s") > time)
        lenders = set(loans.filter(now)["lender"])
        computing = {
            node for first, count in placed.filter(now).select("first_node", "nodes").rows()
            for node in range(first, first + count)
        }  # fmt: skip
        assert (lending, only) == (len(lenders), len(lenders - computing))


STUDY = """
policies = ["baseline", "disaggregated"]

[[clusters]]
nodes = [{ count = 4, cores = 2, memory = "1 GB" }]

[[workloads]]
name = "made"
generate = { jobs = 20, arrivals = { gap_s = 1 }, classes = [{ run_s = 60, cores = 2, memory_mb = MB }] }
"""


@pytest.mark.long
@pytest.mark.parametrize("mb", [1000, 1500])
def test_a_kept_run_has_a_table_of_loans_where_anything_was_lent(tmp_path: Path, mb: int) -> None:
    path = tmp_path / "study.toml"
    path.write_text(STUDY.replace("MB", str(mb)))
    rows = run_study(load_study(str(path)), tmp_path / "out")
    there = {row["policy"]: (tmp_path / "out" / "runs" / row["run"] / "loans.parquet") for row in rows}
    assert not there["baseline"].exists()
    assert there["disaggregated"].exists() == (mb > 1024)
    shares = {row["policy"]: row["remote_share"] for row in rows}
    assert shares["baseline"] is None
    assert shares["disaggregated"] == (0 if mb == 1000 else pytest.approx((1500 - 1024) / 1500))


def test_every_column_of_lent_memory_is_described() -> None:
    text = (Path(__file__).parents[2] / "docs" / "result-tables.md").read_text()
    result = by_hand()
    for name in ("jobs", "usage", "loans"):
        rows = text[text.index(f"\n**{name}**") :].split("\n\n")[1]
        for column in result.table(name).columns:
            assert f"`{column}`" in rows, f"{column} of {name}"
    described = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()
    for name in MEMORY_METRICS:
        assert f"`{name}`" in described[described.index("## Lent memory") :], name
