"""Reservations that keep some cores of nodes: laws, words, refusals and the audit."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from test_kept_licences import plain
from test_site_laws import NODES, POLICIES, jobs_of
from tries import seeds, some
from twins import RandomSite, random_cores, random_licences, random_reservations

import unrack
from unrack.cluster.spec import Cluster
from unrack.core import Core
from unrack.errors import ClusterError, PolicyError
from unrack.events import ROUND
from unrack.metric.audit.audit import violations
from unrack.metric.audit.tables import Tables
from unrack.policy.discipline.reservations import SlurmLike
from unrack.policy.discipline.skyline import plan
from unrack.policy.discipline.skyline.plan import Plan
from unrack.policy.discipline.skyline.reserved import Reserved
from unrack.policy.lending.slurm import LentSlurm
from unrack.policy.placement.mixed import Mixed
from unrack.policy.table import parse_policy
from unrack.sim.explained.job import explain
from unrack.view import View
from unrack.workload.formats.rules import Intake
from unrack.workload.job import JobTable, Workload, job_table

SHARED = [one for one in POLICIES if "whole" not in one and not one.startswith("disaggregated")]
TWO = {"nodes": [{"count": 2, "cores": 4, "memory": 8}]}
S = 10**6
CHECKPOINT = {"by": "partition", "mode": "checkpoint"}
COURSE = {"name": "course", "nodes": ["0-1"], "cores": 3, "start": 100, "duration": 100}


def table_of(jobs: dict[str, Any], **columns: Any) -> JobTable:
    return job_table(**jobs, extra=pl.DataFrame(columns) if columns else None)


def run(cluster: dict[str, Any], jobs: dict[str, Any], policy: str, **columns: Any) -> Any:
    workload = Workload("kept", table_of(jobs, **columns), Intake("", "", 0, 0))
    return unrack.simulate(Cluster.from_dict(cluster), workload, policy)


def starts(*how: Any, **columns: Any) -> list[float | None]:
    return list(run(*how, **columns).jobs.sort("job")["start_s"].to_list())


def of(reservation: dict[str, Any], cluster: dict[str, Any] = TWO, **more: Any) -> dict[str, Any]:
    return cluster | {"site": {"reservations": [reservation], **more}}


def misuse(site: RandomSite, tables: Any) -> list[str]:
    """Who holds too many cores of a node while some are kept, from who ran where alone."""
    found = []
    held = tables["placements"].select("job", "first_node", "nodes", "cores_per_node", "start_s", "end_s").rows()
    for at in sorted({row[4] for row in held}):
        for node, cores in enumerate(site.nodes):
            on = [(site.jobs[row[0] - 1], row[3]) for row in held
                  if row[4] <= at < row[5] and row[1] <= node < row[1] + row[2]]  # fmt: skip
            there = {name for name, start, end, _ in site.windows if name in site.parts and start <= at < end}
            own = {name: sum(some for job, some in on if job.reservation == name) for name in there}
            others = sum(some for job, some in on if job.reservation not in there)
            kept = {name: site.parts[name].get(node, 0) for name in there}
            if others + sum(max(own[name], kept[name]) for name in there) > cores:
                found.append(f"{at}: {others} of node {node} by others, {own} of {kept}")
            found += [f"{at}: {own[name]} of {kept[name]} on node {node}" for name in there - site.flex
                      if own[name] > kept[name]]  # fmt: skip
    return found


@pytest.mark.parametrize("policy", SHARED)
def test_nobody_uses_cores_that_are_kept_and_nobody_waits_for_ever(policy: str) -> None:
    for seed in range(20, 24):
        site = random_cores(seed, 40)
        result = unrack.simulate(site.cluster, site.workload, policy)
        assert misuse(site, result.tables) == [], seed
        for job, start in zip(site.jobs, result.jobs.sort("job")["start_s"].to_list(), strict=True):
            assert start is not None or job.reservation or not site.possible(job), (seed, job)


@pytest.mark.long
@pytest.mark.parametrize(
    "policy",
    ["fcfs", "list(backfill=any)", "easy", "easy(backfill_order=sjf)", "easy(order=wfp3)", "conservative",
     "conservative(order=sjf)", "conservative(compress=ends)", "slurm(interval=7 s)",
     "slurm(interval=20 s, reserve=nodes)"],
)  # fmt: skip
@pytest.mark.draws(12)
def test_nodes_are_chosen_in_kernels_as_they_are_outside(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[int]()
    find = Mixed.find

    def counted(self: Any, view: Any, notes: Any, job: int, now: int) -> Any:
        asked.append(job)
        return find(self, view, notes, job, now)

    monkeypatch.setattr(Mixed, "find", counted)
    sites = [random_cores(seed, 50) for seed in range(40, 40 + some(12))]
    inside = [unrack.simulate(site.cluster, site.workload, policy).tables["placements"] for site in sites]
    few = len(asked)
    monkeypatch.setattr(Reserved, "in_pass", False)
    for site, found in zip(sites, inside, strict=True):
        outside = unrack.simulate(site.cluster, site.workload, policy, audit=False).tables["placements"]
        assert outside.equals(found)
    assert few * 10 < len(asked)


@pytest.mark.parametrize("policy", ["conservative", "conservative(order=sjf)", "conservative(compress=ends)"])
@pytest.mark.draws(20)
def test_levels_stay_beside_kept_cores(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "FEW_ROUNDS", 0)
    for seed in seeds(20, 60):
        site = random_cores(seed, 60)
        kept = unrack.simulate(site.cluster, site.workload, policy)
        with monkeypatch.context() as anew:
            anew.setattr(Plan, "keeps", False)
            without = unrack.simulate(site.cluster, site.workload, policy, audit=False)
            assert without.holdings.equals(kept.holdings), seed


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("policy", SHARED)
def test_cores_of_nodes_that_nobody_may_use_or_far_away_change_nothing(policy: str, seed: int) -> None:
    jobs = jobs_of(seed)
    more = {"nodes": [*NODES["nodes"], {"count": 1, "cores": 2, "memory": 4}]}
    parts = [{"name": "main", "nodes": ["0-3"]}, {"name": "other", "nodes": ["4"]}]
    names = ["main"] * len(jobs["tasks"])
    before = starts(more | {"site": {"partitions": parts}}, jobs, policy, partition=names)
    far = {"name": "r", "nodes": ["0-3"], "cores": [1], "start": "90 d", "duration": "1 d"}
    unused = {"name": "r", "nodes": ["4"], "cores": 2, "start": 20, "duration": 30}
    for one in (far, unused, far | {"flex": True}):
        assert starts(of(one, more, partitions=parts), jobs, policy, partition=names) == before


@pytest.mark.parametrize("policy", ["list(backfill=any)", "easy", "conservative", "slurm(interval=5 s)", "first-fit"])
def test_its_own_jobs_have_those_cores_and_others_the_rest(policy: str) -> None:
    jobs = plain((0, 90), (0, 150), (0, 150), (120, 20), (120, 20), (120, 20))
    jobs["cores"] = np.array([4, 1, 2, 3, 2, 1])
    own = ["", "", "", "course", "course", ""]
    # of 2 x 4 cores others have 1 each from 100 s on: the third waits until that is over
    assert starts(of(COURSE), jobs, policy, reservation=own) == [0, 0, 200, 120, 120, 120]
    wide = plain((0, 20), (0, 20))
    wide["cores"], wide["tasks"] = np.array([2, 4]), np.array([2, 1])
    found = run(of(COURSE), wide, policy, reservation=["course", "course"]).jobs.sort("job")
    assert found["start_s"].to_list() == [100, None]  # 3 cores of each node are a task of 2 each, and none of 4
    assert "places for tasks on nodes of reservation course" in found["reason"][1]


def test_maintenance_and_a_reservation_on_each_node_by_itself_take_as_many_cores_as_they_say() -> None:
    jobs = plain((100, 20), (100, 20))
    jobs["cores"] = np.array([3, 4])
    mended = {key: COURSE[key] for key in ("name", "nodes", "start", "duration")} | {"maintenance": True}
    assert starts(of(mended | {"cores": [1]}), jobs, "easy") == [100, 200]
    each = COURSE | {"nodes": ["0", "1"], "cores": [1, 4]}
    assert starts(of(each), jobs, "easy") == [100, 200]
    (written,) = Cluster.from_dict(of(each)).places.written()["site"]["reservations"]
    assert (written["nodes"], written["cores"]) == (["0", "1"], [1, 4])


def test_who_waits_for_cores_that_are_kept_is_told_so() -> None:
    jobs = plain((0, 150), (110, 20))
    jobs["cores"] = np.array([2, 2])
    cluster, table = Cluster.from_dict(of(COURSE)), table_of(jobs)
    for policy in ("easy", "list(backfill=any)", "conservative", "first-fit"):
        told = [str(explain(cluster, table, parse_policy(policy), job).spells[0].reason) for job in (0, 1)]
        words = "no-room: places for tasks of 2 cores outside of reservation course (asked 1, free 0)"
        assert told == [words, words], policy


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"cores": 0}, "greater than or equal to 1"),
        ({"cores": True}, "a whole number"),
        ({"cores": 2.5}, "cores"),
        ({"cores": []}, "cores"),
        ({"cores": 5}, "got 5 for course, wanted at most 4 of the cores of node 0 kept at a time"),
        ({"cores": [1, 2]}, "not 2 beside 1 entries of nodes"),
        ({"nodes": ["0-1", "1"], "cores": [1, 2]}, "1 and 2 of node 1"),
        ({"nodes": None, "cores": 2, "licences": {"seat": 1}}, "cores beside nodes"),
    ],
)
def test_cores_that_cannot_be_kept_are_refused(keys: dict[str, Any], words: str) -> None:
    with pytest.raises(ClusterError) as error:
        Cluster.from_dict(of(COURSE | keys) | {"counted": [{"name": "seat", "amount": 1}]})
    assert words in str(error.value)


def test_two_that_keep_more_cores_of_a_node_at_a_time_than_it_has_are_refused() -> None:
    second = COURSE | {"name": "second", "nodes": ["1"], "cores": 2, "start": 150}
    with pytest.raises(ClusterError, match="got 5 for course and second, wanted at most 4 of the cores of node 1"):
        Cluster.from_dict(TWO | {"site": {"reservations": [COURSE, second]}})
    Cluster.from_dict(TWO | {"site": {"reservations": [COURSE, second | {"start": 200}]}})


def test_what_does_not_go_with_cores_that_are_kept_is_refused() -> None:
    for policy in ("easy(nodes=whole)", "disaggregated(scheduler=conservative)"):
        with pytest.raises(PolicyError, match="reservation course of some cores of nodes"):
            run(of(COURSE), plain((0, 1)), policy)
    parts = [{"name": "low", "preempt_mode": "suspend"}, {"name": "high", "tier": 2}]
    with pytest.raises(ClusterError, match="where jobs are suspended, not cores, as in course"):
        Cluster.from_dict(of(COURSE, partitions=parts, preempt={"by": "partition", "mode": "requeue"}))


def test_a_partition_of_whole_nodes_finds_no_node_of_which_cores_are_kept() -> None:
    jobs, parts = plain((120, 20), (120, 20)), [{"name": "whole", "whole_nodes": True}, {"name": "shared"}]
    found = starts(of(COURSE | {"nodes": ["0"]}, partitions=parts), jobs, "easy", partition=["whole"] * 2)
    assert found == [120, 140]


def test_the_audit_finds_who_uses_cores_that_are_kept_for_others() -> None:
    jobs = plain((0, 150), (0, 150), (120, 10))
    jobs["cores"] = np.array([2, 1, 1])
    found = run(of(COURSE | {"start": 1000}), jobs, "easy")
    tables = dict(found.tables.items())
    assert violations(Tables(found.log.cluster, tables)) == []
    for start, at in ((100, 0), (-50, 0), (200, None)):
        kept = run(of(COURSE | {"start": start}), jobs, "easy").log.cluster
        wrong = [one for one in violations(Tables(kept, tables)) if "kept for others" in one.what]
        assert [one.at_us for one in wrong] == ([] if at is None else [at]), start


@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative", "slurm(interval=7 s)"])
def test_a_job_that_preempts_claims_its_cores_also_where_the_reservation_of_some_is_over(policy: str) -> None:
    """Of those that may be stopped for it a policy is asked that begins then, and sees no window any more."""
    jobs = {
        "submit_us": np.array([20, 40]) * S, "work_us": np.array([50, 10]) * S, "tasks": np.array([2, 1]),
    }  # fmt: skip
    over = {"name": "r", "nodes": ["0"], "cores": 1, "start": 0, "duration": 10, "users": ["other"]}
    partitions = [{"name": "low", "default": True}, {"name": "high", "tier": 2}]
    cluster = of(over, {"nodes": [{"count": 1, "cores": 2}]}, partitions=partitions, preempt=CHECKPOINT)
    found = run(cluster, jobs, policy, partition=["low", "high"])
    assert found.jobs.sort("job")["end_s"].to_list() == [80.0, 50.0]


def single_cores(seed: int, kept: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Honest jobs of tasks of a core that come from 20 s on, and nodes of which a reservation keeps a core."""
    random = np.random.default_rng([31, seed])
    run = random.integers(1, 30, 24) * S
    jobs = {
        "submit_us": np.sort(random.integers(20, 80, 24)) * S, "tasks": random.integers(1, 5, 24),
        "work_us": run, "request_us": run * random.integers(1, 3),
    }  # fmt: skip
    nodes = {"nodes": [{"count": int(random.integers(1, 3)), "cores": int(cores)} for cores in (2, 3)]}
    last = sum(kind["count"] for kind in nodes["nodes"]) - 1
    return jobs, of({"name": "r", "nodes": [f"0-{last}"], "cores": 1, "users": ["other"]} | kept, nodes)


