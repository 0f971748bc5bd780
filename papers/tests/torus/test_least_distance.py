"""The least sum of distances, against all sets, CP-SAT, and what holds whatever is taken."""

from __future__ import annotations

import random
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_torus import added_up, least_of_all
from torus_programme import cp_tiles
from tries import draws

from unrack.errors import InputError
from unrack_papers.torus.solve import TorusPlacement, best_tiles, first_fit_tiles, quick_tiles, tile_distance

CHECKERBOARD = [8 * i + j for i in range(8) for j in range(8) if (i + j) % 2]


def checked(placement: TorusPlacement, rows: int, columns: int, k: int, taken: list[int]) -> TorusPlacement:
    tiles = placement.tiles.tolist()
    assert tiles == sorted(set(tiles))
    assert len(tiles) == k
    assert not set(tiles) & set(taken)
    assert set(tiles) <= set(range(rows * columns))
    assert placement.distance == added_up(rows, columns, tiles) == tile_distance(rows, columns, placement.tiles)
    assert placement.bound <= placement.distance
    assert placement.optimal == (placement.bound == placement.distance)
    return placement


def a_torus(rng: random.Random, longest: int) -> tuple[int, int, int, list[int]]:
    rows, columns = rng.randint(1, longest), rng.randint(1, longest)
    taken = rng.sample(range(rows * columns), rng.randrange(rows * columns))
    return rows, columns, rng.randint(1, rows * columns - len(taken)), taken


def test_every_small_torus_agrees_with_trying_all_sets() -> None:
    rng, searched = random.Random(1), 0
    for rows in range(1, 6):
        for columns in range(1, 6):
            for k in range(1, rows * columns + 1):
                for _ in range(3):
                    taken = rng.sample(range(rows * columns), rng.randint(0, rows * columns - k))
                    if comb(rows * columns - len(taken), k) > 500:
                        continue
                    least = least_of_all(rows, columns, k, taken)
                    best = checked(best_tiles(rows, columns, k, taken), rows, columns, k, taken)
                    assert (best.distance, best.optimal) == (least, True), (rows, columns, k, taken)
                    searched += best.nodes > 0
                    for other in (quick_tiles, first_fit_tiles):
                        near = checked(other(rows, columns, k, taken), rows, columns, k, taken)
                        assert near.bound <= least <= near.distance, (rows, columns, k, taken)
    assert searched > 20  # not all were settled by the first bound


def test_scattered_free_tiles_agree_with_trying_all_sets() -> None:
    rng = random.Random(2)
    for _ in range(60):
        rows, columns = rng.randint(5, 9), rng.randint(5, 9)
        free = rng.randint(8, 12)
        taken = rng.sample(range(rows * columns), rows * columns - free)
        k = rng.randint(3, 6)
        best = checked(best_tiles(rows, columns, k, taken), rows, columns, k, taken)
        assert best.optimal
        assert best.distance == least_of_all(rows, columns, k, taken), (rows, columns, k, taken)


def test_middle_tori_agree_with_constraint_programming() -> None:
    rng = random.Random(3)
    for rows, columns, k, count in [
        (5, 6, 7, 12),
        (6, 6, 8, 18),
        (6, 7, 6, 16),
        (7, 5, 6, 14),
        (8, 8, 6, 40),
        (3, 9, 9, 8),
    ]:
        taken = rng.sample(range(rows * columns), count)
        reference = checked(cp_tiles(rows, columns, k, taken), rows, columns, k, taken)
        best = checked(best_tiles(rows, columns, k, taken), rows, columns, k, taken)
        assert reference.optimal
        assert best.distance == reference.distance, (rows, columns, k, taken)


@pytest.mark.parametrize(("rows", "columns", "k"), [(4, 4, 4), (4, 5, 6), (5, 5, 4), (5, 4, 7), (1, 7, 3), (2, 2, 3)])
def test_empty_tori_agree_with_constraint_programming_that_breaks_their_symmetry(
    rows: int, columns: int, k: int
) -> None:
    assert cp_tiles(rows, columns, k).distance == best_tiles(rows, columns, k).distance


def test_the_papers_figure_is_met_on_an_empty_torus() -> None:
    first, best = first_fit_tiles(4, 5, 6), best_tiles(4, 5, 6)
    assert (first.distance, first.optimal, first.bound) == (26, False, 25)
    assert (best.distance, best.optimal, best.nodes) == (25, True, 0)
    assert best.tiles.tolist() == [0, 1, 2, 5, 6, 7]


