import base64
import gzip
import itertools
import json
import re

import numpy as np
import polars as pl
import pytest
from fabricate import make_study
from fabricate_memory import make_memory_study
from hypothesis import given
from hypothesis import strategies as st

from unrack.report.charts.node_map import PLACES, cell_map, lent_between, lent_over_time, node_bounds, places_of
from unrack.report.page import write_report
from unrack.report.sections.memory import MEMORY, bars_of, contention_note, lends
from unrack.report.sections.section import section_of
from unrack.report.setting import policies_of, read_finished, settings_of
from unrack.report.table import column_of, group_of


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("memory") / "study"
    return make_memory_study(path, mixes=(("mix", 0), ("heavy", 1)), note="3 of 120 jobs have no profile")


@pytest.fixture(scope="module")
def study(folder):
    return read_finished(folder)


@pytest.fixture(scope="module")
def settings(study):
    return settings_of(study.runs)


@pytest.fixture(scope="module")
def lending(study):
    return next(run for run in study.runs if lends(run))


def opened(data):
    """The header and the cells of a packed map."""
    raw = gzip.decompress(base64.b64decode(data))
    size = int.from_bytes(raw[:4], "little")
    head = json.loads(raw[4 : 4 + size])
    planes = np.frombuffer(raw[4 + size :], np.uint8).reshape(4, -1)
    cells = np.frombuffer(planes.T.tobytes(), "<u4")
    return head, cells.reshape(len(head["nodes"]) - 1, -1)


LOANS = st.lists(
    st.tuples(st.integers(0, 50), st.integers(0, 30), st.integers(0, 8), st.integers(0, 8), st.integers(1, 1000)),
    max_size=12,
)


