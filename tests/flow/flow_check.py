"""What is wrong with a flow of least cost."""

from __future__ import annotations

import numpy as np

from unrack.solver.network import Flow, Network, checked


def faults(network: Network, flow: Flow) -> list[str]:
    """What keeps a flow from being one of least cost, a sentence each: empty if it is proven to be.

    Conservation at each node, capacities, complementary slackness (Ahuja, Magnanti, Orlin 1993, theorem 9.4), and the
    cost. O(nodes + arcs).
    """
    supply, tail, head, capacity, cost = checked(network)
    amount, potential = flow.amount, flow.potential
    if amount.shape != tail.shape or potential.shape != supply.shape:
        return [f"amounts of {amount.shape} arcs and potentials of {potential.shape} nodes"]
    net = supply.copy()
    np.subtract.at(net, tail, amount)
    np.add.at(net, head, amount)
    found = [f"node {node} is left with {net[node]} units" for node in np.flatnonzero(net)]
    outside = (amount < 0) | (amount > capacity)
    found += [f"arc {arc} carries {amount[arc]} of {capacity[arc]} units" for arc in np.flatnonzero(outside)]
    reduced = cost + potential[tail] - potential[head]
    wrong = ((reduced < 0) & (amount < capacity)) | ((reduced > 0) & (amount > 0))
    found += [
        f"arc {arc} carries {amount[arc]} of {capacity[arc]} units at a reduced cost of {reduced[arc]}"
        for arc in np.flatnonzero(wrong & ~outside)
    ]
    total = int(cost @ amount)
    if total != flow.cost:
        found.append(f"the cost is said to be {flow.cost}, and is {total}")
    return found
