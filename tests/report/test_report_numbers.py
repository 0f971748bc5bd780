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

from unrack.report.answer import answer
from unrack.report.chart import class_name, size_class
from unrack.report.column import column_of
from unrack.report.directory import read_finished
from unrack.report.gantt import gantt_data, lanes, pack
from unrack.report.series import binned_integral, binned_mean, distribution
from unrack.report.setting import Estimate, best_of, estimate, settings_of
from unrack.report.table import comparison

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
    assert found.half == pytest.approx(4.303 * 2 / math.sqrt(3))
    many = estimate([float(value) for value in range(61)])
    assert many.half == pytest.approx(2.0003 * np.std(np.arange(61), ddof=1) / math.sqrt(61), rel=1e-3)
    assert estimate([None]) is None


@pytest.mark.parametrize(
    ("better", "means", "best"),
    [
        ("low", (3, 1, 2), "b"),
        ("high", (3, 1, 2), "a"),
        ("low", (2, 1, 1), "bc"),
        ("low", (1, 1, 1), ""),
        ("", (1, 2, 3), ""),
    ],
)
def test_the_best_of_a_column_follows_its_direction_and_ties_are_all_best(better, means, best):
    values = {name: Estimate(float(mean), 0.0, 1) for name, mean in zip("abc", means, strict=True)}
    assert "".join(best_of(values, better)) == best


def test_headings_choose_a_readable_unit():
    assert column_of("wait_s_mean", [50_000.0, None]).unit == "h"
    assert column_of("wait_s_mean", [50_000.0]).text(36_000.0) == "10"
    assert column_of("wait_s_mean", [700.0]).unit == "min"
    assert column_of("utilisation_cores", [0.5]).text(0.5) == "50"
    assert column_of("wait_s_mean", []).text(None) == "–"


def test_policies_that_share_a_label_go_by_their_full_text(tmp_path):
    study = read_finished(make_study(tmp_path / "study", jobs=10, policies=("easy", "easy(order=sjf)")))
    for run in study.runs:
        run.record["policy_label"] = "mine"
    assert list(settings_of(study.runs)[0].runs) == ["easy(order=fcfs)", "easy(order=sjf)"]


def test_a_table_marks_the_policy_with_the_least_wait(tmp_path):
    settings = settings_of(read_finished(make_study(tmp_path / "study")).runs)
    table = comparison(settings)
    place = [column.name for column in table.columns].index("wait_s_mean")
    waits = {row.policy: float(row.cells[place].sort) for row in table.groups[0][1]}
    marked = [row.policy for row in table.groups[0][1] if row.cells[place].best]
    assert marked == [min(waits, key=waits.get)]
    assert len(set(waits.values())) > 1


def unpack(data):
    raw = gzip.decompress(base64.b64decode(data))
    size = int(np.frombuffer(raw[:4], "<u4")[0])
    head, at, columns = json.loads(raw[4 : 4 + size]), 4 + size, {}
    n, m = head["rows"], head["jobs"]
    for name, kind, count in (
        ("gap", "<u4", n), ("length", "<u4", n), ("first", "<u4", n), ("nodes", "<u4", n), ("job", "<u4", n),
        ("wait", "<f4", m), ("user", "<u4", m), ("app", "<u4", m), ("lower", "u1", n),
        ("height", "u1", n), ("outcome", "u1", n),
    ):  # fmt: skip
        columns[name] = np.frombuffer(raw, kind, count, at)
        at += columns[name].nbytes
    assert at == len(raw)
    return head, columns


def test_what_is_packed_for_the_gantt_chart_can_be_read_back():
    rows = pl.DataFrame({
        "job": ["a", "b", "a"], "start_s": [10.0, 10.5, 12.25], "end_s": [12.0, 20.0, 13.0], "first_node": [0, 3, 0],
        "nodes": [2, 1, 2], "cores_per_node": [1, 1, 1], "outcome": ["node-failed", "finished", "finished"],
    })  # fmt: skip
    jobs = pl.DataFrame({"job": ["b", "a"], "user": ["x", None], "app": ["s", "t"], "wait_s": [1.5, None]})
    head, columns = unpack(pack(rows, jobs, 10.0, np.ones(4, np.int64)))
    assert (head["ids"], head["users"], head["tick"]) == (["a", "b"], ["", "x"], 0.01)
    assert (np.cumsum(columns["gap"]) * head["tick"] + 10).tolist() == [10.0, 10.5, 12.25]
    assert (columns["length"] * head["tick"]).tolist() == [2.0, 9.5, 0.75]
    assert columns["job"].tolist() == [0, 1, 0]
    assert columns["outcome"].tolist() == [1, 0, 0]
    assert math.isnan(columns["wait"][0])
    assert columns["wait"][1] == 1.5


def test_thinning_keeps_the_rows_with_most_node_time_and_says_what_share_they_are(tmp_path):
    run = read_finished(make_study(tmp_path / "study", policies=("fcfs",))).runs[0]
    whole, part = gantt_data(run, "all", 10_000), gantt_data(run, "some", 20)
    rows = run.frame("placements").with_columns(((pl.col("end_s") - pl.col("start_s")) * pl.col("nodes")).alias("area"))
    assert (whole["kept"], whole["share"]) == (len(rows), 1.0)
    assert part["kept"] == 20
    assert part["share"] == pytest.approx(rows["area"].top_k(20).sum() / rows["area"].sum())
    assert (part["start"], part["end"]) == (whole["start"], whole["end"])


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
        ((50.0,), "Mean wait is <b>50 s</b>."),
    ],
)  # fmt: skip
def test_the_answer_names_the_best_policy_and_the_distance_to_the_worst(tmp_path, waits, sentence):
    assert answered(tmp_path, *waits) == [sentence]


def test_the_answer_says_when_seeds_leave_the_best_policy_open(tmp_path):
    (clear,) = answered(tmp_path / "a", 10.0, 900.0, seeds=(0, 1, 2))
    (open_,) = answered(tmp_path / "b", 10.0, 10.5, seeds=(0, 1, 2))
    assert "overlap" not in clear
    assert open_.endswith("it is not clearly better than easy: their 95 % intervals overlap.")
