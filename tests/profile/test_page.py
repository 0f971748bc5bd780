"""The page of profiles: every kind of axis has its picture and its numbers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from synthetic import application, bench, measured

from unrack.profile.axes.axis import AxisFile, Level, number
from unrack.profile.page import page
from unrack.profile.page.page import chart_of, page_of
from unrack.profile.profile import Profile

AXES = """
[[axes]]
kind = "memory-bandwidth"
levels = [1000, 2000, 4000]
[[axes]]
kind = "cpu"
levels = [0.25, 0.5]
[[axes]]
kind = "drives"
levels = [[1, 2], [2, 2]]
rate = 20
[[axes]]
kind = "gpus"
levels = ["spread", "beside"]
packed = "0,1"
spread = "0,4"
"""
PROBE = {"at": "2026-01-01", "kernel": "6", "load": 0.5, "probe": [
    {"axis": "cpu", "actuator": "cgroup-quota", "lacks": ""}, {"axis": "gpus", "actuator": "x", "lacks": "no <GPU>"},
]}  # fmt: skip


def speed(axis: AxisFile, level: Level) -> float:
    if axis.kind == "memory-bandwidth":
        return 1 - number(level) / 1e4
    return number(level) if axis.kind == "cpu" else 0.5


@pytest.fixture(scope="module")
def profile() -> Profile:
    found = measured(application(axes=AXES), bench(speed, 1e-5))
    return Profile(found.application, found.records, PROBE)


def test_each_axis_has_a_picture_and_its_levels(profile: Profile) -> None:
    text = page_of([profile, profile])
    assert text.count("<svg") == 8
    for words in ("MB/s beside it", "drives × sharers", "spread", "1 × 2", "0.600", "no &lt;GPU&gt;", "offered"):
        assert words in text
    assert not re.search(r"<script|<link|src=|href=", text)


def test_what_a_machine_can_measure_is_said_once(profile: Profile) -> None:
    other = Profile(profile.application, profile.records, {**PROBE, "probe": []})
    assert page_of([profile, profile]).count("no &lt;GPU&gt;") == 1
    assert page_of([profile, other, profile]).count("no &lt;GPU&gt;") == 2


def test_the_picture_of_numbers_has_the_curve_in_its_band_and_the_points(profile: Profile) -> None:
    spec = chart_of(profile, profile.application.axes[0])
    band, line, runs, rules, points = spec["layer"]
    assert (band["mark"]["type"], line["mark"]["type"], rules["mark"]["type"]) == ("area", "line", "rule")
    assert [row["x"] for row in spec["data"]["values"]] == [1000, 2000, 4000]
    for row in line["data"]["values"]:
        assert row["low"] - 0.01 <= row["speed"] <= row["high"] + 0.01
        assert row["speed"] == pytest.approx(1 - row["x"] / 1e4, abs=0.01)
    assert points["encoding"]["y"]["field"] == "speed"
    assert len(runs["data"]["values"]) == 15


def test_the_picture_of_words_has_points_alone(profile: Profile) -> None:
    spec = chart_of(profile, profile.application.axes[3])
    assert [layer["mark"]["type"] for layer in spec["layer"]] == ["point", "rule", "point"]
    assert spec["encoding"]["x"]["type"] == "nominal"
    for layer in (spec, spec["layer"][0]):  # in this order they are drawn
        assert list(dict.fromkeys(row["x"] for row in layer["data"]["values"])) == ["spread", "beside"]


def test_without_the_extra_there_are_numbers_alone(profile: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "has_pictures", lambda: False)
    text = page_of([profile])
    assert "<svg" not in text
    assert "0.600" in text
    assert "unrack[figures]" in text


def test_the_page_is_the_same_each_time(profile: Profile, tmp_path: Path) -> None:
    del tmp_path
    assert page_of([profile]) == page_of([profile])
