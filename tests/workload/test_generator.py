from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tries import draws

from unrack.errors import InputError
from unrack.workload.generate.generator import generate

CLASS: dict[str, Any] = {"run_s": {"kind": "exponential", "mean": 100}}
SPEC: dict[str, Any] = {"jobs": 50_000, "arrivals": {"mean_gap_s": 10}, "classes": [CLASS]}


def drawn(**changes: Any) -> Any:
    return generate({**SPEC, **changes}, seed=7).jobs


def test_the_same_seed_gives_the_same_jobs_and_another_seed_others() -> None:
    digests = [generate({**SPEC, "jobs": 200, "users": 5}, seed).jobs.digest() for seed in (1, 1, 2)]
    assert digests[0] == digests[1] != digests[2]


def test_arrivals_are_poisson_and_run_times_exponential_for_an_mm1_queue() -> None:
    jobs = drawn()
    for values, mean in ((np.diff(jobs.submit_us, prepend=0) / 1e6, 10), (jobs.work_us / 1e6, 100)):
        assert values.mean() == pytest.approx(mean, rel=0.02)
        assert values.std() == pytest.approx(mean, rel=0.03)
        assert np.median(values) == pytest.approx(mean * np.log(2), rel=0.03)
    assert abs(np.corrcoef(jobs.submit_us[1:] - jobs.submit_us[:-1], jobs.work_us[1:])[0, 1]) < 0.02
    assert (jobs.tasks == 1).all()


def test_a_target_load_is_met() -> None:
    sized = [{**CLASS, "tasks": {"kind": "power-of-two", "max": 32}, "cores": 2}]
    jobs = drawn(arrivals={"load": 0.7, "cores": 500}, classes=sized)
    area = (jobs.work_us * jobs.tasks * jobs.cores).sum()
    assert area / (500 * jobs.submit_us[-1]) == pytest.approx(0.7, rel=0.02)


def test_a_fixed_interval_is_kept_exactly() -> None:
    assert np.diff(drawn(jobs=100, arrivals={"gap_s": 2.5}).submit_us).tolist() == [2_500_000] * 99


def test_classes_come_in_proportion_to_their_weights() -> None:
    jobs = drawn(classes=[{**CLASS, "name": "a", "weight": 3}, {"name": "b", "run_s": 5, "priority": 4}])
    is_b = jobs.app == jobs.app_names.index("b")
    assert is_b.mean() == pytest.approx(0.25, abs=0.01)
    assert (jobs.work_us[is_b] == 5_000_000).all()
    assert (jobs.priority == np.where(is_b, 4, 0)).all()


@pytest.mark.parametrize(
    ("distribution", "mean", "low", "high"),
    [
        (42, 42, 42, 42),
        ({"kind": "constant", "value": 42}, 42, 42, 42),
        ({"kind": "uniform", "min": 10, "max": 30}, 20, 10, 30),
        ({"kind": "exponential", "mean": 50}, 50, 0, 2000),
        ({"kind": "exponential", "mean": 50, "min": 10, "max": 20}, 10 + 50 * (np.exp(-0.2) - np.exp(-0.4)), 10, 20),
        ({"kind": "lognormal", "median": 10, "sigma": 0.5}, 10 * np.exp(0.125), 0, 200),
        ({"kind": "log-uniform", "min": 1, "max": np.e**2}, (np.e**2 - 1) / 2, 1, np.e**2),
        ({"kind": "choice", "values": [1, 5], "weights": [3, 1]}, 2, 1, 5),
        ({"kind": "choice", "values": [1, 5]}, 3, 1, 5),
        ({"kind": "power-of-two", "min": 2, "max": 9}, 14 / 3, 2, 8),
    ],
)
def test_a_distribution_has_its_mean_and_keeps_its_range(
    distribution: Any, mean: float, low: float, high: float
) -> None:
    values = drawn(classes=[{"run_s": distribution}]).work_us / 1e6
    assert values.mean() == pytest.approx(mean, rel=0.03)
    assert low - 1e-6 <= values.min() <= values.max() <= high + 1e-6