def frame_of(loans):
    rows = [(float(start), float(start + length), node, lender, mb) for start, length, node, lender, mb in loans]
    schema = {"start_s": pl.Float64, "end_s": pl.Float64, "node": pl.Int32, "lender": pl.Int32, "mb": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row")


@given(LOANS, st.sampled_from([1, 2, 4, 9]), st.sampled_from([1, 3, 7]))
def test_cells_of_a_map_are_those_of_a_plain_sum_over_the_loans(loans, groups, columns):
    bounds, edges = node_bounds(9, groups), np.linspace(5, 61, columns + 1)
    found = lent_over_time(frame_of(loans), bounds, edges)
    for row in range(groups):
        for column in range(columns):
            low, high = edges[column], edges[column + 1]
            area = sum(
                mb * max(0.0, min(start + length, high) - max(start, low))
                for start, length, _, lender, mb in loans
                if bounds[row] <= lender < bounds[row + 1]
            )
            assert found[row, column] == pytest.approx(area / (high - low), abs=1e-6)


@given(LOANS, st.sampled_from([1, 4, 9]))
def test_both_maps_of_a_run_tell_of_the_same_memory(loans, groups):
    bounds, edges, frame = node_bounds(9, groups), np.linspace(0, 90, 16), frame_of(loans)
    whom = lent_between(frame, bounds, 0.0, 90.0)
    area = sum(mb * length for _, length, _, _, mb in loans)
    assert whom.sum() * 90 == pytest.approx(area)
    assert whom.sum(axis=1) == pytest.approx(lent_over_time(frame, bounds, edges).mean(axis=1))
    users = [sum(mb * length for _, length, node, _, mb in loans if low <= node < high)
             for low, high in itertools.pairwise(bounds)]  # fmt: skip
    assert whom.sum(axis=0) * 90 == pytest.approx(users)


@given(st.integers(1, 5000), st.integers(1, 128))
def test_groups_of_nodes_are_all_nodes_in_order_and_of_nearly_equal_size(nodes, most):
    sizes = np.diff(node_bounds(nodes, most))
    assert sizes.sum() == nodes
    assert len(sizes) == min(nodes, most)
    assert sizes.max() - sizes.min() <= 1
    assert sizes.min() >= 1


@given(st.lists(st.integers(1, 400), min_size=1, max_size=6), st.integers(1, 128))
def test_every_class_of_nodes_has_its_own_groups_and_a_place_to_be_seen(sizes, most):
    firsts, nodes = [0, *itertools.accumulate(sizes[:-1])], sum(sizes)
    bands = [(f"class{place}", first) for place, first in enumerate(firsts)]
    bounds = node_bounds(nodes, most, bands)
    assert set(firsts) <= set(bounds.tolist())
    places = places_of(bounds, nodes, bands)
    assert (places[0], places[-1]) == (0, PLACES)
    assert (np.diff(places) > 0).all()
    ends = places_of(np.array([*firsts, nodes]), nodes, bands)
    assert np.diff(ends).min() >= PLACES * 0.05 / (1 + 0.05 * len(sizes)) - 1
    if min(sizes) >= 0.05 * nodes:
        assert places == pytest.approx(bounds / nodes * PLACES, abs=0.51)


def test_a_packed_map_has_three_digits_and_says_what_it_is_of():
    cells = np.array([[0.0, 0.4, 1.0], [12.6, 123456.0, 4.2e8]])
    head, found = opened(
        cell_map(cells, np.array([0, 1, 3]), np.array([10, 20, 30]), (), np.array([0.0, 2.0, 4.0, 6.0]), "h").packed()
    )
    assert found.tolist() == [[0, 0, 1], [13, 123000, 420000000]]
    assert head == {
        "nodes": [0, 1, 3],
        "places": [0, 3333, 10000],
        "installed": [10, 50],
        "from": 0.0,
        "step": 2.0,
        "columns": 3,
        "unit": "h",
    }


def test_the_maps_of_a_run_hold_the_memory_that_its_metrics_say(lending, settings):
    usage = lending.frame("usage")
    setting = next(own for own in settings if lending in own.runs["disaggregated"])
    charts = {chart["id"]: chart for chart in MEMORY.of_run(lending, setting)[0]}
    assert list(charts) == ["lent over time", "lent between", "memory parts"]
    lent = float(np.diff(usage["time_s"].to_numpy()) @ usage["memory_mb_lent"].to_numpy()[:-1])
    mean = lent / (usage["time_s"][-1] - usage["time_s"][0])
    head, when = opened(charts["lent over time"]["map"].packed())
    assert when.sum() / head["columns"] == pytest.approx(mean, rel=0.01)
    assert opened(charts["lent between"]["map"].packed())[1].sum() == pytest.approx(mean, rel=0.01)
    assert head["installed"] == [32768] * 24 + [65536] * 8
    parts = charts["memory parts"]["series"][0]
    remote = [y for y, part in zip(parts["y"], parts["part"], strict=True) if part == "remote"]
    assert np.mean(remote) * lending.total_mb == pytest.approx(mean, rel=0.01)


def test_throughput_is_relative_to_the_best_run_of_the_mix(settings):
    bars = bars_of(settings)
    values = {
        (bar.mix, bar.system, bar.policy): next(
            setting.value(bar.policy, "throughput_jobs_per_h").mean
            for setting in settings if (setting.workload, setting.cluster) == (bar.mix, bar.system)
        )
        for bar in bars
    }  # fmt: skip
    for bar in bars:
        best = max(value for (mix, _, _), value in values.items() if mix == bar.mix)
        assert bar.relative == pytest.approx(values[bar[:3]] / best)
    assert {bar.mix for bar in bars if bar.relative == 1} == {"mix", "heavy"}


def test_a_bar_is_missing_where_jobs_could_not_run(settings):
    places = {(bar.system, bar.policy) for bar in bars_of(settings)}
    assert places == {("24+8", "baseline"), ("24+8", "disaggregated"), ("32+0", "disaggregated")}
    rejected = next(setting for setting in settings if setting.cluster == "32+0").values("jobs_rejected")
    assert rejected["baseline"].mean > 0


def test_a_study_has_a_throughput_chart_a_mix_and_a_mark_a_run(study, settings):
    charts = MEMORY.of_study(settings, settings, policies_of(settings))["study"]
    assert [chart["title"] for chart in charts] == [
        "Throughput: mix", "Throughput: heavy", "Memory in use against cores in use"
    ]  # fmt: skip
    marks = charts[-1]["series"]
    assert sum(len(own["x"]) for own in marks) == len(study.runs)
    for own in marks:
        assert all(0 < x <= 1 and 0 < y <= 1 for x, y in zip(own["x"], own["y"], strict=True))
    some = [setting for setting in settings if setting.cluster == "24+8"]
    one = MEMORY.of_study(some, some, policies_of(settings))["study"]
    assert one[0]["title"] == "Throughput by mix"
    assert one[0]["series"][0]["x"] == ["mix", "heavy"]


def test_local_remote_and_the_rest_make_up_the_memory_installed(settings):
    setting = settings[0]
    chart = next(
        chart for chart in MEMORY.of_setting(setting, policies_of(settings))[0] if chart["id"] == "memory shares"
    )
    shares = {own["policy"]: dict(zip(own["part"], own["x"], strict=True)) for own in chart["series"]}
    assert set(shares["baseline"]) == {"local", "not held"}
    for policy, own in shares.items():
        assert sum(own.values()) == pytest.approx(1, abs=1e-5)
        held = setting.value(policy, "utilisation_memory").mean
        assert 1 - own["not held"] == pytest.approx(held, abs=1e-5)
    own = shares["disaggregated"]
    assert own["remote"] / (own["local"] + own["remote"]) == pytest.approx(
        setting.value("disaggregated", "remote_share").mean, abs=1e-4
    )


def test_the_distribution_of_stretch_is_of_all_finished_jobs_of_every_policy(settings):
    chart = next(
        chart for chart in MEMORY.of_setting(settings[0], policies_of(settings))[0] if chart["id"] == "stretch"
    )
    series = {own["policy"]: own for own in chart["series"]}
    assert set(series["baseline"]["x"][:-1]) == {1.0}
    own = series["disaggregated"]
    assert own["y"][0] == 0
    assert own["y"][-1] == 1
    assert own["x"][-1] == pytest.approx(settings[0].value("disaggregated", "stretch_max").mean, rel=1e-4)
    jobs = settings[0].runs["disaggregated"][0].frame("jobs")
    alone = float((jobs["stretch"] <= 1).mean())
    assert max(y for x, y in zip(own["x"], own["y"], strict=True) if x <= 1) == pytest.approx(alone, abs=0.01)


def test_the_section_tells_of_jobs_that_ran_as_another_application_once(settings):
    section = section_of(MEMORY, settings, settings, policies_of(settings))
    assert section.notes == ("3 of 120 jobs have no profile",)
    assert len(section.settings) == 4
    assert [title for title, *_ in section.runs] == [f"disaggregated · {s.title}" for s in settings]
    run = settings[0].runs["baseline"][0]
    for said, note in (({"note": "text", "method": "line"}, "text"), ({"method": "line"}, ""), (None, "")):
        run.record["contention"], kept = said, run.record["contention"]
        assert contention_note(run) == note
        run.record["contention"] = kept


def test_metrics_of_lent_memory_stand_with_those_of_memory_and_know_their_meaning():
    column = column_of("remote_share", [0.25])
    assert column.text(0.25) == "25"
    assert (column.unit, column.better) == ("%", "low")
    assert "∫ borrowed MB dt" in column.meaning
    assert group_of("jobs_remote", ()) == group_of("memory_only_nodes", ()) == "Cores and memory"
    assert group_of("stretch_p95", ()) == "Times of jobs"


def test_the_page_has_the_section_only_where_a_policy_lends(folder, tmp_path):
    page = write_report(folder).read_text()
    assert '<section id="memory">' in page
    assert "Contention: 3 of 120 jobs have no profile." in page
    charts = json.loads(re.search(r'id="charts-data">(.*?)</script>', page)[1])
    assert len(json.dumps(charts["memory"])) < 200_000
    other = write_report(make_study(tmp_path / "other", jobs=20)).read_text()
    assert 'id="memory"' not in other
    assert "memoryMap = " not in other


@pytest.mark.long
@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_maps_are_drawn_answer_the_pointer_and_change_with_the_choice(drawn, folder, scheme):
    count = """(id) => {
        const canvas = document.querySelector(`figure[data-chart='${id}'] canvas`);
        const image = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        return new Set(new Uint32Array(image.data.buffer)).size;
    }"""
    page, faults = drawn(write_report(folder), scheme)
    assert page.evaluate(count, "lent over time") > 20
    assert page.evaluate(count, "lent between") > 10
    before = page.evaluate("document.querySelector('#memory-runs canvas').toDataURL()")
    page.select_option("#memory-colour", "share")
    page.wait_for_function("(old) => document.querySelector('#memory-runs canvas')?.toDataURL() !== old", arg=before)
    page.wait_for_selector("#memory-runs figure:last-child svg")
    plot = page.locator("figure[data-chart='lent between'] canvas")
    plot.scroll_into_view_if_needed()
    box, words = plot.bounding_box(), ""
    for step in range(4, 36):
        page.mouse.move(box["x"] + box["width"] * step / 40, box["y"] + box["height"] * 0.72)
        words = page.evaluate("document.querySelector('#vg-tooltip-element.visible')?.innerText ?? ''")
        if words:
            break
    assert re.search(r"lent by\s+node \d+\s+used by\s+node \d+\s+memory\s+[\d.]+ [MG]B\s+of all that was lent", words)
    assert faults == []
