import base64
import gzip
import itertools
import json
import re

import numpy as np
import polars as pl
import pytest
from fabricate import make_study
from fabricate_pools import CLASSES, SHARES

from unrack.report.charts.canvas import occupancy_data, pack_shares, ticked
from unrack.report.page import write_report
from unrack.report.sections.pool_counts import (
    EVERY,
    MOST_LEVEL,
    composition_times,
    deadlines,
    has_pools,
    jobs_by_node,
    node_groups,
    read_pool_run,
    work_by_rule,
)
from unrack.report.sections.pools import POOLS, deadline_table
from unrack.report.sections.section import section_of
from unrack.report.setting import policies_of, read_finished, settings_of
from unrack.report.table import column_of, comparison


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    options = {"pools": True, "nodes": 5, "jobs": 150, "seeds": (0, 1)}
    return make_study(tmp_path_factory.mktemp("base") / "study", **options, policies=("first-fit", "max-composition"))


@pytest.fixture(scope="module")
def study(folder):
    return read_finished(folder)


@pytest.fixture(scope="module")
def runs(study):
    return [read_pool_run(run) for run in study.runs[2:]]


def test_deadlines_by_class_add_up_to_the_metric(runs):
    found = deadlines(runs)
    assert set(found) == {EVERY, *CLASSES}
    assert [own.jobs for own in found.values()] == sorted((own.jobs for own in found.values()), reverse=True)
    for column in range(5):
        assert found[EVERY][column] == sum(own[column] for name, own in found.items() if name != EVERY)
    missed = np.mean([run.run.metrics["missed_deadlines"] for run in runs])
    high = np.mean([run.run.metrics["missed_deadlines_high"] for run in runs])
    assert (found[EVERY].missed + found[EVERY].missed_high) / found[EVERY].jobs == pytest.approx(missed)
    assert found[EVERY].missed_high / found[EVERY].jobs == pytest.approx(high)
    assert found[EVERY].missed_high > 0


def test_only_jobs_submitted_in_the_window_count_and_those_without_a_deadline_apart(study):
    run = study.runs[0]
    jobs = run.frame("jobs")
    low, high = jobs["submit_s"][10], jobs["submit_s"][59]
    run.record["metrics"] |= {"window_start_s": low, "window_end_s": high}
    run.record["window_us"] = [round(low * 1e6), round(high * 1e6)]
    read = read_pool_run(run)
    del run.record["window_us"]
    for name in ("window_start_s", "window_end_s"):
        del run.record["metrics"][name]
    assert len(read.jobs) == 50
    assert deadlines([read])[EVERY].jobs == 50
    unknown = read.jobs.with_columns(missed=pl.lit(None, pl.Boolean))
    found = deadlines([type(read)(**{**vars(read), "jobs": unknown})])
    assert found[EVERY] == (0, 0, 50, 0, 0)
    assert deadline_table({"fcfs": found}, 0.1) is None


def test_composition_times_are_those_of_a_plain_count(runs):
    run = runs[0]
    shares = run.shares.filter(pl.col("kind") == "nvme")
    sizes, sharers = np.zeros(MOST_LEVEL + 1), np.zeros(MOST_LEVEL + 1)
    for _, own in shares.group_by("composition"):
        times = sorted({*own["start_s"], *own["end_s"]})
        for low, high in itertools.pairwise(times):
            on = int(((own["start_s"] <= low) & (own["end_s"] > low)).sum())
            if on:
                sizes[own["size"][0]] += high - low
                sharers[on] += high - low
    found = composition_times([run], "nvme")
    assert found[0] == pytest.approx(sizes)
    assert found[1] == pytest.approx(sharers)
    assert sharers[2] > 0
    assert sizes.sum() == pytest.approx(sharers.sum())


def test_composition_times_stop_at_the_ends_of_the_window(runs):
    run = runs[0]
    first, last = float(run.shares["start_s"].min()), float(run.shares["end_s"].max())
    middle = (first + last) / 2
    parts = [
        composition_times([type(run)(**{**vars(run), "window": window})], "nvme")[1]
        for window in ((first, middle), (middle, last))
    ]
    assert sum(parts) == pytest.approx(composition_times([run], "nvme")[1])
    assert min(part.sum() for part in parts) > 0


