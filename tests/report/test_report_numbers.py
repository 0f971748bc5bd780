import base64
import gzip
import json
import math

import numpy as np
import polars as pl
import pytest
from fabricate import make_study
from hypothesis import given
from hypothesis import strategies as st

from unrack.metric.estimate import Estimate, estimate
from unrack.metric.table import EVERY_METRIC
from unrack.plan.goal import amount_text
from unrack.plots.series import binned_integral, binned_mean, distribution, lanes
from unrack.report.answer import answer
from unrack.report.charts.canvas import MOST_ROWS_A_PAGE, budgets, gantt_data, pack_placements
from unrack.report.charts.chart import (
    class_name,
    interval_ends,
    metric_choices,
    setting_charts,
    size_class,
    span_axis,
    sweeps,
)
from unrack.report.page import breakdowns, losses
from unrack.report.sections.pool_counts import read_pool_run
from unrack.report.setting import read_finished, settings_of
from unrack.report.table import column_of, columns_of, comparison

steps = st.lists(st.tuples(st.integers(1, 50), st.integers(0, 9)), min_size=1, max_size=30)


@given(steps, st.integers(1, 40))
def test_binning_a_step_function_keeps_its_integral(gaps, bins):
    times = np.cumsum([0.0, *(gap for gap, _ in gaps)])
    values = np.array([*(value for _, value in gaps), 0.0])
    parts = binned_integral(times, values, np.linspace(times[0], times[-1], bins + 1))
    assert parts.sum() == pytest.approx(sum(gap * value for gap, value in gaps))
    assert np.all(parts >= -1e-9)


def test_a_bin_outside_the_known_time_has_no_mean():
    means = binned_mean(np.array([0.0, 1.0]), np.array([3.0, 0.0]), np.array([0.0, 2.0, 4.0]))
    assert means[0] == 3.0
    assert math.isnan(means[1])


@given(st.lists(st.integers(0, 2000), min_size=1, max_size=800), st.integers(2, 50))
def test_a_thinned_distribution_lies_on_the_full_one_and_keeps_both_ends(values, points):
    x, share = distribution(np.array(values, float), points)
    assert len(x) <= points
    assert (x[0], x[-1], share[-1]) == (min(values), max(values), 1.0)
    for at, part in zip(x, share, strict=True):
        assert part == pytest.approx(np.mean(np.array(values) <= at))


def test_job_sizes_fall_into_classes_by_powers_of_four():
    sizes = [1, 2, 4, 5, 16, 17, 64, 65, 4096, 4097]
    classes = pl.DataFrame({"cores": sizes}).select(size_class(pl.col("cores")))["cores"].to_list()
    assert classes == [0, 1, 1, 2, 2, 3, 3, 4, 6, 7]
    assert [class_name(index) for index in (0, 1, 3)] == ["1", "2–4", "17–64"]


def test_the_interval_of_a_mean_is_student_s():
    found = estimate([2.0, 4.0, 6.0, None, float("nan")])
    assert (found.mean, found.count) == (4.0, 3)
    assert found.half == pytest.approx(4.303 * 2 / math.sqrt(3), rel=1e-4)
    many = estimate([float(value) for value in range(61)])
    assert many.half == pytest.approx(2.0003 * np.std(np.arange(61), ddof=1) / math.sqrt(61), rel=1e-3)
    assert estimate([None]) is None


def test_headings_choose_a_readable_unit():
    assert column_of("wait_s_mean", [50_000.0, None]).unit == "h"
    assert column_of("wait_s_mean", [50_000.0]).text(36_000.0) == "10"
    assert column_of("wait_s_mean", [700.0]).unit == "min"
    assert [column_of("wait_s_mean", [value]).unit for value in (119.0, 7_300.0, 900_000.0)] == ["s", "h", "d"]
    assert column_of("utilisation_cores", [0.5]).text(0.5) == "50"
    assert column_of("wait_s_mean", []).text(None) == "–"


