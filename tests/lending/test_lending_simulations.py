"""Whole runs with borrowed memory are those of the plain twins, and keep what their schedulers promise."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from lending_worlds import attempts_of, contents, jobs_of, plain_run, words
from plain_lending import RULES
from plain_schedules import World, easy_head
from small_worlds import J, table, workload_of
from tries import draws

from unrack.cluster.spec import Cluster
from unrack.core import Core
from unrack.policy.table import parse_policy
from unrack.sim.kernel import Kernel
from unrack.sim.simulate import simulate

NEEDY = J(0, 1, mb=10_000)
"""A job that no cluster here holds: with it in the queue of the world, a policy must be ready to borrow."""


def same(content: dict[str, Any], jobs: list[J], rule: str, scheduler: str, threshold: float | None) -> None:
    """Start times, ends, nodes and loans of a run are those of the twin."""
    cluster = Cluster.from_dict(content)
    threshold = None if rule in ("strawman", "naive") else threshold
    log = simulate(cluster, workload_of(table(jobs)), words(rule, scheduler, threshold)).log
    assert attempts_of(log) == plain_run(cluster, jobs, rule, scheduler, threshold)


def started(content: dict[str, Any], jobs: list[J], rule: str, scheduler: str) -> dict[int, int]:
    """Job → its start, µs."""
    log = simulate(Cluster.from_dict(content), workload_of(table(jobs)), words(rule, scheduler)).log
    return {job: held.start for job, held in attempts_of(log).items()}


shares = st.sampled_from([None, None, 0.0, 0.25, 0.5, 0.75, 1.0])


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("scheduler", ["fcfs", "easy"])
@draws(50)
@given(content=contents(), jobs=st.booleans().flatmap(jobs_of), threshold=shares)
def test_the_same_jobs_start_at_the_same_times_on_the_same_nodes_with_the_same_loans(
    rule: str, scheduler: str, content: dict[str, Any], jobs: list[J], threshold: float | None
) -> None:
    same(content, jobs, rule, scheduler, threshold)


@pytest.mark.parametrize("rule", RULES)
@draws(50)
@given(content=contents(alike=True), jobs=st.booleans().flatmap(jobs_of), threshold=shares)
def test_conservative_backfill_reserves_the_nodes_and_loans_that_its_twin_reserves(
    rule: str, content: dict[str, Any], jobs: list[J], threshold: float | None
) -> None:
    same(content, [NEEDY._replace(submit=jobs[0].submit), *jobs], rule, "conservative", threshold)


@pytest.mark.parametrize("rule", RULES)
@draws(50)
@given(content=contents(alike=True), jobs=jobs_of(True))
def test_conservative_starts_no_job_after_its_first_reservation_when_requests_are_upper_bounds(
    rule: str, content: dict[str, Any], jobs: list[J]
) -> None:
    jobs = [NEEDY._replace(submit=jobs[0].submit), *jobs]
    promised: dict[int, int] = {}

    def note(world: World, now: int) -> None:
        for job, start in world.promised.items():
            assert start <= promised.setdefault(job, start), "a reservation moved back"

    plain_run(Cluster.from_dict(content), jobs, rule, "conservative", after=note)
    for job, start in started(content, jobs, rule, "conservative").items():
        assert start <= promised.get(job, start)


PASSED_OVER = [J(2, 1, mb=2), J(2, 3, 4, 6, mb=2), J(3, 6, 2, 9, mb=3)]
"""Under ``ljf`` the last of these may borrow where the first starts with it, unless its place in the queue counts."""


@pytest.mark.parametrize("rule", [*RULES, "contention-aware"])
@draws(40)
@given(content=contents(alike=True), jobs=jobs_of(True), order=st.sampled_from(["fcfs", "sjf", "ljf", "largest"]))
@example(content={"nodes": [{"count": 2, "cores": 2, "memory": 4}]}, jobs=PASSED_OVER, order="ljf")
def test_conservative_keeps_every_reservation_in_any_fixed_order_when_requests_are_upper_bounds(
    rule: str, content: dict[str, Any], jobs: list[J], order: str
) -> None:
    jobs = [NEEDY._replace(submit=jobs[0].submit), *jobs]
    policy = parse_policy(words(rule, "conservative", order=order))
    core = Core(Cluster.from_dict(content), table(jobs), policy)
    promised: dict[int, int] = {}

    def after_round(now: int) -> None:
        for job in core.view.queue.tolist():
            start = int(core.memory.reserved(job))
            assert now <= start <= promised.setdefault(job, start), "a reservation was lost or moved back"

    log = Kernel(core).run(after_round=after_round)
    for job, held in attempts_of(log).items():
        assert held.start <= promised.get(job, held.start)


@pytest.mark.parametrize("rule", RULES)
@draws(50)
@given(content=contents(alike=True), jobs=jobs_of(True))
def test_easy_never_starts_the_head_after_its_shadow_time_when_requests_are_upper_bounds(
    rule: str, content: dict[str, Any], jobs: list[J]
) -> None:
    promised: dict[int, int] = {}

    def note(world: World, now: int) -> None:
        if world.queue:
            head, time = easy_head(world, now)
            assert time <= promised.setdefault(head, time), "the head was delayed"

    plain_run(Cluster.from_dict(content), jobs, rule, "easy", after=note)
    for job, start in started(content, jobs, rule, "easy").items():
        assert start <= promised.get(job, start)


def test_a_reservation_falls_due_although_nothing_else_happens_then() -> None:
    # job 2 ends early and the nodes that were kept for others stay kept: nobody may miss the time that was promised
    jobs = [J(0, 1, 2, mb=3), J(0, 4, 4, 7, mb=1), J(0, 3, 1, 6, mb=1), J(2, 4, 2, 7, mb=5), NEEDY._replace(submit=2)]
    content = {"nodes": [{"count": 2, "cores": 2, "memory": 8}]}
    same(content, jobs, "disaggregated", "conservative", None)


def test_no_memory_is_lent_across_the_start_of_a_reservation_on_its_node() -> None:
    jobs = [
        J(0, 5, 4, cores=2, mb=5), J(1, 2, 2, mb=5), J(1, 1, 2, 4), J(1, 5, mb=9), J(1, 4, 4), NEEDY._replace(submit=1)
    ]  # fmt: skip
    same({"nodes": [{"count": 3, "cores": 1, "memory": 8}]}, jobs, "disaggregated", "conservative", None)
