"""Metrics of tiers of memory, on a run that can be counted by hand."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from tier_runs import S, some_run, workload
from tries import some

import unrack
from unrack.cluster.spec import Cluster
from unrack.metric.kinds.memory import TIER_METRICS
from unrack.sim.result import Result
from unrack.steps import areas_of, largest
from unrack.workload.job import job_table
from unrack.workload.tier_asks import NO_CEILING, tier_asks

TIERS = [{"name": "local", "price": 8}, {"name": "far", "cost": 2, "price": 1}]


def by_hand(policy: str = "slo(full=reject)", **options: object) -> Result:
    """Two compute pools of 2 cores and 4 GB share 8 GB; three servers for 100, 50 and 50 s; the third asks too much."""
    cluster = Cluster.from_dict({
        "name": "two", "nodes": [{"count": 2, "cores": 2, "memory": "4 GB"}], "tiers": TIERS,
        "memory_pools": [{"count": 1, "memory": "8 GB", "tier": "far", "shared_by": 2}],
    })  # fmt: skip
    gb = 1024
    jobs = job_table(
        submit_us=np.array([0, 50, 60]) * S, work_us=np.array([100, 50, 50]) * S,
        request_us=np.array([100, 50, 50]) * S, tasks=np.ones(3, np.int64), cores=np.array([2, 2, 2]),
        memory_mb=np.array([4, 6, 4]) * gb,
        slo=tier_asks(np.array([2, 2, 4]) * gb, np.array([NO_CEILING, 6 * gb, 0])),
    )  # fmt: skip
    return unrack.simulate(cluster, workload(jobs), policy, **options)


def test_the_metrics_of_a_small_run_are_those_counted_by_hand() -> None:
    # 1: 2 GB local, 2 far: 18 an hour. 2: a ceiling of 6 allows 3 GB far, so 3 local: 27 an hour. 3: no cores: refused.
    metrics = by_hand().metrics
    price_s = 100 * 18 + 50 * 27
    expected = {
        "slo_broken_local": 0, "slo_broken_remote": 0, "servers_rejected": 1 / 3, "clusters_used_mean": 1.5,
        "clusters_used_max": 2, "price_total": price_s / 3600, "price_per_server_h": price_s / 150,
        "price_per_gb_h": price_s / (100 * 4 + 50 * 6), "price_over_bound": 1,
        "used_memory_local": (100 * 2 + 50 * 3) / (100 * 8), "used_memory_far": (100 * 2 + 50 * 3) / (100 * 8),
        # in the first half cluster 1 is open, so the far pool is not stranded; in the second both are closed
        "stranded_memory_local": (100 * 2 + 50 * 1) / (100 * 8), "stranded_memory_far": 50 * 3 / (100 * 8),
        "stranded_memory": (100 * 2 + 50 * 1 + 50 * 3) / (100 * 16),
        "stranded_in_use": (100 * 2 + 50 * 1 + 50 * 3) / (50 * 12 + 50 * 16),
    }  # fmt: skip
    assert {name: metrics[name] for name in expected} == pytest.approx(expected)


def test_first_fit_costs_more_than_the_bound_as_it_takes_local_memory_first() -> None:
    metrics = by_hand("slo-first-fit(full=reject)").metrics  # all 4 GB local, then 4 of 6
    assert metrics["price_over_bound"] == pytest.approx((100 * 32 + 50 * 34) / (100 * 18 + 50 * 27))


def test_a_window_cuts_the_integrals_and_leaves_other_servers_out() -> None:
    metrics = by_hand(window_us=(50 * S, 80 * S)).metrics
    assert metrics["servers_rejected"] == 1 / 2
    assert metrics["clusters_used_mean"] == 2
    assert metrics["price_total"] == pytest.approx(30 * 45 / 3600)
    before = by_hand(window_us=(10 * S, 40 * S)).metrics
    assert before["clusters_used_max"] == 1
    assert before["slo_broken_local"] is None


@pytest.mark.draws(30)
def test_runs_with_tiers_have_every_metric_of_tiers_and_one_for_each_tier() -> None:
    for seed in range(some(30)):
        run = some_run(seed)
        names = run.log.cluster.tiers.names
        wanted = [own for name in TIER_METRICS for own in ([name.replace("TIER", tier) for tier in names]
                                                           if "TIER" in name else [name])]  # fmt: skip
        assert [name for name in run.metrics if name in wanted] == wanted
        shares = [value for name, value in run.metrics.items() if name.startswith(("used_memory_", "stranded_"))]
        assert all(value is None or 0 <= value <= 1 for value in shares)
        for name in names:
            used, stranded = (run.metrics[f"{part}_memory_{name}"] for part in ("used", "stranded"))
            assert used is None or used + stranded <= 1 + 1e-12


def test_integrals_and_maxima_of_steps_hold_their_last_value_and_are_nothing_before_the_first() -> None:
    steps = pl.DataFrame({"time_s": [10.0, 20.0], "mb": [3, 5]})
    assert areas_of(steps, ["mb"], 0.0, 30.0) == {"mb": 3 * 10 + 5 * 10}
    assert areas_of(steps, ["mb"], 30.0, 30.0) == {"mb": 0.0}
    assert largest(steps, "mb", 0.0, 5.0) == 0.0
    assert largest(steps, "mb", 12.0, 13.0) == 3.0
    assert largest(steps, "mb", 25.0, 30.0) == 5.0
