"""Cores near each other on a torus: the optimum and first fit on an empty and a preoccupied one (Fig. 8).

Tori as grids of tiles: which are taken, and which were chosen.

Every set of taken tiles of a small torus: what first fit and the optimum come to on each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unrack_papers.claim import MORE, Claim, exceeds, lies, together
from unrack_papers.farshin.servers import beside
from unrack_papers.measured import Measured
from unrack_papers.options import Options
from unrack_papers.pages.figure import Draw, curves, framed, rows_of_figures
from unrack_papers.pages.sheet import Sheet, line, texts
from unrack_papers.reproduction import Numbers, Point, Quantity, Reproduction, Row, Spec, Task, Values
from unrack_papers.torus import TorusPlacement, best_tiles, first_fit_tiles, tile_distance

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Patterns:
    """All sets of taken tiles that leave enough free ones; set s has tile i taken if bit i of s is set.

    Attributes
    ----------
    sets : int64[sets]
        Ascending.
    taken : int64[sets]
        How many tiles are taken.
    optimum, first_fit : int64[sets]
        Sums of distances of the tiles chosen.
    """

    sets: Ints
    taken: Ints
    optimum: Ints
    first_fit: Ints

    def example(self, optimum: int, first_fit: int) -> list[int] | None:
        """Of the sets with these two sums, one of fewest tiles; then that of least ids. ``None``: there are none."""
        found = np.flatnonzero((self.optimum == optimum) & (self.first_fit == first_fit))
        if not len(found):
            return None
        fewest = found[self.taken[found] == self.taken[found].min()]
        return min([i for i in range(int(one).bit_length()) if one >> i & 1] for one in self.sets[fewest].tolist())


@lru_cache(maxsize=1)
def patterns(rows: int, columns: int, k: int) -> Patterns:
    """All sets of taken tiles of a torus, O(2^tiles x tiles).

    The least sum of distances of any k tiles of a set of free ones is the least over its subsets.

    Parameters
    ----------
    rows, columns
        Of the torus; at most 20 tiles.
    k
        Tiles to choose.
    """
    tiles = rows * columns
    assert tiles <= 20
    least = np.full(1 << tiles, np.iinfo(np.int16).max, np.int16)
    for chosen in combinations(range(tiles), k):
        least[sum(1 << i for i in chosen)] = tile_distance(rows, columns, chosen)
    own = least.copy()  # of the sets of k tiles alone
    for bit in range(tiles):
        halves = least.reshape(-1, 2, 1 << bit)
        np.minimum(halves[:, 1], halves[:, 0], out=halves[:, 1])
    every = np.arange(1 << tiles, dtype=np.int64)
    count = np.array([i.bit_count() for i in range(1 << tiles)], np.int64)
    free = every[count >= k]
    first, left = np.zeros_like(free), free.copy()
    for _ in range(k):
        lowest = left & -left
        first |= lowest
        left ^= lowest
    taken = every[-1] ^ free
    order = np.argsort(taken)
    return Patterns(
        taken[order],
        tiles - count[free][order],
        least[free][order].astype(np.int64),
        own[first][order].astype(np.int64),
    )


STATES = ("free", "chosen", "taken")
"""What a tile is; its number among the values is its place here."""
SHADES = ("#f2f2f2", "#009E73", "#222222")


def tori(columns: int, panels: Callable[[Measured], Mapping[str, Numbers]]) -> Draw:
    """A grid a panel: black is taken, green is chosen; the sum of distances stands in the title.

    Parameters
    ----------
    columns
        Of the torus.
    panels
        Title → ``hops`` and ``tile.0`` …, a place in :data:`STATES`.
    """

    def draw(measured: Measured) -> Spec:
        lines: list[dict[str, Any]] = []
        titles = []
        for title, numbers in panels(measured).items():
            titles.append(f"{title}: {numbers['hops'] or 0:g}")
            for key, what in numbers.items():
                if key.startswith("tile."):
                    tile = int(key.removeprefix("tile."))
                    lines.append({"panel": titles[-1], "column": tile % columns, "row": tile // columns,
                                  "state": STATES[int(what or 0)], "tile": tile})  # fmt: skip
        axis = {"type": "ordinal", "title": None, "axis": None}
        scale = {"domain": list(STATES), "range": list(SHADES)}
        place = {"x": {"field": "column", **axis}, "y": {"field": "row", **axis}}
        unit: Spec = {
            "encoding": place,
            "layer": [
                {"mark": {"type": "rect", "stroke": "#888", "strokeWidth": 1},
                 "encoding": {"color": {"field": "state", "type": "nominal", "title": None, "scale": scale,
                                        "legend": {"symbolType": "square", "symbolStrokeColor": "#888"}}}},
                {"mark": {"type": "text", "fontSize": 10},
                 "encoding": {"text": {"field": "tile"},
                              "color": {"condition": {"test": "datum.state == 'free'", "value": "#555"},
                                        "value": "white"}}},
            ],
        }  # fmt: skip
        spec = framed(measured, lines, titles, unit)
        return {**spec, "columns": 2, "spec": {**spec["spec"], "width": 230, "height": 184}}

    return draw


PAPER = "Farshin et al. 2021, section 6"
ROWS, COLUMNS, TILES = 4, 5, 6
EMPTY, EXAMPLE, ALL = "empty", "preoccupied, an example", "all sets of taken tiles"
TAKEN = {EMPTY: (), EXAMPLE: (0, 1, 2, 8, 9, 10, 11, 18)}
"""Of the sets with the paper's two sums for its preoccupied torus, one of fewest tiles; then that of least ids."""
FIRST_FIT, OPTIMUM = Row("First fit", "first-fit", "4 x 5"), Row("Optimum", "optimum", "4 x 5")
BOTH = (FIRST_FIT, OPTIMUM)
PAPER_HOPS = {EMPTY: {OPTIMUM.name: 25, FIRST_FIT.name: 26}, EXAMPLE: {OPTIMUM.name: 29, FIRST_FIT.name: 34}}
SETS_IN_ALL = 1_026_876
COUNTS = tuple(range(ROWS * COLUMNS - TILES + 1))
HOPS = Quantity("hops", "hops", 1, 2)
SETS = Quantity("sets", "sets", 1, 0)
LIKE = Quantity("sets with the paper's sums", "like", 1, 0)


