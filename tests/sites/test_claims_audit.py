"""The audit of what a site says: on which nodes jobs run and what they claim, after what and beside what they start."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import unrack
from unrack.cluster.spec import Cluster
from unrack.metric.audit.audit import violations
from unrack.metric.audit.tables import Tables
from unrack.workload.formats.rules import Intake
from unrack.workload.job import Workload, job_table

S = 10**6
SITE = {
    "nodes": [{"count": 4, "cores": 2}],
    "counted": [{"name": "licence", "amount": 40}],
    "site": {"partitions": [{"name": "left", "nodes": ["0-1"]}, {"name": "right", "nodes": ["2-3"]}]},
}


@pytest.fixture(scope="module")
def tables() -> tuple[Cluster, dict[str, pl.DataFrame]]:
    """Three jobs in each of two partitions; every other one has a licence."""
    table = job_table(
        submit_us=np.zeros(6, np.int64), work_us=np.full(6, 10**7), request_us=np.full(6, 10**7),
        tasks=np.array([2, 1, 1, 2, 1, 1]), devices={("counted", "licence"): np.array([1, 0, 1, 0, 1, 0])},
        extra=pl.DataFrame({"partition": ["left", "right"] * 3}),
    )  # fmt: skip
    found = unrack.simulate(Cluster.from_dict(SITE), Workload("w", table, Intake("", "", 0, 0)), "easy")
    return found.log.cluster, dict(found.tables.items())


def said(cluster: Cluster, tables: dict[str, pl.DataFrame]) -> list[str]:
    return [str(one) for one in violations(Tables(cluster, tables))]


def test_a_run_as_it_was_has_nothing(tables: tuple[Cluster, dict[str, pl.DataFrame]]) -> None:
    assert said(*tables) == []


@pytest.mark.parametrize("row", range(6))
def test_a_job_on_nodes_of_another_partition_is_found(
    row: int, tables: tuple[Cluster, dict[str, pl.DataFrame]]
) -> None:
    cluster, held = tables
    placed = held["placements"].with_row_index()
    other = pl.when(pl.col("index") == row).then((pl.col("first_node") + 2) % 4).otherwise(pl.col("first_node"))
    moved = placed.with_columns(other.cast(placed["first_node"].dtype).alias("first_node")).drop("index")
    job = placed["job"][row]
    assert f"at 0.000000 s: job {job} claims something else than it asks where it runs" in said(
        cluster, held | {"placements": moved}
    )


@pytest.mark.parametrize(("what", "change"), [
    ("claims something else than it asks where it runs", {"amount": pl.col("amount") + 1}),
    ("has a claim that lasts for another time than its span", {"end_s": pl.col("end_s") + 1}),
])  # fmt: skip
def test_a_claim_of_another_amount_or_time_is_found(
    what: str, change: dict[str, pl.Expr], tables: tuple[Cluster, dict[str, pl.DataFrame]]
) -> None:
    cluster, held = tables
    assert any(what in one for one in said(cluster, held | {"claims": held["claims"].with_columns(**change)}))


def test_a_claim_that_is_missing_is_found(tables: tuple[Cluster, dict[str, pl.DataFrame]]) -> None:
    cluster, held = tables
    assert any("claims something else" in one for one in said(cluster, held | {"claims": held["claims"][1:]}))


def ran(policy: str = "fcfs", site: dict[str, Any] | None = None, seats: int = 0) -> unrack.Result:
    """Three jobs, from 0, 10 and 20 s on, that run for 30 s and ask for 60; the last is wider than the cluster."""
    cluster = {"nodes": [{"count": 4, "cores": 1}], "counted": [{"name": "seat", "amount": 4}], "site": site or {}}
    table = job_table(
        submit_us=np.array([0, 10, 20]) * S, work_us=np.full(3, 30 * S), request_us=np.full(3, 60 * S),
        tasks=np.array([1, 1, 5]), devices={("counted", "seat"): np.full(3, seats)},
    )  # fmt: skip
    return unrack.simulate(Cluster.from_dict(cluster), Workload("w", table, Intake("", "", 0, 0)), policy)


@pytest.mark.parametrize(("text", "wrong"), [
    ("after:1", False), ("after:1+1", True), ("afterok:1", True), ("afterany:1", True), ("afternotok:3", False),
    ("afterok:3", True), ("afterany:3?afterok:1", False), ("afterok:1?afterany:1", True), ("after:1,afterany:1", True),
])  # fmt: skip
def test_a_job_that_starts_before_what_it_waits_for_has_come_is_found(text: str, wrong: bool) -> None:
    """The second, at 10 s, in the midst of the first; the third is turned away."""
    found = ran()
    jobs = found.jobs.with_columns(dependency=pl.Series([None, text, None]))
    words = ["at 10.000000 s: job 2 starts before what it waits for has come"] if wrong else []
    assert said(found.log.cluster, dict(found.tables.items()) | {"jobs": jobs}) == words


def test_a_job_that_waits_for_one_that_ended_starts_and_one_that_begins_before_its_time_is_found() -> None:
    found = ran()
    tables = dict(found.tables.items())
    late = found.jobs.with_columns(begin_s=pl.Series([0.0, 11.0, 0.0]))
    assert "job 2 starts before what it waits for" in "".join(said(found.log.cluster, tables | {"jobs": late}))
    kept = late.with_columns(begin_s=pl.Series([0.0, 10.0, 0.0]))
    assert said(found.log.cluster, tables | {"jobs": kept}) == []


@pytest.mark.parametrize(("start", "words"), [
    (5, "at 10.000000 s: job 2, attempt 1, starts"), (59, "at 10.000000 s: job 2, attempt 1, is given time"),
    (60, "at 10.000000 s: job 2, attempt 1, is given time"), (70, ""), (-90, ""),
])  # fmt: skip
def test_a_job_that_starts_before_a_reservation_and_asks_to_run_into_it_is_found(start: int, words: str) -> None:
    """On the node of the second, 1, whether it is over by then or not: when it started, that was not known."""
    found = ran()
    kept = {"site": {"reservations": [{"name": "r", "nodes": ["1"], "start": start, "duration": 50}]}}
    cluster = Cluster.from_dict({"nodes": [{"count": 4, "cores": 1}], **kept})
    told = [one for one in said(cluster, {**found.tables, "jobs": found.jobs}) if "kept for others" in one]
    assert told == ([f"{words} on a node kept for others"] if words else [])


@pytest.mark.parametrize("policy", ["easy", "conservative", "slurm"])
def test_a_policy_that_knows_how_long_jobs_run_lets_them_run_up_to_a_reservation(policy: str) -> None:
    """The run failed, by its audit: what both ask for reaches into it."""
    kept = {"reservations": [{"name": "r", "nodes": ["2"], "start": 45, "duration": 50, "licences": {"seat": 2}}]}
    assert ran(policy, kept, seats=2).jobs["start_s"].to_list() == [0, 30, None]
    assert ran(f"{policy}(estimates=exact)", kept, seats=2).jobs["start_s"].to_list() == [0, 10, None]
