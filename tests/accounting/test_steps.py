"""What is held over time, counted for many things at once, against a plain look at every moment."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unrack.resources.contract import Usual, UsualResource
from unrack.resources.use import Kept, Metric, use_of, use_tables
from unrack.steps import areas_of, each_of, held_between, largest, levels, means, spells, summed

USES = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 12), st.integers(0, 6), st.integers(1, 5)), min_size=1, max_size=14
)
"""Which thing, from when, for how long, how much."""
Uses = list[tuple[int, int, int, int]]


def columns(uses: Uses) -> list[np.ndarray[Any, np.dtype[np.int64]]]:
    return [np.array([use[at] for use in uses], np.int64) for at in range(4)]


def claims_of(uses: Uses) -> pl.DataFrame:
    rows = [(i, f"place{who}", "mb", float(at), float(at + long), much) for i, (who, at, long, much) in enumerate(uses)]
    names = {"job": pl.Int64, "place": pl.String, "quantity": pl.String, "start_s": pl.Float64, "end_s": pl.Float64,
             "amount": pl.Int64}  # fmt: skip
    return pl.DataFrame(rows, schema=names, orient="row")


def held(uses: Uses, moment: float, which: int | None = None) -> int:
    """By a plain sum."""
    return sum(much for who, at, long, much in uses if at <= moment < at + long and (which is None or which == who))


@given(USES)
def test_levels_of_many_things_are_those_of_a_plain_sum_for_each(uses: Uses) -> None:
    who, at, long, much = columns(uses)
    thing, when, (level, count) = levels(who, at, at + long, np.stack([much, np.ones_like(much)]))
    assert [(a, b) for a, b in zip(thing.tolist(), when.tolist(), strict=True)] == sorted(set(zip(
        np.tile(who, 2).tolist(), np.concatenate([at, at + long]).tolist(), strict=True
    )))  # fmt: skip
    for which, moment, amount, several in zip(*(own.tolist() for own in (thing, when, level, count)), strict=True):
        assert amount == held(uses, moment, which)
        assert several == held([(*use[:3], 1) for use in uses], moment, which)


@given(USES)
def test_spells_summed_count_the_things_in_use_at_every_moment(uses: Uses) -> None:
    who, at, long, _ = columns(uses)
    times, (count,) = summed(spells(who, at, at + long)[1:])
    for moment in np.arange(0, 20, 0.5):
        known = np.searchsorted(times, moment, side="right")
        assert (count[known - 1] if known else 0) == sum(held(uses, moment, which) > 0 for which in range(4))


@given(USES, st.integers(0, 8), st.integers(0, 12))
def test_what_is_held_in_a_window_has_the_levels_and_the_area_of_a_plain_sum(
    uses: Uses, start: int, length: int
) -> None:
    times, level = held_between(claims_of(uses), start, start + length)
    halves = np.arange(start, start + length, 0.5)
    assert (times[0], times[-1]) == (start, start + length)
    for moment in halves:
        assert level[np.searchsorted(times, moment, side="right") - 1] == held(uses, moment)
    area = sum(held(uses, moment) for moment in halves) / 2
    steps = pl.DataFrame({"time_s": times, "held": level})
    assert areas_of(steps, ["held"], start, start + length)["held"] == pytest.approx(area)
    if length:
        assert means(times, level[:-1], np.linspace(start, start + length, 4)).mean() == pytest.approx(area / length)


@given(USES, st.integers(-1, 14), st.integers(0, 12))
def test_the_largest_level_of_a_window_is_one_that_it_has_at_some_moment(uses: Uses, start: int, length: int) -> None:
    times, level = held_between(claims_of(uses), 0.0, 30.0)
    steps = pl.DataFrame({"time_s": times, "held": level})
    moments = np.arange(start, start + length + 0.5, 0.5).tolist()  # both ends included
    assert largest(steps, "held", start, start + length) == max(held(uses, moment) for moment in moments)


@given(USES)
def test_use_of_places_is_that_of_a_plain_look_every_second(uses: Uses) -> None:
    installed = {f"place{which}": 3 + which for which in range(5)}
    found = use_of(installed, claims_of(uses), 2.0, 17.0)
    seconds = range(2, 17)
    assert found.used == pytest.approx(sum(held(uses, s) for s in seconds) / (25 * 15))
    assert found.peak == pytest.approx(max(held(uses, s, w) / (3 + w) for s in seconds for w in range(4)))
    assert found.full == pytest.approx(sum(any(held(uses, s, w) >= 3 + w for w in range(4)) for s in seconds) / 15)
    assert use_of(installed, claims_of(uses), 3.0, 3.0) == use_of({}, claims_of(uses), 0.0, 9.0) == (None, None, None)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 4)), max_size=8))
def test_runs_of_numbers_are_told_one_by_one(runs: list[tuple[int, int]]) -> None:
    first, count = (np.array([run[at] for run in runs], np.int64) for at in range(2))
    which, number = each_of(first, count)
    wanted = [(i, value) for i, (low, many) in enumerate(runs) for value in range(low, low + many)]
    assert list(zip(which.tolist(), number.tolist(), strict=True)) == wanted


class Outside(UsualResource):
    """A resource of another package that says nothing of what is to be shown."""

    name = "mine"
    title = "Mine"
    metrics = (Metric("used_mine", "", "", "share that jobs held", ""), Metric("count_mine", "", "", "a number", ""))

    def installed(self, table: Any, nodes: Any, where: str) -> Any:
        """Nothing."""
        return Usual


def test_a_resource_from_outside_is_shown_without_a_word_of_its_own() -> None:
    claims = claims_of([(0, 0, 3600, 2), (0, 1800, 1800, 5), (1, 0, 0, 9)])
    jobs = pl.DataFrame({"mine.mb": [2, 5, 9, 7, 0], "wait_s": [0.0, 120.0, 30.0, None, 99.0],
                         "state": ["finished"] * 3 + ["queued", "queued"]})  # fmt: skip
    run = Kept("fcfs", 0, {}, {"used_mine": 0.25, "count_mine": 7.0}, claims, None, {"jobs": jobs}.__getitem__)
    (table,) = Outside().section([run, run._replace(policy="easy", table=None)])
    assert table.head == ("policy", "jobs", "held at most", "used_mine", "amount x hours", "waited", "not served")
    assert table.rows == (
        ("fcfs", "3", "7", "25.0 %", "4.5", "50 s", "1"), ("easy", "3", "7", "25.0 %", "4.5", "–", "–"),
    )  # fmt: skip
    assert table.picture.count("<polyline") == 2
    assert "fcfs: 4.50 held on average" in table.picture
    assert Outside().section([]) == ()
    late = run._replace(claims=claims.with_columns(pl.col("start_s", "end_s") + 1_717_160_000))
    assert all(f">{words}</text>" in Outside().section([late])[0].picture for words in ("0 s", "1 h"))
    assert use_tables([], "mine.mb", "", "") == ()
