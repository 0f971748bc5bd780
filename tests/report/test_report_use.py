"""The report's section on memory in use, against two jobs worked out by hand."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import tomli_w
from fabricate import make_study
from hypothesis import given
from hypothesis import strategies as st

from unrack.report.page import write_report
from unrack.report.sections.section import Section
from unrack.report.sections.section import section_of as made_of
from unrack.report.sections.use import USE as IN_USE
from unrack.report.sections.use import largest_in, shares_of, stops_of, use_over_time
from unrack.report.setting import FinishedStudy, RunFiles, policies_of, read_finished, settings_of
from unrack.report.table import column_of, group_of
from unrack.study.grid import load_study
from unrack.study.runner import run_study

JOBS = "id,submit,run,tasks,cores,memory\n1,0,1000,1,4,100\n2,0,2000,1,4,100\n"
USE = "job,progress,mb\n1,0,50\n1,0.65,100\n2,0,50\n2,0.42,100\n"
"""Both use 50 MB and then 100: the first from 650 s on, the second from 840 s on, of 150 on two nodes."""

OWN = {"name": "disaggregated", "scheduler": "fcfs", "lenders_compute": "yes"}
GROWER = {**OWN, "provisioning": "dynamic", "initial": 0.5, "label": "grower"}


def study(folder: Path, *policies: dict[str, Any] | str, use: bool = True) -> FinishedStudy:
    """A finished study of the two jobs."""
    folder.mkdir(parents=True)
    (folder / "jobs.csv").write_text(JOBS)
    (folder / "use.csv").write_text(USE)
    known = {"usage": {"file": "use.csv", "match": "id", "scale": "none", "thin": 0}} if use else {}
    (folder / "study.toml").write_text(tomli_w.dumps({
        "name": "two", "policies": list(policies),
        "clusters": [{"name": "pair", "nodes": [{"count": 2, "cores": 4, "memory": 75}], "lending": "all"}],
        "workloads": [{"name": "fight", "trace": "jobs.csv", **known}],
    }))  # fmt: skip
    run_study(load_study(str(folder / "study.toml")), folder / "out")
    return read_finished(folder / "out")


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> FinishedStudy:
    """One at a time with all that they ask; memory that follows use, stopped and held up when it ends."""
    blocking = {**GROWER, "initial": 0.75, "stop": "block", "label": "block"}
    return study(tmp_path_factory.mktemp("use") / "two", {**OWN, "label": "static"}, GROWER, blocking)


def run_of(done: FinishedStudy, label: str) -> RunFiles:
    return next(run for run in done.runs if run.label == label)


def section_of(done: FinishedStudy) -> Section:
    settings = settings_of(done.runs)
    found = made_of(IN_USE, settings, settings, policies_of(settings))
    assert found is not None
    return found


def test_shares_of_memory_are_those_of_the_looks_every_five_minutes(two: FinishedStudy) -> None:
    """Used from 300 s on: 100, then 50 from 1200 s until 2100 s, and 100 until 3000 s; what is idle is given back."""
    used, idle, free = shares_of([run_of(two, "grower")]) or (0, 0, 0)
    assert used == pytest.approx((900 * 100 + 900 * 50 + 900 * 100) / (150 * 2700))
    assert idle == pytest.approx(0)
    assert free == pytest.approx(1 - used - idle)


def test_what_is_held_and_not_used_is_told_apart(two: FinishedStudy) -> None:
    """One after the other, each with the 100 that it asks for: 50 of them idle in two looks, and in three."""
    own = run_of(two, "static").frame("memory")
    looks = dict(zip(own["time_s"].to_list(), (own["held_mb"] - own["used_mb"]).to_list(), strict=True))
    assert [looks[time] for time in (300, 600, 900, 1200, 1500, 1800, 2100)] == [50, 50, 0, 50, 50, 50, 0]
    used, idle, free = shares_of([run_of(two, "static")]) or (0, 0, 0)
    assert idle == pytest.approx((600 + 900) * 50 / (150 * 2700))
    assert used + idle + free == pytest.approx(1)


def test_nobody_uses_more_than_is_held_where_jobs_stand_still(two: FinishedStudy) -> None:
    own = run_of(two, "block").frame("memory")
    assert (own["used_mb"] <= own["held_mb"]).all()
    shares = shares_of([run_of(two, "block")])
    assert shares is not None
    assert min(shares) >= 0
    assert sum(shares) == pytest.approx(1)


def test_the_picture_has_the_amounts_of_the_table_and_a_mark_where_the_job_was_stopped(two: FinishedStudy) -> None:
    run = run_of(two, "grower")
    edges, stops = np.linspace(0, 3000, 301), stops_of(run.frame("placements"))
    (chart,) = use_over_time(run.frame("memory"), run.span, stops, run.total_mb, edges)
    (series,) = chart["series"]
    at = dict(zip(edges[:-1].tolist(), zip(series["asked"], series["held"], series["used"], strict=True), strict=True))
    gb = [
        tuple(round(value * 1024) for value in at[time]) for time in (0.0, 290.0, 300.0, 900.0, 1200.0, 1500.0, 2100.0)
    ]
    assert gb == [
        (0, 0, 0), (0, 0, 0), (200, 100, 100), (100, 100, 100), (100, 50, 50), (100, 50, 50), (100, 100, 100),
    ]  # fmt: skip
    assert stops.rows() == [(840.0, 2)]
    (marks,) = [layer["data"]["values"] for layer in chart["spec"]["layer"] if "stops" in str(layer.get("data"))]
    assert marks == [{"x": pytest.approx(840 / 60, rel=1e-4), "stops": 1, "jobs": "2"}]
    (line,) = [layer for layer in chart["spec"]["layer"] if "amount" in str(layer.get("data"))]
    assert line["data"]["values"] == [{"amount": pytest.approx(150 / 1024, rel=1e-5)}]


STEPS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 100)), max_size=20)


@given(STEPS, st.integers(1, 9))
def test_the_largest_of_a_span_is_that_of_a_plain_look_at_every_second(
    steps: list[tuple[int, int]], spans: int
) -> None:
    ordered = sorted(dict(steps).items())
    times, values = (np.array([step[part] for step in ordered], float) for part in (0, 1))
    edges = np.arange(spans + 1) * 5.0
    if not ordered:
        return
    level = [next((value for time, value in reversed(ordered) if time <= second), 0) for second in range(spans * 5)]
    wanted = [max(level[span * 5 : span * 5 + 5]) for span in range(spans)]
    assert largest_in(times, values, edges).tolist() == wanted


def test_who_grew_and_who_was_stopped_are_those_of_the_table_of_jobs(two: FinishedStudy) -> None:
    """The second starts with 50, is stopped as it needs 50 more, starts with 50 again and grows to 100."""
    section = section_of(two)
    static, grower, block = section.runs
    assert (static.title, static.tables) == ("static", {})
    mb = {name: round(float(cells[0][0]) * 1024) for name, cells in grower.tables["changed"].rows}
    assert mb == {"1": 50, "2": 50}
    ((name, cells),) = grower.tables["stopped"].rows
    lost = round(840 / 3600, 3)
    assert (name, [text for text, _ in cells][:3], cells[-1][0]) == ("2", ["1", f"{lost:.4g}", "0"], "finished")
    ((name, cells),) = block.tables["stopped"].rows
    assert (name, [text for text, _ in cells][:3]) == ("2", ["0", "0", f"{round(160 / 3600, 3):.4g}"])


def test_the_table_of_a_setting_marks_the_best_and_throughput_is_given_by_memory(two: FinishedStudy) -> None:
    section = section_of(two)
    (own,) = section.settings
    table = own.tables[""]
    assert own.less == {}
    words = [head for head, _ in table.heads]
    assert words[:3] == ["throughput (jobs/h)", "memory used (%)", "held but not used (%)"]
    rows = dict(table.rows)
    assert rows["grower"][words.index("stops")] == ("1", "")
    assert rows["static"][words.index("stops")] == ("0", "best")
    assert section.table is not None
    ((title, cells),) = section.table.rows
    assert title == "fight on pair"
    tb = 150 / 1024**2
    assert float(cells[0][0]) == pytest.approx(tb, rel=1e-3)
    speeds = {label: run_of(two, label).metrics["throughput_jobs_per_h"] for label in ("static", "grower", "block")}
    given_ = [float(text.replace(",", "")) for text, _ in cells[1:]]
    assert given_ == pytest.approx([speed / tb for speed in speeds.values() if speed is not None], rel=1e-3)
    assert cells[3][1] == "best"


def test_metrics_of_use_have_a_group_and_words_of_their_own() -> None:
    assert group_of("memory_used", ()) == group_of("jobs_out_of_memory", ()) == "Memory in use"
    assert group_of("memory_only_nodes", ()) == "Cores and memory"
    column = column_of("memory_held_unused", [0.25])
    assert (column.label, column.unit, column.better, column.text(0.25)) == ("held but not used", "%", "low", "25")
    assert column_of("node_h_blocked", [2.0]).unit == "node-h"


def test_the_page_has_the_section_only_where_use_is_known(two: FinishedStudy, tmp_path: Path) -> None:
    page = write_report(two.folder).read_text()
    assert '<section id="use">' in page
    assert 'href="#use"' in page
    assert "a question for planning" in page
    charts = json.loads(re.search(r'id="charts-data">(.*?)</script>', page)[1])  # type: ignore[index]
    assert [run["title"] for run in charts["use"]["runs"]] == ["static", "grower", "block"]
    assert len(json.dumps(charts["use"])) < 60_000
    other = write_report(make_study(tmp_path / "other", jobs=20)).read_text()
    assert 'id="use"' not in other
    assert 'href="#use"' not in other
    without = study(tmp_path / "without", "baseline", use=False)
    settings = settings_of(without.runs)
    assert made_of(IN_USE, settings, settings, policies_of(settings)) is None


def test_a_page_is_built_where_the_baseline_runs_nothing_or_all(tmp_path: Path) -> None:
    """No node of 75 MB takes a job of 100: nothing runs and nothing was looked at."""
    done = study(tmp_path / "base", "baseline")
    section = section_of(done)
    assert [own.charts for own in section.runs] == [[]]
    page = write_report(done.folder).read_text()
    assert "None: all jobs held what they were given until they ended." in page


def test_a_run_of_many_looks_is_drawn_with_as_many_points_as_one_of_few(two: FinishedStudy) -> None:
    many = np.arange(0, 30_000, 0.5)
    amounts = {f"{name}_mb": np.where(np.arange(len(many)) == 777, 140.0, 10.0) for name in ("asked", "held", "used")}
    stops = pl.DataFrame({"time_s": np.linspace(0, 29_999, 5000), "job": np.arange(5000)})
    busy = pl.DataFrame({"time_s": many, **amounts})
    (chart,) = use_over_time(busy, (0.0, 30_000.0), stops, 150, np.linspace(0, 30_000, 301))
    assert len(chart["series"][0]["used"]) == 300
    assert max(chart["series"][0]["used"]) == pytest.approx(140 / 1024, rel=1e-3)
    marks = next(layer["data"]["values"] for layer in chart["spec"]["layer"] if "stops" in str(layer.get("data")))
    assert len(marks) <= 300
    assert sum(mark["stops"] for mark in marks) == 5000


@pytest.mark.long
@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_picture_is_drawn_answers_the_pointer_and_changes_with_the_run(
    drawn: Any, two: FinishedStudy, scheme: Any
) -> None:
    page, faults = drawn(write_report(two.folder), scheme)
    picture = "figure[data-chart='use over time'] svg"
    shown = "[...document.querySelectorAll('#use [data-run]')].filter(one => !one.hidden).map(one => one.dataset.run)"
    assert page.evaluate(shown) == ["0"]
    points = f"{picture} path[aria-roledescription='point']"
    assert page.locator(points).count() == 0
    page.select_option("#use-run", "1")
    page.wait_for_selector(points, state="attached")
    assert page.evaluate(shown) == ["1"]
    page.locator(picture).scroll_into_view_if_needed()
    box = page.locator(picture).bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + box["height"] * 0.5)
    page.wait_for_selector("#vg-tooltip-element.visible")
    words = page.evaluate("document.querySelector('#vg-tooltip-element').innerText")
    assert re.search(r"asked \(GB\)\s+[\d.]+\s+held \(GB\)\s+[\d.]+\s+used \(GB\)\s+[\d.]+", words)
    assert faults == []
