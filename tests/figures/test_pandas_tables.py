"""Tables of results for pandas."""

import sys
from datetime import datetime

import polars as pl
import pytest

import unrack
from unrack.plots.accessor import to_pandas

pandas = pytest.importorskip("pandas")


@pytest.fixture(autouse=True)
def _no_pyarrow(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)


@pytest.fixture(scope="module")
def result():
    jobs = {"jobs": 20, "arrivals": {"gap_s": 5}, "classes": [{"run_s": 10}]}
    return unrack.simulate(unrack.Cluster.homogeneous(2, 1), unrack.generate(jobs, seed=0), "fcfs")


def test_every_value_of_the_jobs_is_the_same_in_pandas(result):
    found = result.to_pandas()
    assert list(found.columns) == result.jobs.columns
    for name in result.jobs.columns:
        for mine, theirs in zip(result.jobs[name].to_list(), found[name].tolist(), strict=True):
            assert theirs == mine or (mine is None and (theirs is None or theirs != theirs)), name


def test_gaps_lists_times_and_truth_values_come_through():
    frame = pl.DataFrame({
        "whole": [1, None], "flag": [True, None], "text": ["a", None], "list": [[1, 2], []],
        "when": [datetime(2024, 1, 1), None],
    })  # fmt: skip
    found = to_pandas(frame)
    assert found["whole"].isna().tolist() == [False, True]
    assert found["flag"].tolist()[0] is True
    assert [list(own) for own in found["list"]] == [[1, 2], []]
    assert found["when"][0] == pandas.Timestamp("2024-01-01")
    assert found["text"].isna().tolist() == [False, True]
    assert len(to_pandas(frame.clear())) == 0


def test_a_table_that_is_not_there_is_an_error_that_names_those_that_are(result):
    with pytest.raises(unrack.InputError, match="jobs, usage"):
        result.to_pandas("job")
    with pytest.raises(unrack.InputError, match="a run that has tiers"):
        result.to_pandas("tiers")
    assert len(result.to_pandas("placements")) == 20