def placed(task: Task) -> list[Numbers]:
    """For each row the sum of distances on one torus, with its tiles; or the mean over all with so many tiles taken."""
    count = task.workload.get("count")
    if count is not None:
        return [over_all(row, count) for row in task.rows]
    taken = TAKEN[task.workload["torus"]]
    return [on_one(chosen(row, taken), taken) for row in task.rows]


def chosen(row: Row, taken: tuple[int, ...]) -> TorusPlacement:
    """The tiles that a row chooses."""
    choose = best_tiles if row.policy == OPTIMUM.policy else first_fit_tiles
    return choose(ROWS, COLUMNS, TILES, taken)


def on_one(found: TorusPlacement, taken: tuple[int, ...]) -> Numbers:
    """The sum of distances, and what became of each tile: ``tile.0`` …, a place in ``torus_figure.STATES``."""
    state = np.zeros(ROWS * COLUMNS)
    state[found.tiles], state[list(taken)] = 1, 2
    return {"hops": float(found.distance), **{f"tile.{tile}": what for tile, what in enumerate(state.tolist())}}


def over_all(row: Row, count: int) -> Numbers:
    """The mean over all sets of so many taken tiles; how many there are, and how many with the paper's sums."""
    every, paper = patterns(ROWS, COLUMNS, TILES), PAPER_HOPS[EXAMPLE]
    own = every.taken == count
    sums = (every.optimum if row.policy == OPTIMUM.policy else every.first_fit)[own]
    like = (every.optimum[own] == paper[OPTIMUM.name]) & (every.first_fit[own] == paper[FIRST_FIT.name])
    return {"hops": float(sums.mean()), "sets": float(own.sum()), "like": float(like.sum())}


def with_totals(values: Values) -> Values:
    """A place more: how many sets there are in all, and with the paper's sums."""
    own = [values[ALL, count, OPTIMUM.name][0] for count in COUNTS]
    total: Numbers = {name: sum(seed[name] or 0.0 for seed in own) for name in ("sets", "like")}
    return {**values, (ALL, "any number", OPTIMUM.name): (total,)}


