"""Linear programmes in whole numbers, bounded from below by a proof that floating point cannot spoil."""

from __future__ import annotations

from math import inf

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Terms = list[tuple[int, int]]
"""Variables and their coefficients."""

SCALE = 40
"""Duals are rounded to whole multiples of 2^-40."""
LARGE = 5000
"""Variables from which on interior points are followed, where the simplex method may take long."""
MOST_POINTS = 1000
"""Interior points at most: some dozens are enough, as a rule."""
TERMS_A_SECOND = 200_000_000
"""Pivots of the simplex method x terms of the rows, for each second of work."""
FEWEST_PIVOTS = 1000
"""Pivots that a programme has however large it is."""


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
        the solver was.

        Parameters
        ----------
        cost
            To be minimised.
        limit_s, effort_s
            Wall time for the solver, s, and work in counted seconds.

        Returns
        -------
        int or None
            None: the solver found no optimum in the work or the time, or there is no solution.
        """
        from scipy.optimize import linprog
        from scipy.sparse import csr_matrix

        goal = np.zeros(len(self.high))
        for v, a in cost:
            goal[v] += a
        sides = []
        for exact in (False, True):
            rows = [(terms, limit) for terms, limit, kind in self.rows if kind == exact]
            at = np.repeat(np.arange(len(rows)), [len(terms) for terms, _ in rows])
            where = np.array([v for terms, _ in rows for v, _ in terms], np.int64)
            values = np.array([a for terms, _ in rows for _, a in terms], np.float64)
            sides.append(csr_matrix((values, (at, where)), (len(rows), len(goal))))
            sides.append(np.array([limit for _, limit in rows], np.float64))
        bounds = np.array([self.low, self.high], np.float64).T
        options: dict[str, float] = {} if limit_s == inf else {"time_limit": limit_s}
        terms = max(sum(len(row) for row, _, _ in self.rows), 1)
        if len(goal) > LARGE:
            method, options["maxiter"] = "highs-ipm", MOST_POINTS
        else:
            method = "highs"
            if effort_s < inf:
                options["maxiter"] = max(int(effort_s * TERMS_A_SECOND / terms), FEWEST_PIVOTS)
        found = linprog(goal, *sides, bounds, method=method, options=options)
        if found.status != 0:
            return None
        return self._proven(cost, found.ineqlin.marginals, found.eqlin.marginals)

    def _proven(self, cost: Terms, at_most: Floats, exactly: Floats) -> int:
        """The least value of the Lagrangian with these multipliers, rounded, of the rows."""
        reduced = [0] * len(self.high)
        for v, a in cost:
            reduced[v] += a << SCALE
        total = 0
        multipliers = {False: iter(at_most.tolist()), True: iter(exactly.tolist())}
        for terms, limit, exact in self.rows:
            dual = round(next(multipliers[exact]) * (1 << SCALE))
            if not exact:
                dual = min(dual, 0)
            if dual:
                total += dual * limit
                for v, a in terms:
                    reduced[v] -= dual * a
        for rest, low, high in zip(reduced, self.low, self.high, strict=True):
            total += rest * (low if rest > 0 else high)
        return -(-total >> SCALE)
