"""The key ``gpus`` of a cluster: its forms, what is refused and where, files of profiles, and what is written again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from plain_gpus import cluster_of, fleet_of, gpu_jobs, run

from unrack.cluster.spec import Cluster
from unrack.errors import ClusterError
from unrack.resources.gpus.profiles import deep_learning, read_profiles

BOX = """name = "box"
[[sockets]]
gpus = [0, 1]
[[sockets]]
gpus = [2]
"""


def sizes(table: Any, nodes: int = 3) -> list[int]:
    """GPUs of every node."""
    gpus = fleet_of(table, nodes).gpus
    return [0 if kind < 0 else int(gpus.size[kind]) for kind in gpus.kind.tolist()]


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ("minsky", [4, 4, 4]),
        ({"machine": "dgx-1", "nodes": "1-2"}, [0, 8, 8]),
        ({"machine": {"gpus": 6}, "profiles": "deep-learning"}, [6, 6, 6]),
        ([{"machine": "minsky", "nodes": "2"}, {"machine": {"gpus": 1}, "nodes": "0"}], [1, 0, 4]),
        ({"machines": [{"machine": "pcie-8", "nodes": "0-1"}], "profiles": ""}, [8, 8, 0]),
        ({"machine": {"base": "minsky", "name": "mine"}}, [4, 4, 4]),
    ],
)
def test_the_key_has_four_forms(table: Any, expected: list[int]) -> None:
    assert sizes(table) == expected


@pytest.mark.parametrize(
    ("machine", "socket", "near", "far"),
    [
        ({"gpus": 4}, [0, 0, 0, 0], 2, 2),
        ({"gpus": 8}, [0, 0, 0, 0, 1, 1, 1, 1], 2, 42),
        ({"gpus": 4, "per_socket": 2}, [0, 0, 1, 1], 2, 42),
        ({"gpus": 4, "per_socket": 2, "nvlink": "socket"}, [0, 0, 1, 1], 1, 42),
        ({"gpus": 4, "per_socket": 2, "nvlink": "all"}, [0, 0, 1, 1], 2, 2),
        ({"gpus": 4, "per_switch": 2}, [0, 0, 0, 0], 2, 4),
        ({"gpus": 3, "per_socket": 2}, [0, 0, 1], 2, 42),
    ],
)
def test_a_machine_in_a_few_words(machine: dict[str, Any], socket: list[int], near: int, far: int) -> None:
    found = fleet_of({"machine": machine}).machines[0]
    assert found.socket.tolist() == socket
    assert (found.distance[0, 1], found.distance[0, -1]) == (near, far)


@pytest.mark.parametrize(
    ("table", "where", "want"),
    [
        (7, "gpus", ""),
        ({"machine": "minsky", "count": 2}, "gpus.machines.0.count", "machine"),
        ({"machines": [{"nodes": "0"}]}, "gpus.machines.0.machine", "key"),
        ({"machine": "minski"}, "gpus.0.machine", "minsky"),
        ({"machine": {"gpus": 0}}, "gpus.0.machine.gpus", ""),
        ({"machine": {"gpus": 17}}, "gpus.0.machine.gpus", ""),
        ({"machine": {"gpus": 2, "nvlink": "some"}}, "gpus.0.machine.nvlink", ""),
        ({"machine": {"gpus": 2, "slots": 1}}, "gpus.0.machine.slots", "per_socket"),
        ({"machine": "minsky", "nodes": "0-9"}, "gpus.0.nodes", "0 to 2"),
        ({"machine": "minsky", "nodes": "two"}, "gpus.machines.0.nodes", ""),
        ({"machine": "minsky", "nodes": "2-1"}, "gpus.0.nodes", "0 to 2"),
        ([{"machine": "minsky"}, {"machine": "dgx-1", "nodes": "1"}], "gpus.1.nodes", "other nodes"),
        ({"machine": "minsky", "profiles": "no such file"}, "gpus.profiles", "deep-learning"),
        ({"machine": {"sockets": [{"gpus": [i]} for i in range(17)]}}, "gpus.0.machine", "16 or fewer"),
    ],
)
def test_wrong_keys_are_refused_where_they_are(table: Any, where: str, want: str) -> None:
    with pytest.raises(ClusterError) as error:
        fleet_of(table, 3)
    assert where in error.value.where
    assert want in error.value.want


def test_a_fleet_from_a_machine_file_is_written_out_and_read_again(tmp_path: Path) -> None:
    """``run.json`` needs no file beside it: what it says is the same cluster."""
    (tmp_path / "box.toml").write_text(BOX)
    cluster = cluster_of(
        [{"machine": str(tmp_path / "box.toml"), "nodes": "0"}, {"machine": "minsky", "nodes": "1"}], 2
    )
    written = json.loads(json.dumps(cluster.places.written()))
    (tmp_path / "box.toml").unlink()
    again = Cluster.from_dict({"nodes": [{"count": 2, "cores": 64}], **written})
    fleets = [one.places.installed["gpus"] for one in (cluster, again)]
    assert fleets[0].machines == fleets[1].machines  # type: ignore[attr-defined]
    assert again.places.identity() == cluster.places.identity()
    assert again.places.written() == written
    jobs = gpu_jobs({"count": 2}, {"count": 3}, {"count": 1})
    claims = [run(one, jobs, "fcfs(gpus=topology)").table("claims") for one in (cluster, again)]
    assert claims[0].equals(claims[1])


def test_the_profiles_of_the_paper() -> None:
    found = deep_learning()
    assert (found.apart["alexnet/1"], found.apart["googlenet/1"]) == (1.27, 1.0)
    assert found.beside["alexnet/1", "alexnet/1"] == 1.30
    apart, beside = found.tables
    assert (apart[0], beside[0].tolist()) == (1.0, [1.0] * len(beside)), "who is not known slows nobody down"


TIMES = "kind,application,batch_size,gpus,other_application,other_batch_size,other_gpus,placement,time_s\n"


def test_factors_from_measured_times(tmp_path: Path) -> None:
    """A failed run and one faster than alone: the first is left out and counted, the second is as alone."""
    (tmp_path / "times.csv").write_text(
        TIMES + "solo,bvlc_alexnet,4,2,,,,intra,100\nsolo,bvlc_alexnet,4,2,,,,inter,125\n"
        "solo,googlenet,4,2,,,,intra,200\nsolo,googlenet,4,2,,,,inter,190\n"
        "pair,bvlc_alexnet,4,2,googlenet,4,2,intra,130\npair,bvlc_alexnet,4,2,bvlc_alexnet,4,2,intra,900\n"
        "pair,googlenet,4,2,bvlc_alexnet,4,2,intra,150\n"
    )
    found = read_profiles(str(tmp_path / "times.csv"), "profiles")
    assert found.apart == {"alexnet/4": 1.25, "googlenet/4": 1.0}
    assert found.beside["alexnet/4", "googlenet/4"] == 1.3
    assert found.beside["alexnet/4", "alexnet/4"] == 1.3, "the middle of what is known of it"
    assert found.beside["googlenet/4", "alexnet/4"] == 1.0
    assert found.left_out == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kind,application,other,factor\napart,a,,0.5\n", "row 2"),
        ("kind,application,other,factor\nnear,a,,1.5\n", "apart or beside"),
        ("kind,application,other,factor\napart,,,1.5\n", "row 2"),
        ("kind,application,other,factor\napart,a,,much\n", "no number"),
        ("kind,application,other,factor\nbeside,a,b,2\nbeside,b,a,1.1\nbeside,a,b,1.5\n", "row 4: beside a b again"),
        ("kind,application,other,factor\napart,a,,2\napart,a,,1.5\n", "row 3: apart a again"),
        ("a,b\n1,2\n", "kind, application"),
    ],
)
def test_wrong_profiles_are_refused(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text(text)
    with pytest.raises(ClusterError) as error:
        read_profiles(str(tmp_path / "p.csv"), "gpus.profiles")
    assert words in str(error.value)