def _tables(measured: Measured) -> tuple[Sheet, ...]:
    """The four sums beside the paper's; then all sets."""
    lines = []
    for group, taken in TAKEN.items():
        for row in BOTH:
            cells = beside(measured.compared((group, len(taken), row.name), HOPS.label))
            if group == EXAMPLE:
                cells = line(f"{PAPER_HOPS[group][row.name]:.2f}", cells[1], "–", "not comparable")
            lines.append(line(group, row.name, *cells))
    every = []
    for count in COUNTS:
        means = [text for row in BOTH for text in texts(measured, (ALL, count, row.name), [HOPS])]
        every.append(line(str(count), *means, *texts(measured, (ALL, count, OPTIMUM.name), (SETS, LIKE))))
    heads = ("torus", "", "paper", "ours", "difference", "verdict")
    return (
        Sheet("sum of the distances between all pairs of the 6 cores", heads, tuple(lines), 2),
        Sheet("mean over all sets of so many taken tiles",
              ("tiles\ntaken", *(row.name for row in BOTH), "sets", "of these with\n29 and 34"), tuple(every), 1),
    )  # fmt: skip


def _panels(measured: Measured) -> dict[str, Numbers]:
    titled = zip("abcd", [(group, row) for group in TAKEN for row in BOTH], strict=True)
    return {
        f"({letter}) {group}, {row.name}": dict(measured.values[group, len(TAKEN[group]), row.name][0])
        for letter, (group, row) in titled
    }


REPRODUCTION = Reproduction(
    name="torus-placement",
    shows="Figure 8",
    paper=PAPER,
    summary="6 cores on a torus of 4 x 5, on an empty and a preoccupied one",
    setup="Six cores are placed on a torus of 4 rows and 5 columns so that the sum of the distances between all pairs "
    "of them is least; first fit takes the first that are free, row by row. Which cores are taken in the paper's "
    "preoccupied torus is only in its picture. So all 1 026 876 sets of taken cores that leave six free are solved, "
    "and those with the paper's two sums are counted; the one drawn is one of them, chosen for that.",
    points=(
        *(Point(group, len(taken), {"torus": group}, BOTH) for group, taken in TAKEN.items()),
        *(Point(ALL, count, {"count": count}, BOTH) for count in COUNTS),
    ),
    quantities=(HOPS, SETS, LIKE),
    claims=(
        Claim("On the empty torus the optimum is 25, first fit comes to 26", "§6.3, Fig. 8a and 8b",
              together(lies(HOPS.label, OPTIMUM.name, [EMPTY], [0], 25, 25),
                       lies(HOPS.label, FIRST_FIT.name, [EMPTY], [0], 26, 26))),
        Claim("On a preoccupied torus it can be 29 and 34: there are such sets of taken cores", "§6.3, Fig. 8c and 8d",
              lies(LIKE.label, OPTIMUM.name, [ALL], ["any number"], 1, SETS_IN_ALL)),
        Claim("First fit is further from the optimum where cores are taken: by more than the 1 of the empty torus, in "
              "the mean over all sets of so many taken cores (1 to 13; with 14 there is nothing to choose)", "§6.3",
              exceeds(HOPS.label, FIRST_FIT.name, OPTIMUM.name, [ALL], COUNTS[1:-1], by=1 + MORE)),
    ),
    draw=rows_of_figures([
        tori(COLUMNS, _panels),
        curves(HOPS.label, "mean sum", {ALL: (ALL, [row.name for row in BOTH])}, width=500),
    ], "color", "strokeDash"),
    x_title="tiles taken",
    group_title="torus",
    printed={(EMPTY, 0, name): {HOPS.label: hops} for name, hops in PAPER_HOPS[EMPTY].items()},
    notes=(
        "The preoccupied torus is not comparable: sets with sums of 29 and 34 are many, and which of them is the "
        "paper's cannot be read from its text.",
        "Cores are numbered row by row. Column by column first fit would be optimal on the empty torus, which the "
        "paper's 26 rules out.",
    ),
    defaults=Options(seeds=1),
    derive=with_totals,
    tables=_tables,
    exact=True,
    solve=placed,
)  # fmt: skip
