"""Runs that begin with jobs that run already, for every policy in every kind of world that it declares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from law_worlds import CASES, IDS, World, attempts, begun

from unrack.ledger.state import FINISHED
from unrack.sim.simulate import simulate
from unrack.sim.world import World as Physics
from unrack.workload.formats.rules import Intake
from unrack.workload.job import JobTable, Workload, job_table
from unrack.workload.under_way import UnderWay


def already_running(world: World, seed: int) -> JobTable:
    """The jobs of a world, of which some run from the start, each on the first node that has room for all its tasks."""
    random = np.random.default_rng([7, seed])
    jobs, free = world.jobs, np.stack([world.cluster.cores, world.cluster.memory_mb])
    count = len(jobs)
    pooled = (
        sum((amounts > 0).astype(np.int64) for amounts in jobs.devices.values()) if jobs.devices else np.zeros(count)
    )
    on: list[str | None] = [None] * count
    submit, ran = jobs.submit_us.copy(), np.zeros(count, np.int64)
    for job in random.permutation(count)[: count // 2].tolist():
        needs = jobs.tasks[job] * np.array([jobs.cores[job], jobs.memory_mb[job]])
        nodes = np.flatnonzero((free >= needs[:, None]).all(axis=0) & (free[0] > 0))
        if not len(nodes) or pooled[job] or jobs.work_us[job] == 0:
            continue
        on[job], submit[job] = str(nodes[0]), 0
        ran[job] = random.integers(0, jobs.work_us[job])
        free[:, nodes[0]] -= needs
    assert any(on)
    submit = np.where([one is not None for one in on], 0, submit)
    made = replace(jobs, submit_us=submit, under_way=UnderWay(pl.Series(on, dtype=pl.String), ran))
    return job_table(
        ids=made.ids, submit_us=submit, work_us=made.work_us, request_us=made.request_us, tasks=made.tasks,
        cores=made.cores, memory_mb=made.memory_mb, priority=made.priority, deadline_us=made.deadline_us,
        user=_names(made.user, made.user_names), app=_names(made.app, made.app_names), devices=made.devices,
        slo=made.slo, under_way=made.under_way,
    )  # fmt: skip


def _names(codes: np.ndarray, names: tuple[str, ...]) -> pl.Series:
    return pl.Series([names[code] if code >= 0 else None for code in codes], dtype=pl.String)


@pytest.mark.parametrize(("policy", "world"), CASES, ids=IDS)
def test_every_policy_goes_on_from_jobs_that_run_already(policy: str, world: Callable[[int], World]) -> None:
    for seed in (0, 1):
        one = world(seed)
        jobs = already_running(one, seed)
        assert jobs.under_way is not None
        log = begun(one, policy, jobs=jobs).run()
        runs = jobs.under_way.runs
        first = {
            int(job): int(at) for job, at in reversed(list(zip(log.attempt_job, log.attempt_start_us, strict=True)))
        }
        assert [first[job] for job in np.flatnonzero(runs).tolist()] == [0] * int(runs.sum())
        usual = begun(one, policy).run()
        assert (log.state[runs] == FINISHED).all() or (usual.state != FINISHED).any()


@pytest.mark.parametrize(("policy", "world"), CASES[::3], ids=IDS[::3])
def test_a_core_that_is_brought_the_jobs_that_run_gives_the_same_schedule(
    policy: str, world: Callable[[int], World]
) -> None:
    one = world(1)
    jobs = already_running(one, 1)
    whole, brought = begun(one, policy, jobs=jobs).run(), begun(one, policy, jobs=jobs, arrivals=True).run()
    assert attempts(brought, 2**60) == attempts(whole, 2**60)


@pytest.mark.parametrize(("policy", "world"), CASES[1::4], ids=IDS[1::4])
def test_the_audit_of_a_run_that_began_with_running_jobs_finds_nothing(
    policy: str, world: Callable[[int], World]
) -> None:
    one = world(0)
    jobs = already_running(one, 0)
    workload = Workload("now", jobs, Intake("now", "test", len(jobs), len(jobs)))
    result = simulate(
        one.cluster, workload, policy, world=Physics(faults=one.faults, models=one.models, contention=one.contention)
    )
    ran = result.jobs.filter(pl.col("ran_s").is_not_null())
    assert ran["wait_s"].null_count() == ran["slowdown"].null_count() == ran.height > 0
