"""What stands in for an application without a profile, or without a curve."""

from __future__ import annotations

import numpy as np
import pytest
from applications import pair, profile

from unrack.slowdown.contention.predict import Contention, Stand, matched, nearest_profile
from unrack.slowdown.contention.profile import ProfileSet

CALM = profile(1, 1, 0.99, run_s=10.0, local_mb_s=20.0)
BUSY = profile(2, 1, 0.5, run_s=1000.0, local_mb_s=30_000.0)
BARE = profile(3, 1, 0.6, run_s=20.0, local_mb_s=28_000.0)
CURVES = (*pair(1, 1, 1, (0.02, 0.01), (0.02, 0.01), 0.99), *pair(2, 1, 1, (0.4, 0.2), (0.2, 0.1), 0.5))
PROFILES = ProfileSet((CALM, BUSY, BARE), CURVES)


def test_an_application_without_curves_borrows_by_run_time_or_by_what_it_draws() -> None:
    assert PROFILES.fallbacks == (3,)
    assert Contention(PROFILES, fallback="nearest").fallbacks == (Stand(3, 1, (1, 1)),)
    assert Contention(PROFILES, fallback="alike").fallbacks == (Stand(3, 1, (2, 1)),)
    assert Contention(PROFILES, fallback="none").fallbacks == (Stand(3, 1, None),)


def test_borrowed_local_curves_are_taken_as_they_are() -> None:
    model = Contention(PROFILES, fallback="alike")
    assert model.speed(3, 1, 0.0, [(500.0, 1, 50)]) == model.speed(2, 1, 0.0, [(500.0, 1, 50)]) == pytest.approx(0.8)


def test_borrowed_remote_curves_start_at_the_borrowers_own_remote_speed() -> None:
    model = Contention(PROFILES, fallback="alike")
    assert model.speed(3, 1, 1.0, []) == 0.6
    assert model.speed(3, 1, 1.0, [(500.0, 1, 50)]) == pytest.approx(0.4 * 0.6 / 0.5)


def test_without_a_fallback_it_pays_for_distance_only() -> None:
    model = Contention(PROFILES, fallback="none")
    assert model.speed(3, 1, 0.0, [(500.0, 1, 50)]) == 1.0
    assert model.speed(3, 1, 1.0, [(500.0, 1, 50)]) == 0.6


def test_a_job_is_matched_by_size_and_run_time_each_scaled_to_its_own_range() -> None:
    rows = ProfileSet((profile(1, 1, run_s=10.0), profile(2, 1, run_s=110.0), profile(4, 11, run_s=60.0)), ())
    found = nearest_profile(rows, nodes=[1, 1, 1001, 400], run_s=[0.0, 1e6, 1e6, 0.0])
    # profiles at (0, 0), (0, 1), (1, 0.5); jobs at (0, 0), (0, 1), (1, 1), (0.399, 0)
    assert found.tolist() == [0, 1, 2, 0]


def test_equally_near_profiles_are_taken_in_order() -> None:
    rows = ProfileSet((profile(1, 1, run_s=10.0), profile(2, 1, run_s=10.0)), ())
    assert nearest_profile(rows, [1, 5], [3.0, 9.0]).tolist() == [0, 0]


def test_jobs_keep_their_own_application_where_it_has_a_profile() -> None:
    found = matched(PROFILES, app=[2, 3, 77, -1], nodes=[1, 1, 1, 1], run_s=[5.0, 5.0, 1e5, 0.0])
    assert found.place.tolist() == [1, 2, 1, 0]
    assert found.missing.tolist() == [False, False, True, True]
    assert found.curveless.tolist() == [False, True, False, False]
    assert str(found) == "2 of 4 jobs without a profile, 1 with a profile but no curve"


def test_without_a_fallback_unknown_jobs_have_no_application() -> None:
    found = matched(PROFILES, [2, 77], [1, 1], [5.0, 5.0], "none")
    assert found.place.tolist() == [1, -1]
    assert found.curveless.tolist() == [False, True]


def test_no_jobs_match_nothing() -> None:
    assert matched(PROFILES, [], [], []).place.shape == (0,)


def test_each_of_many_jobs_is_scaled_by_itself_and_those_before_it() -> None:
    random = np.random.default_rng(3)
    nodes, run_s = random.integers(1, 99, 5000), random.uniform(1, 1e5, 5000)
    found = nearest_profile(PROFILES, nodes, run_s)
    low, high = np.minimum.accumulate(run_s), np.maximum.accumulate(run_s)
    at = (run_s - low) / np.where(high > low, high - low, 1.0)
    assert found[:100].tolist() == nearest_profile(PROFILES, nodes[:100], run_s[:100]).tolist()
    places = np.array([0.0, 1.0, 10 / 990])  # of the profiles' run times; all are of one size
    assert found.tolist() == np.abs(at[:, None] - places).argmin(axis=1).tolist()


def test_an_unknown_job_runs_as_an_application_that_has_curves() -> None:
    nodes, run_s = [1, 1, 1], [0.0, 100.0, 1.0]  # the third is nearest to the profile without
    assert nearest_profile(PROFILES, nodes, run_s).tolist() == [0, 1, 2]
    assert matched(PROFILES, [77, 77, 77], nodes, run_s).place.tolist() == [0, 1, 0]
