"""Studies: what is refused, how grids and sweeps expand, what is kept."""

from __future__ import annotations

import csv
import hashlib
import json
import tomllib
from pathlib import Path

import pytest

from unrack.errors import InputError, RunError, StudyError
from unrack.study.grid import load_study
from unrack.study.runner import Progress, run_study

GOOD = """
name = "small"
policies = ["fcfs", "easy(order=sjf)"]

[[clusters]]
nodes = [{count = 4, cores = 2}]

[[workloads]]
name = "some"

[workloads.generate]
jobs = 30
arrivals = {gap_s = 20}
classes = [{run_s = {kind = "exponential", mean = 100}, tasks = {kind = "power-of-two", max = 8}, request_factor = 2}]
"""

FAULTY = {
    "not TOML": ("policies = [", ["line"]),
    "empty": ("", ["clusters", "nothing"]),
    "unknown key": (GOOD.replace("policies", "polices"), ["polices", "line 3", "'policies' perhaps"]),
    "unknown key of a workload": (
        GOOD.replace('name = "some"', 'tracee = "x"'),
        ["workloads[0].tracee", "'trace' perhaps"],
    ),
    "unknown key of a fault": (
        GOOD + "[[faults]]\ndomain = 'node1'\natt = 5\n",
        ["faults[0].att", "'at' perhaps, or one of domain, at, repair_after"],
    ),
    "unknown key of the window": (GOOD + "[measure]\nform = 5\n", ["measure.form", "'from' perhaps"]),
    "a table in place of a list": (
        "faults.domain = 'node1'" + GOOD,
        ["faults: got {'domain': 'node1'}, wanted a list"],
    ),
    "unknown policy": (GOOD.replace('"fcfs"', '"fcsf"'), ["fcsf", "'fcfs' perhaps"]),
    "unknown parameter": (GOOD.replace("order=sjf", "odrer=sjf"), ["odrer", "order"]),
    "unknown order": (GOOD.replace("order=sjf", "order=best"), ["'best'", "fcfs, sjf"]),
    "bad parameter syntax": (GOOD.replace("(order=sjf)", "(sjf)"), ["'sjf'", "key=value"]),
    "bracket left open": (GOOD.replace("(order=sjf)", "(order=sjf"), ["easy(order=sjf", "a name such as"]),
    "policy twice": (GOOD.replace('"easy(order=sjf)"', '"fcfs"'), ["second 'fcfs'"]),
    "policy table without name": (
        GOOD.replace('"fcfs"', "{order = 'sjf'}"),
        ["a table with order", "either name or file"],
    ),
    "policy file missing": (GOOD.replace('"fcfs"', "{file = 'nowhere.py:X'}"), ["nowhere.py", "Python file"]),
    "policy file with a label missing": (
        GOOD.replace('"fcfs"', "{file = 'nowhere.py:X', label = 'mine'}"),
        ["nowhere.py", "Python file"],
    ),
    "policy of wrong type": (GOOD.replace('"fcfs"', "7"), ["policies", "7"]),
    "no policies": (GOOD.replace('["fcfs", "easy(order=sjf)"]', "[]"), ["policies"]),
    "bad interval": (GOOD.replace('"fcfs"', "{name = 'slurm', interval = 'soon'}"), ["interval", "soon"]),
    "negative depth": (GOOD.replace('"fcfs"', "{name = 'slurm', depth = -1}"), ["depth", "-1"]),
    "no nodes": (GOOD.replace("nodes = [{count = 4, cores = 2}]", "name = 'x'"), ["preset, file, nodes"]),
    "zero nodes": (GOOD.replace("count = 4", "count = 0"), ["count", "0"]),
    "negative cores": (GOOD.replace("cores = 2", "cores = -2"), ["cores", "-2"]),
    "cores of wrong type": (GOOD.replace("cores = 2", "cores = 'two'"), ["cores", "two"]),
    "bad memory": (GOOD.replace("cores = 2", "cores = 2, memory = '90 apples'"), ["memory", "apples"]),
    "unknown preset": (GOOD.replace("nodes = [{count = 4, cores = 2}]", "preset = 'kth'"), ["kth-sp2"]),
    "preset that is no text": (
        GOOD.replace("nodes = [{count = 4, cores = 2}]", "preset = []"),
        ["preset", "some text"],
    ),
    "misspelt cluster key": (
        GOOD.replace("nodes = [", "racks = 2\nnodes = ["),
        ["clusters[0].racks", "nodes_per_rack"],
    ),
    "cluster file missing": (GOOD.replace("nodes = [{count = 4, cores = 2}]", "file = 'no.toml'"), ["no.toml"]),
    "preset with nodes": (GOOD.replace("nodes =", "preset = 'kth-sp2'\nnodes ="), ["exactly one"]),
    "trace and generate": (GOOD.replace('name = "some"', 'trace = "x.swf"'), ["either trace or generate"]),
    "reader option that is a key": (
        GOOD.split("[workloads.generate]")[0] + 'trace = "study.toml"\noptions = {path = "x"}',
        ["options", "'path'"],
    ),
    "nested too deeply": ("a = " + "[" * 20_000, ["too deeply"]),
    "measure of no number": (GOOD + "[measure]\nto = nan\n", ["measure.to", "a time"]),
    "trace missing": (GOOD.split("[workloads.generate]")[0] + 'trace = "no.swf"', ["no.swf", "no such file"]),
    "unknown generator key": (GOOD.replace("jobs = 30", "job = 30"), ["generate", "job"]),
    "no jobs": (GOOD.replace("jobs = 30", "jobs = 0"), ["jobs", "0"]),
    "unknown distribution": (GOOD.replace("exponential", "gauss"), ["gauss"]),
    "bad window": (GOOD.replace('name = "some"', 'name = "some"\nwindow = ["2 d", "1 d"]'), ["window"]),
    "empty window": (GOOD.replace('name = "some"', 'name = "some"\nwindow = ["1 w", "2 w"]'), ["no job left"]),
    "negative load factor": (GOOD.replace('name = "some"', 'name = "some"\nscale_load = -1'), ["scale_load", "-1"]),
    "bad ties": ('ties = "whatever"\n' + GOOD, ["ties", "together"]),
    "no seeds": ("seeds = []\n" + GOOD, ["seeds", "at least 1 entry"]),
    "seeds twice": ("seeds = [1, 1]\n" + GOOD, ["seeds", "once"]),
    "negative seed": ("seeds = [-1]\n" + GOOD, ["seeds", "-1"]),
    "measure backwards": (GOOD + '[measure]\nfrom = "2 h"\nto = "1 h"\n', ["measure", "after 'from'"]),
    "measure of nothing": (GOOD + "[measure]\nfrom = 'now'\nto = 5\n", ["measure", "now"]),
    "unknown fault domain": (GOOD + "[[faults]]\ndomain = 'rack9'\nat = 5\nrepair_after = 5\n", ["rack9", "line"]),
    "fault without repair": (GOOD + "[[faults]]\ndomain = 'node1'\nat = 5\n", ["repair_after"]),
    "fault of no time": (GOOD + "[[faults]]\ndomain = 'node1'\nat = 5\nrepair_after = 0\n", ["repair_after"]),
    "sweep of nothing": (GOOD + '[sweep]\n"workloads.scale_load" = []\n', ["sweep"]),
    "sweep to nowhere": (GOOD + '[sweep]\n"policies.colour" = [1]\n', ["policies.colour", "nowhere"]),
    "sweep to a wrong key": (GOOD + '[sweep]\n"workloads.scael" = [1]\n', ["scael"]),
    "sweep of a wrong value": (GOOD + '[sweep]\n"clusters.nodes.0.count" = [4, 0]\n', ["count", "0"]),
    "sweep that changes nothing": (GOOD + '[sweep]\n"workloads.name" = ["a", "a"]\n', ["twice"]),
}


