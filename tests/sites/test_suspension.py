"""Suspension: the engine against a scheduler in plain Python, and laws of it under several disciplines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from suspending import Suspending, mixed_suspending_site, suspending_site

import unrack
from unrack.cluster.spec import Cluster
from unrack.errors import PolicyError, RefusedError
from unrack.metric.audit.audit import violations
from unrack.metric.audit.tables import Tables
from unrack.policy.contract import Requeue, Resume, Suspend
from unrack.policy.table import parse_policy
from unrack.reasons import Code, Reason
from unrack.sim.explained.job import explain
from unrack.sim.faults import Fault
from unrack.sim.result import Result
from unrack.sim.simulate import prepared
from unrack.sim.world import World
from unrack.workload.formats.rules import Intake
from unrack.workload.job import Workload, job_table


@pytest.mark.parametrize("seed", range(60))
def test_first_come_first_served_with_suspension_of_the_youngest(seed: int) -> None:
    site = suspending_site(seed)
    twin = Suspending(site)
    twin.run(None)
    found = unrack.simulate(site.cluster, site.workload, "fcfs").placements
    columns = found.select("job", "start_s", "end_s", "cores_per_node", "outcome").iter_rows()
    rows = {(int(job) - 1, round(start), round(end), cores > 0, how) for job, start, end, cores, how in columns}
    assert rows == set(twin.told)


POLICIES = (
    "fcfs", "list(backfill=any, order=sjf)", "easy", "conservative", "slurm", "slurm(main=interval, interval=7 s)",
    "conservative(nodes=whole, place=best-fit)", "conservative(memory=disaggregated)", "disaggregated", "lookahead",
)  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", [0, 1, 3, 4])
def test_suspended_jobs_go_on_and_run_for_as_long_as_they_would(seed: int, policy: str) -> None:
    result = unrack.simulate(*mixed_suspending_site(seed), policy)  # what was held is audited
    jobs = result.jobs
    assert set(jobs["state"]) == {"finished"}
    assert result.metrics["suspensions"] == sum(map(len, result.log.suspended.values()))
    assert result.metrics["suspensions"] > 0 or policy == "disaggregated"
    assert jobs["run_s"].to_list() == pytest.approx(jobs["work_s"].to_list())
    often = jobs.filter((pl.col("suspensions") > 0) & (pl.col("restarts") == 0))
    length = often["end_s"] - often["start_s"] - often["suspended_s"]
    assert length.to_list() == pytest.approx(often["work_s"].to_list())


@pytest.mark.long
@pytest.mark.parametrize(
    "world",
    [
        World(contention="synthetic"),
        World(ties="submit-first"),
        World(faults=[Fault("node1", 10**8, 5 * 10**7), Fault("node3", 22 * 10**7, 10**8)]),
    ],
)
@pytest.mark.parametrize("seed", [0, 1, 3])
def test_worlds_in_which_jobs_are_suspended(seed: int, world: World) -> None:
    result = unrack.simulate(*mixed_suspending_site(seed), "conservative(memory=disaggregated)", world=world)
    assert set(result.jobs["state"]) == {"finished"}
    assert result.jobs["suspensions"].sum() > 0


@pytest.mark.long
@pytest.mark.parametrize("policy", POLICIES[:5])
@pytest.mark.parametrize("seed", range(3))
def test_a_policy_that_begins_anew_after_every_round_suspends_the_same(seed: int, policy: str) -> None:
    cluster, workload = mixed_suspending_site(seed)
    kept, forgetful = (prepared(cluster, workload.jobs, parse_policy(policy)) for _ in range(2))
    one, two = kept.run(), forgetful.run(after_round=lambda now: forgetful.core.begin_anew())
    for name in ("attempt_job", "attempt_start_us", "attempt_end_us"):
        assert getattr(one, name).tolist() == getattr(two, name).tolist()
    assert one.suspended == two.suspended


def small(jobs: list[tuple[int, int, int, int, int, str]], **more: Any) -> tuple[Cluster, Workload]:
    """Two nodes of 4 cores and 8 GB; jobs: submit, work, tasks, cores, MB, partition."""
    partitions = [
        {"name": name, "nodes": ["0", "1"], "tier": tier} for tier, name in enumerate(("low", "mid", "high"), 1)
    ]
    site = {"partitions": partitions, "preempt": {"by": "partition", "mode": "suspend"}, **more.pop("site", {})}
    cluster = Cluster.from_dict({"nodes": [{"count": 2, "cores": 4, "memory": "8 GB"}], "site": site, **more})
    submit, work, tasks, cores, mb = (np.array(column, np.int64) for column in list(zip(*jobs, strict=True))[:5])
    table = job_table(
        submit_us=submit * 10**6, work_us=work * 10**6, request_us=work * 10**6, tasks=tasks, cores=cores, memory_mb=mb,
        extra=pl.DataFrame({"partition": [job[5] for job in jobs]}),
    )  # fmt: skip
    return cluster, Workload("small", table, Intake("", "", 0, 0))


def times(result: Result) -> list[tuple[float, float]]:
    """Start and end of each job."""
    return list(result.jobs.select("start_s", "end_s").iter_rows())


@pytest.mark.parametrize(
    ("what", "more", "slower"),
    [
        ({"links": {"mb_s": 1000, "profiles": {"a": [50, 75]}}}, {("links", "mb_s"): [1000, 1, 0]}, 2),
        ({"links": {"mb_s": 1000, "profiles": {"a": [50, 75]}}}, {("links", "mb_s"): [500, 1, 0]}, 1.5),
        ({"gpus": {"machine": "minsky", "profiles": "beside.csv"}}, {("gpus", "count"): [1, 1, 0]}, 2),
    ],
)
def test_a_suspended_job_slows_no_other_down(
    what: dict[str, Any], more: dict[tuple[str, str], Any], slower: float, tmp_path: Path, monkeypatch: Any
) -> None:
    """Job 2 is beside job 1 on a link or a socket, which stands from 10 s to 60 s and keeps what it has there."""
    monkeypatch.chdir(tmp_path)
    Path("beside.csv").write_text("kind,application,other,factor\nbeside,a,b,2\n")
    if "links" in what:
        what = {"links": {**what["links"], "oversubscribe": 2}}
    qos = [{"name": "high", "preempts": ["low"]}, {"name": "low"}]
    site = {"qos": qos, "preempt": {"by": "qos", "mode": "suspend"}}
    cluster = Cluster.from_dict({"nodes": [{"count": 1, "cores": 2}], "site": site, **what})
    jobs = job_table(
        submit_us=np.array([0, 0, 10]) * 10**6, work_us=np.array([300, 100, 50]) * 10**6, tasks=np.ones(3, np.int64),
        app=pl.Series(["b", "a", "c"]), extra=pl.DataFrame({"qos": ["low", "", "high"]}),
        devices={key: np.array(amounts) for key, amounts in more.items()},
    )  # fmt: skip
    result = unrack.simulate(cluster, Workload("by hand", jobs, Intake("", "", 0, 0)), "fcfs(gpus=first-fit)")
    assert result.jobs["suspended_s"].to_list() == [50, 0, 0]
    assert result.jobs["end_s"].to_list() == pytest.approx([350, 60 + (100 - 10 / slower - 50) * slower, 60], abs=1e-5)


def test_a_gang_is_suspended_wholly_and_its_cores_are_kept_from_its_equals() -> None:
    jobs = [
        (0, 100, 2, 4, 100, "low"),
        (10, 50, 1, 2, 100, "high"),
        (20, 5, 1, 1, 100, "low"),
        (30, 5, 1, 1, 0, "high"),
    ]
    for policy in ("fcfs", "easy", "conservative", "slurm", "list(backfill=any)"):
        result = unrack.simulate(*small(jobs), policy)
        assert times(result) == [(0, 150), (10, 60), (150, 155), (30, 35)]
        assert result.metrics["suspended_h"] == pytest.approx(50 / 3600)


def test_who_does_not_fit_beside_the_memory_that_is_kept_suspends_nobody() -> None:
    result = unrack.simulate(*small([(0, 100, 2, 4, 5000, "low"), (10, 50, 1, 2, 5000, "high")]), "easy")
    assert times(result) == [(0, 100), (100, 150)]
    assert result.metrics["suspensions"] == 0


@pytest.mark.parametrize("mode", ["suspend", "requeue"])
@pytest.mark.parametrize("forgets", [False, True])
def test_reservations_move_forward_when_a_job_that_was_to_start_gives_way(mode: str, forgets: bool) -> None:
    jobs = [(0, 100, 2, 4, 0, "high"), (1, 300, 2, 4, 0, "low"), (2, 10, 2, 4, 0, "low"), (50, 10, 2, 4, 0, "high")]
    # at 100 s the last one takes the place of the second, which would then wait until the third has had its own
    cluster, workload = small(jobs, site={"preempt": {"by": "partition", "mode": mode}})
    kernel = prepared(cluster, workload.jobs, parse_policy("conservative"))
    log = kernel.run(after_round=lambda now: kernel.core.begin_anew() if forgets else None)
    starts = zip(log.attempt_job.tolist(), (log.attempt_start_us // 10**6).tolist(), strict=True)
    assert sorted(starts) == [(0, 0), (1, 120), (2, 110), (3, 100)]


def test_room_that_was_kept_for_a_suspended_job_is_given_away_when_a_node_of_it_fails() -> None:
    jobs = [(0, 50, 2, 4, 100, "low"), (10, 100, 1, 4, 0, "high"), (20, 60, 1, 4, 0, "low")]
    world = World(faults=[Fault("node1", 60 * 10**6, 1000 * 10**6)])  # the first was booked to end at 50 s
    result = unrack.simulate(*small(jobs), "conservative", world=world)
    assert times(result) == [(1060, 1110), (10, 110), (110, 170)]


def test_three_tiers_suspend_each_other_and_go_on_in_order() -> None:
    jobs = [(0, 100, 2, 4, 0, "low"), (10, 100, 2, 3, 0, "mid"), (20, 100, 2, 2, 0, "high"), (30, 10, 2, 2, 0, "mid")]
    result = unrack.simulate(*small(jobs), "easy")
    # from 20 on 2 cores a node are free, of which the second job waits for 3 and goes on before the fourth starts
    assert times(result) == [(0, 310), (10, 210), (20, 120), (210, 220)]


def test_a_node_that_fails_under_a_suspended_job_ends_its_attempt() -> None:
    jobs = [(0, 100, 1, 4, 100, "low"), (10, 50, 1, 4, 100, "high"), (11, 200, 1, 4, 0, "high")]
    world = World(faults=[Fault("node0", 30 * 10**6, 10 * 10**6)])
    result = unrack.simulate(*small([*jobs, (12, 100, 1, 4, 0, "high")]), "fcfs", world=world)
    assert result.jobs["restarts"][0] == 1
    assert result.jobs["run_s"][0] == 100
    outcomes = result.placements.filter(pl.col("job") == 1)["outcome"].to_list()
    assert outcomes[0] == "node-failed"


def test_a_suspended_job_goes_on_when_nodes_are_kept_for_nobody() -> None:
    site = {"reservations": [{"name": "w", "start": 50, "duration": 60, "nodes": ["0"], "maintenance": True}]}
    result = unrack.simulate(*small([(0, 45, 2, 4, 0, "low"), (10, 20, 1, 4, 0, "high")], site=site), "easy")
    assert times(result) == [(0, 145), (10, 30)]  # 35 s are left at 30 s, and 20 s until the window


@pytest.mark.parametrize("policy", POLICIES[:6])
def test_tiers_that_never_meet_change_no_schedule(policy: str) -> None:
    cluster, workload = mixed_suspending_site(2)
    apart = [
        {"name": "low", "nodes": ["0", "1"]},
        {"name": "mid", "nodes": ["2"]},
        {"name": "high", "nodes": ["3", "4"]},
    ]
    classes = [{"count": 3, "cores": 4, "memory": "8 GB"}, {"count": 2, "cores": 6, "memory": "8 GB"}]
    extra = workload.jobs.extra.with_columns(pl.col("partition").replace({"": "low"}))
    table = job_table(
        submit_us=workload.jobs.submit_us, work_us=workload.jobs.work_us, request_us=workload.jobs.request_us,
        tasks=np.minimum(workload.jobs.tasks, 1), cores=workload.jobs.cores, extra=extra,
    )  # fmt: skip
    own = Workload("apart", table, Intake("", "", 0, 0))
    tiers = [{**one, "tier": tier} for tier, one in enumerate(apart, 1)]
    site = {"partitions": tiers, "preempt": {"by": "partition", "mode": "suspend"}}
    with_tiers = unrack.simulate(Cluster.from_dict({"nodes": classes, "site": site}), own, policy)
    without = unrack.simulate(Cluster.from_dict({"nodes": classes, "site": {"partitions": apart}}), own, policy)
    assert times(with_tiers) == times(without)
    assert cluster.total_cores == 24


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [("cores_per_node", 1, "holds no cores for"), ("memory_mb_per_node", 0, "holds other memory")],
)
def test_the_audit_finds_cores_that_were_not_given_back_and_memory_that_was(
    column: str, value: int, words: str
) -> None:
    result = unrack.simulate(*small([(0, 100, 2, 4, 100, "low"), (10, 50, 1, 2, 100, "high")]), "easy")
    tables = {name: result.tables[name] for name in result.tables}
    assert violations(Tables(result.log.cluster, tables)) == []
    stands = pl.col("cores_per_node") == 0
    tables["placements"] = tables["placements"].with_columns(
        pl.when(stands).then(value).otherwise(pl.col(column)).alias(column)
    )
    assert any(words in str(found) for found in violations(Tables(result.log.cluster, tables)))


def test_a_plan_that_is_refused_leaves_suspended_jobs_as_they_were() -> None:
    cluster, workload = small([(0, 100, 2, 4, 100, "low"), (10, 50, 1, 2, 100, "high")])
    kernel = prepared(cluster, workload.jobs, parse_policy("easy"))
    state, core, seen = kernel.core.state, kernel.core, list[int]()

    def refuse(now: int) -> None:
        if now != 10**7 or seen:
            return
        free, version = state.free.copy(), state.version
        seen.append(now)
        for plan in (
            [Resume(0)],
            [Requeue(1, Reason(Code.NOT_YET)), Resume(0), Suspend(0, Reason(Code.NOT_YET)), Resume(1)],
        ):
            with pytest.raises(RefusedError):
                core.commit(plan, now)
            assert (state.free == free).all()
            assert state.version == version
            assert list(state.suspended) == [0]

    log = kernel.run(after_round=refuse)
    assert seen
    assert log.attempt_end_us.tolist() == [60 * 10**6, 150 * 10**6]


def test_explain_tells_for_whom_a_job_was_suspended() -> None:
    cluster, workload = small([(0, 100, 2, 4, 100, "low"), (10, 50, 1, 2, 100, "high")])
    changes = explain(cluster, workload.jobs, parse_policy("easy"), 0).attempts[0].changes
    assert [(change.at_us, change.cores, change.suspended) for change in changes] == [
        (10**7, 0, "for job 2"), (6 * 10**7, 8, ""),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ("flow(interval=5 s)", "rounds of its own"),
        ("easy(memory=naive, provisioning=dynamic)", "changes the memory"),
        ("easy(resizing=fpsma)", "sizes"),
    ],
)
def test_policies_that_suspension_does_not_go_with_are_refused(policy: str, words: str) -> None:
    with pytest.raises(PolicyError, match=words):
        unrack.simulate(*small([(0, 10, 1, 1, 0, "low"), (0, 10, 1, 1, 0, "high")]), policy)


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, 2, 4, 6])
def test_predictions_know_for_how_long_jobs_stood(seed: int) -> None:
    cluster, workload = mixed_suspending_site(seed)
    result = unrack.simulate(cluster, workload, "easy++")
    forgetful, jobs = prepared(cluster, workload.jobs, parse_policy("easy++")), result.jobs
    log = forgetful.run(after_round=lambda now: forgetful.core.begin_anew())
    assert log.attempt_start_us.tolist() == result.log.attempt_start_us.tolist()
    assert log.suspended == result.log.suspended
    assert set(jobs["state"]) == {"finished"}
    assert jobs["suspensions"].sum() > 0
    assert jobs["run_s"].to_list() == pytest.approx(jobs["work_s"].to_list())


def test_a_suspended_job_of_a_flexible_reservation_goes_on_before_it_begins() -> None:
    kept = {"name": "course", "nodes": ["0"], "start": 50, "duration": 150, "flex": True}
    parts = [{"name": "low", "nodes": ["0"]}, {"name": "high", "nodes": ["0"], "tier": 2}]
    site = {"partitions": parts, "reservations": [kept], "preempt": {"by": "partition", "mode": "suspend"}}
    work = np.array([60, 20]) * 10**6
    jobs = job_table(
        submit_us=np.array([0, 10]) * 10**6, work_us=work, request_us=work, tasks=np.ones(2), cores=np.full(2, 2),
        extra=pl.DataFrame({"partition": ["low", "high"], "reservation": ["course", ""]}),
    )  # fmt: skip
    cluster = Cluster.from_dict({"nodes": [{"count": 1, "cores": 2}], "site": site})
    found = unrack.simulate(cluster, Workload("flex", jobs, Intake("", "", 0, 0)), "fcfs").jobs
    assert found.sort("job").select("start_s", "end_s").rows() == [(0, 80), (10, 30)]
