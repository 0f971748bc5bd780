"""The audit of claims: jobs on nodes of others, claims of another amount or time, and those that are missing."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import unrack
from unrack.cluster.spec import Cluster
from unrack.metric.audit.audit import violations
from unrack.metric.audit.tables import Tables
from unrack.workload.formats.rules import Intake
from unrack.workload.job import Workload, job_table

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
