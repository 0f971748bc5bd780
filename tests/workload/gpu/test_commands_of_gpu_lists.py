from __future__ import annotations

import gzip
import json
import sys
import tomllib
from pathlib import Path
from typing import Any

import gpu_lists as lists
import pytest

from unrack.cli import main as command
from unrack.cluster.formats.described import converted
from unrack.cluster.formats.reading import described
from unrack.cluster.spec import Cluster
from unrack.errors import ClusterError


def call(*words: str, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["unrack", *words])
    with pytest.raises(SystemExit) as caught:
        command.main()
    return int(caught.value.code or 0)


@pytest.fixture
def nodes(tmp_path: Path) -> Path:
    (tmp_path / "nodes.csv").write_text(lists.NODES)
    return tmp_path / "nodes.csv"


def keys(path: Path, *, milli: bool = False, all_nodes: bool = False) -> dict[str, Any]:
    system = described(path, path.read_text(), str(path), milli=milli)
    assert system is not None
    return converted(system, all_nodes=all_nodes).content


def test_equal_nodes_that_follow_each_other_are_one_class(nodes: Path) -> None:
    made = keys(nodes)
    assert [tuple(kind.values()) for kind in made["nodes"]] == [
        (2, 64, 262144, "n[1-2]", "n[1-2]"), (1, 96, 262144, "n3", "n3"), (1, 96, 393216, "n5", "n5")
    ]  # fmt: skip
    assert Cluster.load(nodes).cores.tolist() == [64, 64, 96, 96]
    every = keys(nodes, milli=True, all_nodes=True)["nodes"]
    assert [(kind["count"], kind["cores"]) for kind in every] == [
        (1, 32000),
        (2, 64999),
        (1, 96000),
        (1, 96000),
        (1, 96000),
    ]


def test_the_cluster_file_says_which_nodes_have_which_gpus(nodes: Path) -> None:
    content = keys(nodes, all_nodes=True)
    gpus = content.pop("gpus")
    assert gpus == [
        {"nodes": "1-2", "machine": {"gpus": 2, "model": "P100"}},
        {"nodes": "3", "machine": {"gpus": 2, "model": "P100"}},
        {"nodes": "5", "machine": {"gpus": 8, "model": "G2"}},
    ]
    cluster = Cluster.from_dict(content)
    assert (cluster.name, cluster.cores.tolist()) == ("nodes", [32, 64, 64, 96, 96, 96])
    assert cluster.memory_mb.tolist() == [262144] * 5 + [393216]


def test_nodes_apart_stay_apart_in_the_order_of_the_list(nodes: Path) -> None:
    nodes.write_text(lists.NODES + "n6,64000,262144,2,P100\n")
    assert [kind["names"] for kind in keys(nodes)["nodes"]] == ["n[1-2]", "n3", "n5", "n6"]


def test_a_list_of_nodes_is_converted_by_the_command(
    nodes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    packed = tmp_path / "nodes.csv.gz"
    packed.write_bytes(gzip.compress(nodes.read_bytes()))
    out = str(tmp_path / "cluster.toml")
    assert call("cluster", "convert", str(packed), "--out", out, "--cpu", "milli", monkeypatch=monkeypatch) == 0
    assert "2 nodes left out (without GPUs: 2); --all-nodes keeps them" in (said := capsys.readouterr().out)
    assert "4 nodes, " in said
    assert ", 14 GPUs\n" in said
    content = tomllib.loads(Path(out).read_text())
    assert content["nodes"][0] == {
        "count": 2, "cores": 64999, "memory": 262144, "name": "n[1-2]", "names": "n[1-2]",
    }  # fmt: skip
    assert content["gpus"][0]["nodes"] == "0-1"
    assert call("cluster", "convert", str(nodes), "--out", out, "--all-nodes", monkeypatch=monkeypatch) == 0
    assert "6 nodes, 448 cores, 14 GPUs\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [(",gpu,", ",gpus,", "column gpu"), ("64999,262144,2,P100\nn2", "-4,262144,2,P100\nn2", "line 3, cpu_milli"),
     ("393216,8", "393216,eight", "line 7, gpu"), (",G2", "", "line 7: got 4 fields"),
     ("96000,393216", "96000,x", "line 7, memory_mib"), ("n5", "n4", "line 7, sn")],
)  # fmt: skip
def test_a_node_that_cannot_be_is_refused_with_line_and_column(
    old: str, new: str, message: str, nodes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    assert old in lists.NODES
    nodes.write_text(lists.NODES.replace(old, new, 1))
    words = ("cluster", "convert", str(nodes), "--out", str(tmp_path / "c.toml"), "--all-nodes")
    assert call(*words, monkeypatch=monkeypatch) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "c.toml").exists()


def test_a_list_without_gpus_or_a_file_that_is_none_is_refused(nodes: Path, tmp_path: Path) -> None:
    nodes.write_text("\n".join(lists.NODES.splitlines()[:2]))
    with pytest.raises(ClusterError, match="no node that is in use"):
        Cluster.load(nodes)
    with pytest.raises(ClusterError, match="a readable text file"):
        Cluster.load(tmp_path / "none.csv")


def test_trace_info_tells_of_gpus_parts_and_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "jobs.csv").write_text(lists.MODELS)
    assert call("trace", "info", str(tmp_path / "jobs.csv"), "--json", monkeypatch=monkeypatch) == 0
    contents: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert contents["gpus"] == {
        "jobs": 3, "gpus": 2.5, "sizes": {"1": 2, "2": 1}, "shared": 2, "fragments": {"500": 2}, "slices": 0,
        "models": {"T4": 1, "V100M16|V100M32": 1},
    }  # fmt: skip
    assert call("trace", "info", str(tmp_path / "jobs.csv"), monkeypatch=monkeypatch) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "3 jobs ask for 2.5 (1: 2, 2: 1 jobs); 2 for parts" in shown
    assert "models: T4: 1, V100M16|V100M32: 1" in shown


def test_published_nodes_have_6212_gpus(data: Path) -> None:
    path = data / "gpu" / "openb_node_list_all_node.csv"
    made = keys(path)
    assert sum(kind["count"] for kind in made["nodes"]) == 1213
    machines = zip(made["nodes"], made["gpus"], strict=True)
    assert sum(kind["count"] * one["machine"]["gpus"] for kind, one in machines) == 6212
    assert sum(kind["count"] for kind in keys(path, all_nodes=True)["nodes"]) == 1523
