"""Disaggregated memory in the real engine, on few jobs."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pretend import rows_of
from pretend_memory import pretended

from unrack_papers.execution import execute, tasks_of
from unrack_papers.pages.page import as_csv
from unrack_papers.table import REPRODUCTIONS
from unrack_papers.zacarias.counts import KINDS, RESPONSES_S, attempts
from unrack_papers.zacarias.prediction import REPRODUCTION as PREDICTION
from unrack_papers.zacarias.systems import BASELINE, REFERENCE

NAMES = [name for name, one in REPRODUCTIONS.items() if name.startswith("memory-") and not one.exact]


@pytest.mark.parametrize("name", NAMES)
def test_every_row_of_some_points_is_measured(name: str) -> None:
    one = replace(REPRODUCTIONS[name], points=REPRODUCTIONS[name].points[-2:], derive=None)
    measured = execute(one, replace(one.defaults, seeds=1, jobs=60))
    for (_, _, row), (values,) in measured.values.items():
        assert values["jobs_rejected"] == 0
        assert values["jobs_finished"] == 60
        assert values["jobs_per_h"]
        assert values["attempts"] is not None
        assert ("wall_s" in values) == (name == "memory-overhead")
        if row not in (BASELINE, REFERENCE):
            assert values["remote_share"] is not None
        for kind in KINDS:
            within = [values[f"within.{kind}.{time_s}"] for time_s in RESPONSES_S]
            assert within == sorted(within, key=lambda share: share or 0)


@pytest.mark.long
def test_results_are_the_same_over_processes() -> None:
    one = REPRODUCTIONS["memory-policies"]
    one = replace(one, points=one.points[-2:])
    options = replace(one.defaults, seeds=1, jobs=40)
    assert as_csv(execute(one, options)) == as_csv(execute(one, options, jobs=2))


def test_counts_of_a_run_agree_with_its_metrics() -> None:
    one = REPRODUCTIONS["memory-response"]
    task = tasks_of(replace(one, points=one.points[1:2]), replace(one.defaults, seeds=1, jobs=80))[0]
    for values in rows_of(one, task):
        assert values["response.all.mean"] == pytest.approx(values["response_s_mean"])
        assert values["response.all.median"] == pytest.approx(values["response_s_median"])
        assert values["within.all.5529600"] == 1
        assert (values["jobs_per_h"] or 0) * (values["makespan_s"] or 0) == pytest.approx(80 * 3600)


@given(st.lists(st.tuples(st.integers(1, 900), st.integers(0, 300)), min_size=1, max_size=8))
def test_attempts_are_those_counted_round_by_round(steps: list[tuple[int, int]]) -> None:
    times, queued = [0.0], []
    for rounds, waiting in steps:
        times.append(times[-1] + 30.0 * rounds)
        queued.append(waiting)
    counted = sum(min(waiting, 100) for rounds, waiting in steps for _ in range(rounds))
    assert attempts(pl.DataFrame({"time_s": times, "queued_jobs": [*queued, 0]})) == pytest.approx(counted)


@pytest.mark.long
def test_predictions_of_the_synthetic_profiles_are_judged_without_seeds() -> None:
    measured = pretended(PREDICTION.name, 1)
    verdicts = [claim.judge(measured).verdict for claim in PREDICTION.claims]
    assert set(verdicts) <= {"agrees", "differs"}
    assert verdicts[0] == "agrees"
    for place in measured.reproduction.printed:
        assert measured.at(place, "mean") is not None
