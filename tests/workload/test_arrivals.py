from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from unrack.errors import InputError
from unrack.workload.generate.generator import generate

BURSTS = {"kind": "mmpp", "burst_ratio": 8, "mean_burst_s": 500, "mean_quiet_s": 1500}


def submissions_s(arrivals: dict[str, Any], seed: int = 7, **changes: Any) -> np.ndarray:
    spec = {"jobs": 60_000, "arrivals": arrivals, "classes": [{"run_s": 50}], **changes}
    return generate(spec, seed).jobs.submit_us / 1e6


def dispersion(times_s: np.ndarray, window_s: float) -> float:
    """Variance over mean of the number of arrivals in windows: 1 for a Poisson process."""
    counts = np.bincount((times_s / window_s).astype(np.int64))[:-1]
    return float(counts.var() / counts.mean())


def test_uniform_gaps_lie_between_none_and_twice_their_mean() -> None:
    gaps = np.diff(submissions_s({"kind": "uniform", "mean_gap_s": 10}), prepend=0)
    assert gaps.mean() == pytest.approx(10, rel=0.01)
    assert 0 <= gaps.min() < 0.01
    assert 19.99 < gaps.max() <= 20
    assert gaps.std() == pytest.approx(20 / np.sqrt(12), rel=0.01)


@pytest.mark.parametrize("rate", [{"mean_gap_s": 10}, {"rate_per_h": 360}, {"load": 0.5, "cores": 10}])
@pytest.mark.parametrize("bursts", [BURSTS, {**BURSTS, "burst_ratio": 1}, {**BURSTS, "mean_burst_s": 4000}])
def test_bursty_arrivals_have_the_mean_rate_that_was_asked_for(rate: dict[str, Any], bursts: dict[str, Any]) -> None:
    times = submissions_s({**bursts, **rate})
    assert times[-1] / len(times) == pytest.approx(10, rel=0.05)
    assert (np.diff(times) >= 0).all()


def test_bursty_arrivals_are_burstier_than_poisson_as_theory_says() -> None:
    assert dispersion(submissions_s({"mean_gap_s": 10}), 2000) == pytest.approx(1, rel=0.1)
    assert dispersion(submissions_s({**BURSTS, "burst_ratio": 1, "mean_gap_s": 10}), 2000) == pytest.approx(1, rel=0.1)
    # Index of dispersion of counts in a window t of a two-state MMPP with rates a, b and switching rates r, s.
    quiet = 0.1 / (0.75 + 8 * 0.25)
    a, b, r, s, t = 8 * quiet, quiet, 1 / 500, 1 / 1500, 2000.0
    factor = 2 * (a - b) ** 2 * r * s / ((r + s) ** 2 * (a * s + b * r))
    theory = 1 + factor * (1 - (1 - np.exp(-(r + s) * t)) / ((r + s) * t))
    measured = np.mean([dispersion(submissions_s({**BURSTS, "mean_gap_s": 10}, seed), t) for seed in range(4)])
    assert theory > 15
    assert measured == pytest.approx(theory, rel=0.1)


def test_bursts_stay_where_they_are_when_the_rate_changes() -> None:
    for gap in (2, 10):
        times = submissions_s(
            {**BURSTS, "burst_ratio": 1e6, "mean_burst_s": 1e4, "mean_quiet_s": 1e4, "mean_gap_s": gap}
        )
        starts = times[1:][np.diff(times) > 1000]
        if gap == 2:
            first = starts[:3]
        assert starts[:3] == pytest.approx(first, abs=60)  # the first arrival of a burst


def test_bursty_and_poisson_arrivals_bring_the_same_jobs() -> None:
    classes = [{"name": "a", "run_s": {"kind": "exponential", "mean": 9}}, {"name": "b", "run_s": 4}]
    made = [
        generate({"jobs": 300, "arrivals": {"mean_gap_s": 5, **kind}, "classes": classes}, 3).jobs
        for kind in ({}, BURSTS)
    ]
    assert (made[0].work_us == made[1].work_us).all()
    assert (made[0].submit_us != made[1].submit_us).all()


