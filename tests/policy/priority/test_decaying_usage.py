"""Usage that decays, against integrals and against itself from scratch."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unrack.errors import InputError
from unrack.policy.priority.multifactor import DAY_US, Decay, Usage

DECAYS = st.builds(Decay, st.sampled_from([0, 1, 7, 1000]), st.sampled_from([0, 1, 10, 64]))
JOBS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5), st.integers(0, 100), st.integers(0, 100)), max_size=12)
"""Row, rate, start, and how long it runs."""


def after(decay: Decay, jobs: list[tuple[int, int, int, int]], now: int) -> Usage:
    """What was used up to ``now`` by jobs, each event told."""
    events = [(start, row, rate) for row, rate, start, _ in jobs]
    events += [(start + run, row, -rate) for row, rate, start, run in jobs]
    usage = Usage.none(3, decay)
    for time, row, rate in sorted(events, key=lambda event: (event[0], -event[2])):
        if time <= now:
            usage.change(row, rate, time)
    return usage


def integral(decay: Decay, rate: int, start: float, end: float, now: int, steps: int = 2000) -> float:
    """Of what one job used, by the midpoint rule."""
    first = now // decay.reset_us * decay.reset_us if decay.reset_us else 0
    start, end = max(start, first), min(end, now)
    if end <= start:
        return 0.0
    middle = start + (np.arange(steps) + 0.5) * (end - start) / steps
    weight = np.exp2((middle - now) / decay.half_life_us) if decay.half_life_us else np.ones(steps)
    return float(rate * weight.mean() * (end - start))


@given(DECAYS, JOBS, st.integers(0, 250))
def test_usage_is_the_integral_over_the_time_that_jobs_ran(
    decay: Decay, jobs: list[tuple[int, int, int, int]], now: int
) -> None:
    expected = np.zeros(3)
    for row, rate, start, run in jobs:
        expected[row] += integral(decay, rate, start, start + run, now)
    assert after(decay, jobs, now).at(now).tolist() == pytest.approx(expected.tolist(), rel=2e-3, abs=1e-9)


@given(DECAYS, JOBS, st.lists(st.integers(0, 250), max_size=5), st.integers(250, 300))
def test_looking_in_between_changes_nothing_that_counts(
    decay: Decay, jobs: list[tuple[int, int, int, int]], looks: list[int], now: int
) -> None:
    usage = after(decay, jobs, now)
    often = Usage.none(3, decay)
    events = [(start, row, rate) for row, rate, start, _ in jobs]
    events += [(start + run, row, -rate) for row, rate, start, run in jobs]
    events += [(look, row, 0) for look in looks for row in range(3)]
    for time, row, rate in sorted(events, key=lambda event: (event[0], -event[2])):
        often.change(row, rate, time)
    assert often.at(now).tolist() == pytest.approx(usage.at(now).tolist(), rel=1e-9, abs=1e-12)
    assert often.rate.tolist() == [0, 0, 0]


def test_without_decay_usage_is_rate_times_time() -> None:
    usage = Usage.none(2, Decay(0))
    usage.change(1, 8, 3 * DAY_US)
    usage.change(1, -8, 5 * DAY_US)
    assert usage.at(900 * DAY_US).tolist() == [0.0, 8.0 * 2 * DAY_US]


def test_after_a_half_life_half_is_left() -> None:
    usage = Usage.none(1, Decay(7 * DAY_US))
    usage.change(0, 3, 0)
    usage.change(0, -3, DAY_US)
    assert usage.at(8 * DAY_US)[0] == usage.at(DAY_US)[0] / 2
    assert usage.at(71 * DAY_US)[0] == usage.at(DAY_US)[0] / 1024
    assert usage.at(10**6 * DAY_US)[0] == 0.0


def test_short_times_lose_no_digits() -> None:
    usage = Usage.none(1, Decay(7 * DAY_US))
    usage.change(0, 1, 0)
    assert usage.at(1)[0] == pytest.approx(float(1 - Fraction(1, 14 * DAY_US)), rel=1e-12)


def test_usage_is_zero_at_a_reset_and_running_jobs_count_from_there() -> None:
    usage = Usage.none(1, Decay(0, reset_us=10))
    usage.change(0, 2, 5)
    assert [usage.at(now)[0] for now in (9, 10, 13, 20)] == [8.0, 0.0, 6.0, 0.0]
    usage.change(0, -2, 20)
    assert usage.at(29)[0] == 0.0


def test_times_below_zero_are_refused() -> None:
    with pytest.raises(InputError, match="half_life_us"):
        Decay(-1)
