"""Law 11 on sites: what no job lacks changes no schedule, on random worlds, under plans and passes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import polars as pl
import pytest
from irrelevances import IRRELEVANT, Crowd, S, crowd, far, island, of_sizes, together
from mixed_worlds import with_rules
from tries import seeds
from twins import random_reservations, random_site

import unrack
from unrack.cluster.spec import Cluster
from unrack.policy.discipline.skyline.columns import Grain
from unrack.policy.discipline.skyline.grouping import Grouped
from unrack.policy.discipline.skyline.plan import Plan
from unrack.workload.formats.rules import Intake
from unrack.workload.job import Workload, job_table

POLICIES = (
    "conservative", "conservative(order=sjf)", "conservative(compress=ends)", "conservative(place=best-fit)",
    "conservative(place=worst-fit)", "conservative(place=tightest-run)", "conservative(nodes=whole)",
    "slurm(interval=7 s)", "slurm(interval=20 s, reserve=nodes)", "slurm(interval=7 s, nodes=whole)", "easy",
)  # fmt: skip
MADE = [*IRRELEVANT.values(), together]


@pytest.mark.draws(120)
@pytest.mark.parametrize("more", [range(0), pytest.param(range(120, 10_000), marks=pytest.mark.slow)])
def test_what_a_site_has_and_no_job_lacks_changes_no_schedule(more: range) -> None:
    """Of two worlds in three every task asks for a core; each world is for another policy and another irrelevance."""
    for seed in more or seeds(120):
        draw = np.random.default_rng(seed)
        before, policy = crowd(draw, alike=seed % 3 != 0), POLICIES[seed % len(POLICIES)]
        made = MADE[int(draw.integers(0, len(MADE)))]
        found = made(draw, before).starts(policy)
        assert found == before.starts(policy), f"{policy}, {made.__name__} in world {seed}"


SIZED = (
    ("moldable", "easy(molding=working-set)"), ("moldable", "easy(molding=earliest-end)"),
    ("moldable", "conservative(molding=working-set)"), ("moldable", "conservative(molding=earliest-end)"),
    ("malleable", "easy(resizing=fpsma)"), ("malleable", "fcfs(resizing=egs)"),
    ("malleable", "easy(molding=working-set, resizing=egs)"), ("malleable", "easy(resizing=egs)"),
    ("malleable", "fcfs(resizing=fpsma)"),
)  # fmt: skip


@pytest.mark.long
@pytest.mark.draws(84)
@pytest.mark.parametrize("more", [range(0), pytest.param(range(84, 5_000), marks=pytest.mark.slow)])
def test_it_changes_no_schedule_of_jobs_of_several_sizes_either(more: range) -> None:
    """Nor which size they have: shares, growth and shrinking are of the nodes that a job may use."""
    wrong = []
    for seed in more or seeds(84):
        draw, (flexibility, policy) = np.random.default_rng(seed), SIZED[seed % len(SIZED)]
        before = of_sizes(draw, crowd(draw, alike=seed % 3 != 0), flexibility)
        made = MADE[int(draw.integers(0, len(MADE)))]
        if made(draw, before).starts(policy) != before.starts(policy):
            wrong.append(f"{policy}, {made.__name__} in world {seed}")
    assert not wrong


@pytest.mark.parametrize("worlds", [(3, 5, 111, 145, 165, 193), pytest.param(range(3_000), marks=pytest.mark.slow)])
def test_what_happens_on_an_island_resizes_no_job_elsewhere(worlds: Iterable[int]) -> None:
    """It brings rounds, in which no size was to change; the few worlds are those in which one did."""
    policies = ("fcfs(resizing=egs)", "easy(resizing=egs)", "easy(resizing=fpsma)", "fcfs(resizing=fpsma)")
    for seed in worlds:
        draw, policy = np.random.default_rng(seed), (*policies, SIZED[6][1])[seed % 5]
        before = of_sizes(draw, crowd(draw, alike=seed % 3 != 0), "malleable")
        assert island(draw, before).starts(policy) == before.starts(policy), f"{policy} in world {seed}"


def ranked(world: Crowd) -> Crowd:
    """The same; of those outside of an island every third may have others stopped."""
    own = {"name": "main", "nodes": [f"0-{world.size - 1}"]}
    main = next((one for one in world.site.get("partitions", []) if one["name"] == "main"), own)
    partitions = [main, main | {"name": "high", "tier": 2}, *world.site.get("partitions", [])[1:]]
    jobs = [
        job | {"partition": "high" if job["name"] % 3 == 0 else "main" if job["name"] >= 0 else "other"}
        for job in world.jobs
    ]
    return world.with_(jobs, partitions=partitions, preempt={"by": "partition", "mode": "requeue"})


MOLDED = ("easy", "list(backfill=any)", "fcfs", "slurm(interval=7 s)")


@pytest.mark.parametrize("worlds", [range(24), pytest.param(range(24, 1_000), marks=pytest.mark.slow)])
def test_nor_which_size_jobs_begin_with_where_some_are_stopped_for_others(worlds: range) -> None:
    """A job that gets a size with which it fits starts at once, and sizes are chosen anew where anything changed."""
    for seed in worlds:
        draw, policy = np.random.default_rng([1, seed]), with_rules(MOLDED[seed % 4], molding="earliest-end")
        before = of_sizes(draw, crowd(draw, alike=seed % 3 != 0), "moldable")
        assert ranked(island(draw, before)).starts(policy) == ranked(before).starts(policy), f"{policy} in world {seed}"


def seen_with(monkeypatch: pytest.MonkeyPatch, name: str, fault: Any, seed: int, made: Any, policy: str) -> bool:
    """True if what should change nothing changes the schedule of a world, with a planted fault."""
    draw = np.random.default_rng(seed)
    before = crowd(draw, alike=True)
    plain = before.starts(policy)
    with monkeypatch.context() as planted:
        planted.setattr(Grouped, name, fault)
        return bool(made(draw, before).starts(policy) != plain)


def test_the_law_sees_a_plan_that_tells_all_nodes_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted fault: a plan that knows of a window names nodes."""

    def name_all(self: Plan, view: Any, *_: Any) -> bool:
        fresh = len(view.cluster.places.windows) > 0 and not self.named.all()
        self.named = np.ones(len(self.named), np.int64) if fresh else self.named
        return fresh

    assert any(seen_with(monkeypatch, "_name", name_all, seed, far, "conservative") for seed in range(30))