def write(folder: Path, text: str) -> str:
    path = folder / "study.toml"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize("fault", FAULTY)
def test_a_malformed_study_is_refused_with_where_got_and_wanted(fault: str, tmp_path: Path) -> None:
    text, words = FAULTY[fault]
    with pytest.raises(InputError) as caught:
        load_study(write(tmp_path, text))
    message = str(caught.value)
    assert "study.toml" in message
    assert ", wanted " in message
    assert caught.value.exit_code == 2
    for word in words:
        assert word in message


def test_a_study_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no\.toml"):
        load_study(str(tmp_path / "no.toml"))
    with pytest.raises(InputError, match="folder"):
        load_study(str(tmp_path))


def test_a_grid_has_a_run_for_every_combination(tmp_path: Path) -> None:
    text = "seeds = 3\n" + GOOD + '[sweep]\n"workloads.scale_load" = [1.0, 2.0]\n"clusters.nodes.0.count" = [4, 5]\n'
    study = load_study(write(tmp_path, text))
    assert len(study.runs) == 3 * 2 * 2 * 2
    assert len({run.id for run in study.runs}) == len(study.runs)
    assert {len(run.cluster) for run in study.runs} == {4, 5}
    faster = [run for run in study.runs if run.parameters["workloads.scale_load"] == 2.0]
    assert all(run.workload.jobs.submit_us[-1] < 400_000_000 for run in faster)


