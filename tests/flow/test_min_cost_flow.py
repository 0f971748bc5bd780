"""Flows of least cost: against an LP of SciPy, against each other, and what is refused."""

from __future__ import annotations

import random

import numpy as np
import pytest
from flow_check import faults
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.sparse import coo_array
from tries import draws, some

from unrack.errors import InputError, RunError
from unrack.solver.min_cost_flow import SOLVERS, canonical_amounts, canonical_potentials, solve
from unrack.solver.network import Flow, Network, checked
from unrack_papers.amaral.flow.solvers import scheduling_network

NAMES = list(SOLVERS)


def first_found(network: Network, solver: str = "auto") -> Flow:
    """Of the flows of least cost the one that the solver found, without ties broken by number."""
    network = checked(network)
    amount = SOLVERS[solver](network)
    if amount is None:
        raise RunError("cannot carry its supply")
    return Flow(amount, int(network.cost @ amount), canonical_potentials(network, amount))


def network_of(supply: list[int], arcs: list[tuple[int, int, int, int]]) -> Network:
    """Arcs: tail, head, capacity, cost."""
    columns = np.array(arcs, np.int64).reshape(-1, 4).T
    return Network(np.array(supply, np.int64), *columns)


def drawn_network(rng: random.Random) -> Network:
    """Parallel arcs, both directions, zero capacities, isolated nodes, costs below 0; few distinct costs, so ties."""
    nodes = rng.randint(1, 8)
    most = rng.choice([1, 2, 9])
    supply = [0] * nodes
    for _ in range(rng.randint(0, 4)):
        units = rng.randint(0, 3)
        supply[rng.randrange(nodes)] += units
        supply[rng.randrange(nodes)] -= units
    arcs = []
    for _ in range(rng.randint(0, 20) if nodes > 1 else 0):
        tail, head = rng.sample(range(nodes), 2)
        arcs.append((tail, head, rng.randint(0, 4), rng.randint(-most if rng.random() < 0.3 else 0, most)))
    return network_of(supply, arcs)


def least_cost(network: Network) -> int | None:
    """By HiGHS: the cost, or None if there is no flow."""
    arcs, nodes = len(network.tail), len(network.supply)
    if arcs == 0:
        return None if network.supply.any() else 0
    arc = np.arange(arcs)
    ends = (np.concatenate((network.tail, network.head)), np.concatenate((arc, arc)))
    matrix = coo_array((np.repeat([1.0, -1.0], arcs), ends), shape=(nodes, arcs))
    bounds = np.stack((np.zeros(arcs), network.capacity), axis=1)
    answer = linprog(network.cost, A_eq=matrix.tocsr(), b_eq=network.supply, bounds=bounds)
    if answer.status == 2:
        return None
    assert answer.status == 0, answer.message
    return round(answer.fun)


@st.composite
def networks(draw: st.DrawFn) -> Network:
    return drawn_network(random.Random(draw(st.integers(0, 2**32))))


@pytest.mark.draws(500)
def test_every_solver_costs_what_a_linear_programme_costs_and_finds_the_same_flow() -> None:
    rng, infeasible, tied = random.Random(1), 0, 0
    for _ in range(some(500)):
        network = drawn_network(rng)
        least = least_cost(network)
        if least is None:
            infeasible += 1
            for name in NAMES:
                with pytest.raises(RunError, match="cannot carry its supply"):
                    solve(network, name)
            continue
        flows = [solve(network, name) for name in NAMES]
        found = [first_found(network, name) for name in NAMES]
        assert {flow.cost for flow in (*flows, *found)} == {least}, network
        assert not any(faults(network, flow) for flow in (*flows, *found)), network
        assert all((flow.amount == flows[0].amount).all() for flow in flows), network
        assert all((flow.potential == flows[0].potential).all() for flow in (*flows, *found)), network
        tied += any((flow.amount != found[0].amount).any() for flow in found)
    assert infeasible > some(500) // 5
    assert tied > some(500) // 25  # solvers do break ties in different ways


@draws(300)
@given(networks())
def test_the_canonical_flow_does_not_depend_on_the_solver(network: Network) -> None:
    try:
        flows = [solve(network, name) for name in NAMES]
    except RunError:
        return
    assert len({tuple(flow.amount.tolist()) for flow in flows}) == 1


@pytest.mark.parametrize("name", NAMES)
def test_an_empty_network_has_an_empty_flow(name: str) -> None:
    flow = solve(network_of([], []), name)
    assert (flow.cost, flow.amount.size, flow.potential.size) == (0, 0, 0)
    assert solve(network_of([0, 0], []), name).cost == 0
    with pytest.raises(RunError, match="of 2 units, 0 have a way"):
        solve(network_of([2, -2], []), name)


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (network_of([1, 0], []), r"network\.supply: got a sum of 1, wanted 0"),
        (network_of([0, 0], [(0, 2, 1, 1)]), r"network\.head, arc 0: got 2, wanted a node from 0 to 1"),
        (network_of([0, 0], [(0, 1, 1, 1), (-1, 1, 1, 1)]), r"network\.tail, arc 1: got -1"),
        (network_of([0, 0], [(1, 1, 1, 1)]), r"network\.head, arc 0: got 1, wanted a node other than its tail"),
        (network_of([0, 0], [(0, 1, -3, 1)]), r"network\.capacity, arc 0: got -3, wanted 0 or more"),
        (network_of([0, 0], [(0, 1, 2**61, 1)]), r"network\.capacity: got numbers that may add up to 2\.3e\+18"),
        (network_of([0, 0], [(0, 1, 1, 2**60)]), r"network\.cost: got numbers"),
        (network_of([0, 0], [(0, 1, 2**40, 2**30)]), r"network\.cost x network\.capacity: got numbers"),
        (network_of([2**62, -(2**62)], []), r"network\.supply: got numbers"),
        (network_of([0, 0], [(0, 1, 1, 1)])._replace(cost=np.zeros(2, int)), r"network\.cost: got 2 arcs, wanted 1"),
        (network_of([0, 0], [])._replace(cost=np.zeros((1, 2), int)), r"network\.cost: got an array of shape \(1, 2\)"),
        (network_of([0, 0], [(0, 1, 1, 1)])._replace(cost=np.array([0.5])), r"network\.cost: got an array of float64"),
    ],
)  # fmt: skip
def test_wrong_networks_are_refused(network: Network, message: str) -> None:
    with pytest.raises(InputError, match=message):
        solve(network)


