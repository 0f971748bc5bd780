from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unrack.errors import InputError
from unrack.workload.usage.curves import WHOLE, UsageSeries, check_curves
from unrack.workload.usage.thin import kept, thinned


def one_series(amount: list[float], at: list[float] | None = None) -> UsageSeries:
    count = len(amount)
    places = np.arange(count) / count if at is None else np.array(at)
    return UsageSeries(
        "made", pl.Series([1]), np.array([0, 1]), np.array([0, count]), places, np.array(amount, np.float64),
        np.array([np.nan]),
    )  # fmt: skip


def recursive(at: list[float], amount: list[float], tolerance: float, low: int, high: int) -> set[int]:
    """Ramer-Douglas-Peucker as in the books, with vertical distances; of equals the one nearest to the middle."""
    if high - low < 2:
        return {low, high}
    slope = (amount[high] - amount[low]) / (at[high] - at[low])
    apart = [(abs(amount[k] - (amount[low] + slope * (at[k] - at[low]))), k) for k in range(low + 1, high)]
    far = max(one for one, _ in apart)
    middle = (low + high) // 2
    cut = min((k for one, k in apart if one == far), key=lambda k: (abs(k - middle), k))
    if far <= tolerance:
        return {low, high}
    return recursive(at, amount, tolerance, low, cut) | recursive(at, amount, tolerance, cut, high)


amounts = st.lists(st.integers(0, 1000).map(float), min_size=1, max_size=60)


@given(amounts, st.sampled_from([0.0, 0.02, 0.1, 0.5]))
def test_the_same_points_are_kept_as_by_a_plain_recursive_twin(amount: list[float], share: float) -> None:
    series = one_series(amount)
    tolerance = share * series.peaks()
    found = np.flatnonzero(
        kept(series.point.copy(), series.at.copy(), series.amount.copy(), tolerance, np.array([np.inf]))
    )
    assert set(found.tolist()) == recursive(series.at.tolist(), amount, float(tolerance[0]), 0, len(amount) - 1)


@given(amounts, st.floats(0, 1), st.sampled_from([0.0, 0.1, 1.0, None]))
def test_the_step_function_is_nowhere_below_the_samples_and_the_error_is_what_it_says(
    amount: list[float], tolerance: float, rise: float | None
) -> None:
    series = one_series(amount)
    made = thinned(series, tolerance, rise)
    check_curves(made.curves)
    at, mb = made.curves.points_of(0)
    level = mb[np.searchsorted(at, (series.at * WHOLE).astype(np.int64), side="right") - 1]
    above = level - series.amount
    assert (above >= 0).all()
    assert above.max() == pytest.approx(made.largest_error[0])
    assert above.mean() == pytest.approx(made.mean_error[0])
    if rise is not None:
        assert above.max() <= rise * max(amount) + 1e-9


def test_a_ramp_is_two_points_for_the_algorithm_and_stairs_where_the_rise_is_limited() -> None:
    ramp = one_series([float(k) for k in range(100)])
    assert thinned(ramp, 0.02, None).points == 2
    stairs = thinned(ramp, 0.02, 0.1)
    assert 10 <= stairs.points <= 20
    assert stairs.largest_error[0] <= 9.9


def test_a_spike_of_one_sample_is_kept_whole() -> None:
    made = thinned(one_series([1.0] * 50 + [100.0] + [1.0] * 49))
    assert made.curves.mb.tolist() == [1, 100, 1]
    assert made.curves.at.tolist() == [0, WHOLE // 2, WHOLE * 51 // 100]


def test_steps_within_a_part_per_billion_are_one_and_as_high_as_the_higher() -> None:
    made = thinned(one_series([1.0, 9.0, 2.0], [0.0, 1e-12, 0.5]), 0.0, 0.0)
    assert made.curves.at.tolist() == [0, WHOLE // 2]
    assert made.curves.mb.tolist() == [9, 2]


@pytest.mark.parametrize("kind", ["teeth", "growing teeth", "noise", "curve"])
def test_a_long_series_takes_no_quadratic_time(kind: str) -> None:
    count = 100_000
    place = np.arange(count, dtype=np.float64)
    values = {
        "teeth": place % 2 * 1000,
        "growing teeth": place % 2 * place,
        "noise": np.random.default_rng(1).random(count) * 1000,
        "curve": np.exp(place / 3e4),
    }[kind]
    made = thinned(one_series(values.tolist()), 0.0, 0.0)  # quadratic time would be minutes
    assert made.largest_error.max() == 0


def test_series_of_a_job_are_thinned_by_their_own_peaks() -> None:
    series = UsageSeries(
        "made", pl.Series([1]), np.array([0, 2]), np.array([0, 3, 6]), np.array([0, 0.3, 0.6] * 2),
        np.array([100.0, 99.0, 100.0, 1.0, 2.0, 1.0]), np.array([np.nan]),
    )  # fmt: skip
    made = thinned(series, 0.05)
    assert made.curves.mb.tolist() == [100, 1, 2, 1]
    assert made.curves.first.tolist() == [0, 2]


@pytest.mark.parametrize("share", [-0.1, 1.5, True])
def test_a_tolerance_that_is_no_share_is_refused(share: float) -> None:
    with pytest.raises(InputError, match="a share of the peak"):
        thinned(one_series([1.0, 2.0]), share)
