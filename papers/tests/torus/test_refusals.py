"""Wrong input is refused: where it is, what was got, what was wanted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from torus_programme import cp_tiles

from unrack.errors import InputError
from unrack_papers.torus.solve import best_tiles, first_fit_tiles, quick_tiles, tile_distance

SOLVERS: list[Callable[..., Any]] = [best_tiles, quick_tiles, first_fit_tiles, cp_tiles]


@pytest.mark.parametrize("solve", SOLVERS, ids=lambda solve: solve.__name__)
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((0, 4, 1), "rows: got 0, wanted a whole number from 1 to 32"),
        ((4, -1, 1), "columns: got -1, wanted a whole number from 1 to 32"),
        ((33, 4, 1), "rows: got 33"),
        ((4, 2.5, 1), "columns: got 2.5"),
        ((4, 4, 0), "k: got 0, wanted a whole number from 1 to 16, the free tiles of 16"),
        ((4, 4, 15, [3, 7]), "k: got 15, wanted a whole number from 1 to 14, the free tiles of 16"),
        ((4, 4, 2.0), "k: got 2.0"),
        ((4, 4, 1, range(16)), "k: got 1, wanted a whole number from 1 to 0"),
        ((4, 4, 2, [3, 16]), "taken: got tile 16, wanted tiles from 0 to 15"),
        ((4, 4, 2, [3, -1]), "taken: got tile -1"),
        ((4, 4, 2, [3, 5, 3]), "taken: got tile 3 more than once, wanted each tile once"),
        ((4, 4, 2, [3.5]), "taken: got an array of float64 of shape"),
        ((4, 4, 2, [[1, 2]]), "taken: got an array of int64 of shape"),
    ],
)
def test_a_wrong_problem_is_refused_by_every_solver(
    solve: Callable[..., Any], arguments: tuple[Any, ...], text: str
) -> None:
    with pytest.raises(InputError) as caught:
        solve(*arguments)
    assert str(caught.value).startswith(text)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("limit", [-1, float("nan")])
def test_a_time_limit_below_zero_is_refused(limit: float) -> None:
    for solve in (best_tiles, cp_tiles):
        with pytest.raises(InputError, match="limit_s: got"):
            solve(4, 4, 2, limit_s=limit)


def test_a_distance_of_tiles_that_are_none_is_refused() -> None:
    with pytest.raises(InputError, match="tiles: got tile 20, wanted tiles from 0 to 19"):
        tile_distance(4, 5, [20])
    assert tile_distance(4, 5, []) == 0
