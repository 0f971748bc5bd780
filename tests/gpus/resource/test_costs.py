"""What communication costs on every set of up to six GPUs, against every round trip, tree and pairing."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from plain_gpus import cost_of

from unrack.resources.gpus.columns import FAR_COST, GRAPHS, fill_costs


@pytest.mark.parametrize("graph", range(len(GRAPHS)), ids=GRAPHS)
def test_costs_are_those_of_trying_everything(graph: int) -> None:
    random = np.random.default_rng(graph)
    for n in (1, 2, 3, 4, 5, 6):
        for _ in range(6 if n < 6 else 2):
            half = np.triu(random.integers(1, 90, (n, n)).astype(float), 1)
            distance = half + half.T
            cost, least = np.full((len(GRAPHS), 1 << n), FAR_COST), np.full((len(GRAPHS), n + 1), FAR_COST)
            fill_costs(distance, cost, least)
            for size in range(n + 1):
                costs = []
                for gpus in combinations(range(n), size):
                    costs.append(cost_of(distance, gpus, graph))
                    assert cost[graph, sum(1 << gpu for gpu in gpus)] == pytest.approx(costs[-1]), (gpus, distance)
                assert least[graph, size] == pytest.approx(min(costs))


def test_four_gpus_of_a_minsky_by_hand() -> None:
    from unrack.resources.gpus.machines.machine import preset

    cost, least = np.full((4, 16), FAR_COST), np.full((4, 5), FAR_COST)
    fill_costs(preset("minsky").distance.astype(float), cost, least)
    assert cost[:, 0b1111].tolist() == [2 * 1 + 4 * 42, 2 * 1 + 2 * 42, 2 * 1 + 42, 2 * 1]
    assert cost[:, 0b0110].tolist() == [42, 42, 42, 42], "two in a ring talk once"
    assert least[:, 2].tolist() == [1, 1, 1, 1]
    assert least[:, 3].tolist() == [85, 85, 43, 1], "of three in pairs one is left alone"
