"""The compiled form says what the plain one says."""

from __future__ import annotations

import numpy as np
import pytest
from applications import drawn, profile, worked
from plain_prediction import plain_speed, plain_traffic, pressure_of

from unrack.slowdown.contention.columns import columns_of, speed_of, traffic_of, worst_of
from unrack.slowdown.contention.predict import Contention
from unrack.slowdown.contention.profile import METHODS, ProfileSet
from unrack.slowdown.contention.profile_file import synthetic_profiles


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("fallback", ["nearest", "alike", "none"])
def test_the_kernel_equals_its_plain_twin(method, fallback) -> None:
    random = np.random.default_rng(7)
    for profiles in (drawn(1), drawn(2, apps=7), worked()):
        model = Contention(profiles, method, tolerance=0.1, floor=0.05, fallback=fallback)
        columns = columns_of(model)
        cases = []
        for place, app in enumerate(profiles):
            for _ in range(40):
                nodes, remote = int(random.integers(1, 15)), float(random.choice([0.0, 0.3, 1.0]))
                interferers = [
                    (float(random.choice([0.0, 500.0, 4000.0, 4300.0, 20000.0])), int(random.integers(0, 9)),
                     float(random.uniform(30, 100)))
                    for _ in range(int(random.integers(0, 4)))
                ]  # fmt: skip
                parts = [np.array(part, kind) for part, kind in zip(
                    zip(*interferers, strict=True) if interferers else ((), (), ()),
                    (np.float64, np.int64, np.float64), strict=True)]  # fmt: skip
                pressure = worst_of(columns, *parts)
                assert pressure == pressure_of(interferers, model.tolerance)
                speed = plain_speed(model, app, nodes, remote, interferers)
                assert model.speed(app, nodes, remote, interferers) == pytest.approx(speed, rel=0, abs=1e-12)
                cases.append((place, nodes, remote, *pressure, speed))
        kinds = (np.int64, np.int64, np.float64, np.float64, np.int64, np.float64, np.float64)
        *asked, wanted = (np.array(part, kind) for part, kind in zip(zip(*cases, strict=True), kinds, strict=True))
        speeds = [speed_of(columns, *one) for one in zip(*asked, strict=True)]
        np.testing.assert_allclose(speeds, wanted, rtol=0, atol=1e-12)


def test_what_a_job_draws_equals_the_plain_twin() -> None:
    model = Contention(drawn(4))
    columns = columns_of(model)
    for place, app in enumerate(model.profiles):
        for nodes in range(1, 14):
            assert traffic_of(columns, place, nodes) == pytest.approx(tuple(plain_traffic(model, app, nodes)), abs=1e-9)


def test_a_job_of_no_application_neither_suffers_nor_disturbs() -> None:
    columns = columns_of(Contention(worked()))
    assert speed_of(columns, -1, 4, 1.0, 1e5, 4, 50.0) == 1.0
    assert traffic_of(columns, -1, 4)[:2] == (0.0, 0.0)


def test_a_set_without_any_curve_pays_for_distance_only() -> None:
    columns = columns_of(Contention(ProfileSet((profile(1, q=0.6),), ())))
    assert speed_of(columns, 0, 4, 0.5, 1e5, 4, 50.0) == pytest.approx(0.8)


def test_a_line_takes_one_piece_a_curve() -> None:
    profiles = synthetic_profiles()
    columns = columns_of(Contention(profiles))
    assert columns.piece.shape == (4, len(profiles.curves))
    assert (columns.piece[3] == 0).all()
