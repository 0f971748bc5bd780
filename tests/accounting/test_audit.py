"""The audit passes runs of every kind, and finds every wrong that is planted in their tables."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted import Scripted
from small_worlds import J, S, clusters, job_lists, lease_on, start_on, table, work, workload_of
from tries import draws

import unrack
from unrack.cluster.spec import Cluster
from unrack.errors import RunError
from unrack.ledger.lease import Lease, Loan, Share
from unrack.ledger.state import ClusterState
from unrack.metric.audit.audit import violations
from unrack.metric.audit.tables import Tables
from unrack.policy.contract import Decision, Requeue, Resize, Start
from unrack.reasons import Code, Reason
from unrack.sim.faults import Fault
from unrack.sim.result import Result
from unrack.sim.simulate import simulate
from unrack.sim.world import World
from unrack.view import View
from unrack.workload.job import job_table


def tables_of(result: Result) -> Tables:
    """All tables of a run."""
    return Tables(result.log.cluster, result.tables, result.pace)


def said(tables: Tables) -> str:
    """All that the audit finds, in words."""
    return "\n".join(str(found) for found in violations(tables))


# --- runs that are right ----------------------------------------------------------------------------------------------


@draws(40)
@given(cluster=clusters(), jobs=job_lists(honest=False), policy=st.sampled_from(["fcfs", "easy", "conservative"]),
       faults=st.lists(st.tuples(st.integers(0, 20), st.integers(0, 3), st.integers(0, 6)), max_size=4))  # fmt: skip
def test_random_runs_pass(cluster: Cluster, jobs: list[J], policy: str, faults: list[tuple[int, int, int]]) -> None:
    struck = [Fault(f"node{node % len(cluster)}", at * S, long * S) for at, node, long in faults]
    result = simulate(cluster, workload_of(table(jobs)), policy, world=World(faults=struck))
    assert said(tables_of(result)) == ""


@pytest.mark.parametrize("ties", ["together", "finish-first", "submit-first"])
def test_runs_on_pools_pass_under_every_tie_rule(ties: str) -> None:
    cluster = unrack.Cluster.preset("nvme-pool")
    workload = unrack.generate({"scenario": "nvme-s1", "load": 0.9, "jobs": 200}, seed=2)
    faults = [Fault("node1", 20_000 * S, 9_000 * S), Fault("node1", 21_000 * S, 100 * S)]
    result = simulate(cluster, workload, "first-fit", world=World(models=["smufin"], ties=ties, faults=faults))
    assert result.log.failures
    assert said(tables_of(result)) == ""


def borrowing(mb: int, lent: int) -> Lease:
    """A lease of job 0 on node 0 that borrows of node 1."""
    return Lease.on(0, [0], [1], [2], [mb], [Loan(0, 1, lent)] if lent else [])


def changing() -> Result:
    """Two jobs; the first borrows, shrinks, moves, is stopped with its work kept, and goes on."""
    plan: dict[int, list[Decision]] = {
        0: [Start(borrowing(60, 40)), start_on(1, 1, cores=2, mb=10)],
        4: [Resize(borrowing(50, 10), below=True)],
        7: [Resize(lease_on(0, 2, cores=2, mb=100))],
        8: [Requeue(0, Reason(Code.PREEMPTED, "by a test"), keep_work=True)],
        9: [Start(borrowing(100, 0))],
    }
    cluster = Cluster.from_dict({"nodes": [{"count": 3, "cores": 4, "memory": 100}]})
    workload = work(J(0, 20, cores=2, mb=100), J(0, 12, cores=2, mb=10))
    return simulate(cluster, workload, Scripted(plan, lends=True), world=World(faults=[Fault("node2", 15 * S, 2 * S)]))


def test_changed_leases_loans_stops_and_failures_pass() -> None:
    result = changing()
    assert result.placements["span"].max() == 3
    assert len(result.table("loans")) == 2
    unrack.audit(result)


def test_ids_that_two_jobs_share_are_no_violation() -> None:
    jobs = table([J(0, 5), J(1, 5), J(2, 3)], ids=["a", "a", "b"])
    unrack.audit(simulate(Cluster.homogeneous(1, 1), workload_of(jobs), "fcfs"))


def test_an_empty_workload_passes() -> None:
    unrack.audit(simulate(Cluster.homogeneous(1, 1), workload_of(table([])), "fcfs"))


# --- tables that are wrong --------------------------------------------------------------------------------------------

Frames = dict[str, pl.DataFrame]


def put(table: str, column: str, row: int, value: object) -> Callable[[Frames], None]:
    """Put a value into a table."""

    def change(frames: Frames) -> None:
        old = frames[table]
        values = old[column].to_list()
        values[row] = value
        frames[table] = old.with_columns(pl.Series(column, values, dtype=old[column].dtype))

    return change


def drop(table: str, row: int) -> Callable[[Frames], None]:
    """Leave out a row of a table."""

    def change(frames: Frames) -> None:
        frames[table] = frames[table].filter(pl.int_range(pl.len()) != row)

    return change


def twice(table: str, row: int) -> Callable[[Frames], None]:
    """Put a row of a table in twice."""

    def change(frames: Frames) -> None:
        frames[table] = pl.concat([frames[table], frames[table][row]])

    return change


def late_loan(frames: Frames) -> None:
    """The first loan goes on after its span."""
    put("loans", "end_s", 0, 5.0)(frames)


# Placements: 0: job 1, span 1 (0-4); 1: job 2 (0-12); 2, 3: job 1, spans 2 and 3 (4-7-8); 4: job 1 again (9-21)
WRONGS: list[tuple[Any, str]] = [
    (put("placements", "cores_per_node", 0, 5), "of node 0"),  # more than installed
    (put("placements", "memory_mb_per_node", 1, 70), "MB of node 1"),  # with what is lent there
    (put("loans", "mb", 0, 95), "MB of node 1"),
    (put("placements", "first_node", 1, 7), "nodes that do not exist"),
    (put("placements", "first_node", 1, 2**31 - 1), "nodes that do not exist"),
    (put("placements", "first_node", 4, 2), "node 2, which is down"),
    (put("loans", "lender", 0, 9), "a node that does not exist"),
    (put("loans", "lender", 0, 0), "the node itself"),
    (put("loans", "node", 0, 2), "no task"),
    (late_loan, "for another time"),
    (drop("loans", 0), "less memory than its tasks ask"),
    (put("placements", "tasks_per_node", 1, 2), "another number of tasks"),
    (put("placements", "cores_per_node", 0, 1), "fewer cores"),
    (put("placements", "memory_mb_per_node", 4, 99), "less memory"),
    (put("placements", "start_s", 2, 3.5), "overlap or leave a gap"),
    (put("placements", "start_s", 3, 7.5), "overlap or leave a gap"),
    (put("placements", "start_s", 4, 7.0), "attempts that overlap"),
    (put("placements", "end_s", 1, -1.0), "ends before it starts"),
    (put("placements", "span", 3, 4), "spans that are not numbered"),
    (put("placements", "attempt", 4, 3), "attempts that are not numbered"),
    (put("placements", "outcome", 3, "finished"), "runs again after it has finished"),
    (put("placements", "outcome", 4, "preempted"), "against what its attempts say"),
    (put("placements", "job", 1, 77), "that the jobs table does not have"),
    (twice("placements", 1), "another number of tasks"),
    (drop("placements", 1), "against what its attempts say"),
    (put("jobs", "submit_s", 1, 3.0), "before it was submitted"),
    (put("jobs", "start_s", 1, 1.0), "started at another time"),
    (put("jobs", "end_s", 1, 13.0), "ended at another time"),
    (put("jobs", "wait_s", 1, 2.0), "waited for another time"),
    (put("jobs", "restarts", 0, 0), "restarts"),
    (put("jobs", "cores", 1, 1), "another number of cores"),
    (put("jobs", "nodes", 1, 3), "another number of nodes"),
    (put("jobs", "core_s", 1, 1.0), "other core-seconds"),
    (put("jobs", "state", 1, "queued"), "against what its attempts say"),
    (put("usage", "cores_held", 1, 0), "usage says cores_held 0"),
    (put("usage", "cores_asked", 1, 0), "usage says cores_asked 0"),
    (put("usage", "memory_mb_held", 1, 0), "usage says memory_mb_held 0"),
    (put("usage", "memory_mb_lent", 1, 0), "usage says memory_mb_lent 0"),
    (put("usage", "running_jobs", 1, 0), "usage says running_jobs 0"),
    (put("usage", "queued_jobs", 1, -1), "usage says queued_jobs -1"),
    (put("usage", "cores_online", 1, 4), "usage says cores_online 4"),
    (drop("usage", 2), "no row for a time"),
    (put("usage", "time_s", 2, 6.0), "no row for a time"),
    (drop("failures", 0), "cores_online"),
]  # fmt: skip


@pytest.mark.parametrize(("plant", "words"), WRONGS)
def test_every_planted_wrong_is_found(plant: Callable[[Frames], None], words: str) -> None:
    right = tables_of(changing())
    frames: Frames = dict(right.tables)
    assert {"jobs", "usage", "placements", "loans", "failures"} <= set(frames)
    assert said(replace(right, tables=frames)) == ""
    plant(frames)
    assert words in said(replace(right, tables=frames))


def test_a_loan_of_a_node_of_another_group_or_of_a_pool_of_another_cluster_is_found() -> None:
    right = tables_of(changing())
    apart = replace(right, cluster=replace(right.cluster, lending_group=np.array([0, 1, -1])))
    assert "a node that may not lend to it" in said(apart)
    nodes, pool = {"count": 2, "cores": 4, "memory": "4 MB"}, {"count": 2, "memory": "8 MB", "tier": "far"}
    tiers = [{"name": "local"}, {"name": "far", "cost": 1}]
    tiered = Cluster.from_dict({"nodes": [nodes], "memory_pools": [{"name": "p", **pool}], "tiers": tiers})
    run = tables_of(simulate(tiered, work(J(0, 9, cores=4, mb=8), J(0, 9, cores=4, mb=8)), "slo-first-fit"))
    assert said(run) == ""
    loans = run["loans"]
    swapped = {"loans": loans.with_columns(lender=loans["lender"].reverse())}
    assert "a node that may not lend to it" in said(replace(run, tables={**run.tables, **swapped}))


def on_pools() -> Result:
    """A run in which several jobs share drives."""
    cluster = unrack.Cluster.preset("nvme-pool")
    return simulate(cluster, unrack.generate({"scenario": "nvme-s1", "load": 0.9, "jobs": 60}, seed=1), "first-fit")


DEVICE_WRONGS: list[tuple[Any, str]] = [
    (lambda s: s.with_columns(devices=pl.lit([999], pl.List(pl.Int32))), "a device that does not exist"),
    (lambda s: s.with_columns(devices=pl.lit([0], pl.List(pl.Int32))), "in two compositions at once"),
    (lambda s: s.with_columns(node=pl.lit(99, pl.Int32)), "as their pool forbids"),
    (lambda s: s.with_columns(parts=pl.lit(2, pl.Int32)), "as their pool forbids"),
    (lambda s: s.with_columns(amounts=pl.lit([10**9, 1], pl.List(pl.Int64))), "than it has"),
    (lambda s: s.with_columns(amounts=pl.lit([0, 0], pl.List(pl.Int64))), "less nvme"),
    (lambda s: s.with_columns(end_s=pl.col("end_s") - 1), "for another time than its span"),
    (lambda s: s[1:], "less nvme"),
    (lambda s: s.clear(), "less nvme"),
]


@pytest.mark.parametrize(("plant", "words"), DEVICE_WRONGS)
def test_every_wrong_planted_in_the_shares_is_found(plant: Callable[[pl.DataFrame], pl.DataFrame], words: str) -> None:
    right = tables_of(on_pools())
    assert said(right) == ""
    assert words in said(replace(right, tables={**right.tables, "shares": plant(right["shares"])}))


def sharing() -> Tables:
    """Two jobs that share a drive of 1000 MB/s, 500 each."""
    pool = {"kind": "nvme", "count": 1, "quantities": {"bandwidth_mb_s": 1000}}
    cluster = Cluster.from_dict({"nodes": [{"count": 2, "cores": 4}], "pools": [pool]})
    each, leases = np.full(2, 10 * S, np.int64), [Lease.on(job, [0], [1], [1], [0]) for job in (0, 1)]
    jobs = job_table(
        submit_us=np.zeros(2, np.int64), work_us=each, request_us=each, tasks=np.ones(2, np.int64),
        devices={("nvme", "bandwidth_mb_s"): np.full(2, 500, np.int64)},
    )  # fmt: skip
    starts: list[Decision] = [Start(lease._replace(shares=(Share(0, (0,), (500,)),))) for lease in leases]
    return tables_of(simulate(cluster, workload_of(jobs), Scripted({0: starts})))


@pytest.mark.parametrize(("column", "values", "words"), [
    ("amounts", [[500], [600]], "jobs hold more of device 0 than it has"),
    ("composition", [0, 1], "device 0 is in two compositions"),
    ("node", [0, 1], "a node on which it has no task"),
    ("node", [0, 1], "device 0 is attached to several nodes"),
])  # fmt: skip
def test_what_two_jobs_may_not_do_together_is_found_although_each_alone_may(
    column: str, values: list[object], words: str
) -> None:
    right = sharing()
    assert said(right) == ""
    wrong = right["shares"].with_columns(pl.Series(column, values, dtype=right["shares"][column].dtype))
    assert words in said(replace(right, tables={**right.tables, "shares": wrong}))


def test_devices_of_a_node_that_is_down_may_not_be_held() -> None:
    cluster = unrack.Cluster.preset("nvme-attached")
    workload = unrack.generate({"scenario": "nvme-s1", "load": 0.9, "jobs": 60}, seed=1)
    right = tables_of(simulate(cluster, workload, "first-fit"))
    at = float(right["shares"]["start_s"][0]) + 0.5
    failed = pl.DataFrame({"time_s": [at], "repaired_s": [at + 1], "domain": ["node0"]})
    assert "which is down" in said(replace(right, tables={**right.tables, "failures": failed}))


# --- runs that go wrong -----------------------------------------------------------------------------------------------


class Cheating:
    """Finds the state behind its view and makes room for what has none."""

    def decide(self, view: View, memory: object, now: int) -> tuple[list[Decision], object]:
        """Write 1000 into the free columns; start everybody on node 0."""
        for found in gc.get_objects():
            if type(found) is ClusterState and found.cluster is view.cluster:
                found.free[...] = 1000
        return [start_on(job, 0) for job in view.queue.tolist()], memory


def test_a_policy_that_writes_the_state_fails_its_run() -> None:
    cluster, workload = Cluster.homogeneous(2, 2), work(*(J(0, 10) for _ in range(5)))
    with pytest.raises(RunError, match=r"audit .* at 0.000000 s: jobs hold 3 cores of node 0, which has 2"):
        simulate(cluster, workload, Cheating())
    result = simulate(cluster, workload, Cheating(), audit=False)
    assert result.metrics["jobs_finished"] == 5
    with pytest.raises(RunError, match="node 0"):
        unrack.audit(result)


STUDY = """
name = "cheating"
policies = ["fcfs", {{ file = "{file}:CHEATING" }}]
[[clusters]]
nodes = [{{ count = 2, cores = 2 }}]
[[workloads]]
[workloads.generate]
jobs = 20
arrivals = {{ gap_s = 1 }}
classes = [{{ run_s = 10 }}]
"""
POLICY = """
import gc
from unrack.ledger.state import ClusterState
from unrack.policy import Lease, Start

