"""What is ample: where the bound lies, what other jobs do to plans, and what follows if it is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from law_worlds import World as Run
from law_worlds import begun
from test_irrelevance import World, plain, random_world

import unrack
from unrack.cluster.spec import Cluster
from unrack.events import Submitted
from unrack.policy.discipline.skyline.plan import Plan
from unrack.resources.links.resource import Links
from unrack.workload.formats.rules import Intake
from unrack.workload.job import Workload, job_table

PLANNED = (
    "conservative", "conservative(nodes=whole)", "conservative(compress=ends)", "slurm(interval=7 s)",
    "slurm(interval=7 s, nodes=whole)",
)  # fmt: skip
FOUR = {"nodes": [{"count": 4, "cores": 2, "memory": 4}]}


def drives(count: int, **more: Any) -> dict[str, Any]:
    return {"name": "drives", "kind": "nvme", "count": count, "quantities": {"capacity_mb": 1000}, **more}


def machines(gpus: int) -> dict[str, Any]:
    return {"machines": [{"machine": {"gpus": gpus, "per_socket": gpus}, "nodes": "0-3"}]}


MB, GROUP, MOST = ("links", "mb_s"), ("spread", "group"), ("spread", "most")
SLOT, GPUS, PARTS = ("counted", "slot"), ("gpus", "count"), ("gpus", "milli")
DRIVE = ("nvme", "capacity_mb")


def slots(amount: int, **more: Any) -> dict[str, Any]:
    return {"counted": [{"name": "slot", "amount": amount, "per": "node", **more}]}


CASES: tuple[tuple[dict[str, Any], dict[tuple[str, str], int], int, bool], ...] = (  # keys, asks, cores, ample
    ({"links": {"mb_s": 10}}, {MB: 5}, 1, True), ({"links": {"mb_s": 9}}, {MB: 5}, 1, False),
    ({"links": {"mb_s": 9}}, {MB: 9}, 2, True),
    ({"links": {"mb_s": 9}}, {MB: 1, ("links", "remote_mb_s"): 1}, 1, False),
    ({"spread": {"groups": 1}}, {GROUP: 1, MOST: 2}, 1, True),
    ({"spread": {"groups": 1}}, {GROUP: 1, MOST: 1}, 1, False),
    (slots(2), {SLOT: 1}, 1, True), (slots(2, nodes="0-2"), {SLOT: 1}, 1, False),
    (slots(2, asked_by="job"), {SLOT: 1}, 1, True), (slots(1, asked_by="job"), {SLOT: 1}, 1, False),
    ({"counted": [*slots(2)["counted"], {"name": "seat", "amount": 1}]}, {SLOT: 1, ("counted", "seat"): 1}, 1, True),
    ({"gpus": machines(2)}, {GPUS: 1}, 1, True),
    ({"gpus": machines(2)}, {PARTS: 10}, 1, True), ({"gpus": machines(1)}, {PARTS: 10}, 1, False),
    ({"gpus": machines(2)}, {GPUS: 2}, 2, True),
    ({"gpus": machines(4)}, {GPUS: 1, ("gpus", "together"): 1}, 1, False),
    ({"pools": [drives(8)]}, {DRIVE: 1000}, 1, True), ({"pools": [drives(7)]}, {DRIVE: 1}, 1, False),
    ({"pools": [drives(4)]}, {DRIVE: 1}, 2, True),
    ({"pools": [drives(8)], "links": {"mb_s": 4}}, {DRIVE: 500, MB: 2}, 1, True),
    ({"pools": [drives(8, detach_latency=1)]}, {DRIVE: 1}, 1, False),
    ({"pools": [drives(8, reach=["0-2"])]}, {DRIVE: 1}, 1, False),
    ({"pools": [drives(2, per="node")]}, {DRIVE: 1}, 1, True),
    ({"pools": [drives(1, per="node")]}, {DRIVE: 1}, 1, False),
    ({"pools": [drives(4) | {"name": name} for name in "ab"]}, {DRIVE: 1}, 1, True),
)  # fmt: skip


def test_a_job_asks_for_what_is_ample_if_the_nodes_full_of_its_tasks_have_enough() -> None:
    for cluster, asks, cores, ample in CASES:  # not parameters, of which few are tried
        devices = {key: np.array([amount]) for key, amount in asks.items()}
        jobs = job_table(submit_us=np.zeros(1), tasks=np.array([2]), cores=np.array([cores]), devices=devices,
                         work_us=np.full(1, 10**6))  # fmt: skip
        core = begun(Run(Cluster.from_dict(FOUR | cluster), jobs), "conservative").core
        core.handle(Submitted(0), 0)
        memory: Any = core.memory
        memory.note_jobs(core.view)
        assert (memory.ample == {0}) == ample, (cluster, asks, cores)
        assert memory.chosen != ample, (cluster, asks, cores)


def simulated(world: World, policy: str) -> Any:
    workload = Workload("ample", job_table(**world.jobs), Intake("", "", 0, 0))
    return unrack.simulate(Cluster.from_dict(world.cluster), workload, policy)


def scarce(seed: int) -> World:
    """Links and drives that are ample for most jobs, and from the second half on not for some."""
    draw = np.random.default_rng([5, seed])
    world = random_world(draw, alike=seed % 2 == 0)
    count = len(world.jobs["tasks"])
    sent = np.where(draw.random(count) < 0.5, draw.integers(1, 4, count), 0)
    late = (draw.random(count) < 0.2) & (np.arange(count) > count // 2)
    sent = np.where(late, draw.integers(20, 60, count), sent)
    some = np.where(draw.random(count) < 0.3, draw.integers(1, 900, count), 0)
    cluster = {"links": {"mb_s": 100}, "pools": [drives(int(draw.integers(2, 40)), share=4)]}
    jobs = {"devices": {("links", "mb_s"): sent, ("nvme", "capacity_mb"): some}}
    return World(world.cluster | cluster, world.jobs | jobs | {"request_us": world.jobs["work_us"]})


def test_no_promise_is_broken_by_a_job_for_which_it_is_not_ample(monkeypatch: pytest.MonkeyPatch) -> None:
    decide, turned, count = Plan.round, list[int](), 0
    for seed in range(25):
        first = dict[int, int]()

        def looking(self: Plan, view: Any, jobs: Any, *given: Any, first: Any = first, seed: int = seed) -> Any:
            starts = decide(self, view, jobs, *given)
            turned.extend([seed] * (not self.completes))
            for job in jobs.tolist():
                if (at := self.reserved(job)) >= 0:
                    assert at <= first.setdefault(job, at), (seed, job)
            return starts

        for policy in ("conservative", "conservative(nodes=whole)"):
            first.clear()
            with monkeypatch.context() as watched:
                watched.setattr(Plan, "round", looking)
                starts = simulated(scarce(seed), policy).jobs.sort("job")["start_s"].to_list()
            count += sum(starts[job] is not None and round(starts[job] * 10**6) <= at for job, at in first.items())
            assert all(starts[job] is None or round(starts[job] * 10**6) <= at for job, at in first.items()), seed
    assert count > 100
    assert len(set(turned)) > 5  # worlds in which such a job came


@pytest.mark.parametrize("policy", PLANNED)
def test_a_job_that_finds_too_little_after_all_waits_and_nothing_is_refused(
    policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Links, "ample", lambda *_: True)
    world, ones = plain(3), np.ones(24, np.int64)  # each by itself has room
    jobs = world.jobs | {"tasks": ones, "cores": ones, "devices": {("links", "mb_s"): 6 * ones}}
    result = simulated(World(world.cluster | {"links": {"mb_s": 10}}, jobs), policy)
    assert result.jobs["state"].to_list() == ["finished"] * 24
    spans = result.tables["placements"].select("start_s", "end_s", "first_node").rows()
    assert all(a == b or a[2] != b[2] or a[1] <= b[0] or b[1] <= a[0] for a in spans for b in spans)
