"""Compiled kernels against the same said plainly, and bounds against what can be worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import inf

import numpy as np
import pytest
from batch_systems import random_asked, random_supply

from unrack.solver.servers import asked, cheapest
from unrack_papers.clock import Clock
from unrack_papers.servers.allocator.one_by_one import place_one_by_one
from unrack_papers.servers.batch.bound import Bounds
from unrack_papers.servers.batch.case import CEILING, CORES, FLOOR, MB, Case, make_case
from unrack_papers.servers.batch.integer_programme import Programme
from unrack_papers.servers.batch.pack import Annealing, anneal, clashes
from unrack_papers.servers.batch.running.moves import (
    CHEAPEST,
    TIGHTEST,
    Books,
    Budget,
    best_place,
    best_saving,
    make_room,
    price_there,
)
from unrack_papers.servers.batch.search import Search, fewer
from unrack_papers.servers.problem import Allocation, regular_supply

NOBODY = np.zeros(0, np.int64)
NO_LIMIT = Budget(10**9, Clock())


def case_of(seed: int, *, plain: bool = False) -> Case:
    draws = np.random.default_rng(seed)
    supply = random_supply(draws, 4)
    return make_case(supply, random_asked(draws, supply, 8, plain=plain))


def plain_excess_and_price(case: Case, at: np.ndarray, core_mb: float) -> tuple[float, int]:
    """Clusters in order of id, each with what those before it left of shared pools."""
    supply, excess, paid = case.supply, 0.0, 0
    cores, mb = supply.cores.tolist(), supply.mb.tolist()
    for c in range(supply.clusters):
        pools = supply.pools(c).tolist()
        total = case.need[:, at == c].sum(axis=1).tolist()
        free = [mb[p] for p in pools]
        over = core_mb * max(0, total[CORES] - cores[pools[0]])
        split, left = [], total[MB]
        for room in free:
            split.append(min(left, room))
            left -= split[-1]
        load = sum(m * int(supply.weight[p]) for m, p in zip(split, pools, strict=True))
        over += left + max(0, total[FLOOR] - free[0]) + max(0, load - total[CEILING])
        if over == 0 and total[MB]:
            into = np.zeros(len(pools), np.int64)
            columns = (np.array(free), supply.weight[pools], supply.price[pools])
            cheapest(total[MB], total[FLOOR], total[CEILING], *columns, len(pools), into)
            split = into.tolist()
        paid += sum(m * int(supply.price[p]) for m, p in zip(split, pools, strict=True))
        excess += over
        cores[pools[0]] -= total[CORES]
        for m, p in zip(split, pools, strict=True):
            mb[p] -= m
    return excess, paid


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
def test_excess_and_price_are_those_of_the_sums_of_what_servers_need(seed: int) -> None:
    case = case_of(seed)
    draws = np.random.Generator(np.random.PCG64(seed))
    at = draws.integers(-1, 4, 8).astype(np.int64)
    reserve, choice = np.zeros(4, np.int64), np.arange(4)
    how = Annealing(0, 1.0, 1.0, 1.0, True, 0.0)
    found = anneal(case.land, case.crowd, choice, reserve, 2.0, at, draws, how, NOBODY, 0)
    assert found[:2] == plain_excess_and_price(case, at, 2.0)


@pytest.mark.parametrize("seed", range(20))
def test_annealing_keeps_who_may_be_where_and_says_what_it_left(seed: int) -> None:
    draws = np.random.Generator(np.random.PCG64(seed))
    supply = regular_supply(4, (20, 100), ((200, 1, 50, 1),), price=100)
    supply = replace(supply, domain=np.stack([np.arange(8) % 4, np.arange(8) // 2]))
    case = make_case(supply, random_asked(draws, supply, 12))
    at = np.full(12, -1, np.int64)
    for i in np.flatnonzero(~case.hopeless)[:-1].tolist():
        at[i] = case.asked.pinned[i] if case.asked.pinned[i] >= 0 else i % 4
        if clashes(case.land, case.crowd, at) or not case.crowd.fits[i, case.crowd.kind[at[i]]]:
            at[i] = -1
    home, out = at.copy(), int((at < 0).sum())
    none, choice = np.zeros(4, np.int64), np.arange(4)
    start, _ = plain_excess_and_price(case, at, 2.0)
    how = Annealing(5000, 30.0, 0.1, 100.0, False, 0.0)
    excess, *_ = anneal(case.land, case.crowd, choice, none, 2.0, at, draws, how, home, 4)
    placed = np.flatnonzero(at >= 0)
    assert int((at < 0).sum()) == out
    assert int((at != home).sum()) <= 4
    assert not clashes(case.land, case.crowd, at)
    assert case.crowd.fits[placed, case.crowd.kind[at[placed]]].all()
    assert all(case.asked.pinned[i] in (-1, at[i]) for i in placed)
    assert excess <= start
    assert excess == pytest.approx(plain_excess_and_price(case, at, 2.0)[0])


@pytest.mark.parametrize("seed", range(20))
def test_clashes_are_domains_in_common_between_pools_that_may_be_used(seed: int) -> None:
    case = case_of(seed)
    at = np.random.default_rng(seed).integers(-1, 4, 8).astype(np.int64)

    def domains(i: int) -> set[int]:
        pools = case.supply.pools(int(at[i])).tolist()
        mine = [p for k, p in enumerate(pools) if k == 0 or not case.asked.forbidden[i, case.supply.tier[p]]]
        return {int(case.supply.domain[case.asked.level[i], p]) for p in mine} - {-1}

    pairs = [(i, j) for i in range(8) for j in range(i) if case.asked.group[i] == case.asked.group[j] != -1]
    expected = any(at[i] >= 0 and at[j] >= 0 and domains(i) & domains(j) for i, j in pairs)
    assert clashes(case.land, case.crowd, at) == expected


def plain_price(case: Case, books: Books, i: int, c: int, gone: int) -> int:
    supply, asks, run = case.supply, case.asked, books.run
    pools = supply.pools(c).tolist()
    taken = set()
    for j in range(len(asks)):
        if j != i and asks.group[j] == asks.group[i] != -1 and run.at[j] >= 0:
            for k, p in enumerate(supply.pools(int(run.at[j])).tolist()):
                if k == 0 or run.mb[j, k]:
                    taken.add(int(supply.domain[asks.level[i], p]))
    taken.discard(-1)

    def barred(pool: int) -> bool:
        return asks.level[i] >= 0 and int(supply.domain[asks.level[i], pool]) in taken

    free = [int(run.free_mb[p]) + (int(run.mb[gone, k]) if gone >= 0 else 0) for k, p in enumerate(pools)]
    free = [0 if barred(p) or asks.forbidden[i, supply.tier[p]] else f for p, f in zip(pools, free, strict=True)]
    cores = run.free_cores[pools[0]] + (asks.cores[gone] if gone >= 0 else 0)
    if cores < asks.cores[i] or barred(pools[0]) or asks.pinned[i] not in (-1, c):
        return -1
    columns = (np.array(free), supply.weight[pools], supply.price[pools])
    into = np.zeros(len(pools), np.int64)
    return cheapest(asks.mb[i], asks.floor[i], asks.ceiling[i], *columns, len(pools), into)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
def test_moves_are_those_that_a_plain_look_at_all_of_them_finds(seed: int) -> None:
    case = case_of(seed, plain=seed % 2 == 0)
    now = place_one_by_one(case.supply, case.asked, "best-fit")
    books = Books(case, now, 8, NO_LIMIT)
    run, into = books.run, np.zeros(case.supply.width, np.int64)
    kernel = (case.land, case.crowd, run)
    order = np.argsort(case.asked.mb, kind="stable")
    paid = np.full(8, 10**6)
    opened = np.flatnonzero(run.opened).tolist()
    savings = []
    for i in range(8):
        prices = {c: plain_price(case, books, i, c, -1) for c in range(4)}
        assert {c: price_there(*kernel, i, c, -1, into) for c in range(4)} == prices
        may = [c for c in opened if c != run.at[i] and prices[c] >= 0]
        left = {c: int(run.free_mb[case.supply.pools(c)].sum()) for c in may}
        by_room = min(may, key=lambda c: (left[c], c), default=-1)
        by_price = min(may, key=lambda c: (prices[c], c), default=-1)
        assert best_place(*kernel, i, TIGHTEST, into) == (by_room, prices.get(by_room, -1))
        assert best_place(*kernel, i, CHEAPEST, into) == (by_price, prices.get(by_price, -1))
        if run.at[i] >= 0 and by_price >= 0:
            savings.append((-(10**6 - prices[by_price]), i, by_price))
        rooms = [
            (j, best_place(*kernel, j, TIGHTEST, into)[0])
            for j in order.tolist()
            if j != i
            and run.at[j] >= 0
            and run.at[j] != run.at[i]
            and plain_price(case, books, i, int(run.at[j]), j) >= 0
        ]
        assert make_room(*kernel, i, order) == next((room for room in rooms if room[1] >= 0), (-1, -1))
    assert best_saving(*kernel, paid) == (min(savings)[1:] if savings else (-1, -1))


def test_a_programme_is_bounded_exactly_however_its_solver_rounds() -> None:
    lp = Programme()
    x, y = lp.variable(10**9), lp.variable(10**9)
    lp.row([(x, -3), (y, -7)], -(10**9 + 1))
    exact = Fraction(10**9 + 1, 7) * 2
    assert lp.least([(x, 1), (y, 2)], 10.0) == -(-exact.numerator // exact.denominator)
    lp.row([(x, 1), (y, 1)], 5)
    assert lp.least([(x, 1), (y, 2)], 10.0) is None


def test_bounds_of_the_loose_programme_are_those_worked_out_by_hand() -> None:
    supply = regular_supply(9, (10, 100), ((100, 1, 50, 1), (300, 2, 25, 1)), price=100)
    count = 40
    asks = asked(*(np.full(count, x) for x in (1, 50, 10, 60)), tiers=3)
    bounds = Bounds(make_case(supply, asks))
    # 2000 MB in n clusters: local l <= 100 n, near r <= 100 n, r + 2 d <= 2400, so 2 l + r >= 1600, 300 n >= 1600
    assert (bounds.unplaced(), bounds.clusters(count)) == (0, 6)
    # with 9 clusters: l = 400, d = l + 400 = 800, r = 800
    assert bounds.price(count, 9) == 100 * 400 + 50 * 800 + 25 * 800
    bounds.loose = True
    assert (bounds.unplaced(), bounds.clusters(count), bounds.price(count, 9)) == (0, 6, 100_000)
    assert bounds.clusters(count // 2) == 3
    assert bounds.price(count // 2, 9) == 50_000


def test_a_programme_has_the_time_that_is_left_and_none_begins_after_that(monkeypatch: pytest.MonkeyPatch) -> None:
    supply = regular_supply(10, (4, 50), ((1000, 0, 1, 1),), price=5)
    asks = asked(np.full(30, 1), np.full(30, 100), np.full(30, 0), np.full(30, 10**6), tiers=2)
    given: list[tuple[float, float]] = []
    monkeypatch.setattr(Programme, "least", lambda _self, _cost, limit_s, effort_s: given.append((limit_s, effort_s)))
    monkeypatch.setattr("unrack_papers.clock.process_time", lambda: 61.0)
    monkeypatch.setattr("unrack_papers.clock.perf_counter", lambda: 61.0)
    for clock in (Clock(60.0, 0.0), Clock(60.0, 11.0), Clock()):
        Bounds(make_case(supply, asks), 60.0, clock).price(30, 8)
    assert given == [(10.0, 15.0), (10.0, 15.0), (inf, 15.0), (inf, 15.0)]


def test_clusters_are_counted_in_pieces_where_servers_leave_gaps() -> None:
    supply = regular_supply(9, (10, 100), (), price=1)
    asks = asked(*(np.array([x] * 6) for x in (6, 1, 1, 0)), tiers=1)
    assert Bounds(make_case(supply, asks)).clusters(6) == 6  # 36 cores of 10 would be 4


@pytest.mark.parametrize("seed", range(20))
def test_choices_of_one_cluster_fewer_are_that_and_keep_those_that_placed_servers_are_pinned_to(seed: int) -> None:
    draws = np.random.default_rng(seed)
    supply = random_supply(draws, 6)
    pinned = np.where(draws.random(10) < 0.6, draws.integers(0, 6, 10), -1)
    asks = replace(random_asked(draws, supply, 10, plain=True), pinned=pinned, most_clusters=3)
    case = make_case(supply, asks)
    at = place_one_by_one(supply, asks, "slo").cluster
    search = Search(case, draws, Clock(), 0)
    opened = search.opened(at)
    for choice in fewer(case, at, opened, search.capacity, search.core_mb):
        assert len(np.unique(choice)) == len(choice) == len(opened) - 1
        assert np.isin(pinned[(pinned >= 0) & (at >= 0)], choice).all()


def test_an_allocation_on_the_books_holds_what_it_says() -> None:
    case = case_of(3, plain=True)
    now = place_one_by_one(case.supply, case.asked, "slo")
    books = Books(case, now, 1, NO_LIMIT)
    assert books.run.free_mb.sum() == case.supply.mb.sum() - now.mb.sum()
    assert isinstance(books.allocation, Allocation)
