"""Preemption: the engine against a scheduler in plain Python, and laws of it under every discipline."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from preempting import ORDER, Preempting, mixed_site, preempting_site
from tries import seeds

import unrack
from unrack.cluster.spec import Cluster
from unrack.core import Core
from unrack.errors import ClusterError
from unrack.events import ROUND, Submitted
from unrack.ledger.state import Status
from unrack.policy.contract import Requeue, Start
from unrack.policy.file import complete
from unrack.policy.preemption.preempting import site_of
from unrack.policy.table import parse_policy
from unrack.sim.explained.job import explain
from unrack.sim.log import RunLog
from unrack.sim.recorder import Outcome
from unrack.sim.simulate import prepared
from unrack.sim.usage.following import make_memory_changes
from unrack.sim.world import World
from unrack.workload.formats.rules import Intake
from unrack.workload.job import Demand, Job, Workload, job_table


@pytest.mark.parametrize("seed", range(60))
def test_first_come_first_served_with_preemption_of_the_youngest(seed: int) -> None:
    site = preempting_site(seed)
    twin = Preempting(site)
    twin.run(None)
    found = unrack.simulate(site.cluster, site.workload, "fcfs").placements
    rows = {
        (int(job) - 1, round(start), round(end), outcome)
        for job, start, end, outcome in found.select("job", "start_s", "end_s", "outcome").iter_rows()
    }
    assert rows == set(twin.attempts)


POLICIES = (
    "fcfs", "list(backfill=any, order=sjf)", "easy", "conservative", "slurm", "slurm(main=interval, interval=7 s)",
    "flow(interval=5 s)", "easy(memory=local)", "conservative(memory=disaggregated)",
    "conservative(nodes=whole, place=best-fit)", "best-fit", "lookahead", "random-fit",
    "fcfs(wait=no)", "disaggregated", "easy(memory=naive, provisioning=dynamic)",
)  # fmt: skip


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", range(6))
def test_laws_of_preemption(seed: int, policy: str) -> None:
    cluster, workload = mixed_site(seed)
    result = unrack.simulate(cluster, workload, policy)  # what was held is audited
    check(cluster, workload, result.log)
    assert result.metrics["preemptions"] == len(result.log.preempted)


@pytest.mark.long
@pytest.mark.parametrize("policy", POLICIES[:5])
@pytest.mark.parametrize("seed", range(0, 12, 2))
def test_a_policy_that_begins_anew_after_every_round_preempts_the_same(seed: int, policy: str) -> None:
    cluster, workload = mixed_site(seed)
    kept, forgetful = (prepared(cluster, workload.jobs, parse_policy(policy)) for _ in range(2))
    one, two = kept.run(), forgetful.run(after_round=lambda now: forgetful.core.begin_anew())
    for name in ("attempt_job", "attempt_start_us", "attempt_end_us"):
        assert getattr(one, name).tolist() == getattr(two, name).tolist()
    assert one.preempted == two.preempted


def check(cluster: Cluster, workload: Workload, log: RunLog) -> None:
    """Whom jobs were stopped for, when and how, from nothing but the log."""
    qos, ids = workload.jobs.extra["qos"].to_list(), [str(job) for job in workload.jobs.ids]
    site = site_of(cluster)
    assert site is not None
    assert site.file.preempt is not None
    modes = {one.name: one.preempt_mode or "requeue" for one in site.file.qos}
    starts = {(int(j), int(t)) for j, t in zip(log.attempt_job, log.attempt_start_us, strict=True)}
    for attempt, preempted in log.preempted.items():
        job, start, end = (int(x[attempt]) for x in (log.attempt_job, log.attempt_start_us, log.attempt_end_us))
        other = ids.index(preempted.reason.what.removeprefix("for job "))
        assert qos[job] in ORDER[qos[other]], "it was preempted by one that may not"
        assert (other, end) in starts, "it was preempted in vain"
        assert end - start >= (site.file.preempt.exempt_time or 0), "it had not run for long enough"
        assert (preempted.lost_us > 0) == (modes[qos[job]] != "checkpoint" and end > start)
        if modes[qos[job]] == "cancel":
            assert not any(j == job and t > end for j, t in starts), "it was cancelled and ran again"
            assert log.state[job] == Status.REJECTED
    kept = (log.attempt_end_us - log.attempt_start_us).astype(np.int64)  # work at speed 1
    for attempt, preempted in log.preempted.items():
        kept[attempt] -= preempted.lost_us
    for job in log.attempt_job[log.attempt_outcome == Outcome.FINISHED].tolist():
        done, work = kept[log.attempt_job == job].sum(), workload.jobs.work_us[job]
        assert done == work, f"job {ids[job]} did {done} µs of {work}"
    ended = log.attempt_job[log.attempt_outcome == Outcome.FINISHED].tolist()
    assert len(set(ended)) == len(ended)
    assert len(log.preempted) < 10 * len(ids), "they stop each other forever"


def six_nodes(seed: int) -> tuple[Cluster, Workload]:
    """Tasks of one core that may run anywhere, by two ranks; most of the lower one are small."""
    draw = np.random.default_rng(seed)
    qos = [{"name": "high", "preempts": ["standby"]}, {"name": "standby"}]
    preempt = {"by": "qos", "mode": str(draw.choice(["requeue", "cancel", "checkpoint"]))}
    preempt |= {"victims": str(draw.choice(["youngest", "lowest", "fewest", "cheapest"]))}
    nodes = [{"count": 1, "cores": cores} for cores in draw.integers(1, 4, 6).tolist()]
    cluster = Cluster.from_dict({"nodes": nodes, "site": {"qos": qos, "preempt": preempt}})
    high = draw.random(40) < 0.3
    jobs = job_table(
        submit_us=np.sort(draw.integers(0, 200, 40)) * 10**6, work_us=draw.integers(5, 40, 40) * 10**6,
        tasks=np.where(high, draw.integers(3, 7, 40), draw.integers(1, 4, 40)), priority=draw.integers(0, 3, 40),
        extra=pl.DataFrame({"qos": np.where(high, "high", "standby").tolist()}),
    )  # fmt: skip
    return cluster, Workload("random", jobs, Intake("", "", 0, 0))


@pytest.mark.draws(60)
@pytest.mark.parametrize("policy", ["fcfs", "list(backfill=any)"])
def test_no_job_is_stopped_beside_which_the_other_has_a_place(policy: str) -> None:
    """A job that had a part of a place was stopped, too, where the others that were stopped had room elsewhere."""
    for seed in seeds(60):
        cluster, workload = six_nodes(seed)
        log, most = unrack.simulate(cluster, workload, policy).log, cluster.cores.sum()
        tasks, jobs = workload.jobs.tasks, log.attempt_job
        for attempt in log.preempted:
            end, high = log.attempt_end_us[attempt], workload.jobs.extra["qos"].to_numpy() == "high"
            there = (log.attempt_start_us <= end) & (end < log.attempt_end_us)
            if (high[jobs] & (log.attempt_start_us == end)).sum() == 1:
                assert tasks[jobs[there]].sum() + tasks[jobs[attempt]] > most, (seed, int(end))


def test_no_job_is_stopped_for_one_that_has_a_place_and_would_pass_another_of_its_rank() -> None:
    """On the draft the job before it took the free core, for which it waits in truth: the job beside was stopped."""
    site = {"qos": [{"name": "high", "preempts": ["low"]}, {"name": "low"}], "preempt": {"by": "qos"}}
    cluster = Cluster.from_dict({"nodes": [{"count": 3, "cores": 1}], "site": site})
    jobs = job_table(
        submit_us=np.array([0, 0, 0, 10, 20, 30]) * 10**6, work_us=np.array([90, 5, 90, 9, 9, 9]) * 10**6,
        tasks=np.array([1, 1, 1, 2, 1, 1]),
        extra=pl.DataFrame({"qos": ["high", "high", "low", "low", "high", "high"]}),
    )  # fmt: skip
    found = unrack.simulate(cluster, Workload("by hand", jobs, Intake("", "", 0, 0)), "fcfs").jobs
    assert found["restarts"].sum() == 0
    assert found["start_s"].to_list() == [0, 0, 0, 99, 90, 90]  # at 90 s the job of two cores is not even begun


def by_hand(**changes: Any) -> tuple[Cluster, Workload]:
    """One node of two cores: two jobs of standby from 0 s and 10 s on, and one that may preempt them at 30 s."""
    preempt = {"by": "qos", **{key: value for key, value in changes.items() if key != "third"}}
    qos = [{"name": "high", "preempts": ["standby"]}, {"name": "standby"}]
    cluster = Cluster.from_dict({"nodes": [{"count": 1, "cores": 2}], "site": {"qos": qos, "preempt": preempt}})
    seconds = {"submit_us": [0, 10, 30], "work_us": [100, 100, 20], "request_us": [100, 100, 20]}
    jobs = job_table(
        **{key: np.array(values) * 10**6 for key, values in seconds.items()}, tasks=np.ones(3, np.int64),
        extra=pl.DataFrame({"qos": ["standby", "standby", changes.get("third", "high")]}),
    )  # fmt: skip
    return cluster, Workload("by hand", jobs, Intake("", "", 0, 0))


@pytest.mark.parametrize(
    ("changes", "world", "wanted"),
    [
        ({}, {}, {(2, 10, 30, "preempted"), (3, 30, 50, "finished"), (1, 0, 100, "finished"),
                  (2, 50, 150, "finished")}),
        ({"mode": "checkpoint"}, {}, {(2, 10, 30, "preempted"), (3, 30, 50, "finished"), (1, 0, 100, "finished"),
                                      (2, 50, 130, "finished")}),
        ({"mode": "checkpoint"}, {"checkpoint_every": 15}, {(2, 10, 30, "preempted"), (3, 30, 50, "finished"),
                                                             (1, 0, 100, "finished"), (2, 50, 135, "finished")}),
        ({"mode": "cancel"}, {}, {(2, 10, 30, "preempted"), (3, 30, 50, "finished"), (1, 0, 100, "finished")}),
        ({"mode": "off"}, {}, {(1, 0, 100, "finished"), (2, 10, 110, "finished"), (3, 100, 120, "finished")}),
        ({"exempt_time": 25}, {}, {(1, 0, 30, "preempted"), (3, 30, 50, "finished"), (2, 10, 110, "finished"),
                                   (1, 50, 150, "finished")}),
        ({"exempt_time": 35}, {}, {(1, 0, 35, "preempted"), (3, 35, 55, "finished"), (2, 10, 110, "finished"),
                                   (1, 55, 155, "finished")}),
        ({"third": "standby"}, {}, {(1, 0, 100, "finished"), (2, 10, 110, "finished"), (3, 100, 120, "finished")}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative", "first-fit"])
def test_work_and_times_of_those_who_are_stopped(
    policy: str, changes: dict[str, Any], world: dict[str, Any], wanted: set[tuple[int, int, int, str]]
) -> None:
    cluster, workload = by_hand(**changes)
    physics = World(changes=make_memory_changes(world) if world else None)
    found = unrack.simulate(cluster, workload, policy, world=physics).placements
    rows = found.select("job", "start_s", "end_s", "outcome").iter_rows()
    assert {(int(job), round(start), round(end), outcome) for job, start, end, outcome in rows} == wanted


@pytest.mark.parametrize("policy", ["slurm(interval=8 s, main=interval)", "slurm(interval=8 s, queue=1)"])
def test_a_plan_is_made_once_a_job_has_run_for_long_enough_to_be_preempted(policy: str) -> None:
    """At 35 s, between two plans: nothing else happened, and none was made before the first job ended by itself."""
    found = unrack.simulate(*by_hand(exempt_time=35), policy).placements
    first = found.filter(pl.col("job") == 3)["start_s"].to_list()
    assert first == ([40.0] if "main" in policy else [35.0])


def test_jobs_that_come_one_by_one_preempt_each_other() -> None:
    qos = [{"name": "low"}, {"name": "high", "preempts": ["low"]}]
    site = {"qos": qos, "preempt": {"by": "qos", "mode": "requeue"}}
    cluster = Cluster.from_dict({"nodes": [{"count": 1, "cores": 4}], "site": site})
    core = Core(cluster, None, complete(parse_policy("easy(preempt=yes)"), "policy"))
    for now, (name, cores) in enumerate((("", 1), ("low", 3), ("high", 2))):
        demand = Demand(1, cores)
        core.handle(Submitted(Job(0, name or "no", now, 10**9, None, 0, "u", "", demand, {"qos": name})), now)
        decided = core.handle(ROUND, now)
    assert [type(one) for one in decided] == [Requeue, Start]
    assert decided[0].job == 1


@pytest.mark.parametrize(("rule", "stopped"), [("youngest", 2), ("lowest", 1), ("fewest", 0)])
def test_which_of_several_is_stopped_first(rule: str, stopped: int) -> None:
    qos = [{"name": "low"}, {"name": "high", "preempts": ["low"]}]
    site = {"qos": qos, "preempt": {"by": "qos", "mode": "requeue", "victims": rule}}
    cluster = Cluster.from_dict({"nodes": [{"count": 1, "cores": 4}], "site": site})
    core = Core(cluster, None, complete(parse_policy("easy(preempt=yes)"), "policy"))
    for now, (name, cores, priority) in enumerate((("low", 2, 5), ("low", 1, 0), ("low", 1, 5), ("high", 1, 9))):
        demand = Demand(1, cores)
        core.handle(Submitted(Job(0, f"{now}", now, 10**9, None, priority, "u", "", demand, {"qos": name})), now)
        decided = core.handle(ROUND, now)
    assert [(type(one), getattr(one, "job", 3)) for one in decided] == [(Requeue, stopped), (Start, 3)]


@pytest.mark.parametrize("by", ["qos", "partition"])
def test_who_may_preempt_first_does_not_depend_on_who_comes_later(by: str) -> None:
    """Jobs 2 (low) and 3 (high) could each have the cores of job 1; a job of normal comes when all is over."""
    names = ["standby", "low", "high", "normal"]
    below = {"low": ["standby"], "normal": ["standby"], "high": ["normal", "standby"]}
    some = [{"name": name, "preempts": below.get(name, [])} for name in names]
    tiers: list[dict[str, Any]] = [{"name": name, "tier": at} for name, at in zip(names, (1, 2, 4, 3), strict=True)]
    tiers[1]["preempt_mode"] = "off"
    site: dict[str, Any] = {"qos": some} if by == "qos" else {"partitions": tiers}
    cluster = Cluster.from_dict({"nodes": [{"count": 1, "cores": 2}], "site": {**site, "preempt": {"by": by}}})
    starts = []
    for count in (3, 4):
        jobs = job_table(
            submit_us=np.array([0, 10, 10, 900])[:count] * 10**6, work_us=np.full(count, 10**8),
            tasks=np.full(count, 2), extra=pl.DataFrame({by: names[:count]}),
        )  # fmt: skip
        result = unrack.simulate(cluster, Workload("later", jobs, Intake("", "", 0, 0)), "fcfs")
        starts.append(result.placements.filter(pl.col("start_s") < 900).select("job", "start_s").rows())
    assert starts[0] == starts[1]
    assert starts[0][1] == (3, 10.0)


def test_a_policy_may_say_no() -> None:
    cluster, workload = by_hand()
    assert unrack.simulate(cluster, workload, "easy(preempt=no)").metrics["preemptions"] == 0
    assert unrack.simulate(cluster, workload, "easy(preempt=yes)").metrics["core_h_lost_preempted"] == pytest.approx(
        20 / 3600
    )
    plain = Cluster.homogeneous(nodes=1, cores=2)
    notes = unrack.simulate(plain, workload, "easy(preempt=yes)").notes
    assert any(note.startswith("no effect of preempt=yes") for note in notes)


def test_who_it_was_for_is_told() -> None:
    cluster, workload = by_hand()
    story = explain(cluster, workload.jobs, parse_policy("easy"), 1)
    assert [str(one.preempted.reason) for one in story.attempts if one.preempted] == ["preempted: for job 3"]


@pytest.mark.parametrize(
    ("site", "words"),
    [
        ({"qos": [{"name": "a", "preempts": ["b"]}], "preempt": {"by": "qos"}}, "not 'b'"),
        ({"qos": [{"name": "a", "preempts": ["a"]}], "preempt": {"by": "qos"}}, "not a → a"),
        (
            {"qos": [{"name": "a", "preempts": ["b"]}, {"name": "b", "preempts": ["c"]},
                     {"name": "c", "preempts": ["b"]}], "preempt": {"by": "qos"}},
            "not b → c → b",
        ),
        ({"qos": [{"name": "a", "preempts": ["b"]}, {"name": "b"}]}, "only beside a table preempt"),
        ({"preempt": {"by": "qos", "exempt_time": -1}}, "exempt_time"),
        ({"preempt": {"by": "qos", "victims": "oldest"}}, "victims"),
        ({"preempt": {"by": "user"}}, "by"),
        ({"preempt": {}}, "by"),
        ({"partitions": [{"name": "a", "preempt_mode": "gang"}], "preempt": {"by": "partition"}}, "preempt_mode"),
        ({"preempt": {"by": "quota", "mode": "suspend"}}, "gives no quota back"),
    ],
)  # fmt: skip
def test_tables_that_make_no_sense_are_refused(site: dict[str, Any], words: str) -> None:
    with pytest.raises(ClusterError, match=words):
        Cluster.from_dict({"nodes": [{"count": 1, "cores": 2}], "site": site})