def test_jobs_by_node_count_every_finished_job_once_whatever_the_groups(runs):
    for groups in (node_groups(5), [(0, 1), (2, 4)]):
        found = jobs_by_node(runs, groups)
        assert list(found) == sorted(CLASSES)
        assert sum(map(sum, found.values())) == pytest.approx(150)
    assert node_groups(5) == [(node, node) for node in range(5)]
    assert node_groups(500)[-1] == (475, 499)
    assert len(node_groups(1490)) <= 20


def test_work_by_rule_is_core_time_of_the_jobs_it_placed(runs):
    jobs = runs[0].run.frame("jobs").filter(pl.col("placed_by") == "max-composition")
    found = work_by_rule(runs[:1], "cores")
    assert found["max-composition"] == pytest.approx(float((jobs["cores"] * jobs["run_s"]).sum()))
    assert set(found) == {"first-fit", "max-composition", "min-fragmentation"}
    assert set(work_by_rule(runs[:1], "nothing")) == set()


def unpack(data):
    raw = gzip.decompress(base64.b64decode(data))
    size = int(np.frombuffer(raw[:4], "<u4")[0])
    head, at, columns = json.loads(raw[4 : 4 + size]), 4 + size, {}
    n = head["rows"]
    for name, kind, count in (
        ("gap", "<u4", n), ("length", "<u4", n), ("life", "<u4", n), ("job", "<u4", n), ("node", "<u4", n),
        ("sizes", "<u4", head["lives"]), ("links", "<u4", head["links"]), ("app", "<u4", head["jobs"]),
        ("parts", "u1", n),
    ):  # fmt: skip
        wide = np.dtype(kind).itemsize
        planes = np.frombuffer(raw, np.uint8, count * wide, at).reshape(wide, count)
        columns[name] = np.frombuffer(planes.T.tobytes(), kind)
        at += count * wide
    assert at == len(raw)
    return head, columns


def test_what_is_packed_of_a_pool_can_be_read_back():
    rows = [
        (5, 1, 10.0, 20.0, "nvme", "nvme", 2, [3, 1], 70, 2, 0),
        (6, 1, 12.5, 20.0, "nvme", "nvme", 2, [3, 1], 70, 2, 0),
        (9, 1, 13.0, 14.0, "gpu", "gpu", 0, [8], 71, 1, 4),
    ]  # fmt: skip
    shares = pl.DataFrame(rows, schema=SHARES, orient="row")
    jobs = pl.DataFrame({"job": [9, 5, 6], "app": ["yolo", "smufin", None]})
    head, columns = unpack(pack_shares(shares, jobs, 10.0))
    assert (head["ids"], head["names"], head["tick"]) == (["5", "6", "9"], ["70", "71"], 0.1)
    assert [head["apps"][code] for code in columns["app"]] == ["smufin", "", "yolo"]
    assert (np.cumsum(columns["gap"]) * head["tick"] + 10).tolist() == [10.0, 12.5, 13.0]
    assert columns["length"].tolist() == [100, 75, 10]
    assert columns["life"].tolist() == [0, 0, 1]
    assert columns["node"].tolist() == [2, 2, 0]
    assert columns["parts"].tolist() == [0, 0, 4]
    assert (columns["sizes"].tolist(), columns["links"].tolist()) == ([2, 1], [3, 1, 8])


def test_thinning_keeps_whole_compositions_and_says_what_share_they_hold(study):
    run = study.runs[2]
    whole, part = occupancy_data(run, "all", 10_000), occupancy_data(run, "some", 30)
    shares = run.frame("shares")
    assert (whole["kept"], whole["rows"], whole["share"]) == (len(shares), len(shares), 1.0)
    assert 0 < part["kept"] <= 30
    assert 0 < part["share"] < 1
    assert (part["start"], part["end"], part["devices"]) == (whole["start"], whole["end"], 11)
    head, columns = unpack(part["data"])
    sizes = dict(shares.group_by(pl.col("composition").cast(pl.String)).len().iter_rows())
    counts = np.bincount(columns["life"], minlength=head["lives"])
    assert [sizes[name] for name in head["names"]] == counts.tolist()


