"""The algorithms that the comparison of solvers adds: the same optimum as unrack's own, or no flow."""

from __future__ import annotations

import random

import numpy as np
import pytest

from unrack.solver.network import Network, checked
from unrack_papers.amaral.flow.cost_scaling import cost_scaling
from unrack_papers.amaral.flow.solvers import COMPARED, scheduling_network

ADDED = ("shortest-path", "cycle-cancelling")


def drawn_network(rng: random.Random) -> Network:
    """Few nodes, parallel arcs, capacities of 0, costs below 0."""
    nodes = rng.randint(2, 8)
    supply = np.zeros(nodes, np.int64)
    for _ in range(rng.randint(0, 3)):
        units = rng.randint(0, 3)
        supply[rng.randrange(nodes)] += units
        supply[rng.randrange(nodes)] -= units
    ends = [rng.sample(range(nodes), 2) for _ in range(rng.randint(1, 20))]
    rows = [(*pair, rng.randint(0, 4), rng.randint(-3, 9)) for pair in ends]
    return checked(Network(supply, *np.array(rows, np.int64).T))


@pytest.mark.parametrize("name", ADDED)
def test_it_finds_the_least_cost_of_any_network_or_that_there_is_no_flow(name: str) -> None:
    rng, carried = random.Random(1), 0
    for _ in range(300):
        network = drawn_network(rng)
        wanted, found = cost_scaling(network), COMPARED[name](network)
        assert (wanted is None) == (found is None)
        if wanted is not None and found is not None:
            carried += 1
            net = network.supply.copy()
            np.subtract.at(net, network.tail, found)
            np.add.at(net, network.head, found)
            assert not net.any()
            assert ((found >= 0) & (found <= network.capacity)).all()
            assert network.cost @ found == network.cost @ wanted
    assert carried > 100


@pytest.mark.parametrize("name", ADDED)
@pytest.mark.parametrize("slots", [2, 5])
def test_it_agrees_on_a_scheduling_network(name: str, slots: int) -> None:
    network = checked(scheduling_network(200, 50, slots, 6, seed=1, aggregator=True))
    found = COMPARED[name](network)
    assert found is not None
    assert network.cost @ found == network.cost @ cost_scaling(network)
