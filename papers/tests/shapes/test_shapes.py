from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unrack.errors import InputError
from unrack.workload.usage.curves import UsageCurves, UsageSeries, check_curves, series_of
from unrack.workload.usage.described import KINDS, properties
from unrack_papers.shapes.draw import CurveSteps, drawn, drawn_jobs, heights
from unrack_papers.shapes.parameters import SHAPES, Shapes, shapes_of, written


def draw(name: str, count: int = 3000, seed: int = 1, run_s: float = 50_000.0, tasks: int = 1) -> UsageCurves:
    sizes = np.full(count, tasks, np.int64)
    return drawn(shapes_of(name), sizes, np.full(count, run_s), np.full(count, 10_000, np.int64), seed)


@pytest.mark.parametrize("name", SHAPES)
def test_drawn_curves_are_curves_that_reach_the_peak_of_their_job(name: str) -> None:
    usage = draw(name, 500, tasks=5)
    check_curves(usage)
    assert set(usage.job_peaks(np.zeros(500, np.int64)).tolist()) == {10_000}


@pytest.mark.parametrize("name", SHAPES)
def test_the_same_seed_draws_the_same_bytes_and_another_seed_others(name: str) -> None:
    first, second, other = draw(name), draw(name), draw(name, seed=2)
    assert first.mb.tobytes() == second.mb.tobytes()
    assert first.at.tobytes() == second.at.tobytes()
    assert first.mb.tobytes() != other.mb.tobytes()


def means(series: UsageSeries) -> np.ndarray:
    return np.add.reduceat(series.amount * series.spans(), series.point[:-1])


def test_average_use_is_well_below_the_peak() -> None:
    google, grizzly = series_of(draw("google")), series_of(draw("grizzly", 400, tasks=16))
    assert 0.55 < (means(google) / google.peaks()).mean() < 0.65
    nodes = means(grizzly) / grizzly.job_peaks()[grizzly.job_of_series()]
    assert 0.4 < nodes.mean() < 0.55


def test_all_tasks_are_alike_in_the_manner_of_google_and_differ_in_that_of_grizzly() -> None:
    assert draw("google", 10, tasks=8).curves.tolist() == [1] * 10
    usage = draw("grizzly", 500, tasks=8)
    assert usage.curves.tolist() == [8] * 500
    peaks = usage.peaks().reshape(500, 8)
    assert ((peaks > 9_500).sum(axis=1)).mean() < 2.5  # few reach the peak of the job
    logs = np.log(peaks)
    assert np.sqrt(logs.var(axis=1, ddof=1).mean()) == pytest.approx(0.25, abs=0.01)


def test_steps_begin_at_multiples_of_a_sample_and_a_short_job_has_one() -> None:
    assert len(draw("google", 200, run_s=250.0).mb) == 200
    usage = draw("google", 200, run_s=3000.0)
    assert set(usage.at.tolist()) <= {k * 10**8 for k in range(10)}


def test_kinds_are_as_frequent_as_their_weights() -> None:
    found = properties(series_of(draw("google", 20_000)).over_peak()).kind
    shares = np.bincount(found, minlength=len(KINDS)) / len(found)
    assert shares == pytest.approx(shapes_of("google").weights(), abs=0.07)


@given(st.integers(1, 12), st.floats(0.02, 0.98), st.floats(0.02, 0.98), st.floats(0, 1), st.integers(0, 10**6))
def test_heights_give_the_time_near_the_peak_and_the_mean_where_both_can_be(
    count: int, ratio: float, near: float, spread: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    steps = CurveSteps(
        np.array([0, count]), rng.exponential(size=count), rng.standard_normal(count), np.array([ratio]),
        np.array([near]), np.array([spread]),
    )  # fmt: skip
    span, height = heights(steps)
    assert span.sum() == pytest.approx(1)
    assert height.max() == 1
    assert height.min() >= 0
    if count > 1:
        assert span[height >= 0.9].sum() == pytest.approx(near)
        if near + 0.02 < ratio < 0.9:
            assert (span * height).sum() == pytest.approx(ratio, abs=0.03)


def test_parameters_come_back_from_the_file_they_were_written_to(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    for name in SHAPES:
        path.write_text(written(shapes_of(name), "a comment"))
        assert shapes_of(path) == shapes_of(name)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"colour": 1}, "an unknown key"),
        ({"kinds": {"wavy": {}}}, "wavy"),
        ({"kinds": {}}, "kinds: got"),
        ({"kinds": {"flat": {"weight": 1, "steps": [1, 2], "near_peak": [1, 1], "mean_over_peak": [0.9, 0.8]}}},
         "kinds.flat.mean_over_peak: .*wanted values in ascending order"),
        ({"kinds": {"flat": {"weight": 0, "steps": [1, 2], "near_peak": [1, 1], "mean_over_peak": [0.9, 1]}}},
         "weights of which one is above 0"),
        ({"kinds": {"flat": {"weight": 1, "steps": [0.5, 2], "near_peak": [1, 1], "mean_over_peak": [0.9, 1]}}},
         "numbers of steps from 1"),
        ({"interval_s": -1}, "interval_s: got -1"),
    ],
)  # fmt: skip
def test_parameters_that_cannot_be_are_refused(change: dict[str, object], words: str) -> None:
    content = shapes_of("google").model_dump(exclude_none=True)
    with pytest.raises(InputError, match=words):
        Shapes.read({**content, **change}, "here, ")


@pytest.mark.parametrize("name", ["googol", "missing.toml"])
def test_shapes_that_are_not_there_are_refused(name: str) -> None:
    with pytest.raises(InputError, match=name):
        shapes_of(name)


def test_a_file_that_is_no_toml_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_text("kinds = [")
    with pytest.raises(InputError, match="a TOML file"):
        shapes_of(path)


def test_jobs_without_a_trace_have_sizes_only_where_nodes_differ() -> None:
    usage, ids, run_s = drawn_jobs(shapes_of("grizzly"), 300, 4)
    assert usage.curves.max() > 30
    assert ids.to_list() == list(range(1, 301))
    assert 600 <= run_s.min() < run_s.max() <= 172_800
    alike = drawn_jobs(shapes_of("google"), 300, 4)[0]
    assert alike.curves.tolist() == [1] * 300


def test_no_job_gets_no_curve() -> None:
    none = np.zeros(0, np.int64)
    assert len(drawn(Shapes.model_validate(shapes_of("grizzly").model_dump()), none, np.zeros(0), none)) == 0
