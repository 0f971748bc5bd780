"""Lines over time: a few in one picture, more of them a row each, in the order of the policies, none over another."""

from __future__ import annotations

import html
import json
import re

import numpy as np
import pytest
import vl_convert

from unrack.report.charts.chart import MOST_LINES, SHARE, time_chart

POLICIES = ["fcfs", "easy", "easy(order=sjf)", "conservative", "slurm", "a policy's own"]


def drawn(names: list[str], left_out: tuple[str, ...] = (), **y: object) -> str:
    edges = np.linspace(0, 40 * 86_400, 41)
    series = {name: np.linspace(0.2, 0.9, 40) for name in names}
    series[names[-1]][3] = np.nan
    chart = time_chart("use", "Cores in use", {"title": "share of cores", **y}, series, edges, POLICIES, ["easy"])
    rows = [
        {"policy": own["policy"], "x": x, "y": value}
        for own in chart["series"]
        for x, value in zip(own["x"], own["y"], strict=True)
        if own["policy"] not in left_out
    ]
    spec = json.loads(json.dumps({**chart["spec"], "width": 500, "data": {"values": rows}}))
    return html.unescape(vl_convert.vegalite_to_svg(spec))


def heights(svg: str, left_out: tuple[str, ...] = ()) -> list[float]:
    """Where the names of the policies stand."""
    found = []
    for name in POLICIES:
        text = re.search(rf"translate\([\d.]+,([\d.]+)\)[^>]*>{re.escape(name)}<", svg)
        assert (text is None) == (name in left_out), name
        found += [float(text[1])] if text else []
    return found


def test_six_policies_have_a_row_each_which_says_its_name_and_scale() -> None:
    svg = drawn(POLICIES, **SHARE)
    found = heights(svg)
    assert np.diff(found) == pytest.approx([np.diff(found).mean()] * 5, abs=0.1)
    assert np.diff(found).min() > 35
    assert "share of cores, each row from 0 to 100%" in svg


def test_rows_of_hidden_policies_leave_no_gap_and_the_scale_is_the_greatest_value() -> None:
    svg = drawn(POLICIES, ("easy", "slurm"))
    assert np.diff(heights(svg, ("easy", "slurm"))).std() < 0.1
    assert "each row from 0 to 0.9" in svg


def test_a_few_lines_share_a_picture() -> None:
    svg = drawn(POLICIES[:MOST_LINES], **SHARE)
    assert "each row" not in svg
    assert heights(svg, tuple(POLICIES)) == []
