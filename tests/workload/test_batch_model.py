from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unrack.errors import InputError
from unrack.units import SECOND_US
from unrack.workload.generate.batch.curve import along, correlation_of, curve_of, distance, steps
from unrack.workload.generate.batch.generator import PARAMETERS, LublinModel, batch_parameters, written
from unrack.workload.generate.batch.model import CANCELLED
from unrack.workload.generate.distributions import DAY_S, WEEK_S, WeekCycle, gap_shape_of, rates_of
from unrack.workload.generate.generator import generate

HOUR = [0.2] * 8 + [2.0] * 10 + [0.5] * 6
WEEKDAY = [1.5] * 5 + [0.3] * 2


def drawn(**keys: Any) -> Any:
    return generate({"model": "cirne", "nodes": 256, "jobs": 2000, **keys}, seed=5).jobs


@pytest.mark.parametrize(("model", "parameters"), [("lublin", None), *(("cirne", name) for name in PARAMETERS)])
@pytest.mark.parametrize("nodes", [1, 7, 1000])
def test_every_model_draws_jobs_that_fit_the_system_and_its_bytes_follow_from_the_seed(
    model: str, parameters: str | None, nodes: int
) -> None:
    spec = {"model": model, "nodes": nodes, "cores_per_node": 4, "jobs": 300, "load": 0.7, "parameters": parameters}
    jobs, again, other = generate(spec, 1).jobs, generate(spec, 1).jobs, generate(spec, 2).jobs
    assert jobs.digest() == again.digest() != other.digest()
    assert jobs.tasks.min() >= 1
    assert jobs.tasks.max() <= nodes
    assert set(jobs.cores.tolist()) == {4}
    assert (np.diff(jobs.submit_us) >= 0).all()
    assert (jobs.work_us <= jobs.request_us).all()


def test_the_load_moves_arrivals_and_leaves_the_jobs_as_they_are() -> None:
    low, high = drawn(load=0.5), drawn(load=1.0)
    assert low.work_us.tolist() == high.work_us.tolist()
    assert low.tasks.tolist() == high.tasks.tolist()
    cycle = batch_parameters().arrivals
    spans = [np.diff(cycle.paced_s(jobs.submit_us / SECOND_US)).sum() for jobs in (low, high)]
    assert spans[0] / spans[1] == pytest.approx(2, rel=1e-6)


def test_the_load_is_the_node_seconds_over_those_there_are() -> None:
    for model in ("cirne", "lublin"):
        jobs = generate({"model": model, "nodes": 128, "jobs": 30_000, "load": 0.8}, seed=3).jobs
        work = (jobs.tasks * (jobs.work_us / SECOND_US)).sum()
        assert work / (128 * jobs.submit_us[-1] / SECOND_US) == pytest.approx(0.8, rel=0.1)


def test_days_bound_the_arrivals_with_a_rate_or_a_load() -> None:
    for keys in ({"jobs_per_day": 500}, {"load": 0.6}, {}):
        jobs = generate({"model": "cirne", "nodes": 1152, "days": 28, **keys}, seed=2).jobs
        assert jobs.submit_us[-1] / SECOND_US / DAY_S == pytest.approx(28, rel=0.25)


def test_jobs_cancelled_before_they_start_are_left_out_or_have_no_run() -> None:
    never = batch_parameters().never_ran
    assert never > 0.05
    with_them = generate({"model": "cirne", "nodes": 256, "jobs": 20_000, "cancelled": "zero-run"}, seed=1).jobs
    without = generate({"model": "cirne", "nodes": 256, "jobs": 20_000}, seed=1).jobs
    gone = [
        ((jobs.work_us == 0) & (jobs.extra["status"].to_numpy() == CANCELLED)).mean() for jobs in (with_them, without)
    ]
    assert gone[0] - gone[1] == pytest.approx(never, abs=0.02)


def test_short_runs_have_poor_accuracy_in_every_set_of_parameters() -> None:
    for name in PARAMETERS:
        jobs = drawn(parameters=name, jobs=8000)
        accuracy = jobs.work_us / jobs.request_us
        short = jobs.work_us <= np.median(jobs.work_us)
        assert np.median(accuracy[short]) < 0.5 * np.median(accuracy[~short])


