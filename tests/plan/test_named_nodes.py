"""Nodes with names in another number: of a slurm.conf, and as kubectl tells of them."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tries import draws
from typer.testing import CliRunner

from unrack.cli.main import app
from unrack.cluster.file import content_of
from unrack.cluster.node_names import recount
from unrack.cluster.spec import Cluster
from unrack.study.input.inputs import Document
from unrack.study.input.sweep import set_value

CONF = """ClusterName=lab
NodeName=cn[001-{0:03d}] CPUs=32 RealMemory=256000 Feature=old
NodeName=gn[01-{1:02d}] CPUs=32 RealMemory=512000 Gres=gpu:a100:4 Feature=gpu
NodeName=gn9{2} CPUs=64 RealMemory=512000 Gres=gpu:2
PartitionName=batch Nodes=ALL Default=YES
Licenses=matlab:3
"""
counts = st.integers(1, 12)


def conf(folder: Path, a: int, b: int, c: int) -> dict[str, Any]:
    (folder / "slurm.conf").write_text(CONF.format(a, b, "0" if c == 1 else f"[0-{c - 1}]"))
    return content_of(folder / "slurm.conf")


def built(content: dict[str, Any]) -> tuple[Any, ...]:
    """What each node is: name, cores, MB, GPUs."""
    plain = copy.deepcopy(content)
    for kind in plain["nodes"]:
        kind.pop("name", None)  # the label of a class stays
    cluster = Cluster.from_dict(plain, "the file")
    return cluster.names, cluster.cores.tolist(), cluster.memory_mb.tolist(), plain.get("gpus"), plain.get("counted")


@draws(40)
@given(counts, counts, st.integers(1, 9), st.lists(st.tuples(st.integers(0, 2), st.integers(1, 9)), max_size=4))
def test_the_cluster_is_that_of_a_configuration_with_so_many_nodes(
    tmp_path_factory: pytest.TempPathFactory, a: int, b: int, c: int, steps: list[tuple[int, int]]
) -> None:
    folder = tmp_path_factory.mktemp("conf")
    now = [a, b, c]
    content = conf(folder, *now)
    for index, count in steps:
        before, now[index] = now[index], count
        content["nodes"][index]["count"] = count
        recount(content, index, before)
    assert built(content) == built(conf(folder, *now))


def test_further_nodes_are_like_the_last_and_lists_lose_nodes_that_are_gone() -> None:
    content = {
        "nodes": [{"count": 4, "cores": 8, "names": "a[1-4]"}, {"count": 2, "cores": 8, "names": "b[1-2]"}],
        "gpus": {
            "machines": [{"machine": {"gpus": 2, "nodes": "0-3"}, "nodes": "2-3"}, {"machine": "dgx-1", "nodes": "5"}]
        },
        "failure_domains": {"chassis": {"left": ["0-1", "4"], "right": ["2-3", "5"]}, "row": {"nodes_each": 2}},
        "domains": {"few": ["3"], "all": ["0-5"]},
        "drained": "a[2,4],b1",
    }  # fmt: skip
    grown, shrunk = copy.deepcopy(content), copy.deepcopy(content)
    for table, count in ((grown, 6), (shrunk, 2)):
        table["nodes"][0]["count"] = count  # type: ignore[index]
        recount(table, 0, 4)
    assert grown["nodes"][0]["names"] == "a[1-6]"  # type: ignore[index]
    assert [one["nodes"] for one in grown["gpus"]["machines"]] == ["2-5", "7"]  # type: ignore[index]
    assert grown["gpus"]["machines"][0]["machine"] == {"gpus": 2, "nodes": "0-3"}, "not ours"  # type: ignore[index]
    assert grown["failure_domains"]["chassis"] == {"left": ["0-1", "6"], "right": ["2-5", "7"]}  # type: ignore[index]
    assert (grown["domains"], grown["drained"]) == ({"few": ["3-5"], "all": ["0-7"]}, "a[2,4],b1")
    assert [one["nodes"] for one in shrunk["gpus"]["machines"]] == ["3"]  # type: ignore[index]
    chassis = {"chassis": {"left": ["0-1", "2"], "right": ["3"]}, "row": {"nodes_each": 2}}
    assert (shrunk["failure_domains"], shrunk["domains"], shrunk["drained"]) == (chassis, {"all": ["0-3"]}, "a2,b1")


@pytest.mark.parametrize(
    ("names", "count", "wanted"),
    [
        ("ip-10-0-1-9.ec2.internal", 3, "ip-10-0-1-9.ec2.internal,ip-10-0-1-10.ec2.internal,ip-10-0-1-11.ec2.internal"),
        ("login", 3, "login,login-2,login-3"),
        ("n[99]", 2, "n[99-100]"),
        ("a1,b7", 3, "a1,b[7-8]"),
        ("r[1-2]n[1-2]", 5, "r1n[1-2],r2n[1-2],r2n4"),
    ],
)
def test_names_go_on_by_their_last_number_and_skip_what_is_taken(names: str, count: int, wanted: str) -> None:
    from unrack.slurm_text.hostlists import expand

    before = len(expand(names))
    table = {"nodes": [{"count": count, "cores": 1, "names": names}, {"count": 1, "cores": 1, "names": "r2n3"}]}
    recount(table, 0, before)
    assert expand(table["nodes"][0]["names"]) == expand(wanted)  # type: ignore[arg-type]


@pytest.mark.parametrize("names", ["n[1-3]", "n[1-", 7])
def test_names_that_were_wrong_stay_so_and_are_refused_as_before(names: Any) -> None:
    table = {"nodes": [{"count": 5, "cores": 1, "names": names}]}
    recount(table, 0, 2)
    assert table["nodes"][0]["names"] == names


def test_all_classes_at_once(tmp_path: Path) -> None:
    conf(tmp_path, 4, 2, 1)
    study = {"clusters": [{"file": "slurm.conf"}]}
    document = Document("study", tmp_path, study)
    assert set_value(study, "clusters.nodes.count", 3, document)
    content = dict(study["clusters"][0])
    assert built({**content, "name": "lab"}) == built(conf(tmp_path, 3, 3, 3))


JOBS = """
[[workloads]]
generate = {jobs = 20, arrivals = {gap_s = 60}, classes = [{run_s = {kind = "exponential", mean = 600}, cores = 32}]}
"""
PODS = {
    "apiVersion": "v1",
    "kind": "List",
    "items": [
        {
            "kind": "Node",
            "metadata": {"name": f"gke-pool-{i}.internal", "labels": {}},
            "status": {
                "allocatable": {"cpu": "32", "memory": "64Gi", "nvidia.com/gpu": "8"},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }
        for i in range(3)
    ],
}


@pytest.mark.parametrize("kind", ["slurm.conf", "nodes.json"])
def test_a_plan_varies_named_nodes(kind: str, tmp_path: Path) -> None:
    conf(tmp_path, 2, 2, 1)
    (tmp_path / "nodes.json").write_text(json.dumps(PODS))
    (tmp_path / "study.toml").write_text(f"policies = ['easy']\n[[clusters]]\nfile = '{kind}'\n{JOBS}")
    command = [
        "plan",
        str(tmp_path / "study.toml"),
        "-j",
        "1",
        "--out",
        str(tmp_path / "out"),
        "--json",
        "--seeds",
        "1",
    ]
    command += ["--goal", "wait_s_max < 30 d", "--vary", "clusters.0.nodes.0.count=1..7/3", "--search", "every"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, (done.output, done.exception)
    assert json.loads(done.output)["lines"][0]["systems"] == 3
