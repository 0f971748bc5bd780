"""Curves through points."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unrack.slowdown.contention.profile import METHODS, fitted, least_squares

POINTS = [(0.0, 1.0), (1000.0, 0.8), (2000.0, 0.9), (4000.0, 0.5)]
MEASURED = st.lists(st.integers(0, 30000), min_size=3, max_size=8, unique=True).flatmap(
    lambda xs: st.tuples(*(st.tuples(st.just(float(x)), st.floats(0.1, 1.1)) for x in sorted(xs)))
)


def test_the_line_is_ordinary_least_squares_worked_by_hand() -> None:
    c0, c1, c2 = least_squares([(0.0, 1.0), (1.0, 0.8), (2.0, 0.9), (5.0, 0.5)], 1)
    # mean x 2, mean y 0.8; slope = (-0.4 + 0 + 0 - 0.9) / (4 + 1 + 0 + 9)
    assert c1 == pytest.approx(-1.3 / 14)
    assert c0 == pytest.approx(0.8 + 2 * 1.3 / 14)
    assert c2 == 0.0


def test_a_line_goes_on_beyond_its_points_and_may_cross_0() -> None:
    line = fitted(POINTS, "line")
    assert line.at(1e6) < 0 < line.at(4000.0)
    assert line.at(2000.0) - line.at(1000.0) == pytest.approx(line.at(9000.0) - line.at(8000.0))


def test_a_parabola_stays_as_at_its_last_point() -> None:
    bend = fitted([(0.0, 1.0), (1.0, 0.25), (2.0, 0.0), (4.0, 1.0)], "quadratic")  # (1 - x / 2)²
    assert [bend.at(x) for x in (0.0, 1.0, 3.0, 4.0, 9.0)] == pytest.approx([1.0, 0.25, 0.25, 1.0, 1.0])


def test_a_parabola_through_two_points_is_the_line() -> None:
    assert fitted(POINTS[:2], "quadratic") == fitted(POINTS[:2], "line")


def test_interpolation_meets_every_point_and_stays_flat_outside() -> None:
    straight = fitted(POINTS[1:], "interpolate")
    assert [straight.at(x) for x, _ in POINTS[1:]] == pytest.approx([y for _, y in POINTS[1:]])
    assert straight.at(3000.0) == pytest.approx(0.7)
    assert (straight.at(0.0), straight.at(9e9)) == (0.8, 0.5)


@given(points=MEASURED, degree=st.integers(0, 2))
def test_no_other_polynomial_is_nearer_to_the_points(points, degree) -> None:
    x, y = (np.array(column) for column in zip(*points, strict=True))
    c0, c1, c2 = least_squares(points, degree)

    def squares(*c: float) -> float:
        return float(((c[0] + c[1] * x + c[2] * x * x - y) ** 2).sum())

    peer = np.polynomial.Polynomial.fit(x, y, degree).convert().coef
    best = squares(*np.pad(peer, (0, 3 - len(peer))))
    assert squares(c0, c1, c2) <= best + 1e-9


@given(points=MEASURED, x=st.floats(0, 40000), method=st.sampled_from(METHODS))
def test_pieces_meet_where_one_ends_and_the_next_starts(points, x, method) -> None:
    curve = fitted(points, method)
    assert np.isfinite(curve.at(x))
    for before, after in zip(curve.pieces, curve.pieces[1:], strict=False):
        assert before.at(after.start) == pytest.approx(after.at(after.start), abs=1e-9)
