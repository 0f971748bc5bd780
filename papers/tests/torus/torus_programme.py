"""Fewest hops among k tiles of a torus as a constraint programme: the reference that the search is held to.

A truth value for each free tile, k of them true: the order of tiles, which the paper breaks by its eq. 12, is then no
choice at all. A cycle of n lines falls in halves (the one line larger, if n is odd) in n ways, or n / 2 if n is even;
two lines are as far apart as there are cuts that part them, each counted half if n is odd. With S of the k tiles on one
side, a cut parts S (k - S) pairs: one look-up in a table per cut is the whole objective (eq. 10-11). On an empty torus
the first row and the first column hold the most tiles, and the second no fewer than the last: that leaves out its
rotations and most reflections.

References
----------
As of :mod:`unrack_papers.torus.solve`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from unrack.errors import RunError
from unrack.extras import needed_for
from unrack_papers.clock import timed
from unrack_papers.servers.batch.case import solved
from unrack_papers.torus.solve import TorusPlacement, check_limit, free_tiles, tile_distance

Ints = NDArray[np.int64]


def halves(lines: int) -> tuple[int, list[list[int]]]:
    """The cuts of a cycle in halves: what each counts, in half units, and the lines on one side of each.

    Examples
    --------
    >>> halves(4)
    (2, [[0, 1], [1, 2]])
    >>> halves(3)
    (1, [[0], [1], [2]])
    """
    cuts = lines // 2 if lines % 2 == 0 else lines
    sides = [[(first + i) % lines for i in range(lines // 2)] for first in range(cuts)]
    return (2 if lines % 2 == 0 else 1), [side for side in sides if side]


def cp_tiles(
    rows: int, columns: int, k: int, taken: Sequence[int] | Ints = (), *, limit_s: float | None = None, seed: int = 0
) -> TorusPlacement:
    """The k free tiles with the least sum of distances, by OR-Tools CP-SAT on one thread.

    Any best tiles, of as many that there may be; ``nodes`` counts the solver's branches.

    Parameters
    ----------
    rows, columns, k, taken
        As of :func:`unrack_papers.torus.solve.best_tiles`, with the same errors.
    limit_s
        Time that it may compute, s. Default: none.
    seed
        Of the solver.

    Raises
    ------
    MissingError
        If OR-Tools is not installed.
    RunError
        If the time ended before any tiles were found.
    """
    with needed_for("tiles by constraint programming"):
        from ortools.sat.python import cp_model

    check_limit(limit_s)
    free = free_tiles(rows, columns, k, taken)
    model = cp_model.CpModel()
    chosen = {int(tile): model.new_bool_var(f"tile {tile}") for tile in np.flatnonzero(free)}
    model.add(sum(chosen.values()) == k)
    by_row = [sum(chosen[i * columns + j] for j in range(columns) if free[i, j]) for i in range(rows)]
    by_column = [sum(chosen[i * columns + j] for i in range(rows) if free[i, j]) for j in range(columns)]
    parted = [s * (k - s) for s in range(k + 1)]
    twice = []
    for counts in (by_row, by_column):
        weight, sides = halves(len(counts))
        for side in sides:
            inside = model.new_int_var(0, k, "inside")
            pairs = model.new_int_var(0, max(parted), "pairs")
            model.add(inside == sum(counts[line] for line in side))
            model.add_element(inside, parted, pairs)
            twice.append(weight * pairs)
        if free.all() and len(counts) > 1:
            for line in range(1, len(counts)):
                model.add(counts[0] >= counts[line])
            model.add(counts[1] >= counts[-1])
    model.minimize(sum(twice))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = seed
    with timed(limit_s) as clock:
        status = solved(solver, model, clock)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        raise RunError(f"CP-SAT found no {k} tiles of {rows} x {columns} in {limit_s} s: {solver.status_name(status)}")
    tiles = np.array([tile for tile, value in chosen.items() if solver.value(value)], dtype=np.int64)
    distance = tile_distance(rows, columns, tiles)
    bound = distance if status == cp_model.OPTIMAL else -(-round(solver.best_objective_bound) // 2)
    best = status == cp_model.OPTIMAL
    return TorusPlacement(tiles, distance, bound, best, int(solver.num_branches), not best)