@given(st.lists(st.floats(0.01, 100), min_size=24, max_size=24), st.lists(st.floats(0.01, 9), min_size=7, max_size=7))
def test_the_clock_of_the_rate_can_be_turned_back(hour: list[float], weekday: list[float]) -> None:
    cycle = WeekCycle(jobs_per_day=1, hour=hour, weekday=weekday)
    clock_s = np.linspace(0, 3 * WEEK_S, 500)
    assert np.allclose(cycle.clock_s(cycle.paced_s(clock_s)), clock_s, atol=1e-3)
    assert cycle.paced_s(np.array([WEEK_S]))[0] == pytest.approx(WEEK_S)


def test_weights_and_gap_shape_are_found_again_in_what_they_draw() -> None:
    for shape in (0.4, 1.0, 5.0):
        cycle = WeekCycle(jobs_per_day=1000, hour=HOUR, weekday=WEEKDAY, gap_shape=shape)
        units = cycle.units(np.random.default_rng(4), 60_000)
        times_s = cycle.times_s(units, 864.0)
        hour, weekday = rates_of(times_s, knows_weekday=True)
        assert np.allclose(hour, np.array(HOUR) / np.mean(HOUR), rtol=0.15)
        assert np.allclose(weekday, np.array(WEEKDAY) / np.mean(WEEKDAY), rtol=0.1)
        assert gap_shape_of(cycle.paced_s(times_s)) == pytest.approx(shape, rel=0.1)


def test_a_log_of_half_a_day_has_no_cycle_and_one_of_half_a_week_no_weekdays() -> None:
    assert rates_of(np.linspace(0, DAY_S / 2, 50), True) == ((1.0,) * 24, (1.0,) * 7)
    hour, weekday = rates_of(np.linspace(0, 3.5 * DAY_S, 5000) ** 1.0, True)
    assert max(hour) < 1.2
    assert weekday == (1.0,) * 7


@given(st.lists(st.floats(0.001, 1e6), min_size=1, max_size=60), st.integers(2, 40))
def test_a_curve_keeps_order_and_bounds(values: list[float], points: int) -> None:
    curve = curve_of(np.array(values), points)
    assert all(after >= before for before, after in itertools.pairwise(curve))
    found = along(curve, np.linspace(0, 1, 101))
    assert (np.diff(found) >= 0).all()
    assert found[0] == pytest.approx(min(values), rel=1e-5)
    assert found[-1] == pytest.approx(max(values), rel=1e-5)
    assert (np.diff(steps(points)) > 0).all()


def test_a_curve_is_the_values_at_equal_steps_and_scores_correlate_by_rank() -> None:
    assert curve_of(np.array([3.0, 1.0, 2.0]), 3) == (1.0, 2.0, 3.0)
    assert correlation_of(np.array([1.0, 2.0, 3.0]), np.array([10.0, 100.0, 1000.0])) == 1.0
    assert correlation_of(np.ones(3), np.array([10.0, 100.0, 1000.0])) == 0.0


def test_a_curve_of_two_values_is_uniform_in_the_logarithm() -> None:
    part = np.random.default_rng(1).random(40_000)
    found = along((2, 128), part)
    expected = np.exp(np.linspace(np.log(2), np.log(128), 40_000))
    assert distance(found, expected) < 0.01


@given(st.lists(st.integers(0, 9), min_size=1, max_size=30), st.lists(st.integers(0, 9), min_size=1, max_size=30))
def test_the_distance_is_the_largest_gap_between_the_distribution_functions(one: list[int], other: list[int]) -> None:
    largest = max(
        abs(sum(x <= at for x in one) / len(one) - sum(x <= at for x in other) / len(other)) for at in range(10)
    )
    assert distance(np.array(one, float), np.array(other, float)) == pytest.approx(largest)


