"""Of all flows of least cost, the one that the network alone decides.

Why it does not matter which optimum it starts from. Let x be a flow of least cost, and d(v) the least cost of a walk
that ends at v in the residual graph of x, at most 0 as it may begin anywhere (a virtual root has arcs of cost 0 to all
nodes). There is no cycle of negative cost, so that d exists, and d is, node by node, the greatest of all p <= 0 with
p(head) <= p(tail) + cost on every residual arc. These p are the duals that complementary slackness allows beside x,
and the theorem of strong duality says that x and y, both optimal, go with the same ones: all optimal duals. So d is a
function of the network.

By complementary slackness again, the flows of least cost are those that meet the supplies, fill the arcs whose cost
reduced by d is negative, and leave those empty where it is positive. What remains is to find any flow on the arcs
between, which are free: :func:`unrack.solver.flow.max_flow.push_all` finds it from nothing, without another look at x.

References
----------
R. K. Ahuja, T. L. Magnanti, J. B. Orlin, "Network Flows" (1993), theorems 9.3, 9.4 and section 9.4.
"""

from __future__ import annotations

import numpy as np

from unrack.jit import compiled
from unrack.kernels.arrays import Ints
from unrack.solver.flow.max_flow import push_all
from unrack.solver.flow.network import Network
from unrack.solver.flow.residual import amounts_of, residual_of


def canonical_amounts(network: Network, potential: Ints) -> Ints:
    """int64[arcs]: the flow of least cost with ties broken by number.

    Nodes that have units left once the arcs of negative reduced cost are full send them over free arcs, by few arcs
    before many, and of equally few those of lower numbers first; the nodes send in order of number. See ``push_all``.

    Parameters
    ----------
    network
        As :func:`unrack.solver.flow.network.checked` returns it.
    potential : int64[nodes]
        As of :func:`canonical_potentials`.
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
    O(nodes arcs), and a dozen or two in the networks of schedulers.

    Parameters
    ----------
    network
        As :func:`unrack.solver.flow.network.checked` returns it.
    amount : int64[arcs]
        Any flow of least cost.
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
