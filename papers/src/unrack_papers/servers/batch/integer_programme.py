"""Linear programmes in whole numbers, bounded from below by a proof that floating point cannot spoil."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from unrack.extras import needed_for

Terms = list[tuple[int, int]]
"""Variables and their coefficients."""

SCALE = 40
"""Duals are rounded to whole multiples of 2^-40."""


class Programme:
    """A linear programme in the making: rows of whole numbers over variables between whole limits.

    Examples
    --------
    Two of three things that take 5, 6 and 7 of 13, the cheapest of prices 3, 2 and 1, in parts if need be:

    >>> lp = Programme()
    >>> things = [lp.variable(1) for _ in range(3)]
    >>> lp.row([(thing, 1) for thing in things], 2, exact=True)
    >>> lp.row(list(zip(things, [5, 6, 7])), 13)
    >>> lp.least(list(zip(things, [3, 2, 1])))
    3
    """

    def __init__(self) -> None:
        self.low: list[int] = []
        self.high: list[int] = []
        self.rows: list[tuple[Terms, int, bool]] = []

    def variable(self, high: int, low: int = 0) -> int:
        """Add a variable between ``low`` and ``high``; returns its number."""
        self.low.append(low)
        self.high.append(high)
        return len(self.high) - 1

    def row(self, terms: Terms, limit: int, *, exact: bool = False) -> None:
        """Add a row: the sum of its terms is at most, or exactly, ``limit``."""
        self.rows.append((terms, limit, exact))

    def least(self, cost: Terms, limit_s: float = inf, effort_s: float = inf) -> int | None:
        """A lower bound on the cost, rounded up: no solution with a whole cost is below.

        The dual solution is rounded and its Lagrangian evaluated in whole numbers, so the bound holds however inexact
        the solver was. ``None``: the solver found no optimum in the work or the time, or there is no solution.
        ``cost``: to be minimised; ``limit_s``, ``effort_s``: wall time for the solver, s, and work in counted seconds.
        """
        with needed_for("bounds by linear programmes"):
            from ortools.linear_solver import pywraplp

        solver = pywraplp.Solver.CreateSolver("GLOP")
        # an imprecise optimum is as good: what it proves is worked out in whole numbers
        work = "" if effort_s == inf else f"max_deterministic_time: {effort_s}"
        solver.SetSolverSpecificParametersAsString(f"change_status_to_imprecise: false {work}")
        if limit_s < inf:
            solver.SetTimeLimit(max(int(limit_s * 1000), 1))
        variables = [solver.NumVar(low, high, "") for low, high in zip(self.low, self.high, strict=True)]
        rows = []
        for terms, limit, exact in self.rows:
            rows.append(solver.Constraint(limit if exact else -solver.infinity(), limit))
            for v, a in _summed(terms):
                rows[-1].SetCoefficient(variables[v], a)
        for v, a in _summed(cost):
            solver.Objective().SetCoefficient(variables[v], a)
        solver.Objective().SetMinimization()
        if solver.Solve() != pywraplp.Solver.OPTIMAL:
            return None
        return self._proven(cost, [row.dual_value() for row in rows])

    def _proven(self, cost: Terms, multipliers: list[float]) -> int:
        """The least value of the Lagrangian with these multipliers, rounded, of the rows."""
        reduced = [0] * len(self.high)
        for v, a in cost:
            reduced[v] += a << SCALE
        total = 0
        for (terms, limit, exact), multiplier in zip(self.rows, multipliers, strict=True):
            dual = round(multiplier * (1 << SCALE))
            if not exact:
                dual = min(dual, 0)
            if dual:
                total += dual * limit
                for v, a in terms:
                    reduced[v] -= dual * a
        for rest, low, high in zip(reduced, self.low, self.high, strict=True):
            total += rest * (low if rest > 0 else high)
        return -(-total >> SCALE)


def _summed(terms: Terms) -> Iterable[tuple[int, int]]:
    """Terms in which no variable is named twice."""
    found: dict[int, int] = {}
    for v, a in terms:
        found[v] = found.get(v, 0) + a
    return found.items()