def test_lublin_has_the_shares_run_times_and_day_of_its_constants() -> None:
    model = LublinModel()
    jobs = generate({"model": "lublin", "nodes": 128, "jobs": 60_000, "load": 0.5}, seed=9).jobs
    serial = (jobs.tasks == 1).mean()
    assert serial == pytest.approx(model.serial_share, abs=0.01)
    power = ((jobs.tasks & (jobs.tasks - 1)) == 0)[jobs.tasks > 1].mean()
    assert power > model.power_share  # and more: a size may be a power of two without being rounded to one
    small = np.log(jobs.work_us[jobs.tasks == 1] / SECOND_US)
    p = model.short_base + model.short_slope
    mean = p * model.short_shape * model.short_scale + (1 - p) * model.long_shape * model.long_scale
    assert small.mean() == pytest.approx(mean, abs=0.1)
    large = np.log(jobs.work_us[jobs.tasks >= 64] / SECOND_US)
    assert large.mean() > small.mean() + 0.4
    assert jobs.work_us.max() <= np.exp(12.0) * SECOND_US
    hours = np.bincount((jobs.submit_us // (3600 * SECOND_US)) % 24, minlength=24)
    weights = model.day_weights().reshape(24, 2).mean(axis=1)
    assert np.allclose(hours / hours.mean(), weights, atol=0.25)
    assert 11 <= weights.argmax() <= 15
    assert weights.argmin() in (3, 4, 5)


def test_lublin_takes_other_constants_and_a_request_factor() -> None:
    parameters = {"serial_share": 1, "request_factor": 3}
    jobs = generate({"model": "lublin", "nodes": 64, "jobs": 50, "parameters": parameters}).jobs
    assert set(jobs.tasks.tolist()) == {1}
    assert (jobs.request_us == 3 * jobs.work_us).all()


def test_written_parameters_are_read_as_they_were(tmp_path: Any) -> None:
    for name in PARAMETERS:
        model = batch_parameters(name)
        (tmp_path / "own.toml").write_text(written(model, "made by hand"))
        assert batch_parameters(tmp_path / "own.toml") == model


@pytest.mark.parametrize(
    ("keys", "where", "want"),
    [
        ({"nodes": 0}, "nodes", "greater"),
        ({"model": "downey"}, "model", "'cirne' or 'lublin'"),
        ({"days": 3}, "the whole", "either jobs or days"),
        ({"load": 1, "jobs_per_day": 9}, "the whole", "not both"),
        ({"lod": 1}, "lod", "load"),
        ({"memory": "profiles"}, "the whole", "profiles beside memory"),
        ({"large_share": 0.5}, "the whole", "normal_node"),
        ({"large_share": 0.5, "normal_node": "64 GB"}, "the whole", "memory beside"),
        ({"normal_node": "many", "large_share": 0.5, "memory": 5}, "normal_node", "an amount in MB"),
        ({"parameters": "downey"}, "parameters", "cirne-anl"),
        ({"parameters": "nowhere.toml"}, "nowhere.toml", "a file"),
        ({"parameters": {"request_s": [1, 2]}}, "parameters, arrivals", "this key"),
        ({"model": "lublin", "parameters": "kth-sp2"}, "the whole", "a table"),
        ({"model": "lublin", "parameters": {"loww": 1}}, "parameters.loww", "low"),
        ({"memory": 1000, "large_share": 0.5, "normal_node": 2000}, "large_share", "memory of the jobs"),
    ],
)
def test_a_specification_that_cannot_be_is_refused_with_the_key(keys: dict[str, Any], where: str, want: str) -> None:
    with pytest.raises(InputError) as caught:
        generate({"model": "cirne", "nodes": 16, "jobs": 10, **keys})
    assert where in caught.value.where
    assert want in caught.value.want


def test_a_curve_that_descends_is_refused() -> None:
    content = batch_parameters("kth-sp2").model_dump(mode="json")
    with pytest.raises(InputError, match="ascending"):
        batch_parameters({**content, "request_s": [60, 30]})
    with pytest.raises(InputError, match="sum to 1"):
        batch_parameters({**content, "failed": None})