def test_a_trace_with_jitter_is_another_for_every_seed_and_without_it_seeds_are_refused(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text("submit_s,run_s,tasks\n" + "".join(f"{100 * i},50,1\n" for i in range(20)))
    text = "seeds = 3\n" + GOOD[: GOOD.index("[workloads.generate]")] + 'trace = "jobs.csv"\n'
    study = load_study(write(tmp_path, text + 'jitter = "30 s"\n'))
    assert len({run.workload.jobs.digest() for run in study.runs}) == 3
    with pytest.raises(StudyError, match="nothing is drawn"):
        load_study(write(tmp_path, text))


def test_a_swept_policy_parameter_goes_to_the_policies_that_have_it(tmp_path: Path) -> None:
    text = GOOD.replace('"fcfs"', '"slurm(depth=5)"') + '[sweep]\n"policies.interval" = ["10 s", "60 s"]\n'
    study = load_study(write(tmp_path, text))
    slurm = [run.policy.make() for run in study.runs if run.policy.name == "slurm"]
    assert [policy.interval_us for policy in slurm] == [10_000_000, 60_000_000]
    assert [policy.depth for policy in slurm] == [5, 5]


def test_names_alone_do_not_make_two_runs_one(tmp_path: Path) -> None:
    study = load_study(write(tmp_path, GOOD))
    other = load_study(write(tmp_path, GOOD.replace("count = 4", "count = 5")))
    assert not {run.id for run in study.runs} & {run.id for run in other.runs}


def digests(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_the_same_study_gives_the_same_bytes_for_any_number_of_processes(tmp_path: Path) -> None:
    study = load_study(write(tmp_path, "seeds = 2\n" + GOOD))
    run_study(study, tmp_path / "one", jobs=1)
    run_study(study, tmp_path / "two", jobs=2)
    assert digests(tmp_path / "one") == digests(tmp_path / "two")
    assert len(digests(tmp_path / "one")) == 2 + 4 * len(study.runs)


def test_finished_runs_are_kept_and_only_new_ones_run(tmp_path: Path) -> None:
    run_study(load_study(write(tmp_path, GOOD)), tmp_path / "out")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "runs").glob("*/run.json")}
    more = load_study(write(tmp_path, GOOD.replace('"fcfs"', '"fcfs", "conservative"')))
    seen: list[Progress] = []
    rows = run_study(more, tmp_path / "out", told=seen.append)
    assert seen[0].kept == 2
    assert seen[-1].runs_done == seen[-1].runs == 3
    assert {row["policy"] for row in rows} == {"fcfs", "easy(order=sjf)", "conservative"}
    for path, written in before.items():
        assert path.stat().st_mtime_ns == written


def test_the_summary_has_a_row_a_run_and_every_metric(tmp_path: Path) -> None:
    from unrack.metric.table import METRICS

    study = load_study(write(tmp_path, GOOD))
    run_study(study, tmp_path / "out")
    rows = list(csv.DictReader((tmp_path / "out" / "summary.csv").open()))
    assert [row["run"] for row in rows] == [run.id for run in study.runs]
    assert list(rows[0])[:5] == ["run", "cluster", "workload", "policy", "seed"]
    assert list(rows[0])[5:] == list(METRICS)
    record = json.loads((tmp_path / "out" / "runs" / rows[0]["run"] / "run.json").read_text())
    assert float(rows[0]["wait_s_mean"]) == record["metrics"]["wait_s_mean"]


