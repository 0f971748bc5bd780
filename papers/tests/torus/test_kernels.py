"""The parts of the search, each against a plain statement of it; compiled kernels against themselves uncompiled."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from itertools import combinations
from math import comb

import numpy as np
import pytest
from plain_torus import added_up, all_partitions, best_order, least_by_counts, least_of_all, on_cycle
from torus_programme import halves

from unrack_papers.clock import Clock
from unrack_papers.torus.exact import BEST, NODES, advance, new_search
from unrack_papers.torus.grid import Grid, gaps, grid_of, match, partitions, rank_gaps
from unrack_papers.torus.heuristic import near_best, nearest_bound
from unrack_papers.torus.solve import best_tiles, quick_tiles, search_all

MANY = 10**9


def random_free(rng: random.Random, rows: int, columns: int, free: int) -> np.ndarray:
    cells = np.zeros(rows * columns, dtype=np.bool_)
    cells[rng.sample(range(rows * columns), free)] = True
    return cells.reshape(rows, columns)


def bounds_of(grid: Grid, k: int) -> dict[tuple[int, ...], int]:
    parts, bounds = np.zeros((5000, len(grid.row_free)), np.int64), np.zeros(5000, np.int64)
    count = partitions(grid, k, 0, MANY, False, MANY, parts, bounds)
    return {tuple(part): bound for part, bound in zip(parts[:count].tolist(), bounds[:count].tolist(), strict=True)}


def test_the_arrangement_is_the_best_of_all_orders() -> None:
    rng = random.Random(1)
    for lines in range(1, 8):
        rank = rank_gaps(lines)
        for _ in range(12):
            counts = np.array(sorted((rng.randint(0, 5) for _ in range(lines)), reverse=True))
            assert int(counts @ rank @ counts) // 2 == best_order(counts.tolist()), counts


def test_halves_of_a_cycle_add_up_to_its_distances() -> None:
    for lines in range(1, 10):
        weight, sides = halves(lines)
        for i, j in combinations(range(lines), 2):
            assert weight * sum((i in side) != (j in side) for side in sides) == 2 * gaps(lines)[i, j]


def test_counts_by_row_of_an_empty_torus_are_all_partitions_with_exact_bounds() -> None:
    for rows, columns, k in [(3, 4, 5), (4, 3, 7), (4, 4, 8), (5, 2, 6)]:
        found = bounds_of(grid_of(np.ones((rows, columns), dtype=np.bool_)), k)
        assert sorted(found) == sorted(all_partitions(k, rows, columns))
        for parts, bound in found.items():
            across = [sum(part > j for part in parts) for j in range(columns)]
            assert bound == best_order(parts) + best_order(across)


def test_bounds_of_counts_hold_for_every_set_of_tiles() -> None:
    rng = random.Random(2)
    for _ in range(30):
        rows, columns = rng.randint(2, 4), rng.randint(2, 5)
        free = random_free(rng, rows, columns, rng.randint(3, min(10, rows * columns)))
        k = rng.randint(1, int(free.sum()))
        found = bounds_of(grid_of(free), k)
        for tiles in combinations(np.flatnonzero(free).tolist(), k):
            by_row = np.bincount(np.array(tiles) // columns, minlength=rows)
            assert found[tuple(sorted(by_row.tolist(), reverse=True))] <= added_up(rows, columns, tiles)


def test_bands_of_bounds_hold_the_partitions_of_all_and_the_least_is_the_least() -> None:
    grid = grid_of(random_free(random.Random(3), 6, 6, 25))
    everything = bounds_of(grid, 9)
    least = min(everything.values())
    middle = sorted(everything.values())[len(everything) // 2]
    parts, bounds = np.zeros((500, 6), np.int64), np.zeros(500, np.int64)
    below = partitions(grid, 9, 0, middle, False, MANY, parts, bounds)
    above = partitions(grid, 9, middle, MANY, False, MANY, parts, bounds)
    assert (below, above) == (
        sum(b < middle for b in everything.values()),
        sum(b >= middle for b in everything.values()),
    )
    assert partitions(grid, 9, 0, MANY, True, MANY, parts[:0], bounds[:0]) == least
    assert partitions(grid, 9, 0, least, True, MANY, parts[:0], bounds[:0]) == least
    assert partitions(grid, 9, 0, MANY, False, MANY, parts[:2], bounds[:2]) == len(everything)


def test_a_bound_of_few_visits_is_a_bound_and_a_list_of_few_visits_is_given_up() -> None:
    grid = grid_of(np.ones((8, 8), dtype=np.bool_))
    none = np.zeros((0, 8), np.int64), np.zeros(0, np.int64)
    exact = partitions(grid, 20, 0, MANY, True, MANY, *none)
    short = [partitions(grid, 20, 0, MANY, True, visits, *none) for visits in (0, 3, 30, 300)]
    assert all(0 < bound <= exact for bound in short)
    assert short[0] < exact
    assert partitions(grid, 20, 0, MANY, False, 30, *none) == -1


def test_the_nearest_bound_holds() -> None:
    rng = random.Random(4)
    met = 0
    for _ in range(80):
        rows, columns = rng.randint(1, 6), rng.randint(1, 6)
        free = random_free(rng, rows, columns, rng.randint(1, min(9, rows * columns)))
        k = rng.randint(1, int(free.sum()))
        least = least_of_all(rows, columns, k, np.flatnonzero(~free).tolist())
        bound = nearest_bound(grid_of(free), np.flatnonzero(free), k)
        assert bound <= least
        met += bound == least
    assert met > 10


def test_matched_tiles_are_the_least_list_with_their_counts() -> None:
    rng = random.Random(5)
    for _ in range(80):
        rows, columns = rng.randint(1, 5), rng.randint(1, 5)
        free = random_free(rng, rows, columns, rng.randint(1, min(11, rows * columns)))
        k = rng.randint(1, int(free.sum()))
        ids = np.flatnonzero(free).tolist()
        some = np.array(rng.sample(ids, k))
        by_row, by_column = np.bincount(some // columns, minlength=rows), np.bincount(some % columns, minlength=columns)
        wanted = next(
            list(tiles)
            for tiles in combinations(ids, k)  # in ascending order of lists
            if (np.bincount(np.array(tiles) // columns, minlength=rows) == by_row).all()
            and (np.bincount(np.array(tiles) % columns, minlength=columns) == by_column).all()
        )
        assert match(grid_of(free), by_row, by_column).tolist() == wanted


def test_counts_that_free_tiles_do_not_allow_are_matched_by_none() -> None:
    grid = grid_of(np.array([[True, False], [True, False]]))
    assert match(grid, np.array([1, 0]), np.array([0, 1])).size == 0


def test_no_exchange_of_one_tile_improves_the_heuristics_answer() -> None:
    rng = random.Random(6)
    for _ in range(8):
        free = random_free(rng, 7, 7, 33)
        ids = np.flatnonzero(free)
        total, tiles = near_best(grid_of(free), ids, 9, MANY, 0)
        kept = set(tiles.tolist())
        assert total == added_up(7, 7, kept)
        for old in kept:
            for new in set(ids.tolist()) - kept:
                assert added_up(7, 7, (kept - {old}) | {new}) >= total


def test_counts_on_a_cycle_are_concave_so_that_a_mean_of_two_is_no_better_than_both() -> None:
    rng = random.Random(7)
    for _ in range(200):
        lines = rng.randint(2, 8)
        one, other = ([2 * rng.randint(0, 4) for _ in range(lines)] for _ in range(2))
        other[0] += max(0, sum(one) - sum(other))
        one[0] += max(0, sum(other) - sum(one))
        mean = [(a + b) // 2 for a, b in zip(one, other, strict=True)]
        assert 2 * on_cycle(mean) >= on_cycle(one) + on_cycle(other)


CASES = [
    (4, 5, 6, []),
    (5, 5, 6, [1, 2, 3, 9, 12, 20]),
    (6, 6, 7, [*range(0, 36, 2)]),
    (3, 8, 5, [0, 5, 9, 13, 22]),
    (1, 6, 3, [2]),
]
PROGRAM = """
import json, sys
from unrack_papers.torus.solve import best_tiles, quick_tiles, search_all
rows = []
for case in json.load(sys.stdin):
    for solve in (best_tiles, quick_tiles):
        a = solve(*case)
        rows.append([a.tiles.tolist(), a.distance, a.bound, a.optimal, a.nodes])
