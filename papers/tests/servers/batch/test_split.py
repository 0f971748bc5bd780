"""One server in one cluster: the direct method against constraint programming and against plain enumeration."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from split_programme import cheapest_cp

from unrack.solver.servers import cheapest

WIDTH = 6
TOGETHER = 250


def instances(seed: int, count: int) -> tuple[np.ndarray, ...]:
    """Memory, floor, ceiling, free, weight, price and number of pools, at random; a third with the paper's tiers."""
    draws = np.random.default_rng(seed)
    width = draws.integers(1, WIDTH + 1, count)
    free = draws.integers(0, 200, (count, WIDTH))
    weight = np.cumsum(draws.integers(0, 4, (count, WIDTH)), axis=1)
    weight -= weight[:, :1]
    price = draws.integers(1, 101, (count, WIDTH))
    papers = draws.random(count) < 1 / 3
    width[papers], weight[papers, :3], price[papers, :3] = 3, (0, 1, 2), (100, 50, 25)
    free[np.arange(WIDTH) >= width[:, None]] = 0
    memory = (draws.random(count) * 1.1 * free.sum(axis=1)).astype(np.int64) + 1
    floor = (draws.random(count) ** 2 * memory * 0.6).astype(np.int64)
    mean = (weight * free).sum(axis=1) / np.maximum(free.sum(axis=1), 1)
    ceiling = (draws.random(count) * 1.5 * mean * memory).astype(np.int64)
    return memory, floor, ceiling, free, weight, price, width


def direct(row: tuple[np.ndarray, ...]) -> tuple[int, np.ndarray]:
    memory, floor, ceiling, free, weight, price, width = row
    into = np.zeros(len(free), np.int64)
    return cheapest(memory, floor, ceiling, free, weight, price, width, into), into


@pytest.mark.long
@pytest.mark.parametrize("part", range(4))
def test_the_direct_method_has_the_price_of_constraint_programming_on_10_000_servers(part: int) -> None:
    infeasible = 0
    for seed in range(part * 10, part * 10 + 10):
        columns = instances(seed, TOGETHER)
        prices, _ = cheapest_cp(*columns[:-1])
        infeasible += int((prices < 0).sum())
        for k, expected in enumerate(prices.tolist()):
            row = tuple(column[k] for column in columns)
            price, into = direct(row)
            assert price == expected, row
            if price >= 0:
                memory, floor, ceiling, free, weight, each, _ = row
                assert into.sum() == memory
                assert into[0] >= floor
                assert (into >= 0).all()
                assert (into <= free).all()
                assert into @ weight <= ceiling
                assert into @ each == price
    assert 500 < infeasible < 1500  # of 2500


@given(st.integers(0, 10**6))
def test_constraint_programming_has_the_price_of_plain_enumeration(seed: int) -> None:
    draws = np.random.default_rng(seed)
    free, price = draws.integers(0, 6, (4, 3)), draws.integers(1, 9, (4, 3))
    weight = np.sort(draws.integers(0, 4, (4, 3)), axis=1)
    weight[:, 0] = 0
    memory, floor, ceiling = draws.integers(1, 12, 4), draws.integers(0, 4, 4), draws.integers(0, 20, 4)
    prices, _ = cheapest_cp(memory, floor, ceiling, free, weight, price)
    for k in range(4):
        splits = [
            sum(m * p for m, p in zip(split, price[k].tolist(), strict=True))
            for split in product(*(range(top + 1) for top in free[k].tolist()))
            if sum(split) == memory[k] and split[0] >= floor[k] and np.dot(split, weight[k]) <= ceiling[k]
        ]
        assert prices[k] == min(splits, default=-1)
