"""Charts of results in Python: what they draw, how large they get, and what is said where a package is missing."""

import json
import sys

import numpy as np
import polars as pl
import pytest

import unrack
from unrack.plots.accessor import MOST_RECTANGLES, gantt

pytest.importorskip("altair")
WAVES = {"run_s": {"kind": "exponential", "mean": 60}, "tasks": {"kind": "power-of-two", "max": 4}}


@pytest.fixture(scope="module")
def workload():
    return unrack.generate({"jobs": 300, "arrivals": {"load": 1.1, "cores": 8}, "classes": [WAVES]}, seed=1)


@pytest.fixture(scope="module")
def cluster():
    return unrack.Cluster.homogeneous(nodes=4, cores=2)


@pytest.fixture(scope="module")
def result(cluster, workload):
    return unrack.simulate(cluster, workload, policy="easy")


def rows_of(chart):
    made = chart.to_dict()
    return made["datasets"][made["data"]["name"]]


def test_the_gantt_chart_has_all_node_time_of_a_small_run(result):
    chart = result.plot.gantt(colour="outcome")
    rows = rows_of(chart)
    assert {row["job"] for row in rows} == set(map(str, result.jobs["job"]))
    size = 3600 if "hours" in json.dumps(chart.to_dict()) else 60
    area = sum((row["x2"] - row["x"]) * size * (row["y2"] - row["y"]) * 2 for row in rows)  # 2 cores a node
    assert area == pytest.approx(float(result.jobs["core_s"].sum()), rel=0.02)
    assert chart.to_dict()["title"]["subtitle"] == "300 jobs"


def test_jobs_that_share_a_node_do_not_cover_each_other(result):
    rows = [row for row in rows_of(result.plot.gantt()) if row["y2"] - row["y"] < 1]
    assert len(rows) > 20
    for i, one in enumerate(rows):
        for other in rows[i + 1 :]:
            beside = one["y2"] <= other["y"] + 0.01 or other["y2"] <= one["y"] + 0.01
            assert beside or one["x2"] <= other["x"] + 1e-6 or other["x2"] <= one["x"] + 1e-6


def test_a_hundred_thousand_jobs_make_a_small_chart_that_says_what_it_leaves_out():
    count = 100_000
    start = np.arange(count) * 10.0
    placements = pl.DataFrame({
        "job": np.arange(count), "start_s": start, "end_s": start + 1 + np.arange(count) % 977,
        "first_node": (np.arange(count) % 64).astype(np.int32), "nodes": np.ones(count, np.int32),
        "cores_per_node": np.ones(count, np.int32), "outcome": ["finished"] * count,
    })  # fmt: skip
    jobs = pl.DataFrame({"job": np.arange(count), "wait_s": np.zeros(count)})
    chart = gantt(placements, jobs, np.full(64, 8), "many")
    assert len(chart.to_json()) < 1_500_000
    assert len(rows_of(chart)) == MOST_RECTANGLES
    words = chart.to_dict()["title"]["subtitle"]
    assert words.startswith("4,000 of 100,000 jobs, the 4,000 largest of 100,000 rectangles: ")
    kept = np.sort(1 + np.arange(count) % 977)[-MOST_RECTANGLES:].sum()
    assert f"{100 * kept / (1 + np.arange(count) % 977).sum():.3g} %" in words


def test_the_mean_of_the_utilisation_drawn_is_that_of_the_metrics(result):
    shares = [row["y"] for row in rows_of(result.plot.utilisation())]
    assert np.mean(shares) == pytest.approx(result.metrics["utilisation_cores"], abs=0.02)


def test_memory_is_drawn_where_it_is_counted(workload):
    run = unrack.simulate(unrack.Cluster.homogeneous(4, 2, "8 GB"), workload, "fcfs")
    assert {row["of"] for row in rows_of(run.plot.utilisation())} == {"cores", "memory"}


def test_waits_are_drawn_as_their_distribution(result):
    rows = rows_of(result.plot.waits())
    assert rows[-1]["y"] == 1.0
    middle = next(row["x"] for row in rows if row["y"] >= 0.5)
    assert middle == pytest.approx(result.metrics["wait_s_median"], rel=0.05, abs=2)