print(json.dumps(rows))
"""


@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="nothing is compiled in this run")
def test_kernels_answer_the_same_compiled_and_as_plain_python() -> None:
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], input=json.dumps(CASES), env=environment, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    compiled = []
    for case in CASES:
        for solve in (best_tiles, quick_tiles):
            answer = solve(*case)
            compiled.append([answer.tiles.tolist(), answer.distance, answer.bound, answer.optimal, answer.nodes])
    assert json.loads(run.stdout) == compiled
    assert any(row[-1] > 0 for row in compiled)


def test_the_search_finds_the_least_by_itself_whatever_it_must_beat() -> None:
    rng = random.Random(8)
    searched = 0
    for _ in range(600):
        rows, columns = rng.randint(2, 8), rng.randint(2, 8)
        free = random_free(rng, rows, columns, min(rng.randint(4, 18), rows * columns))
        k = rng.randint(2, min(9, int(free.sum())))
        if comb(int(free.sum()), k) > 4000:
            continue
        least = least_of_all(rows, columns, k, np.flatnonzero(~free).tolist())
        grid = grid_of(free)
        for beat in (least + 1, MANY):
            search = new_search(rows, columns, k, beat)
            assert search_all(grid, search, k, Clock()) == search.scalar[BEST] == least, (free.astype(int).tolist(), k)
            tiles = match(grid, search.best_rows, search.best_columns)
            assert added_up(rows, columns, tiles.tolist()) == least
            searched += int(search.scalar[NODES])
        search = new_search(rows, columns, k, least)
        assert search_all(grid, search, k, Clock()) == least
    assert searched > 10_000


def test_the_search_finds_the_least_of_every_counts_by_row() -> None:
    rng = random.Random(10)
    checked = 0
    for _ in range(1000):
        rows, columns = rng.randint(2, 5), rng.randint(3, 8)
        free = random_free(rng, rows, columns, rng.randint(4, min(16, rows * columns)))
        k = rng.randint(2, min(8, int(free.sum())))
        if comb(int(free.sum()), k) > 2000:
            continue
        grid, least = grid_of(free), least_by_counts(rows, columns, k, np.flatnonzero(~free).tolist())
        for counts, bound in bounds_of(grid, k).items():
            search = new_search(rows, columns, k, MANY)
            assert advance(grid, search, np.array([counts]), np.array([bound]), MANY)
            assert search.scalar[BEST] == least.get(counts, MANY), (free.astype(int).tolist(), counts)
            checked += counts in least
    assert checked > 1500


def test_a_search_in_slices_of_one_node_is_the_same_search() -> None:
    grid = grid_of(random_free(random.Random(9), 6, 6, 20))
    parts, bounds = np.zeros((500, 6), np.int64), np.zeros(500, np.int64)
    count = partitions(grid, 7, 0, MANY, False, MANY, parts, bounds)
    order = np.argsort(bounds[:count], kind="stable")
    whole, sliced = new_search(6, 6, 7, MANY), new_search(6, 6, 7, MANY)
    assert advance(grid, whole, parts[order], bounds[order], MANY)
    while not advance(grid, sliced, parts[order], bounds[order], 1):
        pass
    assert whole.scalar.tolist() == sliced.scalar.tolist()
    assert whole.best_rows.tolist() == sliced.best_rows.tolist()
    assert whole.scalar[NODES] > 100