def test_policies_that_share_a_label_go_by_their_full_text(tmp_path):
    study = read_finished(make_study(tmp_path / "study", jobs=10, policies=("easy", "easy(order=sjf)")))
    for run in study.runs:
        run.record["policy_label"] = "mine"
    assert list(settings_of(study.runs)[0].runs) == ["easy(order=fcfs)", "easy(order=sjf)"]


def lost(runs):
    return [(loss.state, loss.low, loss.high, loss.policies) for loss in losses(settings_of(runs))]


def test_jobs_lost_on_some_seeds_only_are_none_at_least(tmp_path):
    runs = read_finished(make_study(tmp_path / "study", jobs=10, seeds=(0, 1), state="rejected")).runs
    assert lost(runs) == [("rejected", 10, 10, "all")]
    for run in runs[1::2]:
        run.record["metrics"]["jobs_rejected"] = 0
    assert lost(runs) == [("rejected", 0, 10, "all")]


def test_jobs_lost_outside_the_window_of_the_metrics_are_told(tmp_path):
    runs = read_finished(make_study(tmp_path / "study", jobs=10, state="rejected")).runs
    for run in runs:
        run.record.update(window_us=[0, 1], metrics={**run.metrics, "jobs_rejected": 0})
    assert lost(runs) == [("rejected", 10, 10, "all")]


def test_the_core_time_of_a_user_is_what_its_jobs_held_also_where_their_sizes_changed(tmp_path):
    folder = make_study(tmp_path / "study", jobs=20, policies=("fcfs",))
    (path,) = folder.glob("runs/*/jobs.parquet")
    held = pl.when(pl.col("job") == 1).then(300.0).otherwise(100.0)
    jobs = pl.read_parquet(path).with_columns(
        core_s=held, user=pl.when(pl.col("job") > 10).then(pl.lit("b")).otherwise(pl.lit("a"))
    )
    jobs.write_parquet(path)
    table = next(table for title, table, _ in breakdowns(settings_of(read_finished(folder).runs)[0]) if "User" in title)
    assert [(name, cells[1][0]) for name, cells in table.rows] == [("a", "54.5"), ("b", "45.5")]


def test_charts_and_tables_of_jobs_are_of_those_that_the_metrics_are_over(tmp_path):
    (run,) = read_finished(make_study(tmp_path / "study", jobs=60, policies=("fcfs",))).runs
    jobs = run.frame("jobs")
    middle_s = jobs["submit_s"].median()
    run.record["window_us"] = [0, round(middle_s * 1e6)]
    early, (setting,) = jobs.filter(pl.col("submit_s") <= middle_s), settings_of([run])
    drawn = {chart["id"]: chart["series"][0] for chart in setting_charts(setting, ["fcfs"])}
    assert drawn["wait"]["x"][-1] == pytest.approx(early["wait_s"].max(), rel=1e-5)
    assert drawn["response"]["x"][-1] == pytest.approx(early["response_s"].max(), rel=1e-5)
    assert sum(drawn["size"]["count"]) == len(early)
    rows = next(table.rows for title, table, _ in breakdowns(setting) if title.startswith("Application"))
    assert sum(int(cells[0][0]) for _, cells in rows) == len(early)


def test_jobs_that_come_after_all_others_ended_count_where_there_is_no_window(tmp_path):
    (run,) = read_finished(make_study(tmp_path / "study", jobs=40, policies=("fcfs",), pools=True)).runs
    run.record["metrics"] = {**run.metrics, "window_start_s": 0.0, "window_end_s": 1.0}
    assert read_pool_run(run).jobs.height == 40


def test_a_table_marks_the_policy_with_the_least_wait(tmp_path):
    settings = settings_of(read_finished(make_study(tmp_path / "study")).runs)
    table = comparison(settings)
    place = [column.name for column in table.columns].index("wait_s_mean")
    waits = {row.policy: float(row.cells[place].sort) for row in table.groups[0][1]}
    marked = [row.policy for row in table.groups[0][1] if row.cells[place].mark == "best"]
    assert marked == [min(waits, key=waits.get)]
    assert len(set(waits.values())) > 1