def test_the_resolved_study_runs_again_to_the_same_runs(tmp_path: Path) -> None:
    study = load_study(write(tmp_path, GOOD))
    run_study(study, tmp_path / "out")
    again = load_study(str(tmp_path / "out" / "study.toml"))
    assert [run.id for run in again.runs] == [run.id for run in study.runs]
    assert tomllib.loads((tmp_path / "out" / "study.toml").read_text())["seeds"] == [0]


BROKEN_POLICY = """
class Broken:
    def decide(self, view, memory, now):
        from unrack.policy import Lease, Start
        job = int(view.queue[0]) if view.waiting else 0
        return [Start(Lease.on(job, [0], [1], [99], [0]))], memory
"""


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.long)])
def test_a_run_that_fails_says_which_and_why_and_the_others_are_kept(tmp_path: Path, jobs: int) -> None:
    (tmp_path / "broken.py").write_text(BROKEN_POLICY)
    study = load_study(write(tmp_path, GOOD.replace('"fcfs"', '"fcfs", "broken.py:Broken"')))
    with pytest.raises(RunError, match=r"(?s)1 of 3 runs failed.*Broken.*start job") as caught:
        run_study(study, tmp_path / "out", jobs=jobs)
    assert caught.value.exit_code == 1
    assert len(list((tmp_path / "out" / "runs").glob("*/run.json"))) == 2


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.long)])
def test_a_policy_file_that_raises_fails_its_own_run_only(tmp_path: Path, jobs: int) -> None:
    (tmp_path / "raising.py").write_text("class Raising:\n    def decide(self, view, memory, now):\n        1 / 0\n")
    study = load_study(write(tmp_path, GOOD.replace('"fcfs"', '"raising.py:Raising", "fcfs"')))
    with pytest.raises(RunError, match=r"(?s)1 of 3 runs failed.*Raising.*ZeroDivisionError: division by zero"):
        run_study(study, tmp_path / "out", jobs=jobs)
    assert len(list((tmp_path / "out" / "runs").glob("*/run.json"))) == 2


def test_a_directory_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    study = load_study(write(tmp_path, GOOD))
    for place in (tmp_path / "study.toml", tmp_path / "study.toml" / "below", tmp_path / "a\0b"):
        with pytest.raises(InputError, match="a directory that can be made"):
            run_study(study, place)


def test_random_faults_differ_by_seed_and_are_the_same_for_a_seed(tmp_path: Path) -> None:
    text = "seeds = 2\n" + GOOD + "[random_faults]\nmtbf = '1 h'\nmttr = '5 min'\n"
    one, two = load_study(write(tmp_path, text)), load_study(write(tmp_path, text))
    assert [run.world.faults for run in one.runs] == [run.world.faults for run in two.runs]
    assert one.runs[0].world.faults != one.runs[1].world.faults


def test_a_policy_file_of_any_kind_gives_the_same_runs_every_time_it_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(BROKEN_POLICY.replace("99", "tasks").replace("Broken", "Mine"))
    text = GOOD.replace('"fcfs"', '"fcfs", "mine.py:Mine"')
    first = [run.id for run in load_study(write(tmp_path, text)).runs]
    assert [run.id for run in load_study(write(tmp_path, text)).runs] == first
    (tmp_path / "mine.py").write_text("# changed\n" + (tmp_path / "mine.py").read_text())
    assert [run.id for run in load_study(write(tmp_path, text)).runs] != first


def test_a_study_that_has_something_to_run_leaves_no_outdated_summary(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(BROKEN_POLICY)
    run_study(load_study(write(tmp_path, GOOD)), tmp_path / "out")
    assert (tmp_path / "out" / "summary.csv").is_file()
    with pytest.raises(RunError):
        run_study(load_study(write(tmp_path, GOOD.replace('"fcfs"', '"broken.py:Broken"'))), tmp_path / "out")
    rows = (tmp_path / "out" / "summary.csv").read_text().splitlines()[1:]
    assert [row.split(",")[3] for row in rows] == ["easy(order=sjf)"], "of those that did run"
