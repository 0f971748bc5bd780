"""Intervals on the page and in its charts: over seeds, over draws of one log, or none, and what the captions say."""

import json
import re

import polars as pl
import pytest
from fabricate import make_study

from unrack.errors import InputError
from unrack.report.figures.write import figures_of
from unrack.report.page import write_report
from unrack.report.sections.contents import contents_of
from unrack.report.setting import read_finished
from unrack.report.table import comparison


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    return make_study(tmp_path_factory.mktemp("several") / "study", jobs=60, seeds=(0, 1, 2, 3))


@pytest.fixture(scope="module")
def single(tmp_path_factory):
    return make_study(tmp_path_factory.mktemp("single") / "study", jobs=120)


def tenth(folder):
    """The length of a block of which ten fit into the log."""
    submit = pl.read_parquet(next(folder.glob("runs/*/jobs.parquet")))["submit_s"]
    return float(submit.max() - submit.min()) / 10


def charts(page):
    data = json.loads(re.search(r'id="charts-data">(.*?)</script>', page, re.DOTALL)[1])
    return {chart["id"]: chart for chart in data["settings"][0]["charts"]}


def test_every_value_a_policy_has_whiskers_over_the_seeds_and_the_caption_says_so(several):
    page = write_report(several).read_text()
    found = charts(page)
    assert "Values are means ± half their 95 % interval over 4 seeds." in page
    own = found["interval wait_s_mean"]
    assert own["note"] == "Bars: 95 % interval over 4 seeds."
    (setting,) = contents_of(read_finished(several)).settings
    for rows in own["series"]:
        value = setting.value(rows["policy"], "wait_s_mean")
        shown = (rows["high"][0] - rows["x"][0]) / rows["x"][0]
        assert shown == pytest.approx(value.half / value.mean, rel=1e-3)
        assert rows["low"][0] < rows["x"][0] < rows["high"][0]
    size = found["size"]
    assert size["note"].endswith("Lines: 95 % interval over 4 seeds.")
    assert [layer["mark"]["type"] for layer in size["spec"]["layer"]] == ["bar", "rule"]
    rows = size["series"]
    assert all(1 <= low <= y <= high for s in rows for low, y, high in zip(s["low"], s["y"], s["high"], strict=True))
    assert found["wait"]["note"].endswith("The first of 4 seeds.")


def test_figures_have_them_too(several):
    figures = {figure.name: figure for figure in figures_of(contents_of(read_finished(several)))}
    own = figures["interval-wait-s-mean"]
    assert "95 % interval over 4 seeds" in own.note
    assert {"low", "high", "policy", "x"} <= set(own.spec["data"]["values"][0])


def test_one_seed_has_no_interval_and_the_page_says_how_to_have_one(single):
    page = write_report(single).read_text()
    assert "unrack report DIR --bootstrap auto" in page
    assert not [name for name in charts(page) if name.startswith("interval")]
    assert "Lines:" not in page
    assert "The first of" not in page


def test_a_bootstrap_is_named_on_the_page_and_made_twice_the_same(single):
    length = tenth(single)
    page = write_report(single, length).read_text()
    assert page == write_report(single, length).read_text()
    found = contents_of(read_finished(single), length)
    (setting,) = found.settings
    words = setting.drawn["fcfs"].blocks.words
    assert re.fullmatch(r"95 % block bootstrap over time, blocks of .+, 1000 draws, seed 1", words)
    assert page.count(words) >= 3  # the table, the answer, a caption
    assert charts(page)["interval bounded_slowdown_mean"]["note"] == f"Bars: {words}."
    assert "interval utilisation_cores" not in charts(page)  # no average over jobs
    table = comparison(found.settings)
    texts = {column.name: cell.text for column, cell in zip(table.columns, table.groups[0][1][0].cells, strict=True)}
    assert "±" in texts["wait_s_mean"]
    assert "±" in texts["wait_s_p95"]
    assert not any("±" in texts[name] for name in ("makespan_s", "utilisation_cores", "wait_s_max", "jobs_finished"))


def test_a_metric_of_the_log_is_what_its_draws_are_about(single):
    (setting,) = contents_of(read_finished(single), tenth(single)).settings
    for name in ("wait_s_mean", "response_s_mean", "bounded_slowdown_mean"):
        value, drawn = setting.value("easy", name), setting.drawn["easy"].values[name]
        assert drawn.mean() == pytest.approx(value.mean, rel=0.25)
        assert value.half > 0


def test_several_seeds_have_intervals_without_a_bootstrap(several):
    with pytest.raises(InputError, match="fcfs has 4 seeds"):
        write_report(several, 0.0)


def test_faulty_runs_and_runs_in_which_nothing_finished_have_what_can_be_told(tmp_path):
    folder = make_study(tmp_path / "none", jobs=60, state="rejected")
    found = contents_of(read_finished(folder), tenth(folder))
    assert found.settings[0].drawn["fcfs"].values == {}
    assert "No job finished in any run" in write_report(folder, tenth(folder)).read_text()
