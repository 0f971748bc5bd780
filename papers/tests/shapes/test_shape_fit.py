from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from curves_by_hand import usage_curves

from unrack.errors import InputError
from unrack.workload.usage.curves import UsageSeries, series_of
from unrack.workload.usage.described import KINDS, properties
from unrack.workload.usage.read import read_usage
from unrack_papers.shapes.draw import drawn
from unrack_papers.shapes.fit import fit
from unrack_papers.shapes.parameters import SHAPES, shapes_of


def made(name: str, count: int = 4000, seed: int = 3) -> UsageSeries:
    rng = np.random.default_rng(11)
    run_s = np.exp(rng.uniform(np.log(3e4), np.log(5e5), count))
    tasks = rng.integers(1, 13, count) if name == "grizzly" else np.ones(count, np.int64)
    return series_of(drawn(shapes_of(name), tasks, run_s, np.full(count, 10**6), seed), run_s)


@pytest.mark.long
@pytest.mark.parametrize("name", SHAPES)
def test_a_fit_finds_again_the_shapes_that_drew_the_curves(name: str) -> None:
    found, shapes = fit(made(name)), shapes_of(name)
    assert found.shapes.weights() == pytest.approx(shapes.weights(), abs=0.07)
    for kind, parameters in shapes.kinds.items():
        again = found.shapes.kinds[kind]
        middle = parameters.mean_over_peak[len(parameters.mean_over_peak) // 2]
        assert np.interp(0.5, np.linspace(0, 1, 9), again.mean_over_peak[:9]) == pytest.approx(middle, abs=0.1)
        assert again.persistence == pytest.approx(0.0 if kind == "ramp" else parameters.persistence, abs=0.35)
    if shapes.nodes is not None:
        assert found.shapes.nodes is not None
        assert found.shapes.nodes.spread == pytest.approx(shapes.nodes.spread, abs=0.01)
        assert found.shapes.nodes.alike == pytest.approx(shapes.nodes.alike, abs=0.15)
    assert found.shapes.kinds["spikes"].spread == pytest.approx(0.3, abs=0.15)
    assert max(marginal.distance for marginal in found.marginals) < 0.12


def test_the_interval_of_samples_is_that_of_the_file() -> None:
    assert fit(made("google")).shapes.interval_s == pytest.approx(300, rel=0.02)


@pytest.mark.parametrize(
    ("points", "kind"),
    [
        ([(0, 100)], "flat"),
        ([(0, 50), (0.1, 100)], "flat"),
        ([(k / 10, 10 * k + 10) for k in range(10)], "ramp"),
        ([(0, 40), (0.3, 100), (0.6, 60)], "phases"),
        ([(0, 10), (0.5, 100), (0.52, 12)], "spikes"),
    ],
)
def test_a_curve_is_of_the_kind_that_one_sees(points: list[tuple[float, float]], kind: str) -> None:
    found = properties(series_of(usage_curves([[points]])).over_peak())
    assert KINDS[found.kind[0]] == kind


def test_properties_are_those_worked_out_by_hand() -> None:
    found = properties(series_of(usage_curves([[[(0, 40), (0.3, 100), (0.6, 60)], [(0, 10)]]])).over_peak())
    assert found.ratio.tolist() == pytest.approx([0.66, 1.0])
    assert found.near.tolist() == pytest.approx([0.3, 1.0])
    assert found.steps.tolist() == [3, 1]


def test_too_few_jobs_are_refused() -> None:
    with pytest.raises(InputError, match="4 jobs that use memory, wanted 5 or more"):
        fit(series_of(usage_curves([[[(0, 1)]]] * 4 + [[[(0, 0)]]])))


@pytest.mark.needs_data
def test_curves_drawn_after_real_pods_agree_with_them(data: Path) -> None:
    found = fit(read_usage(data / "memory" / "genai-pods-memory-half.csv.gz"))
    assert (found.jobs, found.counts["flat"]) == (103, 55)
    distance = {marginal.name: marginal.distance for marginal in found.marginals}
    assert all(one < 0.14 for one in distance.values()), distance  # what chance alone passes in 1 of 20 at 103 jobs