PLANS = ("conservative", "conservative(order=sjf)", "conservative(compress=ends)", "slurm(interval=7 s)")


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """When a core has been asked for a round since the test began, µs."""
    asked, handle = list[int](), Core.handle

    def noted(self: Core, event: Any, now: int) -> Any:
        if event == ROUND:
            asked.append(now)
        return handle(self, event, now)

    monkeypatch.setattr(Core, "handle", noted)
    return asked


@pytest.mark.long
@pytest.mark.parametrize("policy", PLANS)
def test_a_plan_goes_on_to_count_while_no_reservation_of_cores_can_be_met(policy: str, rounds: list[int]) -> None:
    for seed in range(8):
        for kept in ({"start": "90 d", "duration": "1 d"}, {"start": 0, "duration": 15}):
            jobs, cluster = single_cores(seed, kept)
            found, asked = starts(cluster, jobs, policy), rounds.copy()
            rounds.clear()
            assert found == starts({"nodes": cluster["nodes"]}, jobs, policy), seed
            assert [at for at in asked if at != 15 * S] == rounds, seed  # when one is over is told
            rounds.clear()


@pytest.mark.long
@pytest.mark.parametrize(
    "policy",
    ["slurm(interval=1 s)", "slurm(interval=3 s, depth=4)", "slurm(interval=3 s, reserve=nodes)",
     "slurm(interval=3 s, main=interval, order=sjf)", "slurm(interval=2 s, nodes=whole)",
     "slurm(interval=2 s, memory=disaggregated)", "disaggregated(scheduler=slurm, interval=2 s)"],
)  # fmt: skip
@pytest.mark.draws(25)
def test_rounds_that_are_left_out_beside_reservations_would_have_decided_nothing(
    policy: str, monkeypatch: pytest.MonkeyPatch, rounds: list[int]
) -> None:
    def every(self: SlurmLike, view: View, memory: Plan, now: int) -> int | None:
        return (now // self.interval_us + 1) * self.interval_us if view.waiting else None

    makers = (
        random_reservations,
        random_licences,
        *((random_cores,) if "whole" not in policy and not policy.startswith("disaggregated") else ()),
    )
    few = many = 0
    for seed in seeds(25):
        site = makers[seed % len(makers)](seed + 100, 40, exact=seed % 4 == 0)
        found, asked = unrack.simulate(site.cluster, site.workload, policy).holdings, rounds.copy()
        rounds.clear()
        with monkeypatch.context() as always:
            always.setattr(SlurmLike, "next_round", every)
            always.setattr(LentSlurm, "rests_until", lambda self, view, memory, now: now)
            assert found.equals(unrack.simulate(site.cluster, site.workload, policy, audit=False).holdings), seed
        few, many = few + len(asked), many + len(rounds)
        rounds.clear()
    assert 3 * few < 2 * many


def test_no_promise_is_broken_when_a_plan_meets_one_and_tells_nodes_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    decide, named, first = Plan.round, set[bool](), dict[int, int]()

    def looking(self: Plan, view: Any, jobs: Any, *given: Any) -> Any:
        found = decide(self, view, jobs, *given)
        named.add(bool(self.named.all()))
        for job in jobs.tolist():
            if (at := self.reserved(job)) >= 0:
                assert at <= first.setdefault(job, at), job
        return found

    monkeypatch.setattr(Plan, "round", looking)
    for seed in range(12):
        first.clear()
        jobs, cluster = single_cores(seed, {"start": 40 + 10 * (seed % 5), "duration": 40})
        found = run(cluster, jobs, "conservative")
        at = found.jobs.sort("job")["start_s"].to_list()
        assert all(round(at[job] * S) <= promise for job, promise in first.items()), seed
    assert named == {False, True}


@pytest.mark.parametrize("policy", ["strawman", "naive", "disaggregated", "conservative(memory=disaggregated)"])
def test_nothing_is_borrowed_of_memory_pools_that_are_kept_for_others(policy: str) -> None:
    kept = {"name": "r", "nodes": ["node1"], "start": 10, "duration": 100, "maintenance": True}
    cluster = Cluster.from_dict({
        "nodes": [{"count": 1, "cores": 4, "memory": "4 MB"}], "lending": "all", "site": {"reservations": [kept]},
        "memory_pools": [{"name": "p", "count": 1, "memory": "8 MB"}],
    })  # fmt: skip
    one, us = np.ones(1, np.int64), np.array([30 * S])
    jobs = job_table(submit_us=0 * us, work_us=us, request_us=us, tasks=one, cores=one, memory_mb=8 * one)
    workload = Workload("one", jobs, Intake("one", "test", 1, 1))
    assert unrack.simulate(cluster, workload, policy).jobs["start_s"].to_list() == [110.0]