def test_a_run_whose_shares_are_missing_or_whose_cluster_has_no_pools_has_no_section(study, tmp_path):
    old = read_finished(make_study(tmp_path / "old", jobs=10))
    assert not has_pools(old.runs[0])
    settings = settings_of(old.runs)
    assert section_of(POOLS, settings, settings, policies_of(settings)) is None
    page = write_report(old.folder).read_text()
    assert 'id="pools"' not in page
    assert 'href="#pools"' not in page
    assert [pool.name for pool in study.runs[0].hardware.devices.pools] == ["nvme", "gpu"]


def test_a_study_on_pools_has_the_section_its_tables_and_the_bound(folder):
    page = write_report(folder).read_text()
    assert write_report(folder).read_text() == page
    text = re.sub(r"<script.*?</script>", "", page, flags=re.S)
    for words in (
        'id="pools"', "Which devices are in use", "high priority, missed (%)", "no policy can be below", "1.00",
        "nvme devices", "gpu in use (%)", "over 2 seeds",
    ):  # fmt: skip
        assert words in text, words
    assert "Share of missed deadlines does not tell the policies apart over 2 seeds: from " in text


def test_a_study_without_deadlines_or_jobs_on_devices_still_has_a_page(folder, tmp_path):
    made = make_study(tmp_path / "study", pools=True, nodes=5, jobs=20, policies=("first-fit",))
    (run,) = (made / "runs").iterdir()
    jobs = pl.read_parquet(run / "jobs.parquet").drop("missed", "placed_by")
    jobs.write_parquet(run / "jobs.parquet")
    pl.DataFrame(schema=SHARES).write_parquet(run / "shares.parquet")
    page = write_report(made).read_text()
    assert 'id="pools"' in page
    assert 'id="pool-deadlines"' not in page
    assert 'id="pool-time"' not in page


def test_metrics_of_devices_stand_together_and_unknown_ones_are_shown(study):
    settings = settings_of(study.runs)
    for run in study.runs:
        run.record["metrics"]["brand_new"] = 3.0
    table = comparison(settings)
    names = [column.name for column in table.columns]
    assert [group for group, _ in table.heads] == [
        "Deadlines", "Times of jobs", "Cores and memory", "nvme devices", "gpu devices", "Jobs", "Other",
    ]  # fmt: skip
    assert sum(count for _, count in table.heads) == len(names)
    assert sum(count for _, count in table.short_heads) == sum(table.short)
    start = sum(count for group, count in table.heads[:3])
    devices = names[start : start + dict(table.heads)["nvme devices"]]
    assert "used_nvme" in devices
    assert all("nvme" in name for name in devices)
    assert names[-1] == "brand_new"
    assert "missed_deadlines" in [name for name, short in zip(names, table.short, strict=True) if short]


@pytest.mark.parametrize(
    ("name", "label", "unit", "text"),
    [
        ("missed_deadlines", "missed deadlines", "%", "25"),
        ("used_nvme", "nvme in use", "%", "25"),
        ("asked_nvme_bandwidth_mb_s", "nvme bandwidth asked", "%", "25"),
        ("sharing_memory_blade", "jobs a memory blade composition", "", "0.25"),
        ("fragmentation_gpu_memory_mb", "gpu memory fragmentation", "%", "25"),
    ],
)
def test_a_metric_of_devices_is_headed_by_kind_and_quantity(name, label, unit, text):
    column = column_of(name, [0.25])
    assert (column.label, column.unit, column.text(0.25)) == (label, unit, text)


def test_rounded_times_never_make_one_who_leaves_overlap_one_who_joins() -> None:
    rng = np.random.default_rng(3)
    ends = np.cumsum(np.round(rng.exponential(100_000, 400), 6))
    start, length = np.concatenate([[0.0], ends[:-1]]), np.diff(ends, prepend=0.0)
    tick, gaps, lengths = ticked(start, length)
    assert tick > 1e-6, "the axis must be long enough to need rounding"
    begin = np.cumsum(gaps.astype(np.int64))
    assert (begin[1:] == (begin + lengths)[:-1]).all()