@pytest.mark.parametrize(("side", "k"), [(s, k) for s in (4, 5, 6, 7) for k in (2, 4, 8)])
def test_the_papers_empty_tori_are_settled_by_the_first_bound(side: int, k: int) -> None:
    best = best_tiles(side, side, k)
    assert (best.optimal, best.nodes) == (True, 0)
    for lines in (set((best.tiles // side).tolist()), set((best.tiles % side).tolist())):
        assert lines == set(range(len(lines)))  # at the top left, not around the edge


def test_a_limit_of_nodes_ends_a_search_at_the_same_answer_every_time() -> None:
    taken = random.Random(5).sample(range(256), 64)
    cuts = [checked(best_tiles(16, 16, 40, taken, most_nodes=50_000), 16, 16, 40, taken) for _ in range(2)]
    assert not cuts[0].optimal
    one, other = ((cut.tiles.tolist(), cut.bound, cut.nodes) for cut in cuts)
    assert one == other
    assert cuts[0].nodes < 150_000
    small = random.Random(6).sample(range(64), 20)
    assert best_tiles(8, 8, 10, small, most_nodes=10**6).tiles.tolist() == best_tiles(8, 8, 10, small).tiles.tolist()
    for wrong in (-1, float("nan")):
        with pytest.raises(InputError, match="most_nodes"):
            best_tiles(4, 4, 2, most_nodes=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("k", "taken"),
    [(12, random.Random(s).sample(range(64), 21)) for s in range(4)]
    + [(16, random.Random(s).sample(range(64), 20)) for s in range(2)]
    + [(8, CHECKERBOARD), (12, CHECKERBOARD)],
)
def test_middle_loads_of_64_tiles_are_proven(k: int, taken: list[int]) -> None:
    assert checked(best_tiles(8, 8, k, taken), 8, 8, k, taken).optimal


@draws(40)
@given(st.integers(0, 10**6))
def test_one_more_taken_tile_never_helps(seed: int) -> None:
    rng = random.Random(seed)
    rows, columns, k, taken = a_torus(rng, 7)
    free = sorted(set(range(rows * columns)) - set(taken))
    least = best_tiles(rows, columns, k, taken, limit_s=2)
    if len(free) > k:
        more = best_tiles(rows, columns, k, [*taken, rng.choice(free)], limit_s=2)
        assert least.bound <= more.distance
        if least.optimal and more.optimal:
            assert least.distance <= more.distance


@draws(40)
@given(st.integers(0, 10**6))
def test_turning_the_torus_changes_nothing(seed: int) -> None:
    rng = random.Random(seed)
    rows, columns, k, taken = a_torus(rng, 6)
    down, right = rng.randrange(rows), rng.randrange(columns)
    moved = [((t // columns + down) % rows) * columns + (columns - 1 - t % columns + right) % columns for t in taken]
    turned = [t % columns * rows + t // columns for t in taken]
    least = best_tiles(rows, columns, k, taken).distance
    assert best_tiles(rows, columns, k, moved).distance == least
    assert best_tiles(columns, rows, k, turned).distance == least


def test_the_order_of_taken_tiles_and_their_type_do_not_matter_and_answers_repeat() -> None:
    taken = random.Random(4).sample(range(64), 20)
    answers = [best_tiles(8, 8, 12, ids) for ids in (taken, sorted(taken), np.array(taken, dtype=np.int32), taken)]
    assert {tuple(answer.tiles.tolist()) for answer in answers} == {tuple(answers[0].tiles.tolist())}
    assert len({answer.nodes for answer in answers}) == 1


def test_the_heuristic_is_seldom_above_the_least_and_never_far() -> None:
    gaps = []
    for seed in range(60):
        rng = random.Random(seed)
        taken = rng.sample(range(64), rng.randint(0, 30))
        k = rng.randint(2, 14)
        least = best_tiles(8, 8, k, taken)
        assert least.optimal
        gaps.append(quick_tiles(8, 8, k, taken).distance / max(least.distance, 1) - 1)
    assert np.mean(np.array(gaps) > 0) <= 0.05
    assert max(gaps) <= 0.02


def test_a_time_limit_that_ends_leaves_the_best_found_and_a_bound() -> None:
    taken = random.Random(5).sample(range(256), 64)
    cut = checked(best_tiles(16, 16, 40, taken, limit_s=0.5), 16, 16, 40, taken)
    assert not cut.optimal
    assert 0.8 * cut.distance < cut.bound < cut.distance
    assert cut.nodes > 0


def test_a_time_limit_that_is_not_reached_changes_nothing() -> None:
    taken = random.Random(6).sample(range(64), 20)
    assert best_tiles(8, 8, 10, taken, limit_s=60).tiles.tolist() == best_tiles(8, 8, 10, taken).tiles.tolist()


def test_constraint_programming_that_ends_early_says_so() -> None:
    from unrack.errors import RunError

    with pytest.raises(RunError, match="no 16 tiles of 8 x 8"):
        cp_tiles(8, 8, 16, CHECKERBOARD, limit_s=0)
