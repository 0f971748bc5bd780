"""Flows of least cost, by OR-Tools or our own algorithm, the same whichever it is."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from unrack.errors import InputError, RunError
from unrack.extras import has_solvers, needed_for
from unrack.kernels.arrays import Ints
from unrack.solver.flow.canonical import canonical_amounts, canonical_potentials
from unrack.solver.flow.cost_scaling import cost_scaling
from unrack.solver.flow.max_flow import push_all
from unrack.solver.flow.network import Flow, Network, checked
from unrack.solver.flow.residual import residual_of

__all__ = ["SOLVERS", "Flow", "Network", "solve"]


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
    """As the others of :data:`SOLVERS`: OR-Tools, or cost scaling if that is missing."""
    return or_tools(network) if has_solvers() else cost_scaling(network)


SOLVERS: dict[str, Callable[[Network], Ints | None]] = {
    "auto": fastest,
    "ortools": or_tools,
    "cost-scaling": cost_scaling,
}
"""Name to function: of a checked network, the amounts of any flow of least cost, or ``None`` if there is no flow."""


def solve(network: Network, solver: str = "auto", *, canonical: bool = True) -> Flow:
    """The flow of least cost.

    Parameters
    ----------
    network
        Of a balanced supply, without loops; costs of any sign.
    solver
        One of :data:`SOLVERS`. Default: OR-Tools, or cost scaling where that is not installed.
    canonical
        Break ties by number, so that the answer is the same whatever the solver
        (:func:`unrack.solver.flow.canonical.canonical_amounts`). If False, of the flows of least cost, the one that the
        solver found.

    Raises
    ------
    InputError
        If there is no such solver, or the network is wrong (:func:`unrack.solver.flow.network.checked`).
    MissingError
        If OR-Tools is asked for and not installed.
    RunError
        If the network cannot carry its supply.

    Examples
    --------
    Two tasks, 0 and 1; two machines for one task each, 2 and 3; and a sink, 4. Any match costs 6, and task 0 gets its
    first choice.

    >>> columns = ([1, 1, 0, 0, -2], [0, 0, 1, 1, 2, 3], [2, 3, 2, 3, 4, 4], [1] * 6, [3, 3, 3, 3, 0, 0])
    >>> flow = solve(Network(*map(np.array, columns)), "cost-scaling")
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