class Cheating:
    def decide(self, view, memory, now):
        for found in gc.get_objects():
            if type(found) is ClusterState and found.cluster is view.cluster:
                found.free[...] = 1000
        return [Start(Lease.on(job, [0], [1], [1], [0])) for job in view.queue.tolist()], memory

CHEATING = Cheating()
"""


@pytest.mark.long
def test_unrack_run_ends_with_1_and_keeps_the_other_runs(tmp_path: Any) -> None:
    from typer.testing import CliRunner

    from unrack.cli.main import app

    (tmp_path / "cheat.py").write_text(POLICY)
    study = tmp_path / "study.toml"
    study.write_text(STUDY.format(file=tmp_path / "cheat.py"))
    out = str(tmp_path / "out")
    ended = CliRunner().invoke(app, ["run", str(study), "-o", out, "-j", "1", "--no-report"])
    assert ended.exit_code == 1
    assert "audit" in (ended.output + str(ended.exception))
    assert len(list((tmp_path / "out" / "runs").glob("*/run.json"))) == 1
    ended = CliRunner().invoke(app, ["run", str(study), "-o", out, "-j", "1", "--no-report", "--no-audit"])
    assert ended.exit_code == 0, ended.output


def test_what_is_first_in_time_is_named() -> None:
    result = changing()
    tables = tables_of(result)
    wrong = tables["placements"].with_columns(cores_per_node=pl.lit(9, pl.Int32))
    planted = replace(tables, tables={**tables.tables, "placements": wrong})
    first = min(found.at_us for found in violations(planted) if found.at_us >= 0)
    assert first == 0
    assert np.array([found.at_us for found in violations(tables)]).size == 0
