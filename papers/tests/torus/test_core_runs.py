"""Cores of nodes in runs and studies."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

import unrack
from unrack.cli.main import app
from unrack.cluster.spec import Cluster
from unrack.errors import InputError, UnrackError
from unrack.sim.faults import Fault
from unrack.study.grid import load_study
from unrack.study.results.from_folder import finished_run
from unrack.study.runner import run_study

CLUSTER = {
    "name": "laid",
    "nodes": [{"count": 3, "cores": 12, "torus": [2, 3]}, {"name": "other", "count": 1, "cores": 8}],
}
JOBS = {
    "jobs": 200,
    "arrivals": {"gap_s": 10},
    "classes": [{"run_s": {"kind": "exponential", "mean": 60}, "cores": {"kind": "uniform", "min": 1, "max": 8}}],
}


def ids_of(text: str) -> set[int]:
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


@pytest.mark.parametrize("rule", ["best", "quick", "first-fit"])
def test_no_core_is_used_twice_at_one_time_and_every_core_held_is_named(rule: str) -> None:
    cluster = Cluster.from_dict(CLUSTER)
    workload = unrack.generate(JOBS, seed=3)
    faults = [Fault(domain="node1", at_us=300_000_000, repair_us=60_000_000)]
    result = unrack.simulate(cluster, workload, "easy", core_tiles=rule, world=unrack.World(faults=faults))
    cores = result.table("cores")
    assert set(cores["node"].to_list()) == {0, 1, 2}  # the layout of the fourth node is not known
    by_node = result.placements.filter(pl.col("first_node") < 3)
    assert cores.height == by_node["nodes"].sum()
    assert cores.height > 150
    for node in range(3):
        mine = cores.filter(pl.col("node") == node).sort("start_s").rows(named=True)
        for i, row in enumerate(mine):
            ids = ids_of(row["core_ids"])
            assert len(ids) == row["cores"]
            for other in mine[:i]:
                if other["end_s"] > row["start_s"]:
                    assert not ids & ids_of(other["core_ids"])
    jobs = result.jobs
    last = cores.sort("attempt").group_by("job", maintain_order=True).last()
    for row in last.rows(named=True):
        job = jobs.filter(pl.col("job") == row["job"]).row(0, named=True)
        if job["nodes"] == 1 and job["state"] == "finished" and row["attempt"] == job["restarts"] + 1:
            assert (job["core_distance"], job["core_distance_least"]) == (row["distance"], row["least"])
    ratio = result.metrics["core_distance_over_least"]
    assert ratio is not None
    assert ratio == jobs["core_distance"].sum() / jobs["core_distance_least"].sum() >= 1


def test_choosing_cores_changes_no_schedule() -> None:
    cluster, workload = Cluster.from_dict(CLUSTER), unrack.generate(JOBS, seed=4)
    with_cores = unrack.simulate(cluster, workload, "easy", core_tiles="best")
    without = unrack.simulate(cluster, workload, "easy")
    assert with_cores.jobs.select(without.jobs.columns).equals(without.jobs)
    assert "core_distance_over_least" not in without.metrics
    with pytest.raises(InputError, match="a run that has cores"):
        without.table("cores")


def test_a_run_without_a_layout_is_refused_before_it_starts() -> None:
    with pytest.raises(InputError, match="not known"):
        unrack.simulate(Cluster.homogeneous(nodes=1, cores=4), unrack.generate(JOBS, seed=1), core_tiles="best")


STUDY = """
policies = ["easy"]
core_tiles = "best"
[[clusters]]
name = "laid"
nodes = [{ count = 3, cores = 12, torus = [2, 3] }]
[[workloads]]
[workloads.generate]
jobs = 60
arrivals = { gap_s = 10 }
classes = [{ run_s = 60, cores = { kind = "uniform", min = 1, max = 8 } }]
[sweep]
core_tiles = ["best", "first-fit"]
"""


def test_a_study_keeps_the_cores_and_the_run_can_be_read_again(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text(STUDY)
    run_study(load_study(str(path)), tmp_path / "out", jobs=1)
    runs = sorted((tmp_path / "out" / "runs").iterdir())
    ratios = {}
    for folder in runs:
        record = json.loads((folder / "run.json").read_text())
        ratios[record["core_tiles"]] = record["metrics"]["core_distance_over_least"]
        assert pl.read_parquet(folder / "cores.parquet").height == 60
    assert ratios["best"] < ratios["first-fit"]
    again = finished_run(tmp_path / "out", runs[0].name)
    torus = again.cluster().torus
    assert torus is not None
    assert torus.tolist() == [[2, 3]] * 3
    assert again.cluster().digest() == again.record["cluster"]["digest"]


@pytest.mark.parametrize(("old", "new", "words"), [
    ("torus = [2, 3]", "torus = [5, 3]", "to divide the 12"),
    (", torus = [2, 3]", "", "laid out is not known"),
    ('["best", "first-fit"]', '["nearest"]', "core_tiles: rule for cores: got 'nearest', wanted one of best, "),
])  # fmt: skip
def test_a_study_that_cannot_choose_cores_is_refused_with_its_key(
    tmp_path: Path, old: str, new: str, words: str
) -> None:
    path = tmp_path / "s.toml"
    path.write_text(STUDY.replace(old, new))
    code, said = command("run", str(path), "-o", str(tmp_path / "out"))
    assert code == 2
    assert words in said


def command(*words: str) -> tuple[int, str]:
    """The exit code of the command, and what it printed or its error."""
    result = CliRunner().invoke(app, list(words))
    if isinstance(result.exception, UnrackError):
        return result.exception.exit_code, str(result.exception)
    return result.exit_code, result.output
