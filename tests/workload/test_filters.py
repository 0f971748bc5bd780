from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

from unrack.errors import InputError
from unrack.workload.account import local_clock
from unrack.workload.filters import FILTERS, filtered, jitter, rebase, scale_load, window
from unrack.workload.formats.rules import Intake
from unrack.workload.job import Workload, job_table

S = 1_000_000


def made() -> Workload:
    jobs = job_table(
        submit_us=np.array([100, 110, 130, 130]) * S,
        work_us=np.full(4, S),
        tasks=np.array([1, 2, 4, 8]),
        cores=np.full(4, 2),
        user=pl.Series(["ann", "bob", "ann", None]),
        deadline_us=np.array([150 * S, -1, 200 * S, -1]),
    )
    return Workload("made", jobs, Intake("test", "generated", 4, 4))


def test_a_window_counts_from_the_first_submission_and_leaves_times_alone() -> None:
    part = window(made(), 5 * S, 30 * S)
    assert (part.jobs.submit_us // S).tolist() == [110]
    assert part.intake.dropped == {"outside window": 3}
    assert part.intake.kept == 1
    assert part.intake.header["Filters"] == "window from 5 s to 30 s: 1 of 4 jobs kept"


@pytest.mark.parametrize(
    ("filters", "ids"),
    [
        ({"window": ["10 s", "1 h"]}, [2, 3, 4]),
        ({"users": ["ann"]}, [1, 3]),
        ({"sizes": [4, 8]}, [2, 3]),
        ({"first": 3}, [1, 2, 3]),
        ({"first": 1, "users": ["bob"]}, [2]),
        ({}, [1, 2, 3, 4]),
    ],
)
def test_filters_by_name_keep_the_jobs_they_should(filters: dict[str, Any], ids: list[int]) -> None:
    assert filtered(made(), filters).jobs.ids.to_list() == ids


def test_scaling_the_load_divides_the_gaps_and_moves_deadlines_along() -> None:
    scaled = scale_load(made(), 2.0)
    assert (scaled.jobs.submit_us // S).tolist() == [100, 105, 115, 115]
    assert (scaled.jobs.deadline_us // S).tolist() == [150, -1, 185, -1]
    assert scaled.intake.changed == {"arrivals scaled": 3}
    assert scaled.jobs.work_us.tolist() == made().jobs.work_us.tolist()


def test_jobs_that_scaling_makes_simultaneous_are_in_order_of_their_ids() -> None:
    jobs = job_table(
        submit_us=np.array([0, 1, 2]), work_us=np.ones(3), tasks=np.ones(3), ids=pl.Series([5, 4, 3])
    )  # fmt: skip
    scaled = scale_load(Workload("made", jobs, Intake("test", "generated", 3, 3)), 100)
    assert scaled.jobs.ids.to_list() == [3, 4, 5]


def test_rebasing_moves_everything_to_the_start_asked_for() -> None:
    moved = filtered(made(), {"rebase": "1 min"})
    assert (moved.jobs.submit_us // S).tolist() == [60, 70, 90, 90]
    assert (moved.jobs.deadline_us // S).tolist() == [110, -1, 160, -1]
    assert rebase(moved, 60 * S).jobs.digest() == moved.jobs.digest()


@pytest.mark.parametrize("began", [1_767_600_469, None])  # None: times are dates themselves
def test_dates_stay_where_they_were_when_times_are_rebased(began: int | None) -> None:
    at = 0 if began else 1_767_600_469
    jobs = replace(made().jobs, submit_us=made().jobs.submit_us + at * S)
    header = {"TimeZoneString": "Europe/Madrid"} | ({"UnixStartTime": str(began)} if began else {})
    log = replace(made(), jobs=jobs, intake=replace(made().intake, header=header))
    moved = rebase(log, 7 * S)
    assert moved.jobs.submit_us[0] == 7 * S
    before, after = (local_clock(one.jobs.submit_us, one.intake.header) for one in (log, moved))
    assert before is not None
    assert str(before[0][0]) == "2026-01-05 09:09:29"
    assert after is not None
    assert after[0].to_list() == before[0].to_list()
    assert "UnixStartTime" not in rebase(made()).intake.header


def test_times_beyond_all_dates_are_no_dates() -> None:
    assert local_clock([1_767_600_469 * S, 2**34 * S], {}) is None


def spaced(count: int) -> Workload:
    submit = np.arange(count) * 1000 * S
    jobs = job_table(submit_us=submit, work_us=np.full(count, S), tasks=np.ones(count), deadline_us=submit + 50 * S)
    return Workload("spaced", jobs, Intake("test", "generated", count, count))


def test_jitter_moves_submissions_evenly_either_way_and_deadlines_along() -> None:
    before, after = spaced(4000).jobs, filtered(spaced(4000), {"jitter": "30 s"}, seed=3).jobs
    assert after.ids.to_list() == before.ids.to_list()
    moved = (after.submit_us - before.submit_us)[1:] / S  # the first is at 0, where half of the draws cannot go
    assert -30 <= moved.min() < -29 < 29 < moved.max() <= 30
    assert abs(moved.mean()) < 1
    assert moved.std() == pytest.approx(30 / 3**0.5, rel=0.05)
    assert (after.deadline_us - after.submit_us == 50 * S).all()
    assert (after.work_us == before.work_us).all()


def test_jitter_is_of_the_seed_and_never_goes_below_zero() -> None:
    once, again, other = (jitter(spaced(50), 900 * S, seed).jobs for seed in (1, 1, 2))
    assert once.digest() == again.digest() != other.digest()
    assert all(jitter(spaced(50), 900 * S, seed).jobs.submit_us.min() >= 0 for seed in range(20))
    assert jitter(spaced(50), 0, 5).jobs.digest() == spaced(50).jobs.digest()


def test_jobs_that_jitter_moves_past_each_other_are_sorted_and_counted() -> None:
    shaken = jitter(made(), 100 * S, seed=4)
    assert (np.diff(shaken.jobs.submit_us) >= 0).all()
    assert shaken.jobs.ids.to_list() != [1, 2, 3, 4]
    assert shaken.intake.changed == {"arrivals jittered": 4}
    assert "up to 1 min 40 s either way, seed 4" in shaken.intake.header["Filters"]


@pytest.mark.parametrize("name", FILTERS)
def test_every_filter_takes_an_empty_workload(name: str) -> None:
    empty = filtered(made(), {"window": ["10 d", "11 d"]})
    values: dict[str, Any] = {"window": [0, 1], "sizes": [1, 2], "users": ["ann"], "usage": "google",
                              "resample": {"of": 1}, "sessions": "users"}  # fmt: skip
    assert len(filtered(empty, {name: values.get(name, 1)})) == 0


@pytest.mark.parametrize(
    "filters",
    [
        {"windows": [0, 1]},
        {"window": ["2 d", "1 d"]},
        {"window": "1 d"},
        {"window": ["1 parsec", "2 parsec"]},
        {"window": [None, 3]},
        {"users": ["eve"]},
        {"users": 7},
        {"sizes": [4, 2]},
        {"sizes": ["1", "2"]},
        {"first": 0},
        {"first": 2.5},
        {"first": True},
        {"scale_load": 0},
        {"scale_load": float("nan")},
        {"scale_load": 1e-15},
        {"jitter": "-1 s"},
        {"jitter": "a while"},
        {"rebase": -1},
        {"rebase": "noon"},
    ],
)
def test_a_filter_with_a_wrong_value_is_refused(filters: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="filter"):
        filtered(made(), filters)
