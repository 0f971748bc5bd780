"""In which order servers are placed: as they came, or by the ratio of their SLOs."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from unrack.solver.servers import asked
from unrack.workload.tier_asks import NO_CEILING
from unrack_papers.servers.allocator.order import servers_in_order, slo_ratios


@pytest.mark.parametrize("scale", [1, 2, 10])
def test_the_order_is_that_of_a_stable_sort_by_whole_ratios(scale: int) -> None:
    draws = np.random.default_rng(scale)
    for _ in range(50):
        count = int(draws.integers(1, 12))
        mb = np.full(count, 100)
        floor, ceiling = draws.integers(0, 100, count), draws.integers(1, 40, count)
        ceiling[draws.random(count) < 0.2] = NO_CEILING
        asks = asked(np.ones(count, np.int64), mb, floor, ceiling, tiers=2)
        expected = sorted(
            range(count), key=lambda i: Fraction(int(floor[i]) * scale, int(ceiling[i])).__floor__(), reverse=True
        )
        assert servers_in_order(np.arange(count), asks, "slo-ratio", scale).tolist() == expected
        assert servers_in_order(np.arange(count), asks, "request", scale).tolist() == list(range(count))
        some = np.arange(count)[::2]
        assert servers_in_order(some, asks, "slo-ratio", scale).tolist() == [i for i in expected if i % 2 == 0]


def test_a_ceiling_of_nothing_comes_first_and_none_counts_as_nothing() -> None:
    ones = np.ones(4, np.int64)
    asks = asked(ones, 9 * ones, np.array([9, 9, 0, 8]), np.array([1, 0, 5, NO_CEILING]), tiers=2)
    assert servers_in_order(np.arange(4), asks, "slo-ratio", 1).tolist() == [1, 0, 2, 3]
    assert slo_ratios(asks, 1).tolist()[2:] == [0, 0]
