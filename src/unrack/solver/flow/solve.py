"""Flows of least cost, by any of the algorithms, the same whichever it is."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from unrack.errors import InputError, RunError
from unrack.extras import has_solvers, needed_for
from unrack.solver.flow.auction import auction, auctioned
from unrack.solver.flow.canonical import canonical_amounts, canonical_potentials
from unrack.solver.flow.cost_scaling import cost_scaling
from unrack.solver.flow.cycle_cancelling import cycle_cancelling
from unrack.solver.flow.market import market_of
from unrack.solver.flow.max_flow import push_all
from unrack.solver.flow.network import Flow, Network, check, checked
from unrack.solver.flow.residual import residual_of
from unrack.solver.flow.shortest_path import shortest_path

__all__ = ["ANY_NETWORK", "SOLVERS", "Flow", "Network", "check", "solve"]

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


def fastest(network: Network) -> Ints | None:
    """As the others of :data:`SOLVERS`: an auction for a market, else OR-Tools, or cost scaling if that is missing."""
    stall = market_of(network)
    if stall is not None:
        return auctioned(network, stall)
    return or_tools(network) if has_solvers() else cost_scaling(network)


SOLVERS: dict[str, Callable[[Network], Ints | None]] = {
    "auto": fastest,
    "ortools": or_tools,
    "auction": auction,
    "cost-scaling": cost_scaling,
    "shortest-path": shortest_path,
    "cycle-cancelling": cycle_cancelling,
}
"""Name to function: of a checked network, the amounts of any flow of least cost, or ``None`` if there is no flow.

``auction`` takes markets alone; the others take any network."""


ANY_NETWORK = tuple(name for name in SOLVERS if name != "auction")
"""Those that take any network."""


def solve(network: Network, solver: str = "auto", *, canonical: bool = True) -> Flow:
    """The flow of least cost.

    Parameters
    ----------
    network
        Of a balanced supply, without loops; costs of any sign.
    solver
        One of :data:`SOLVERS`. Default: an auction if the network is a market
        (:func:`unrack.solver.flow.market.market_of`), else OR-Tools, or cost scaling where that is not installed.
    canonical
        Break ties by number, so that the answer is the same whatever the solver
        (:func:`unrack.solver.flow.canonical.canonical_amounts`). If False, of the flows of least cost, the one that the
        solver found.

    Raises
    ------
    InputError
        If there is no such solver, the network is wrong (:func:`unrack.solver.flow.network.checked`), or no market for
        an auction.
    MissingError
        If OR-Tools is asked for and not installed.
    RunError
        If the network cannot carry its supply.

    Examples
    --------
    Two tasks, 0 and 1; two machines for one task each, 2 and 3; and a sink, 4. Any match costs 6, and task 0 gets its
    first choice.

    >>> columns = ([1, 1, 0, 0, -2], [0, 0, 1, 1, 2, 3], [2, 3, 2, 3, 4, 4], [1] * 6, [3, 3, 3, 3, 0, 0])
    >>> flow = solve(Network(*map(np.array, columns)), "shortest-path")
    >>> flow.cost, flow.amount.tolist()
    (6, [1, 0, 0, 1, 1, 1])
    """
    if solver not in SOLVERS:
        raise InputError("solver", repr(solver), f"one of {', '.join(SOLVERS)}")
    network = checked(network)
    amount = SOLVERS[solver](network)
    if amount is None:
        units = int(network.supply[network.supply > 0].sum())
        left = push_all(residual_of(network, np.zeros_like(network.tail)), network.supply.copy())
        raise RunError(f"The network cannot carry its supply: of {units} units, {units - left} have a way")
    potential = canonical_potentials(network, amount)
    if canonical:
        amount = canonical_amounts(network, potential)
    return Flow(amount, int(network.cost @ amount), potential)