def test_an_unknown_solver_is_refused() -> None:
    with pytest.raises(InputError, match=r"solver: got 'simplex', wanted one of .*primal-dual"):
        solve(network_of([], []), "simplex")


@pytest.mark.draws(60)
def test_costs_up_to_the_limit_do_not_overflow() -> None:
    rng, solved = random.Random(3), 0
    for _ in range(some(60)):
        network = drawn_network(rng)
        most = (2**61 - 2**20) // (4 * (len(network.supply) + 1) ** 2) // 9
        few = network._replace(capacity=np.minimum(network.capacity, 1))
        if least_cost(few) is None:
            continue
        large = few._replace(cost=few.cost * most)
        for name in NAMES[2:]:
            flow = solve(large, name)
            assert faults(large, flow) == []
            assert (flow.amount == solve(few, name).amount).all()
        solved += 1
    assert solved > some(60) // 3


DIAMOND = network_of([2, 0, 0, -2], [(0, 1, 1, 1), (0, 2, 2, 1), (1, 3, 2, 1), (2, 3, 2, 1)])


def test_a_check_finds_each_fault() -> None:
    flow = solve(DIAMOND)
    assert faults(DIAMOND, flow) == []
    assert flow.amount.tolist() == [1, 1, 1, 1]
    wrong = flow._replace(amount=np.array([1, 1, 1, 0]))
    assert "node 2 is left with 1 units" in faults(DIAMOND, wrong)
    assert "arc 0 carries 2 of 1 units" in faults(DIAMOND, flow._replace(amount=np.array([2, 0, 2, 0])))
    assert faults(DIAMOND, flow._replace(cost=5)) == ["the cost is said to be 5, and is 4"]
    dear = DIAMOND._replace(cost=np.array([1, 1, 1, 9]))
    assert faults(dear, flow._replace(cost=12)) == ["arc 3 carries 1 of 2 units at a reduced cost of 8"]
    assert faults(DIAMOND, Flow(np.zeros(1, np.int64), 0, flow.potential))[0].startswith("amounts of (1,) arcs")


def test_ties_go_to_the_lower_numbers() -> None:
    tasks, machines = 5, 4
    arcs = [(task, tasks + machine, 1, 7) for task in range(tasks) for machine in range(machines)]
    arcs += [(tasks + machine, tasks + machines, 2, 0) for machine in range(machines)]
    network = network_of([1] * tasks + [0] * machines + [-tasks], arcs)
    for name in NAMES:
        chosen = np.flatnonzero(solve(network, name).amount[:-machines]) % machines
        assert chosen.tolist() == [0, 0, 1, 1, 2]


@pytest.mark.draws(100)
def test_potentials_are_the_least_costs_of_residual_walks() -> None:
    rng = random.Random(5)
    for _ in range(some(100)):
        network = drawn_network(rng)
        try:
            flow = first_found(network)
        except RunError:
            continue
        nodes = len(network.supply)
        apart = np.full((nodes, nodes), np.inf)
        np.fill_diagonal(apart, 0)
        for tail, head, capacity, cost, amount in zip(*network[1:], flow.amount, strict=True):
            if amount < capacity:
                apart[tail, head] = min(apart[tail, head], cost)
            if amount > 0:
                apart[head, tail] = min(apart[head, tail], -cost)
        for by in range(nodes):
            apart = np.minimum(apart, apart[:, by, None] + apart[None, by, :])
        assert (flow.potential == apart.min(axis=0)).all()


def test_the_canonical_flow_is_made_from_the_potentials_alone() -> None:
    network = checked(DIAMOND)
    for amount in ([1, 1, 1, 1], [0, 2, 0, 2]):
        potential = canonical_potentials(network, np.array(amount))
        assert canonical_amounts(network, potential).tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("slots", [2, 4, 5])
def test_algorithms_agree_on_a_scheduling_network_of_some_size(slots: int) -> None:
    network = scheduling_network(800, 200, slots, 6, seed=1)
    flows = [solve(network, name) for name in SOLVERS]
    assert faults(network, flows[0]) == []
    assert all((flow.amount == flows[0].amount).all() for flow in flows)


def test_potentials_of_a_flow_that_is_not_optimal_are_refused() -> None:
    network = checked(network_of([1, 0, -1], [(0, 1, 1, 1), (1, 2, 1, 1), (0, 2, 1, 9)]))
    with pytest.raises(AssertionError, match="not optimal"):
        canonical_potentials(network, np.array([0, 0, 1]))


def test_a_scheduling_network_of_no_tasks_is_refused() -> None:
    with pytest.raises(InputError, match="got 0 tasks, 2 machines"):
        scheduling_network(0, 2, 1, 1, 0)
