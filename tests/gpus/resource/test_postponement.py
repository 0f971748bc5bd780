"""TOPO-AWARE-P: who waits for a better place, for how long, and who passes."""

from __future__ import annotations

from typing import Any

import pytest
from plain_gpus import cluster_of, gpu_jobs, run

from unrack.policy.discipline.list_scheduler import ListScheduler
from unrack.policy.gpus.rule import GpuRule
from unrack.policy.gpus.rules import RULES

MINSKY = cluster_of("minsky")


def starts(result: Any) -> list[float | None]:
    """When each job started."""
    return result.jobs["start_s"].to_list()  # type: ignore[no-any-return]


def crowded(*jobs: dict[str, Any]) -> Any:
    """GPUs 1 and 3, at two sockets, are free from 20 s on, GPU 2 from 50 s, GPU 0 from 100 s; and other jobs."""
    return gpu_jobs(
        {"work": 100, "count": 1}, {"work": 20, "count": 1}, {"work": 50, "count": 1}, {"work": 20, "count": 1}, *jobs
    )


def test_a_job_waits_for_its_utility_and_others_pass() -> None:
    """Two GPUs at two sockets, a half of each free: (1/42 + 1 + 1/2) / 3 = 0.51; from 50 s on a pair is 0.75."""
    wants = {"submit": 5, "count": 2, "min_utility": 6000}
    other = {"submit": 6, "count": 1, "work": 5}
    result = run(MINSKY, crowded(wants, other), "topo-aware-p(gpus=pack)")
    assert starts(result)[4:] == [50, 20]
    assert starts(run(MINSKY, crowded({**wants, "min_utility": 5000}, other), "topo-aware-p(gpus=pack)"))[4] == 20
    assert starts(run(MINSKY, crowded(wants, other), "topo-aware(gpus=pack)"))[4:] == [20, 30]


@pytest.mark.parametrize("rule", RULES)
def test_postponed_jobs_start_at_last_under_every_rule(rule: str) -> None:
    wants = {"submit": 5, "count": 2, "min_utility": 10000}
    result = run(MINSKY, crowded(wants, {"submit": 6, "count": 1}), f"topo-aware-p(gpus={rule}, patience=40 s)")
    assert starts(result)[4] <= 60
    assert set(result.jobs["state"]) == {"finished"}


def test_no_job_waits_beyond_its_patience() -> None:
    wants = {"submit": 5, "count": 2, "min_utility": 6000}
    result = run(MINSKY, crowded(wants), "topo-aware-p(gpus=first-fit, patience=30 s)")
    assert starts(result)[4] == 35, "30 s after it came, across the sockets"
    assert starts(run(MINSKY, crowded(wants), "topo-aware-p(gpus=first-fit, patience=10 s)"))[4] == 20


def test_a_job_starts_at_once_when_nothing_runs() -> None:
    """Nobody's end could make the place of three GPUs better than it is."""
    jobs = gpu_jobs({"count": 3, "min_utility": 10000}, {"count": 1, "submit": 1, "min_utility": 10000})
    assert starts(run(MINSKY, jobs, "topo-aware-p")) == [0, 10]


def test_the_utility_that_is_asked_counts_only_where_jobs_are_postponed() -> None:
    jobs = gpu_jobs({"count": 3}, {"count": 1, "submit": 1, "min_utility": 10000})
    assert starts(run(MINSKY, jobs, "topo-aware")) == [0, 1]
    assert run(MINSKY, jobs, "topo-aware").metrics["below_min_utility"] == 1
    assert run(MINSKY, jobs, "topo-aware-p").metrics["below_min_utility"] in (0, 1)


def test_explain_says_for_what_a_postponed_job_waits() -> None:
    from unrack.policy.table import parse_policy
    from unrack.sim.explained.job import explain

    wants = {"submit": 5, "count": 2, "min_utility": 6000}
    story = explain(MINSKY, crowded(wants), parse_policy("topo-aware-p(gpus=first-fit)"), 4)
    assert any("a place of utility 0.6, for which it waits" in str(spell.reason) for spell in story.spells)


def test_who_may_not_wait_is_turned_away() -> None:
    jobs = gpu_jobs({"count": 4}, {"count": 1, "submit": 1}, {"count": 1, "submit": 11})
    result = run(MINSKY, jobs, "fcfs(gpus=topology, wait=no)")
    assert result.jobs["state"].to_list() == ["finished", "rejected", "finished"]


@pytest.mark.parametrize("policy", ["list(backfill=any, gpus=first-fit)", "easy(gpus=topology)", "topo-aware-p"])
def test_tasks_that_must_be_apart_and_have_no_place_keep_none_from_those_that_need_not_be(policy: str) -> None:
    tasks = {"count": 1, "tasks": 2}
    jobs = gpu_jobs({"count": 4, "work": 50}, {**tasks, "apart": 1, "submit": 1}, {**tasks, "submit": 2})
    assert starts(run(cluster_of("minsky", nodes=2), jobs, policy)) == [0, 50, 2]


def test_of_jobs_that_differ_in_their_utility_one_is_asked_about_where_none_has_a_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nor is there a round when the patience of one ends that no GPU is free for."""
    asked, find, rounds, decide = [0], GpuRule.find, list[float](), ListScheduler.decide

    def counted(*arguments: Any) -> Any:
        asked[0] += 1
        return find(*arguments)

    def noted(self: Any, view: Any, memory: Any, now: int) -> Any:
        rounds.append(now / 1_000_000)
        return decide(self, view, memory, now)

    monkeypatch.setattr(GpuRule, "find", counted)
    monkeypatch.setattr(ListScheduler, "decide", noted)
    waiting = [{"count": 4, "submit": 1 + i, "min_utility": 100 * i} for i in range(20)]
    found = starts(run(MINSKY, gpu_jobs({"count": 4, "work": 100}, *waiting), "topo-aware-p(patience=50 s)"))
    assert found == [0, *(100 + 10 * i for i in range(20))]
    assert asked[0] < 65, "once for each start, and once more for each end"
    assert not [moment for moment in rounds if 20 < moment < 100]
