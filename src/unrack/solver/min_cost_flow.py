"""Flows of least cost, by OR-Tools or a plain algorithm, the same whichever it is: the one that the network decides.

Why it does not matter which optimum it starts from. Let x be a flow of least cost, and d(v) the least cost of a walk
that ends at v in the residual graph of x, at most 0 as it may begin anywhere (a virtual root has arcs of cost 0 to all
nodes). There is no cycle of negative cost, so that d exists, and d is, node by node, the greatest of all p <= 0 with
p(head) <= p(tail) + cost on every residual arc. These p are the duals that complementary slackness allows beside x,
and the theorem of strong duality says that x and y, both optimal, go with the same ones: all optimal duals. So d is a
function of the network.

By complementary slackness again, the flows of least cost are those that meet the supplies, fill the arcs with a cost
that reduced by d is negative, and leave those empty where it is positive. What remains is to find any flow on the arcs
between, which are free: ``push_all`` finds it from nothing, without another look at x.

References
----------
R. K. Ahuja, T. L. Magnanti, J. B. Orlin, "Network Flows" (1993), theorems 9.3, 9.4, sections 9.4 and 9.8.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from unrack.errors import RunError, check_choice
from unrack.extras import has_solvers, needed_for
from unrack.jit import compiled
from unrack.kernels.arrays import Ints
from unrack.solver.network import Flow, Network, Residual, amounts_of, checked, push_all, residual_of


def canonical_amounts(network: Network, potential: Ints) -> Ints:
    """int64[arcs]: the flow of least cost with ties broken by number.

    Nodes that have units left once the arcs of negative reduced cost are full send them over free arcs, by few arcs
    before many, and of equally few those of lower numbers first; the nodes send in order of number. See ``push_all``.
    ``network``: as :func:`unrack.solver.network.checked` returns it; ``potential``: int64[nodes], as of
    :func:`canonical_potentials`.
    """
    reduced = network.cost + potential[network.tail] - potential[network.head]
    amount = np.where(reduced < 0, network.capacity, 0)
    excess = network.supply.copy()
    np.subtract.at(excess, network.tail, amount)
    np.add.at(excess, network.head, amount)
    free = np.flatnonzero((reduced == 0) & (network.capacity > 0))
    part = Network(network.supply, *(column[free] for column in network[1:]))
    residual = residual_of(part, np.zeros_like(free))
    left = push_all(residual, excess)
    assert left == 0, f"{left} units have no way: the potentials are not optimal"
    amount[free] = amounts_of(residual)
    return amount


@compiled
def canonical_potentials(network: Network, amount: Ints) -> Ints:
    """int64[nodes]: the greatest optimal duals of which none is above 0.

    By Bellman's and Ford's algorithm, passes over all arcs: as many as there are arcs in a shortest walk at most,
    O(nodes arcs), and a dozen or two in the networks of schedulers. ``network``: as
    :func:`unrack.solver.network.checked` returns it; ``amount``: int64[arcs], any flow of least cost.
    """
    tail, head, cost = network.tail, network.head, network.cost
    distance = np.zeros(len(network.supply), np.int64)
    passes, changed = 0, True
    while changed:
        assert passes <= len(distance), "a cycle of negative cost: the flow is not optimal"
        passes, changed = passes + 1, False
        for arc in range(len(amount)):
            there, back = distance[tail[arc]] + cost[arc], distance[head[arc]] - cost[arc]
            if amount[arc] < network.capacity[arc] and there < distance[head[arc]]:
                distance[head[arc]] = there
                changed = True
            if amount[arc] > 0 and back < distance[tail[arc]]:
                distance[tail[arc]] = back
                changed = True
    return distance


FAR = 2**61


__all__ = ["SOLVERS", "Flow", "Network", "solve"]


def _or_tools(network: Network) -> Ints | None:
    """int64[arcs]: a flow of least cost by OR-Tools; ``None`` if the network cannot carry its supply."""
    with needed_for("solver 'ortools'"):
        from ortools.graph.python import min_cost_flow  # a second to import

    if len(network.tail) == 0:
        return None if network.supply.any() else np.zeros(0, np.int64)
    solver = min_cost_flow.SimpleMinCostFlow()
    arcs = solver.add_arcs_with_capacity_and_unit_cost(network.tail, network.head, network.capacity, network.cost)
    solver.set_nodes_supplies(np.arange(len(network.supply)), network.supply)
    status = solver.solve()
    if status == solver.INFEASIBLE:
        return None
    if status != solver.OPTIMAL:
        raise RunError(f"OR-Tools found no flow of least cost: {status.name}")
    return np.asarray(solver.flows(arcs), dtype=np.int64)


def primal_dual(network: Network) -> Ints | None:
    """int64[arcs]: a flow of least cost, or ``None``; as many units at a time as the cheapest ways that are left carry.

    Arcs of negative cost are filled first, so that no residual cost is negative. O(passes x different costs of ways).
    """
    amount = np.where(network.cost < 0, network.capacity, 0)
    excess, potential = network.supply.copy(), np.zeros_like(network.supply)
    np.subtract.at(excess, network.tail, amount)
    np.add.at(excess, network.head, amount)
    residual = residual_of(network, amount)
    tail = np.repeat(np.arange(len(potential)), np.diff(residual.first))
    while (excess > 0).any():
        away = _distances(residual, residual.cost + potential[tail] - potential[residual.head], excess)
        nearest = away[excess < 0].min(initial=FAR)
        if nearest == FAR:
            return None
        potential += np.minimum(away, nearest)
        cheapest = residual.cost + potential[tail] == potential[residual.head]
        ways = residual._replace(room=np.where(cheapest, residual.room, 0))
        push_all(ways, excess)
        residual.room[cheapest] = ways.room[cheapest]
    return amounts_of(residual)


@compiled
def _distances(residual: Residual, length: Ints, excess: Ints) -> Ints:
    """int64[nodes]: by slots with room, from the nearest node that has units; FAR: there is no way."""
    distance = np.where(excess > 0, 0, FAR)
    changed = True
    while changed:
        changed = False
        for node in range(len(distance)):
            for slot in range(residual.first[node], residual.first[node + 1]):
                if residual.room[slot] > 0 and distance[node] + length[slot] < distance[residual.head[slot]]:
                    distance[residual.head[slot]] = distance[node] + length[slot]
                    changed = True
    return distance


def fastest(network: Network) -> Ints | None:
    """As the others of :data:`SOLVERS`: OR-Tools, or the plain algorithm if that is missing."""
    return _or_tools(network) if has_solvers() else primal_dual(network)


SOLVERS: dict[str, Callable[[Network], Ints | None]] = {
    "auto": fastest,
    "ortools": _or_tools,
    "primal-dual": primal_dual,
}
"""Name to function: of a checked network, the amounts of any flow of least cost, or ``None`` if there is no flow."""


def solve(network: Network, solver: str = "auto") -> Flow:
    """The flow of least cost, with ties broken by number: the same whatever the solver (:func:`canonical_amounts`).

    An InputError if there is no such solver, or the network is wrong (:func:`unrack.solver.network.checked`). A
    MissingError if OR-Tools is asked for and not installed. A RunError if the network cannot carry its supply.

    Parameters
    ----------
    network
        Of a balanced supply, without loops; costs of any sign.
    solver
        One of :data:`SOLVERS`. Default: OR-Tools, or the plain algorithm where that is not installed.

    Examples
    --------
    Two tasks, 0 and 1; two machines for one task each, 2 and 3; and a sink, 4. Any match costs 6, and task 0 gets its
    first choice.

    >>> columns = ([1, 1, 0, 0, -2], [0, 0, 1, 1, 2, 3], [2, 3, 2, 3, 4, 4], [1] * 6, [3, 3, 3, 3, 0, 0])
    >>> flow = solve(Network(*map(np.array, columns)), "primal-dual")
    >>> flow.cost, flow.amount.tolist()
    (6, [1, 0, 0, 1, 1, 1])
    """
    check_choice("solver", solver, SOLVERS)
    network = checked(network)
    amount = SOLVERS[solver](network)
    if amount is None:
        units = int(network.supply[network.supply > 0].sum())
        left = push_all(residual_of(network, np.zeros_like(network.tail)), network.supply.copy())
        raise RunError(f"The network cannot carry its supply: of {units} units, {units - left} have a way")
    potential = canonical_potentials(network, amount)
    amount = canonical_amounts(network, potential)
    return Flow(amount, int(network.cost @ amount), potential)
