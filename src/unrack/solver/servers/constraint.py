"""Servers over memory tiers as constraint programmes (OR-Tools CP-SAT): the reference, and what takes any constraint.

:func:`cheapest_cp` is one server in one cluster, the problem that :func:`unrack.solver.servers.split.cheapest` solves
directly. :func:`place_cp` is all servers at once, with all that :class:`unrack.solver.servers.problem.Asked` can ask:
exact, and slow beyond some dozens of servers. Its three goals are minimised one after the other, each with those before
held at what was found.

References
----------
Farshin, A., Roozbeh, A., Schulte, C., Maguire, G. Q., Kostić, D. (2021). Scheduling - a secret sauce for resource
disaggregation, equations 1 to 5.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from unrack.errors import RunError
from unrack.extras import needed_for
from unrack.solver.batch.solution import Solution, nowhere, objective
from unrack.solver.clock import Clock, solved, timed
from unrack.solver.servers.constraint_model import Placement, solver_of
from unrack.solver.servers.problem import Allocation, Asked, Supply

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def cheapest_cp(
    memory: Ints, floor: Ints, ceiling: Ints, free: Ints, weight: Ints, price: Ints, *, limit_s: float | None = None
) -> tuple[Ints, Ints]:
    """The cheapest split of each of many servers, each alone in a cluster of its own, in one programme.

    Parameters
    ----------
    memory, floor, ceiling : int64[servers]
        MB asked, MB of it that must be local, most weighted remote MB.
    free, weight, price : int64[servers, pools]
        MB free in each pool of the server's cluster, its compute pool first; weight and price of a MB.
    limit_s
        Time that the solver may compute, s; ``None``: as much as it needs.

    Returns
    -------
    tuple[int64[servers], int64[servers, pools]]
        The least price of each (-1: no split meets its SLOs) and a split that has it.

    Raises
    ------
    MissingError
        OR-Tools is not installed.
    RunError
        The solver proved no optimum in the time.
    """
    with needed_for("splits by constraint programming"):
        from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    gain: list[Any] = []
    placed: list[Any] = []
    mb: list[list[Any]] = []
    for k in range(len(memory)):
        fits = model.new_bool_var("")
        parts = [model.new_int_var(0, int(min(top, memory[k])), "") for top in np.maximum(free[k], 0)]
        model.add(sum(parts) == int(memory[k]) * fits)
        model.add(parts[0] >= int(floor[k]) * fits)
        model.add(cp_model.LinearExpr.weighted_sum(parts, weight[k].tolist()) <= int(ceiling[k]) * fits)
        dearest = int(memory[k]) * int(np.abs(price[k]).max(initial=0)) + 1
        gain.append(dearest * fits - cp_model.LinearExpr.weighted_sum(parts, price[k].tolist()))
        placed.append(fits)
        mb.append(parts)
    model.maximize(sum(gain))
    solver = solver_of(seed=0, workers=1)
    with timed(limit_s) as clock:
        status = solved(solver, model, clock)
    if status != cp_model.OPTIMAL:
        time = "" if limit_s is None else f" in {limit_s:g} s"
        raise RunError(f"CP-SAT proved no optimum of {len(memory)} splits{time}")
    split = np.array([[solver.value(part) for part in parts] for parts in mb], np.int64)
    return np.where([solver.value(fits) for fits in placed], (split * price).sum(axis=1), -1), split


def place_cp(
    supply: Supply, asked: Asked, *, limit_s: float | Clock | None = None, seed: int = 0, workers: int = 1,
    start: Allocation | None = None, busy: Bools | None = None, effort: float | None = None,
) -> Solution:  # fmt: skip
    """Place as many servers as can be, in as few clusters, at the lowest price; all their constraints are met.

    Parameters
    ----------
    limit_s
        Time that all threads may compute for all three goals, s, or a clock that runs; ``None``: none. What was found
        and proven until then is returned.
    seed
        Of the solver's search.
    workers
        Threads of the solver. With one, and unless time runs out, the same input has the same answer.
    start
        An allocation to begin with.
    busy : bool[clusters]
        Clusters in use before; default: none.
    effort
        Work for all three goals in the solver's own, deterministic seconds; default: any.

    Returns
    -------
    Solution
        ``"optimal"`` where the solver proved all three goals.

    Raises
    ------
    MissingError
        OR-Tools is not installed.
    """
    with timed(limit_s) as clock:
        return _placed(supply, asked, clock, seed, workers, start, busy, effort)


def _placed(
    supply: Supply, asked: Asked, clock: Clock, seed: int, workers: int, start: Allocation | None, busy: Bools | None,
    effort: float | None,
) -> Solution:  # fmt: skip
    model = Placement(supply, asked, np.zeros(supply.clusters, np.bool_) if busy is None else busy)
    if start is not None:
        model.hint(start)
    found = nowhere(supply, asked) if start is None else start
    bounds: list[int] = []
    for goal in (model.left_out(), model.in_use(), model.paid()):
        answer = None if clock.over() else model.minimise(goal, clock, seed, workers, effort and effort / 3)
        if answer is None:
            break
        found, value, bound = answer
        bounds.append(bound)
        model.keep(goal, value)
        if bound < value:
            break
    goals = objective(supply, found, busy)
    if start is not None and objective(supply, start, busy) < goals:
        found, goals = start, objective(supply, start, busy)
    unplaced = np.flatnonzero(found.cluster < 0)
    bounds += [0] * (3 - len(bounds))
    least = (bounds[0], bounds[1], bounds[2])
    status = "optimal" if goals == least else "feasible"
    cut = clock.cut and status != "optimal"
    return Solution(status, found, unplaced, *goals[1:], *least, cut=cut, wall_s=clock.took_s())
