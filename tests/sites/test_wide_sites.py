"""Laws on sites that say everything at once: nothing is where it may not be, and nobody waits in vain."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from test_site_laws import S, brought, starts
from tries import seeds
from wide_fates import fates, idle
from wide_sites import attempts_of, faults, wide_site

import unrack
from unrack.policy.table import parse_policy
from unrack.resources.site.keys import SiteFile
from unrack.resources.site.quotas import places_of
from unrack.sim.simulate import prepared

POLICIES = (
    "fcfs", "list(backfill=any)", "easy", "conservative", "slurm(interval=10 s)",
    "slurm(interval=10 s, reserve=nodes)", "slurm(interval=10 s, reserve=slurm)", "easy(backfill_order=sjf)",
    "conservative(compress=ends)", "easy(place=best-fit)", "easy++", "conservative(order=sjf)",
    "list(order=multifactor, backfill=any)", "easy(order=multifactor)", "conservative(order=multifactor)",
    "slurm(order=multifactor, interval=10 s)",
)  # fmt: skip


@pytest.mark.draws(32)
@pytest.mark.parametrize("more", [range(0), pytest.param(range(32, 1000), marks=pytest.mark.slow)])
def test_all_that_a_site_says_holds_at_every_moment_and_who_waits_waits_for_something(more: range) -> None:
    """By the result tables alone; each site is for another policy, and some are brought job by job."""
    for seed in more or seeds(32):
        policy, made = POLICIES[(seed + seed // 16) % len(POLICIES)], wide_site(seed)
        found = unrack.simulate(made.cluster, made.workload, policy)
        rule = "any" if "backfill=any" in policy else "first" if policy in ("fcfs", "easy") else "all"
        late = 10.0 if "slurm" in policy else 0.0
        wrong = [*faults(made, found), *fates(made, found), *idle(made, found, rule, late)]
        assert not wrong, (seed, policy, wrong[:3])
        if seed % 4 == 0:
            log = prepared(made.cluster, made.workload.jobs, parse_policy(policy), arrivals=True).run()
            own = zip(log.attempt_job.tolist(), log.attempt_start_us.tolist(), strict=True)
            first = {(one.job, one.number): round(one.start * S) for one in reversed(attempts_of(found))}
            assert sorted(own) == sorted((job, at) for (job, _), at in first.items()), (seed, policy)


def jobs(submit: list[int], request: list[int], tasks: list[int], cores: list[int], users: str) -> dict[str, Any]:
    """Jobs that run for as long as they ask."""
    own = {"submit_us": np.array(submit) * S, "work_us": np.array(request) * S, "request_us": np.array(request) * S}
    own |= {"tasks": np.array(tasks), "cores": np.array(cores), "memory_mb": np.zeros(len(submit), np.int64)}
    return own | {"user": pl.Series(list(users))}


def test_a_job_planned_beside_kept_cores_starts_when_another_has_a_choice_of_nodes_by_then() -> None:
    """What it claims of its node was in another order than it counts for, beside a limit: the plan was refused."""
    kept = {"name": "r", "nodes": ["0", "1"], "start": 5, "duration": 143, "cores": [3, 2], "users": ["c"]}
    few = [{"per": "user", "amounts": {"cores": 4}}]
    site = {"partitions": [{"name": "p", "nodes": ["0"], "limits": few}], "reservations": [kept]}
    site["qos"] = [{"name": "q", "limits": [{"per": "user", "amounts": {"nodes": 2}}]}]
    cluster = {"nodes": [{"count": 1, "cores": 4}, {"count": 1, "cores": 6}], "site": site}
    two = jobs([63, 114], [76, 102], [1, 1], [3, 3], "ab")
    for policy in ("conservative", "conservative(order=sjf)", "easy", "fcfs", "slurm(interval=1 s)"):
        assert starts(cluster, two, policy, partition=["p", ""], qos=["", "q"]) == [148.0, 114.0], policy


@pytest.mark.parametrize("flex", [False, True])
@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative", "slurm(interval=10 s)", "easy++"])
def test_a_job_with_a_reservation_runs_in_that_whatever_the_hours_of_its_partition(policy: str, flex: bool) -> None:
    """With ``flex`` it does not leave it, where the partition has hours; elsewhere it may."""
    hours = [{"start": 0, "duration": 50, "every": 1000, "until": 9000}]
    parts = [{"name": "night", "nodes": ["0-1"], "hours": hours}, {"name": "any"}]
    kept = {"name": "r", "nodes": ["0"], "start": 200, "duration": 100, "flex": flex}
    cluster = {"nodes": [{"count": 2, "cores": 2, "memory": 4}], "site": {"partitions": parts, "reservations": [kept]}}
    four = jobs([1, 1, 1, 1], [60, 60, 101, 60], [1] * 4, [1] * 4, "aaaa")
    columns = {"partition": ["night", "any", "night", "night"], "reservation": ["r", "r", "r", ""]}
    found = brought(cluster, four, policy, False, **columns)
    outside = 10 * S if "slurm" in policy else S
    assert found[0] in ([(0, 200 * S), (1, at)] for at in ((S, outside) if flex else (200 * S,)))
    assert sorted(found[1]) == [2, 3]
    assert brought(cluster, four, policy, True, **columns) == found


def test_of_two_limits_of_the_same_the_lower_holds_whichever_is_first() -> None:
    """In a run the first counted alone, and in the live driver, whose places are made of the site, the last."""
    amounts = [{"jobs": 3}, {"jobs": 2}]
    for order in (amounts, amounts[::-1]):
        limits = [{"per": "user", "amounts": one} for one in order]
        site = {"partitions": [{"name": "p", "limits": limits}], "accounts": [{"name": "x", "users": ["a"]}]}
        cluster = {"nodes": [{"count": 4, "cores": 1}], "site": site}
        three = jobs([0, 0, 0], [10, 10, 10], [1] * 3, [1] * 3, "aaa")
        for policy in ("fcfs", "easy", "conservative"):
            assert starts(cluster, three, policy, partition=["p"] * 3) == [0.0, 0.0, 10.0], policy
        known = places_of(SiteFile.model_validate(site))
        assert [place.amount for place in known if place.name == "jobs of user a, partition p"] == [2]
