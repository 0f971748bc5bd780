"""Fits of applications of known curves."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from scipy.optimize import isotonic_regression
from synthetic import AXIS, KEYS, SHAPES, application, bench, measured, shaped

from unrack.errors import RunError
from unrack.profile.axes.axis import number
from unrack.profile.fitting.curve import FORMS, monotone
from unrack.profile.fitting.estimates import Estimate, drift_of, estimates_of, noise_of
from unrack.profile.profile import Profile
from unrack.profile.running.records import Records, Run

GRID = [x / 4 for x in range(41)]


def covers(profile: Profile, shape: str, grid: Sequence[float] = GRID) -> bool:
    fit = profile.fit(profile.application.axes[0])
    inside = []
    for x in grid:
        low, high = fit.band(x)
        inside.append(low - 1e-12 <= SHAPES[shape](x) <= high + 1e-12)
    return all(inside)


# noise of one size; and runs that are late now and then, on a machine that drifts
@pytest.mark.long
@pytest.mark.parametrize("how", [{"noise": 0.005}, {"noise": 0.02}, {"noise": 0.005, "late": 0.05, "wander": 0.002}])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_band_of_a_fit_has_the_whole_true_curve_in_it_in_95_of_100_runs(shape: str, how: dict[str, float]) -> None:
    app = application("drift = 0.9\n")
    inside = sum(covers(measured(app, bench(shaped(shape), seed=seed, **how)), shape) for seed in range(100))
    assert inside >= 95


@pytest.mark.long
def test_stopping_at_a_narrow_interval_does_not_make_it_a_wrong_one() -> None:
    app = application("drift = 0.9\nwidth = 0.02\n", '[[axes]]\nkind = "command"\nlevels = [2, 6]\n')
    profiles = [measured(app, bench(shaped("line"), 0.015, seed)) for seed in range(400)]
    assert len({len(profile.records.runs) for profile in profiles}) > 3  # they stopped at different looks
    assert sum(covers(profile, "line", GRID[8:25]) for profile in profiles) >= 380


def test_the_band_is_not_wide_for_nothing() -> None:
    fit = measured(application(), bench(shaped("line"), 0.005)).fit(application().axes[0])
    assert all(high / low < 1.12 for low, high in zip(fit.low, fit.high, strict=True))
    assert not covers(measured(application(), bench(shaped("line"), 0.005)), "halves")


def test_a_slow_drift_cancels() -> None:
    steady = bench(shaped("line"), noise=0.0, drift=lambda run: 1 + 2e-4 * run)
    for one in measured(application(), steady).estimates(application().axes[0]):
        assert one.speed == pytest.approx(SHAPES["line"](number(one.level)), rel=1e-3)


def test_noise_is_that_of_the_controls() -> None:
    runs = measured(
        application("drift = 0.5\nmost_repeats = 20\nwidth = 0.001\n"), bench(shaped("line"), 0.03)
    ).records.runs
    assert noise_of(runs) == pytest.approx(0.03, rel=0.25)


def test_intervals_follow_from_means_and_deviations_of_logarithms() -> None:
    times = [(1.0, 2.0, 1.0), (1.0, 2.2, 1.0), (1.0, 2.1, 1.0)]
    runs = []
    for block, (before, at, after) in enumerate(times):
        for level, time in ((None, before), (3.0, at), (None, after)):
            runs.append(Run("a", block, 0, len(runs), level, (time,), None, 0.0, True, ""))
    (found,) = estimates_of(runs, [3.0], 0.95)
    logs = [math.log(at) for _, at, _ in times]
    mean = sum(logs) / 3
    half = 4.302652729911275 * math.sqrt(sum((one - mean) ** 2 for one in logs) / 2 / 3)
    assert found.speed == pytest.approx(math.exp(-mean))
    assert (found.low, found.high) == pytest.approx((math.exp(-mean - half), math.exp(-mean + half)))
    assert drift_of(runs) == {0: 0.0, 1: 0.0, 2: 0.0}


def test_a_control_of_another_sitting_is_no_control() -> None:
    runs = [
        Run("a", 0, sitting, order, level, (time,), None, 0.0, True, "")
        for sitting, order, level, time in ((0, 0, None, 1.0), (0, 1, 3.0, 2.0), (1, 0, None, 7.0))
    ]
    assert estimates_of(runs, [3.0], 0.95)[0].speed == pytest.approx(0.5)


def test_fits_are_monotone_and_their_band_holds_them() -> None:
    for seed in range(20):
        fit = measured(application("drift = 0.5\n"), bench(shaped("falls late"), 0.05, seed)).fit(application().axes[0])
        assert all(a >= b for a, b in pairwise(fit.speed))
        assert all(a >= b for a, b in pairwise(fit.high))
        assert all(a >= b for a, b in pairwise(fit.low))


@pytest.mark.parametrize("falling", [True, False])
def test_monotone_values_are_those_of_isotonic_regression(falling: bool) -> None:
    draw = random.Random(5)
    for _ in range(200):
        values = [draw.choice((draw.random(), 0.5)) for _ in range(draw.randint(1, 12))]
        weights = [draw.choice((1e-4, 1.0, draw.uniform(0.1, 1e6))) for _ in values]
        twin = isotonic_regression(values, weights=weights, increasing=not falling).x
        assert monotone(values, weights, falling) == pytest.approx(list(twin), rel=1e-9)


def test_a_growing_axis_has_a_growing_curve_and_the_band_between_its_neighbours() -> None:
    app = application(axes='[[axes]]\nkind = "cpu"\nlevels = [0.25, 0.5, 0.75]\n')
    fit = measured(app, bench(lambda axis, level: 1 / (0.4 + 0.6 / number(level)), 0.001)).fit(app.axes[0])
    assert fit.x == (0.25, 0.5, 0.75, 1.0)
    assert fit.speed == pytest.approx([1 / (0.4 + 0.6 / x) for x in fit.x], rel=0.01)
    assert fit.band(0.6) == (fit.low[1], fit.high[2])
    assert fit.band(0.1) == (0.0, fit.high[0])
    assert fit.offered == "parts"
    assert fit.curve()(0.4) == pytest.approx(1 / 1.9, rel=0.01)


@pytest.mark.parametrize(("shape", "best"), [("flat", "line"), ("line", "line"), ("falls late", "monotone")])
def test_the_plainest_form_that_predicts_levels_left_out_is_offered(shape: str, best: str) -> None:
    axes = AXIS.replace("[2, 4, 6, 8, 10]", "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]")
    app = application("width = 0.01\n", axes)
    fit = measured(app, bench(shaped(shape), 0.001)).fit(app.axes[0])
    assert fit.offered == best
    assert {error.form for error in fit.errors} == set(FORMS) - {"parts"}
    assert next(error.mean for error in fit.errors if error.form == best) < 0.02


def test_few_levels_have_no_error_of_levels_left_out() -> None:
    app = application(axes='[[axes]]\nkind = "command"\nlevels = [5, 10]\n')
    fit = measured(app, bench(shaped("line"))).fit(app.axes[0])
    assert fit.errors == ()
    assert fit.offered == "monotone"


def test_a_level_is_added_where_a_bend_is_and_none_where_there_is_a_line() -> None:
    axes = '[[axes]]\nkind = "command"\nlevels = [5, 10]\nerror = 0.02\n'
    app = application("width = 0.01\n", axes)
    straight = measured(app, bench(shaped("line"), 0.001)).fit(app.axes[0])
    bent = measured(app, bench(shaped("falls late"), 0.001)).fit(app.axes[0])
    assert straight.x == (0.0, 5.0, 10.0)
    assert len(bent.x) > 4
    for x in GRID:
        assert bent.curve("monotone")(x) == pytest.approx(SHAPES["falls late"](x), abs=0.04)


def test_levels_are_added_up_to_their_number() -> None:
    axes = '[[axes]]\nkind = "command"\nlevels = [5, 10]\nerror = 0.0001\nmost_levels = 6\n'
    app = application("width = 0.01\n", axes)
    assert len(measured(app, bench(shaped("halves"), 1e-6)).fit(app.axes[0]).x) == 7


def test_too_few_repeats_are_refused() -> None:
    profile = measured(application(), bench(shaped("line")))
    fewer = tuple(run for run in profile.records.runs if run.block < 4)
    with pytest.raises(RunError, match="level 2: 4 runs that count, and 0 that missed the level; wanted 5 or more"):
        Profile(profile.application, Records(fewer, ()), {}).fit(profile.application.axes[0])


def test_runs_that_missed_their_level_do_not_count() -> None:
    profile = measured(application(), bench(shaped("line")))
    missed = tuple(replace(run, held=run.level != 4) for run in profile.records.runs)
    with pytest.raises(RunError, match="level 4: 0 runs that count, and 5 that missed"):
        Profile(profile.application, Records(missed, ()), {}).fit(profile.application.axes[0])


def test_controls_that_drifted_are_refused_also_when_fitted() -> None:
    profile = measured(application(), bench(shaped("line"), 0.001))
    slower = tuple(replace(run, times_s=(run.time_s * (1.1 if run.block == 3 else 1),)) for run in profile.records.runs)
    with pytest.raises(RunError, match=r"block 3: controls drifted by (9|10)\.\d%"):
        Profile(profile.application, Records(slower, ()), {}).fit(profile.application.axes[0])


def test_one_run_has_no_interval() -> None:
    runs = [Run("a", 0, 0, i, level, (1.0,), None, 0.0, True, "") for i, level in enumerate((None, 3.0, None))]
    assert estimates_of(runs, [3.0], 0.95) == [Estimate(3.0, 1.0, 0.0, math.inf, 1, 0)]
    assert estimates_of([], [3.0], 0.95) == []


def test_keys_are_those_of_the_synthetic_file() -> None:
    assert application().text == KEYS + AXIS