def unpack(data, numbers=False):
    raw = gzip.decompress(base64.b64decode(data))
    size = int(np.frombuffer(raw[:4], "<u4")[0])
    head, at, columns = json.loads(raw[4 : 4 + size]), 4 + size, {}
    n, m = head["rows"], head["jobs"]
    assert (head["ids"] == 0) == numbers
    for name, kind, count in (
        ("gap", "<u4", n), ("length", "<u4", n), ("first", "<u4", n), ("nodes", "<u4", n), ("job", "<u4", n),
        ("wait", "<f4", m), ("user", "<u4", m), ("app", "<u4", m), *([("id", "<u4", m)] if numbers else []),
        ("lower", "u1", n), ("height", "u1", n), ("outcome", "u1", n), ("attempt", "u1", n),
    ):  # fmt: skip
        wide = np.dtype(kind).itemsize
        planes = np.frombuffer(raw, np.uint8, count * wide, at).reshape(wide, count)
        columns[name] = np.frombuffer(planes.T.tobytes(), kind)
        at += count * wide
    assert at == len(raw)
    for name in {"job", "id"} & set(columns):
        steps = columns[name].astype(np.int64)
        columns[name] = np.cumsum((steps >> 1) ^ -(steps & 1))
    return head, columns


def test_what_is_packed_for_the_gantt_chart_can_be_read_back():
    rows = pl.DataFrame({
        "job": ["a", "b", "a"], "start_s": [10.0, 10.5, 12.25], "end_s": [12.0, 20.0, 13.0], "first_node": [0, 3, 0],
        "nodes": [2, 1, 2], "cores_per_node": [1, 1, 1], "outcome": ["node-failed", "finished", "finished"],
    })  # fmt: skip
    jobs = pl.DataFrame({"job": ["b", "a"], "user": ["x", None], "app": ["s", "t"], "wait_s": [1.5, None]})
    head, columns = unpack(pack_placements(rows, jobs, 10.0, np.ones(4, np.int64)))
    assert (head["ids"], head["users"], head["tick"]) == (["a", "b"], ["", "x"], 0.01)
    assert (np.cumsum(columns["gap"]) * head["tick"] + 10).tolist() == [10.0, 10.5, 12.25]
    assert (columns["length"] * head["tick"]).tolist() == [2.0, 9.5, 0.75]
    assert columns["job"].tolist() == [0, 1, 0]
    assert [head["outcomes"][code] for code in columns["outcome"]] == ["node-failed", "finished", "finished"]
    assert math.isnan(columns["wait"][0])
    assert columns["wait"][1] == 1.5


def test_times_far_below_a_second_are_drawn_where_they_are():
    start, end = np.array([0.0, 5.0004, 5.000401]), np.array([0.000003, 6.0, 5.000402])
    rows = pl.DataFrame({"job": ["a", "b", "c"], "start_s": start, "end_s": end, "first_node": 0, "nodes": 1,
                         "cores_per_node": 1, "outcome": "finished"})  # fmt: skip
    for some in (rows, rows[:1]):
        head, columns = unpack(pack_placements(some, pl.DataFrame({"job": ["a", "b", "c"]}), 0.0, np.ones(1, np.int64)))
        assert np.cumsum(columns["gap"]) * head["tick"] == pytest.approx(start[: len(some)], abs=1e-9)
        assert columns["length"] * head["tick"] == pytest.approx((end - start)[: len(some)], abs=1e-9)


