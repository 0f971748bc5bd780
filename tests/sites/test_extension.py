"""More time for jobs at their limits: lists and EASY against a twin in plain Python, and laws of all disciplines."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from extending import RULES, Extended, overrunning_site
from twins import RandomSite, random_licences, random_reservations, random_site

import unrack
from unrack.cli.study.job_story import job_lines
from unrack.cluster.spec import Cluster
from unrack.errors import ClusterError, InputError, PolicyError, RefusedError
from unrack.metric.audit.audit import violations
from unrack.metric.audit.tables import Tables
from unrack.policy.contract import Extend
from unrack.policy.table import parse_policy
from unrack.sim.explained.job import explain
from unrack.sim.result import Result
from unrack.sim.simulate import prepared
from unrack.sim.world import World
from unrack.workload.formats.rules import Intake
from unrack.workload.job import Workload, job_table

S = 10**6
MORE = "extension=15 s, extension_most=60 s"


def with_more(policy: str, more: str = MORE) -> str:
    """The policy, with extensions."""
    return f"{policy.removesuffix(')')}{', ' if '(' in policy else '('}{more})"


def with_grace(site: dict[str, Any], nodes: list[int]) -> Cluster:
    """Equal nodes whose site says more."""
    return Cluster.from_dict({"nodes": [{"count": len(nodes), "cores": nodes[0]}], "site": site})


@pytest.mark.parametrize("policy", RULES)
@pytest.mark.parametrize("seed", range(60))
def test_a_twin_gives_as_much_more_time(seed: int, policy: str) -> None:
    site, grace, step = overrunning_site(seed), [0, 0, 7][seed % 3], [5, 13, 30][seed % 4 % 3]
    most = step * [1, 2, 5][seed % 5 % 3]
    cluster = with_grace({"over_time": grace} if grace else {}, site.nodes)
    more = f"extension={step} s, extension_most={most} s"
    jobs = unrack.simulate(cluster, site.workload, with_more(policy, more)).jobs
    columns = jobs.select("job", "start_s", "end_s", "cut", "extended_s").iter_rows()
    found = {int(job) - 1: (round(start), round(end), cut, round(more)) for job, start, end, cut, more in columns}
    assert found == Extended(site, policy, step, most, grace).simulate()


def mixed(seed: int, jobs: int = 50) -> RandomSite:
    """A random site whose jobs run for as long as they ask, or shorter, or longer."""
    site = (random_site, random_reservations, random_licences)[seed % 3](seed, jobs)
    draw = np.random.default_rng(seed + 5)
    for job in site.jobs:
        job.submit //= 2
        job.work = 1 + int(job.request * draw.uniform(0.3, 2.2))
        job.reservation, job.begin = ("", 0) if draw.random() < 0.7 else (job.reservation, job.begin)
    return site


@pytest.mark.parametrize("policy", ["conservative", "conservative(order=sjf)", "conservative(nodes=whole)"])
@pytest.mark.parametrize("seed", range(9))
def test_nobody_starts_later_than_he_was_promised_at_first(seed: int, policy: str) -> None:
    site = mixed(seed)
    kernel = prepared(site.cluster, site.workload.jobs, parse_policy(with_more(policy)))
    first, state = dict[int, int](), kernel.core.state

    def note(now: int) -> None:
        for job, promise in state.promises.by_job().items():
            first.setdefault(job, promise.start_us)

    log = kernel.run(after_round=note)
    starts = dict(zip(log.attempt_job.tolist(), log.attempt_start_us.tolist(), strict=True))
    assert [job for job, at in first.items() if job in starts and starts[job] > at] == []
    assert log.extensions
    assert len(first) > 3


POLICIES = (
    "fcfs", "list(backfill=any)", "easy", "conservative", "slurm(interval=10 s)", "first-fit",
    "easy(order=multifactor)",
)  # fmt: skip


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", range(3))
def test_where_nobody_overruns_neither_limits_nor_more_time_change_a_schedule(seed: int, policy: str) -> None:
    site = mixed(seed)
    for job in site.jobs:
        job.work = min(job.work, job.request)
    usual = unrack.simulate(site.cluster, site.workload, policy)
    found = [unrack.simulate(site.cluster, site.workload, with_more(policy))]
    site.more["over_time"] = 5
    found += [unrack.simulate(site.cluster, site.workload, one) for one in (policy, with_more(policy))]
    for one in found:
        assert one.jobs["start_s"].to_list() == usual.jobs["start_s"].to_list()
        assert not one.jobs["cut"].any()
    assert any("no job runs beyond its limit" in note for note in found[0].notes)


@pytest.mark.long
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", range(3))
def test_a_policy_that_begins_anew_after_every_round_or_is_brought_jobs_one_by_one_gives_the_same(
    seed: int, policy: str
) -> None:
    site = mixed(seed)
    kept, forgetful = (prepared(site.cluster, site.workload.jobs, parse_policy(with_more(policy))) for _ in range(2))
    logs = [kept.run(), forgetful.run(after_round=lambda now: forgetful.core.begin_anew())]
    if seed % 3 == 0 and not site.limits:
        logs.append(prepared(site.cluster, site.workload.jobs, parse_policy(with_more(policy)), arrivals=True).run())
    for log in logs[1:]:
        assert log.extensions == logs[0].extensions
        assert log.attempt_end_us.tolist() == logs[0].attempt_end_us.tolist()


@pytest.mark.parametrize("contention", [None, "synthetic"])
@pytest.mark.parametrize("seed", range(4))
def test_nobody_runs_for_longer_than_his_limit_and_the_grace_whatever_slows_him_down(
    seed: int, contention: str | None
) -> None:
    site = mixed(3 * seed)
    site.more["over_time"] = 7
    policy = "easy" if contention is None else "disaggregated(scheduler=easy, lenders_compute=yes)"
    jobs = unrack.simulate(site.cluster, site.workload, policy, world=World(contention=contention)).jobs
    ran = jobs.drop_nulls("start_s")
    assert ((ran["run_s"] <= ran["request_s"] + 7) & (ran["cut"] == (ran["work_s"] > ran["request_s"] + 7))).all()


@pytest.mark.parametrize("policy", ["fcfs", "easy", "easy(extension=3 s)"])
@pytest.mark.parametrize("seed", range(4))
def test_a_job_that_was_cut_is_not_served_and_misses_its_deadline(seed: int, policy: str) -> None:
    draw = np.random.default_rng(seed)
    work, submit = draw.integers(1, 40, 30) * S, np.sort(draw.integers(0, 200, 30)) * S
    table = job_table(submit_us=submit, work_us=work, tasks=draw.integers(1, 3, 30),
                      request_us=work * draw.integers(1, 6, 30) // 3 + 1,
                      deadline_us=submit + 10**4 * S)  # fmt: skip
    cluster = Cluster.from_dict({"nodes": [{"count": 2, "cores": 1}], "site": {"over_time": 0}})
    found = unrack.simulate(cluster, Workload("drawn", table, Intake("", "", 0, 0)), policy)
    jobs, metrics = found.jobs, found.metrics
    assert 0 < jobs["cut"].sum() < 30
    asked = jobs["tasks"] * jobs["work_s"]
    assert metrics["served"] == pytest.approx((asked * ~jobs["cut"]).sum() / asked.sum())
    assert jobs["missed"].to_list() == jobs["cut"].to_list()
    assert metrics["missed_deadlines"] == metrics["jobs_cut"]


def run(policy: str, jobs: list[tuple[int, int, int, int]], world: World | None = None, **more: Any) -> Result:
    """On two nodes of a core; jobs: submit, work, request, tasks."""
    extra = pl.DataFrame(more.pop("extra", {}))
    submit, work, request, tasks = np.array(jobs, np.int64).T
    table = job_table(submit_us=submit * S, work_us=work * S, request_us=request * S, tasks=tasks, extra=extra)
    cluster = Cluster.from_dict({"nodes": [{"count": 2, "cores": 1}], "site": more})
    return unrack.simulate(cluster, Workload("by hand", table, Intake("", "", 0, 0)), policy,
                           world=world or World())  # fmt: skip


LONG = [(0, 100, 50, 1), (1, 300, 50, 1), (2, 20, 20, 2)]
"""Two that overrun, and one that waits for both."""


@pytest.mark.parametrize(
    ("policy", "ends", "more"),
    [
        ("fcfs(extension=15 s)", [50, 51, 71], [0, 0, 0]),
        ("list(backfill=any, extension=1 s)", [51, 51, 71], [1, 0, 0]),
        ("first-fit(extension=15 s)", [50, 51, 71], [0, 0, 0]),
        ("easy(extension=15 s)", [50, 51, 71], [0, 0, 0]),
        ("conservative(extension=15 s)", [50, 51, 71], [0, 0, 0]),
        ("slurm(interval=1 s, extension=15 s)", [50, 51, 71], [0, 0, 0]),
        ("conservative(extension=1 s)", [51, 51, 71], [1, 0, 0]),
    ],
)
def test_who_waits_decides_who_gets_more(policy: str, ends: list[int], more: list[int]) -> None:
    found = run(policy, LONG).jobs.sort("job")
    assert found["end_s"].to_list() == ends
    assert found["extended_s"].to_list() == more
    assert found["cut"].to_list() == [True, True, False]


def test_a_job_alone_runs_to_its_end_or_for_the_most_and_metrics_tell() -> None:
    found = run("easy(extension=15 s, extension_most=55 s)", [(0, 100, 50, 1), (0, 300, 50, 1)])
    columns = found.jobs.select("end_s", "limit_s", "extensions", "extended_s", "cut").rows()
    assert columns == [(100, 105, 4, 55, False), (105, 105, 4, 55, True)]
    wanted = {"jobs_extended": 1.0, "jobs_cut": 0.5, "jobs_shortened": 0.0}
    assert {key: found.metrics[key] for key in wanted} == wanted
    assert found.metrics["core_h_saved"] == pytest.approx(100 / 3600)
    assert found.metrics["core_h_cut"] == pytest.approx(105 / 3600)


def test_partitions_have_graces_of_their_own() -> None:
    parts = [{"name": "a", "over_time": 20}, {"name": "b"}, {"name": "c", "default": True, "over_time": "1 h"}]
    words = {"partition": ["a", "b", "a,b", ""]}
    found = run("easy", [(10**4 * i, 200, 50, 1) for i in range(4)], partitions=parts, over_time=5, extra=words).jobs
    assert found["run_s"].to_list() == [70, 55, 70, 200]
    some = run("easy", [(10**4 * i, 200, 50, 1) for i in range(4)], partitions=parts, extra=words).jobs
    assert some["run_s"].to_list() == [70, 200, 200, 200]
    assert some["cut"].to_list() == [True, False, False, False]


def test_the_limit_of_a_suspended_job_stands_and_one_that_is_stopped_has_all_of_it_again() -> None:
    for mode, ends in (("suspend", [90, 50]), ("requeue", [120, 50])):
        parts = [{"name": "low"}, {"name": "high", "tier": 2}]
        words = {"partition": ["low", "high"]}
        found = run("easy(extension=10 s, extension_most=10 s)", [(0, 500, 60, 2), (30, 20, 20, 2)], extra=words,
                    partitions=parts, preempt={"by": "partition", "mode": mode}).jobs  # fmt: skip
        assert found["end_s"].to_list() == ends
        assert found["run_s"].to_list()[0] == 70


def test_nobody_runs_on_into_a_reservation_or_beyond_his_own() -> None:
    kept = [{"name": "r", "nodes": ["0-1"], "start": 70, "duration": 100, "users": ["ann"]}]
    found = run("easy(extension=15 s)", [(0, 500, 50, 1)], reservations=kept).jobs
    assert found.select("end_s", "extended_s").row(0) == (65, 15)
    hours = [{"name": "p", "default": True, "hours": [{"start": 0, "duration": 70}]}]
    found = run("easy(extension=15 s)", [(0, 500, 50, 1)], partitions=hours).jobs
    assert found.select("end_s", "extended_s").row(0) == (65, 15)


def test_the_audit_finds_who_runs_beyond_his_limit_and_who_is_given_what_is_kept() -> None:
    found = run("easy(extension=15 s)", [(0, 500, 50, 1)])
    tables = dict(found.tables.items())
    assert violations(Tables(found.log.cluster, tables)) == []
    shorter = tables | {"jobs": tables["jobs"].with_columns(limit_s=pl.lit(80.0))}
    assert any("its limit is 80 s" in str(one) for one in violations(Tables(found.log.cluster, shorter)))
    site = {"reservations": [{"name": "r", "nodes": ["0-1"], "start": 70, "duration": 100, "users": ["ann"]}]}
    kept = Cluster.from_dict({"nodes": [{"count": 2, "cores": 1}], "site": site})
    assert any("given time on a node kept" in str(one) for one in violations(Tables(kept, tables)))


def test_explain_tells_when_a_job_was_given_more_time_and_that_it_was_stopped() -> None:
    cluster = Cluster.homogeneous(nodes=1, cores=1)
    jobs = job_table(submit_us=np.array([0]), work_us=np.array([500 * S]), request_us=np.array([50 * S]),
                     tasks=np.array([1]))  # fmt: skip
    story = explain(cluster, jobs, parse_policy("easy(extension=15 s, extension_most=30 s)"), 0)
    assert [(one.at_us, one.until_us) for one in story.extensions] == [(50 * S, 65 * S), (65 * S, 80 * S)]
    lines = "\n".join(job_lines(story, "easy", None))
    assert "used up at +50 s; it got 15 s more" in lines
    assert "with work left, and it was stopped" in lines


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ("flow(extension=5 s)", "rounds of its own"),
        ("easy++(extension=5 s)", "learns run times"),
        ("easy(estimates=exact, extension=5 s)", "whatever they ask"),
        ("easy(molding=working-set, extension=5 s)", "sizes"),
        ("easy(memory=naive, provisioning=dynamic, extension=5 s)", "changes the memory"),
        ("easy(extension=5 s, extension_most=4 s)", "less than the extension"),
        ("easy(extension_most=4 s)", "extension beside it"),
        ("easy(extension=soon)", "a time above 0"),
    ],
)
def test_what_more_time_does_not_go_with_is_refused(policy: str, words: str) -> None:
    with pytest.raises(PolicyError, match=words):
        parse_policy(policy)


def test_what_limits_do_not_go_with_is_refused() -> None:
    with pytest.raises(PolicyError, match=r"over_time.*whatever they ask"):
        run("easy(estimates=exact)", LONG, over_time=5)
    with pytest.raises(ClusterError, match="over_time"):
        run("easy", LONG, over_time="soon")
    pool = {"name": "drives", "kind": "nvme", "count": 4, "quantities": {"bandwidth_mb_s": 20, "capacity_mb": 60}}
    nvme = {"nodes": [{"count": 2, "cores": 1}], "pools": [pool]}
    jobs = job_table(submit_us=np.array([0]), work_us=np.array([9 * S]), request_us=np.array([5 * S]),
                     tasks=np.array([1]), devices={("nvme", "bandwidth_mb_s"): np.array([10])})  # fmt: skip
    drives = Workload("drives", jobs, Intake("", "", 0, 0))
    with pytest.raises(InputError, match="pooled devices"):
        unrack.simulate(Cluster.from_dict(nvme), drives, "easy(extension=5 s)")


def test_a_job_that_does_not_run_or_has_the_time_already_cannot_be_given_more() -> None:
    jobs = job_table(submit_us=np.zeros(2, np.int64), work_us=np.full(2, 9 * S), tasks=np.ones(2, np.int64))
    kernel = prepared(Cluster.homogeneous(nodes=1, cores=1), jobs, parse_policy("easy"))
    core, seen = kernel.core, list[int]()

    def refuse(now: int) -> None:
        for plan in ([Extend(1, 50 * S)], [Extend(0, 9 * S)]) if now == 0 else ():
            version = core.state.version
            with pytest.raises(RefusedError, match="extend job"):
                core.commit(plan, now)
            assert core.state.version == version
            seen.append(now)

    kernel.run(after_round=refuse)
    assert len(seen) == 2


@pytest.mark.parametrize("policy", ["fcfs", "list(backfill=any)", "easy", "conservative"])
def test_a_job_that_is_stopped_after_its_reservation_never_runs_again_and_holds_up_nobody(policy: str) -> None:
    words = {"partition": ["low", "high", "low"], "reservation": ["r", "", ""]}
    kept = [{"name": "r", "nodes": ["0-1"], "start": 0, "duration": 50}]
    found = run(policy, [(0, 100, 40, 2), (60, 20, 20, 2), (65, 10, 10, 2)], extra=words, reservations=kept,
                partitions=[{"name": "low"}, {"name": "high", "tier": 2}],
                preempt={"by": "partition", "mode": "requeue"}).jobs.sort("job")  # fmt: skip
    assert found["start_s"].to_list()[1:] == [60, 80]
    assert found["state"].to_list() == ["rejected", "finished", "finished"]
