"""Quantiles of intervals, and shares of the normal distribution, are those of SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special
from tries import draws

from unrack.metric.estimate import beta_point, incomplete_beta, t_point
from unrack_papers.shapes.draw import below


@draws(300)
@given(st.integers(1, 20_000), st.sampled_from([0.6, 0.9, 0.95, 0.975, 0.99, 0.995, 0.9995, 1 - 1e-6, 1 - 1e-9]))
def test_students_t(degrees: int, share: float) -> None:
    assert t_point(degrees, share) == pytest.approx(special.stdtrit(degrees, share), rel=1e-12)


@draws(300)
@given(st.integers(1, 3000), st.integers(1, 3000), st.floats(1e-9, 0.999))
def test_the_beta_distribution(a: int, b: int, share: float) -> None:
    assert beta_point(a, b, share) == pytest.approx(special.betaincinv(a, b, share), rel=1e-12)


@draws(300)
@given(st.floats(0.5, 5000), st.floats(0.5, 5000), st.floats(1e-6, 1 - 1e-6))
def test_the_incomplete_beta_function(a: float, b: float, x: float) -> None:
    assert incomplete_beta(x, 1 - x, a, b) == pytest.approx(special.betainc(a, b, x), rel=1e-10, abs=1e-13)


def test_a_point_is_where_the_share_is() -> None:
    assert t_point(1, 0.75) == pytest.approx(1.0)  # Cauchy
    assert beta_point(1, 1, 0.3) == pytest.approx(0.3)
    assert t_point(3, 1.0) == float("inf")


def test_the_normal_distribution() -> None:
    scores = np.append(np.random.default_rng(1).normal(scale=4.0, size=10_000), [0.0, 40.0, -40.0])
    assert np.allclose(below(scores), special.ndtr(scores), rtol=1e-12, atol=0)