def test_fixed_arrivals_may_be_spaced_for_a_load() -> None:
    times = submissions_s({"kind": "fixed", "load": 0.5, "cores": 4}, jobs=10)
    assert np.diff(times) == pytest.approx(np.full(9, 25.0))


def test_amounts_of_the_fat_node_may_be_text() -> None:
    job = {"run_s": 10, "devices": {"nvme.bandwidth_mb_s": 500, "nvme.capacity_mb": 1024}}
    fat = {"nvme.bandwidth_mb_s": "2 GB/s", "nvme.capacity_mb": "2 GB"}
    made = {
        of: submissions_s({"kind": "fixed", "load": 1, "fat_node": fat, "load_of": of.split()}, classes=[job], jobs=2)
        for of in ("nvme.bandwidth_mb_s", "nvme.capacity_mb", "nvme.capacity_mb nvme.bandwidth_mb_s")
    }
    assert [times[0] for times in made.values()] == [2.5, 5, 5]


@pytest.mark.parametrize(
    ("arrivals", "digest"),
    [
        ({"mean_gap_s": 10}, "36343fb6ffb968e3"),
        ({"load": 0.8, "cores": 64}, "9d77a075d9f482bb"),
        ({"gap_s": 4}, "39412e05e1a4f5a0"),
    ],
)
def test_a_seed_gives_the_workload_that_it_gave_in_the_first_version(arrivals: dict[str, Any], digest: str) -> None:
    a = {
        "run_s": {"kind": "exponential", "mean": 100}, "deadline_factor": 4,
        "devices": {"nvme.bandwidth_mb_s": {"kind": "choice", "values": [0, 1800]}},
    }  # fmt: skip
    b = {
        "name": "b", "run_s": {"kind": "lognormal", "median": 10, "sigma": 0.5}, "priority": 3,
        "tasks": {"kind": "power-of-two", "max": 32},
    }  # fmt: skip
    jobs = generate({"jobs": 500, "users": 4, "arrivals": arrivals, "classes": [a, b]}, 5).jobs
    assert jobs.digest().startswith(digest)


@pytest.mark.parametrize(
    ("arrivals", "words"),
    [
        ({"kind": "uniform"}, "one of"),
        ({"kind": "uniform", "gap_s": 3}, "gap_s"),
        ({"kind": "mmpp", "mean_gap_s": 3}, "burst_ratio"),
        ({**BURSTS, "burst_ratio": 0.5, "mean_gap_s": 3}, "burst_ratio"),
        ({**BURSTS, "mean_quiet_s": 0, "mean_gap_s": 3}, "mean_quiet_s"),
        ({**BURSTS, "mean_gap_s": 1e9, "mean_quiet_s": 1e-9, "mean_burst_s": 1e-9}, "longer bursts"),
        ({"kind": "fixed"}, "gap_s, or load"),
        ({"kind": "fixed", "gap_s": 1, "load": 1, "cores": 1}, "gap_s, or load"),
        ({"kind": "fixed", "rate_per_h": 3}, "rate_per_h"),
        ({"mean_gap_s": 3, "load_on": "fat-node"}, "load_on only beside load"),
        ({"mean_gap_s": 3, "fat_node": {"cores": 5}}, "fat_node only beside load"),
        ({"load": 1, "cores": 3, "load_on": "paper"}, "fat-node"),
        ({"load": 1, "cores": 3, "fat_node": {"cores": 5}}, "cores either"),
        ({"load": 1, "cores": 3, "load_of": ["nvme.bandwidth_mb_s"]}, "fat_node with nvme.bandwidth_mb_s"),
        ({"load": 1, "cores": 3, "load_of": []}, "load_of"),
        ({"load": 1, "fat_node": {"cores": "many"}}, "20 GB/s"),
        ({"load": 1, "fat_node": {"gpu": 4}}, "fat_node"),
        ({"load": 1, "fat_node": {"gpu.slots": 4}, "load_of": ["gpu.slots"]}, "jobs ask for it"),
    ],
)
def test_wrong_arrivals_are_refused_in_words(arrivals: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        submissions_s(arrivals, jobs=5)
    assert words in str(caught.value)
