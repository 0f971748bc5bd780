"""Least cost by OR-Tools: cost scaling in C++."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unrack.errors import RunError
from unrack.extras import needed_for
from unrack.solver.flow.network import Network

Ints = NDArray[np.int64]


def or_tools(network: Network) -> Ints | None:
    """int64[arcs]: a flow of least cost; ``None`` if the network cannot carry its supply.

    Parameters
    ----------
    network
        As :func:`unrack.solver.flow.network.checked` returns it.

    Raises
    ------
    MissingError
        If OR-Tools is not installed.
    RunError
        If OR-Tools gives up, as for costs that it finds too large.
    """
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
