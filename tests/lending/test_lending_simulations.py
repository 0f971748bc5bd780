"""Whole runs with borrowed memory are those of the plain twins, and keep what their schedulers promise."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lending_worlds import attempts_of, contents, installed, jobs_of, placing, tasks_of
from plain_lending import RULES
from plain_schedules import World, easy_head, run
from small_worlds import J, table, workload_of

from unrack.cluster.spec import Cluster
from unrack.sim.simulate import simulate

THRESHOLDS = [None, None, 0.25, 0.5, 0.75]


def same(content: dict[str, Any], jobs: list[J], rule: str, scheduler: str, threshold: float | None = None) -> None:
    """Start times, nodes and loans of a run are those of the twin."""
    cluster = Cluster.from_dict(content)
    at_least = "" if threshold is None or rule in ("strawman", "naive") else f", threshold={threshold}"
    log = simulate(cluster, workload_of(table(jobs)), f"{rule}(scheduler={scheduler}{at_least})").log
    plain = placing(rule, cluster, threshold if at_least else None)
    total = installed(cluster)
    want = {
        job: (attempt.start, attempt.end, attempt.place.rows(total), attempt.place.loan_rows())
        for job, attempt in enumerate(run(total, tasks_of(jobs), plain, scheduler))
        if attempt is not None
    }
    assert attempts_of(log) == want


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("scheduler", ["fcfs", "easy"])
@settings(max_examples=60)
@given(content=contents(), jobs=st.booleans().flatmap(jobs_of), threshold=st.sampled_from(THRESHOLDS))
def test_runs_start_the_same_jobs_at_the_same_times_on_the_same_nodes_with_the_same_loans(
    rule: str, scheduler: str, content: dict[str, Any], jobs: list[J], threshold: float | None
) -> None:
    same(content, jobs, rule, scheduler, threshold)


@pytest.mark.parametrize("rule", RULES)
@settings(max_examples=60)
@given(
    content=contents(alike=True), jobs=st.booleans().flatmap(jobs_of), threshold=st.sampled_from(THRESHOLDS)
)
def test_reservations_of_conservative_backfill_name_the_nodes_and_lenders_that_the_plain_ones_name(
    rule: str, content: dict[str, Any], jobs: list[J], threshold: float | None
) -> None:
    same(content, jobs, rule, "conservative", threshold)


@pytest.mark.parametrize("rule", RULES)
@settings(max_examples=60)
@given(content=contents(alike=True), jobs=jobs_of(True))
def test_no_job_starts_after_its_first_reservation_when_requests_are_upper_bounds(
    rule: str, content: dict[str, Any], jobs: list[J]
) -> None:
    cluster = Cluster.from_dict(content)
    log = simulate(cluster, workload_of(table(jobs)), f"{rule}(scheduler=conservative)").log
    promised: dict[int, int] = {}

    def note(world: World, now: int) -> None:
        for job, start in world.promised.items():
            assert start <= promised.setdefault(job, start), "a reservation moved back"

    run(installed(cluster), tasks_of(jobs), placing(rule, cluster), "conservative", note)
    for job, (start, *_) in attempts_of(log).items():
        assert start <= promised.get(job, start)


@pytest.mark.parametrize("rule", RULES)
@settings(max_examples=60)
@given(content=contents(alike=True), jobs=jobs_of(True))
def test_easy_never_starts_the_head_after_its_shadow_time_when_requests_are_upper_bounds(
    rule: str, content: dict[str, Any], jobs: list[J]
) -> None:
    cluster = Cluster.from_dict(content)
    log = simulate(cluster, workload_of(table(jobs)), f"{rule}(scheduler=easy)").log
    promised: dict[int, int] = {}

    def note(world: World, now: int) -> None:
        if world.queue:
            head, time = easy_head(world, now)
            assert time <= promised.setdefault(head, time), "the head was delayed"

    run(installed(cluster), tasks_of(jobs), placing(rule, cluster), "easy", note)
    for job, (start, *_) in attempts_of(log).items():
        assert start <= promised.get(job, start)
