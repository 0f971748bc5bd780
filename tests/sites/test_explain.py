"""Why jobs wait, in words of the site: limits, partitions, other jobs, times; and who is in whose way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import unrack
from unrack.cli.main import app
from unrack.cluster.spec import Cluster
from unrack.policy.table import parse_policy
from unrack.sim.explained.job import Story, explain

SITE: dict[str, Any] = {
    "partitions": [
        {"name": "all"},
        {"name": "left", "nodes": ["0"]},
        {"name": "right", "nodes": ["1"], "limits": [{"per": "user", "amounts": {"jobs": 1}}]},
    ]
}
HEAD = "id,submit,run,request,tasks,cores,user,partition,after,begin_s\n"


def reasons(folder: Path, rows: str, job: int, policy: str = "easy") -> list[tuple[float, float, str]]:
    """From when to when a job waited for what."""
    (folder / "jobs.csv").write_text(HEAD + rows)
    jobs = unrack.read_trace(str(folder / "jobs.csv")).jobs
    cluster = Cluster.from_dict({"nodes": [{"count": 2, "cores": 2}], "site": SITE})
    story: Story = explain(cluster, jobs, parse_policy(policy), job - 1)
    return [(spell.from_us / 1e6, spell.to_us / 1e6, str(spell.reason)) for spell in story.spells]


def test_a_limit_says_which_how_much_is_asked_and_what_is_free(tmp_path: Path) -> None:
    rows = "1,0,60,60,1,1,ann,right,,\n2,5,60,60,1,1,ann,right,,\n"
    assert reasons(tmp_path, rows, 2) == [(5, 60, "limit: jobs of user ann, partition right (asked 1, free 0)")]


def test_a_full_partition_is_named(tmp_path: Path) -> None:
    rows = "1,0,60,60,1,2,ann,left,,\n2,5,60,60,1,1,ann,left,,\n"
    assert reasons(tmp_path, rows, 2) == [
        (5, 60, "no-room: cores on one node, on nodes of partition left (asked 1, free 0)")
    ]


def test_nodes_that_are_kept_for_others_are_told(tmp_path: Path) -> None:
    site = {
        "partitions": [{"name": "left", "nodes": ["0"]}],
        "reservations": [
            {"name": "r", "nodes": ["0"], "start": 50, "duration": 20, "users": ["bob"]},
            {"name": "late", "nodes": ["1"], "start": 90, "duration": 100},
        ],
    }
    (tmp_path / "jobs.csv").write_text(
        "id,submit,run,request,user,partition,reservation\n1,5,60,60,ann,left,\n2,6,9,9,bob,,late\n"
    )
    jobs = unrack.read_trace(str(tmp_path / "jobs.csv")).jobs
    cluster = Cluster.from_dict({"nodes": [{"count": 2, "cores": 2}], "site": site})
    for policy in ("easy", "conservative", "first-fit"):
        story = explain(cluster, jobs, parse_policy(policy), 0)
        assert [(spell.to_us / 1e6, str(spell.reason)) for spell in story.spells] == [
            (70, "no-room: cores on one node, on nodes of partition left, 1 of which are kept free for a part of the "
                 "time that it asks for (asked 1, free 0)")
        ]  # fmt: skip
        assert explain(cluster, jobs, parse_policy(policy), 1).attempts[0].start_us == 90_000_000


def test_a_dependency_names_the_job_and_a_time_is_told(tmp_path: Path) -> None:
    rows = "1,0,60,60,1,1,ann,all,,\n2,5,60,60,1,1,ann,all,1,90\n"
    assert reasons(tmp_path, rows, 2) == [
        (5, 60, "dependency: job 1 to end well"), (60, 90, "dependency: its time to begin, 90 s")
    ]  # fmt: skip


def test_one_of_several_jobs_is_enough(tmp_path: Path) -> None:
    rows = "1,0,60,60,1,1,ann,all,,\n2,0,60,60,1,1,bob,all,,\n3,5,60,60,1,1,ann,all,afterany:1?afterany:2,\n"
    ((_, until, told),) = reasons(tmp_path, rows, 3)
    assert (until, told) == (60, "dependency: job 1 to end or job 2 to end")


@pytest.mark.parametrize(("policy", "code"), [("fcfs", "behind"), ("easy", "would-delay")])
def test_a_head_of_other_nodes_is_told_with_its_nodes(policy: str, code: str, tmp_path: Path) -> None:
    rows = (
        "1,0,60,60,1,2,ann,left,,\n"  # fills the left node
        "2,1,60,60,1,2,bob,left,,\n"  # waits there, and holds up nobody on the right
        "3,2,60,60,2,2,cy,all,,\n"  # waits for both nodes
        "4,5,200,200,1,1,ann,right,,\n"
    )
    told = reasons(tmp_path, rows, 4, policy)
    if policy == "easy":  # job 3 meets job 2 on the left, so that it is no head of its own
        assert told == []
    else:
        assert told[0][2] == f"{code}: job 3, which waits for nodes of the cluster"


def test_under_easy_a_head_of_more_nodes_is_in_the_way(tmp_path: Path) -> None:
    rows = "1,0,60,60,1,2,ann,left,,\n2,2,60,60,2,2,cy,all,,\n3,5,200,200,1,1,ann,right,,\n"
    assert reasons(tmp_path, rows, 3)[0][2] == "would-delay: job 2, which waits for nodes of the cluster"


def test_who_waits_for_a_limit_is_no_head(tmp_path: Path) -> None:
    rows = "1,0,60,60,1,1,ann,right,,\n2,1,60,60,1,1,ann,right,,\n3,2,60,60,2,2,cy,all,,\n4,5,200,200,1,1,bob,right,,\n"
    assert reasons(tmp_path, rows, 4)[0][2].startswith("would-delay: job 3")


def test_a_kept_run_is_explained_again_with_its_site_and_dependencies(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(
        "id,submit,run,request,cores,user,partition,dependency,state\n"
        "1,0,60,60,1,ann,right,,FAILED\n2,5,60,60,1,ann,right,,COMPLETED\n3,5,60,60,1,bob,right,afternotok:1,COMPLETED\n"
    )
    (tmp_path / "study.toml").write_text(
        "policies = ['easy']\n[[clusters]]\nnodes = [{count = 2, cores = 2}]\n[[clusters.site.partitions]]\n"
        "name = 'right'\nnodes = ['1']\nlimits = [{per = 'user', amounts = {jobs = 1}}]\n"
        "[[workloads]]\ntrace = 'jobs.csv'\n"
    )
    run = CliRunner()
    done = run.invoke(app, ["run", str(tmp_path / "study.toml"), "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    told = run.invoke(app, ["explain", str(tmp_path / "out"), "2"]).output
    assert "limit: jobs of user ann, partition right (asked 1, free 0)" in told
    told = run.invoke(app, ["explain", str(tmp_path / "out"), "3"]).output
    assert "dependency: job 1 to fail" in told
    assert "started     60 s" in told
