"""The order ``multifactor``: against plain Python, and what fair share is for."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from priority_twins import Prioritised, random_priorities
from test_twins import starts
from twins import easy, fcfs

import unrack
from unrack.cluster.spec import Cluster
from unrack.errors import ClusterError
from unrack.workload.formats.rules import Intake
from unrack.workload.job import Workload, job_table

SEEDS = range(60)
POLICIES = {"list(order=multifactor)": fcfs, "easy(order=multifactor)": easy}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", SEEDS)
def test_jobs_start_as_in_plain_python(seed: int, policy: str) -> None:
    site = random_priorities(seed, 60)
    twin = Prioritised(site, POLICIES[policy])
    assert starts(site, policy) == twin.run(twin.sorted_first)


def jobs_of(**columns: Any) -> Workload:
    """Jobs of one core, in seconds."""
    names = {"submit", "work", "user"}
    count, times = len(columns["submit"]), [np.array(columns[name], np.int64) * 10**6 for name in ("submit", "work")]
    extra = pl.DataFrame({name: column for name, column in columns.items() if name not in names})
    users = pl.Series(columns.get("user", [""] * count))
    one = np.ones(count, np.int64)
    table = job_table(
        submit_us=times[0], work_us=times[1], request_us=times[1], tasks=one, cores=one, user=users, extra=extra
    )
    return Workload("jobs", table, Intake("", "", 0, 0))


def site_of(cores: int, **site: Any) -> Cluster:
    return Cluster.from_dict({"nodes": [{"count": 1, "cores": cores}], "site": site})


def in_order_of_start(cluster: Cluster, workload: Workload, policy: str = "list(order=multifactor)") -> list[int]:
    return [int(job) for job in unrack.simulate(cluster, workload, policy).jobs.sort("start_s")["job"]]


def test_a_tier_goes_before_any_priority() -> None:
    parts = [{"name": "low", "priority": 100, "default": True}, {"name": "high", "tier": 2, "priority": 0}]
    workload = jobs_of(submit=[0, 1, 2, 3], work=[9, 9, 9, 9], partition=["low", "low", "high", ""])
    assert in_order_of_start(site_of(1, partitions=parts, priority={"partition": 1000}), workload) == [1, 3, 2, 4]


def test_nice_is_taken_off() -> None:
    workload = jobs_of(submit=[0, 1, 2], work=[9, 9, 9], nice=[0, 600, 400], qos=["", "a", "a"])
    cluster = site_of(1, qos=[{"name": "a", "priority": 1}], priority={"qos": 1000})
    assert in_order_of_start(cluster, workload) == [1, 3, 2]


def test_the_order_is_that_of_the_last_calculation_and_jobs_of_one_priority_start_as_they_came() -> None:
    accounts = [{"name": "a", "users": ["x"]}, {"name": "b", "users": ["y"]}]
    workload = jobs_of(
        submit=[0, 1, 2, 3], work=[10, 10, 10, 10], user=["x", "y", "x", "y"], account=["a", "b", "a", "b"]
    )
    now, late = ({"fair_share": 100, "calc_period": period} for period in (1, 1000))
    assert in_order_of_start(site_of(1, accounts=accounts, priority=late), workload) == [1, 2, 3, 4]
    assert in_order_of_start(site_of(1, accounts=accounts, priority=now), workload) == [1, 2, 3, 4]
    same = jobs_of(submit=[0, 1, 2, 3], work=[10, 10, 10, 10], user=["x", "x", "y", "y"], account=["a", "a", "b", "b"])
    assert in_order_of_start(site_of(1, accounts=accounts, priority=late), same) == [1, 2, 3, 4]
    assert in_order_of_start(site_of(1, accounts=accounts, priority=now), same) == [1, 3, 2, 4]


def test_a_job_that_waited_for_another_has_no_age_until_then() -> None:
    columns: dict[str, Any] = {
        "submit": [0, 0, 5, 12],
        "work": [10, 40, 10, 10],
        "dependency": ["", "", "afterany:1", ""],
    }
    cluster = site_of(
        1, priority={"age": 10000, "max_age": 1000, "calc_period": 1, "qos": 10**9}, qos=[{"name": "q", "priority": 1}]
    )
    workload = jobs_of(**columns, qos=["q", "q", "", ""])
    assert in_order_of_start(cluster, workload) == [1, 2, 3, 4]  # since 10 s and since 12 s
    columns["submit"][3] = 8
    assert in_order_of_start(cluster, jobs_of(**columns, qos=["q", "q", "", ""])) == [1, 2, 4, 3]


def test_who_uses_by_weights_of_memory_and_at_a_cheap_quality_is_charged_so() -> None:
    accounts = [{"name": "a", "users": ["x"]}, {"name": "b", "users": ["y"]}]
    qos = [{"name": "free", "usage_factor": 0}]
    workload = jobs_of(
        submit=[0, 1, 1, 2], work=[10, 5, 10, 10], user=["x", "y", "y", "x"], account=["a", "b", "b", "a"],
        qos=["free", "", "", ""],
    )  # fmt: skip
    keys = {"fair_share": 100, "calc_period": 1}
    assert in_order_of_start(site_of(1, accounts=accounts, priority=keys), workload)[2:] == [3, 4]
    assert in_order_of_start(site_of(1, accounts=accounts, priority=keys, qos=qos), workload)[2:] == [4, 3]


def test_without_weights_jobs_start_as_they_came() -> None:
    workload = jobs_of(submit=[0, 1, 2], work=[9, 9, 9])
    assert in_order_of_start(Cluster.from_dict({"nodes": [{"count": 1, "cores": 1}]}), workload) == [1, 2, 3]


@pytest.mark.parametrize(
    ("keys", "names"),
    [
        ({"tres": {"gpus.count": 1}}, "gpus.count"), ({"billing": {"corse": 1}}, "corse"), ({"age": -1}, "age"),
        ({"calc_period": 0}, "calc_period"), ({"fair_share_by": "branch"}, "fair_share_by"),
        ({"dampening": 0}, "dampening"),
    ],
)  # fmt: skip
def test_a_wrong_key_is_named(keys: dict[str, Any], names: str) -> None:
    with pytest.raises(ClusterError, match=names):
        site_of(1, priority=keys)


SHARES = {"a": 5, "b": 3, "c": 2}


@pytest.mark.long
@pytest.mark.parametrize("by", ["tree", "classic"])
@pytest.mark.parametrize("policy", ["list(order=multifactor)", "easy(order=multifactor)", "slurm(order=multifactor)"])
def test_on_a_full_site_usage_comes_to_what_was_promised(policy: str, by: str) -> None:
    found = np.array([_used(policy, by, seed) for seed in range(6)])
    want = np.array(list(SHARES.values())) / sum(SHARES.values())
    half = 2.571 * found.std(axis=0, ddof=1) / len(found) ** 0.5  # Student's t for 5 degrees of freedom
    assert (abs(found.mean(axis=0) - want) <= np.maximum(half, 0.01)).all(), (found.mean(axis=0), half)
    assert (half < 0.02).all()


def _used(policy: str, by: str, seed: int) -> Any:
    """The shares of usage while jobs of all accounts wait."""
    draw, count = np.random.default_rng(seed), 600
    accounts = [{"name": name, "shares": shares, "users": [name]} for name, shares in SHARES.items()]
    keys = {"fair_share": 10**6, "half_life": 4000, "calc_period": 10, "fair_share_by": by}
    names = [str(name) for name in draw.permutation(np.repeat(list(SHARES), count // 3))]
    workload = jobs_of(submit=np.zeros(count), work=draw.integers(20, 400, count), user=names, account=names)
    jobs = unrack.simulate(site_of(8, accounts=accounts, priority=keys), workload, policy, audit=False).jobs
    end = jobs.filter(pl.col("account") == "a")["start_s"].max()
    span = pl.min_horizontal("end_s", pl.lit(end)) - pl.max_horizontal("start_s", pl.lit(end / 3))
    used = jobs.group_by("account").agg(span.clip(0).sum().alias("used")).sort("account")["used"].to_numpy()
    return used / used.sum()
