"""The profiles that come with unrack, and measured ones where they are at hand."""

from __future__ import annotations

from itertools import pairwise

import pytest
from synthetic_formula import KINDS, make_profiles

from unrack.slowdown.contention.columns import columns_of, speed_of
from unrack.slowdown.contention.predict import Contention, nearest_profile
from unrack.slowdown.contention.profile_file import SYNTHETIC, read_profiles, synthetic_profiles, write_profiles


def test_the_generator_writes_the_files_that_are_committed(tmp_path) -> None:
    write_profiles(make_profiles(), tmp_path)
    for name in ("apps.csv", "curves.csv"):
        assert (tmp_path / name).read_bytes() == (SYNTHETIC / name).read_bytes()


def test_applications_go_from_insensitive_to_very_sensitive() -> None:
    model = Contention(synthetic_profiles())
    for remote in (0.0, 1.0):
        speeds = [model.speed(app, 4, remote, [(30_000.0, 4, 60)]) for app in model.profiles]
        assert speeds[0] > 0.99
        assert speeds[-1] < 0.75
        assert all(next_one < speed + 0.01 for speed, next_one in pairwise(speeds))
    assert len(model.profiles) == len(KINDS) == 12
    assert model.fallbacks == ()


def test_another_seed_changes_the_noise_and_little_else() -> None:
    ours, other = make_profiles(), make_profiles(seed=1)
    assert ours.digest() != other.digest()
    for mine, theirs in zip(ours.curves, other.curves, strict=True):
        assert mine.key == theirs.key
        assert all(abs(a[1] - b[1]) < 0.01 for a, b in zip(mine.points, theirs.points, strict=True))


@pytest.mark.needs_data
def test_measured_profiles_are_read_and_what_is_missing_is_named(data) -> None:
    profiles = read_profiles(data / "profiles")
    assert len(profiles) == 42
    assert len(profiles.profiles) == 68
    assert profiles.fallbacks == (8, 10, 16, 17, 20, 21, 25, 37)
    assert profiles.strangers == (5, 44)
    model = Contention(profiles)
    assert len(model.fallbacks) == 14
    # stream on 4 nodes, all remote, the measured far end of a two-point curve
    assert model.speed(36, 4, 1.0, [(37_438.1333333333, 1, 50)]) == pytest.approx(0.318714975620458)
    assert model.speed(36, 4, 1.0, []) == pytest.approx(0.515851184321973)


@pytest.mark.needs_data
def test_every_measured_application_can_be_asked_anything(data) -> None:
    import numpy as np

    profiles = read_profiles(data / "profiles")
    random = np.random.default_rng(1)
    n = 20_000
    asked = (random.integers(0, len(profiles), n), random.integers(1, 1025, n), random.random(n),
             random.uniform(0, 40_000, n), random.integers(1, 1025, n), random.uniform(50, 100, n))  # fmt: skip
    for method in ("line", "quadratic", "interpolate", "memgen"):
        columns = columns_of(Contention(profiles, method))
        speeds = [speed_of(columns, *one) for one in zip(*asked, strict=True)]
        assert 0.2 < min(speeds) < 0.5
        assert 0.99 < max(speeds) <= 1


@pytest.mark.needs_data
def test_jobs_are_matched_as_in_the_generated_log(data) -> None:
    import polars as pl

    profiles = read_profiles(data / "profiles")
    jobs = pl.read_csv(data / "memory" / "anl-1024n-1838-jobmix50.csv")
    found = nearest_profile(profiles, jobs["min_cpus"].to_numpy() / 32, jobs["duration"].to_numpy())
    apps = [profiles.profiles[place].app for place in found]
    same = sum(app == given for app, given in zip(apps, jobs["sim_executable"], strict=True))
    assert same / len(jobs) > 0.8
