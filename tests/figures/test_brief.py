"""What objects say of themselves in a REPL and in a notebook."""

from html.parser import HTMLParser

import pytest

import unrack
from unrack.study.grid import load_study
from unrack.workload.filters import rebase

SERVICE = {"run_s": {"kind": "exponential", "mean": 60}}


@pytest.fixture(scope="module")
def workload():
    return unrack.generate({"jobs": 50, "arrivals": {"load": 0.9, "cores": 8}, "classes": [SERVICE]}, seed=1)


@pytest.fixture(scope="module")
def result(workload):
    return unrack.simulate(unrack.Cluster.homogeneous(8, 1, name="<i>small</i>"), workload, "easy(order=sjf)")


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.seen = [], []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.seen.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_a_result_is_one_line_with_its_policy_size_and_metrics(result):
    text = repr(result)
    assert len(text) < 250
    assert "\n" not in text
    wait = result.metrics["wait_s_mean"]
    for words in ("easy(order=sjf)", "50 jobs", f"mean wait {wait:.3g} s", "cores in use"):
        assert words in text


def test_a_run_of_a_log_of_dates_is_as_long_as_that_of_the_same_log_from_0_on(result, workload):
    dated, plain = (
        repr(unrack.simulate(result.log.cluster, rebase(workload, first_us), "fcfs"))
        for first_us in (1_717_160_000 * 10**6, 0)
    )
    assert dated == plain


def test_a_cluster_and_a_workload_are_one_line_with_their_size(workload):
    assert repr(unrack.Cluster.homogeneous(8, 4, "64 GB")) == "<Cluster 'cluster': 8 nodes, 32 cores, 512 GB memory>"
    text = repr(workload)
    assert text.startswith("<Workload 'synthetic': 50 jobs, submitted over")
    assert len(text) < 150
    assert len(repr(workload.jobs)) < 150


def test_devices_are_named_with_their_number():
    cluster = unrack.Cluster.preset("nvme-pool")
    assert f"{len(cluster.devices)} nvme" in repr(cluster)


def test_a_study_and_its_runs_are_one_line_each():
    study = load_study("examples/load-sweep.toml")
    assert repr(study).startswith("<Study 'load sweep': 36 runs, policies fcfs, easy, conservative, 3 seeds")
    assert max(len(repr(one)) for one in (study, *study.runs)) < 300


def test_a_notebook_gets_a_small_table_in_which_names_are_escaped(result, workload):
    for one in (result, result.log.cluster, workload):
        html, tags = one._repr_html_(), Tags()
        tags.feed(html)
        assert tags.open == []
        assert set(tags.seen) <= {"table", "caption", "b", "tbody", "tr", "th", "td"}
        assert len(html) < 4000
    assert "&lt;i&gt;small" in result._repr_html_()


def test_an_empty_run_says_so_without_metrics():
    nothing = unrack.generate({"jobs": 1, "arrivals": {"gap_s": 1}, "classes": [SERVICE]}, seed=0)
    one = unrack.simulate(unrack.Cluster.homogeneous(1, 1), nothing, "fcfs")
    assert "1 job on" in repr(one)
