"""Nodes that jobs and sites name, and what jobs say, are the same in a run and when its folder is read again."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

import unrack
from unrack.cli.main import app
from unrack.cluster.spec import Cluster

ROWS = "id,submit,run,tasks,cores,partition,exc_nodes,req_nodes\n1,0,9,1,2,p,,\n2,1,9,1,2,p,{0},\n3,2,9,1,2,p,,{1}\n"


@pytest.mark.parametrize("names", [("n1", "n2"), ("b", "a")])
def test_a_run_with_nodes_by_name_is_explained(names: tuple[str, str], tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(ROWS.format(*names))
    (tmp_path / "study.toml").write_text(
        f'policies = ["easy"]\nworkloads = [{{ trace = "{tmp_path / "jobs.csv"}" }}]\n[[clusters]]\n'
        f'nodes = [{{ count = 2, cores = 2, names = "{",".join(names)}" }}]\n'
        f'site = {{ partitions = [{{ name = "p", nodes = ["{names[0]}", "rack0"] }}] }}\n'
    )
    out = str(tmp_path / "out")
    for words in (["run", str(tmp_path / "study.toml"), "--out", out], ["explain", out, "3"]):
        told = CliRunner().invoke(app, words)
        assert told.exit_code == 0, told.output or told.exception
    assert "on node(s) 1" in told.output
    placed = pl.read_parquet(tmp_path / "out" / "runs" / "*" / "placements.parquet")
    assert placed.sort("job")["first_node"].to_list() == [0, 1, 1]


def test_a_node_that_is_called_as_another_is_numbered_is_still_itself(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text("id,submit,run,tasks,cores,partition\n1,0,9,1,1,p\n2,0,9,1,2,p\n3,0,9,1,3,p\n")
    nodes = [{"count": 1, "cores": cores, "names": name} for cores, name in ((2, "2"), (3, "0"), (4, "1"))]
    cluster = Cluster.from_dict({"nodes": nodes, "site": {"partitions": [{"name": "p", "nodes": ["2"]}]}})
    result = unrack.simulate(cluster, unrack.read_trace(tmp_path / "jobs.csv"), "easy")
    assert result.placements["first_node"].to_list() == [0, 0]
    assert result.jobs["state"].to_list() == ["finished", "finished", "rejected"]


POLICY = """
import numpy as np
from unrack.policy import ListScheduler
def by_team(view, queue, now):
    team = view.column("team").to_list()
    return np.array(sorted(queue.tolist(), key=lambda job: (team[job], job)), np.int64)
Teams = ListScheduler(order=by_team, label="teams")
"""


@pytest.mark.long
@pytest.mark.parametrize("policy", ["easy", "easy(order=multifactor)", "Teams.py:Teams"])
def test_an_explained_run_has_all_that_its_jobs_said(
    policy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shorter limits, how nice they are, columns that a policy of one's own reads: each start is the one of the run."""
    monkeypatch.chdir(tmp_path)
    Path("Teams.py").write_text(POLICY)
    rows = [f"{job},{job // 3},{9 + job % 4},{20 + job},{1 + job % 2},{5 + job % 5},{job * 37 % 90},{'cab'[job % 3]}"
            for job in range(1, 25)]  # fmt: skip
    Path("jobs.csv").write_text("\n".join(["id,submit,run,request,tasks,time_min_s,nice,team", *rows]) + "\n")
    Path("study.toml").write_text(
        f'policies = ["{policy}"]\nworkloads = [{{ trace = "jobs.csv" }}]\n[[clusters]]\n'
        "nodes = [{ count = 3, cores = 1 }]\nsite = { priority = { age = 10, max_age = 60 } }\n"
    )
    assert CliRunner().invoke(app, ["run", "study.toml", "--out", "out"]).exit_code == 0
    starts = dict(pl.read_parquet("out/runs/*/jobs.parquet").select("job", "start_s").iter_rows())
    assert len(set(starts.values())) > 5
    for job, start in list(starts.items())[::3]:
        told = CliRunner().invoke(app, ["explain", "out", str(job), "--json"])
        assert json.loads(told.output)["attempts"][-1]["start_us"] == start * 1e6
