"""Drives only narrow where a job may run: on those nodes it is placed as a job that asks for none is."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from law_worlds import World, begun
from tries import seeds, some

from unrack.cluster.spec import Cluster
from unrack.policy.discipline.skyline import reserved
from unrack.policy.discipline.skyline.plan import Plan
from unrack.workload.job import job_table

S = 1_000_000
PLACES = ("first-fit", "best-fit", "worst-fit", "tightest-run")
WAYS = (
    *(f"place={place}" for place in PLACES), "memory=disaggregated", "memory=naive",
    "memory=disaggregated, place=worst-fit", "nodes=whole", "nodes=whole, memory=disaggregated",
)  # fmt: skip


def world(seed: int, drives: dict[str, Any], lends: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Jobs on nodes of two kinds in racks of three, of which every other asks for drives; what they are made of."""
    random, count = np.random.default_rng(seed), 40
    kinds = [{"count": 3, "cores": int(random.integers(2, 6)), "memory": int(random.integers(3, 9))} for _ in range(3)]
    work = random.integers(1, 25, count) * S
    jobs = {
        "submit_us": np.sort(random.integers(0, 90, count)) * S, "work_us": work,
        "request_us": work + np.where(random.random(count) < 0.5, 0, random.integers(0, 20, count)) * S,
        "tasks": random.integers(1, 6, count), "cores": random.integers(1, 3, count),
        "memory_mb": random.integers(0, 6 if lends else 3, count),
        "devices": {("nvme", "capacity_mb"): np.where(random.random(count) < 0.5, 10, 0)},
    }  # fmt: skip
    pool = {"name": "drives", "kind": "nvme", "quantities": {"capacity_mb": 1_000_000}} | drives
    cluster: dict[str, Any] = {"nodes": kinds, "nodes_per_rack": 3, "pools": [pool]}
    return cluster | ({"lending": "all"} if lends else {}), jobs


def schedule(cluster: dict[str, Any], jobs: dict[str, Any], policy: str) -> list[tuple[int, int]]:
    """Which job starts when, µs, in the order of the starts."""
    log = begun(World(Cluster.from_dict(cluster), job_table(**jobs)), policy).run()
    return list(zip(log.attempt_job.tolist(), log.attempt_start_us.tolist(), strict=True))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.draws(16)
def test_drives_that_some_nodes_reach_are_as_a_feature_of_these_nodes(way: str) -> None:
    """The drives are enough for all; the feature says the same of nodes, and no device is chosen.

    No job holds up others here: one that waits for nodes with a feature holds up those on its nodes alone.
    """
    for seed in seeds(16):
        rule = f"list(backfill=any, {'' if seed % 2 else 'order=sjf, '}{way})"
        reach = sorted(np.random.default_rng([9, seed]).choice(9, 6, replace=False).tolist())
        nodes = [str(node) for node in reach]
        cluster, jobs = world(seed, {"count": 64, "share": 64, "reach": nodes}, "memory" in way)
        asks = jobs["devices"]["nvme", "capacity_mb"] > 0
        words = pl.DataFrame({"constraint": np.where(asks, "drives", "").tolist()})
        others = {key: value for key, value in jobs.items() if key != "devices"} | {"extra": words}
        without = {key: value for key, value in cluster.items() if key != "pools"}
        site = {"site": {"features": {"drives": nodes}}}
        assert schedule(cluster, jobs, rule) == schedule(without | site, others, rule), f"world {seed}"


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
def test_a_plan_chooses_scarce_drives_in_its_kernel_as_outside_of_it(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rule, asked = f"conservative({way})", list[bool]()
    chosen = Plan.chosen_in_kernel
    monkeypatch.setattr(reserved, "FEW_ASKED", -1)

    def noting(self: Plan, jobs: Any) -> bool:
        asked.append(chosen(self, jobs))
        return asked[-1]

    for seed in range(8):
        scarce = {"count": 2 + seed % 3, "share": 1 + seed % 2, "per": "rack" if seed % 4 else "node"}
        cluster, jobs = world(seed, scarce, "memory" in way)
        with monkeypatch.context() as watched:
            watched.setattr(Plan, "chosen_in_kernel", noting)
            inside = schedule(cluster, jobs, rule)
        with monkeypatch.context() as watched:
            watched.setattr(Plan, "chosen_in_kernel", lambda plan, jobs: False)
            assert schedule(cluster, jobs, rule) == inside, f"world {seed}"
    assert any(asked)


@pytest.mark.parametrize("way", [way for way in WAYS if "whole" not in way])
@pytest.mark.draws(9)
def test_what_a_plan_refuses_before_it_chooses_has_no_place(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Devices that one job holds alone, and the memory of racks of which each lends within itself, are bounds in the
    kernel that no choice outside of it asks."""
    monkeypatch.setattr(reserved, "FEW_ASKED", -1)
    for seed in range(some(9)):
        random = np.random.default_rng([29, seed])
        pool = {"kind": "gpu", "count": int(random.integers(1, 4)), "per": "node" if seed % 3 else "rack"}
        cluster, jobs = world(seed, pool | ({"share": 1} if seed % 2 else {}), "memory" in way)
        cluster["pools"][0].pop("quantities")
        jobs["devices"] = {("gpu", "devices"): np.where(random.random(40) < 0.6, random.integers(1, 4, 40), 0)}
        cluster |= {"lending": "rack"} if "memory" in way else {}
        for rule in (f"conservative({way})", f"slurm(interval=5 s, {way})"):
            inside = schedule(cluster, jobs, rule)
            with monkeypatch.context() as watched:
                watched.setattr(Plan, "chosen_in_kernel", lambda plan, jobs: False)
                assert schedule(cluster, jobs, rule) == inside, f"world {seed} under {rule}"
