"""A job alone on an empty site starts if there is any place for it, and else is turned away: all places are tried."""

from __future__ import annotations

from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest
from tries import seeds

import unrack
from unrack.cluster.spec import Cluster
from unrack.workload.formats.rules import Intake
from unrack.workload.job import Workload, job_table

S = 10**6
POLICIES = (
    "fcfs", "easy(place=best-fit)", "conservative(place=worst-fit)", "slurm(place=tightest-run)", "flow(interval=0)",
    "easy(place=min-fragmentation)", "easy(gpus=pack)", "list(backfill=any, place=max-composition)", "easy++",
    "conservative(nodes=whole)",
)  # fmt: skip
FEATURES = {"x": ["x"], "y": ["y"], "x&y": ["xy"], "[x|y]": ["x", "y"]}
"""Features, and the ways to have nodes: each node of one has all of its letters."""
COUNTED = {"x*2": {"x": 2}, "[x*1&y*1]": {"x": 1, "y": 1}, "[(x&y)*1&x*2]": {"xy": 1, "x": 2}}
"""Features of so many nodes."""


class Alone(NamedTuple):
    """A cluster, what its one job asks, and how many tasks each node has room for."""

    cluster: dict[str, Any]
    tasks: int
    cores: int
    mb: int
    devices: dict[tuple[str, str], int]
    partition: str
    constraint: str
    fit: list[int]

    def has_place(self) -> bool:
        """Whether some nodes of a partition hold all tasks, within every limit."""
        site = self.cluster["site"]
        of = {name: {int(node) for node in nodes} for name, nodes in site["features"].items()}
        parts = {one["name"]: one for one in site["partitions"]}
        for name in self.partition.split(","):
            own, limits = set(range(len(self.fit))), [*site["limits"]]
            if name:
                own, limits = {int(node) for node in parts[name]["nodes"]}, limits + parts[name]["limits"]
            most = [limit["amounts"] for limit in limits]
            if any(self.tasks > amounts.get("tasks", self.tasks) for amounts in most):
                continue
            nodes = min(amounts.get("nodes", self.tasks) for amounts in [{"nodes": self.tasks}, *most])
            for letters in FEATURES.get(self.constraint, [""]):
                there = [node for node in own if self.fit[node] and all(node in of[letter] for letter in letters)]
                for some in (one for k in range(1, nodes + 1) for one in combinations(there, k)):
                    counted = COUNTED.get(self.constraint, {}).items()
                    has = {of_all: sum(all(one in of[x] for x in of_all) for one in some) for of_all, _ in counted}
                    enough = all(has[of_all] >= count for of_all, count in counted)
                    if enough and sum(self.fit[node] for node in some) >= self.tasks:
                        return True
        return False


def alone(seed: int) -> Alone:
    """Up to four nodes in two partitions, with features and limits; counters and GPUs of some nodes."""
    draw = np.random.default_rng(seed)
    count = int(draw.integers(1, 5))

    def some() -> list[str]:
        return sorted(str(node) for node in draw.choice(count, int(draw.integers(1, count + 1)), replace=False))

    def limits() -> list[dict[str, Any]]:
        amounts = {str(draw.choice(["nodes", "nodes", "nodes", "tasks"])): int(draw.integers(1, 5))}
        return [{"per": str(draw.choice(["user", "all"])), "amounts": amounts}] if draw.random() < 0.7 else []

    cores, mb = draw.integers(1, 7, count), draw.integers(1, 9, count)
    partitions = [{"name": name, "nodes": some(), "limits": limits()} for name in ("a", "b")]
    site = {"partitions": partitions, "features": {"x": some(), "y": some()}, "limits": limits()}
    nodes = [{"count": 1, "cores": int(c), "memory": int(m)} for c, m in zip(cores, mb, strict=True)]
    cluster: dict[str, Any] = {"nodes": nodes, "site": site}
    asked = int(draw.integers(1, 4)), int(draw.integers(0, 4)) * int(draw.random() < 0.5)
    fit, devices = np.minimum(cores // asked[0], mb // asked[1] if asked[1] else 9), {}
    for key, name in ((("counted", "k"), "counted"), (("gpus", "count"), "gpus")):
        if draw.random() < 0.4:
            first, last = sorted(draw.integers(0, count, 2).tolist())
            amount, each, here = int(draw.integers(1, 4)), int(draw.integers(0, 3)), f"{first}-{last}"
            counter = {"name": "k", "amount": amount, "per": "node", "nodes": [here]}
            cluster[name] = [counter if name == "counted" else {"nodes": here, "machine": {"gpus": amount}}]
            if each:
                there = (np.arange(count) >= first) & (np.arange(count) <= last)
                devices[key], fit = each, np.minimum(fit, there * amount // each)
    words = str(draw.choice(["a", "b", "a,b", ""])), str(draw.choice(["", "", *FEATURES, *COUNTED]))
    return Alone(cluster, int(draw.integers(1, 6)), *asked, devices, *words, fit.tolist())


def state(world: Alone, policy: str) -> str:
    """What becomes of the job, ahead of another of one core."""
    two, columns = np.full(2, 5 * S), {"partition": [world.partition, ""], "constraint": [world.constraint, ""]}
    table = job_table(
        submit_us=np.array([0, S]), work_us=two, request_us=two, tasks=np.array([world.tasks, 1]),
        cores=np.array([world.cores, 1]), memory_mb=np.array([world.mb, 0]), user=pl.Series(["ann", "bob"]),
        devices={key: np.array([amount, 0]) for key, amount in world.devices.items()}, extra=pl.DataFrame(columns),
    )  # fmt: skip
    workload = Workload("alone", table, Intake("", "", 0, 0))
    return str(unrack.simulate(Cluster.from_dict(world.cluster), workload, policy).jobs["state"][0])


@pytest.mark.long
@pytest.mark.draws(400)
@pytest.mark.parametrize("more", [range(0), pytest.param(range(400, 7_200), marks=pytest.mark.slow)])
def test_a_job_that_has_any_place_starts_and_nearly_all_others_are_turned_away(more: range) -> None:
    never = waits = 0
    for seed in more or seeds(400):
        world, policy = alone(seed), POLICIES[seed % len(POLICIES)]
        found = state(world, policy)
        if world.has_place():
            assert found == "finished", (seed, policy)
        else:
            assert found in ("rejected", "queued"), (seed, policy)
            never, waits = never + 1, waits + (found == "queued")
    assert waits <= max(1, 0.005 * never)


@pytest.mark.parametrize("policy", POLICIES[:5])
def test_who_may_be_on_few_nodes_is_not_spread_over_more(policy: str) -> None:
    """Three tasks on one node: the last holds them; four find no node, and are turned away in numbers."""
    nodes = [{"count": 2, "cores": 2}, {"count": 1, "cores": 6}]
    limits = [{"per": "user", "amounts": {"nodes": 1}}]
    cluster = Cluster.from_dict({"nodes": nodes, "site": {"limits": limits}})
    table = job_table(
        submit_us=np.array([0, 1]) * S, work_us=np.full(2, S), request_us=np.full(2, S), tasks=np.array([4, 3]),
        cores=np.full(2, 2), user=pl.Series(["ann", "bob"]),
    )  # fmt: skip
    found = unrack.simulate(cluster, Workload("few", table, Intake("", "", 0, 0)), policy)
    assert found.jobs["state"].to_list() == ["rejected", "finished"]
    assert found.jobs["reason"][0] == "too-big: nodes of user ann, site (asked 2, free 1)"
    assert found.placements["first_node"].to_list() == [2]
