"""A saturated site gives accounts what their shares say; a stream of small jobs starves no wide one."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
import pytest
from test_site_laws import S, starts

BATCHES, T_99 = 20, 2.86
"""Batches of time, and the quantile of Student's t of a two-sided 99 % interval for so many."""
USERS = {"ann": "phys", "bob": "phys", "cyd": "chem", "dan": "bio"}
SHARES = {"phys": 5, "chem": 3, "bio": 2}


def site(by: str) -> dict[str, Any]:
    accounts: list[dict[str, Any]] = [
        {"name": name, "shares": shares, "users": [user for user, of in USERS.items() if of == name]}
        for name, shares in SHARES.items()
    ]
    two = [{"name": "ann", "shares": 3}, {"name": "bob", "shares": 2}]
    accounts[0]["users"] = two if by == "tree" else two[1:]
    rules = {"fair_share": 1000, "half_life": 2000, "calc_period": 10, "fair_share_by": by}
    return {"accounts": accounts, "priority": rules}


SHARING = (
    "list(order=multifactor)", "slurm(order=multifactor, interval=10 s)", "easy(order=multifactor)",
    "list(order=multifactor, backfill=any)", "slurm(order=multifactor, interval=10 s, reserve=nodes)",
    "slurm(order=multifactor, interval=10 s, reserve=slurm)", "first-fit(order=multifactor)",
)  # fmt: skip
"""Under them what was used counts at every start; under conservative jobs keep what they were promised."""


@pytest.mark.long
@pytest.mark.parametrize("by", ["tree", "classic"])
@pytest.mark.parametrize("policy", SHARING)
@pytest.mark.parametrize("seed", [11, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(8))])
def test_shares_of_the_machine_converge_to_those_that_are_declared(seed: int, policy: str, by: str) -> None:
    """By the classic formula of accounts with one user each alone: beside others a user counts for all of them."""
    draw, count = np.random.default_rng(seed), 3600
    cores, work = draw.integers(1, 5, count), draw.exponential(40, count).astype(np.int64) + 1
    names = draw.choice([*USERS] if by == "tree" else [*USERS][1:], count)
    jobs: dict[str, Any] = {"submit_us": np.zeros(count, np.int64), "work_us": work * S, "request_us": work * S}
    jobs |= {"tasks": np.ones(count, np.int64), "cores": cores, "memory_mb": np.zeros(count, np.int64)}
    accounts = [USERS[name] for name in names]
    cluster = {"nodes": [{"count": 8, "cores": 4}], "site": site(by)}
    jobs["user"] = pl.Series(names)
    begins = np.array(starts(cluster, jobs, policy, account=accounts), np.float64)
    ends = begins + work
    last = min(begins[names == name].max() for name in set(names))  # until then all have jobs that wait
    edges = np.linspace(last / 3, last, BATCHES + 1)
    declared = (
        {"ann": 0.3, "bob": 0.2, "cyd": 0.3, "dan": 0.2} if by == "tree" else {"bob": 0.5, "cyd": 0.3, "dan": 0.2}
    )
    held = np.array([
        [float((np.clip(np.minimum(ends, b) - np.maximum(begins, a), 0, None) * cores)[names == name].sum())
         for name in declared] for a, b in pairwise(edges)
    ])  # fmt: skip
    shares = held / held.sum(axis=1, keepdims=True)
    mean, half = shares.mean(axis=0), T_99 * shares.std(axis=0, ddof=1) / BATCHES**0.5
    for place, (name, part) in enumerate(declared.items()):
        assert half[place] < 0.05, name
        assert abs(mean[place] - part) <= half[place] + 0.01, (name, mean[place], half[place])


PROMISING = (
    "easy", "conservative", "slurm(interval=10 s)", "easy(backfill_order=sjf)", "fcfs", "easy++",
    "slurm(interval=10 s, reserve=nodes)", "slurm(interval=10 s, reserve=slurm)", "easy(order=multifactor)",
)  # fmt: skip


@pytest.mark.parametrize("policy", PROMISING)
@pytest.mark.parametrize("seeds", [range(3, 4), pytest.param(range(4, 204), marks=pytest.mark.slow)])
def test_a_stream_of_small_jobs_of_overlapping_partitions_starves_no_wide_job(seeds: range, policy: str) -> None:
    for seed in seeds:
        _starves_no_wide_job(policy, seed)


def _starves_no_wide_job(policy: str, seed: int) -> None:
    count, draw = 600, np.random.default_rng(seed)
    submit = np.sort(draw.integers(0, 700, count))
    work = draw.integers(5, 15, count)  # a tenth more than the nodes can do
    tasks, wide = np.ones(count, np.int64), int(np.searchsorted(submit, 100))
    names = draw.choice(["left", "right"], count)
    tasks[wide], names[wide] = 4, "left"
    jobs: dict[str, Any] = {"submit_us": submit * S, "work_us": work * S, "request_us": work * S, "tasks": tasks}
    jobs |= {
        "cores": np.ones(count, np.int64),
        "memory_mb": np.zeros(count, np.int64),
        "user": pl.Series(["u"] * count),
    }
    parts = [{"name": "left", "nodes": ["0-3"]}, {"name": "right", "nodes": ["2-5"]}]
    cluster = {"nodes": [{"count": 6, "cores": 1}], "site": {"partitions": parts}}
    found = starts(cluster, jobs, policy, partition=names.tolist())
    before = int(work[:wide].sum()) // 6 + 60  # what was there before it, and the jobs that run then
    start = found[wide]
    assert start is not None
    assert start <= max(submit[wide], before) + 60


@pytest.mark.parametrize("by", ["tree", "classic"])
@pytest.mark.parametrize("half_life", [50, 0])
def test_what_was_used_before_a_run_counts_as_if_jobs_had_used_it(half_life: int, by: str) -> None:
    """Ann runs for 100 s, and then both have jobs; beside it a run that begins then, and is told what she used."""
    rules = {"fair_share": 1000, "half_life": half_life, "calc_period": 10, "fair_share_by": by}

    def site(usage: float) -> dict[str, Any]:
        users = [{"name": "ann", "usage": usage}, {"name": "bob"}]
        return {"accounts": [{"name": "phys", "users": users}], "priority": rules}

    def jobs(first: int, count: int) -> dict[str, Any]:
        names = ["ann"] * first + ["ann", "bob"] * count
        begins, work = [0] * first + [100 * first] * 2 * count, [100] * first + [10] * 2 * count
        made = {"submit_us": np.array(begins) * S, "work_us": np.array(work) * S, "request_us": np.array(work) * S}
        made |= {"tasks": np.ones(len(names), np.int64), "cores": np.full(len(names), 2), "user": pl.Series(names)}
        return made | {"memory_mb": np.zeros(len(names), np.int64)}

    cores = {"nodes": [{"count": 1, "cores": 2}]}
    used = 200.0 if not half_life else 2 * half_life / np.log(2) * (1 - 2.0 ** (-100 / half_life))
    policy = "list(order=multifactor)"
    whole = starts({**cores, "site": site(0.0)}, jobs(1, 12), policy, account=["phys"] * 25)
    later = starts({**cores, "site": site(used)}, jobs(0, 12), policy, account=["phys"] * 24)
    assert [start - 100 for start in whole[1:]] == later
    assert later != starts({**cores, "site": site(0.0)}, jobs(0, 12), policy, account=["phys"] * 24)
