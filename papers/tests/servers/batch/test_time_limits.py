"""A time limit only cuts: the answer is what the search without a limit had when it was there."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from batch_systems import random_asked, random_supply
from check import check
from numba.core import event

from unrack.solver.servers import Asked, Supply
from unrack_papers import clock
from unrack_papers.clock import Clock, timed
from unrack_papers.servers.allocator.one_by_one import OneByOne, place_one_by_one
from unrack_papers.servers.batch import search, solve
from unrack_papers.servers.batch.case import efforts, until_up
from unrack_papers.servers.batch.constraint import place_cp
from unrack_papers.servers.batch.pack import anneal
from unrack_papers.servers.batch.running.repack import repack
from unrack_papers.servers.batch.solution import Solution, objective
from unrack_papers.servers.batch.solve import place_batch
from unrack_papers.servers.problem import Allocation
from unrack_papers.torus.solve import best_tiles


class Time:
    """A clock of the process that goes on by one step at every look, or by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, step: float = 1.0) -> None:
        self.now, self.step = 0.0, step
        monkeypatch.setattr(clock, "process_time", self.look)

    def look(self) -> float:
        self.now += self.step
        return self.now


@pytest.fixture
def reached(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """All allocations that a search holds, in order: servers one at a time, and what was split."""
    found: list[Any] = []

    def note(held: Allocation) -> None:
        found.append((held.cluster.tolist(), held.mb.tolist()))

    class Noting(OneByOne):
        def place(self, servers: Any) -> int:
            out = super().place(servers)
            note(self.allocation)
            return out

    settle = search.Search.settle

    def settled(self: search.Search, at: Any) -> Allocation | None:
        held = settle(self, at)
        if held is not None:
            note(held)
        return held

    monkeypatch.setattr(search.Search, "settle", settled)
    monkeypatch.setattr(solve, "OneByOne", Noting)
    return found


def crowded(seed: int) -> tuple[Supply, Asked]:
    draws = np.random.default_rng(seed)
    supply = random_supply(draws, 8, mb=200)
    return supply, random_asked(draws, supply, 30, mb=60)


def where(found: Solution) -> tuple[Any, ...]:
    return found.allocation.cluster.tolist(), found.allocation.mb.tolist()


@pytest.mark.long
@pytest.mark.parametrize("seed", [9, 10, 11])
def test_cut_after_any_step_the_answer_is_the_best_that_the_whole_search_had_there(
    seed: int, reached: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(solve, "SMALL", 0)
    monkeypatch.setattr(solve, "MIDDLE", 0)
    supply, asks = crowded(seed)
    whole = place_batch(supply, asks, effort_s=0.05)
    all_of_them = reached.copy()
    before, cuts = (len(asks) + 1, 0, 0), 0
    for steps in itertools.count(1, 3):
        reached.clear()
        Time(monkeypatch)
        found = place_batch(supply, asks, effort_s=0.05, limit_s=steps)
        check(supply, asks, found)
        if not found.cut:
            break
        cuts += 1
        assert reached == all_of_them[: len(reached)], "the same steps"
        best = [Allocation(np.array(at), np.array(mb)) for at, mb in reached]
        assert found.objective == min(objective(supply, one) for one in best)
        assert found.objective <= before, "never worse with more time"
        assert found.objective >= whole.objective
        assert all(low <= high for low, high in zip(found.bound, found.objective, strict=True))
        before = found.objective
    assert cuts > 12
    assert where(found) == where(whole)
    assert (found.objective, found.bound) == (whole.objective, whole.bound)


@pytest.mark.parametrize("resplit", [False, True])
def test_a_repacking_is_never_worse_with_more_time_and_ends_as_without_a_limit(
    resplit: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    supply, asks = crowded(5)
    now = place_one_by_one(supply, asks, "slo")
    whole = repack(supply, asks, now, moves=6, effort_s=0.1, resplit=resplit)
    before = (len(asks) + 1, 0, 0)
    for steps in itertools.count(1, 19):
        Time(monkeypatch)
        found = repack(supply, asks, now, moves=6, effort_s=0.1, resplit=resplit, limit_s=steps)
        assert whole.objective <= found.objective <= before
        before = found.objective
        if not found.cut:
            break
    assert (where(found), found.plan) == (where(whole), whole.plan)


def test_a_limit_changes_no_work_that_it_does_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default's work under a short limit: it was the limit's, and another answer."""
    seen: list[float] = []
    monkeypatch.setattr(solve, "_placed", lambda *a: seen.append(a[3]) or place_cp(*crowded(5), effort=0.01))
    place_batch(*crowded(5), limit_s=15)
    place_batch(*crowded(5))
    assert seen == [60, 60]
    place_batch(*crowded(5), limit_s=90)
    assert seen[2:] == [60, 30], "beyond what is counted the search goes on"


def test_the_time_of_compiling_and_of_others_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    time = Time(monkeypatch, step=0.0)
    with timed(10.0) as mine:
        monkeypatch.setattr(clock, "perf_counter", lambda: 1e9)
        assert not mine.over(), "a busy machine: only wall time went by"
        with event.trigger_event("numba:compile", data={"dispatcher": anneal}):
            time.now += 100.0
        assert not mine.over()
        assert mine.left_s() == 10.0
        time.now += 9.0
        assert mine.left_s() == 1.0
        assert mine.wall_s() > 1e6, "as much longer as the machine is busy"
        time.now += 1.0
        assert mine.over()
        time.now -= 5.0
        assert mine.over(), "what has ended stays so"
    with event.trigger_event("numba:compile", data={"dispatcher": anneal}):
        time.now += 100.0
    assert mine.began_s == 100.0, "nothing listens any longer"


def test_a_solver_that_knows_wall_time_only_is_asked_again_until_the_time_is_used_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    time, wall = Time(monkeypatch, step=0.0), 0.0
    monkeypatch.setattr(clock, "perf_counter", lambda: wall)
    given: list[float] = []

    def solver(allowed: float) -> None:
        nonlocal wall
        given.append(allowed)
        wall += allowed
        time.now += allowed / 4  # three others have the machine

    with timed(10.0) as mine:
        assert until_up(mine, solver, lambda _: False) is None
    assert given[0] == 10.0
    assert mine.over()
    assert len(given) < 40
    assert until_up(Clock(), lambda allowed: allowed, lambda _: True) == float("inf")


def test_constraint_programming_stops_by_the_time_that_it_computes() -> None:
    """Six servers that ask alike in a wide system: too much to prove at once."""
    draws = np.random.default_rng(1)
    supply = random_supply(draws, 24, mb=400)
    asks = random_asked(draws, supply, 160, mb=90)
    found = place_cp(supply, asks, limit_s=0.3, start=place_one_by_one(supply, asks, "slo"))
    check(supply, asks, found)
    assert found.cut
    assert found.wall_s < 20


@pytest.mark.long
def test_a_torus_ends_by_the_same_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = np.flatnonzero(np.random.default_rng(0).random(256) < 0.4).tolist()
    before = best_tiles(16, 16, 40, taken, most_nodes=0).distance
    for steps in (3, 6, 12):
        Time(monkeypatch, step=0.05)
        found = best_tiles(16, 16, 40, taken, limit_s=0.05 * steps)
        assert found.cut
        assert found.distance <= before
        before = found.distance


def test_work_is_shared_and_only_a_longer_limit_adds_to_it() -> None:
    assert efforts(Clock(59), None, 0.5) == (30.0,)
    assert efforts(Clock(), None) == (60.0,)
