"""In which order servers are placed: as they came, or by the ratio of their SLOs."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import polars as pl
import pytest

import unrack
from unrack.cluster.spec import Cluster
from unrack.policy.tiers.scheduler import in_order, slo_ratios
from unrack.solver.servers.problem import asked
from unrack.workload.formats.rules import Intake
from unrack.workload.job import Workload, job_table
from unrack.workload.tier_asks import NO_CEILING, tier_asks


@pytest.mark.parametrize("scale", [1, 2, 10])
def test_the_order_is_that_of_a_stable_sort_by_whole_ratios(scale: int) -> None:
    draws = np.random.default_rng(scale)
    for _ in range(50):
        count = int(draws.integers(1, 12))
        mb = np.full(count, 100)
        floor, ceiling = draws.integers(0, 100, count), draws.integers(1, 40, count)
        ceiling[draws.random(count) < 0.2] = NO_CEILING
        asks = asked(np.ones(count, np.int64), mb, floor, ceiling, tiers=2)
        expected = sorted(
            range(count), key=lambda i: Fraction(int(floor[i]) * scale, int(ceiling[i])).__floor__(), reverse=True
        )
        assert in_order(np.arange(count), asks, "slo-ratio", scale).tolist() == expected
        assert in_order(np.arange(count), asks, "request", scale).tolist() == list(range(count))
        some = np.arange(count)[::2]
        assert in_order(some, asks, "slo-ratio", scale).tolist() == [i for i in expected if i % 2 == 0]


def test_a_ceiling_of_nothing_comes_first_and_none_counts_as_nothing() -> None:
    ones = np.ones(4, np.int64)
    asks = asked(ones, 9 * ones, np.array([9, 9, 0, 8]), np.array([1, 0, 5, NO_CEILING]), tiers=2)
    assert in_order(np.arange(4), asks, "slo-ratio", 1).tolist() == [1, 0, 2, 3]
    assert slo_ratios(asks, 1).tolist()[2:] == [0, 0]


def test_servers_that_come_at_once_in_a_study_are_placed_as_in_one_shot() -> None:
    draws = np.random.default_rng(7)
    centre = Cluster.preset("slo-basic")
    differ = 0
    for _ in range(8):
        count = 60
        mb = draws.integers(1_000, 30_000, count)
        floor = (mb * draws.random(count)).astype(np.int64)
        ceiling = np.maximum(((mb - floor) * draws.uniform(1, 2, count)).astype(np.int64), 1)
        cores = draws.integers(1, 30, count)
        zero = np.zeros(count, np.int64)
        jobs = job_table(
            submit_us=zero, work_us=zero + 10**6, tasks=zero + 1, cores=cores, memory_mb=mb,
            slo=tier_asks(floor, ceiling),
        )  # fmt: skip
        workload = Workload("at once", jobs, Intake("test", "generated", count, count))
        wanted = [
            {"cores": int(c), "mem": int(m), "local": int(f), "ceiling": int(w)}
            for c, m, f, w in zip(cores, mb, floor, ceiling, strict=True)
        ]
        homes = {}
        for order in ("request", "slo-ratio"):
            run = unrack.simulate(centre, workload, f"slo(order={order})")
            homes[order] = (
                run.placements.group_by("job").agg(pl.col("first_node").min()).sort("job")["first_node"].to_list()
            )
            shot = unrack.place(centre, wanted, order=order)
            assert homes[order] == shot.allocation.cluster.tolist()
        differ += homes["request"] != homes["slo-ratio"]
    assert differ > 4