@pytest.mark.long
def test_the_law_sees_reservations_that_move_whenever_anything_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another planted fault: an early end on one island moves reservations on the other."""
    planted = "look_where", lambda *_: None
    assert any(seen_with(monkeypatch, *planted, seed, island, "conservative(order=sjf)") for seed in range(200))


@pytest.mark.parametrize("kind", [random_site, random_reservations])
@pytest.mark.draws(25)
def test_no_promise_is_broken_when_nodes_are_grouped_otherwise(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of single cores on sites with partitions and windows that overlap: no reservation is ever later than before."""
    grouped, divide = list[Grain](), Grouped._divide

    def noting(self: Plan, *given: Any) -> None:
        divide(self, *given)
        grouped.append(self.grain)

    monkeypatch.setattr(Grouped, "_divide", noting)
    for policy in ("conservative", "conservative(nodes=whole)"):
        for seed in seeds(25):
            site = kind(seed, 40, exact=True)
            for job in site.jobs:
                job.cores, job.tasks = 1, job.tasks * job.cores
            first = dict[int, int]()
            decide = Plan.round

            def looking(self: Plan, view: Any, jobs: Any, *given: Any, decide: Any = decide, first: Any = first) -> Any:
                starts = decide(self, view, jobs, *given)
                for job in jobs.tolist():
                    at = self.reserved(job)
                    if at >= 0:
                        assert at <= first.get(job, at), (job, at, first[job])
                        first[job] = at
                return starts

            with monkeypatch.context() as watched:
                watched.setattr(Plan, "round", looking)
                result = unrack.simulate(site.cluster, site.workload, policy)
            starts = result.jobs["start_s"].to_list()
            for job, at in first.items():
                assert starts[job] is not None, (policy, seed, job)
                assert round(starts[job] * S) <= at, (policy, seed, job)
    assert {Grain.CORES, Grain.WHOLE} <= set(grouped)


def test_counting_by_steps_would_promise_what_no_nodes_can_keep() -> None:
    """The example of decision 51: at each moment there are cores enough, and yet one job has to wait."""
    rows = [("a", 0, 2, 2), ("", 0, 10, 10), ("", 0, 18, 18), ("a", 0, 2, 2)]  # partition, submitted, asked, run
    table = job_table(
        submit_us=np.array([submit * S for _, submit, _, _ in rows]), work_us=np.array([row[3] * S for row in rows]),
        request_us=np.array([row[2] * S for row in rows]), tasks=np.ones(4, np.int64),
        extra=pl.DataFrame({"partition": [row[0] for row in rows]}),
    )  # fmt: skip
    site = {"partitions": [{"name": "a", "nodes": ["0"]}]}
    cluster = Cluster.from_dict({"nodes": [{"count": 2, "cores": 1}], "site": site})
    workload = Workload("four", table, Intake("", "", 0, 0))
    found = unrack.simulate(cluster, workload, "conservative").jobs["start_s"].to_list()
    assert found == [0.0, 0.0, 2.0, 20.0]  # on node 0, on node 1, on node 0, and when that is free


@pytest.mark.parametrize(
    "site",
    [
        {},
        {"reservations": [{"name": "r", "nodes": ["0"], "start": "90 d", "duration": 1}]},
        {"partitions": [{"name": "all", "default": True}], "preempt": {"by": "qos"}},
    ],
)
def test_a_job_is_not_turned_away_for_what_a_site_says_of_other_times_and_jobs(site: dict[str, Any]) -> None:
    """Two tasks share a drive, which is on one node; they have none while the first node is empty, which holds one."""
    pool = {"kind": "nvme", "count": 1, "share": 2, "quantities": {"capacity_mb": 1000}}
    nodes = [{"count": 1, "cores": 2, "memory": 2}, {"count": 1, "cores": 2, "memory": 5}]
    table = job_table(
        submit_us=np.array([0, S]), work_us=np.array([5 * S, 2 * S]), tasks=np.array([1, 2]), cores=np.array([2, 1]),
        memory_mb=np.array([2, 2]), devices={("nvme", "capacity_mb"): np.array([0, 100])},
    )  # fmt: skip
    cluster = Cluster.from_dict({"nodes": nodes, "pools": [pool]} | ({"site": site} if site else {}))
    found = unrack.simulate(cluster, Workload("two", table, Intake("", "", 0, 0)), "easy").jobs
    assert found["start_s"].to_list() == [0.0, 1.0]