def test_every_rectangle_of_a_run_is_on_the_page_however_small(tmp_path):
    run = read_finished(make_study(tmp_path / "study", policies=("fcfs",), jobs=3000)).runs[0]
    placed = run.frame("placements")
    found = gantt_data(run, "all", MOST_ROWS_A_PAGE)
    head, columns = unpack(found["data"], numbers=True)
    assert (found["kept"], found["kept_jobs"], found["share"]) == (len(placed), 3000, 1.0)
    assert sorted(columns["id"].tolist()) == list(range(1, 3001))
    starts = found["start"] + np.cumsum(columns["gap"]) * head["tick"]
    drawn = list(zip(columns["id"][columns["job"]], starts, starts + columns["length"] * head["tick"],
                     columns["first"], columns["nodes"], strict=True))  # fmt: skip
    assert sorted(drawn) == sorted(placed.select("job", "start_s", "end_s", "first_node", "nodes").rows())


def test_a_run_too_large_for_the_page_keeps_every_job_before_further_rectangles_of_one(tmp_path):
    run = read_finished(make_study(tmp_path / "study", policies=("fcfs",))).runs[0]
    rows = run.frame("placements").with_columns(((pl.col("end_s") - pl.col("start_s")) * pl.col("nodes")).alias("area"))
    jobs, largest = rows["job"].n_unique(), rows.group_by("job").agg(pl.col("area").max())["area"]
    assert len(rows) > jobs + 2
    some, few = gantt_data(run, "some", jobs + 2), gantt_data(run, "few", 20)
    assert (some["kept"], some["kept_jobs"]) == (jobs + 2, jobs)
    assert (few["kept"], few["kept_jobs"], few["jobs"]) == (20, 20, jobs)
    assert few["share"] == pytest.approx(largest.top_k(20).sum() / rows["area"].sum())
    assert (few["start"], few["end"]) == (some["start"], some["end"])


def test_jobs_that_never_started_are_known_to_the_page_with_their_state(tmp_path):
    run = read_finished(make_study(tmp_path / "study", policies=("fcfs",), jobs=5, state="rejected")).runs[0]
    head, _ = unpack(gantt_data(run, "none", 100)["data"], numbers=True)
    assert head["never"] == {"rejected": ["1", "2", "3", "4", "5"]}


@given(st.lists(st.integers(0, 1000), max_size=8), st.integers(0, 3000))
def test_runs_share_the_budget_of_a_page_and_leave_none_of_it_unused(sizes, most):
    found = budgets(sizes, most)
    assert all(own <= size for own, size in zip(found, sizes, strict=True))
    assert sum(found) <= most
    if sum(sizes) <= most:
        assert found == sizes
    elif sizes:
        assert sum(found) == most or max(found) - min(found) <= 1


@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.integers(1, 9), st.integers(0, 3), st.integers(1, 2), st.integers(1, 8)),
        max_size=30,
    )
)
def test_jobs_that_share_a_node_and_fit_side_by_side_are_not_drawn_over_each_other(asks):
    """Rows of one node each or two, accepted only while a free run of cores exists, as the picture needs."""
    rows, busy, now = [], np.full((4, 8), -1.0), 0
    for gap, length, first, nodes, cores in asks:
        now, nodes = now + gap, min(nodes, 4 - first)
        free = busy[first : first + nodes].max(axis=0) <= now
        lane = next((k for k in range(9 - cores) if free[k : k + cores].all()), None)
        if lane is not None:
            busy[first : first + nodes, lane : lane + cores] = now + length
            rows.append((now, now + length, first, nodes, cores))
    columns = [np.array(column) for column in zip(*rows, strict=True)] if rows else [np.zeros(0, np.int64)] * 5
    lower, height = lanes(columns[0].astype(float), columns[1].astype(float), *columns[2:], np.full(4, 8, np.int64))
    assert all(int(low) + int(tall) <= 255 for low, tall in zip(lower, height, strict=True))
    for i, (start, end, first, nodes, _) in enumerate(rows):
        for j in range(i):
            meet_time = rows[j][0] < end and start < rows[j][1]
            meet_node = rows[j][2] < first + nodes and first < rows[j][2] + rows[j][3]
            if meet_time and meet_node:
                apart = lower[i] + int(height[i]) <= lower[j] + 1 or lower[j] + int(height[j]) <= lower[i] + 1
                assert apart, (rows[i], rows[j], lower, height)


