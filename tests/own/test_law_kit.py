"""The kit of laws that users may run: built-in policies pass, and every law has a planted bug that it catches."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

import unrack
from unrack.policy import Lease, ListScheduler, Placed, Start
from unrack.policy.table import parse_policy
from unrack.testing import (
    LAWS,
    check_accounting,
    check_causality,
    check_determinism,
    check_empty,
    check_policy,
    check_purity,
    check_restart,
    world,
)


@pytest.mark.parametrize("text", ["easy", "conservative", "slurm", "first-fit"])
def test_built_in_policies_keep_every_law(text: str) -> None:
    assert check_policy(lambda: parse_policy(text), seeds=range(2)) == 2 * len(LAWS)


def test_every_job_of_a_world_fits_and_some_wait() -> None:
    result = unrack.simulate(*world(1), "easy")
    assert set(result.jobs["state"]) == {"finished"}
    assert result.metrics["wait_s_mean"] > 1


class Plain:
    """Starts whoever has a place, in the order of submission: a base for policies that break a law."""

    stepwise = True

    def decide(self, view: Any, memory: Any, now: int) -> Any:
        for job in self.order(view, now):
            start = Start.on(view.candidates(job))
            if start is not None:
                return [start], memory
        return [], memory

    def order(self, view: Any, now: int) -> list[int]:
        waiting: list[int] = view.queue.tolist()
        return waiting


COUNTER = itertools.count()


class Draws(Plain):
    """As a policy does that draws random numbers which are not its seed's: every order is another."""

    def order(self, view: Any, now: int) -> list[int]:
        turn = next(COUNTER)
        return sorted(super().order(view, now), key=lambda job: (job * 7919 + turn * 104729) % 101)


class Foresees(Plain):
    """Looks at jobs that have not come yet."""

    def order(self, view: Any, now: int) -> list[int]:
        to_come = int(view._store.base.asks.sum())
        return sorted(super().order(view, now), key=lambda job: (job * to_come) % 7)


class Changes(Plain):
    """Remembers itself what it has decided, beside its memory."""

    def __init__(self) -> None:
        self.turn = 0

    def order(self, view: Any, now: int) -> list[int]:
        self.turn += 1
        return sorted(super().order(view, now), key=lambda job: (job * self.turn) % 7)


class OwnBooks(Plain):
    """Keeps in its memory which jobs have come, and knows of none that came before."""

    stepwise = False

    def begin(self, view: Any) -> set[int]:
        return {-1} if view.jobs else set()

    def decide(self, view: Any, memory: set[int], now: int) -> Any:
        if -1 in memory:
            return [], memory
        decisions, _ = super().decide(view, None, now)
        return decisions, memory


class Steals(Plain):
    """Gives itself cores that are not there."""

    def decide(self, view: Any, memory: Any, now: int) -> Any:
        view._state.free[0] += 3
        return super().decide(view, memory, now)


class NeedsJobs(Plain):
    """Cannot begin without jobs."""

    def possible(self, cluster: Any, jobs: Any) -> Any:
        return jobs.tasks <= jobs.tasks[0] * 100


@pytest.mark.parametrize(
    ("law", "culprit"),
    [
        (check_determinism, Draws),
        (check_causality, Foresees),
        (check_purity, Changes),
        (check_restart, OwnBooks),
        (check_accounting, Steals),
        (check_empty, NeedsJobs),
    ],
)
def test_every_law_catches_a_policy_that_breaks_it(law: Any, culprit: type) -> None:
    for seed in range(2):
        law(Plain, world(seed))

    def every_seed() -> None:
        for seed in range(6):
            law(culprit, world(seed))

    with pytest.raises((AssertionError, unrack.RunError)):
        every_seed()


def test_a_placement_that_forgets_tasks_is_refused_with_its_line() -> None:
    def one_task(view: Any, job: int, now: int) -> Any:
        return Lease.on(job, [0], [1], [1], [0]) if view.free[0, 0] else None

    with pytest.raises(
        unrack.RunError, match=r"(?s)does not hold all its tasks.*test_law_kit.py, line \d+: def one_task"
    ):
        check_policy(lambda: Placed(one_task), seeds=range(1))
    assert check_policy(lambda: ListScheduler(order="sjf"), seeds=range(1)) == len(LAWS)
