"""Reservations that keep licences, are flexible, or come on some days: laws, words, refusals and the audit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from test_site_laws import NODES, POLICIES, S, jobs_of
from twins import random_licences
from typer.testing import CliRunner

import unrack
from unrack.cli.main import app
from unrack.cluster.spec import Cluster
from unrack.errors import ClusterError
from unrack.metric.audit.audit import violations
from unrack.metric.audit.tables import Tables
from unrack.policy.table import parse_policy
from unrack.report.resource_section import resource_sections
from unrack.report.setting import read_finished, settings_of
from unrack.sim.explained.job import explain
from unrack.workload.formats.rules import Intake
from unrack.workload.job import JobTable, Workload, job_table

SEATS = {"counted": [{"name": "seat", "amount": 4}, {"name": "other", "amount": 2}]}
COURSE = {"name": "course", "licences": {"seat": 3}, "start": 100, "duration": 100}


def table_of(jobs: dict[str, Any], seats: Any, **columns: Any) -> JobTable:
    devices = {("counted", "seat"): np.array(seats, np.int64)}
    return job_table(**jobs, devices=devices, extra=pl.DataFrame(columns) if columns else None)


def run(cluster: dict[str, Any], jobs: dict[str, Any], policy: str, seats: Any, **columns: Any) -> Any:
    workload = Workload("kept", table_of(jobs, seats, **columns), Intake("", "", 0, 0))
    return unrack.simulate(Cluster.from_dict(cluster), workload, policy)


def starts(*how: Any, **columns: Any) -> list[float | None]:
    return list(run(*how, **columns).jobs.sort("job")["start_s"].to_list())


def plain(*times: tuple[int, int]) -> dict[str, Any]:
    """Jobs with one core that are submitted and run so many seconds."""
    work = np.array([run for _, run in times]) * S
    ones = np.ones(len(times), np.int64)
    return {
        "submit_us": np.array([at for at, _ in times]) * S, "work_us": work, "request_us": work, "tasks": ones,
        "cores": ones, "memory_mb": 0 * ones, "user": pl.Series([f"u{i}" for i in range(len(times))]),
    }  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("policy", POLICIES)
def test_a_reservation_of_a_licence_that_nobody_uses_and_one_that_conflicts_with_nobody_change_nothing(
    policy: str, seed: int
) -> None:
    if policy.startswith("flow") and seed == 1:
        pytest.xfail("one network for all nodes: where reservations are, jobs of unlike length are no more one class")
    jobs = jobs_of(seed)
    seats = np.random.default_rng(seed).integers(0, 3, len(jobs["tasks"]))
    unused = [{"name": "r", "licences": {"other": 2}, "start": 20, "duration": 30}]
    far = [{"name": "r", "licences": {"seat": 4}, "nodes": ["0-3"], "start": "90 d", "duration": "1 d", "flex": True}]
    before = starts(NODES | SEATS, jobs, policy, seats)
    for reservations in (unused, far):
        assert starts(NODES | SEATS | {"site": {"reservations": reservations}}, jobs, policy, seats) == before


@pytest.mark.parametrize("policy", [policy for policy in POLICIES if "disaggregated" not in policy])
def test_nobody_takes_what_is_kept_and_nobody_waits_for_ever(policy: str) -> None:
    for seed in range(20, 23):
        site = random_licences(seed, 40)
        found = unrack.simulate(site.cluster, site.workload, policy).jobs["start_s"].to_list()
        for job, start in zip(site.jobs, found, strict=True):
            assert start is not None or job.reservation or not site.possible(job), (seed, job)


@pytest.mark.parametrize("policy", ["list(backfill=any)", "easy", "conservative", "slurm(interval=5 s)"])
def test_who_would_hold_a_licence_when_it_is_kept_does_not_start_and_its_own_jobs_may_take_more(policy: str) -> None:
    cluster = NODES | SEATS | {"site": {"reservations": [COURSE]}}
    jobs = plain((0, 50), (0, 150), (0, 40), (5, 20), (10, 30), (150, 60))
    own = ["", "", "", "", "course", ""]
    assert starts(cluster, jobs, policy, [1, 2, 1, 2, 4, 0], reservation=own) == [0, 200, 0, 5, 100, 150]


def test_who_waits_for_what_is_kept_is_told_so() -> None:
    cluster, jobs = NODES | SEATS | {"site": {"reservations": [COURSE]}}, plain((0, 150), (110, 20), (120, 10))
    table = table_of(jobs, [2, 2, 1])
    for policy in ("easy", "list(backfill=any)", "conservative"):
        story = explain(Cluster.from_dict(cluster), table, parse_policy(policy), 0)
        told = [str(spell.reason) for spell in story.spells]
        assert told[0] == "no-room: counted.seat outside of reservation course, from 100 s on (asked 2, free 1)"
        story = explain(Cluster.from_dict(cluster), table, parse_policy(policy), 1)
        assert str(story.spells[0].reason) == "no-room: counted.seat outside of reservation course (asked 2, free 1)"


def test_jobs_of_a_flexible_reservation_start_before_it_run_beyond_it_and_use_other_nodes() -> None:
    two = {"nodes": [{"count": 2, "cores": 2, "memory": 4}]}
    flexible = {"name": "f", "nodes": ["0"], "start": 50, "duration": 50, "flex": True}
    jobs = plain((0, 10), (0, 200), (60, 500), (120, 5))
    jobs["cores"] = np.full(4, 2)
    for policy in ("easy", "conservative", "slurm(interval=5 s)"):
        found = run(
            two | {"site": {"reservations": [flexible]}}, jobs, policy, [0] * 4, reservation=["", "f", "f", "f"]
        )
        table = found.jobs.sort("job")
        assert table["start_s"].to_list() == [0, 0, 60, None], policy
        assert "over before it came" in table["reason"].to_list()[3]


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"licences": {"seats": 1}}, "there are seat, other"),
        ({"licences": {"seat": 5}}, "at most 4 of seat kept at a time"),
        ({"licences": {"seat": 0}}, "1 or more of seat"),
        ({"licences": {"seat": True}}, "1 or more of seat"),
        ({"licences": ["seat"]}, "a table of amounts"),
        ({}, "nodes, licences or devices of reservation r"),
        ({"nodes": []}, "nodes"),
        ({"licences": {"seat": 1}, "maintenance": True, "flex": True}, "not both"),
        ({"nodes": ["0"], "days": ["mon"]}, "days and start_day together"),
        ({"nodes": ["0"], "days": ["monday"], "start_day": "mon"}, "days"),
        ({"nodes": ["0"], "days": [], "start_day": "mon", "every": "1 d", "until": "9 d"}, "days"),
        ({"nodes": ["0"], "days": ["mon"], "start_day": "mon", "every": "36 h", "until": "9 d"}, "whole days"),
        ({"nodes": ["0"], "days": ["mon"], "start_day": "tue", "every": "1 d", "until": "3 d"}, "on one of which"),
    ],
)
def test_what_cannot_be_kept_is_refused(keys: dict[str, Any], words: str) -> None:
    one = {"name": "r", "start": 0, "duration": 60, **keys}
    with pytest.raises(ClusterError) as error:
        Cluster.from_dict(NODES | SEATS | {"site": {"reservations": [one]}})
    assert words in str(error.value)


def test_counters_of_racks_and_two_reservations_that_keep_more_than_there_is_at_a_time_are_refused() -> None:
    both = [COURSE, {**COURSE, "name": "second", "start": 150, "licences": {"seat": 2}}]
    with pytest.raises(ClusterError, match="5 for course and second"):
        Cluster.from_dict(NODES | SEATS | {"site": {"reservations": both}})
    both[1]["start"] = 200  # when the other is over
    Cluster.from_dict(NODES | SEATS | {"site": {"reservations": both}})
    by_node = {"counted": [{"name": "seat", "amount": 4, "per": "node"}]}
    with pytest.raises(ClusterError, match="of which there are none"):
        Cluster.from_dict(NODES | by_node | {"site": {"reservations": [COURSE]}})


def test_the_audit_finds_who_uses_what_is_kept_for_others() -> None:
    jobs, cluster = plain((0, 150), (120, 10)), NODES | SEATS
    moved = {**COURSE, "start": 1000}
    found = run(cluster | {"site": {"reservations": [moved]}}, jobs, "easy", [2, 1])
    tables = dict(found.tables.items())
    assert violations(Tables(found.log.cluster, tables)) == []
    for start, at in ((100, 0), (-50, 0), (200, None)):
        kept = run(cluster | {"site": {"reservations": [{**COURSE, "start": start}]}}, jobs, "easy", [2, 1]).log.cluster
        wrong = [one for one in violations(Tables(kept, tables)) if "kept for others" in one.what]
        assert [one.at_us for one in wrong] == ([] if at is None else [at * S]), start


@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative", "slurm(interval=1 s)"])
def test_who_overruns_leaves_no_kept_licence_to_others_at_his_booked_end(policy: str) -> None:
    """Others may hold one of four from 100 s on; the first asks for 120 s and runs for 150."""
    jobs = plain((0, 150), (110, 10))
    jobs["request_us"] = np.array([120, 10]) * S
    found = run(NODES | SEATS | {"site": {"reservations": [COURSE | {"duration": 900}]}}, jobs, policy, [1, 1])
    assert found.jobs.sort("job")["start_s"].to_list() == [0, 150]


def test_a_job_with_a_shorter_limit_ends_before_licences_are_kept() -> None:
    cluster, jobs = NODES | SEATS | {"site": {"reservations": [COURSE]}}, plain((10, 150))
    found = run(cluster, jobs, "easy", [2], time_min_s=[30.0]).jobs  # what was held is audited
    assert found.select("start_s", "limit_s", "end_s").row(0) == (10, 90, 100)


def test_the_audit_knows_the_limit_of_the_last_start_alone() -> None:
    """The first has 80 s before licences are kept, is stopped for the second, and has all of its 150 s later."""
    parts = [{"name": "low"}, {"name": "high", "tier": 2}]
    site = {"reservations": [COURSE], "partitions": parts, "preempt": {"by": "partition", "mode": "requeue"}}
    node = {"nodes": [{"count": 1, "cores": 1}]}
    words = {"partition": ["low", "high"], "time_min_s": [30.0, None]}
    found = run(node | SEATS | {"site": site}, plain((20, 150), (50, 100)), "easy", [2, 0], **words).jobs.sort("job")
    assert found.select("start_s", "limit_s").rows() == [(200, None), (50, None)]


def test_who_may_not_use_a_reservation_is_refused_by_name() -> None:
    denied = {**COURSE, "denied_users": ["u0"], "denied_accounts": ["spent"]}
    site = {"accounts": [{"name": "spent"}, {"name": "below", "parent": "spent"}], "reservations": [denied]}
    columns = {"reservation": ["course"] * 3, "account": ["", "below", ""]}
    found = run(NODES | SEATS | {"site": site}, plain((0, 9), (0, 9), (0, 9)), "easy", [1, 1, 1], **columns).jobs
    told = found.sort("job")["reason"].to_list()
    assert "is not for user 'u0'" in told[0]
    assert "is not for account 'below'" in told[1]
    assert found.sort("job")["start_s"].to_list()[2] == 100


def test_the_report_says_who_waited_for_licences_that_were_kept(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(
        "id,submit,run,tasks,cores,user,reservation,counted.seat\n"
        "1,0,20,1,1,ann,,2\n2,0,150,1,1,bob,,2\n3,110,20,1,1,cy,course,3\n4,120,10,1,1,ann,,1\n"
    )
    (tmp_path / "study.toml").write_text(
        'policies = ["easy"]\n[[clusters]]\nnodes = [{ count = 4, cores = 2 }]\n'
        'counted = [{ name = "seat", amount = 4 }]\n[[clusters.site.reservations]]\nname = "course"\n'
        'start = 100\nduration = 100\nlicences = { seat = 3 }\n[[workloads]]\ntrace = "jobs.csv"\n'
    )
    done = CliRunner().invoke(app, ["run", str(tmp_path / "study.toml"), "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    (setting,) = settings_of(read_finished(tmp_path / "out").runs)
    (table,) = [
        one
        for section in resource_sections([setting])
        for _, tables in section.settings
        for one in tables
        if one.title == "Limits"
    ]
    ((policy, words, jobs, held, _, waited, hours, _),) = table.rows
    assert (policy, words) == ("easy", "counted.seat outside of reservation course: 4, less 3 while they are kept")
    assert (jobs, held, waited) == ("3", "2", "1"), table.rows
    assert hours == f"{100 / 3600:.1f}"
