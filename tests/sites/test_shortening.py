"""Shorter limits: EASY against a scheduler in plain Python, and laws under every discipline that backfills."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from shortening import Shortened, shorter_site, with_least
from suspending import mixed_suspending_site

import unrack
from unrack.cluster.spec import Cluster
from unrack.errors import InputError, PolicyError
from unrack.policy.table import parse_policy
from unrack.sim.explained.job import explain
from unrack.sim.faults import Fault
from unrack.sim.simulate import prepared
from unrack.sim.world import World
from unrack.workload.formats.rules import Intake
from unrack.workload.job import Workload, job_table


@pytest.mark.parametrize("seed", range(60))
def test_easy_with_shorter_limits(seed: int) -> None:
    site, least = shorter_site(seed)
    twin = Shortened(site, least)
    start = twin.run(twin.decide)
    ran = unrack.simulate(site.cluster, with_least(site, least), "easy").jobs.drop_nulls("start_s")
    found = {
        int(job) - 1: (round(start), round(end), None if limit is None else round(limit))
        for job, start, end, limit in ran.select("job", "start_s", "end_s", "limit_s").iter_rows()
    }
    ends = {job: at + min(site.jobs[job].work, twin.limit.get(job, 10**9)) for job, at in start.items()}
    assert found == {job: (at, ends[job], twin.limit.get(job)) for job, at in start.items()}


POLICIES = ("easy", "easy(order=sjf)", "conservative", "slurm", "list(backfill=any)", "conservative(nodes=whole)")


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", range(5))
def test_limits_lie_between_the_least_and_what_is_asked_and_end_jobs(seed: int, policy: str) -> None:
    site, least = shorter_site(seed)
    jobs = unrack.simulate(site.cluster, with_least(site, least), policy).jobs.drop_nulls("start_s")
    cut = np.minimum(jobs["work_s"].to_numpy(), jobs["limit_s"].fill_null(1e9).to_numpy())
    assert jobs["run_s"].to_list() == pytest.approx(cut.tolist())
    assert (jobs["cut"] == (jobs["work_s"] > jobs["limit_s"].fill_null(1e9))).all()
    some = jobs.filter(pl.col("limit_s").is_not_null())
    assert ((some["time_min_s"] <= some["limit_s"]) & (some["limit_s"] < some["request_s"])).all()


@pytest.mark.parametrize("policy", [*POLICIES, "fcfs"])
@pytest.mark.parametrize("seed", range(3))
def test_a_least_time_that_is_all_that_a_job_asks_changes_no_schedule(seed: int, policy: str) -> None:
    site, _ = shorter_site(seed)
    whole = with_least(site, [job.request for job in site.jobs])
    one, two = (unrack.simulate(site.cluster, jobs, policy).jobs for jobs in (whole, site.workload))
    assert one["start_s"].to_list() == two["start_s"].to_list()


def three(least: float | str | None, **columns: list[str]) -> tuple[Cluster, Workload]:
    """Two nodes; the second job waits for both until 100 s, and the third asks for 200 s on one."""
    jobs = job_table(
        submit_us=np.array([0, 1, 2]) * 10**6, work_us=np.array([100, 50, 200]) * 10**6, tasks=np.array([1, 2, 1]),
        cores=np.array([4, 4, 4]), extra=pl.DataFrame({"time_min_s": [None, None, least], **columns}),
    )  # fmt: skip
    cluster = Cluster.from_dict({"nodes": [{"count": 2, "cores": 4}]})
    return cluster, Workload("three", jobs, Intake("", "", 0, 0))


@pytest.mark.parametrize(("policy", "start"), [("easy", 2), ("conservative", 2), ("slurm", 30)])
def test_a_job_is_started_beside_a_reservation_with_all_the_time_until_then(policy: str, start: int) -> None:
    result = unrack.simulate(*three(60), policy)
    last = result.jobs.row(2, named=True)
    assert (last["start_s"], last["end_s"], last["limit_s"], last["cut"]) == (start, 100, 100 - start, True)
    assert result.jobs["start_s"][1] == 100  # nobody is delayed
    assert result.metrics["jobs_shortened"] == result.metrics["jobs_cut"] == pytest.approx(1 / 3)


def test_nobody_is_shortened_where_the_least_time_is_too_long_or_nobody_passes_others() -> None:
    assert unrack.simulate(*three(99), "easy").jobs["start_s"].to_list() == [0, 100, 150]
    result = unrack.simulate(*three(60), "fcfs")
    assert result.jobs["start_s"].to_list() == [0, 100, 150]
    assert "no effect of time_min_s: fcfs lets no job pass others" in result.notes


def test_a_job_that_is_stopped_has_all_of_its_work_and_time_again() -> None:
    world = World(faults=[Fault("node1", 20 * 10**6, 10**6)])
    last = unrack.simulate(*three(60), "easy", world=world).jobs.row(2, named=True)
    assert (last["restarts"], last["start_s"], last["limit_s"], last["end_s"]) == (1, 21, 79, 100)
    world = World(faults=[Fault("node1", 50 * 10**6, 10**6)])
    last = unrack.simulate(*three(60), "easy", world=world).jobs.row(2, named=True)
    assert (last["start_s"], last["limit_s"], last["end_s"]) == (150, None, 350)


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, 3])
@pytest.mark.parametrize("policy", ["easy", "conservative"])
def test_with_suspension(seed: int, policy: str) -> None:
    cluster, workload = mixed_suspending_site(seed)
    jobs, half = workload.jobs, workload.jobs.request_us / 2e6
    workload.jobs.extra.insert_column(0, pl.Series("time_min_s", half))
    result = unrack.simulate(cluster, workload, policy)
    limits = result.jobs["limit_s"].fill_null(1e9).to_numpy()
    assert result.jobs["run_s"].to_list() == pytest.approx(np.minimum(jobs.work_us / 1e6, limits).tolist())
    forgetful = prepared(cluster, jobs, parse_policy(policy))
    log = forgetful.run(after_round=lambda now: forgetful.core.begin_anew())
    assert log.attempt_end_us.tolist() == result.log.attempt_end_us.tolist()


@pytest.mark.parametrize("forgets", [False, True])
def test_reservations_move_into_the_place_that_a_shorter_job_was_promised(forgets: bool) -> None:
    seconds = np.array([[0, 0, 1, 2, 5], [100, 30, 50, 200, 30]]) * 10**6
    least = pl.DataFrame({"time_min_s": [None, None, None, 20.0, None]})
    jobs = job_table(submit_us=seconds[0], work_us=seconds[1], tasks=np.array([1, 1, 2, 1, 2]), extra=least)
    kernel = prepared(Cluster.homogeneous(nodes=2, cores=1), jobs, parse_policy("conservative"))
    log = kernel.run(after_round=lambda now: kernel.core.begin_anew() if forgets else None)
    starts = zip(log.attempt_job.tolist(), (log.attempt_start_us // 10**6).tolist(), strict=True)
    assert sorted(starts) == [(0, 0), (1, 0), (2, 100), (3, 30), (4, 150)]  # promised from 350 s on


def test_explain_tells_the_limit() -> None:
    cluster, workload = three(60)
    assert explain(cluster, workload.jobs, parse_policy("easy"), 2).limit_us == 98 * 10**6


@pytest.mark.parametrize("least", [0, -5, 201, float("nan"), "soon"])
def test_least_times_that_cannot_be_are_refused(least: float | str) -> None:
    with pytest.raises(InputError, match=r"time_min_s: got .*, wanted seconds above 0, up to the 200"):
        unrack.simulate(*three(least), "easy")


@pytest.mark.parametrize("policy", ["flow(interval=5 s)", "easy(molding=working-set)", "easy(estimates=exact)"])
def test_policies_that_do_not_shorten_are_refused(policy: str) -> None:
    with pytest.raises(PolicyError, match="time_min_s"):
        unrack.simulate(*three(60), policy)


def test_components_are_refused() -> None:
    cluster, workload = three(60)
    jobs = workload.jobs
    extra = jobs.extra.with_columns(het=pl.Series([None, "a", "a"]))
    table = job_table(
        submit_us=jobs.submit_us // 10**9, work_us=jobs.work_us, tasks=jobs.tasks, cores=jobs.cores, extra=extra
    )
    with pytest.raises(InputError, match="heterogeneous"):
        unrack.simulate(cluster, Workload("het", table, workload.intake), "easy")
