"""Cores near each other on a torus: the optimum and first fit on an empty and a preoccupied one (Fig. 8)."""

from __future__ import annotations

from typing import Any

import numpy as np

from unrack.report.reproduce.claim import MORE, Claim, exceeds, lies, together
from unrack.report.reproduce.execution import Task
from unrack.report.reproduce.experiment import Numbers, Options, Point, Quantity, Reproduction, Row
from unrack.report.reproduce.figure import curves
from unrack.report.reproduce.measured import Measured
from unrack.report.reproduce.sheet import Cell, Sheet, number
from unrack.report.reproduce.slo import beside
from unrack.report.reproduce.torus_figure import below, tori
from unrack.report.reproduce.torus_patterns import patterns
from unrack.solver.torus import TorusPlacement, best_tiles, first_fit_tiles

PAPER = "Farshin et al. 2021, section 6"
ROWS, COLUMNS, TILES = 4, 5, 6
EMPTY, EXAMPLE, ALL = "empty", "preoccupied, an example", "mean over all sets of taken tiles"
OPTIMUM, FIRST_FIT = Row("Optimum", "optimum", "4 x 5"), Row("First fit", "first-fit", "4 x 5")
BOTH = (FIRST_FIT, OPTIMUM)
PRINTED = {EMPTY: {OPTIMUM.name: 25, FIRST_FIT.name: 26}, EXAMPLE: {OPTIMUM.name: 29, FIRST_FIT.name: 34}}
TAKEN = tuple(range(ROWS * COLUMNS - TILES + 1))
HOPS = Quantity("hops", "hops", 1, 2)
SETS = Quantity("sets", "sets", 1, 0)
LIKE = Quantity("sets with the paper's sums", "like", 1, 0)


def placed(task: Task) -> list[Numbers]:
    """The sum of distances for each row: of one set of taken tiles, with its tiles; or the mean over all of a number."""
    if "count" in task.workload:
        return [over_all(row, task.workload["count"]) for row in task.rows]
    taken = example() if task.workload["example"] else []
    return [as_numbers(chosen(row, taken), taken) for row in task.rows]


def example() -> list[int]:
    """A set of taken tiles with the paper's two sums for the preoccupied torus."""
    paper = PRINTED[EXAMPLE]
    found = patterns(ROWS, COLUMNS, TILES).example(paper[OPTIMUM.name], paper[FIRST_FIT.name])
    assert found is not None
    return found


def chosen(row: Row, taken: list[int]) -> TorusPlacement:
    """The tiles that a row chooses."""
    choose = best_tiles if row is OPTIMUM or row.policy == OPTIMUM.policy else first_fit_tiles
    return choose(ROWS, COLUMNS, TILES, taken)


def as_numbers(found: TorusPlacement, taken: list[int]) -> Numbers:
    """The sum, and what became of each tile: 1: chosen, 2: taken."""
    state = np.zeros(ROWS * COLUMNS)
    state[found.tiles], state[taken] = 1, 2
    return {"hops": float(found.distance), **{f"tile.{tile}": what for tile, what in enumerate(state.tolist())}}


def over_all(row: Row, taken: int) -> Numbers:
    """The mean over all sets of so many taken tiles; how many there are, and how many with the paper's sums."""
    every = patterns(ROWS, COLUMNS, TILES)
    own, paper = every.taken == taken, PRINTED[EXAMPLE]
    sums = (every.optimum if row.policy == OPTIMUM.policy else every.first_fit)[own]
    like = (every.optimum[own] == paper[OPTIMUM.name]) & (every.first_fit[own] == paper[FIRST_FIT.name])
    return {"hops": float(sums.mean()), "sets": float(own.sum()), "like": float(like.sum())}


def _tables(measured: Measured) -> tuple[Sheet, ...]:
    """The four sums beside the paper's; the example's tiles; all sets."""
    lines: list[tuple[Cell, ...]] = []
    for group, x in ((EMPTY, 0), (EXAMPLE, len(example()))):
        for row in BOTH:
            cells: tuple[Cell, ...] = beside(measured.compared((group, x, row.name), HOPS.label))
            if group == EXAMPLE:
                cells = (Cell((str(PRINTED[EXAMPLE][row.name]),)), cells[1], Cell(("–",)), Cell(("not comparable",)))
            lines.append((Cell((group,)), Cell((row.name,)), *cells))
    every = []
    for taken in TAKEN:
        cells = tuple(Cell((number(measured.at((ALL, taken, row.name), HOPS.label), 2),)) for row in BOTH)
        counts = [number(measured.at((ALL, taken, OPTIMUM.name), one.label), 0) for one in (SETS, LIKE)]
        every.append((Cell((str(taken),)), *cells, *(Cell((count,)) for count in counts)))
    return (
        Sheet("sum of the distances between all pairs of the 6 cores", ("torus", "", "paper", "ours", "difference",
              "verdict"), tuple(lines), 2),
        Sheet("mean over all sets of so many taken tiles", ("taken", *(row.name for row in BOTH), "sets",
              "of these with\n29 and 34"), tuple(every), 1),
    )  # fmt: skip


def _points() -> tuple[Point, ...]:
    return (
        Point(EMPTY, 0, {"example": False}, BOTH),
        Point(EXAMPLE, len(EXAMPLE_TILES), {"example": True}, BOTH),
        *(Point(ALL, taken, {"count": taken}, BOTH) for taken in TAKEN),
    )


def _panels(measured: Measured) -> dict[str, dict[str, float | None]]:
    letters = iter("abcd")
    return {
        f"({next(letters)}) {group.partition(',')[0]}, {row.name}": dict(measured.values[group, x, row.name][0])
        for group, x in ((EMPTY, 0), (EXAMPLE, len(EXAMPLE_TILES)))
        for row in BOTH
    }


EXAMPLE_TILES: list[Any] = []
