from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from curves_by_hand import usage_curves

from unrack.errors import InputError
from unrack.workload.job import JobTable, job_table
from unrack.workload.usage.attach import constant, fitted, given, matched, part_of, with_constants
from unrack.workload.usage.curves import UsageSeries, series_of

S = 1_000_000


def jobs(run_s: list[int], tasks: list[int] | None = None, memory_mb: list[int] | None = None) -> JobTable:
    count = len(run_s)
    return job_table(
        submit_us=np.arange(count) * S,
        work_us=np.array(run_s) * S,
        tasks=np.array(tasks or [1] * count),
        memory_mb=np.array(memory_mb or [0] * count),
    )


def source(run_s: list[float], mb: list[float]) -> UsageSeries:
    return series_of(usage_curves([[[(0, one)]] for one in mb]), np.array(run_s), source="source")


def test_the_nearest_is_that_of_the_nearest_logarithms() -> None:
    rows, words = matched(jobs([10, 900, 95]), source([10.0, 100.0, 1000.0], [1, 1, 1]), "nearest")
    assert rows.tolist() == [0, 2, 1]
    assert words == "nearest by run time"


def test_each_property_weighs_by_its_spread_among_the_sources() -> None:
    sources = source([10.0, 1000.0], [1000, 1010])  # a hundred times the time weighs as much as 10 MB
    rows, words = matched(jobs([10, 20], memory_mb=[1000, 1010]), sources, "nearest")
    assert (rows.tolist(), words) == ([0, 1], "nearest by run time, memory")


def test_sources_that_are_equally_near_are_taken_in_turns() -> None:
    rows, _ = matched(jobs([50] * 5), source([60.0, 60.0, 9000.0], [1, 2, 3]), "nearest")
    assert rows.tolist() == [0, 1, 0, 1, 0]


def test_a_property_that_all_sources_share_does_not_count() -> None:
    sources = source([82_137.0] * 3, [10, 100, 1000])
    rows, _ = matched(jobs([60, 60, 60], memory_mb=[900, 90, 9]), sources, "nearest")
    assert rows.tolist() == [2, 1, 0]


def test_sizes_count_where_the_source_names_nodes() -> None:
    sources = series_of(usage_curves([[[(0, 5)]], [[(0, 5)]] * 8]))
    rows, words = matched(jobs([10, 10], tasks=[7, 1]), sources, "nearest")
    assert (rows.tolist(), words) == ([1, 0], "nearest by size")


def test_by_id_gives_a_job_its_own_and_others_none() -> None:
    sources = series_of(usage_curves([[[(0, 5)]], [[(0, 6)]]]), ids=pl.Series(["3", "1"]))
    assert matched(jobs([1, 1, 1]), sources, "id")[0].tolist() == [1, -1, 0]
    with pytest.raises(InputError, match="ids such as 'x', wanted ids of the trace's jobs, such as 1"):
        matched(jobs([1]), series_of(usage_curves([[[(0, 5)]]]), ids=pl.Series(["x"])), "id")


def test_random_matches_follow_the_seed_and_pass_over_sources_that_use_nothing() -> None:
    sources = source([1.0] * 4, [0, 5, 0, 6])
    first = matched(jobs([1] * 200), sources, "random", 7)[0]
    assert first.tolist() == matched(jobs([1] * 200), sources, "random", 7)[0].tolist()
    assert first.tolist() != matched(jobs([1] * 200), sources, "random", 8)[0].tolist()
    assert set(first.tolist()) == {1, 3}


def test_halves_of_a_source_hold_each_of_its_jobs_once() -> None:
    sources = source([1.0] * 5, [1, 2, 3, 4, 5])
    assert part_of(sources, "first half").amount.tolist() == [1, 2, 3]
    assert part_of(sources, "second half").amount.tolist() == [4, 5]


def test_what_cannot_be_matched_is_refused() -> None:
    with pytest.raises(InputError, match="neither sizes nor run times nor MB"):
        matched(jobs([1]), series_of(usage_curves([[[(0, 5)]]])), "nearest")
    with pytest.raises(InputError, match="no job that uses memory"):
        matched(jobs([1]), source([1.0], [0]), "random")


def test_a_job_gets_a_curve_a_task_from_a_source_with_nodes() -> None:
    four = usage_curves([[[(0, 10)], [(0, 40)], [(0, 20)], [(0, 30)]], [[(0, 7)]]])
    table = jobs([1, 1, 1, 1, 1], tasks=[4, 2, 6, 1, 3])
    usage = given(table, four, np.array([0, 0, 0, 0, 1]))
    per_job = [usage.mb[usage.first[k] : usage.first[k + 1]].tolist() for k in range(5)]
    assert per_job == [[40, 30, 20, 10], [40, 10], [40, 30, 20, 10, 40, 30], [40], [7]]


def test_scales_make_the_peak_the_request_or_the_request_the_peak() -> None:
    table = jobs([1, 1, 1], memory_mb=[100, 10, 0])
    usage = usage_curves([[[(0, 5), (0.5, 20)]], [[(0, 30)]], [[(0, 8)]]])
    scaled, _ = fitted(table, usage, "request")
    assert scaled.usage is not None
    assert (scaled.usage.mb.tolist(), scaled.memory_mb.tolist()) == ([25, 100, 10, 0], [100, 10, 0])
    kept, _ = fitted(table, usage, "none", cap_mb=25)
    assert kept.usage is not None
    assert (kept.usage.mb.tolist(), kept.memory_mb.tolist()) == ([5, 20, 25, 8], [20, 25, 8])
    cut, words = fitted(table, usage, "cut")
    assert cut.usage is not None
    assert (cut.usage.mb.tolist(), cut.memory_mb.tolist()) == ([5, 20, 10, 8], [100, 10, 8])
    assert "1 jobs cut at the request" in words


def test_constant_curves_fill_in_where_there_is_none() -> None:
    table = jobs([1, 1, 1], memory_mb=[5, 6, 7])
    assert constant(table, table.memory_mb, np.array([True, False, True])).mb.tolist() == [5, 7]
    usage = usage_curves([[], [[(0, 1), (0.5, 2)]], []])
    both = with_constants(fitted(table, usage, "none")[0], table.memory_mb, np.array([True, True, False]))
    assert both.curves.tolist() == [1, 1, 0]
    assert both.mb.tolist() == [5, 1, 2]
