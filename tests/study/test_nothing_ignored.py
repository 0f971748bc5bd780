"""A key that can never change anything is refused; one that cannot in some rows is told where users look first."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import unrack
from unrack.cli.main import app
from unrack.errors import ClusterError, StudyError
from unrack.policy.table import make_policy
from unrack.report.page import render
from unrack.report.setting import read_finished
from unrack.sim.effect import effects, notes_of
from unrack.sim.faults import Fault
from unrack.study.grid import Study, load_study
from unrack.workload.job import job_table

PLAIN = "{count = 4, cores = 4, memory = '4 GB'}"
JOBS = "generate = {jobs = 20, arrivals = {gap_s = 5}, classes = [{run_s = 20, memory_mb = 2000, tasks = 2CLASS}]}"
POOLED = "pools = [{kind = 'nvme', count = 2, quantities = {bandwidth_mb_s = '2 GB/s', capacity_mb = '600 GB'}}]\n"


def text(policies: str, top: str = "", cluster: str = "", jobs: str = "", nodes: str = PLAIN, more: str = "") -> str:
    return (
        f"policies = [{policies}]\n{top}\n[[clusters]]\nnodes = [{nodes}]\n{cluster}\n"
        f"[[workloads]]\nname = 'some'\n{JOBS.replace('CLASS', jobs)}\n{more}"
    )


def load(folder: Path, content: str) -> Study:
    (folder / "study.toml").write_text(content)
    return load_study(str(folder / "study.toml"))


def notes(study: Study) -> dict[str, list[str]]:
    return {run.policy.label: list(notes_of(run.effects)) for run in study.runs}


REFUSED = {
    "models where nothing asks for devices": (
        text("'first-fit'", "models = ['smufin']", POOLED), ["line 2", "models[0]", "no job of smufin asks for nvme"]),
    "models of a kind that the cluster has not": (
        text("'easy'", "models = ['smufin']"), ["models[0]", "has no nvme devices"]),
    "a model of apps that no job has": (
        text("'first-fit'", "models = ['yolo']", POOLED, ", devices = {'nvme.capacity_mb' = 5}"),
        ["models[0]", "has no gpu devices"]),
    "a model that governs what no device has": (
        text("'first-fit'", "models = [{model = 'fio', apps = ['job'], governs = ['bandwith_mb_s']}]",
             POOLED, ", devices = {'nvme.bandwidth_mb_s' = 5}"),
        ["models", "bandwith_mb_s, which a model governs", "nvme of cluster1 has bandwidth_mb_s and capacity_mb"]),
    "models beside policies of the base world only": (
        "models = ['smufin']\npolicies = ['first-fit, world=base']\n[[clusters]]\npreset = 'nvme-pool'\n"
        "[[workloads]]\ngenerate = {scenario = 'nvme-s1', load = 0.7, jobs = 20}\n", ["models", "world = 'base'"]),
    "contention where nobody lends": (
        text("'easy', 'baseline'", "contention = 'synthetic'"),
        ["line 2", "contention", "easy never lets a job use another node's memory", "baseline never"]),
    "contention where jobs ask for no memory": (
        text("'disaggregated'", "contention = 'synthetic'").replace("memory_mb = 2000, ", ""),
        ["contention", "no job asks for memory"]),
    "contention where no two nodes may lend": (
        text("'disaggregated'", "contention = 'synthetic'", "lending = 'none'"),
        ["contention", "no two nodes of cluster1 may lend to each other"]),
    "the factor of a distance that there is not": (
        text("'disaggregated'", "contention = {profiles = 'synthetic', distance = {far = 2}}"),
        ["contention.distance.far", "no two nodes of cluster1 are at that distance"]),
    "lending where nobody lends": (
        text("'easy'", "", "lending = 2"), ["clusters[0].lending", "easy never lets a job use another node's memory"]),
    "memory pools where nobody lends": (
        text("'easy'", "", "memory_pools = [{count = 1, memory = '8 GB'}]"),
        ["clusters[0].memory_pools", "easy never"]),
    "groups of racks where nobody asks how far": (
        text("'disaggregated'", "", "nodes_per_rack = 1\nracks_per_group = 2"),
        ["clusters[0].racks_per_group", "no policy asks how far"]),
    "near lenders where there is one rack": (
        text("'disaggregated(near=yes)'"), ["policies[0]", "all nodes of cluster1 are in one rack"]),
    "memory that is not counted": (
        text("'easy'", nodes="{count = 4, cores = 4}"),
        ["workloads[0].generate.classes[0].memory_mb", "memory is not counted on cluster1"]),
    "priorities that nobody looks at": (
        text("'easy'", jobs=", priority = 3"),
        ["workloads[0].generate.classes[0].priority", "easy does not look at priorities"]),
    "SLOs on a cluster without tiers": (
        "policies = ['easy']\n[[clusters]]\nnodes = [{count = 9, cores = 99, memory = '999 GB'}]\n"
        "[[workloads]]\ngenerate = {servers = 9, alpha = 1.5}\n",
        ["workloads[0].generate.alpha", "memory has no tiers on cluster1"]),
    "the base world of a study that has no other": (
        text("{ name = 'easy', world = 'base' }"), ["policies[0]", "neither models nor contention"]),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_a_key_that_can_never_change_anything_is_refused(case: str, tmp_path: Path) -> None:
    content, words = REFUSED[case]
    with pytest.raises(StudyError) as error:
        load(tmp_path, content)
    assert all(word in str(error.value) for word in ["study.toml", "wanted", *words]), str(error.value)
    assert error.value.exit_code == 2


def test_what_changes_something_in_a_row_is_not_refused_and_told_in_the_others(tmp_path: Path) -> None:
    study = load(tmp_path, text("'disaggregated', 'baseline', 'easy'", "contention = 'synthetic'", "lending = 2"))
    found = notes(study)
    assert found["disaggregated"] == []
    assert found["baseline"] == [
        "no effect of which nodes may lend to which on cluster1: baseline never lets a job use another node's memory",
        "no effect of contention: baseline never lets a job use another node's memory",
    ]
    assert len(found["easy"]) == 2


def test_what_is_told_stands_in_the_record_the_summary_and_at_the_top_of_the_report(tmp_path: Path) -> None:
    load(tmp_path, text("'disaggregated', 'baseline'", "contention = 'synthetic'"))
    arguments = ["run", str(tmp_path / "study.toml"), "--out", str(tmp_path / "out"), "-j", "1"]
    words = "no effect of contention: baseline never lets a job use another node's memory (baseline)"
    shown = CliRunner().invoke(app, arguments)
    assert shown.exit_code == 0, shown.output
    assert f"note: {words}" in shown.output
    answer = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).output)
    assert answer["notes"] == [words]
    records = {run["policy"]: json.loads((tmp_path / "out" / "runs" / run["run"] / "run.json").read_text())
               for run in answer["runs"]}  # fmt: skip
    assert "notes" not in records["disaggregated"]
    assert records["baseline"]["notes"] == [words.removesuffix(" (baseline)")]
    assert records["baseline"]["contention"]["note"] == "no profile was used: no job can use another node's memory"
    assert "20 of 20 jobs" in records["disaggregated"]["contention"]["note"]
    page = render(read_finished(tmp_path / "out"))
    assert page.index("never lets a job use another node") < page.index('<dl class="facts">')


def test_what_a_trace_asks_for_is_told_not_refused(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text("submit,run,tasks,cores,memory_mb,local_mb,priority\n0,9,1,1,500,400,2\n")
    found = notes(load(tmp_path, "policies = ['easy']\n[[clusters]]\nnodes = [{count = 2, cores = 2}]\n"
                                 "[[workloads]]\ntrace = 'jobs.csv'\n"))["easy"]  # fmt: skip
    assert found == [
        "no effect of the memory that jobs ask for: memory is not counted on cluster1",
        "no effect of the jobs' SLOs of memory: memory has no tiers on cluster1",
        "no effect of the priorities of jobs: easy does not look at priorities",
    ]


def test_tiers_that_no_policy_uses_are_told(tmp_path: Path) -> None:
    tiers = (
        "memory_pools = [{count = 4, memory = '8 GB', tier = 'far'}]\n"
        "tiers = [{name = 'here'}, {name = 'far', cost = 1}]"
    )
    found = notes(load(tmp_path, text("'easy', 'slo'", "", tiers).replace("tasks = 2", "tasks = 1")))
    why = "easy places nothing in them; only metrics count by them"
    assert found == {"easy": [f"no effect of the tiers of memory of cluster1: {why}"], "slo": []}


@pytest.mark.parametrize("key", ["lending", "group"])
def test_lending_groups_beside_tiers_are_refused_by_the_cluster(key: str) -> None:
    pool = {"count": 2, "memory": "8 GB", "tier": "far"}
    content = {"nodes": [{"count": 2, "cores": 2, "memory": "4 GB"}], "tiers": [{"name": "here"}, {"name": "far"}]}
    said = {"lending": 2, "memory_pools": [pool]} if key == "lending" else {"memory_pools": [{**pool, "group": 0}]}
    with pytest.raises(ClusterError, match=f"{key}: .* shared_by or pool_clusters"):
        unrack.Cluster.from_dict({**content, **said})


def test_failures_and_windows_after_the_end_are_told(tmp_path: Path) -> None:
    late = "[[faults]]\ndomain = 'node0'\nat = '9 h'\nrepair_after = 5\n[measure]\nfrom = '9 h'\nto = '10 h'\n"
    load(tmp_path, text("'easy'", more=late))
    out = CliRunner().invoke(app, ["run", str(tmp_path / "study.toml"), "--out", str(tmp_path / "out"), "-j", "1"])
    assert "note: no effect of the failure of node0: it is due at 32,400 s, and the run ends at" in out.output
    assert "note: no effect of the window of the metrics: it begins at 32,400 s" in out.output


def test_times_before_the_first_date_of_a_log_are_told_with_the_filter_that_counts_from_it(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text("submit,run,tasks,cores\n2024-03-01T00:00:00,9,1,1\n2024-03-03T00:00:00,9,1,1\n")
    site = "site = {reservations = [{name = 'r', nodes = ['0'], start = '1 d', duration = '2 d', users = ['ann']}]}\n"
    for rebased in (False, True):
        trace = "trace = 'jobs.csv'\n" + "rebase = 0\n" * rebased
        content = ("policies = ['easy']\n[[clusters]]\nnodes = [{count = 2, cores = 2}]\n" + site
                   + "[[workloads]]\n" + trace + "[measure]\nfrom = '1 d'\nto = '3 d'\n"
                   + "[[faults]]\ndomain = 'node0'\nat = '1 d'\nrepair_after = 5\n")  # fmt: skip
        load(tmp_path, content)
        out = CliRunner().invoke(app, ["run", str(tmp_path / "study.toml"), "--out", str(tmp_path / "out"), "-j", "1"])
        for what in ("the reservation r", "the failure of node0", "the window of the metrics"):
            told = f"no effect of {what}: it is counted from 1970" in " ".join(out.output.split())
            assert told != rebased, (what, out.output)


def test_seeds_that_draw_nothing_are_refused_unless_a_policy_draws(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text("submit,run,tasks,cores\n0,9,1,1\n")
    content = ("seeds = 3\npolicies = ['easy'POLICY]\n[[clusters]]\nnodes = [{count = 2, cores = 2}]\n"
               "[[workloads]]\ntrace = 'jobs.csv'\n")  # fmt: skip
    with pytest.raises(StudyError, match=r"line 1, seeds: .* nothing is drawn, all give the same run"):
        load(tmp_path, content.replace("POLICY", ""))
    found = notes(load(tmp_path, content.replace("POLICY", ", 'random-fit'")))
    assert found["easy"] == ["no effect of the seeds: nothing is drawn, all give the same run"]
    assert found["random-fit"] == []


def test_a_result_tells_what_changed_nothing() -> None:
    cluster = unrack.Cluster.homogeneous(2, 2)
    workload = unrack.generate({"jobs": 2, "arrivals": {"gap_s": 1}, "classes": [{"run_s": 3}]}, 0)
    keys = {"models": ["smufin"], "contention": "synthetic", "faults": [Fault("node0", 10**12, 1)]}
    assert unrack.simulate(cluster, workload, "easy").notes == ()
    assert unrack.simulate(cluster, workload, "easy", world=unrack.World(contention="synthetic")).notes == (
        "no effect of contention: easy never lets a job use another node's memory",
    )
    found = unrack.simulate(
        cluster, workload, "easy", world=unrack.World(models=["smufin"], faults=keys["faults"])
    ).notes
    assert found == (
        f"no effect of the model smufin: {cluster.name} has no nvme devices",
        "no effect of the failure of node0: it is due at 1,000,000 s, and the run ends at 5 s",
    )


def test_whole_lists_that_are_swept_are_told_of_not_refused(tmp_path: Path) -> None:
    jobs = "{jobs = 2, arrivals = {gap_s = 1}, classes = [{run_s = 1, priority = 2}]}"
    swept = f"[sweep]\nworkloads = [[{{generate = {jobs}}}]]\n"
    found = notes(load(tmp_path, text("'easy'", more=swept)))
    assert found == {"easy": ["no effect of the priorities of jobs: easy does not look at priorities"]}


def test_slos_count_where_a_cluster_of_the_study_has_tiers_and_are_told_where_none_has(tmp_path: Path) -> None:
    tiers = "tiers = [{name = 'here'}, {name = 'far', cost = 1}]"
    tiers += "\nmemory_pools = [{count = 2, memory = '9 GB', tier = 'far'}]"
    content = (
        "policies = ['fcfs']\n[[clusters]]\nname = 'tiered'\nnodes = [{count = 2, cores = 99, memory = '999 GB'}]\n"
        f"{tiers}\n[[clusters]]\nname = 'plain'\nnodes = [{{count = 2, cores = 99, memory = '999 GB'}}]\n"
        "[[workloads]]\ngenerate = {servers = 9, alpha = 1.5}\n"
    )
    found = load(tmp_path, content).runs
    assert [notes_of(run.effects)[:1] for run in found] == [
        ("no effect of the jobs' SLOs of memory: fcfs does not look at them, and what it breaks is counted",),
        ("no effect of the jobs' SLOs of memory: memory has no tiers on plain",),
    ]


@pytest.mark.parametrize("order", ["smallest", "largest", "smallest-area", "wfp3"])
def test_an_order_by_cores_tells_that_it_does_not_see_gpus(order: str) -> None:
    cluster = unrack.Cluster.homogeneous(2, 8)
    jobs = job_table(
        submit_us=np.zeros(2, np.int64), work_us=np.full(2, 10**6), tasks=np.ones(2, np.int64),
        devices={("gpus", "count"): np.array([8, 0])},
    )  # fmt: skip
    cases = {"asked": (jobs, order), "nobody asks": (jobs.take(np.array([1])), order), "by time": (jobs, "sjf")}
    notes = {
        case: [one.why_not for one in effects(cluster, some, make_policy("list", {"order": by})) if one.key == "order"]
        for case, (some, by) in cases.items()
    }
    assert notes == {"asked": ["it counts cores alone"], "nobody asks": [], "by time": []}