def test_requests_deadlines_users_memory_and_devices_are_drawn() -> None:
    rich = {
        **CLASS, "memory_mb": 100.2, "request_factor": {"kind": "uniform", "min": 0, "max": 3}, "deadline_factor": 4,
        "devices": {"nvme.bandwidth_mb_s": {"kind": "choice", "values": [0, 1800]}},
    }  # fmt: skip
    jobs = drawn(classes=[rich, CLASS], users=3)
    is_rich = jobs.memory_mb > 0
    assert set(jobs.memory_mb.tolist()) == {0, 101}
    assert (jobs.request_us >= jobs.work_us).all()
    assert np.allclose((jobs.deadline_us - jobs.submit_us)[is_rich], 4 * jobs.work_us[is_rich], atol=3)
    assert (jobs.deadline_us[~is_rich] == -1).all()
    assert jobs.user_names == ("1", "2", "3")
    assert set(jobs.devices["nvme", "bandwidth_mb_s"][is_rich].tolist()) == {0, 1800}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"jobs": 0}, "jobs"),
        ({"jobs": "many"}, "jobs"),
        ({"job": 5}, "job"),
        ({"arrivals": {}}, "arrivals"),
        ({"arrivals": {"load": 0.5}}, "load and cores"),
        ({"arrivals": {"load": 0.5, "cores": 4, "rate_per_h": 3}}, "one of"),
        ({"arrivals": {"kind": "bursty"}}, "bursty"),
        ({"arrivals": {"gap_s": float("inf")}}, "gap_s"),
        ({"classes": []}, "classes"),
        ({"classes": [{}]}, "run_s"),
        ({"classes": [{"run_s": -1}]}, "run_s"),
        ({"classes": [{"run_s": float("nan")}]}, "run_s"),
        ({"classes": [{"run_s": {"kind": "gamma"}}]}, "gamma"),
        ({"classes": [{"run_s": {"kind": "uniform", "min": 3, "max": 1}}]}, "above max"),
        ({"classes": [{"run_s": {"kind": "power-of-two", "min": 5, "max": 7}}]}, "no power of two"),
        ({"classes": [{"run_s": {"kind": "choice", "values": [1], "weights": [1, 2]}}]}, "2 weights"),
        ({"classes": [{"run_s": {"kind": "choice", "values": [1], "weights": [0]}}]}, "all weights"),
        ({"classes": [{"run_s": {"kind": "lognormal", "median": 1e15, "sigma": 20}}]}, "285 years"),
        ({"classes": [{"run_s": 1, "tasks": 1e12}]}, "tasks"),
        ({"classes": [{"run_s": 1, "devices": {"gpu": 1}}]}, "devices"),
        ({"classes": [{"run_s": 1, "devices": {"site.where": 1}}]}, "devices"),
        ({"classes": [{"run_s": 1, "weight": 0}]}, "weight"),
        ({"arrivals": {"mean_gap_s": 1e15}}, "285 years"),
    ],
)
def test_a_wrong_specification_is_refused_with_its_key(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        generate({**SPEC, "jobs": 10, **changes})
    assert words in str(caught.value)


@draws(60)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["kind", "run_s", "gap_s", "min", "value"]), inner, max_size=3)
        ),
        max_leaves=6,
    ),
    st.sampled_from(["jobs", "arrivals", "classes", "users"]),
)
def test_any_value_under_any_key_is_taken_or_refused_in_words(value: Any, key: str) -> None:
    spec = {**SPEC, "jobs": 3, key: value}
    if key == "jobs" and isinstance(value, (int, float)) and value > 1000:
        return
    try:
        made = generate(spec)
    except InputError:
        return
    assert len(made) == int(spec["jobs"])
