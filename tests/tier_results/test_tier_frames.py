"""What a run on tiers of memory leaves behind, against the same counted plainly."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from tier_runs import S, centre, least_price, price_of, servers, some_run, state_at, status_of, workload
from tries import seeds, some

import unrack
from unrack.cluster.spec import Cluster
from unrack.sim.faults import Fault
from unrack.sim.frames.tiers import PER_HOUR, least_job_prices
from unrack.workload.job import MEMORY, job_table


@pytest.mark.draws(120)
def test_every_row_of_the_table_of_tiers_is_what_its_definitions_say() -> None:
    seen: dict[str, float] = {}
    for seed in seeds(120):
        run = some_run(seed)
        for row in run.table("tiers").iter_rows(named=True):
            time_us = round(row.pop("time_s") * S)
            assert row == pytest.approx(state_at(run.log, time_us)), (seed, time_us)
            seen = {name: seen.get(name, 0) + value for name, value in row.items()}
    assert all(seen.values()), seen  # every column was put to the test


@pytest.mark.draws(20)
def test_memory_is_open_to_servers_that_ask_none_of_it_as_long_as_there_are_cores() -> None:
    stranded = 0
    for seed in range(some(20)):
        draws = np.random.Generator(np.random.PCG64(seed))
        cluster, given = centre(draws), servers(draws, 12)
        rows = given.jobs.asks.copy()
        rows[MEMORY, ::3] = 0
        slo = replace(given.jobs.slo, floor_mb=np.minimum(given.jobs.slo.floor_mb, rows[MEMORY]))
        run = unrack.simulate(cluster, workload(replace(given.jobs, asks=rows, slo=slo)), "slo")
        for row in run.table("tiers").iter_rows(named=True):
            time_us = round(row.pop("time_s") * S)
            assert row == pytest.approx(state_at(run.log, time_us)), (seed, time_us)
            stranded += row["stranded_mb_far"]
    assert stranded


@pytest.mark.draws(120)
def test_the_table_of_tiers_has_a_row_for_every_time_at_which_something_changes() -> None:
    for seed in seeds(120):
        run = some_run(seed)
        log, times = run.log, run.table("tiers")["time_s"] * S
        assert times.is_sorted()
        assert times.n_unique() == len(times)
        wanted = {*log.attempt_start_us.tolist(), *log.attempt_end_us.tolist(), int(log.jobs.submit_us[0])}
        assert wanted <= set(times.round().cast(pl.Int64).to_list())


def test_the_jobs_say_what_they_asked_of_tiers_and_what_their_last_attempt_got() -> None:
    kinds = set()
    for seed in range(60):
        run = some_run(seed)
        log, asks, jobs = run.log, run.log.jobs.slo, run.jobs
        assert jobs["local_asked_mb"].to_list() == asks.floor_mb.tolist()
        assert jobs["ceiling_mb"].to_list() == [mb if mb < 2**53 else None for mb in asks.ceiling_mb.tolist()]
        for job, row in enumerate(jobs.iter_rows(named=True)):
            ran = np.flatnonzero(log.attempt_job == job)
            if not len(ran):
                assert row["slo"] is row["price_per_h"] is row["mb_local"] is row["weighted_mb"] is None
                continue
            assert row["slo"] == status_of(log, int(ran[-1]))
            assert row["price_per_h"] == pytest.approx(price_of(log, int(ran[-1])))
            assert row["mb_local"] + row["mb_rack"] + row["mb_far"] == log.amounts[2][ran[-1]]
            assert row["weighted_mb"] == row["mb_rack"] + 2.5 * row["mb_far"]
            kinds.add(row["slo"])
    assert kinds == {"met", "local", "remote", "both"}


@pytest.mark.draws(120)
def test_no_split_of_a_server_over_an_empty_cluster_is_cheaper_than_its_least_price() -> None:
    for seed in seeds(120):
        log = some_run(seed).log
        found = least_job_prices(log) / log.cluster.tiers.price_scale / PER_HOUR
        assert found.tolist() == pytest.approx([least_price(log, job) for job in range(len(log.jobs))])


@pytest.mark.draws(120)
def test_within_their_slos_servers_never_cost_less_than_the_bound() -> None:
    compared = 0
    for seed in seeds(120):
        draws = np.random.Generator(np.random.PCG64(seed))
        run = unrack.simulate(centre(draws), servers(draws, 20), "slo")
        if (found := run.metrics["price_over_bound"]) is not None:
            compared += 1
            assert found >= 1 - 1e-12
    assert compared > len(seeds(120)) * 5 // 12


def test_servers_that_ask_nothing_of_tiers_are_within_their_slos() -> None:
    ones = np.ones(3, np.int64)
    jobs = job_table(submit_us=0 * ones, work_us=S * ones, request_us=S * ones, tasks=ones, cores=ones, memory_mb=ones)
    run = unrack.simulate(centre(np.random.Generator(np.random.PCG64(1))), workload(jobs), "slo")
    assert run.jobs["slo"].to_list() == ["met"] * 3
    assert not {"local_asked_mb", "ceiling_mb", "group", "spread", "forbidden"} & set(run.jobs.columns)


def test_a_run_without_jobs_has_an_empty_table_of_tiers_and_no_shares() -> None:
    none = np.zeros(0, np.int64)
    jobs = job_table(submit_us=none, work_us=none, request_us=none, tasks=none, cores=none, memory_mb=none)
    run = unrack.simulate(centre(np.random.Generator(np.random.PCG64(1))), workload(jobs), "slo")
    assert run.table("tiers").height == 0
    assert run.metrics["slo_broken_local"] is run.metrics["stranded_memory"] is None


def test_without_tiers_there_is_no_word_of_them() -> None:
    jobs = servers(np.random.Generator(np.random.PCG64(2)), 9)
    run = unrack.simulate(Cluster.homogeneous(nodes=3, cores=8, memory="64 MB"), jobs, "fcfs")
    assert not {"slo", "weighted_mb", "local_asked_mb", "mb_local"} & set(run.jobs.columns)
    assert not [name for name in run.metrics if name.startswith(("slo_", "price", "stranded", "clusters"))]


def test_who_is_rejected_after_a_failure_has_waited_until_the_first_start_and_not_since() -> None:
    cluster = Cluster.from_dict({
        "name": "one", "nodes": [{"count": 1, "cores": 4, "memory": "8 MB"}], "tiers": [{"name": "local"}],
    })  # fmt: skip
    jobs = job_table(
        submit_us=np.array([0, 2]) * S, work_us=np.array([10, 10]) * S, request_us=np.array([10, 10]) * S,
        tasks=np.array([1, 1]), cores=np.array([1, 1]), memory_mb=np.array([4, 4]),
    )  # fmt: skip
    run = unrack.simulate(
        cluster, workload(jobs), "slo(full=reject)", world=unrack.World(faults=[Fault("node0", 5 * S, 5 * S)])
    )
    assert run.jobs["state"].to_list() == ["rejected", "rejected"]
    assert run.usage.select("queued_jobs", "running_jobs").rows() == [(0, 1), (0, 2), (0, 0)]