def test_a_wrong_colour_is_an_error_that_says_which_there_are(result):
    with pytest.raises(unrack.InputError, match="job, user, app, outcome"):
        result.plot.gantt(colour="size")


def test_compared_results_have_a_chart_a_metric_and_the_best_is_marked(cluster, workload):
    results = [unrack.simulate(cluster, workload, policy) for policy in ("fcfs", "easy", "fcfs")]
    made = unrack.compare(results).to_dict()
    by_title = {}
    for part in made["concat"]:
        bar = part["layer"][0]
        rows = made["datasets"][(part.get("data") or bar["data"])["name"]]
        by_title[bar["encoding"]["x"]["title"].partition(" (")[0]] = {row["name"]: row for row in rows}
    waits = by_title["Mean wait"]
    assert list(waits) == ["fcfs", "easy", "fcfs (2)"]
    best = min(results, key=lambda one: one.metrics["wait_s_mean"]).metrics["wait_s_mean"]
    for (name, row), own in zip(waits.items(), results, strict=True):
        assert (row["kind"] == "best") == (own.metrics["wait_s_mean"] == best), name


def test_whoever_served_less_is_not_compared():
    small, large = unrack.Cluster.homogeneous(2, 1), unrack.Cluster.homogeneous(8, 1)
    wide = unrack.generate({"jobs": 40, "arrivals": {"gap_s": 50}, "classes": [{**WAVES, "run_s": 20}]}, seed=0)
    made = unrack.compare({"small": unrack.simulate(small, wide), "large": unrack.simulate(large, wide)}).to_dict()
    assert "served less" in json.dumps(made)
    assert any("small" in words for words in made["title"]["subtitle"] if "Served less" in words)


def test_no_result_is_better_than_one_of_another_world():
    cluster = unrack.Cluster.from_dict({"nodes": [{"count": 1, "cores": 4}], "pools": [
        {"kind": "nvme", "count": 1, "quantities": {"bandwidth_mb_s": 1000}}]})  # fmt: skip
    asks = {"name": "x", "run_s": 100, "devices": {"nvme.bandwidth_mb_s": 500}}
    jobs = unrack.generate({"jobs": 4, "arrivals": {"gap_s": 0}, "classes": [asks]})
    slow = unrack.World(models=[{"model": "x", "linear": True}])
    base, one, other = (unrack.simulate(cluster, jobs, "fcfs", world=world) for world in (unrack.World(), slow, slow))
    made = unrack.compare({"base": base, "slow": one}).to_dict()
    assert base.metrics["response_s_mean"] < one.metrics["response_s_mean"]
    assert '"best"' not in json.dumps(made["datasets"])
    assert any("models" in words for words in made["title"]["subtitle"])
    assert not any("models" in words for words in unrack.compare([one, other]).to_dict()["title"]["subtitle"])


def test_too_few_results_and_unknown_metrics_are_errors(result):
    with pytest.raises(unrack.InputError, match="0 results"):
        unrack.compare([])
    with pytest.raises(unrack.InputError, match="'waits'"):
        unrack.compare([result], metrics=["waits"])


@pytest.mark.parametrize("ending", ["html", "svg", "png"])
def test_charts_show_in_a_notebook_and_save(result, tmp_path, ending):
    pytest.importorskip("vl_convert")
    chart = unrack.compare({"one": result}) if ending == "svg" else result.plot.waits()
    bundle = chart._repr_mimebundle_()
    assert bundle
    path = tmp_path / f"chart.{ending}"
    chart.save(str(path))
    head = {"html": b"<!DOCTYPE html", "svg": b"<svg", "png": b"\x89PNG"}[ending]
    assert path.read_bytes().startswith(head)


@pytest.mark.parametrize(
    ("module", "ask", "words"),
    [
        ("altair", lambda result: result.plot.gantt(), r"pip install 'unrack\[figures\]'"),
        ("altair", lambda result: unrack.compare([result]), r"pip install 'unrack\[figures\]'"),
        ("pandas", lambda result: result.to_pandas(), r"pip install 'unrack\[pandas\]'"),
    ],
)
def test_a_missing_package_is_named_with_what_installs_it(result, monkeypatch, module, ask, words):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(unrack.InputError, match=words):
        ask(result)
