"""The arithmetic: intervals over seeds, marks beside the paper's values, the long form."""

from __future__ import annotations

import csv
import io
import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pretend import engine, shut

from unrack_papers.call.printed import LOADS, QUANTITIES, ROWS, S1, S2, S3, TRUE, printed
from unrack_papers.execution import execute
from unrack_papers.measured import Measured
from unrack_papers.options import Options
from unrack_papers.pages.page import COLUMNS, as_csv, cells_found, warnings_of
from unrack_papers.reproduction import Place
from unrack_papers.table import REPRODUCTIONS
from unrack_papers.verdict import Verdict, interval

ONE = REPRODUCTIONS["nvme-s1"]
PLACE: Place = ("S1", 0.8, "Disagg-Aware")
T95_OF_19 = 2.0930


def world(missed: list[float | None]) -> Measured:
    """Missed deadlines of one cell, in per cent; the paper has 4.70."""
    values = [{"missed_deadlines": None if value is None else value / 100} for value in missed]
    return Measured(ONE, Options(seeds=len(missed)), {PLACE: values})


def test_the_interval_is_students_over_the_seeds() -> None:
    values = [float(value) for value in range(20)]
    found = world(list(values)).compared(PLACE, "% missed")
    half = T95_OF_19 * statistics.stdev(values) / math.sqrt(20)
    assert found.ours is not None
    assert found.interval == pytest.approx((9.5 - half, 9.5 + half), rel=1e-4)
    assert (found.least, found.most) == pytest.approx((0.0, 19.0))
    assert found.difference == pytest.approx(9.5 - 4.70)


def test_one_seed_has_no_interval() -> None:
    found = world([4.0]).compared(PLACE, "% missed")
    assert found.interval is None
    assert interval(None) is None


def test_seeds_without_a_value_are_left_out() -> None:
    found = world([4.0, None, 6.0]).compared(PLACE, "% missed")
    assert found.ours is not None
    assert (found.ours.mean, found.ours.count) == (pytest.approx(5.0), 2)


@pytest.mark.parametrize(
    ("missed", "verdict"),
    [
        ([4.6, 4.7, 4.8], Verdict.AGREES),
        ([2.7, 2.7, 2.7], Verdict.AGREES),  # 2 points are the tolerance
        ([2.69, 2.69, 2.69], Verdict.DIFFERS),
        ([9.0, 9.1, 9.2], Verdict.DIFFERS),
        ([4.0, 9.0, 9.0, 9.0, 9.0, 9.0], Verdict.OPEN),
        ([0.7, 8.7], Verdict.OPEN),  # the mean is the paper's value, and says nothing
        ([4.7], Verdict.OPEN),
        ([None], None),
    ],
)
def test_verdicts_say_how_the_interval_meets_the_tolerance(missed: list[float | None], verdict: Verdict | None) -> None:
    assert world(missed).compared(PLACE, "% missed").verdict is verdict


def test_a_relative_tolerance_holds_where_it_is_more() -> None:
    for wait, verdict in ((16000.0, Verdict.AGREES), (15000.0, Verdict.DIFFERS)):
        measured = Measured(ONE, Options(seeds=2), {("S1", 0.8, "First Fit"): 2 * [{"wait_s_mean": wait}]})
        assert measured.compared(("S1", 0.8, "First Fit"), "wait s").verdict is verdict  # 18 088 s, 15 %


def test_every_printed_quantity_of_what_is_drawn_has_a_tolerance() -> None:
    for one in REPRODUCTIONS.values():
        labels = {label for values in one.printed.values() for label in values}
        for quantity in one.quantities:
            if quantity.label in labels and not one.exact:
                assert quantity.tolerance or quantity.share, (one.name, quantity.label)


@given(st.lists(st.floats(0, 100), min_size=2, max_size=30))
def test_a_verdict_is_one_of_the_whole_interval(missed: list[float]) -> None:
    found = world(list(missed)).compared(PLACE, "% missed")
    assert found.interval is not None
    far = [abs(end - 4.70) > 2.006 for end in found.interval]
    if found.verdict is Verdict.AGREES:
        assert not any(far)
    if found.verdict is Verdict.DIFFERS:
        assert all(far)


def test_a_value_that_differs_may_lie_between_the_seeds_and_is_counted() -> None:
    found = world([4.0, *[9.0] * 20]).compared(PLACE, "% missed")
    assert found.verdict is Verdict.DIFFERS
    assert found.near
    assert "1 of these lie between" in cells_found(world([4.0, *[9.0] * 20]))


@pytest.mark.parametrize("text", [S1, S2, S3])
def test_the_typed_tables_are_whole_and_obey_what_their_columns_mean(text: str) -> None:
    table = printed("S", text)
    assert len(table) == len(LOADS) * len(ROWS)
    for place, row in table.items():
        assert list(row) == [quantity.label for quantity in QUANTITIES]
        assert 0 <= row["% high"] <= row["% missed"] <= 100, place
        assert 0 < row["Cap"] <= row["CPU"] <= 1, place
        assert row["% NVMe"] <= 100
        assert row["size"] >= 1
    for row_name in ROWS:
        waits = [table["S", load, row_name]["wait s"] for load in LOADS]
        assert waits == sorted(waits, reverse=True), row_name


def test_values_typed_from_the_tables_stand_where_the_paper_has_them() -> None:
    assert printed("S1", S1)["S1", 0.7, "PA First Fit"]["wait s"] == 20616
    assert printed("S1", S1)["S1", 0.5, "PA Disagg-Aware"]["sharing"] == 2.71
    assert printed("S2", S2)["S2", 0.8, "First Fit"]["% missed"] == 10.26
    assert printed("S2", S2)["S2", 0.6, "PA Disagg-Aware"]["% NVMe"] == 69.50
    assert printed("S3", S3)["S3", 0.7, "PA Disagg-Aware"]["% high"] == 3.21
    assert printed("S3", S3)["S3", 0.9, "Disagg-Aware"]["size"] == 1.35


def test_the_long_form_has_every_number_once_with_its_interval() -> None:
    measured = execute(ONE, Options(seeds=4), solve=engine)
    rows = list(csv.DictReader(io.StringIO(as_csv(measured))))
    assert list(rows[0]) == list(COLUMNS)
    cells = {(row["x"], row["row"], row["metric"]) for row in rows}
    assert len(cells) == len(rows) == 5 * 8 * (len(QUANTITIES) + len(TRUE) + 1)
    for row in rows:
        assert float(row["low"]) <= float(row["ours"]) <= float(row["high"])
        assert float(row["least"]) <= float(row["ours"]) <= float(row["most"])
        assert row["seeds"] == "4"
        if row["paper"]:
            assert float(row["difference"]) == pytest.approx(float(row["ours"]) - float(row["paper"]), abs=1e-4)
        ours = ("Lookahead", "First Fit, measured speeds")
        assert (row["in_paper"] == "no") == (row["row"].removeprefix("PA ") in ours)
        assert (row["world"] == "base") == (row["row"].removeprefix("PA ") == "First Fit")
    assert "180 values of the paper" in cells_found(measured)


def test_seeds_that_never_fill_the_system_are_counted_and_told() -> None:
    measured = execute(ONE, Options(seeds=20), solve=shut)
    assert measured.without_window == len(ONE.points)
    assert any("never reached the load" in warning for warning in warnings_of(measured))
    found = measured.compared(PLACE, "% missed")
    assert found.ours is not None
    assert found.ours.count == 19
