"""Law 8, guarantees, over whatever a cluster may have: what was promised is kept, also where a policy begins anew."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from any_worlds import MORE, PARTS, any_rules, any_world, some
from law_worlds import S, faults
from mixed_worlds import with_rules
from promises import Watch
from test_ample import simulated
from test_irrelevance import World
from tries import some as few

from unrack.cluster.spec import Cluster
from unrack.metric.audit.audit import violations
from unrack.metric.audit.tables import Tables
from unrack.policy.discipline.list_scheduler import BACKFILL
from unrack.policy.discipline.skyline.plan import Plan

WATCHED = ("easy", "conservative", "slurm(interval=7 s)", "easy(backfill_order=sjf)", "conservative(compress=ends)")


REFUSED = {"models": set[str](), "tiers": {"lent"}, "preempted": {"cores", "partitions"}}
"""What there is not beside each of ``MORE``."""


def promises(seed: int, more: str = "") -> int:
    """How many there were in a world; in every seventh nodes fail, in every other the policy begins anew."""
    draw, discipline = np.random.default_rng([78 if more else 77, seed]), WATCHED[seed % len(WATCHED)]
    parts = some(draw, PARTS)
    parts = (parts | {more}) - REFUSED[more] if more else parts
    world, rules = any_world(draw, parts), any_rules(draw, parts)
    struck = faults(draw, 1) if seed % 7 == 0 else ()
    try:
        return Watch(world, discipline, rules, struck, seed % 2 * seed).run()
    except AssertionError as broken:
        raise AssertionError(f"world {seed}, {with_rules(discipline, **rules)}, {sorted(parts)}: {broken}") from None


@pytest.mark.draws(60)
@pytest.mark.parametrize("worlds", [[*range(few(60)), 359, 911], pytest.param(range(60, 3000), marks=pytest.mark.slow)])
def test_what_was_promised_is_kept(worlds: Sequence[int]) -> None:
    """In world 359 a policy begins anew when a job has come beside which nothing is ample any more.

    In world 911 it does where nodes were named, and are counted now, and of two that start at once one may use few.
    """
    assert sum(promises(seed) for seed in worlds) > 3 * len(worlds)


@pytest.mark.long
@pytest.mark.draws(20)
@pytest.mark.parametrize("more", MORE)
@pytest.mark.parametrize("worlds", [range(few(20)), pytest.param(range(20, 300), marks=pytest.mark.slow)])
def test_it_is_kept_beside_models_tiers_and_preemption(more: str, worlds: range) -> None:
    """Where jobs slow each other down, where memory has tiers, and where jobs are stopped for others."""
    assert sum(promises(seed, more) for seed in worlds) > 2 * len(worlds)


def test_of_two_that_borrow_of_each_other_s_nodes_neither_waits_for_the_other() -> None:
    """They are to start at one time, and nodes may lend so much while they run tasks."""
    submit, run, request, tasks, cores, mb, drive = np.array(
        [(5, 6, 6, 3, 3, 1, 283), (6, 14, 14, 2, 2, 1, 347), (7, 12, 33, 2, 3, 3, 9), (9, 13, 13, 3, 2, 1, 0),
         (14, 14, 14, 2, 2, 1, 0), (33, 15, 29, 2, 1, 2, 175), (34, 16, 16, 1, 1, 4, 517)], np.int64
    ).T  # fmt: skip
    slot = (submit == 14).astype(np.int64)
    jobs = {
        "submit_us": submit * S, "work_us": run * S, "request_us": request * S, "tasks": tasks, "cores": cores,
        "memory_mb": mb, "devices": {("nvme", "capacity_mb"): drive, ("counted", "slot"): slot},
    }  # fmt: skip
    pool = {"kind": "nvme", "count": 5, "share": 3, "compose": 3, "quantities": {"capacity_mb": 1000}}
    world = World(
        {"nodes": [{"count": 1, "cores": c, "memory": m} for c, m in ((5, 8), (3, 6), (3, 2))], "nodes_per_rack": 2,
         "counted": [{"name": "slot", "amount": 2, "per": "rack"}], "lending": "rack",
         "pools": [pool | {"name": "drives", "detach_latency": "3 s"}]},
        jobs,
    )  # fmt: skip
    assert Watch(world, "conservative", {"place": "best-fit", "memory": "naive"}).run() == 6


KEPT = ("fcfs", "easy", "list(backfill=any)", "conservative", "slurm(interval=7 s)", "flow(interval=0)")


@pytest.mark.parametrize("rule", ["naive", "disaggregated"])
def test_a_node_that_is_kept_for_others_lends_no_memory(rule: str) -> None:
    """From 50 to 100 s, to jobs that might run then; with a drive, too."""
    one = np.ones(3, np.int64)
    jobs = {"submit_us": np.array([5, 6, 7]) * S, "work_us": 10 * S * one, "request_us": np.array([10, 50, 10]) * S,
            "tasks": one, "cores": one, "memory_mb": np.array([1, 6, 1]),
            "devices": {("nvme", "capacity_mb"): np.array([0, 0, 1])}}  # fmt: skip
    pool = {"name": "drives", "kind": "nvme", "count": 2, "quantities": {"capacity_mb": 1000}}
    kept = {"name": "r", "nodes": ["1"], "start": 50, "duration": 50, "users": ["other"]}
    cluster = {"nodes": [{"count": 2, "cores": 2, "memory": 4}], "lending": "all", "pools": [pool]}
    site = {"site": {"reservations": [kept]}}
    for policy in KEPT:
        for drive in (0, 1):
            world = World(cluster | site, jobs | {"devices": {("nvme", "capacity_mb"): np.array([0, drive, 0])}})
            found = simulated(world, with_rules(policy, memory=rule)).jobs.sort("job")["start_s"].to_list()
            assert found[1] == 100, (policy, drive)


def test_the_audit_finds_who_borrows_of_a_node_that_is_kept_for_others() -> None:
    """As it is recorded without the reservation."""
    one = np.ones(1, np.int64)
    jobs = {"submit_us": 5 * S * one, "work_us": 9 * S * one, "tasks": one, "cores": one, "memory_mb": 6 * one}
    plain = {"nodes": [{"count": 2, "cores": 2, "memory": 4}], "lending": "all"}
    found = simulated(World(plain, jobs), "easy(memory=naive)")
    said = ["job 1, attempt 1, borrows of a node kept for others"]
    for start, words in ((0, said), (6, said), (14, [])):
        kept = {"name": "r", "nodes": ["1"], "start": start, "duration": 50, "users": ["other"]}
        cluster = Cluster.from_dict(plain | {"site": {"reservations": [kept]}})
        assert [one.what for one in violations(Tables(cluster, dict(found.tables.items())))] == words


def test_a_job_that_passes_the_head_and_delays_it_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: under EASY any job may pass."""
    monkeypatch.setitem(BACKFILL, "easy", BACKFILL["any"])
    with pytest.raises(AssertionError, match="promised"):
        sum(map(promises, range(0, 60, len(WATCHED))))


def test_a_plan_that_forgets_what_it_promised_when_it_begins_anew_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted."""
    monkeypatch.setattr(Plan, "resumed", Plan.begin)
    with pytest.raises(AssertionError, match="promised"):
        sum(map(promises, range(1, 200, 2 * len(WATCHED))))