def answered(tmp_path, *waits, seeds=(0,)):
    policies = ("fcfs", "easy", "sjf")[: len(waits)]
    study = read_finished(make_study(tmp_path / "study", jobs=10, policies=policies, seeds=seeds))
    for number, run in enumerate(study.runs):
        wait = waits[number // len(seeds)]
        run.record["metrics"] = {"wait_s_mean": wait if wait is None else wait + run.seed, "jobs_finished": 10}
    return [str(sentence) for sentence in answer(settings_of(study.runs))]


ONE_SEED = "One seed: the differences are exact for these jobs; other jobs may show others."


@pytest.mark.parametrize(
    ("waits", "sentence"),
    [
        ((400.0, 100.0, 200.0), "Mean wait is shortest under <b>easy</b>: <b>1 min 40 s</b>, 75 % less than under fcfs "
         "(6 min 40 s), the longest."),
        ((50.0, 100.0, 50.0), "Mean wait is shortest under <b>fcfs</b> and <b>sjf</b>: <b>50 s</b>, 50 % less than "
         "under easy (1 min 40 s), the longest."),
        ((50.0, 50.0), "Mean wait is the same under every policy: <b>50 s</b>."),
        ((50.0, 50.001), "Mean wait is about the same under every policy: <b>50 s</b>."),
        ((50.0, None), "Mean wait is known under one policy only (fcfs): <b>50 s</b>."),
    ],
)  # fmt: skip
def test_the_answer_names_the_best_policy_and_the_distance_to_the_worst(tmp_path, waits, sentence):
    assert answered(tmp_path, *waits) == [sentence, ONE_SEED]


def test_the_answer_of_one_policy_is_its_value(tmp_path):
    assert answered(tmp_path, 50.0) == ["Mean wait is <b>50 s</b>."]


def noisy(tmp_path, noise, **served):
    """What the answer and the table say of fcfs and easy, whose waits are 10 and 12 s but for the noise of each."""
    policies = ("fcfs", "easy", "sjf")
    study = read_finished(make_study(tmp_path, jobs=10, policies=policies, seeds=(0, 1, 2, 3)))
    base = {"fcfs": 10.0, "easy": 12.0, "sjf": 900.0}
    for run in study.runs:
        wait = base[run.label] + 5 * run.seed + noise[run.label][run.seed]
        run.record["metrics"] = {"wait_s_mean": wait, "jobs_finished": 10, "served": served.get(run.label, 1.0)}
    settings = settings_of(study.runs)
    table = comparison(settings)
    place = [column.name for column in table.columns].index("wait_s_mean")
    return [str(sentence) for sentence in answer(settings)], {r.policy: r.cells[place].mark for r in table.groups[0][1]}


QUIET = {"fcfs": [0, 0, 0, 0], "easy": [0.1, -0.1, 0.1, 0], "sjf": [0, 1, 0, 1]}
LOUD = {"fcfs": [0, 0, 0, 0], "easy": [-9, 9, -3, 3], "sjf": [0, 1, 0, 1]}


def test_a_difference_that_every_seed_shows_is_marked_although_the_intervals_of_the_means_overlap(tmp_path):
    sentences, marks = noisy(tmp_path, QUIET)
    assert marks == {"fcfs": "best", "easy": "", "sjf": ""}
    assert sentences[0].startswith("Mean wait is shortest under <b>fcfs</b>: <b>17.5 s</b>")
    assert len(sentences) == 1


def test_a_difference_that_may_be_noise_is_neither_marked_best_nor_a_headline(tmp_path):
    sentences, marks = noisy(tmp_path, LOUD)
    assert marks == {"fcfs": "among", "easy": "among", "sjf": ""}
    assert sentences == [
        "Mean wait is shortest under <b>fcfs</b> (17.5 s) and <b>easy</b> (19.5 s), which 4 seeds do not tell apart; "
        "under sjf it is 15 min 8 s."
    ]


def test_a_policy_that_served_less_wins_no_column_and_the_answer_says_so_first(tmp_path):
    sentences, marks = noisy(tmp_path, QUIET, fcfs=0.5)
    assert marks == {"fcfs": "", "easy": "best", "sjf": ""}
    assert sentences[0].startswith("<b>fcfs</b> served 50 % of the core-time asked for; others served more")
    assert sentences[1].startswith("Mean wait is shortest under <b>easy</b>")


def test_the_answer_of_several_settings_tells_them_apart_and_says_nothing_of_what_it_cannot_compare(tmp_path):
    study = read_finished(
        make_study(tmp_path / "study", jobs=10, policies=("fcfs", "easy"), sweep=("load", [0.5, 0.9]))
    )
    for run, wait in zip(study.runs, (30.0, 20.0, 90.0, 60.0), strict=True):
        run.record["metrics"] = {"jobs_finished": 10.0, "served": 1.0, "wait_s_mean": wait}
    assert (
        answer(settings_of(study.runs))[0] == "Under easy mean wait is <b>20 s</b> (load 0.5), <b>1 min</b> (load 0.9)."
    )
    for run in study.runs:
        run.record["metrics"]["served"] = 0.5 if run.policy.startswith("easy") else 1.0
    unfair = " ".join(map(str, answer(settings_of(study.runs))))
    assert "served 50 %" in unfair
    assert "Mean wait" not in unfair


@given(st.floats(0, 3), st.floats(0.1, 9))
def test_no_interval_is_drawn_beyond_what_a_share_or_a_slowdown_can_be(mean, half):
    for name, least, most in (("missed_deadlines", 0, 100), ("bounded_slowdown_mean", 1, math.inf)):
        low, high = interval_ends(Estimate(mean, half, 3), column_of(name, [mean]))[1:]
        factor = 100 if most == 100 else 1
        assert min(least, mean * factor) - 1e-3 <= low <= high <= max(most, mean * factor) * (1 + 1e-5)


def test_an_interval_of_what_may_be_below_0_or_above_1_is_drawn_whole():
    for name, mean, low, high in (
        ("fragmentation_nvme_bandwidth_mb_s", -0.19, -24, -14), ("asked_nvme_capacity_mb", 0.98, 93, 103),
        ("memory_overcommit_max", 0.99, 94, 104), ("peak_links", 0.97, 92, 102),
    ):  # fmt: skip
        assert interval_ends(Estimate(mean, 0.05, 3), column_of(name, [mean])) == pytest.approx((mean * 100, low, high))


@given(st.integers(1, 10**6))
def test_times_that_are_dates_are_drawn_from_the_first_on_and_others_from_0(span):
    edges, first = np.linspace(0.0, float(span), 11), 1_659_312_000.0
    (x, at), (dates, at_dates) = span_axis(edges), span_axis(first + edges)
    assert at_dates(first + edges) == pytest.approx(at(edges), rel=1e-4, abs=1e-6)
    assert dates["scale"]["domain"] == pytest.approx(x["scale"]["domain"])
    _, at_later = span_axis(float(span) + edges)
    assert at_later(float(span) + edges)[0] == pytest.approx(x["scale"]["domain"][1], rel=1e-4)


def test_policies_of_different_worlds_are_not_compared(tmp_path):
    study = read_finished(make_study(tmp_path / "study", jobs=40))
    study.runs[0].record["world"] = "base times"
    settings = settings_of(study.runs)
    marked = settings[0].marks("wait_s_mean", "low")
    waits = {run.label: run.metrics["wait_s_mean"] for run in study.runs[1:]}
    assert marked == {min(waits, key=waits.get): "best"}
    assert any("among themselves" in sentence for sentence in answer(settings))
    assert next(row.world for row in comparison(settings).groups[0][1]) == "base times"


def test_the_same_policy_in_two_worlds_has_two_rows(tmp_path):
    study = read_finished(make_study(tmp_path / "study", jobs=10, policies=("easy", "easy(order=sjf)")))
    for run, world in zip(study.runs, ("a", "b"), strict=True):
        run.record.update(policy_label="easy", policy="easy", world=world)
    assert list(settings_of(study.runs)[0].runs) == ["easy, world=a", "easy, world=b"]


def test_every_metric_can_be_drawn_against_a_sweep_with_its_interval(tmp_path):
    study = read_finished(make_study(tmp_path / "study", jobs=40, sweep=("load", [0.5, 0.9]), seeds=(0, 1, 2)))
    settings = settings_of(study.runs)
    (sweep,) = sweeps(settings, ("fcfs", "easy", "sjf"))
    numeric = {name for run in study.runs for name, value in run.metrics.items() if value is not None}
    assert {metric["name"] for metric in sweep["metrics"]} == numeric
    p95 = next(metric for metric in sweep["metrics"] if metric["name"] == "wait_s_p95")
    assert not p95["shown"]
    assert "wait_s_p95" in metric_choices([sweep])
    value, drawn = settings[1].value("easy", "wait_s_p95"), p95["series"][1]
    assert drawn["x"] == [0.5, 0.9]
    factor = drawn["y"][1] / value.mean
    assert drawn["high"][1] == pytest.approx((value.mean + value.half) * factor, rel=1e-4)
    assert drawn["low"][1] == pytest.approx(max(value.mean - value.half, 0) * factor, rel=1e-4)


def test_the_times_of_a_column_have_one_unit_that_fits_them_all():
    column = column_of("wait_s_mean", [487_310.0, 29.3, 0.0])
    assert column.unit == "min"
    assert [column.text(value) for value in (487_310.0, 3600.0, 29.3, 0.2, 0.0)] == [
        "8,122",
        "60",
        "0.4883",
        "0.003333",
        "0",
    ]
    assert column_of("wait_s_mean", [20 * 86_400.0]).unit == "d"
    assert column_of("wait_s_mean", [20 * 86_400.0, 300.0]).text(20 * 86_400.0) == "480"
    assert column_of("wait_s_mean", [12.0]).text(0.008) == "0.008"


def test_a_quantity_has_one_unit_in_all_columns_of_a_table():
    columns = columns_of({
        "wait_s_mean": [135.4 * 3600, 0.3 * 86_400],
        "wait_s_p95": [20 * 86_400.0],
        "response_s_max": [None, 50.0 * 3600],
        "makespan_s": [300 * 86_400.0],
        "utilisation_cores": [0.5],
    })  # fmt: skip
    assert [column.unit for column in columns.values()] == ["h", "h", "h", "d", "%"]
    columns = columns_of({"wait_s_mean": [7200.0], "wait_s_max": [20 * 86_400.0], "makespan_s": [300 * 86_400.0]})
    assert [column.unit for column in columns.values()] == ["h", "h", "d"], "a maximum is in the unit of what is shown"
    columns = columns_of({"wait_s_median": [300.0], "wait_s_max": [20 * 86_400.0]})
    assert [column.unit for column in columns.values()] == ["h", "h"]


SHARES = (
    "jobs_preempted", "jobs_cut", "nodes_switched_off", "missed_deadlines_high", "used_nvme", "stranded_memory_rack",
    "asked_nvme_bandwidth_mb_s", "fragmentation_nvme_capacity_mb", "peak_uplinks", "memory_overcommit_max",
)  # fmt: skip


@pytest.mark.parametrize("name", SHARES)
def test_a_share_is_in_per_cent_in_tables_and_in_goals(name):
    assert (column_of(name, [0.25]).unit, column_of(name, [0.25]).text(0.25)) == ("%", "25")
    assert amount_text(name, 0.25) == "25 %"


def test_what_is_no_share_is_not_in_per_cent():
    for metric in EVERY_METRIC.values():
        assert (column_of(metric.name, []).unit == "%") == metric.is_share, metric.name
    assert column_of("jobs_hit_mean", [0.25]).unit != "%"
