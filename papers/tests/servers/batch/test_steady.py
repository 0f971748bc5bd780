"""Without a time limit no clock decides: work is counted, and the same input has the same answer on a busy machine."""

from __future__ import annotations

import ast
import itertools
import multiprocessing
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from batch_systems import random_asked, random_supply

import unrack
from unrack.solver.servers import Asked, Supply
from unrack_papers import clock
from unrack_papers.servers.allocator.one_by_one import place_one_by_one
from unrack_papers.servers.batch import solve as batch
from unrack_papers.servers.batch.constraint import place_cp
from unrack_papers.servers.batch.running.repack import repack
from unrack_papers.servers.batch.solution import Solution
from unrack_papers.servers.batch.solve import place_batch
from unrack_papers.torus import solve as torus

pytestmark = pytest.mark.long

PAPERS = Path(clock.__file__).parent
SOLVERS = (Path(unrack.__file__).parent / "solver", PAPERS / "servers", PAPERS / "torus")


def system(seed: int, servers: int = 30) -> tuple[Supply, Asked]:
    draws = np.random.default_rng(seed)
    supply = random_supply(draws, 8, mb=200)
    return supply, random_asked(draws, supply, servers, mb=60)


def answer(found: Solution) -> tuple[Any, ...]:
    """All of an answer but how long it took."""
    plan = [(step.server, step.cluster, step.mb) for step in getattr(found, "plan", ())]
    where = found.allocation.cluster.tolist(), found.allocation.mb.tolist()
    return found.status, *where, found.objective, found.bound, found.cut, plan


def solved(seed: int) -> list[tuple[Any, ...]]:
    """A batch by search and by constraint programming, and a repacking."""
    supply, asks = system(seed)
    now = place_one_by_one(supply, asks, "slo")
    found = [place_batch(supply, asks, effort_s=1, seed=3), place_cp(supply, asks, effort=0.3)]
    found += [repack(supply, asks, now, moves=5, effort_s=0.5, resplit=resplit) for resplit in (False, True)]
    return [answer(one) for one in found]


@pytest.fixture
def jumping(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every look at the clock is an hour after the last: as if everything else on the machine came first."""
    hours = itertools.count(1)
    for name in ("perf_counter", "process_time"):
        monkeypatch.setattr(clock, name, lambda: 3600.0 * next(hours))


@pytest.mark.parametrize("seed", range(3))
def test_no_clock_changes_an_answer(seed: int, request: pytest.FixtureRequest) -> None:
    quiet = solved(seed)
    request.getfixturevalue("jumping")
    assert solved(seed) == quiet
    assert not any(cut for *_, cut, _ in quiet)


def test_without_a_limit_the_default_work_needs_no_clock_either(request: pytest.FixtureRequest) -> None:
    supply, asks = system(7, 12)
    quiet = answer(place_batch(supply, asks))
    request.getfixturevalue("jumping")
    assert answer(place_batch(supply, asks)) == quiet


@pytest.mark.usefixtures("jumping")
def test_an_answer_that_a_time_limit_cut_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "SMALL", 0)
    supply, asks = system(5)
    now = place_one_by_one(supply, asks, "slo")
    for found in (
        place_batch(supply, asks, limit_s=60),
        place_cp(supply, asks, limit_s=60),
        repack(supply, asks, now, moves=5, limit_s=60, resplit=True),
    ):
        assert found.cut == (found.status != "optimal")
    assert place_batch(supply, asks, limit_s=60).cut
    taken = np.flatnonzero(np.random.default_rng(0).random(256) < 0.4).tolist()
    assert torus.best_tiles(16, 16, 40, taken, limit_s=1).cut
    assert not torus.best_tiles(16, 16, 40, taken, most_nodes=100).cut


def test_a_limit_that_is_not_met_cuts_nothing() -> None:
    supply, asks = system(7, 12)
    found = place_batch(supply, asks, limit_s=3600, effort_s=1)
    assert not found.cut
    assert answer(found) == answer(place_batch(supply, asks, effort_s=1))


def _burn() -> None:
    while True:
        pass


def test_beside_busy_processes_the_same_bytes_come_out() -> None:
    quiet = solved(11)
    context = multiprocessing.get_context("fork")
    others = [context.Process(target=_burn, daemon=True) for _ in range(2 * (os.cpu_count() or 1))]
    for other in others:
        other.start()
    try:
        assert solved(11) == quiet
    finally:
        for other in others:
            other.kill()
            other.join()


def test_no_solver_looks_at_another_clock_than_that_of_a_users_limit() -> None:
    """A file that imports the time may end by it."""
    looking = set()
    for path in itertools.chain.from_iterable(folder.rglob("*.py") for folder in SOLVERS):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if "time" in names or (isinstance(node, ast.ImportFrom) and node.module == "time"):
                looking.add(path.as_posix())
    assert not looking
